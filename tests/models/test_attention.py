"""Additive attention in chunks is v . tanh(q + k), in value and gradient."""

import pytest
import torch
from torch import Tensor

from seqcredit.models import attention
from seqcredit.models.attention import Additive, Dot

SIZES = [(3, 4, 5, 6), (1, 1, 1, 2), (7, 1, 3, 4), (2, 5, 1, 3)]


def random(*shape: int, scale: float = 1.0, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(*shape, generator=rng, dtype=torch.float64)).requires_grad_()


def sides(B: int, T: int, S: int, D: int, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    return random(B, T, D, scale=scale), random(B, S, D, scale=scale, seed=1), random(D, seed=2)


def written(query: Tensor, keys: Tensor, energy: Tensor) -> Tensor:
    """The formula."""
    return torch.tanh(query.unsqueeze(2) + keys.unsqueeze(1)) @ energy


@pytest.mark.parametrize("cells", [1, 90, 2**18])
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])  # from 40 on tanh is taken as it is
@pytest.mark.parametrize("size", SIZES)
def test_values_and_gradients_are_those_of_the_formula(size, scale, cells, monkeypatch) -> None:
    monkeypatch.setattr(attention, "CELLS", cells)
    given = sides(*size, scale)
    found, expected = attention._Energies.apply(*given), written(*given)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    slope = random(*expected.shape, seed=3).detach()
    mine, theirs = (torch.autograd.grad(scores, given, slope) for scores in (found, expected))
    torch.testing.assert_close(mine, theirs, atol=1e-11, rtol=0)


def test_gradients_are_those_of_finite_differences() -> None:
    assert torch.autograd.gradcheck(attention._Energies.apply, sides(2, 3, 4, 3))


@pytest.mark.parametrize("far", [39.0, 41.0, 1e4])
def test_nothing_overflows(far: float) -> None:
    """Both ways of forming the pairs hold where tanh is flat."""
    query = torch.tensor([[[far, -far, far]]])
    keys = torch.tensor([[[0.0, 0.0, 0.0], [0.5 - far, far, 0.0]]])
    energy = torch.tensor([1.0, 2.0, 4.0])
    expected = torch.tensor([[[3.0, float(torch.tanh(torch.tensor(0.5))) + 4.0]]])
    torch.testing.assert_close(attention._Energies.apply(query, keys, energy), expected, atol=2e-3, rtol=0)


def test_sums_are_in_float32_where_products_are_in_bf16() -> None:
    net = Additive(4)
    h, states = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    with torch.autocast("cpu", torch.bfloat16):
        scores = net(h, net.keys(states))
        query, keys = net.query(h), net.keys(states)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, written(query.float(), keys.float(), net.energy.weight[0]))


def test_dot_is_a_product() -> None:
    h, states = random(2, 3, 4), random(2, 5, 4, seed=1)
    torch.testing.assert_close(Dot()(h, Dot().keys(states)), torch.einsum("btd,bsd->bts", h, states))
