"""How far a sweep is, by what stands on the disk."""

import json
from pathlib import Path

import pytest

from seqcredit.experiments import recipe as recipes
from seqcredit.experiments.plan import Plan, read
from seqcredit.experiments.progress import gone, in_the_way, missing, next_step, outline
from sweeping import CELLS, TOP, checkpoint, record, setup, weights


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.chdir(setup(tmp_path))
    return read(Path("sweep.toml"))


def test_the_next_step_is_read_off_the_disk(plan: Plan) -> None:
    mle, critic = plan.cells["mle-1"], plan.cells["critic-1"]
    assert next_step(plan, mle) == "train"
    checkpoint(plan, "mle-1")
    assert next_step(plan, mle) == "resume"
    weights(plan, "mle-1", result=False)
    assert next_step(plan, mle) == "resume"  # killed before its test
    weights(plan, "critic-1", result=False)
    assert next_step(plan, critic) is None  # it has no test that counts
    (plan.run("mle-1") / "result.json").write_text("{}")
    assert next_step(plan, mle) == "record"
    record(plan, "mle-1")
    assert next_step(plan, mle) is None


def test_what_is_missing(plan: Plan) -> None:
    assert missing(plan) == ["mle-1", "critic-1", "erac-1", "erac-2"]
    record(plan, "erac-1")
    record(plan, "mle-1")
    assert missing(plan) == ["mle-1", "critic-1", "erac-2"]  # recorded, but its networks are needed
    weights(plan, "mle-1")
    assert missing(plan) == ["critic-1", "erac-2"]
    weights(plan, "erac-2")
    assert missing(plan) == ["erac-2"]  # needs a record, which needs no critic
    record(plan, "erac-2")
    assert missing(plan) == []  # nobody asks for the critic any more


def test_what_it_is_compared_with_is_needed_too(plan: Plan) -> None:
    weights(plan, "erac-1")
    record(plan, "erac-2")
    record(plan, "mle-1")
    assert missing(plan) == ["mle-1", "erac-1"]


def test_a_recorded_run_that_is_gone_is_trained_again_while_others_have_to_start_from_it(plan: Plan) -> None:
    one = read(Path("sweep.toml"), only=["mle-1"])
    record(plan, "mle-1")
    assert missing(one) == ["mle-1"]  # the critic, which was not asked for, will start from it
    again = "mle-1: its run runs/mle-1 is gone and others need it; it is trained again, its record stays."
    assert list(gone(one)) == [again]
    record(plan, "erac-1")
    record(plan, "erac-2")
    assert missing(one) == []
    (said,) = gone(one)
    assert said == (
        "mle-1: it is recorded, and no other cell needs its run runs/mle-1, which is gone; remove results/mle-1.json "
        "to train it again, or train it beside with --into FOLDER."
    )
    assert list(gone(plan)) == []  # nobody named a cell
    weights(plan, "mle-1")
    assert list(gone(one)) == []


def test_a_start_that_only_others_need_is_not_trained_for_a_cell_that_has_all(plan: Plan) -> None:
    one = read(Path("sweep.toml"), only=["erac-1"])
    for name in ("mle-1", "erac-1"):
        record(plan, name)
    assert missing(one) == []  # erac-2 needs the critic, and nobody asked for it


def test_a_shared_cell_that_nobody_shares_is_wanted_for_itself(plan: Plan) -> None:
    Path("sweep.toml").write_text(TOP + '[[cell]]\nname = "q"\nrecipe = "erac.toml"\nuntil = "critic"\n')
    assert missing(read(Path("sweep.toml"))) == ["q-1"]


def test_only_a_mere_beginning_may_be_removed(plan: Plan) -> None:
    mle, folder = plan.cells["mle-1"], plan.run("mle-1")
    assert not in_the_way(plan, mle)
    folder.mkdir(parents=True)
    for name in ("recipe.toml", "resolved.toml", "run.json", "log.jsonl"):
        (folder / name).touch()
    assert not in_the_way(plan, mle)
    (folder / "log.jsonl").write_text('{"event": "train", "phase": "mle", "updates": 1}\n')
    assert in_the_way(plan, mle)  # it has been trained, but cannot be resumed
    (folder / "log.jsonl").unlink()
    (folder / "thesis.tex").touch()
    assert in_the_way(plan, mle)
    checkpoint(plan, "mle-1")
    assert not in_the_way(plan, mle)


def log(plan: Plan, name: str, phase: str, seconds: float, end: bool) -> None:
    lines = [{"event": "train", "phase": phase, "updates": 100 * i, "time": 1000 + 100 * seconds * i} for i in range(4)]
    ended = [{"event": "phase_end", "phase": phase, "updates": 300, "time": 1000 + 300 * seconds}] if end else []
    plan.run(name).mkdir(parents=True, exist_ok=True)
    (plan.run(name) / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines + ended))


def test_a_dry_run_says_what_there_is_to_do_and_how_long_it_takes(plan: Plan) -> None:
    guess = CELLS.replace('name = "critic"', 'name = "critic"\nminutes = 10')
    Path("sweep.toml").write_text(TOP.replace("[1]", "[1, 2]") + guess)
    plan = read(Path("sweep.toml"))
    weights(plan, "mle-1")
    log(plan, "mle-1", "mle", 12.0, end=True)
    log(plan, "erac-1", "actor_critic", 1.0, end=False)
    checkpoint(plan, "erac-1")
    (plan.run("erac-1") / "resolved.toml").write_text(recipes.resolved(plan.cells["erac-1"].recipe))
    (plan.run("erac-1") / "run.json").write_text('{"command": "seqcredit train --init-from runs/critic-1"}')
    lines = list(outline(plan, 2))
    assert lines == [
        "mle-1     record",
        "mle-2     train, about 60 min",
        "critic-1  train, from mle-1, about 10 min",
        "critic-2  train, from mle-2, about 10 min",
        "erac-1    resume, unknown",  # without data, nobody knows how long an epoch is
        "erac-2    train, from critic-1, unknown",
        "6 cells, 6 to do: 1.3 hours of computing and 2 cells of unknown length",
        "time, 2 at once: about 70 min and 2 cells of unknown length",
    ]
