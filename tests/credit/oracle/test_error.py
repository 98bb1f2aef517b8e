import math

import pytest
import torch

import brute
from seqcredit.credit.oracle.error import absolute_error, credit_error, target_kl

TOKENS = torch.tensor([[3, 2, 0], [0, 0, 0]])
FORCED = torch.tensor([[False, False, True], [False, False, False]])


def random(seed: int) -> torch.Tensor:
    return torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


LEARNED, EXACT, TAU = random(0), random(1), 0.4


def kl(b: int, t: int) -> float:
    p, q = (brute.boltzmann(x[b, t].tolist(), TAU) for x in (EXACT, LEARNED))
    return sum(x * math.log(x / y) for x, y in zip(p, q, strict=True))


def test_absolute_error_over_the_actions_allowed() -> None:
    gap = (LEARNED - EXACT).abs()
    expected = [
        [float(gap[0, 0].mean()), float(gap[0, 1].mean()), float(gap[0, 2, 0])],
        [float(gap[1, 0].mean()), 0, 0],
    ]
    error = absolute_error(LEARNED, EXACT, TOKENS, FORCED)
    torch.testing.assert_close(error, torch.tensor(expected, dtype=torch.float64))
    assert float(absolute_error(LEARNED, EXACT, TOKENS)[0, 2]) == pytest.approx(float(gap[0, 2].mean()))


def test_kl_from_the_exact_to_the_learned_target() -> None:
    expected = torch.tensor([[kl(0, 0), kl(0, 1), 0], [kl(1, 0), 0, 0]], dtype=torch.float64)
    torch.testing.assert_close(target_kl(LEARNED, EXACT, TOKENS, TAU, FORCED), expected)


def test_credit_error_is_the_mean_over_tokens() -> None:
    error = credit_error(LEARNED, EXACT, TOKENS, TAU, FORCED)
    assert error.absolute == pytest.approx(float(absolute_error(LEARNED, EXACT, TOKENS, FORCED).sum()) / 4)
    assert error.kl == pytest.approx((kl(0, 0) + kl(0, 1) + kl(1, 0)) / 4)


def test_a_perfect_q_has_no_error_and_a_shift_no_kl() -> None:
    assert credit_error(EXACT, EXACT, TOKENS, TAU, FORCED) == (0, 0)
    shifted = credit_error(EXACT + 3, EXACT, TOKENS, TAU, FORCED)
    assert shifted.absolute == pytest.approx(3)
    assert shifted.kl == pytest.approx(0, abs=1e-12)


def test_tau_zero_compares_the_maximisers() -> None:
    exact = torch.tensor([[[1.0, 2.0, 2.0, 0.0]]])
    tokens = torch.tensor([[0]])
    assert float(target_kl(exact, exact, tokens, 0.0)) == 0
    wider = torch.tensor([[[2.0, 2.0, 2.0, 2.0]]])
    assert float(target_kl(wider, exact, tokens, 0.0)) == pytest.approx(math.log(2))
    assert float(target_kl(-exact, exact, tokens, 0.0)) == math.inf
    assert float(target_kl(-exact, exact, tokens, 0.0, torch.tensor([[True]]))) == 0  # only eos is allowed


def test_far_apart_energies_give_no_nan() -> None:
    far = torch.tensor([[[0.0, 1e6, -1e6, 5.0]]], dtype=torch.float64)
    assert target_kl(-far, far, torch.tensor([[0]]), 0.01).isfinite().all()
