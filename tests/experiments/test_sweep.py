"""Sweeps as a user has them: real processes, really killed, and what stands on the disk then."""

import fcntl
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import starter
from seqcredit.data.manifest import PrepareOptions
from seqcredit.data.phrases import phrases
from seqcredit.data.prepare import prepare
from seqcredit.errors import UserError
from seqcredit.experiments import sweep
from seqcredit.experiments.plan import Plan, read
from seqcredit.experiments.progress import outline
from seqcredit.experiments.sweep import Machine, Status
from sweeping import TOP, record, setup, weights

TIMES = ("seconds", "cpu", "seconds_of_search", "peak_memory_mb", "checksum")  # the last is of the others, too


def process(place: Path, *options: str) -> "subprocess.Popen[str]":
    code = "from seqcredit.cli import main; main()"
    command = [sys.executable, "-c", code, "sweep", "sweep.toml", *options]
    return subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finished(place: Path, *options: str) -> tuple[int, str]:
    with process(place, *options) as started:
        said, _ = started.communicate(timeout=900)
    return started.returncode, said


def results(place: Path) -> dict[str, Any]:
    """All records and hypotheses of a sweep, without the times."""
    found: dict[str, Any] = {}
    for path in sorted((place / "results").iterdir()):
        if path.suffix == ".json":
            cell = json.loads(path.read_text())
            cell["course"] = [(drawn, figure) for drawn, _, figure in cell["course"]]  # without seconds
            found[path.name] = {key: value for key, value in cell.items() if key not in TIMES}
        else:
            found[path.name] = gzip.decompress(path.read_bytes())
    return found


# What is on the disk, without any process.


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.chdir(setup(tmp_path))
    return read(Path("sweep.toml"))


def test_commands(plan: Plan) -> None:
    machine = Machine(2, 3, "cuda")
    erac, critic = plan.cells["erac-2"], plan.cells["critic-1"]
    assert " ".join(sweep.words(plan, critic, "train", machine)) == (
        "train erac.toml --data data --out runs/critic-1 --seed 1 --until critic --init-from runs/mle-1 "
        "--threads 3 --device cuda"
    )
    assert sweep.words(plan, erac, "resume", Machine(1)) == ["resume", "runs/erac-2", "--threads", "1"]
    recording = "record runs/erac-2 results/erac-2.json --against runs/mle-1"
    assert " ".join(sweep.words(plan, erac, "record", machine)) == recording
    assert "--against" not in sweep.words(plan, plan.cells["mle-1"], "record", machine)
    measured = sweep.words(plan, replace(erac, headroom=32), "record", machine)
    assert " ".join(measured) == f"{recording} --headroom 32 --threads 3 --device cuda"


def test_a_lock_is_one_processs_and_its_childrens(tmp_path: Path) -> None:
    path = tmp_path / "below" / "a.lock"
    mine = sweep.lock(path)
    assert mine is not None
    assert sweep.lock(path) is None
    child = subprocess.Popen(["sleep", "60"], pass_fds=[mine])
    os.close(mine)
    assert sweep.lock(path) is None  # the child has it still
    child.kill()
    child.wait()
    assert sweep.lock(path) is not None


def test_the_grid_and_the_summary(plan: Plan) -> None:
    weights(plan, "mle-1")
    record(plan, "mle-1")
    record(plan, "erac-2", diverged=["actor_critic"])
    made = sweep.Sweep(plan, Machine(2), print)
    assert made.states["mle-1"] == Status("done", "12.35")
    assert made.states["erac-2"] == Status("diverged", "12.35")
    assert made.states["erac-1"] == Status("waiting")
    made.states["critic-1"] = Status("failed", "for a [long] reason")
    console = Console(width=100)
    with console.capture() as shown:
        console.print(sweep.grid(plan, made.states, made.summary()))
    lines = shown.get().splitlines()
    rows = {line.split("│")[1].strip(): [w.strip() for w in line.split("│")[2:-1]] for line in lines if "│" in line}
    assert rows == {"mle": ["done 12.35", ""], "critic": ["failed", ""], "erac": ["waiting", "diverged 12.35"]}
    assert lines[-1].strip() == "1 done, 1 waiting, 1 failed, 1 diverged; time left: unknown"


def test_the_grid_shows_the_metric_that_cells_are_judged_by_or_another(plan: Plan) -> None:
    weights(plan, "mle-1")
    record(plan, "mle-1", metric="mine:f", score=0.12345, signature="s", chrf=55.5, chrf_signature="c")
    found = {name: sweep.Sweep(plan, Machine(2), print, metric=name).states["mle-1"] for name in (None, "chrf", "edit")}
    assert found == {None: Status("done", "0.1235"), "chrf": Status("done", "55.50"), "edit": Status("done", "")}


def test_a_sweep_without_data_does_not_start(plan: Plan) -> None:
    with pytest.raises(UserError, match="data"):
        sweep.Sweep(plan, Machine(2), print).run()
    assert not plan.runs.exists()


def test_a_folder_in_the_way_stops_the_sweep(plan: Plan) -> None:
    plan.run("mle-1").mkdir(parents=True)
    (plan.run("mle-1") / "thesis.tex").touch()
    with pytest.raises(UserError, match="runs/mle-1 is in the way"):
        sweep.Sweep(plan, Machine(2), print).run()
    assert (plan.run("mle-1") / "thesis.tex").exists()


# Real processes.


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep") / "data"
    sizes = {"train": 100, "valid": 10, "test": 12}
    prepare({name: phrases(name, size) for name, size in sizes.items()}, folder, PrepareOptions(tokenized=True))
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A sweep that nobody disturbed."""
    place = setup(tmp_path_factory.mktemp("whole"), data)
    code, said = starter.sweep_in(place, "--jobs", "2")
    assert code == 0, said
    lines = said.splitlines()
    assert lines[0] == "mle-1: train"
    assert lines.index("critic-1: train, from mle-1") < lines.index("erac-1: train, from critic-1")
    assert lines[-1] == "4 done"
    return place


@pytest.mark.slow
def test_a_sweep_trains_records_and_shares(whole: Path) -> None:
    found = results(whole)
    assert sorted(found) == [
        f"{name}.{end}" for name in ("erac-1", "erac-2", "mle-1") for end in ("counts.gz", "json", "txt.gz")
    ]
    assert list(found["erac-2.json"]["against"]) == ["mle-1"]
    assert found["erac-1.json"]["command"] == (
        "seqcredit train erac.toml --data data --out runs/erac-1 --seed 1 --init-from runs/critic-1 --threads 1"
    )
    assert [cell["seed"] for name, cell in found.items() if name.endswith("json")] == [1, 2, 1]
    shared = (whole / "runs" / "critic-1" / "weights" / "critic.safetensors").read_bytes()
    for seed in (1, 2):
        mine = whole / "runs" / f"erac-{seed}"
        assert (mine / "weights" / "critic.safetensors").read_bytes() == shared
        assert '"phase": "critic"' not in (mine / "log.jsonl").read_text()


@pytest.mark.slow
def test_given_again_there_is_nothing_to_do(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def times() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file()}

    before = times()
    assert finished(whole) == (0, "4 done\n")
    assert times() == before
    monkeypatch.chdir(whole)
    lines = list(outline(read(Path("sweep.toml")), 2))
    assert lines[1:] == [f"{name}  nothing to do" for name in ("critic-1", "erac-1  ", "erac-2  ")] + [
        "4 cells, 0 to do: 0.0 hours of computing"
    ]


def children(parent: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=False)
    return [int(word) for word in listed.stdout.split()]


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 900
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def half_done(place: Path, name: str) -> bool:
    run = place / "runs" / name
    return any(run.glob("checkpoints/0*")) and not (run / "result.json").exists()


@pytest.fixture
def ending() -> Iterator[list[int]]:
    """Processes that must not outlive the test."""
    mine: list[int] = []
    yield mine
    for number in mine:
        try:
            os.kill(number, signal.SIGKILL)
        except ProcessLookupError:
            continue


@pytest.mark.slow
def test_killed_and_given_again_the_results_are_the_same(
    whole: Path, data: Path, tmp_path: Path, ending: list[int]
) -> None:
    place = setup(tmp_path / "killed", data)

    # The sweep and its children, in the middle of a run.
    first = process(place, "--jobs", "2")
    until(lambda: half_done(place, "mle-1"))
    below = children(first.pid)
    assert below
    for number in (first.pid, *below):
        os.kill(number, signal.SIGKILL)
    first.communicate()
    assert half_done(place, "mle-1")

    # The sweep alone, twice at once: its children go on, and what they hold is not begun again.
    shutil.copytree(whole / "runs" / "critic-1" / "weights", place / "runs" / "critic-1" / "weights")  # a beginning
    (place / "runs" / "critic-1" / "run.json").touch()
    (place / "runs" / "critic-1" / "weights" / "critic.safetensors").unlink()
    second = process(place, "--jobs", "2")
    until(lambda: half_done(place, "erac-1"))
    orphans = children(second.pid)
    ending += orphans
    second.kill()
    assert "mle-1: resume" in second.communicate()[0]
    pair = [process(place, "--jobs", "2") for _ in range(2)]
    said = [one.communicate(timeout=900)[0] for one in pair]
    assert [one.returncode for one in pair] == [0, 0], said
    assert all(lines.splitlines()[-1] == "4 done" for lines in said)

    assert results(place) == results(whole)
    for name in ("critic-1", "erac-1", "erac-2"):
        told = (place / "runs" / f"{name}.log").read_text()
        assert told.count("taken over from") == told.count("done: runs/") == 1, told


FAILING = """
[[cell]]
name = "broken"
recipe = "mle.toml"
set = ["actor.attention=none"]
[[cell]]
name = "behind"
recipe = "erac.toml"
init_from = "broken"
set = ["actor.attention=none"]
[[cell]]
name = "lost"
recipe = "erac.toml"
until = "critic"
init_from = "runs/mle-1"
set = ["phase.2.learning_rate=1e38"]
[[cell]]
name = "noted"
recipe = "erac.toml"
init_from = "runs/mle-1"
set = ["phase.2.learning_rate=1e38", "on_divergence=record"]
"""


@pytest.mark.slow
def test_what_fails_is_told_and_the_others_go_on(whole: Path, tmp_path: Path) -> None:
    place = tmp_path / "failing"
    shutil.copytree(whole, place)
    (place / "sweep.toml").write_text(TOP + FAILING)
    code, said = starter.sweep_in(place)
    assert code == 1
    lines = {line.partition(": ")[0]: line.partition(": ")[2] for line in said.splitlines()}
    assert lines["broken-1"].startswith("failed: ")
    assert lines["broken-1"].endswith("(runs/broken-1.log)")
    reason = (place / "runs" / "broken-1.log").read_text().splitlines()[-1].removeprefix("seqcredit: ")
    assert reason in lines["broken-1"]
    assert lines["behind-1"] == "failed: it needs broken-1, which failed"
    assert lines["lost-1"].startswith("diverged: critic, update ")
    assert "for the fourth time" in lines["lost-1"]
    assert lines["noted-1"].startswith("diverged ")
    assert json.loads((place / "results" / "noted-1.json").read_text())["diverged"][0] == "critic"
    assert said.splitlines()[-1] == "2 failed, 2 diverged"


@pytest.mark.slow
def test_a_cell_that_someone_else_trains_is_waited_for(whole: Path, tmp_path: Path) -> None:
    place = tmp_path / "locked"
    shutil.copytree(whole, place)
    bleu = json.loads((place / "results" / "mle-1.json").read_text())["bleu"]
    (place / "results" / "mle-1.json").unlink()
    with (place / "runs" / ".sweep" / "mle-1.lock").open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with process(place) as waiting:
            assert waiting.stdout is not None
            line = waiting.stdout.readline()
            assert line.startswith("3 done, 1 running; time left: about 0 s")
            assert waiting.poll() is None
            assert not (place / "results" / "mle-1.json").exists()
            fcntl.flock(held, fcntl.LOCK_UN)
            assert waiting.communicate(timeout=900)[0].splitlines() == [f"mle-1: done {bleu:.2f}", "4 done"]
    assert results(place) == results(whole)


@pytest.mark.slow
def test_an_interrupted_sweep_saves_itself(data: Path, tmp_path: Path) -> None:
    place = setup(tmp_path / "stopped", data)
    (place / "sweep.toml").write_text(
        TOP + '[[cell]]\nname = "long"\nrecipe = "mle.toml"\nset = ["phase.1.epochs=9999"]'
    )
    started = process(place)
    until(lambda: half_done(place, "long-1"))
    started.send_signal(signal.SIGINT)
    said, _ = started.communicate(timeout=900)
    assert started.returncode == 2
    assert said.splitlines()[-1] == "seqcredit: stopped and saved; give the same command again to go on."
    assert "stopped and saved" in (place / "runs" / "long-1.log").read_text()
