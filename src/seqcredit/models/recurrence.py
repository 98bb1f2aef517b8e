"""An LSTM over sequences of any lengths, each from its own initial state; returns all states.

`torch.nn.LSTM` keeps its cells to itself, so nothing can branch off in the middle of a sequence. Here the steps of all
sequences stand together, the first ones first, and sequences that have ended take no part. A tree has stems, which
start from a state of their own, and twigs, which branch off them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from seqcredit.types import Context, token_mask


class Ragged(NamedTuple):
    """Where the steps of sequences stand: step by step, in each the longest sequence first."""

    rank: Int[Tensor, " R"]  # of each sequence by length
    offsets: Int[Tensor, " steps"]  # where each step begins
    sizes: list[int]  # sequences that take part in each step

    def place(self, sequence: Int[Tensor, " n"], step: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        """Where a step of a sequence stands."""
        return self.offsets[step] + self.rank[sequence]


def ragged(lengths: Int[Tensor, " R"]) -> Ragged:
    """The order for sequences of these lengths, 0 included."""
    order = lengths.argsort(descending=True, stable=True)
    sizes = torch.bincount(lengths.clamp(min=0)).flip(0).cumsum(0).flip(0)[1:]  # sequences longer than 0, 1, ...
    return Ragged(order.argsort(), sizes.cumsum(0) - sizes, sizes.tolist())


def unroll(
    inputs: Float[Tensor, "P E"],
    sizes: list[int],
    h: Float[Tensor, "R H"],
    c: Float[Tensor, "R H"],
    weights: Sequence[Tensor],
) -> tuple[Float[Tensor, "P H"], Float[Tensor, "P H"]]:
    """Hidden states and cells after every step, from those before the first; `weights` are those of `torch.nn.LSTM`.

    `h` and `c` are in the order of `Ragged.rank`.
    """
    into, across, bias, another = weights
    return _Unroll.apply(inputs, sizes, h, c, into, across, bias + another)


class _Unroll(torch.autograd.Function):
    """Gates: input, forget, cell, output, as in torch."""

    @staticmethod
    def forward(
        ctx: Context, inputs: Tensor, sizes: list[int], h: Tensor, c: Tensor, into: Tensor, across: Tensor, bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        H = across.shape[1]
        gates = torch.addmm(bias, inputs, into.T)  # (P, 4 H)
        states, cells, squashed = (gates.new_empty(len(inputs), H) for _ in range(3))
        before_h, before_c, start = h, c, 0
        for size in sizes:
            now, step = slice(start, start + size), gates[start : start + size]
            step.addmm_(before_h[:size], across.T)
            step[:, : 2 * H].sigmoid_()
            step[:, 2 * H : 3 * H].tanh_()
            step[:, 3 * H :].sigmoid_()
            i, f, g, o = step.chunk(4, 1)
            torch.mul(f, before_c[:size], out=cells[now]).addcmul_(i, g)
            torch.tanh(cells[now], out=squashed[now])
            torch.mul(o, squashed[now], out=states[now])
            before_h, before_c, start = states[now], cells[now], start + size
        ctx.save_for_backward(inputs, h, c, into, across, gates, states, cells, squashed)
        ctx.sizes = sizes
        return states, cells

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, of_states: Tensor, of_cells: Tensor) -> tuple[Tensor | None, ...]:
        inputs, h, c, into, across, gates, states, cells, squashed = ctx.saved_tensors
        slopes, of_h, of_c = torch.empty_like(gates), torch.zeros_like(h), torch.zeros_like(c)
        previous = torch.empty_like(states)
        end, starts = len(inputs), [0, *torch.tensor(ctx.sizes).cumsum(0).tolist()]
        for number in reversed(range(len(ctx.sizes))):
            size, start = ctx.sizes[number], starts[number]
            now, end = slice(start, end), start
            first = number == 0
            before = slice(0, size) if first else slice(starts[number - 1], starts[number - 1] + size)
            previous[now] = (h if first else states)[before]
            dh, dc = of_h[:size].add_(of_states[now]), of_c[:size].add_(of_cells[now])
            i, f, g, o = gates[now].chunk(4, 1)
            si, sf, sg, so = slopes[now].chunk(4, 1)
            dc.addcmul_(dh * o, 1 - squashed[now].square())
            torch.mul(dh * squashed[now], o * (1 - o), out=so)
            torch.mul(dc * g, i * (1 - i), out=si)
            torch.mul(dc * (c if first else cells)[before], f * (1 - f), out=sf)
            torch.mul(dc * i, 1 - g.square(), out=sg)
            dc.mul_(f)
            torch.mm(slopes[now], across, out=dh)
        return slopes @ into, None, of_h, of_c, slopes.T @ inputs, slopes.T @ previous, slopes.sum(0)


class Tree(NamedTuple):
    """Sequences that branch off others: stems first, then twigs, each from a place of a stem."""

    place: Int[Tensor, " N"]  # where each state stands among those of the stems, then of the twigs
    stems: Ragged
    twigs: Ragged
    fork: Int[Tensor, " R"]  # where each twig begins, among the stems' places


def grow(tokens: Int[Tensor, "B M T"], fork: Int[Tensor, "B M"], eos: int) -> tuple[Tensor, Tensor, Tensor, Tree]:
    """Source, sequence and position of every state of its own, and the tree that they make."""
    B, M, T = tokens.shape
    real = token_mask(tokens, eos)
    # The position of the last state that is not a sequence's own.
    last = torch.cat([torch.full_like(fork[:, :1], -1), fork[:, 1:]], 1)
    b, m, t = (real & (torch.arange(T, device=tokens.device) > last.unsqueeze(-1))).nonzero().unbind(1)
    lengths = real.sum(-1) - 1 - last
    stems, twigs = ragged(lengths[:, 0]), ragged(lengths[:, 1:].flatten())
    stem, twig = (m == 0).nonzero().squeeze(1), (m > 0).nonzero().squeeze(1)
    place = torch.empty_like(b)
    place[stem] = stems.place(b[stem], t[stem])
    branch = b[twig] * (M - 1) + m[twig] - 1
    place[twig] = len(stem) + twigs.place(branch, t[twig] - last[b, m][twig] - 1)
    source = torch.arange(B, device=tokens.device).repeat_interleave(M - 1)
    return b, m, t, Tree(place, stems, twigs, stems.place(source, fork[:, 1:].flatten()))


def unroll_tree(inputs: Tensor, tree: Tree, h: Tensor, c: Tensor, weights: Sequence[Tensor]) -> Float[Tensor, "N D"]:
    """Hidden states of the stems from h and c, then those of the twigs from where they branch off."""
    stem_inputs, twig_inputs = inputs.split([sum(tree.stems.sizes), sum(tree.twigs.sizes)])
    order = tree.stems.rank.argsort()
    hidden, cells = unroll(stem_inputs, tree.stems.sizes, h[order], c[order], weights)
    start = tree.fork[tree.twigs.rank.argsort()]
    return torch.cat([hidden, unroll(twig_inputs, tree.twigs.sizes, hidden[start], cells[start], weights)[0]])
