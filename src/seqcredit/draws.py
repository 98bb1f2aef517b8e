"""Randomness: one uniform number makes one token, and every row of a batch has numbers of its own.

Numbers are drawn for the whole batch in one go, whichever of its rows are used here: a batch that is shared among
processes, and rows that leave early, get the same numbers as one process that keeps them all.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor


@dataclass(frozen=True)
class Noise:
    """A source of random numbers for rows `first .. first + rows` of a batch of `total`."""

    generator: Generator
    total: int
    first: int = 0
    rows: int | None = None

    def repeated(self, times: int) -> "Noise":
        """Noise for a batch in which every row stands `times` over."""
        rows = self.total if self.rows is None else self.rows
        return Noise(self.generator, self.total * times, self.first * times, rows * times)

    def apart(self) -> "Noise":
        """Noise for the same rows, of which one may draw any amount: what comes after does not depend on it."""
        seed = torch.randint(2**62, (), generator=self.generator, device=self.generator.device)
        generator = Generator(self.generator.device).manual_seed(int(seed))
        return Noise(generator, self.total, self.first, self.rows)

    def uniform(self, *shape: int, device: torch.device | str = "cpu") -> Float[Tensor, "..."]:
        """Numbers in [0, 1) of shape (rows, *shape)."""
        numbers = torch.rand(self.total, *shape, generator=self.generator, device=self.generator.device)
        return numbers[self.first : self.first + (self.total if self.rows is None else self.rows)].to(device)


def uniform(weights: Float[Tensor, "*B V"], generator: Generator) -> Float[Tensor, "*B"]:
    """A number in [0, 1) for each row of weights, as precise as they are."""
    return torch.rand(weights.shape[:-1], generator=generator, dtype=weights.dtype).to(weights.device)


def draw(weights: Float[Tensor, "*B V"], uniform: Float[Tensor, "*B"]) -> Int[Tensor, "*B"]:
    """One index a row by inverse CDF, from weights that need not sum to one; never an index of weight zero."""
    cdf = weights.cumsum(-1)
    height = uniform.to(cdf.dtype).unsqueeze(-1) * cdf[..., -1:]
    index = torch.searchsorted(cdf, height, right=True)
    # Rounding can carry `height` up to the total itself, past the last positive weight.
    last = torch.searchsorted(cdf, cdf[..., -1:].contiguous())
    # Weights that are not numbers have no index: any will do, for the loss will not be a number either.
    return torch.minimum(index, last).clamp(max=weights.shape[-1] - 1).squeeze(-1)
