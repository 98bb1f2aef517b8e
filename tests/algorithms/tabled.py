"""Networks that are tables over a space of sequences small enough to list: policies and critics without any error."""

import torch
from torch import Tensor, nn

from seqcredit.credit.oracle.enumeration import Payoffs, Space, score
from seqcredit.models.wrapped import Wrapped
from seqcredit.rewards import Bleu
from seqcredit.types import Batch, pad, pad_references

SPACE = Space(4, 3)
EVERY = SPACE.sequences()
REFERENCE = [3, 1]
ONE = Batch(pad([[1, 2]]), pad_references([[REFERENCE]]))
ALL = ONE.repeated(len(EVERY))  # a row for each sequence
BLEU = Bleu(scaled=True, dtype=torch.float64)


class Tabled(nn.Module):
    """Scores of every node of the space, learned as they are."""

    def __init__(self, scores: Tensor) -> None:
        super().__init__()
        self.scores = nn.Parameter(scores.clone())

    def forward(self, source: Tensor, tokens: Tensor) -> Tensor:
        return self.scores[SPACE.nodes(tokens)]


def tabled(scores: Tensor) -> Wrapped:
    """A network that says this."""
    return Wrapped(Tabled(scores), SPACE.actions)


def payoffs() -> Payoffs:
    """What every prefix and every sequence is worth."""
    return score(SPACE, BLEU, ONE.references[0])


def random_table(seed: int = 0, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(len(SPACE), SPACE.actions, generator=generator, dtype=torch.float64)
