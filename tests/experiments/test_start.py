"""Data, and what another run has learned."""

import random
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import starter
from seqcredit.algorithms import Critic, Mle, Phase
from seqcredit.data.prepared import Prepared
from seqcredit.errors import UserError
from seqcredit.experiments.build import build_actor, build_critic, task_of
from seqcredit.experiments.recipe import Recipe
from seqcredit.experiments.runs import Run
from seqcredit.experiments.start import open_data, take_over
from seqcredit.models.build import LSTM
from seqcredit.training.log import TIMES, Log, log_entries
from seqcredit.training.status import Reporting
from seqcredit.training.trainer import Trainer

SMALL = LSTM(embedding=8, hidden=8)
JUDGE = LSTM(embedding=8, hidden=8, attention="mlp", dropout=0.0)
MLE = Mle("mle", 0.1, epochs=1)
CRITIC = Critic("critic", 0.01, epochs=1)


def make(folder: Path, prepared: Prepared, *phases: Phase, actor: LSTM = SMALL, sums: str = "x") -> Run:
    recipe = Recipe("r", phases, actor=actor, critic=JUDGE)
    return Run.create(folder, "", recipe, prepared.folder, {"source": sums, "target": "y"})


@pytest.fixture
def pretrained(prepared: Prepared, tmp_path: Path) -> Run:
    run = make(tmp_path / "pretrained", prepared, MLE)
    weights = {f"actor.{k}": t + 1 for k, t in build_actor(run.recipe, prepared).state_dict().items()}
    run.save_weights("mle", weights)
    return run


def started(run: Run, prepared: Prepared) -> Trainer:
    trainer = Trainer(task_of(run.recipe, prepared), run.folder, Reporting(lambda _: None))
    trainer.log = Log(run.folder / "log.jsonl")
    trainer._begin_run()
    return trainer


def test_phases_of_the_same_name_are_not_trained_again(pretrained: Run, prepared: Prepared, tmp_path: Path) -> None:
    run, said = make(tmp_path / "run", prepared, MLE, CRITIC), []
    take_over(run, pretrained.folder, said.append)
    assert said == [f"phases mle taken over from {pretrained.folder}"]
    trainer = started(run, prepared)
    assert trainer.phase == CRITIC
    assert (
        trainer.task.networks["actor"].readout.bias - build_actor(run.recipe, prepared).readout.bias - 1
    ).abs().max() < 1e-6
    fresh = build_critic(run.recipe, prepared)
    assert (trainer.task.networks["critic"].readout.bias == fresh.readout.bias).all()


def test_other_settings_are_said(pretrained: Run, prepared: Prepared, tmp_path: Path) -> None:
    run, said = make(tmp_path / "run", prepared, Mle("mle", 0.5), CRITIC), []
    take_over(run, pretrained.folder, said.append)
    assert "with other settings" in said[0]


def test_a_warm_start_without_a_phase_in_common(pretrained: Run, prepared: Prepared, tmp_path: Path) -> None:
    run, said = make(tmp_path / "run", prepared, CRITIC), []
    take_over(run, pretrained.folder, said.append)
    assert said == [f"the weights of phase mle taken over from {pretrained.folder}"]
    trainer = started(run, prepared)
    assert trainer.phase == CRITIC
    assert trainer.task.networks["actor"].readout.bias.detach().min() > 0.8


def test_another_vocabulary_is_refused(pretrained: Run, prepared: Prepared, tmp_path: Path) -> None:
    run = make(tmp_path / "run", prepared, MLE, CRITIC, sums="other")
    with pytest.raises(UserError, match="another source vocabulary"):
        take_over(run, pretrained.folder, print)


def test_another_shape_is_refused(pretrained: Run, prepared: Prepared, tmp_path: Path) -> None:
    run = make(tmp_path / "run", prepared, MLE, CRITIC, actor=LSTM(embedding=8, hidden=10))
    with pytest.raises(UserError, match=r"actor of .* has hidden = 8, this recipe's has 10"):
        take_over(run, pretrained.folder, print)


def test_a_critic_that_copies_does_not_start_from_one_that_does_not(prepared: Prepared, tmp_path: Path) -> None:
    other = make(tmp_path / "other", prepared, CRITIC)
    other.save_weights(
        "critic", {f"critic.{k}": t for k, t in build_critic(other.recipe, prepared).state_dict().items()}
    )
    recipe = Recipe("r", (CRITIC,), actor=SMALL, critic=replace(JUDGE, copy=16))
    run = Run.create(tmp_path / "run", "", recipe, prepared.folder, {"source": "x", "target": "y"})
    with pytest.raises(UserError, match=r"critic of .* has copy = 0, this recipe's has 16; make them the same"):
        take_over(run, other.folder, print)


def test_a_run_with_nothing_finished_is_refused(prepared: Prepared, tmp_path: Path) -> None:
    empty, run = make(tmp_path / "empty", prepared, MLE), make(tmp_path / "run", prepared, MLE)
    with pytest.raises(UserError, match="nothing to take over"):
        take_over(run, empty.folder, print)


def test_data_must_be_given_and_be_the_runs_own(prepared: Prepared) -> None:
    with pytest.raises(UserError, match="give --data"):
        open_data(Path(""))
    checksums = {"source": prepared.source_vocabulary.checksum, "target": prepared.target_vocabulary.checksum}
    assert open_data(prepared.folder, checksums).folder == prepared.folder
    with pytest.raises(UserError, match=r"target vocabulary of .* is not the one"):
        open_data(prepared.folder, {**checksums, "target": "0"})


# Killed while it starts.

RECIPE = """
name = "warm"
[actor]
embedding = 12
hidden = 12
[critic]
embedding = 12
hidden = 12
[[phase]]
objective = "mle"
learning_rate = 0.5
epochs = 1
batch_size = 30
[[phase]]
objective = "critic"
optimizer = "adam"
learning_rate = 0.01
epochs = 1
batch_size = 30
"""
KILLS = 8


def finish(*words: object) -> None:
    done = starter.run(*words)
    assert done.returncode == 0, done.stderr


def same(one: Run, other: Run) -> bool:
    """All weights, and all that was measured."""
    for phase in ("mle", "critic"):
        mine, theirs = one.weights(phase), other.weights(phase)
        if mine.keys() != theirs.keys() or not all(torch.equal(mine[key], theirs[key]) for key in mine):
            return False
    logs = [
        [{k: v for k, v in entry.items() if k not in TIMES} for entry in log_entries(run.folder / "log.jsonl")]
        for run in (one, other)
    ]
    return logs[0] == logs[1]


@pytest.mark.slow
def test_killed_while_it_takes_over_there_is_no_run_or_one_that_resumes(data: Path, tmp_path: Path) -> None:
    """SIGKILL at random moments, half of them while the folder is made: nothing of a run, or all that it needs."""
    recipe = tmp_path / "warm.toml"
    recipe.write_text(RECIPE)
    often = ("--checkpoint-minutes", "0", "--log-every", "3")
    finish("train", recipe, "--data", data, "--out", tmp_path / "first", "--until", "mle")
    given = ("train", recipe, "--data", data, "--init-from", tmp_path / "first", *often)
    started = time.monotonic()
    finish(*given, "--out", tmp_path / "whole")
    whole, taken = Run.open(tmp_path / "whole"), Run.open(tmp_path / "first").weights("mle")
    rng, there, lasts = random.Random(4), 0, time.monotonic() - started
    for number in range(KILLS):
        place = tmp_path / f"kill{number}"
        place.mkdir()
        process = starter.Command(*given, "--out", place / "run")
        while not any(place.iterdir()):  # what it is written in, before it has its name
            time.sleep(0.0002)
        time.sleep(rng.uniform(0, 0.03) if number % 2 else rng.uniform(0, lasts / 2))
        process.signal(signal.SIGKILL)
        assert process.done().returncode in (0, -signal.SIGKILL)
        if not (place / "run").exists():
            finish(*given, "--out", place / "run")  # what is left over is in nobody's way
        else:
            there += 1
            begun = Run.open(place / "run")
            assert all(torch.equal(tensor, begun.weights("mle")[key]) for key, tensor in taken.items())
            finish("resume", place / "run", *often)
        assert same(whole, Run.open(place / "run"))
    assert 0 < there < KILLS  # both ways were tried
