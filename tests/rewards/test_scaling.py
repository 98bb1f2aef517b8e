"""A reward by the length of the reference, or not."""

import pytest
import torch

from seqcredit.rewards import (
    Bleu,
    ChrF,
    CiderD,
    Custom,
    EditDistance,
    Hamming,
    LinearBleu,
    OnlyFinished,
    OwnReference,
    RougeL,
    RougeN,
)
from seqcredit.rewards.scaling import rescaled
from seqcredit.types import Reward, pad_references

TOKENS, REFERENCES = torch.tensor([[2, 4, 0]]), torch.tensor([[[2, 3, 4, 5, 0]]])
DOCUMENTS = pad_references([[[2, 3, 4]], [[5]], [[2, 5]]])
CASES: dict[str, tuple[Reward, Reward]] = {  # not scaled, scaled: nothing else may change
    "bleu": (Bleu(), Bleu(scaled=True)),
    "bleu with settings": (
        Bleu(2, "floor", unfinished_brevity=False, unk_matches=False, brevity="mean", dtype=torch.float64),
        Bleu(2, "floor", True, unfinished_brevity=False, unk_matches=False, brevity="mean", dtype=torch.float64),
    ),
    "linear bleu": (LinearBleu(precision=0.5), LinearBleu(precision=0.5, scaled=True)),
    "edit distance": (EditDistance(by_length=True, unk_matches=False), EditDistance(unk_matches=False)),
    "at the end": (OnlyFinished(Bleu()), OnlyFinished(Bleu(scaled=True))),
    "own reference": (OwnReference(EditDistance(by_length=True)), OwnReference(EditDistance())),
    "both": (OnlyFinished(OwnReference(LinearBleu())), OnlyFinished(OwnReference(LinearBleu(scaled=True)))),
}


@pytest.mark.parametrize("case", CASES)
def test_the_scale_changes_and_nothing_else(case: str) -> None:
    plain, scaled = CASES[case]
    for given in (plain, scaled):
        assert rescaled(given, False) == plain
        assert rescaled(given, True) == scaled
    with_it, without = (rescaled(plain, each).prefix_scores(TOKENS, REFERENCES) for each in (True, False))
    torch.testing.assert_close(with_it, 4 * without)  # the reference has four words
    assert not torch.equal(with_it, without)


@pytest.mark.parametrize(
    "reward",
    [
        Hamming(),
        RougeL(),
        RougeN(),
        ChrF(["", "?", "a", "b", "c", "d"]),
        CiderD.from_references(DOCUMENTS),
        Custom(lambda words, references: len(words)),
    ],
    ids=lambda reward: type(reward).__name__,
)
def test_what_knows_no_scale_stays_the_very_same(reward: Reward) -> None:
    """Those that took long to make are not made again."""
    for scaled in (True, False):
        assert rescaled(reward, scaled) is reward
        for wrapped in (OnlyFinished(reward), OwnReference(reward)):
            again = rescaled(wrapped, scaled)
            assert type(again) is type(wrapped)
            assert again.reward is reward
