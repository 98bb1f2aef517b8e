"""The loop as a user runs it: real processes, really killed, and what they leave."""

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import starter
from seqcredit.algorithms import Criterion, Critic
from seqcredit.data.prepared import Prepared
from seqcredit.errors import UserError
from seqcredit.experiments.build import build_actor, task_of
from seqcredit.experiments.recipe import Recipe, load
from seqcredit.experiments.runs import Run
from seqcredit.training.learner import Learner
from seqcredit.training.log import TIMES, log_entries
from seqcredit.training.status import Reporting, StoppedError
from seqcredit.training.trainer import Trainer
from seqcredit.training.validation import Validator
from seqcredit.training.weights import INITIAL, of_network
from starter import Command

RECIPE = """
name = "tiny ERAC"
[actor]
embedding = 12
hidden = 12
[critic]
embedding = 12
hidden = 12
attention = "mlp"
dropout = 0.0
[[phase]]
objective = "mle"
learning_rate = 0.5
epochs = 2
batch_size = 30
[[phase]]
objective = "critic"
optimizer = "adam"
learning_rate = 0.01
epochs = 2
batch_size = 30
target_rate = 0.1
[[phase]]
objective = "actor_critic"
optimizer = "adam"
learning_rate = 0.001
epochs = 2
batch_size = 30
validate_every = 5
anneal = true
target_rate = 0.1
"""


def recipe(*changes: str, text: str = RECIPE, folder: Path) -> Recipe:
    path = folder / "recipe-as-given.toml"
    path.write_text(text)
    return load(path, changes)


def make(folder: Path, data: Path, *changes: str, text: str = RECIPE) -> Run:
    folder.mkdir(parents=True, exist_ok=True)
    made = recipe(*changes, text=text, folder=folder.parent)
    folder.rmdir()
    return Run.create(folder, text, made, data, {})


def final(run: Run) -> dict[str, torch.Tensor]:
    return load_file(run.folder / "weights" / f"{run.recipe.phase[-1].name}.safetensors")


def without_times(run: Run) -> list[dict[str, object]]:
    return [{k: v for k, v in entry.items() if k not in TIMES} for entry in log_entries(run.folder / "log.jsonl")]


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def quiet(_: str) -> None:
    return None


def trainer(run: Run, prepared: Prepared, say: Callable[[str], None] = quiet, log_every: int = 100) -> Trainer:
    return Trainer(task_of(run.recipe, prepared), run.folder, Reporting(say, log_every=log_every))


@pytest.fixture(scope="module")
def finished(data: Path, prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = make(tmp_path_factory.mktemp("runs") / "whole", data)
    trainer(run, prepared, log_every=3).train()
    return run


@pytest.mark.slow
def test_same_seed_same_bytes(finished: Run, data: Path, prepared: Prepared, tmp_path: Path) -> None:
    again = make(tmp_path / "again", data)
    trainer(again, prepared, log_every=3).train()
    assert same(final(finished), final(again))
    assert without_times(finished) == without_times(again)
    other = make(tmp_path / "other", data, "seed=2")
    trainer(other, prepared, log_every=3).train()
    assert not same(final(finished), final(other))


@pytest.mark.slow
def test_every_phase_is_logged_and_kept(finished: Run) -> None:
    assert finished.phases_done() == ["mle", "critic", "actor_critic"]
    entries = without_times(finished)
    ends = {entry["phase"]: entry["best"] for entry in entries if entry["event"] == "phase_end"}
    assert list(ends) == ["mle", "critic", "actor_critic"]
    for phase, key, best in (("mle", "bleu", max), ("critic", "return_error", min), ("actor_critic", "bleu", max)):
        validations = [e[key] for e in entries if (e["event"], e["phase"]) == ("validation", phase)]
        assert round(ends[phase], 4) == best(validations) > 0  # an error as it is, not as a merit
    joint = [entry for entry in entries if entry["event"] == "train" and entry["phase"] == "actor_critic"]
    for key in ("td", "return_error", "reward", "entropy", "length_ratio", "repeated", "unknown", "nll"):
        assert key in joint[0]
    validated = [
        entry["updates"] for entry in entries if entry["event"] == "validation" and entry["phase"] == "actor_critic"
    ]
    assert validated == [0, 5, 10, 15, 16]  # the last update too


def test_a_phase_says_what_it_is_about_to_do(data: Path, prepared: Prepared, tmp_path: Path) -> None:
    said: list[str] = []
    made = trainer(make(tmp_path / "run", data), prepared, said.append)
    made._begin_phase()
    (plan,) = said
    assert plan.startswith("mle: at most 2 epochs of 8 updates, sgd 0.5, batches of 30 with ")
    share = float(plan.split(" with ")[1].removesuffix("% padding"))
    assert 0 < share < 40


def test_soft_q_is_judged_by_its_best_words_however_wide_the_actor_is_searched(
    data: Path, prepared: Prepared, tmp_path: Path
) -> None:
    """A beam would rank sentences by the softmax of Q, which is P_Q at tau = 1 alone."""
    text = RECIPE.split("[[phase]]")[0] + '[[phase]]\nobjective = "soft_q"\noptimizer = "adam"\nlearning_rate = 0.03'
    found = []
    for width in (1, 4):
        run = make(
            tmp_path / str(width), data, f"validation_beam={width}", "phase.1.epochs=4", "phase.1.tau=0.1", text=text
        )
        trainer(run, prepared).train()
        found.append([entry["bleu"] for entry in without_times(run) if entry["event"] == "validation"])
    assert found[0] == found[1]
    assert len(set(found[0])) > 2


def test_the_best_weights_are_kept_not_the_last(data: Path, prepared: Prepared, tmp_path: Path, monkeypatch) -> None:
    run = make(tmp_path / "run", data, "phase.1.epochs=3", text=RECIPE.split('[[phase]]\nobjective = "critic"')[0])
    scores = iter([10.0, 20.0, 15.0])
    seen, made = [], trainer(run, prepared)

    def judge(_: Validator) -> Criterion:
        seen.append({k: t.clone() for k, t in made._networks().items()})
        return Criterion("bleu", next(scores))

    monkeypatch.setattr(Validator, "judge", judge)
    made.train()
    assert same(final(run), seen[1])
    assert not same(final(run), seen[2])
    rates = [entry["rate"] for entry in without_times(run) if entry["event"] == "validation"]
    assert rates == [1.0, 1.0, 0.5]


def test_annealing_is_a_straight_line_below_what_decay_leaves(
    data: Path, prepared: Prepared, tmp_path: Path, monkeypatch
) -> None:
    """Four epochs of 8 updates, the second no better: 3/4, 2/4 and half of it, half of 1/4, and nothing is left."""
    changes = ("phase.1.epochs=4", "phase.1.anneal=true")
    run = make(tmp_path / "run", data, *changes, text=RECIPE.split('[[phase]]\nobjective = "critic"')[0])
    scores, used, told = iter([10.0, 5.0, 15.0, 20.0]), [], []
    monkeypatch.setattr(Validator, "judge", lambda self: Criterion("bleu", next(scores)))
    step = Learner.update

    def update(self: Learner, *given: object) -> object:
        used.append(self.optimizers["actor"].param_groups[0]["lr"])
        told.append(given[-1])
        return step(self, *given)

    monkeypatch.setattr(Learner, "update", update)
    trainer(run, prepared).train()
    rates = [entry["rate"] for entry in without_times(run) if entry["event"] == "validation"]
    assert rates == pytest.approx([3 / 4, 1 / 4, 1 / 8, 0])
    line = [0.5 * (1 - n / 32) for n in range(32)]
    assert used == pytest.approx(line[:16] + [rate / 2 for rate in line[16:]])
    assert [progress[:3] for progress in told] == [(n, 32, 1.0) for n in range(32)]  # for schedules of a phase's own
    assert not told[0].last
    assert all(progress.last.keys() >= {"nll", "actor_gradient"} for progress in told[1:])


def test_updates_end_a_phase_within_an_epoch_and_annealing_with_it(
    data: Path, prepared: Prepared, tmp_path: Path, monkeypatch
) -> None:
    """Epochs of 8 updates, cut after 12: validated after 8 and at the end, where nothing of the rate is left."""
    changes = ("phase.1.epochs=4", "phase.1.updates=12", "phase.1.anneal=true")
    run = make(tmp_path / "run", data, *changes, text=RECIPE.split('[[phase]]\nobjective = "critic"')[0])
    said: list[str] = []
    trainer(run, prepared, said.append, log_every=4).train()
    assert said[0].startswith("mle: at most 12 updates, sgd 0.5, ")
    assert [text.split(",")[0:2] for text in said if "epoch" in text][-1] == ["mle: epoch 2/2", " update 4/4"]
    validated = [entry for entry in without_times(run) if entry["event"] == "validation"]
    assert [(entry["updates"], entry["rate"]) for entry in validated] == [(8, pytest.approx(4 / 12)), (12, 0)]


FREQUENT = ["--checkpoint-minutes", "0", "--log-every", "3", "--threads", "1"]  # a checkpoint after every update


@pytest.mark.slow
def test_killed_at_any_moment_it_resumes_bit_for_bit(finished: Run, data: Path, tmp_path: Path) -> None:
    """SIGKILL at random moments, most of them while a checkpoint is being written."""
    given, out = tmp_path / "recipe.toml", tmp_path / "run"
    given.write_text(RECIPE)
    rng, kills = random.Random(0), 0
    process = Command("train", given, "--data", data, "--out", out, *FREQUENT)
    while kills < 5:
        while not (out / "checkpoints").exists() and process.running:
            time.sleep(0.01)
        time.sleep(rng.uniform(0.1, 0.9))
        if not process.running:
            break
        process.signal(signal.SIGKILL)
        process.done()
        kills += 1
        process = Command("resume", out, *FREQUENT)
        time.sleep(rng.uniform(0.1, 0.5))  # until it trains again
    assert process.done().returncode == 0
    assert kills >= 2
    run = Run.open(out)
    assert same(final(finished), final(run))
    assert without_times(finished) == without_times(run)
    assert json.loads((out / "result.json").read_text())["recipe"] == "tiny ERAC"


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_continue(finished: Run, data: Path, tmp_path: Path) -> None:
    given, out = tmp_path / "recipe.toml", tmp_path / "run"
    given.write_text(RECIPE)
    process = Command("train", given, "--data", data, "--out", out, "--log-every", 3, "--threads", 1)
    while not (out / "checkpoints").exists():
        time.sleep(0.02)
    time.sleep(0.3)
    process.signal(signal.SIGINT)
    stopped = process.done(60)
    assert stopped.returncode == 2
    assert stopped.stderr == f"seqcredit: stopped and saved; continue with `seqcredit resume {out}`.\n"
    done = starter.run("resume", out, "--log-every", 3, "--threads", 1)
    assert done.returncode == 0
    assert same(final(finished), final(Run.open(out)))


@pytest.mark.slow
def test_a_damaged_checkpoint_costs_only_what_came_after_the_one_before(
    finished: Run, data: Path, prepared: Prepared, tmp_path: Path
) -> None:
    run = make(tmp_path / "run", data)

    class StopError(Exception):
        pass

    class Stopping(Trainer):
        def _update(self, *arguments: object) -> None:
            if self.status.phase == 1 and self.status.updates == 6:
                raise StopError
            super()._update(*arguments)

    with pytest.raises(StopError):
        Stopping(task_of(run.recipe, prepared), run.folder, Reporting(quiet, None, 3, checkpoint_minutes=0.0)).train()
    newest = sorted((run.folder / "checkpoints").iterdir())[-1]
    (newest / "actor.safetensors").write_bytes(b"nonsense")
    said: list[str] = []
    trainer(run, prepared, said.append, log_every=3).train()
    assert any("damaged" in line for line in said)
    assert same(final(finished), final(run))
    assert without_times(finished) == without_times(run)


@pytest.mark.parametrize("keeps", [True, False])
def test_what_an_actor_starts_from_is_kept_if_nothing_is_better(
    keeps: bool, data: Path, prepared: Prepared, tmp_path: Path, monkeypatch
) -> None:
    run = make(tmp_path / "run", data, f"phase.3.keeps_start={str(keeps).lower()}", "phase.*.epochs=1")
    made = trainer(run, prepared)
    monkeypatch.setattr(Validator, "judge", lambda self: Criterion("bleu", 20.0 - made.status.updates))
    made.train()
    validated = [e["updates"] for e in without_times(run) if (e["event"], e["phase"]) == ("validation", "actor_critic")]
    assert validated == ([0, 5, 8] if keeps else [5, 8])
    before, after = (of_network(run.weights(phase), "actor") for phase in ("critic", "actor_critic"))
    assert same(before, after) == keeps


def explaining(monkeypatch, *shares: float) -> None:
    """Validations of a critic say that it explains these shares, one after the other; the more, the better it is."""
    told, judge = iter(shares), Validator.judge

    def said(self: Validator) -> Criterion:
        if not isinstance(self.learner.phase, Critic):
            return judge(self)
        self.measured = {"explained": next(told)}
        return Criterion("return_error", 1 - self.measured["explained"], higher=False)

    monkeypatch.setattr(Validator, "judge", said)


GATE = ("phase.2.critic_until=0.5", "phase.2.validate_every=3")


def test_the_actor_moves_as_soon_as_its_critic_explains_enough(
    data: Path, prepared: Prepared, tmp_path: Path, monkeypatch
) -> None:
    run = make(tmp_path / "run", data, *GATE)
    explaining(monkeypatch, 0.2, 0.49, 0.5)
    trainer(run, prepared).train()
    ends = {e["phase"]: e["updates"] for e in without_times(run) if e["event"] == "phase_end"}
    assert ends == {"mle": 16, "critic": 9, "actor_critic": 16}
    assert not any(e["event"] == "skipped" for e in without_times(run))


def test_without_a_good_critic_the_actor_stays_as_it_was(
    data: Path, prepared: Prepared, tmp_path: Path, monkeypatch
) -> None:
    """Its run is finished all the same, resumed or not."""
    run = make(tmp_path / "run", data, *GATE)
    explaining(monkeypatch, 0.1, 0.4, *[0.2] * 4)  # the best counts, for it is kept
    said: list[str] = []
    trainer(run, prepared, said.append).train()
    assert said[-1] == (
        "critic: after 16 updates the critic explains 0.40 of the returns' variance, and 0.5 was asked for. "
        "Skipped: actor_critic; the model stays as it was. Train the critic longer, or lower critic_least."
    )
    before, after = (of_network(run.weights(phase), "actor") for phase in ("mle", "actor_critic"))
    assert same(before, after)
    *_, skipped, end = without_times(run)
    assert (skipped["event"], skipped["skipped"]) == ("skipped", ["actor_critic"])
    assert (end["event"], end["phase"], end["updates"]) == ("phase_end", "actor_critic", 0)
    again = trainer(run, prepared)
    again.train()
    assert again.status.done
    assert again.status.skipped == ["actor_critic"]


def test_a_run_with_a_leash_and_caution_resumes_bit_for_bit(
    data: Path, prepared: Prepared, tmp_path: Path, monkeypatch
) -> None:
    careful = ("phase.3.leash=0.1", "phase.3.cautious=true", "phase.2.target_rate_end=0.01", "phase.1.epochs=1")
    whole, stopped = (make(tmp_path / name, data, *careful) for name in ("whole", "stopped"))
    trainer(whole, prepared, log_every=3).train()
    update = Trainer._update

    def stop_in_the_last_phase(self: Trainer, *given: Any) -> None:
        update(self, *given)
        self.stop = self.status.phase == 2 and self.status.updates == 6

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_update", stop_in_the_last_phase)
        with pytest.raises(StoppedError):
            trainer(stopped, prepared, log_every=3).train()
    trainer(stopped, prepared, log_every=3).train()
    assert same(final(whole), final(stopped))
    assert without_times(whole) == without_times(stopped)
    joint = [e for e in without_times(whole) if e["event"] == "train" and e["phase"] == "actor_critic"]
    assert joint
    assert all("drift" in entry for entry in joint)


def test_a_run_by_a_budget_of_tokens_resumes_bit_for_bit(
    data: Path, prepared: Prepared, tmp_path: Path, monkeypatch
) -> None:
    """Stopped within the second epoch; every epoch has all pairs, and what a pair counts for is that of any other."""
    changes = ("phase.1.sort_by=both", "phase.1.batch_tokens=300")
    text = RECIPE.split('[[phase]]\nobjective = "critic"')[0]
    whole, stopped = (make(tmp_path / name, data, *changes, text=text) for name in ("whole", "stopped"))
    said: list[str] = []
    made = trainer(whole, prepared, said.append, log_every=3)
    made.train()
    updates = int(made.status.updates)
    assert "batches of 300 tokens, " in said[0]
    references = prepared.split("train").reference_lengths
    assert made.status.tokens == 2 * (int(references.sum()) + len(references))
    update = Trainer._update

    def stop_in_the_second_epoch(self: Trainer, *given: Any) -> None:
        update(self, *given)
        self.stop = self.status.updates == updates // 2 + 2

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_update", stop_in_the_second_epoch)
        with pytest.raises(StoppedError):
            trainer(stopped, prepared, log_every=3).train()
    trainer(stopped, prepared, log_every=3).train()
    assert same(final(whole), final(stopped))
    assert without_times(whole) == without_times(stopped)


SYSTEMS = """
name = "one after another"
[actor]
embedding = 12
hidden = 12
[[phase]]
objective = "reinforce"
baseline = "mean"
leash = 0.1
[[phase]]
objective = "mixer"
delta_every = 2
samples = 2
[[phase]]
objective = "grpo"
samples = 2
[[phase]]
objective = "mrt"
samples = 2
[[phase]]
objective = "scheduled_sampling"
pace = 3
""".replace("[[phase]]", "[[phase]]\nlearning_rate = 0.01\noptimizer = 'adam'\nepochs = 1\nbatch_size = 30")


@pytest.mark.slow
def test_runs_of_samples_resume_bit_for_bit(data: Path, prepared: Prepared, tmp_path: Path, monkeypatch) -> None:
    """Stopped within every phase: what a moving baseline, a leash and the schedules know is kept."""
    whole, stopped = (make(tmp_path / name, data, text=SYSTEMS) for name in ("whole", "stopped"))
    trainer(whole, prepared, log_every=2).train()
    update, earned = Trainer._update, []

    def stop_in_every_phase(self: Trainer, batches: Any, number: int, progress: Any) -> None:
        update(self, batches, number, progress)
        earned.append(progress.earned)
        self.stop = self.status.updates == 3

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_update", stop_in_every_phase)
        for _ in range(5):
            with pytest.raises(StoppedError):
                trainer(stopped, prepared, log_every=2).train()
    trainer(stopped, prepared, log_every=2).train()
    assert same(final(whole), final(stopped))
    assert without_times(whole) == without_times(stopped)
    assert earned[0] == 0
    assert len({*earned[:8]}) == 8  # a mean that moves
    assert {e["phase"] for e in without_times(whole) if "drift" in e} == {"reinforce", "grpo"}


ROOMY = ("accumulate=3", "optimizer=adamw", "weight_decay=0.1", "precision=bf16", "warmup=4", "anneal=true")


def test_a_run_in_parts_with_weight_decay_and_bf16_resumes_bit_for_bit(
    data: Path, prepared: Prepared, tmp_path: Path, monkeypatch
) -> None:
    changes = [f"phase.*.{key}" for key in (*ROOMY, "anneal_form=cosine")]
    whole, stopped = (make(tmp_path / name, data, *changes, "phase.*.epochs=1") for name in ("whole", "stopped"))
    trainer(whole, prepared, log_every=3).train()
    update = Trainer._update

    def stop_in_every_phase(self: Trainer, *given: Any) -> None:
        update(self, *given)
        self.stop = self.status.updates == 4

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_update", stop_in_every_phase)
        for _ in range(3):
            with pytest.raises(StoppedError):
                trainer(stopped, prepared, log_every=3).train()
    trainer(stopped, prepared, log_every=3).train()
    assert same(final(whole), final(stopped))
    assert {tensor.dtype for tensor in final(whole).values()} == {torch.float32}
    assert without_times(whole) == without_times(stopped)


class Noting(Trainer):
    """Keeps the learning rates of all steps."""

    rates: list[float]

    def _begin_phase(self) -> None:
        super()._begin_phase()
        self.rates = []
        self.learner.optimizers["actor"].register_step_pre_hook(
            lambda optimizer, *_: self.rates.append(optimizer.param_groups[0]["lr"])
        )


@pytest.mark.parametrize("stop", [20, 3, 11])
def test_rates_rise_and_fall_along_a_cosine_resumed_or_not(
    stop: int, data: Path, prepared: Prepared, tmp_path: Path
) -> None:
    """20 updates at 0.5: five that rise to it, and 15 along half a wave, from 1 to just above 0."""
    schedule = ("warmup=5", "anneal=true", "anneal_form=cosine", "epochs=3", "updates=20", "decay=1.0", "decays=9")
    changes = [f"phase.1.{key}" for key in schedule]
    run = make(tmp_path / "run", data, *changes, text=RECIPE.split('[[phase]]\nobjective = "critic"')[0])

    class Stopping(Noting):
        def _update(self, *given: Any) -> None:
            super()._update(*given)
            self.stop = self.status.updates + 1 == stop < 20

    first = Stopping(task_of(run.recipe, prepared), run.folder, Reporting(quiet))
    if stop < 20:
        with pytest.raises(StoppedError):
            first.train()
        second = Noting(task_of(run.recipe, prepared), run.folder, Reporting(quiet))
        second.train()
        rates = first.rates + second.rates
    else:
        first.train()
        rates = first.rates
    wave = [0.25 * (1 + math.cos(math.pi * n / 15)) for n in range(15)]
    assert rates == pytest.approx([*(0.1 * n for n in range(1, 6)), *wave])


def diverging(folder: Path, data: Path, prepared: Prepared, *changes: str) -> Run:
    """It starts from weights that somebody else has ruined: a rate that is too high is not so for every machine."""
    run = make(folder, data, *changes, text=RECIPE.split('[[phase]]\nobjective = "critic"')[0])
    weights = {f"actor.{key}": tensor for key, tensor in build_actor(run.recipe, prepared).state_dict().items()}
    run.save_weights(INITIAL, {**weights, "actor.readout.bias": weights["actor.readout.bias"] + torch.inf})
    return run


def test_divergence_can_be_recorded(data: Path, prepared: Prepared, tmp_path: Path) -> None:
    run = diverging(tmp_path / "run", data, prepared, 'on_divergence="record"')
    made = trainer(run, prepared)
    made.train()
    assert made.status.diverged == ["mle"]
    assert [e["event"] for e in without_times(run)][-2:] == ["diverged", "phase_end"]


def test_divergence_goes_back_three_times_then_gives_up_with_advice(
    data: Path, prepared: Prepared, tmp_path: Path
) -> None:
    run = diverging(tmp_path / "run", data, prepared)
    said: list[str] = []
    with pytest.raises(UserError, match="fourth time; lower the learning rate"):
        trainer(run, prepared, said.append).train()
    assert sum("half the learning rate" in line for line in said) == 3
    assert sum(e["event"] == "diverged" for e in without_times(run)) == 4


def torchrun(*words: object) -> list[str]:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    return [*launch, "-m", "seqcredit", *map(str, words)]


def killed(*words: object, once: Callable[[], bool]) -> None:
    """Start a command in two processes, and kill both as soon as something is so."""
    started = subprocess.Popen(torchrun(*words), start_new_session=True)
    while not once():
        assert started.poll() is None
        time.sleep(0.02)
    workers = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()  # in sessions of their own
    assert len(workers) == 2
    for number in (started.pid, *map(int, workers)):
        os.kill(number, signal.SIGKILL)
    started.wait()


def saved(run: Path) -> list[Path]:
    return sorted((run / "checkpoints").glob("0*"))


OFTEN = ("--log-every", 3, "--checkpoint-minutes", 0)


@pytest.mark.slow
def test_two_processes_are_one(finished: Run, data: Path, tmp_path: Path) -> None:
    """torchrun with two gloo processes: the same losses and weights, also across a kill and a resume."""
    given, out = tmp_path / "recipe.toml", tmp_path / "run"
    given.write_text(RECIPE)
    begin = ("train", given, "--data", data, "--out", out, *OFTEN)
    killed(*begin, once=lambda: len(saved(out)) == 2 and "critic" in (out / "log.jsonl").read_text())
    done = subprocess.run(torchrun("resume", out, "--log-every", 3), check=False, timeout=300)
    assert done.returncode == 0
    mine, whole = final(Run.open(out)), final(finished)
    for key, tensor in whole.items():
        torch.testing.assert_close(mine[key], tensor, atol=1e-5, rtol=1e-4)


BRINGING = {
    "sac": "samples = 1\ntau = 0.1\n",
    "pcl": "tau = 0.1\n",
    "professor_forcing": "enough = 0.0\nhidden = 8\n",
}


@pytest.mark.parametrize("objective", BRINGING)
def test_what_a_phase_brings_is_resumed_bit_for_bit(
    objective: str, data: Path, prepared: Prepared, tmp_path: Path
) -> None:
    """Networks of its own, their optimizers, and what the last update watched."""
    options = f'[[phase]]\nobjective = "{objective}"\noptimizer = "adam"\nlearning_rate = 0.01\nepochs = 1\n'
    text = RECIPE.split("[[phase]]")[0] + options + "batch_size = 60\n" + BRINGING[objective]

    def networks(made: Trainer) -> dict[str, torch.Tensor]:
        return {f"{n}.{k}": w for n, network in made.learner.networks.items() for k, w in network.state_dict().items()}

    whole = trainer(make(tmp_path / "whole", data, text=text), prepared, log_every=1)
    start = {key: weight.clone() for key, weight in whole.task.networks["actor"].state_dict().items()}
    whole.train()
    assert any(not torch.equal(weight, networks(whole)[f"actor.{key}"]) for key, weight in start.items())
    run = make(tmp_path / "stopped", data, text=text)
    stopped = trainer(run, prepared, log_every=1)
    update = stopped._update

    def once(*given: Any) -> None:
        update(*given)
        stopped.stop = stopped.status.updates == 1

    stopped._update = once
    with pytest.raises(StoppedError):
        stopped.train()
    resumed = trainer(run, prepared, log_every=1)
    resumed.train()
    own = set(whole.learner.networks) - {"actor", "critic", "target"}
    assert len(own) == 1
    assert same(networks(resumed), networks(whole))
    assert without_times(run) == without_times(Run.open(tmp_path / "whole"))
    fresh = whole.phase.brings(whole.task.networks["actor"], 1)[own.pop()].state_dict()
    assert not same(dict(fresh), dict(whole.learner.networks[whole.phase.trains[-1]].state_dict()))


@pytest.mark.slow
def test_any_number_of_processes_goes_on_with_shards(finished: Run, data: Path, tmp_path: Path) -> None:
    """Begun by one process, killed, sharded by two, killed, sharded by two again, killed, ended by one."""
    given, out, log = tmp_path / "recipe.toml", tmp_path / "run", tmp_path / "run" / "log.jsonl"
    given.write_text(RECIPE)
    alone = Command("train", given, "--data", data, "--out", out, *OFTEN)
    while len(saved(out)) < 2:
        assert alone.running
    alone.signal(signal.SIGKILL)
    alone.done()
    killed("resume", out, *OFTEN, "--shard", once=lambda: '"critic"' in log.read_text())
    assert {path.name for path in saved(out)[-1].iterdir()} == {
        ".metadata",
        "__0_0.distcp",
        "__1_0.distcp",
        "state.json",
    }
    sizes = [path.stat().st_size for path in saved(out)[-1].glob("*.distcp")]
    assert min(sizes) > 0.4 * sum(sizes)  # each has its part
    killed("resume", out, *OFTEN, "--shard", once=lambda: '"actor_critic"' in log.read_text())
    harmed = saved(out)[-1] / "__1_0.distcp"
    harmed.write_bytes(harmed.read_bytes()[:-1])
    done = Command("resume", out, "--log-every", 3).done()
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("is damaged") == 1
    mine, whole = final(Run.open(out)), final(finished)
    for key, tensor in whole.items():
        torch.testing.assert_close(mine[key], tensor, atol=1e-5, rtol=1e-4)
    assert without_times(Run.open(out))[-1] == without_times(finished)[-1]


def test_while_an_actor_waits_nothing_slows_down(data: Path, prepared: Prepared, tmp_path: Path, monkeypatch) -> None:
    """The start validates best; two of the later validations come before the actor moves, the third after it."""
    options = '[[phase]]\nobjective = "a2c"\noptimizer = "adam"\nlearning_rate = 0.01\nepochs = 3\nbatch_size = 120\n'
    text = RECIPE.split("[[phase]]")[0] + options + "critic_first = 4\n"
    made = trainer(make(tmp_path / "run", data, text=text), prepared)
    actor, seen = made.task.networks["actor"], []

    def judge(_: Validator) -> Criterion:
        seen.append(actor.readout.weight.detach().clone())
        return Criterion("bleu", 20.0 - made.status.updates)

    monkeypatch.setattr(Validator, "judge", judge)
    made.train()
    rates = [e["rate"] for e in log_entries(tmp_path / "run" / "log.jsonl") if e["event"] == "validation"]
    assert rates == [1.0, 1.0, 1.0, 0.5]
    assert [torch.equal(seen[0], later) for later in seen] == [True, True, True, False]
