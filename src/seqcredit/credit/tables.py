"""Scores of all actions in many states, computed in chunks that fit the cache and never stored as a whole.

Packed tokens only: N states are the rows of a `Table`, and each of K tokens is taken at one of them: at the row of its
own number, or at its row in `states`, so that sequences with a common beginning can share their states.
"""

import math
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from seqcredit.products import product
from seqcredit.types import EOS, Context, token_mask

CELLS = 6 * 2**20  # scores of a chunk: 24 MB in float32
ROWS = 96  # but at least so many rows, for the sake of the matrix products
COLUMNS = 512  # words at a time where a product is as wide as the vocabulary, on a CPU


class Table(NamedTuple):
    """Scores of all actions in N states, logits or Q, that are never written down: features and readout."""

    features: Float[Tensor, "N D"]
    weight: Float[Tensor, "V D"]
    bias: Float[Tensor, " V"] | None = None
    eos: int = EOS
    actions: Bool[Tensor, " V"] | None = None  # ids that may be chosen; None: all of them


class Gradient(NamedTuple):
    """What a loss changes by with each part of a table."""

    features: Float[Tensor, "N D"]
    weight: Float[Tensor, "V D"]
    bias: Float[Tensor, " V"]


class Packing(NamedTuple):
    """Where K tokens of padded sequences stand, padding left out, the state that each is taken at, and the next one."""

    places: Int[Tensor, " K"]  # in the flattened (*B, T)
    following: Int[Tensor, " K"]  # row of the state after each token, -1 where its sequence ends
    shape: torch.Size  # (*B, T)
    states: Int[Tensor, " K"] | None = None  # row of the state of each token; None: a row a token, in their order
    own: Int[Tensor, " N"] | None = None  # where the states stand, if some are shared
    common: Bool[Tensor, "B M T"] | None = None  # tokens that are left out, being those of sample 0

    def take(self, padded: Tensor) -> Tensor:
        """Of every token: (*B, T, ...) -> (K, ...)."""
        return padded.flatten(0, len(self.shape) - 1)[self.places]

    def take_states(self, padded: Tensor) -> Tensor:
        """Of every state: (*B, T, ...) -> (N, ...)."""
        return padded.flatten(0, len(self.shape) - 1)[self.places if self.own is None else self.own]

    def spread(self, packed: Float[Tensor, " K"]) -> Float[Tensor, "*B T"]:
        """(K) -> (*B, T), with 0 elsewhere."""
        padded = packed.new_zeros(self.shape.numel())
        return padded.index_put((self.places,), packed).view(self.shape)

    def fill(self, packed: Float[Tensor, " K"]) -> Float[Tensor, "*B T"]:
        """(K) -> (*B, T), the tokens that samples have in common with sample 0 included; 0 on padding."""
        padded = self.spread(packed)
        return padded if self.common is None else torch.where(self.common, padded[:, :1], padded)

    def weigh(self, weights: Float[Tensor, "*B"]) -> Float[Tensor, " K"]:
        """The weight of each token's sequence; a token of sample 0 counts for all samples that have it in common."""
        each = weights.unsqueeze(-1).expand(self.shape)
        if self.common is not None:
            each = each.clone()
            each[:, 0] += (weights.unsqueeze(-1) * self.common).sum(1)
        return self.take(each)


def pack(tokens: Int[Tensor, "*B T"], eos: int = EOS) -> Packing:
    """Leave padding out."""
    T = tokens.shape[-1]
    places = token_mask(tokens, eos).flatten().nonzero().squeeze(-1)
    ends = (tokens.flatten()[places] == eos) | (places % T == T - 1)
    following = torch.arange(1, len(places) + 1, device=tokens.device).masked_fill(ends, -1)
    return Packing(places, following, tokens.shape)


def share(tokens: Int[Tensor, "B M T"], fork: Int[Tensor, "B M"], eos: int = EOS) -> Packing:
    """Leave padding out, and what samples have in common with sample 0: their tokens before the fork.

    The state at the fork is sample 0's too: there another token is taken.
    """
    real, place = token_mask(tokens, eos), torch.arange(tokens.shape[-1], device=tokens.device)
    common, borrowed = (real & (place < (fork + n).unsqueeze(-1)) for n in (0, 1))
    common[:, 0] = borrowed[:, 0] = False
    own = real & ~borrowed
    number = own.flatten().cumsum(0).view(own.shape) - 1
    rows = torch.where(borrowed, number[:, :1], number)  # (B, M, T)
    after = torch.nn.functional.pad(rows[..., 1:], (0, 1), value=-1).masked_fill(tokens == eos, -1)
    places = (real & ~common).flatten().nonzero().squeeze(-1)
    states, following = (table.flatten()[places] for table in (rows, after))
    return Packing(places, following, tokens.shape, states, own.flatten().nonzero().squeeze(-1), common)


def look_ahead(values: Float[Tensor, " N"], following: Int[Tensor, " K"]) -> Float[Tensor, " K"]:
    """The value of the state that each token leads to, 0 where its sequence ends: rewards plus this are targets.

    Eq. (optimal_Q) and (recursion_terminal).
    """
    return torch.cat([values, values.new_zeros(1)])[following]


def at(numbers: Tensor, states: Tensor | None) -> Tensor:
    """Numbers of the states where tokens are taken."""
    return numbers if states is None else numbers[states]


class _Room(threading.local):
    """Memory that stays: fresh pages for every loss would cost more than some of its products."""

    def __init__(self) -> None:
        self.kept: dict[tuple[torch.device, torch.dtype], Tensor] = {}

    def tables(self, like: Tensor, *shape: int) -> Tensor:
        """A tensor of this shape with anything in it."""
        key, size = (like.device, like.dtype), math.prod(shape)
        if key not in self.kept or len(self.kept[key]) < size:
            self.kept[key] = like.new_empty(size)
        return self.kept[key][:size].view(shape)


_room = _Room()


class Reader:
    """A table of constants. Within `with` there is neither a graph nor automatic precision: both are in our hands.

    Products have the precision of the features, or of autocast; sums have float32 at the least.
    """

    def __init__(self, table: Table) -> None:
        device, dtype = table.features.device.type, table.features.dtype
        if torch.is_autocast_enabled(device) and dtype != torch.float64:
            dtype = torch.get_autocast_dtype(device)
        self.sums = torch.promote_types(dtype, torch.float32)
        self.features, self.weight = table.features.detach().to(dtype), table.weight.detach().to(dtype)
        self.eos_id, self.actions = table.eos, table.actions
        self.bias = self._bias(table)
        self._device, self._modes = device, ExitStack()

    def _bias(self, table: Table) -> Tensor:
        """What is added to the scores; an id that is no action gets so little that its probability is 0."""
        least = torch.finfo(self.sums).min / 4  # not - infinity, for 0 times a number is 0
        given = table.weight.new_zeros(len(table.weight)) if table.bias is None else table.bias
        bias = given.detach().to(self.sums).clamp(min=least)
        return bias if table.actions is None else bias.masked_fill(~table.actions, least)

    def __enter__(self) -> None:
        self._modes.enter_context(torch.no_grad())
        self._modes.enter_context(torch.autocast(self._device, enabled=False))

    def __exit__(self, *error: object) -> None:
        self._modes.close()

    def numbers(self, given: Tensor | None, count: int) -> Tensor:
        """Constants in the precision of sums; ones if not given."""
        return self.bias.new_ones(count) if given is None else given.detach().to(self.sums)

    def zeros(self) -> Tensor:
        """A number for each state, to be filled."""
        return self.bias.new_zeros(len(self.features))

    def by_state(self, numbers: Tensor, states: Tensor | None) -> Tensor:
        """Numbers of tokens (K), summed in their states (N)."""
        return numbers if states is None else self.zeros().index_add_(0, states, numbers)

    def chunks(self, some: Tensor | None = None) -> Iterator[Tensor]:
        """Rows, or those of a mask, a chunk at a time."""
        rows = torch.arange(len(self.features), device=self.bias.device) if some is None else some.nonzero().squeeze(-1)
        return iter(rows.tensor_split(max(1, -(-len(rows) // self._height()))))

    def tables(self, count: int) -> Tensor:
        """Room for the scores of a chunk, several times: the same at every call, so only one loss can be at work."""
        return _room.tables(self.bias, count, min(self._height(), len(self.features)), len(self.bias))

    def blocks(self) -> Iterator[slice]:
        """The vocabulary, a block at a time."""
        size = COLUMNS if self.bias.device.type == "cpu" else 128 * COLUMNS
        return (slice(first, first + size) for first in range(0, len(self.bias), size))

    def scores(self, rows: Tensor, out: Tensor) -> Tensor:
        """Scores of a chunk (n, V), written to the beginning of `out`."""
        features, out = self.features[rows], out[: len(rows)]
        for words in self.blocks():
            torch.add(product(features, self.weight[words].T), self.bias[words], out=out[:, words])
        return out

    def chosen(self, tokens: Tensor, states: Tensor | None) -> Tensor:
        """Scores of the tokens (K)."""
        features, readout = at(self.features, states).to(self.sums), self.weight[tokens].to(self.sums)
        return (features * readout).sum(-1) + self.bias[tokens]

    def eos(self) -> Tensor:
        """Scores of eos in all states (N)."""
        return self.features.to(self.sums) @ self.weight[self.eos_id].to(self.sums) + self.bias[self.eos_id]

    def dot(self, left: Tensor, right: Tensor) -> Tensor:
        """Sum over all words of the products of two tables (n, V), with no third one."""
        return torch.stack([torch.linalg.vecdot(left[:, words], right[:, words]) for words in self.blocks()]).sum(0)

    def count(self) -> int:
        """How many actions there are."""
        return len(self.bias) if self.actions is None else int(self.actions.sum())

    def mean_readout(self) -> Tensor:
        """The mean of [weight, bias] over all actions (D + 1)."""
        words = slice(None) if self.actions is None else self.actions
        return torch.cat([self.weight[words].mean(0, dtype=self.sums), self.bias[words].mean(0, keepdim=True)])

    def expected(self, policy: Tensor, rows: Tensor) -> Tensor:
        """sum_w pi of the scores of a chunk (n), which are not formed: features times the expected readout."""
        readout = product(self._shorter(policy), self.weight).to(self.sums)
        return (self.features[rows].to(self.sums) * readout).sum(-1) + policy @ self.bias

    def _height(self) -> int:
        return max(ROWS, CELLS // len(self.bias))

    def _shorter(self, table: Tensor) -> Tensor:
        """Numbers of a chunk (n, V) in the precision of products, in memory that stays."""
        if table.dtype == self.weight.dtype:
            return table
        return _room.tables(self.weight, *table.shape).copy_(table)


class Trainable(Reader):
    """A table with gradients, which are summed up while the loss is."""

    gradient: Gradient  # if it is wanted

    def __init__(self, table: Table, wanted: bool = False) -> None:
        super().__init__(table)
        self.table = table
        learns = any(part is not None and part.requires_grad for part in table[:3])
        self.wanted = wanted or (torch.is_grad_enabled() and learns)
        if self.wanted:
            zeros = (torch.zeros_like(part, dtype=self.sums) for part in (table.features, table.weight, self.bias))
            self.gradient = Gradient(*zeros)

    def learn(self, rows: Tensor, slope: Tensor, scale: Tensor) -> None:
        """The gradient of a chunk's scores (n, V) is `slope` times `scale` (n)."""
        if not self.wanted:
            return
        column, shorter = scale.unsqueeze(-1), self._shorter(slope)
        self.gradient.features[rows] += column * product(shorter, self.weight)
        features = (column * self.features[rows]).to(shorter.dtype)
        for words in self.blocks():  # what is added stays in the cache
            self.gradient.weight[words].add_(product(shorter[:, words].T, features))
        self.gradient.bias.addmv_(slope.T, scale)

    def learn_chosen(self, tokens: Tensor, states: Tensor | None, slope: Tensor) -> None:
        """The gradient of the tokens' scores (K)."""
        if not self.wanted:
            return
        column = slope.unsqueeze(-1)
        rows = torch.arange(len(self.features), device=slope.device) if states is None else states
        self.gradient.features.index_add_(0, rows, column * self.weight[tokens])
        self.gradient.weight.index_add_(0, tokens, column * self.features[rows])
        self.gradient.bias.index_add_(0, tokens, slope)

    def learn_eos(self, slope: Tensor) -> None:
        """The gradient of the scores of eos (N)."""
        self.learn_chosen(torch.full_like(slope, self.eos_id, dtype=torch.long), None, slope)

    def learn_words(self, words: slice, readout: Tensor, matrix: Tensor) -> None:
        """The gradient of some words' [weight, bias] is `readout` times `matrix`."""
        if not self.wanted:
            return
        self.gradient.weight[words].add_(product(readout, matrix[:, :-1].contiguous()))
        self.gradient.bias[words].addmv_(readout, matrix[:, -1])

    def learn_features(self, gradient: Tensor) -> None:
        """The gradient of the features (N, D)."""
        if self.wanted:
            self.gradient.features.add_(gradient)

    def attach(self, loss: Tensor) -> Tensor:
        """The loss, with the gradients that were formed on the way."""
        if not self.wanted:
            return loss
        formed: Tensor = _Formed.apply(loss, *self.table[:3], *self.gradient)
        return formed


class _Formed(torch.autograd.Function):
    """A number whose gradients are known already: going backward only multiplies them.

    They are multiplied where they stand, unless the graph is kept to go backward again.
    """

    @staticmethod
    def forward(ctx: Context, loss: Tensor, *table_and_gradient: Tensor | None) -> Tensor:
        ctx.formed = table_and_gradient[3:]
        return loss.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, upstream: Tensor) -> tuple[Tensor | None, ...]:
        formed, again = ctx.formed, torch._C._autograd._get_current_graph_task_keep_graph()
        if formed is None:
            raise RuntimeError("A fused loss went backward before: give retain_graph=True where it shall do so again.")
        if not again:
            ctx.formed = None
        needed = zip(ctx.needs_input_grad[1:4], formed, strict=True)
        return (
            None,
            *((upstream * part if again else part.mul_(upstream)) if need else None for need, part in needed),
            *[None] * 3,
        )
