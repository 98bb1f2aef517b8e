import torch

from seqcredit.types import ABSENT, lengths, pad, pad_references, token_mask


def test_padding_is_what_follows_the_first_eos() -> None:
    tokens = torch.tensor([[3, 2, 0, 0], [0, 5, 0, 4], [2, 2, 2, 2]])
    assert lengths(tokens).tolist() == [2, 0, 4]
    assert token_mask(tokens).tolist() == [[True, True, True, False], [True, False, False, False], [True] * 4]


def test_pad_closes_with_eos() -> None:
    assert pad([[5, 3], [], [4]]).tolist() == [[5, 3, 0], [0, 0, 0], [4, 0, 0]]
    assert pad([[5]], width=4).tolist() == [[5, 0, 0, 0]]


def test_missing_references_are_marked() -> None:
    references = pad_references([[[2], [3, 4]], [[5]]])
    assert references.tolist() == [[[2, 0, 0], [3, 4, 0]], [[5, 0, 0], [ABSENT] * 3]]
