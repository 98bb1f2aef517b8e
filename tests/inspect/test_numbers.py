"""The numbers of the credit page against the paper's formulas, written out token by token in float64."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqcredit import algorithms
from seqcredit.credit.oracle import EditOracle
from seqcredit.data.batches import collate
from seqcredit.experiments.build import build_reward, load_actor
from seqcredit.experiments.runs import Run
from seqcredit.inspect import numbers as inspection
from seqcredit.inspect.examiners import Examiner
from seqcredit.inspect.numbers import Credit
from seqcredit.inspect.subjects import Subject, inspect_split, inspect_typed
from seqcredit.results.credit import load_critic
from seqcredit.results.evaluate import write_hypotheses
from seqcredit.rewards.payoff import Payoff
from seqcredit.types import pad


def stepwise(model: Any, read: torch.Tensor, tokens: list[int]) -> np.ndarray:
    """Scores of all actions before each token, one call of `step` after the other."""
    memory = model.encode(read)
    state, before, found = model.start(memory), None, []
    for token in tokens:
        scores, state = model.step(memory, state, before)
        found.append(scores.table()[0].double())
        before = torch.tensor([token])
    return torch.stack(found).detach().numpy()


def by_hand(shown: Any, run: Run, judge: Run, index: int, credit: Credit, soft: bool) -> dict[str, list[float]]:
    """Every quantity of one hypothesis from its definition."""
    split, words = shown.prepared.split("test"), shown.prepared.target_vocabulary.words
    batch = collate(split, np.array([index]))
    tokens = [words.index(word) for word in credit.words]
    tau = judge.recipe.phase[-1].tau
    logits = stepwise(load_actor(run, shown.prepared), batch.source, tokens)
    logp = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    q = stepwise(load_critic(judge, shown.prepared), batch.references, tokens)
    forced = len(tokens) == run.recipe.longest_output + 1  # there the end is certain
    if forced:
        logp[-1], logp[-1, 0] = -1e9, 0
    reward = build_reward(judge.recipe, shown.prepared)
    cut = [reward.prefix_scores(pad([tokens[:t]]), batch.references)[0, -1].item() for t in range(len(tokens))]
    scores = [*cut, cut[-1]]
    entropy = [-sum(math.exp(x) * x for x in row) for row in logp]
    value = [sum(math.exp(x) * (y - tau * x) for x, y in zip(*rows, strict=True)) for rows in zip(logp, q, strict=True)]
    ahead = [tau * math.log(sum(math.exp(y / tau) for y in row)) for row in q] if soft else value
    ahead[-1] = q[-1, 0] if forced else ahead[-1]
    found: dict[str, list[float]] = {k: [] for k in ("logp", "q", "rewards", "advantage", "td", "returns")}
    for t, token in enumerate(tokens):
        last = t == len(tokens) - 1
        r = scores[t + 1] - scores[t]
        found["logp"].append(logp[t, token])
        found["q"].append(q[t, token])
        found["rewards"].append(r)
        found["advantage"].append(q[t, token] - tau * logp[t, token] - value[t])
        found["td"].append(r + (0 if last else ahead[t + 1]) - q[t, token])
        found["returns"].append(scores[-1] - scores[t] + tau * sum(entropy[t + 1 :]))
    return found | {"entropy": entropy, "value": value, "scores": scores}


@pytest.mark.parametrize("index", [0, 3, 7])
def test_every_number_follows_from_its_definition(shown: Any, subjects: list[Subject], index: int) -> None:
    cases = ((shown.mle, shown.erac, False), (shown.erac, shown.erac, False), (shown.vaml, shown.vaml, True))
    for place, (run, judge, soft) in enumerate(cases):
        credit = subjects[index].credits[place]
        for name, numbers in by_hand(shown, run, judge, index, credit, soft).items():
            assert getattr(credit, name) == pytest.approx(numbers, abs=2e-4), (run.recipe.name, name)


def test_some_hypotheses_end_by_force_and_some_do_not(subjects: list[Subject]) -> None:
    """Else the test above has not seen both."""
    lengths = [len(credit.words) for subject in subjects for credit in subject.credits]
    assert max(lengths) == 13
    assert min(lengths) < 13


def test_the_likeliest_and_the_best_words_are_listed(shown: Any, subjects: list[Subject]) -> None:
    credit, split = subjects[2].credits[1], shown.prepared.split("test")
    words = shown.prepared.target_vocabulary.words
    tokens, batch = [words.index(word) for word in credit.words], collate(split, np.array([2]))
    q = stepwise(load_critic(shown.erac, shown.prepared), batch.references, tokens)
    logits = stepwise(load_actor(shown.erac, shown.prepared), batch.source, tokens)
    for t in range(len(tokens) - 1):
        pi, target = np.exp(logits[t]) / np.exp(logits[t]).sum(), np.exp(q[t] / 0.3) / np.exp(q[t] / 0.3).sum()
        likeliest, best = np.argsort(-pi)[:5], np.argsort(-target)[:5]
        assert [choice.word for choice in credit.policy[t]] == [words[i] for i in likeliest]
        assert [choice.p for choice in credit.policy[t]] == pytest.approx(pi[likeliest], abs=1e-5)
        assert [choice.q for choice in credit.policy[t]] == pytest.approx(q[t][likeliest], abs=1e-4)
        assert credit.target is not None
        assert [choice.word for choice in credit.target[t]] == [words[i] for i in best]
        assert [choice.p for choice in credit.target[t]] == pytest.approx(target[best], abs=1e-4)


def test_only_eos_is_listed_at_the_bound(subjects: list[Subject]) -> None:
    forced = next(c for s in subjects for c in s.credits[:2] if len(c.words) == 13)
    assert [(choice.word, choice.p) for choice in forced.policy[-1]] == [("</s>", 1.0)]
    assert forced.target is not None
    assert [(choice.word, choice.p) for choice in forced.target[-1]] == [("</s>", 1.0)]
    assert forced.entropy[-1] == 0


def test_the_exact_q_is_there_for_short_references_and_edit_distance(shown: Any, subjects: list[Subject]) -> None:
    words = shown.prepared.target_vocabulary
    for subject in subjects:
        mle, erac, vaml = subject.credits
        assert mle.oracle is None
        assert erac.oracle is None
        short = len(subject.references[0].split()) <= inspection.LONGEST_EXACT
        assert (vaml.oracle is not None) == short
        if vaml.oracle is not None:
            reference = torch.tensor(words.encode(subject.references[0].split()))
            oracle = EditOracle.solve(reference, len(words), 20, 0.2)
            tokens = torch.tensor([[words.words.index(word) for word in vaml.words]])
            exact = oracle.along(tokens)[0]
            for t, state in enumerate(vaml.oracle):
                assert [choice.q for choice in state] == pytest.approx(
                    exact[t].sort(descending=True).values[:5].tolist()
                )
                shares = torch.softmax(exact[t] / 0.2, -1)
                assert state[0].p == pytest.approx(float(shares.max()))


def test_some_reference_is_short(subjects: list[Subject]) -> None:
    assert any(subject.credits[2].oracle for subject in subjects)


def test_a_short_hypothesis_does_not_end_by_force(shown: Any, examiners: list[Examiner], tmp_path: Path) -> None:
    """Nor does one of no words at all: five words are listed, and the end is as uncertain as the actor says."""
    split, run = shown.prepared.split("test"), Run(tmp_path, shown.mle.recipe, shown.mle.about)
    for said in (["the", "dog"], []):
        write_hypotheses(run, "test", [said] * len(split))
        credit = inspect_split([replace(examiners[0], run=run)], split, 1)[0].credits[0]
        assert len(credit.words) == len(said) + 1
        assert credit.entropy[-1] > 0
        assert credit.target is not None
        assert len(credit.policy[-1]) == len(credit.target[-1]) == 5


def changed(judge: Examiner, **fields: Any) -> Examiner:
    return Examiner(**{**judge.__dict__, **fields})


def test_the_exact_q_is_of_one_reference(shown: Any, examiners: list[Examiner]) -> None:
    """Of several it is known only where the first alone counts."""
    of_edit = examiners[2]
    for references, count, known in (("all", 1, True), ("all", 2, False), ("own", 2, True)):
        judge = changed(of_edit, payoff=Payoff(metric="edit", references=references))
        found = inspect_typed([judge], "der hund", ["the dog", "a dog"][:count])
        assert (found.credits[0].oracle is not None) == known


def test_who_has_an_oracle(examiners: list[Examiner]) -> None:
    hamming = Payoff(metric="hamming")
    assert inspection.has_oracle(changed(examiners[2], payoff=hamming))
    assert not inspection.has_oracle(changed(examiners[2], payoff=hamming, phase=None))
    late = Payoff(metric="hamming", unfinished="nothing")
    assert not inspection.has_oracle(changed(examiners[2], payoff=late))


def test_the_bound_of_the_exact_q_is_that_of_the_phase() -> None:
    critic = algorithms.Critic("critic", 0.1, extra_length=3, longest_sample=10)
    assert [critic.longest_for(words) for words in (4, 7, 9)] == [7, 10, 10]
    assert algorithms.SoftQ("soft_q", 0.1, bound=20).longest_for(4) == 20
    assert algorithms.Mle("mle", 0.1).longest_for(4) == 0


def test_a_temperature_that_makes_noise_likely_is_shown_without_a_warning() -> None:
    inspection._oracle.cache_clear()
    assert inspection._oracle(Payoff(metric="edit"), (2, 3), 1000, 6, 2.0).tau == 2.0


def test_future_entropy_counts_only_where_the_phase_says_so(shown: Any, examiners: list[Examiner]) -> None:
    phase = algorithms.Critic("critic", 0.1, tau=0.3, future_entropy=False)
    judge = Examiner(**{**examiners[1].__dict__, "phase": phase})
    split = shown.prepared.split("test")
    ours = inspect_split([judge], split, 1)[0].credits[0]
    theirs = inspect_split(examiners[1:2], split, 1)[0].credits[0]
    assert ours.scores is not None
    assert ours.returns is not None
    assert ours.td is not None
    assert theirs.td is not None
    assert ours.returns[0] == pytest.approx(ours.scores[-1] - ours.scores[0], abs=1e-5)
    assert ours.value == theirs.value
    assert theirs.td[0] - ours.td[0] == pytest.approx(0.3 * ours.entropy[1], abs=1e-4)


def test_summaries_are_means_of_what_is_there(subjects: list[Subject]) -> None:
    credits_ = [subject.credits[1] for subject in subjects]
    found = inspection.summarise(credits_)
    pairs = sorted((q, g) for c in credits_ for q, g in zip(c.q or [], c.returns or [], strict=True))
    assert len(found.calibration) == 10
    assert sum(b.tokens for b in found.calibration) == len(pairs)
    first = pairs[: found.calibration[0].tokens]
    assert found.calibration[0].q == pytest.approx(sum(q for q, _ in first) / len(first))
    assert found.calibration[0].followed == pytest.approx(sum(g for _, g in first) / len(first))
    spread = (sum((g - found.calibration[0].followed) ** 2 for _, g in first) / (len(first) - 1)) ** 0.5
    assert found.calibration[0].error == pytest.approx(spread / len(first) ** 0.5)
    assert len(found.entropy) == len(found.rewards) == max(len(c.entropy) for c in credits_)
    third = [c.entropy[2] for c in credits_ if len(c.entropy) > 2]
    assert found.entropy[2] == pytest.approx((sum(third) / len(third), len(third)))
    gains = [c.rewards[0] for c in credits_ if c.rewards]
    assert found.rewards[0] == pytest.approx((sum(gains) / len(gains), len(gains)))
    assert inspection.summarise([]) == ([], [], [])
