"""A module of your own that scores the next token, as a policy or a critic."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seqcredit.models.policy import Dropout, Linear, Policy, Scores, Tensors, Written
from seqcredit.types import Alphabet


@dataclass(frozen=True)
class Source(Tensors):
    """A source as it came."""

    source: Tensor


@dataclass(frozen=True)
class Words(Tensors):
    """The tokens so far."""

    tokens: Int[Tensor, "B t"]


class Wrapped(Policy[Source, Words]):
    """A module whose `forward(source, tokens)` scores every id at every position from the tokens before it.

    As an actor it gets the source of the batch and gives logits (B, T, V); as a critic (`reads = "references"`) it gets
    the references (B, R, L) and gives Q. With a `readout` the module gives features (B, T, D) instead, and the losses
    never write (B, T, V) down. Sampling calls the module once a token on all tokens so far, so a model with a state of
    its own does better as a `Policy`: see `models/lstm.py`. Its dropout is drawn anew in every call.
    """

    def __init__(
        self,
        module: nn.Module,
        alphabet: Alphabet | int,
        readout: nn.Linear | None = None,
        reads: Literal["source", "references"] = "source",
    ) -> None:
        super().__init__()
        self.alphabet = Alphabet.of(alphabet)
        self.module, self.readout, self.reads = module, readout, reads

    @property
    def width(self) -> int:
        """Of the module's features, if there is a readout."""
        return 0 if self.readout is None else self.readout.in_features

    def encode(self, source: Tensor) -> Source:
        """Nothing is read in advance."""
        return Source(source)

    def start(self, memory: Source) -> Words:
        """Before the first token."""
        return Words(memory.source.new_zeros(memory.rows, 0, dtype=torch.long))

    def step(
        self, memory: Source, state: Words, token: Int[Tensor, " B"] | None, dropout: Float[Tensor, "B D"] | None = None
    ) -> tuple[Scores, Words]:
        """Scores of the next token after `token`; None stands for bos."""
        tokens = state.tokens if token is None else torch.cat([state.tokens, token.unsqueeze(1)], 1)
        padded = nn.functional.pad(tokens, (0, 1), value=self.alphabet.eos)
        return self._scored(self.module(memory.source, padded)[:, -1]), Words(tokens)

    def score(self, memory: Source, tokens: Int[Tensor, "B T"], dropout: Dropout | None = None) -> Scores:
        """Scores of every token from those before it."""
        return self._scored(self.module(memory.source, tokens))

    def _scored(self, given: Tensor) -> Scores:
        readout = self.readout
        return Written(given) if readout is None else Linear(given, readout.weight, readout.bias)
