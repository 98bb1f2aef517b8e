"""Edit and Hamming distance of every prefix, as rewards: minus the distance to the nearest reference."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from seqcredit.rewards.prefixes import (
    UNMATCHED,
    best_reference,
    hypothesis_words,
    prefix_lengths,
    prefix_sums,
    real_dtype,
    reference_lengths,
    reference_words,
)


@dataclass(frozen=True)
class EditDistance:
    """Minus the number of inserted, deleted and replaced words; R(empty) = minus the reference's length.

    Levenshtein (1966), by the recurrence of Wagner and Fischer (1974); best over the references.
    """

    by_length: bool = False  # divide by the reference's number of words (by 1 for an empty reference)
    unk_matches: bool = True
    dtype: torch.dtype | None = None

    def prefix_scores(self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"]) -> Float[Tensor, "B T+1"]:
        """Minus the distance of the first 0, 1, ..., T tokens."""
        words = hypothesis_words(tokens, self.unk_matches)
        lengths = reference_lengths(references).unsqueeze(-1)  # (B, R, 1)
        distance = _edit_distances(words, reference_words(references), lengths)  # (B, R, T+1)
        size = prefix_lengths(tokens).long().unsqueeze(1).expand_as(distance)
        scores = -distance.gather(-1, size).to(real_dtype(self.dtype))
        return best_reference(scores / lengths.clamp(min=1) if self.by_length else scores, references)


@dataclass(frozen=True)
class Hamming:
    """Minus the number of positions that differ, those that only one of the two has included.

    Hamming (1950), extended to unequal lengths; best over the references.
    """

    unk_matches: bool = True
    dtype: torch.dtype | None = None

    def prefix_scores(self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"]) -> Float[Tensor, "B T+1"]:
        """Minus the distance of the first 0, 1, ..., T tokens."""
        words = hypothesis_words(tokens, self.unk_matches).unsqueeze(1)
        missing = max(0, tokens.shape[1] - references.shape[2])
        aligned = pad(reference_words(references), (0, missing), value=UNMATCHED - 1)[..., : tokens.shape[1]]
        longer = torch.maximum(prefix_lengths(tokens).unsqueeze(1), reference_lengths(references).unsqueeze(-1))
        scores = prefix_sums(words == aligned) - longer  # (B, R, T+1)
        return best_reference(scores.to(real_dtype(self.dtype)), references)


def _edit_distances(
    words: Int[Tensor, "B T"], references: Int[Tensor, "B R L"], lengths: Int[Tensor, "B R 1"]
) -> Int[Tensor, "B R T+1"]:
    """Distance of the first 0, 1, ..., T entries of `words` to each whole reference.

    A row holds d[j] - j. There the step along the row, d[j] <= d[j-1] + 1, is a running minimum.
    """
    row = torch.zeros_like(pad(references, (1, 0)))  # (B, R, L+1)
    ends = [row.gather(-1, lengths)]
    for word in words.unbind(1):
        match: Bool[Tensor, "B R L"] = references == word[:, None, None]
        down, diagonal = row + 1, row[..., :-1] - match.to(row.dtype)
        row = torch.minimum(down, torch.cat([down[..., :1], diagonal], -1)).cummin(-1).values
        ends.append(row.gather(-1, lengths))
    return torch.cat(ends, -1) + lengths
