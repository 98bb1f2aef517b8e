"""Logs as curves: those that real runs wrote, and what can happen to one."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from seqcredit.errors import UserError
from seqcredit.experiments.build import task_of
from seqcredit.experiments.history import history, labels
from seqcredit.experiments.runs import Run
from seqcredit.training.log import History, titles


def raw(run: Run) -> list[dict]:
    return [json.loads(line) for line in (run.folder / "log.jsonl").read_text().splitlines()]


def copy(run: Run, folder: Path, text: str) -> Run:
    shutil.copytree(run.folder, folder, ignore=shutil.ignore_patterns("checkpoints"))
    (folder / "log.jsonl").write_text(text)
    return Run.open(folder)


def test_curves_go_on_from_phase_to_phase(tiny) -> None:
    found, entries = history(tiny.done), raw(tiny.done)
    before = {"mle": 0, "critic": 36, "actor_critic": 42}
    rewards = [(before[e["phase"]] + e["updates"], e["reward"]) for e in entries if "reward" in e]
    assert found.curve("reward") == rewards
    assert [at for at, _ in rewards] == [*range(38, 55, 2)]
    bleus = [(before[e["phase"]] + e["updates"], e["bleu"]) for e in entries if "bleu" in e]
    assert found.curve("bleu") == bleus
    assert [at for at, _ in bleus] == [*range(6, 37, 6), 42, 48, 54]
    assert found.starts() == [36, 42]
    assert found.curve("loss") == found.curve("q_bleu") == []


def test_the_last_line_may_be_under_way(tiny, tmp_path: Path) -> None:
    text = (tiny.done.folder / "log.jsonl").read_text()
    whole = text.splitlines(keepends=True)
    run = copy(tiny.done, tmp_path / "half", "".join(whole[:5]) + whole[5][:-10])
    assert [e["time"] for e in history(run).entries] == [json.loads(line)["time"] for line in whole[:5]]
    # all of it but the end of the line: it is not known yet whether more follows
    (run.folder / "log.jsonl").write_text("".join(whole[:5]) + whole[5].rstrip("\n"))
    assert len(history(run).entries) == 5
    (run.folder / "log.jsonl").write_text(whole[0] + "{\n" + whole[1])
    with pytest.raises(UserError, match="line 2, is damaged"):
        history(run)
    (run.folder / "log.jsonl").unlink()
    assert history(run) == History([])


def test_what_a_rollback_undid_is_left_out(tiny, tmp_path: Path) -> None:
    """The trainer goes back to a checkpoint and logs the same updates once more."""
    phase, text = {"phase": "actor_critic", "time": 1.0, "epoch": 0}, ""
    events = [("validation", 0, {"bleu": 1.0}), ("train", 2, {"reward": 1.0}), ("train", 4, {"reward": 2.0})]
    events += [("validation", 4, {"bleu": 2.0}), ("train", 6, {"reward": 9.0}), ("diverged", 7, {"why": "x"})]
    events += [("train", 4, {"reward": 3.0}), ("validation", 4, {"bleu": 3.0}), ("train", 6, {"reward": 4.0})]
    for event, updates, more in events:
        text += json.dumps({"event": event, "updates": updates, **phase, **more}) + "\n"
    found = history(copy(tiny.done, tmp_path / "back", text))
    assert found.curve("reward") == [(2, 1.0), (4, 3.0), (6, 4.0)]
    assert found.curve("bleu") == [(0, 1.0), (4, 3.0)]
    assert [e["event"] for e in found.entries].count("diverged") == 1


def test_a_resumed_run_is_one_run(tiny, tmp_path: Path) -> None:
    from seqcredit.training.status import Reporting
    from seqcredit.training.trainer import Trainer

    shutil.copytree(tiny.stopped.folder, tmp_path / "stopped")
    run = Run.open(tmp_path / "stopped")
    before = history(run).curve("reward")
    with (run.folder / "log.jsonl").open("a") as file:  # killed after its checkpoint: what it wrote then is cut off
        file.write('{"event": "train", "phase": "actor_critic", "updates": 6, "rew')
    task = task_of(run.recipe, tiny.prepared)
    Trainer(task, run.folder, Reporting(lambda _: None, log_every=2)).train()
    after = history(run).curve("reward")
    assert after[: len(before)] == before
    assert [at for at, _ in after] == [*range(38, 55, 2)]


def test_numbers_that_are_none_are_not_drawn(tiny, tmp_path: Path) -> None:
    entry = {"event": "train", "phase": "mle", "time": 1.0}
    text = "".join(json.dumps({**entry, "updates": n, "nll": x}) + "\n" for n, x in ((1, 2.0), (2, float("nan"))))
    assert history(copy(tiny.done, tmp_path / "nan", text)).curve("nll") == [(1, 2.0)]


def test_bleu_of_q_is_another_curve(tiny, tmp_path: Path) -> None:
    entry = {"event": "validation", "phase": "mle", "time": 1.0, "updates": 3, "bleu": 7.0}
    run = copy(tiny.done, tmp_path / "q", json.dumps(entry) + "\n")
    text = (run.folder / "resolved.toml").read_text()
    (run.folder / "resolved.toml").write_text(text.replace('objective = "mle"', 'objective = "soft_q"'))
    found = history(Run.open(run.folder))
    assert found.curve("q_bleu") == [(3, 7.0)]
    assert found.curve("bleu") == []


def test_labels_tell_runs_apart() -> None:
    assert labels([Path("a/x"), Path("b/y"), Path("b/x")]) == ["a/x", "y", "b/x"]


def test_a_run_is_judged_by_its_metric(tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is: the log has it under its own name, and a reward is not mistaken for that of samples."""
    entries = [{"event": event, "phase": "mle", "time": 1.0, "updates": 3, "edit": 40.0, "reward": 7.0}
               for event in ("train", "validation")]  # fmt: skip
    run = copy(tiny.done, tmp_path / "edit", "".join(json.dumps(entry) + "\n" for entry in entries))
    for metric, key, title in (("edit", "edit", "validation token error rate"),
                               ("reward", "validation_reward", "validation reward")):  # fmt: skip
        found = history(replace(run, recipe=replace(run.recipe, metric=metric)))
        assert found.curve(key) == [(3, 40.0 if metric == "edit" else 7.0)]
        assert titles([found])[key] == title
        assert found.curve("reward") == [(3, 7.0)]
    assert titles([found, History()]) == {
        "validation_reward": "validation reward", "reward": "reward of samples"
    }  # fmt: skip
