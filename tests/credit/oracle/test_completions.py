"""The best completions by edit distance, against the whole space of sequences and against dynamic programming."""

import pytest
import torch

import brute
from seqcredit.credit.oracle.completions import best_completions
from seqcredit.credit.oracle.edit import EditOracle
from seqcredit.credit.oracle.enumeration import Space, score, solve
from seqcredit.types import pad, token_mask

REFERENCES = [[1, 3], [2, 2, 3], [3, 1, 1], [], [1, 2, 3, 2], [3]]


@pytest.mark.parametrize("reference", REFERENCES, ids=str)
def test_it_is_the_q_of_the_whole_space(reference: list[int]) -> None:
    """Wherever the bound leaves room for the reference's words."""
    space = Space(4, 7)
    payoffs = score(space, brute.PythonReward(brute.negative_edit_distance), torch.tensor([[*reference, 0]]))
    tokens = space.sequences()
    early = token_mask(tokens) & (torch.arange(7) < 7 - 1 - len(reference))
    found = best_completions(tokens, pad([reference]).expand(len(tokens), -1), 4)
    torch.testing.assert_close(found[early].double(), solve(payoffs, 0.0).along(tokens)[early], atol=0, rtol=0)


def test_a_batch_of_references_of_several_lengths_at_a_larger_vocabulary() -> None:
    generator = torch.Generator().manual_seed(0)
    references = [torch.randint(1, 12, (n,), generator=generator).tolist() for n in (5, 0, 3, 8, 1)]
    tokens = torch.randint(1, 12, (5, 9), generator=generator)
    found = best_completions(tokens, pad(references), 12)
    assert found.shape == (5, 9, 12)
    for row, reference in enumerate(references):
        oracle = EditOracle.solve(torch.tensor(reference, dtype=torch.long), 12, 30, 0.0)
        torch.testing.assert_close(found[row].double(), oracle.along(tokens[row : row + 1])[0], atol=0, rtol=0)


def test_another_eos() -> None:
    """The same words with other numbers: the same Q, renumbered."""
    swap = torch.tensor([3, 1, 2, 0])
    tokens, reference = torch.tensor([[1, 3, 2, 1, 0]]), torch.tensor([[3, 2, 1, 0, 0]])
    found = best_completions(swap[tokens], swap[reference], 4, eos=3)
    torch.testing.assert_close(found[..., swap], best_completions(tokens, reference, 4))


def test_by_hand() -> None:
    """After "1" of "2 3", stopping leaves a distance of 2, and so does the best that can still be said."""
    before, after = best_completions(torch.tensor([[1, 0]]), torch.tensor([[2, 3, 0]]), 4)[0]
    assert before.tolist() == [0, 1, 2, 1]
    assert after.tolist() == [0, 0, 1, 1]
