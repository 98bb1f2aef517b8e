"""The best completion of any prefix by edit distance: the exact Q* at temperature 0, for every word.

The best completion of a prefix goes on where its row of the edit table is least, and copies the rest of the reference.
Sabour et al. (2019), optimal completion distillation.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqcredit.types import EOS, lengths


def best_completions(
    tokens: Int[Tensor, "B T"], reference: Int[Tensor, "B L"], actions: int, eos: int = EOS
) -> Float[Tensor, "B T V"]:
    """Q* of R = - distance before each token: what R gains by a word and the best words after it.

    A word that goes on from a best place costs nothing, every other word 1; eos gains nothing. No length is bounded.
    """
    size = lengths(reference, eos).unsqueeze(1)  # (B, 1)
    words, place = reference[:, : int(size.max())], torch.arange(int(size.max()) + 1, device=tokens.device)
    row, q = place.expand(len(tokens), -1), []
    for token in tokens.unbind(1):
        # Padding equals no token, so that the row is never least there alone.
        least, here = row.amin(1, keepdim=True), row.gather(1, size)
        onward = row[:, :-1] == least
        best = torch.zeros(len(tokens), actions, device=tokens.device).scatter_add_(1, words, onward.float()) > 0
        gains = (here - least - 1 + best.long()).index_fill(1, torch.tensor([eos], device=tokens.device), 0)
        q.append(gains)
        row = row_after(row, words != token.unsqueeze(1), place)
    return torch.stack(q, 1).to(torch.get_default_dtype())


def row_after(row: Int[Tensor, "*B C"], other: Tensor, place: Int[Tensor, " C"]) -> Int[Tensor, "*B C"]:
    """The row of the edit table after one more token, `other` where it differs from a word of the reference."""
    best = torch.minimum(row[..., 1:] + 1, row[..., :-1] + other)  # one token too many, or changed
    best = torch.cat([row[..., :1] + 1, best], -1)
    return (best - place).cummin(-1).values + place  # or a word of the reference is left out
