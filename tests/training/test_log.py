"""The log of a run."""

import json
from pathlib import Path

from seqcredit.training.log import Log, log_entries


def test_the_log_is_cut_back_to_the_checkpoint(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl")
    log.write({"event": "a"})
    offset = log.offset
    log.write({"event": "lost"})
    again = Log(tmp_path / "log.jsonl", offset)
    again.write({"event": "b"})
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["a", "b"]


def test_a_line_that_is_being_written_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    assert log_entries(path) == []
    log = Log(path)
    log.write({"event": "a", "time": 1})
    with path.open("a") as file:
        file.write('{"event": "b", "td": 1')
    (entry,) = log_entries(path)
    assert (list(entry), entry["event"]) == (["event", "time"], "a")
    assert entry["time"] > 1  # when it was written


def test_others_may_listen_and_one_process_writes(tmp_path: Path) -> None:
    heard: list[object] = []
    silent = Log(tmp_path / "silent.jsonl", writes=False)
    silent.copies.append(heard.append)
    silent.write({"event": "a"})
    assert heard == []
    assert not (tmp_path / "silent.jsonl").exists()
    log = Log(tmp_path / "log.jsonl")
    log.copies.append(heard.append)
    log.write({"event": "a"})
    assert heard == log_entries(tmp_path / "log.jsonl")
