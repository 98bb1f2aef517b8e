"""Credit error of networks made right or wrong on purpose, and of networks that learn, which it leaves alone."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqcredit import config
from seqcredit.credit.oracle import EditOracle
from seqcredit.data.prepared import Prepared
from seqcredit.errors import UserError
from seqcredit.training.build import build_actor, build_critic
from seqcredit.training.exact import EditJudge, RolloutJudge, judge_of, short
from seqcredit.training.log import log_entries
from seqcredit.training.runs import Run, of_network
from seqcredit.training.trainer import Trainer
from seqcredit.types import lengths

PAYOFF = config.Payoff(metric="edit")
SOFT_Q = config.SoftQ("soft_q", 0.01, "adam", tau=0.2, bound=20, samples=2, epochs=2, batch_size=80, exact=3)
CRITIC = config.Critic("critic", 0.01, "adam", tau=0.1, extra_length=2, samples=1, epochs=2, batch_size=120, exact=2)
EVERYTHING = replace(
    SOFT_Q, look_ahead="target", target_rate=0.1, steps=3, exact_eos=0.5, proposal="mixed", judged_by="exact"
)
SMALL = config.Model(8, 8)
JUDGED = config.Model(8, 8, attention="dot", dropout=0.2)


class Exact(nn.Module):
    """A critic whose Q is the oracle's, plus a number."""

    def __init__(self, actions: int, phase: config.SoftQ, more: float = 0.0) -> None:
        super().__init__()
        self.actions, self.phase, self.more = actions, phase, more

    def encode(self, references: Tensor) -> Tensor:
        assert not self.training  # dropout would be at work
        return references[:, 0]

    def features(self, memory: Tensor, tokens: Tensor) -> Tensor:
        rows = []
        for reference, row in zip(memory, tokens, strict=True):
            words = reference[: int(lengths(reference))]
            oracle = EditOracle.solve(words, self.actions, self.phase.bound, self.phase.tau)
            rows.append(oracle.along(row.unsqueeze(0))[0])
        return torch.stack(rows) + self.more

    def readout(self, features: Tensor) -> Tensor:
        return features


def test_the_exact_q_has_no_error_and_a_shift_is_one_of_q_but_not_of_its_targets(prepared: Prepared) -> None:
    judge = EditJudge(PAYOFF, SOFT_Q, prepared, "valid", 3)
    actions = len(prepared.target_vocabulary)
    critic = Exact(actions, SOFT_Q).train()
    assert judge.error(critic) == pytest.approx((0, 0), abs=1e-12)
    assert critic.training
    resting = Exact(actions, SOFT_Q, 0.7).eval()
    absolute, kl = judge.error(resting)
    assert not resting.training
    assert (absolute, kl) == pytest.approx((0.7, 0), abs=1e-12)
    assert judge.figures({"critic": Exact(actions, SOFT_Q, 0.7)}) == {"credit_error": 0.7, "credit_kl": 0.0}
    assert judge.states == int((lengths(judge.tokens) + 1).sum()) > 3 * 4 * 3


def test_a_network_that_learned_nothing_is_far_off(prepared: Prepared) -> None:
    recipe = config.Recipe("r", (SOFT_Q,), payoff=PAYOFF, actor=SMALL, critic=JUDGED)
    absolute, kl = EditJudge(PAYOFF, SOFT_Q, prepared, "valid", 3).error(build_critic(recipe, prepared))
    assert absolute > 0.5
    assert kl > 0.5


def test_only_what_is_short_enough_for_the_bound_is_judged(prepared: Prepared) -> None:
    assert (lengths(short(prepared, "valid", 9, 9).references) <= 9).all()
    tight = config.SoftQ("q", 0.1, tau=0.2, bound=9)
    assert (lengths(EditJudge(PAYOFF, tight, prepared, "valid", 2).tokens) <= 8).all()
    with pytest.raises(UserError, match=r"No reference of valid in .* has 4 words or fewer.* set exact to 0\."):
        EditJudge(PAYOFF, replace(tight, bound=5), prepared, "valid", 2)


@pytest.mark.parametrize(
    "payoff", [config.Payoff(), config.Payoff("edit", unfinished="nothing"), config.Payoff("edit", scaled=False)]
)
def test_another_payoff_has_no_exact_oracle(payoff: config.Payoff, prepared: Prepared) -> None:
    with pytest.raises(UserError, match="plain edit distance"):
        EditJudge(payoff, SOFT_Q, prepared, "valid", 3)


class Constant(nn.Module):
    """A critic that says the same of everything."""

    def __init__(self, value: float, actions: int) -> None:
        super().__init__()
        self.value, self.actions = value, actions

    def encode(self, references: Tensor) -> Tensor:
        return references[:, 0]

    def start(self, memory: Tensor) -> Tensor:
        return memory

    def step(self, memory: Tensor, state: Tensor, token: Tensor | None) -> tuple[Tensor, Tensor]:
        return torch.full((len(memory), self.actions), self.value), state

    def readout(self, features: Tensor) -> Tensor:
        return features


def test_rollouts_are_made_anew_only_where_the_actor_moves(prepared: Prepared) -> None:
    recipe = config.Recipe("r", (CRITIC,), actor=SMALL, critic=JUDGED)
    actor, actions = build_actor(recipe, prepared).train(), len(prepared.target_vocabulary)
    judge = RolloutJudge(recipe.payoff, CRITIC, prepared, "valid", 3, words=2, rollouts=8)
    assert "+-" not in judge.name
    low, high = (judge.error(actor, Constant(value, actions)) for value in (-100.0, 100.0))
    assert low + high == pytest.approx(200, rel=1e-5)  # every estimate lies between
    assert actor.training
    assert judge.states == 6
    assert "+-" in judge.name
    with torch.no_grad():
        actor.readout.bias[0] += 50  # now it always stops at once, and there is no entropy
    unchanged = judge.error(actor, Constant(-100.0, actions), again=False)
    assert unchanged == low
    assert judge.error(actor, Constant(-100.0, actions)) != low


def test_a_phase_gets_the_judge_that_it_asks_for(prepared: Prepared) -> None:
    assert isinstance(judge_of(SOFT_Q, PAYOFF, prepared), EditJudge)
    assert isinstance(judge_of(CRITIC, PAYOFF, prepared), RolloutJudge)
    for phase in (config.SoftQ("q", 0.1), config.Critic("c", 0.1), config.Mle("m", 0.1)):
        assert judge_of(phase, PAYOFF, prepared) is None


# In a whole training.


def train(
    folder: Path, prepared: Prepared, phase: config.Phase, stop_at: int | None = None, copy: int = 0
) -> tuple[Run, list[str]]:
    """A run of one phase; it may be stopped once and go on in another process' stead."""
    critic = replace(JUDGED, copy=copy)
    recipe = config.Recipe("r", (phase,), payoff=PAYOFF, actor=SMALL, critic=critic, longest_output=12)
    run, said = Run.create(folder, "", recipe, prepared.folder, {}), []

    class StopError(Exception):
        pass

    class Stopping(Trainer):
        def _update(self, *arguments: Any) -> None:
            if self.progress.updates == stop_at:
                raise StopError
            super()._update(*arguments)

    if stop_at is not None:
        with pytest.raises(StopError):
            Stopping(run, prepared, said.append, log_every=3, checkpoint_minutes=0.0).train()
    Trainer(run, prepared, said.append, log_every=3).train()
    return run, said


def log_without_times(run: Run) -> list[dict[str, Any]]:
    return [{k: v for k, v in e.items() if k != "time"} for e in log_entries(run.folder / "log.jsonl")]


def validations(run: Run) -> list[dict[str, Any]]:
    return [entry for entry in log_without_times(run) if entry["event"] == "validation"]


@pytest.mark.slow
def test_all_ways_to_a_better_q_at_once_resume_bit_for_bit(prepared: Prepared, tmp_path: Path) -> None:
    """A target network, several steps, eos, its own policy, copying; the best by the exact Q is kept."""
    run, _ = train(tmp_path / "run", prepared, EVERYTHING, copy=16)
    resumed, _ = train(tmp_path / "resumed", prepared, EVERYTHING, stop_at=4, copy=16)
    assert "critic.pointer.weight" in run.weights()
    assert all(torch.equal(tensor, resumed.weights()[key]) for key, tensor in run.weights().items())
    assert log_without_times(run) == log_without_times(resumed)
    judge = EditJudge(PAYOFF, EVERYTHING, prepared, "valid", 3)
    critic = build_critic(run.recipe, prepared)
    critic.load_state_dict(of_network(run.weights(), "critic"))
    measured = validations(run)
    best = min(measured, key=lambda entry: entry["credit_kl"])
    assert judge.figures({"critic": critic}) == {key: best[key] for key in ("credit_error", "credit_kl")}
    assert measured[0]["improved"]
    trained = [entry for entry in log_without_times(run) if entry["event"] == "train"]
    assert all(entry.keys() >= {"td", "eos_error", "distinct", "diversity"} for entry in trained)


def test_soft_q_can_be_judged_by_its_residuals(prepared: Prepared, tmp_path: Path) -> None:
    run, said = train(tmp_path / "run", prepared, replace(SOFT_Q, exact=0, judged_by="td", epochs=1))
    (entry,) = validations(run)
    assert entry["td"] > 0
    assert "bleu" not in entry
    trainer = Trainer(run, prepared, said.append)
    trainer._load(run.weights())
    trainer.progress.phase = 0
    trainer._begin_phase()
    kind, score = trainer.judge()
    assert (kind, round(-score, 4)) == ("td", entry["td"])  # the same draws, and no dropout
    assert trainer.models["critic"].training


@pytest.mark.slow
@pytest.mark.parametrize("phase", [SOFT_Q, CRITIC], ids=["soft_q", "critic"])
def test_it_is_measured_without_a_trace_and_after_a_resume(
    phase: config.Phase, prepared: Prepared, tmp_path: Path
) -> None:
    run, said = train(tmp_path / "with", prepared, phase)
    without, _ = train(tmp_path / "without", prepared, replace(phase, exact=0))  # type: ignore[call-arg]
    resumed, _ = train(tmp_path / "resumed", prepared, phase, stop_at=3)
    mine, plain = run.weights(), without.weights()
    assert all(torch.equal(mine[key], plain[key]) for key in mine)
    assert all(torch.equal(mine[key], tensor) for key, tensor in resumed.weights().items())
    measured = validations(run)
    keys = {"credit_error", "credit_kl"} if phase is SOFT_Q else {"credit_error"}
    assert len(measured) == 2
    for entry, other in zip(measured, validations(without), strict=True):
        assert {k: v for k, v in entry.items() if k not in keys} == other
        assert all(entry[key] > 0 for key in keys)
    assert validations(resumed) == measured
    lines = [line for line in said if "validation" in line]
    for line, entry in zip(lines, measured, strict=True):
        assert float(re.search(r", credit error ([\d.]+), ", line)[1]) == pytest.approx(entry["credit_error"], rel=1e-3)
        assert ("KL of token targets" in line) == (phase is SOFT_Q)
