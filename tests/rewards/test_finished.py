"""Rewards that come with eos, and what no score of unfinished prefixes changes."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.cases import Case, assert_brute_force, cases, last_score
from seqcredit.credit.oracle import Space, log_payoff, score, solve
from seqcredit.credit.oracle.enumeration import sequence_logp
from seqcredit.credit.values import soft_policy, token_rewards
from seqcredit.rewards import Bleu, Custom, EditDistance, OnlyFinished, OwnReference, TextReward, Weighted
from seqcredit.rewards.bleu import SMOOTHINGS
from seqcredit.rewards.finished import finished_scores
from seqcredit.rewards.prefixes import ended
from seqcredit.types import Reward, pad_references

EXACT = torch.float64


def gap(words: Sequence[int], references: Sequence[Sequence[int]]) -> float:
    return -1.0 - abs(len(words) - len(references[0]))


@given(cases(), st.booleans())
@settings(max_examples=30, deadline=None)
def test_every_prefix(case: Case, unk: bool) -> None:
    reward = OnlyFinished(Custom(gap, unk_matches=unk, dtype=EXACT))
    assert_brute_force(reward, gap, case, unk, unfinished=lambda *_: 0.0)


def test_by_hand() -> None:
    """Distances 1, 3, 3 of whole sequences to 2 3 4: eos brings them, in the last row the last token."""
    tokens, references = torch.tensor([[2, 3, 0, 0], [0, 3, 3, 3], [2, 5, 5, 5]]), pad_references([[[2, 3, 4]]] * 3)
    scores = OnlyFinished(EditDistance()).prefix_scores(tokens, references)
    assert scores.tolist() == [[0, 0, 0, -1, -1], [0, -3, -3, -3, -3], [0, 0, 0, 0, -3]]


@pytest.mark.parametrize(
    "wrap", [OnlyFinished, lambda r: OnlyFinished(OwnReference(r)), lambda r: OnlyFinished(OnlyFinished(r))]
)
def test_the_function_is_called_once_a_sequence(wrap) -> None:
    """64 sequences of 15 words are 1,024 prefixes."""
    tokens = torch.randint(1, 99, (64, 15), generator=torch.Generator().manual_seed(0))
    calls = []

    def score(words: list[int], references: list[list[int]]) -> float:
        calls.append(words)
        return float(sum(words))

    scores = wrap(Custom(score)).prefix_scores(tokens, pad_references([[[2]]] * 64))
    assert calls == tokens.tolist()
    assert scores[:, -1].tolist() == tokens.sum(1).tolist()
    assert not scores[:, :-1].any()


@given(cases(), st.booleans())
@settings(max_examples=20, deadline=None)
def test_it_is_the_last_of_the_prefix_scores(case: Case, scaled: bool) -> None:
    """To the last bit."""
    for reward in (*forms("floor", scaled), EditDistance(by_length=True), OwnReference(Bleu())):
        every = reward.prefix_scores(case.tokens, case.padded_references)
        found = OnlyFinished(reward).prefix_scores(case.tokens, case.padded_references)
        assert torch.equal(found, every.masked_fill(~ended(case.tokens), 0))


def forms(smoothing: str, scaled: bool) -> list[Reward]:
    plain = Bleu(smoothing=smoothing, scaled=scaled, dtype=EXACT)
    return [plain, Bleu(smoothing=smoothing, scaled=scaled, unfinished_brevity=False, dtype=EXACT), OnlyFinished(plain)]


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@given(cases(), st.booleans())
@settings(max_examples=20, deadline=None)
def test_all_forms_have_the_same_return(smoothing: str, case: Case, scaled: bool) -> None:
    """That of the whole sequence, with eos or cut off; its score is the same to the last bit."""
    every = [reward.prefix_scores(case.tokens, case.padded_references) for reward in forms(smoothing, scaled)]
    pairs = zip(case.hypotheses, case.references, strict=True)
    final = torch.stack([last_score(forms(smoothing, scaled)[0], *pair) for pair in pairs])
    for scores in every:
        assert torch.equal(scores[:, -1], every[0][:, -1])
        torch.testing.assert_close(token_rewards(scores).sum(1), final, rtol=1e-12, atol=1e-12)


def test_another_empty_score_moves_all_returns_alike() -> None:
    tokens, references = torch.tensor([[2, 3, 0], [5, 5, 0], [0, 0, 0]]), pad_references([[[2, 3, 4, 4]]] * 3)
    plain, late = (r.prefix_scores(tokens, references) for r in (EditDistance(), OnlyFinished(EditDistance())))
    assert token_rewards(late).sum(1).tolist() == [-2, -4, -4]
    assert (token_rewards(plain).sum(1) - token_rewards(late).sum(1)).tolist() == [4, 4, 4]


def test_the_best_policy_is_the_same() -> None:
    """Every form has another Q*, and all have P_R as their distribution over sequences."""
    space, tau, references = Space(3, 4), 0.3, torch.tensor([[2, 1, 2, 0]])
    rewards = [*forms("add-one", True), EditDistance(dtype=EXACT), OnlyFinished(EditDistance(dtype=EXACT))]
    payoffs = [score(space, reward, references) for reward in rewards]
    tables = [solve(each, tau) for each in payoffs]
    for i, j in [(0, 1), (0, 2), (1, 2), (3, 4)]:
        assert not torch.allclose(tables[i].q, tables[j].q)
    for table, plain in zip(tables, [payoffs[0]] * 3 + [payoffs[3]] * 2, strict=True):
        policy = soft_policy(table.q, tau, space.forced).log()
        torch.testing.assert_close(sequence_logp(space, policy), log_payoff(plain, tau), rtol=1e-9, atol=1e-9)


def of_pieces(text: str, references: Sequence[str]) -> float:
    return len(text) ** 0.5 - sum(map(len, references))


def in_words(**options) -> TextReward:
    return TextReward(of_pieces, lambda ids: "".join(["", "?", " a", "b", " c", "d"][i] for i in ids), **options)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda r: r,
        OnlyFinished,
        OwnReference,
        lambda r: OnlyFinished(OwnReference(r)),
        lambda r: Weighted([(0.5, OnlyFinished(r)), (-2.0, r)]),
    ],
)
@pytest.mark.parametrize(
    "make",
    [
        Bleu,
        lambda **o: Bleu(unfinished_brevity=False, scaled=True, **o),
        EditDistance,
        lambda **o: in_words(at="words", **o),
        lambda **o: in_words(at="end", **o),
    ],
)
def test_finished_scores_are_those_of_prefixes_with_eos(make, wrap) -> None:
    """Each prefix cut off, closed with eos and scored alone."""
    reward = wrap(make(dtype=EXACT))
    tokens = torch.tensor([[2, 3, 4, 0, 0], [5, 0, 0, 0, 0], [0, 0, 0, 0, 0], [3, 4, 2, 2, 0]])
    references = pad_references([[[2, 3, 5], [4]], [[5]], [[2, 2]], [[3, 4, 4, 2], [3, 4]]])
    found = finished_scores(reward, tokens, references)
    for end in range(tokens.shape[1] + 1):
        cut = torch.cat([tokens[:, :end], torch.zeros(4, 1, dtype=torch.long)], 1)
        torch.testing.assert_close(found[:, end], reward.prefix_scores(cut, references)[:, -1])
