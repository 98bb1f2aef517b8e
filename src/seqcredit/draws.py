"""One uniform number makes one token."""

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor


def draw(probabilities: Float[Tensor, "*B V"], generator: Generator) -> Int[Tensor, "*B"]:
    """One index a row by inverse CDF, from weights that need not sum to one; never an index of weight zero.

    Costs one uniform number a row, where `torch.multinomial` draws V exponential ones.
    """
    cdf = probabilities.cumsum(-1)
    shape = (*probabilities.shape[:-1], 1)
    uniform = torch.rand(shape, generator=generator, device=generator.device, dtype=cdf.dtype).to(cdf.device)
    index = torch.searchsorted(cdf, uniform * cdf[..., -1:], right=True)
    # Rounding can carry `uniform * total` up to the total itself, past the last positive weight.
    last = torch.searchsorted(cdf, cdf[..., -1:].contiguous())
    return torch.minimum(index, last).squeeze(-1)
