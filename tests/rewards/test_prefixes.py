"""What holds of every reward."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings

from rewards.cases import Case, assert_invariant, cases, last_score
from seqcredit.rewards import (
    Bleu,
    ChrF,
    CiderD,
    Custom,
    EditDistance,
    Hamming,
    LinearBleu,
    OnlyFinished,
    RougeL,
    RougeN,
)
from seqcredit.rewards.prefixes import UNMATCHED, ended, f_measure, hypothesis_words, mean_length, present
from seqcredit.types import Reward, pad, pad_references

WORDS = ["</s>", "<unk>", "a", "aba", "cab"]
CORPUS = pad_references([[[2, 3, 4], [2, 2]], [[3, 4, 1]], [[4, 4, 2, 3]], [[2]]])

REWARDS: dict[str, Callable[..., Reward]] = {
    "bleu": Bleu,
    "bleu exponential": lambda **o: Bleu(smoothing="exponential", effective_order=True, **o),
    "bleu scaled": lambda **o: Bleu(scaled=True, **o),
    "bleu of order 6": lambda **o: Bleu(order=6, **o),
    "linear bleu": LinearBleu,
    "edit": EditDistance,
    "edit by length": lambda **o: EditDistance(by_length=True, **o),
    "hamming": Hamming,
    "rouge l": RougeL,
    "rouge l coco": lambda **o: RougeL(pool="coco", **o),
    "rouge n": RougeN,
    "chrf": lambda **o: ChrF(WORDS, **o),
    "cider": lambda **o: CiderD.from_references(CORPUS, **o),
    "custom": lambda **o: Custom(lambda words, references: sum(w in r for w in words for r in references), **o),
}
SHAPED: dict[str, Callable[..., Reward]] = {  # where eos makes a difference
    "bleu without brevity": lambda **o: Bleu(unfinished_brevity=False, **o),
    "bleu at the end": lambda **o: OnlyFinished(Bleu(**o)),
    "edit at the end": lambda **o: OnlyFinished(EditDistance(**o)),
}
REWARDS |= SHAPED
every_reward = pytest.mark.parametrize("make", REWARDS.values(), ids=REWARDS.keys())


@every_reward
@given(cases())
@settings(max_examples=12, deadline=None)
def test_what_must_not_matter(make: Callable[..., Reward], case: Case) -> None:
    assert_invariant(make(), replace(case, eos=True) if make in SHAPED.values() else case)


def test_what_has_ended() -> None:
    """From the first eos on, whatever follows it; where there is none, all tokens together."""
    tokens = torch.tensor([[3, 2, 0, 0], [0, 5, 0, 4], [2, 2, 2, 2]])
    assert ended(tokens).int().tolist() == [[0, 0, 0, 1, 1], [0, 1, 1, 1, 1], [0, 0, 0, 0, 1]]
    assert ended(tokens[:, :0]).tolist() == [[True]] * 3


def test_words_end_with_eos() -> None:
    tokens = torch.tensor([[3, 1, 0, 4]])
    assert hypothesis_words(tokens, unk_matches=True).tolist() == [[3, 1, UNMATCHED, UNMATCHED]]
    assert hypothesis_words(tokens, unk_matches=False).tolist() == [[3, UNMATCHED, UNMATCHED, UNMATCHED]]


def test_the_mean_length_is_that_of_the_references_that_are_there() -> None:
    references = pad_references([[[2, 3, 4], [5]], [[2, 2]], [[], [3]]])
    assert mean_length(references, torch.float64).tolist() == [[2.0], [2.0], [0.5]]
    assert present(references).tolist() == [[True, True], [True, False], [True, True]]
    assert present(references[..., :0]).all()  # without a word there is no mark of absence


def test_f_measure_by_hand() -> None:
    """(1 + 9) 0.5 0.25 / (9 0.5 + 0.25), and nothing where there is nothing."""
    found = f_measure(torch.tensor([0.5, 0.0], dtype=torch.float64), torch.tensor([0.25, 0.0]).double(), 3.0)
    torch.testing.assert_close(found, torch.tensor([1.25 / 4.75, 0.0], dtype=torch.float64), rtol=1e-12, atol=0)


@every_reward
@given(cases())
@settings(max_examples=8, deadline=None)
def test_rewards_sum_to_the_score(make: Callable[..., Reward], case: Case) -> None:
    reward = make(dtype=torch.float64)
    scores = reward.prefix_scores(case.tokens, case.padded_references)
    pairs = zip(case.hypotheses, case.references, strict=True)
    empty = reward.prefix_scores(torch.zeros_like(case.tokens), case.padded_references)
    final = torch.stack([last_score(reward, *pair) for pair in pairs])
    torch.testing.assert_close(scores.diff().sum(1), final - empty[:, 0], rtol=1e-12, atol=1e-12)


@every_reward
def test_dtype(make: Callable[..., Reward]) -> None:
    tokens, references = pad([[2, 3]]), pad_references([[[2, 4]]])
    assert make().prefix_scores(tokens, references).dtype == torch.float32
    assert make(dtype=torch.float64).prefix_scores(tokens, references).dtype == torch.float64
    torch.set_default_dtype(torch.float64)
    try:
        assert make().prefix_scores(tokens, references).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@every_reward
def test_unk(make: Callable[..., Reward]) -> None:
    """An unknown word that matched no longer does; other words are not touched."""
    tokens, references = pad([[2, 1, 2, 3, 2, 3], [2, 4, 2, 3, 2, 3]]), pad_references([[[2, 1, 2, 3, 2]]] * 2)
    with_unk = make().prefix_scores(tokens, references)
    without = make(unk_matches=False).prefix_scores(tokens, references)
    assert (without[0, -1] < with_unk[0, -1]) & torch.equal(with_unk[1], without[1])


@every_reward
@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0)])
def test_empty_tensors(make: Callable[..., Reward], shape: tuple[int, int]) -> None:
    references = torch.full((shape[0], 1, 2), 2)
    assert make().prefix_scores(torch.full(shape, 2), references).shape == (shape[0], shape[1] + 1)


@every_reward
def test_other_integers(make: Callable[..., Reward]) -> None:
    """Ids may be of any integer dtype."""
    tokens, references = pad([[2, 3]]), pad_references([[[2, 4]]])
    assert torch.equal(make().prefix_scores(tokens.int(), references.int()), make().prefix_scores(tokens, references))
