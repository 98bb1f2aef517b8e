"""Guided search: a critic that reads only the source adds its prediction to the score of each hypothesis.

Li, Monroe and Jurafsky (2017), Q(BLEU): a hypothesis is ranked by log p + weight * Q(source, its words), where Q is the
reward that a whole output beginning with these words is expected to have. No critic that reads the reference will do.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqcredit.errors import require
from seqcredit.models.policy import Network, Readout, Rows, repeat
from seqcredit.types import Alphabet


class Guide(NamedTuple):
    """A critic with its memory of the sources, and how much what it says counts."""

    critic: Network
    memory: Rows
    weight: float

    def along(self, alphabet: Alphabet, width: int, device: torch.device) -> "Guiding":
        """Beside a search with so many hypotheses for each source."""
        size = self.critic.alphabet.size
        require(
            size == alphabet.size, f"The guide knows {size} ids, and the model {alphabet.size}: train it for those."
        )
        memory = repeat(self.memory, width, device)
        return Guiding(self.critic, memory, self.critic.start(memory), self.weight, Readout(memory.rows))


class Guiding:
    """A critic that goes along with the hypotheses of a search."""

    def __init__(self, critic: Network, memory: Rows, state: Rows, weight: float, written: Readout) -> None:
        self.critic, self.memory, self.state, self.weight, self.written = critic, memory, state, weight, written

    def worth(self, token: Int[Tensor, " BW"] | None) -> Float[Tensor, "BW V"]:
        """Weight times Q of every continuation after `token`, the last one of each hypothesis; None stands for bos."""
        scores, self.state = self.critic.step(self.memory, self.state, token)
        return self.weight * self.written(scores)

    def select(self, origin: Int[Tensor, " N"]) -> "Guiding":
        """Beside the hypotheses that stem from those."""
        memory, state = self.memory.select(origin), self.state.select(origin)
        return Guiding(self.critic, memory, state, self.weight, self.written)
