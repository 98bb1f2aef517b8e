"""One log: what is written, what is read while it is written, and what is damaged."""

import json
from pathlib import Path

import pytest

from seqcredit.errors import UserError
from seqcredit.training.log import History, Log, log_entries, read_history, titles

LINE = '{"event": "train", "phase": "mle", "updates": 2, "loss": 1.5, "time": 1.0}'


def test_the_log_is_cut_back_to_the_checkpoint(tmp_path: Path) -> None:
    path, cut, one = tmp_path / "log.jsonl", tmp_path / "log.cut.jsonl", json.loads(LINE)
    log = Log(path)
    log.write({**one, "event": "a"})
    offset = log.offset
    log.write({**one, "event": "lost"})
    again = Log(path, offset)
    again.write({**one, "event": "b"})
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == ["a", "b"]
    assert [json.loads(line)["event"] for line in cut.read_text().splitlines()] == ["lost"]
    assert Log(path).offset == 0
    assert path.read_bytes() == b""
    assert [json.loads(line)["event"] for line in cut.read_text().splitlines()] == ["lost", "a", "b"]


def test_a_damaged_line_is_taken_out_and_kept_beside(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    text = f"{LINE}\n" + "{half\n" + f"{LINE}\n"
    path.write_text(text)
    log = Log(path, len(text))
    assert path.read_text() == f"{LINE}\n{LINE}\n"
    assert log.offset == path.stat().st_size
    assert (tmp_path / "log.cut.jsonl").read_text() == text
    assert len(log_entries(path)) == 2


def test_a_log_that_is_too_short_is_not_filled_up(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(f"{LINE}\n")
    log = Log(path, 1_000)
    log.write(json.loads(LINE))
    assert len(log_entries(path)) == 2
    assert not (tmp_path / "log.cut.jsonl").exists()


def test_the_time_stands_last_and_is_when_it_was_written(tmp_path: Path) -> None:
    Log(tmp_path / "log.jsonl").write({"time": 1, **json.loads(LINE)})
    (entry,) = log_entries(tmp_path / "log.jsonl")
    assert entry["time"] > 1_000_000_000
    assert entry == {**json.loads(LINE), "time": entry["time"]}


def test_others_may_listen_and_one_process_writes(tmp_path: Path) -> None:
    heard: list[object] = []
    silent = Log(tmp_path / "silent.jsonl", writes=False)
    silent.copies.append(heard.append)
    silent.write(json.loads(LINE))
    assert heard == []
    assert not (tmp_path / "silent.jsonl").exists()
    log = Log(tmp_path / "log.jsonl")
    log.copies.append(heard.append)
    log.write(json.loads(LINE))
    assert heard == log_entries(tmp_path / "log.jsonl") != []


def test_the_credit_error_of_validations_is_a_curve() -> None:
    entry = {"event": "validation", "total": 6, "credit_error": 0.5, "credit_kl": 0.2}
    found = History([entry, {**entry, "event": "train", "total": 7}, {**entry, "total": 12, "credit_error": 0.4}])
    assert found.curve("credit_error") == [(6, 0.5), (12, 0.4)]
    assert found.curve("credit_kl") == [(6, 0.2), (12, 0.2)]


def write(path: Path, *lines: tuple[str, str, int, dict[str, float]]) -> Path:
    entries = [{"event": event, "phase": phase, "updates": n, "time": 1.0, **more} for event, phase, n, more in lines]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def test_updates_go_on_from_phase_to_phase_and_back_with_a_rollback(tmp_path: Path) -> None:
    path = write(
        tmp_path / "log.jsonl",
        ("train", "a", 4, {"nll": 2.0}),
        ("phase_end", "a", 6, {}),
        ("train", "b", 2, {"nll": 9.0}),
        ("train", "b", 4, {"nll": 8.0}),
        ("diverged", "b", 5, {}),
        ("train", "b", 2, {"nll": 1.0}),
    )
    found = read_history(path)
    assert found.curve("nll") == [(4, 2.0), (8, 1.0)]
    assert [entry["event"] for entry in found.entries] == ["train", "phase_end", "diverged", "train"]
    assert found.starts() == [6]


def test_what_q_says_and_a_reward_are_curves_of_their_own(tmp_path: Path) -> None:
    lines = [("validation", phase, 3, {"reward": 7.0, "edit": 5.0}) for phase in ("q", "actor")]
    path = write(tmp_path / "log.jsonl", *lines, ("train", "actor", 3, {"reward": 1.0}))
    found = read_history(path, "edit", ["q"])
    assert (found.curve("q_edit"), found.curve("edit")) == ([(3, 5.0)], [(3, 5.0)])
    assert read_history(path, "reward", ["q"]).curve("validation_reward") == [(3, 7.0)]
    assert read_history(path, "reward", ["q"]).curve("reward") == [(3, 1.0)]


def test_the_course_has_validations_of_the_actor_alone(tmp_path: Path) -> None:
    lines = [("validation", "q", 3, {"bleu": 9.0, "drawn": 5, "cpu": 1.5}), ("phase_end", "q", 3, {})]
    lines += [("train", "actor", 3, {"nll": 1.0}), ("validation", "actor", 3, {"bleu": 7.0, "drawn": 8, "cpu": 2.5})]
    path = write(tmp_path / "log.jsonl", *lines, ("validation", "actor", 6, {"bleu": 8.0}))
    assert read_history(path, "bleu", ["q"]).course() == [[8, 2.5, 7.0]]  # the last is of an older version


def test_curves_by_their_names() -> None:
    one = {"event": "validation", "total": 1, "bleu": 3.0}
    two = {"event": "train", "total": 2, "nll": 1.0, "sample_bleu": 5.0, "unknown": 0.1}
    assert titles([History([one]), History([two])]) == {
        "bleu": "validation BLEU", "sample_bleu": "sample BLEU", "nll": "negative log-likelihood of a token"
    }  # fmt: skip
    assert titles([]) == {}


def test_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(f"{LINE}\n{LINE}")
    assert log_entries(tmp_path / "log.jsonl") == [json.loads(LINE)]
    assert log_entries(tmp_path / "nothing") == []


@pytest.mark.parametrize(
    "line",
    ["{", "3", "[]", '"x"', "", LINE.replace('"updates": 2', '"updates": "x"'), LINE.replace('"phase": "mle", ', ""),
     LINE.replace('"event": "train", ', ""), "\xff"],
)  # fmt: skip
def test_a_damaged_line_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(f"{LINE}\n{line}\n{LINE}\n".encode("latin-1"))
    with pytest.raises(UserError, match=rf"^{path}, line 2, is damaged: `seqcredit resume` the run to mend it\.$"):
        log_entries(path)


def test_a_log_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        log_entries(tmp_path)
