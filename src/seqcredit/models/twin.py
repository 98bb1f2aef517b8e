"""Two critics of which the lower Q counts, so that an actor does not follow what one of them overrates.

Fujimoto et al. (2018), as in the soft Actor-Critic of Haarnoja et al. (2018).
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqcredit.models.policy import Dropout, Network, Policy, Rows, Scores
from seqcredit.types import Batch


@dataclass(frozen=True)
class Pair:
    """What each of two networks remembers, or where each of them stands."""

    first: Rows
    second: Rows

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.first.rows

    def select(self, index: Int[Tensor, " N"]) -> "Pair":
        """The rows at `index`, in its order."""
        return Pair(self.first.select(index), self.second.select(index))

    def join(self, other: "Pair") -> "Pair":
        """These rows, then others."""
        return Pair(self.first.join(other.first), self.second.join(other.second))


class Lower(NamedTuple):
    """Two Q, of which the lower one counts."""

    first: Scores
    second: Scores

    def table(self) -> Float[Tensor, "*S V"]:
        """The lower one of every id."""
        return torch.minimum(self.first.table(), self.second.table())

    def linear(self) -> None:
        """A minimum is not linear."""
        return


class Twin(Policy[Pair, Pair]):
    """Two critics as one network. Its scores are the lower Q; a loss that teaches both finds them in `Lower`."""

    def __init__(self, first: Network, second: Network) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.alphabet, self.reads = first.alphabet, first.reads

    def encode(self, source: Tensor) -> Pair:
        """Both read it."""
        return Pair(self.first.encode(source), self.second.encode(source))

    def read(self, batch: Batch) -> Pair:
        """Both read what they are to read."""
        return Pair(self.first.read(batch), self.second.read(batch))

    def score(self, memory: Pair, tokens: Int[Tensor, "B T"], dropout: Dropout | None = None) -> Lower:
        """Both Q of every action before each token."""
        first, second = self.first.score(memory.first, tokens), self.second.score(memory.second, tokens)
        return Lower(first, second)

    def start(self, memory: Pair) -> Pair:
        """Before the first token."""
        return Pair(self.first.start(memory.first), self.second.start(memory.second))

    def step(
        self, memory: Pair, state: Pair, token: Int[Tensor, " B"] | None, dropout: Float[Tensor, "B D"] | None = None
    ) -> tuple[Lower, Pair]:
        """Both Q after `token`; None stands for bos."""
        first, one = self.first.step(memory.first, state.first, token)
        second, other = self.second.step(memory.second, state.second, token)
        return Lower(first, second), Pair(one, other)
