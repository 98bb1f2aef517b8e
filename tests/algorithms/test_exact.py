"""Credit error of networks made right or wrong on purpose, and of networks that learn, which it leaves alone."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from brute import edit_distance, soft_max
from seqcredit.algorithms import ActorCritic, Critic, Mle, Models, Phase, SoftQ
from seqcredit.algorithms.exact import THIRDS, EditJudge, RolloutJudge, plain_edit
from seqcredit.algorithms.phase import Examples
from seqcredit.credit.oracle import EditOracle
from seqcredit.data.prepared import Prepared
from seqcredit.errors import UserError
from seqcredit.experiments.build import build_actor, build_critic, build_reward, load_critic, task_of
from seqcredit.experiments.recipe import Recipe
from seqcredit.experiments.runs import Run
from seqcredit.models.build import LSTM
from seqcredit.models.policy import Network, Policy, Tensors, Written
from seqcredit.rewards import EditDistance
from seqcredit.rewards.payoff import Payoff
from seqcredit.training.log import TIMES, log_entries
from seqcredit.training.status import Reporting
from seqcredit.training.trainer import Trainer
from seqcredit.training.validation import examples_of, short
from seqcredit.types import Alphabet, Batch, lengths

PAYOFF = Payoff(metric="edit")
SOFT_Q = SoftQ("soft_q", 0.01, "adam", tau=0.2, bound=20, samples=2, epochs=2, batch_size=80, exact=3)
CRITIC = Critic("critic", 0.01, "adam", tau=0.1, extra_length=2, samples=1, epochs=2, batch_size=120, exact=2)
EVERYTHING = replace(
    SOFT_Q, look_ahead="target", target_rate=0.1, steps=3, exact_eos=0.5, proposal="mixed", judged_by="exact"
)
SMALL = LSTM(8, 8)
JUDGED = LSTM(8, 8, attention="dot", dropout=0.2)


@dataclass(frozen=True)
class Reference(Tensors):
    """All that these critics remember."""

    words: Tensor


class Knowing(Policy[Reference, Reference]):
    """A critic without weights to speak of."""

    reads = "references"

    def __init__(self, actions: int) -> None:
        super().__init__()
        self.alphabet, self.nothing = Alphabet(actions), nn.Parameter(torch.zeros(0))

    def encode(self, references: Tensor) -> Reference:
        return Reference(references[:, 0])

    def score(self, memory: Reference, tokens: Tensor, dropout: Any = None) -> Written:
        raise NotImplementedError

    def start(self, memory: Reference) -> Reference:
        return memory

    def step(self, memory: Reference, state: Reference, token: Any, dropout: Any = None) -> tuple[Written, Reference]:
        raise NotImplementedError


class Exact(Knowing):
    """A critic whose Q is the oracle's, plus a number."""

    def __init__(self, actions: int, phase: SoftQ, more: float = 0.0) -> None:
        super().__init__(actions)
        self.phase, self.more = phase, more

    def score(self, memory: Reference, tokens: Tensor, dropout: Any = None) -> Written:
        assert not self.training  # dropout would be at work
        rows = []
        for reference, row in zip(memory.words, tokens, strict=True):
            words = reference[: int(lengths(reference))]
            oracle = EditOracle.solve(words, self.alphabet.size, self.phase.bound, self.phase.tau)
            rows.append(oracle.along(row.unsqueeze(0))[0])
        return Written(torch.stack(rows) + self.more)


def examples(prepared: Prepared, payoff: Payoff = PAYOFF) -> Examples:
    recipe = Recipe("r", (SOFT_Q,), payoff=payoff)
    alphabet = Alphabet(len(prepared.target_vocabulary))
    return examples_of(prepared, "valid", build_reward(recipe, prepared), alphabet)


def edit_judge(prepared: Prepared, phase: SoftQ, sentences: int, payoff: Payoff = PAYOFF) -> EditJudge:
    return EditJudge(examples(prepared, payoff), phase.tau, phase.bound, sentences)


def test_the_exact_q_has_no_error_and_a_shift_is_one_of_q_but_not_of_its_targets(prepared: Prepared) -> None:
    judge = edit_judge(prepared, SOFT_Q, 3)
    actions = len(prepared.target_vocabulary)
    critic = Exact(actions, SOFT_Q).train()
    assert judge.error(critic) == pytest.approx((0, 0), abs=1e-12)
    assert critic.training
    resting = Exact(actions, SOFT_Q, 0.7).eval()
    absolute, kl = judge.error(resting)
    assert not resting.training
    assert (absolute, kl) == pytest.approx((0.7, 0), abs=1e-12)
    nobody = Knowing(actions)
    assert judge.figures(Models(nobody, Exact(actions, SOFT_Q, 0.7))) == {"credit_error": 0.7, "credit_kl": 0.0}
    assert judge.states == int((lengths(judge.tokens) + 1).sum()) > 3 * 4 * 3


class Brute(Knowing):
    """A critic whose Q is found by trying all continuations, in an alphabet of its own."""

    def __init__(self, alphabet: Alphabet, bound: int, tau: float, more: float = 0.0) -> None:
        super().__init__(alphabet.size)
        self.alphabet, self.bound, self.tau, self.more = alphabet, bound, tau, more
        assert alphabet.actions is not None
        self.words = [number for number in alphabet.actions.nonzero().squeeze(1).tolist() if number != alphabet.eos]

    def score(self, memory: Reference, tokens: Tensor, dropout: Any = None) -> Written:
        out = torch.full((*tokens.shape, self.alphabet.size), 99.0, dtype=torch.float64)  # nobody looks at the barred
        for b, (reference, row) in enumerate(zip(memory.words, tokens, strict=True)):
            known = reference[: int(lengths(reference, self.alphabet.eos))].tolist()
            for t in range(int(lengths(row, self.alphabet.eos)) + 1):
                for number, value in self._q(known, row[:t].tolist()).items():
                    out[b, t, number] = value + self.more
        return Written(out)

    def _q(self, reference: list[int], prefix: list[int]) -> dict[int, float]:
        found = {self.alphabet.eos: 0.0}
        if len(prefix) == self.bound - 1:
            return found
        here = -edit_distance(prefix, reference)
        for word in self.words:
            after = [*prefix, word]
            later = soft_max([*self._q(reference, after).values()], self.tau)
            found[word] = -edit_distance(after, reference) - here + later
        return found


def test_another_alphabet_has_its_own_exact_q() -> None:
    """eos is not 0, some ids are no actions, and Q* of every other one is found by trying all continuations."""
    actions = torch.ones(7, dtype=torch.bool)
    actions[[0, 5]] = False
    alphabet = Alphabet(7, 3, None, actions)
    batch = Batch(torch.zeros(2, 1, dtype=torch.long), torch.tensor([[[1, 4, 3]], [[6, 3, 3]]]))
    judge = EditJudge(Examples(lambda *_: batch, EditDistance(), alphabet), 0.3, 4, 2)
    assert judge.error(Brute(alphabet, 4, 0.3)) == pytest.approx((0, 0), abs=1e-12)
    assert judge.error(Brute(alphabet, 4, 0.3, 0.7)) == pytest.approx((0.7, 0), abs=1e-12)
    absolute, kl = judge.error(Brute(alphabet, 4, 0.4))
    assert min(absolute, kl) > 0.001


def test_a_network_that_learned_nothing_is_far_off(prepared: Prepared) -> None:
    recipe = Recipe("r", (SOFT_Q,), payoff=PAYOFF, actor=SMALL, critic=JUDGED)
    absolute, kl = edit_judge(prepared, SOFT_Q, 3).error(build_critic(recipe, prepared))
    assert absolute > 0.5
    assert kl > 0.5


def test_only_what_is_short_enough_for_the_bound_is_judged(prepared: Prepared) -> None:
    assert (lengths(short(prepared, "valid", 9, 9).references) <= 9).all()
    tight = SoftQ("q", 0.1, tau=0.2, bound=9)
    assert (lengths(edit_judge(prepared, tight, 2).tokens) <= 8).all()
    with pytest.raises(UserError, match=r"No reference of valid in .* has 4 words or fewer.* set exact to 0\."):
        edit_judge(prepared, replace(tight, bound=5), 2)


@pytest.mark.parametrize("payoff", [Payoff(), Payoff("edit", unfinished="nothing"), Payoff("edit", scaled=False)])
def test_another_payoff_has_no_exact_oracle(payoff: Payoff, prepared: Prepared) -> None:
    with pytest.raises(UserError, match="plain edit distance"):
        edit_judge(prepared, SOFT_Q, 3, payoff)
    assert not plain_edit(payoff)
    assert plain_edit(PAYOFF)


class Constant(Knowing):
    """A critic that says the same of everything."""

    def __init__(self, value: float, actions: int) -> None:
        super().__init__(actions)
        self.value = value

    def score(self, memory: Reference, tokens: Tensor, dropout: Any = None) -> Written:
        return Written(torch.full((*tokens.shape, self.alphabet.size), self.value))


class Worded(Knowing):
    """A critic that says of a word the same wherever it stands."""

    def __init__(self, values: Tensor) -> None:
        super().__init__(len(values))
        self.values = values

    def score(self, memory: Reference, tokens: Tensor, dropout: Any = None) -> Written:
        return Written(self.values.expand(*tokens.shape, -1))


def rollout_judge(prepared: Prepared, tau: float = 0.0) -> tuple[RolloutJudge, Network]:
    """It has followed an actor."""
    recipe = Recipe("r", (CRITIC,), actor=SMALL, critic=JUDGED)
    judge = RolloutJudge(examples(prepared, recipe.payoff), CRITIC.longest_for, tau, 12, words=3, rollouts=8)
    actor = build_actor(recipe, prepared)
    with torch.no_grad():
        actor.readout.bias[0] -= 1  # samples are long enough for all places
    judge.error(actor, Constant(0.0, len(prepared.target_vocabulary)))
    return judge, actor


def test_agreement_is_the_correlation_of_what_tells_words_apart(prepared: Prepared) -> None:
    judge, _ = rollout_judge(prepared)
    assert [known.before.shape[1] for known in judge._known] == [0, 3, 6]
    values = torch.randn(len(prepared.target_vocabulary), generator=torch.Generator().manual_seed(1))
    mine, true = [], []
    for known in judge._known:
        for words, worth in zip(known.words, known.worth.mean.unflatten(0, known.words.shape), strict=True):
            mine += (values[words] - values[words].mean()).tolist()
            true += (worth - worth.mean()).tolist()
    expected = np.corrcoef(mine, true)[0, 1]
    assert abs(expected) > 0.01
    assert judge.agreement(Worded(values)) == pytest.approx(expected, rel=1e-4)
    assert judge.agreement(Worded(7 - 2 * values)) == pytest.approx(-expected, rel=1e-4)


def test_what_is_explained_of_each_third_by_hand(prepared: Prepared) -> None:
    """A constant explains nothing, and the less the farther it is from the mean."""
    judge, actor = rollout_judge(prepared)
    samples, reward = judge._samples, build_reward(Recipe("r", (CRITIC,)), prepared)
    scores = reward.prefix_scores(samples, judge.batch.references)
    thirds: list[list[float]] = [[], [], []]
    for row, words in zip(scores.tolist(), lengths(samples).tolist(), strict=True):
        for t in range(words + 1):
            thirds[int(3 * t / (words + 1))].append(row[-1] - row[t])
    found = judge.explained(actor, Constant(1.5, len(prepared.target_vocabulary)))
    expected = [-((np.mean(of) - 1.5) ** 2) / np.var(of) for of in thirds]
    assert list(found.values()) == pytest.approx(expected, rel=1e-3)
    assert list(found) == ["explained_first", "explained_middle", "explained_last"]


def test_later_entropy_is_part_of_what_is_to_be_explained(prepared: Prepared) -> None:
    judge, actor = rollout_judge(prepared, tau=0.5)
    nothing = Constant(0.0, len(prepared.target_vocabulary))
    without = rollout_judge(prepared)[0].explained(actor, nothing)
    assert judge.explained(actor, nothing)["explained_first"] < without["explained_first"]


def test_rollouts_are_made_anew_only_where_the_actor_moves(prepared: Prepared) -> None:
    recipe = Recipe("r", (CRITIC,), actor=SMALL, critic=JUDGED)
    actor, actions = build_actor(recipe, prepared).train(), len(prepared.target_vocabulary)
    judge = RolloutJudge(
        examples(prepared, recipe.payoff), CRITIC.longest_for, CRITIC.later_tau, 3, words=2, rollouts=8
    )
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
    given = examples(prepared)
    assert isinstance(SOFT_Q.judge(given), EditJudge)
    judge = CRITIC.judge(given)
    assert isinstance(judge, RolloutJudge)
    assert not judge.again  # its actor does not learn
    joint = ActorCritic("ac", 0.1, exact=2).judge(given)
    assert joint is not None
    assert joint.again
    for phase in (SoftQ("q", 0.1), Critic("c", 0.1), Mle("m", 0.1)):
        assert phase.judge(given) is None


# In a whole training.


def train(
    folder: Path, prepared: Prepared, phase: Phase, stop_at: int | None = None, copy: int = 0
) -> tuple[Run, list[str]]:
    """A run of one phase; it may be stopped once and go on in another process' stead."""
    critic, said = replace(JUDGED, copy=copy), []
    recipe = Recipe("r", (phase,), payoff=PAYOFF, actor=SMALL, critic=critic, longest_output=12)
    run = Run.create(folder, "", recipe, prepared.folder, {})

    class StopError(Exception):
        pass

    class Stopping(Trainer):
        def _update(self, *arguments: Any) -> None:
            if self.status.updates == stop_at:
                raise StopError
            super()._update(*arguments)

    reporting = Reporting(said.append, log_every=3)
    if stop_at is not None:
        with pytest.raises(StopError):
            Stopping(task_of(recipe, prepared), folder, replace(reporting, checkpoint_minutes=0.0)).train()
    Trainer(task_of(recipe, prepared), folder, reporting).train()
    return run, said


def log_without_times(run: Run) -> list[dict[str, Any]]:
    return [{k: v for k, v in e.items() if k not in TIMES} for e in log_entries(run.folder / "log.jsonl")]


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
    judge = edit_judge(prepared, EVERYTHING, 3)
    models = Models(build_actor(run.recipe, prepared), load_critic(run, prepared))
    measured = validations(run)
    best = min(measured, key=lambda entry: entry["credit_kl"])
    assert judge.figures(models) == {key: best[key] for key in ("credit_error", "credit_kl")}
    assert measured[0]["improved"]
    trained = [entry for entry in log_without_times(run) if entry["event"] == "train"]
    assert all(entry.keys() >= {"td", "eos_error", "distinct", "diversity"} for entry in trained)


def test_soft_q_can_be_judged_by_its_residuals(prepared: Prepared, tmp_path: Path) -> None:
    run, said = train(tmp_path / "run", prepared, replace(SOFT_Q, exact=0, judged_by="td", epochs=1))
    (entry,) = validations(run)
    assert entry["td"] > 0
    assert "bleu" not in entry
    trainer = Trainer(task_of(run.recipe, prepared), run.folder, Reporting(said.append))
    trainer._load(run.weights())
    trainer._begin_phase()
    found = trainer.validator.judge()
    assert (found.name, round(found.value, 4)) == ("td", entry["td"])  # the same draws, and no dropout
    assert not found.higher
    assert trainer.task.networks["critic"].training


@pytest.mark.slow
@pytest.mark.parametrize("phase", [SOFT_Q, CRITIC], ids=["soft_q", "critic"])
def test_it_is_measured_without_a_trace_and_after_a_resume(phase: Phase, prepared: Prepared, tmp_path: Path) -> None:
    run, said = train(tmp_path / "with", prepared, phase)
    without, _ = train(tmp_path / "without", prepared, replace(phase, exact=0))  # type: ignore[call-arg]
    resumed, _ = train(tmp_path / "resumed", prepared, phase, stop_at=3)
    mine, plain = run.weights(), without.weights()
    assert all(torch.equal(mine[key], plain[key]) for key in mine)
    assert all(torch.equal(mine[key], tensor) for key, tensor in resumed.weights().items())
    measured = validations(run)
    positive = {"credit_error", "credit_kl"} if phase is SOFT_Q else {"credit_error"}
    keys = positive | (set() if phase is SOFT_Q else {"agreement", *THIRDS})
    assert len(measured) == 2
    for entry, other in zip(measured, validations(without), strict=True):
        assert {k: v for k, v in entry.items() if k not in keys} == other
        assert keys <= entry.keys()
        assert all(entry[key] > 0 for key in positive)
    assert validations(resumed) == measured
    lines = [line for line in said if "validation" in line]
    for line, entry in zip(lines, measured, strict=True):
        assert float(re.search(r", credit error ([\d.]+), ", line)[1]) == pytest.approx(entry["credit_error"], rel=1e-3)
        assert ("KL of token targets" in line) == (phase is SOFT_Q)
