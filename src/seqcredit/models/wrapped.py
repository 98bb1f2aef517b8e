"""Any network that scores the next word, as a policy or a critic."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seqcredit.draws import Noise
from seqcredit.types import EOS


class Source(NamedTuple):
    """A source as it came."""

    source: Tensor


class Words(NamedTuple):
    """The words so far."""

    tokens: Int[Tensor, "B t"]
    attention: Float[Tensor, "B 1"]  # nothing is known of it


class Wrapped(nn.Module):
    """A module whose `forward(source, tokens)` scores every action at every position from the tokens before it.

    As an actor it gets the source of the batch and gives logits (B, T, V); as a critic it gets the references (B, R, L)
    and gives Q. Sampling calls it once a word on all the words so far, so a model with a state of its own does better
    with its own `encode`, `start`, `step` and `features`, see `models.lstm`. Its dropout is drawn anew in every call.
    """

    def __init__(self, module: nn.Module, actions: int) -> None:
        super().__init__()
        self.module, self.actions, self.readout = module, actions, nn.Identity()

    def encode(self, source: Tensor) -> Source:
        """Nothing is read in advance."""
        return Source(source)

    def start(self, memory: Source) -> Words:
        """Before the first word."""
        source = memory.source
        return Words(source.new_zeros(len(source), 0, dtype=torch.long), torch.zeros(len(source), 1).to(source.device))

    def step(
        self, memory: Source, state: Words, token: Int[Tensor, " B"] | None, mask: Tensor | None = None
    ) -> tuple[Float[Tensor, "B V"], Words]:
        """Scores of the next word after `token`; None stands for bos."""
        tokens = state.tokens if token is None else torch.cat([state.tokens, token.unsqueeze(1)], 1)
        scores = self.module(memory.source, nn.functional.pad(tokens, (0, 1), value=EOS))
        return scores[:, -1], Words(tokens, state.attention)

    def features(
        self, memory: Source, tokens: Int[Tensor, "B T"], masks: Tensor | None = None
    ) -> Float[Tensor, "B T V"]:
        """The scores themselves: the readout leaves them as they are."""
        return self.module(memory.source, tokens)

    def masks(self, length: int, noise: Noise) -> None:
        """Dropout is the module's own affair."""
        return
