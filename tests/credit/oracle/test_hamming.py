import pytest
import torch

import brute
from seqcredit.credit.oracle.enumeration import Space, log_payoff, score, solve
from seqcredit.credit.oracle.hamming import HammingOracle
from seqcredit.errors import UserError
from seqcredit.types import token_mask

TAUS = (0.0, 0.1, 0.5, 2.0)


@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize(
    ("reference", "actions", "bound"), [([1, 3], 4, 6), ([2, 1, 1, 3, 2], 4, 4), ([], 3, 4), ([1], 2, 5)]
)
def test_closed_form_equals_enumeration(reference: list[int], actions: int, bound: int, tau: float) -> None:
    space = Space(actions, bound)
    payoffs = score(space, brute.PythonReward(brute.negative_hamming), torch.tensor([[*reference, 0]]))
    exact = solve(payoffs, tau)
    oracle = HammingOracle(torch.tensor(reference, dtype=torch.long), actions, bound, tau)
    tokens = space.sequences()
    words_so_far = space.nodes(tokens)
    torch.testing.assert_close(oracle.along(tokens), exact.q[words_so_far], atol=1e-12, rtol=0)
    by_length = torch.stack([exact.value[level][0] for level in space.levels])
    torch.testing.assert_close(oracle.values(), by_length, atol=1e-12, rtol=0)


def test_samples_are_exact() -> None:
    space, reference = Space(4, 4), torch.tensor([1, 3])
    payoffs = score(space, brute.PythonReward(brute.negative_hamming), torch.tensor([[1, 3, 0]]))
    drawn = HammingOracle(reference, 4, 4, 0.6).sample(40_000, torch.Generator().manual_seed(0))
    assert (drawn[~token_mask(drawn)] == 0).all()
    last = space.nodes(torch.nn.functional.pad(drawn, (0, 1)))[:, -1]
    frequency = torch.bincount(last, minlength=len(space)) / len(drawn)
    torch.testing.assert_close(frequency.double(), log_payoff(payoffs, 0.6).exp(), atol=0.01, rtol=0)


def test_one_sample() -> None:
    drawn = HammingOracle(torch.tensor([1, 3]), 4, 4, 0.0).sample(1, torch.Generator().manual_seed(0))
    assert drawn.tolist() == [[1, 3, 0, 0]]


def test_any_size() -> None:
    oracle = HammingOracle(torch.arange(2, 52), actions=30_000, bound=60, tau=0.05)
    q = oracle.q()
    assert q.shape == (60, 30_000)
    assert q.isfinite().all()
    greedy = q[:50].argmax(-1)
    assert torch.equal(greedy, torch.arange(2, 52))
    assert int(q[50].argmax()) == 0  # the reference is complete: stop


def test_an_impossible_space_is_refused() -> None:
    with pytest.raises(UserError, match="bound of 1"):
        HammingOracle(torch.tensor([2]), actions=5, bound=0, tau=1.0)
