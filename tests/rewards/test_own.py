"""Only the first reference counts."""

import torch

from seqcredit.rewards import Bleu, OwnReference
from seqcredit.types import pad_references

TOKENS = torch.tensor([[2, 3, 4, 0], [5, 6, 0, 0]])


def test_other_references_change_nothing() -> None:
    one, two = pad_references([[[2, 9, 4]], [[5, 7]]]), pad_references([[[2, 9, 4], [2, 3, 4]], [[5, 7], [5, 6]]])
    own = OwnReference(Bleu(scaled=True))
    assert torch.equal(own.prefix_scores(TOKENS, one), own.prefix_scores(TOKENS, two))
    assert torch.equal(own.prefix_scores(TOKENS, one), Bleu(scaled=True).prefix_scores(TOKENS, one))
    assert (Bleu(scaled=True).prefix_scores(TOKENS, two)[:, -1] > own.prefix_scores(TOKENS, two)[:, -1]).all()
    assert torch.equal(own.final_scores(TOKENS, two, None), own.prefix_scores(TOKENS, one)[:, -1])
