"""Attention: a score for every pair of a decoder state and a source position."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from seqcredit.types import Context

CELLS = 2**18  # numbers of a chunk, a megabyte in float32: it stays in a core's own cache
FAR = 40.0  # exp of twice as much is still far from what float32 can hold
LARGE = 2**26  # where there is no such cache to care for


class Dot(nn.Module):
    """score = h . m"""

    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        return states

    def forward(self, h: Float[Tensor, "B T D"], keys: Float[Tensor, "B S D"]) -> Float[Tensor, "B T S"]:
        return torch.bmm(h, keys.transpose(1, 2))


class Additive(nn.Module):
    """score = v . tanh(W h + U m)"""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.key = nn.Linear(hidden, hidden, bias=False)
        self.energy = nn.Linear(hidden, 1, bias=False)

    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        return self.key(states)

    def forward(self, h: Float[Tensor, "B T D"], keys: Float[Tensor, "B S D"]) -> Float[Tensor, "B T S"]:
        query = self.query(h)
        dtype = torch.promote_types(query.dtype, torch.float32)
        scores: Tensor = _Energies.apply(query.to(dtype), keys.to(dtype), self.energy.weight[0].to(dtype))
        return scores


class _Energies(torch.autograd.Function):
    """v . tanh(q + k) of all pairs, some sentences at a time: the (B, T, S, D) table is never whole, and is not kept.

    tanh(q + k) = 1 - 2 r with r = 1 / (1 + exp(2 q) exp(2 k)), so that only single states need an exponential.
    """

    @staticmethod
    def forward(ctx: Context, query: Tensor, keys: Tensor, energy: Tensor) -> Tensor:
        ctx.save_for_backward(query, keys, energy)
        scores = query.new_empty(*query.shape[:2], keys.shape[1])
        for rows, r in _falling(query, keys):
            torch.matmul(r, energy, out=scores[rows])
        return scores.mul_(-2).add_(energy.sum())

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, slope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, keys, energy = ctx.saved_tensors
        of_query, of_keys, of_energy = torch.empty_like(query), torch.empty_like(keys), slope.sum().expand(len(energy))
        for rows, r in _falling(query, keys):
            some = slope[rows].contiguous()
            of_energy = of_energy - 2 * (some.flatten() @ r.flatten(0, 2))
            bent = r.addcmul_(r, r, value=-1).mul_(some.unsqueeze(-1))  # r - r^2, a quarter of the slope of tanh
            torch.sum(bent, 2, out=of_query[rows])
            torch.sum(bent, 1, out=of_keys[rows])
        return of_query.mul_(4 * energy), of_keys.mul_(4 * energy), of_energy


def _falling(query: Tensor, keys: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """(1 - tanh(q + k)) / 2 of some sentences after others (n, T, S, D), in memory that serves all of them."""
    (B, T, D), S = query.shape, keys.shape[1]
    cpu = query.device.type == "cpu"
    height = max(1, min(B, (CELLS if cpu else LARGE) // max(1, T * S * D)))
    room = query.new_empty(height, T, S, D)
    near = cpu and B > 0 and float(query.abs().max() + keys.abs().max()) < FAR
    left, right = (2 * query).exp() if near else query, (2 * keys).exp() if near else keys
    for first in range(0, B, height):
        rows = slice(first, min(first + height, B))
        r, some, others = room[: rows.stop - first], left[rows].unsqueeze(2), right[rows].unsqueeze(1)
        if near:
            yield rows, torch.mul(some, others, out=r).add_(1).reciprocal_()
        else:
            yield rows, torch.add(some, others, out=r).tanh_().mul_(-0.5).add_(0.5)
