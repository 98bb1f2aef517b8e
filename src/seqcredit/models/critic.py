"""The judge: reads the reference, gives Q for every word after every prefix, and is followed by a slow copy."""

from typing import Literal

import torch
from jaxtyping import Int
from torch import Generator, Tensor, nn

from seqcredit.models.lstm import Seq2Seq
from seqcredit.models.memory import Memory, select
from seqcredit.types import ABSENT, EOS


class Critic(Seq2Seq):
    """Q_phi: the same network with the reference, or all of them, as its source. `readout(features)` is Q.

    The defaults are ERAC's critic; VAML's Q-network has attention "dot" and dropout 0.1.
    """

    def __init__(
        self,
        actions: int,
        embedding: int = 256,
        hidden: int = 256,
        layers: int = 1,
        attention: Literal["dot", "mlp"] = "mlp",
        input_feeding: bool = False,
        dropout: float = 0.0,
        generator: Generator | None = None,
        references: Literal["own", "all"] = "own",
    ) -> None:
        super().__init__(
            actions, actions, embedding, hidden, layers, attention, input_feeding, dropout, generator=generator
        )
        self.references = references

    def encode(self, references: Int[Tensor, "B R L"]) -> Memory:
        """Read the first reference, or all: attention sees every word, and the decoder starts from their mean."""
        if self.references == "own" or references.shape[1] == 1:
            return super().encode(references[:, 0])
        there = references[..., 0] != ABSENT  # (B, R)
        # The captions of a picture stand in the batch once for each of them: each is read once.
        rows, place = references.clamp(min=EOS).flatten(0, 1).unique(dim=0, return_inverse=True)
        read = select(super().encode(rows), place)
        states, keys, mask, h, c = (field.unflatten(0, there.shape) for field in read)
        share = (there / there.sum(1, keepdim=True)).to(h.dtype)[..., None, None]
        return Memory(
            states.flatten(1, 2),
            keys.flatten(1, 2),
            (mask & there.unsqueeze(-1)).flatten(1, 2),
            (h * share).sum(1),
            (c * share).sum(1),
        )


@torch.no_grad()
def update_target(target: nn.Module, source: nn.Module, rate: float) -> None:
    """target <- rate * source + (1 - rate) * target, in place.

    The target network of ERAC, where the rate is beta.
    """
    torch._foreach_lerp_(list(target.parameters()), list(source.parameters()), rate)
