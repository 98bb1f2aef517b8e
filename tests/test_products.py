"""Products by oneDNN are those of float64, whatever way their sides lie in memory."""

import pytest
import torch

from seqcredit.products import laid_out, product

CLOSE = {torch.float64: 1e-14, torch.float32: 1e-6, torch.bfloat16: 2.0**-8}  # of numbers of about 1


def numbers(*shape: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def assert_close(found: torch.Tensor, exact: torch.Tensor, dtype: torch.dtype, terms: int) -> None:
    """Within the rounding of the result and of a sum of so many terms."""
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), exact, atol=CLOSE[dtype] * terms**0.5, rtol=CLOSE[dtype])


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize(("m", "k", "n"), [(3, 5, 7), (1, 4, 1), (40, 300, 20), (0, 3, 2), (2, 0, 3)])
def test_products_are_exact_but_for_rounding(dtype, m, k, n) -> None:
    left, right = numbers(m, k, dtype=dtype), numbers(k, n, dtype=dtype, seed=1)
    exact = left.double() @ right.double()
    assert_close(product(left, right), exact, dtype, k)
    assert_close(product(left, right.T.contiguous().T), exact, dtype, k)
    assert_close(product(left.T.contiguous().T, right), exact, dtype, k)
    wide = torch.cat([left, left], 1)
    assert_close(product(wide[:, :k], right), exact, dtype, k)
    assert_close(product(wide[:, k:], right), exact, dtype, k)


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("bias", [True, False])
def test_a_weight_that_is_laid_out_gives_the_same_products(dtype, bias) -> None:
    weight, added = numbers(30, 5, dtype=dtype), numbers(30, dtype=dtype, seed=2) if bias else None
    times = laid_out(weight, added, 6)
    for rows in (6, 2, 1):
        features = numbers(rows, 5, dtype=dtype, seed=rows)
        exact = features.double() @ weight.double().T + (0 if added is None else added.double())
        assert_close(times(features), exact, dtype, 5)


def test_automatic_precision_is_heard() -> None:
    weight, features = numbers(30, 5, dtype=torch.float32), numbers(4, 5, dtype=torch.float32, seed=1)
    with torch.autocast("cpu", torch.bfloat16):
        times = laid_out(weight, None, 4)
    exact = features.bfloat16().double() @ weight.bfloat16().double().T
    assert_close(times(features), exact, torch.bfloat16, 5)
