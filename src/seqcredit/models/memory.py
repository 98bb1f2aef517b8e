"""Memory and state of the paper's LSTMs: the encoded source, and the state between two words."""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from seqcredit.models.policy import Tensors


@dataclass(frozen=True)
class Memory(Tensors):
    """A source that has been read."""

    states: Float[Tensor, "B S D"]
    keys: Float[Tensor, "B S D"]  # what attention compares with; the states themselves for dot products
    mask: Bool[Tensor, "B S"]  # False on padding
    h: Float[Tensor, "B layers H"]  # where the decoder starts
    c: Float[Tensor, "B layers H"]
    codes: Float[Tensor, "B S C"]  # of the words that were read, for a critic that copies them; else of width 0


@dataclass(frozen=True)
class State(Tensors):
    """A decoder between two words."""

    h: Float[Tensor, "B layers D"]
    c: Float[Tensor, "B layers D"]
    fed: Float[Tensor, "B fed"]  # the last attention vector for input feeding, else of width 0
    attention: Float[Tensor, "B S"]  # weights of the last step
