"""What a model remembers of the source, and what its decoder carries from word to word.

Both are named tuples of tensors whose first axis is the batch, so sentences are selected and repeated in one way,
whatever the fields are.
"""

from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class Memory(NamedTuple):
    """A source that has been read."""

    states: Float[Tensor, "B S D"]
    keys: Float[Tensor, "B S D"]  # what attention compares with; the states themselves for dot products
    mask: Bool[Tensor, "B S"]  # False on padding
    h: Float[Tensor, "B layers D"]  # where the decoder starts
    c: Float[Tensor, "B layers D"]
    codes: Float[Tensor, "B S C"]  # of the words that were read, for a critic that copies them; else of width 0


class State(NamedTuple):
    """A decoder between two words."""

    h: Float[Tensor, "B layers D"]
    c: Float[Tensor, "B layers D"]
    fed: Float[Tensor, "B fed"]  # the last attention vector for input feeding, else of width 0
    attention: Float[Tensor, "B S"]  # weights of the last step


# A named tuple of batch-first tensors.
Rows = TypeVar("Rows", bound=tuple[Tensor, ...])


def select(rows: Rows, index: Int[Tensor, " N"]) -> Rows:
    """The sentences at `index`, in its order."""
    return type(rows)(*(field.index_select(0, index) for field in rows))


def repeat(rows: Rows, times: int) -> Rows:
    """Every sentence `times` over, its copies side by side: M proposals that share one reading of the source."""
    size = rows[0].shape[0]
    return select(rows, torch.arange(size, device=rows[0].device).repeat_interleave(times))


def join(first: Rows, second: Rows) -> Rows:
    """The sentences of both."""
    return type(first)(*(torch.cat(pair) for pair in zip(first, second, strict=True)))
