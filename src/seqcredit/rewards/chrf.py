"""chrF of every prefix of words."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqcredit.errors import require
from seqcredit.rewards.ngrams import counts_in, matched, occurrences
from seqcredit.rewards.prefixes import (
    UNMATCHED,
    best_reference,
    f_measure,
    is_word,
    ordered_sum,
    prefix_sums,
    real_dtype,
)
from seqcredit.types import ABSENT, EOS, UNK


@dataclass(frozen=True)
class ChrF:
    """F-measure of character n-grams in [0, 1], spaces left out, the best over the references; R(empty) = 0.

    Popovic (2015); precision and recall are means over the orders that both sides are long enough for, as in sacreBLEU.
    """

    words: Sequence[str] = field(repr=False)  # the text of each id
    order: int = 6
    beta: float = 2.0
    unk_matches: bool = True  # False: no character of the hypothesis' unk matches
    dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        require(self.order >= 1, f"ChrF: order is {self.order}, but it must be 1 or more.")
        require(self.beta > 0, f"ChrF: beta is {self.beta}, but it must be above 0.")
        require(len(self.words) > UNK, "ChrF: words must hold the text of every id, eos and unk included.")

    def prefix_scores(self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"]) -> Float[Tensor, "B T+1"]:
        """ChrF of the first 0, 1, ..., T tokens."""
        rows = tokens if self.unk_matches else tokens.masked_fill(tokens == UNK, len(self.words))
        letters, ends = self._spell(rows.masked_fill(~is_word(tokens), EOS), UNMATCHED)  # (B, C), (B, T+1)
        known, known_ends = self._spell(references.masked_fill(~is_word(references), EOS).flatten(0, 1), ABSENT)
        known = known.unflatten(0, references.shape[:2])  # (B, R, K)
        known_size = known_ends[:, -1].unflatten(0, references.shape[:2]).unsqueeze(-1)  # (B, R, 1)

        found = matched(occurrences(letters, self.order).unsqueeze(2), counts_in(letters, known, self.order))
        at = ends[None, :, None].expand(*found.shape[:3], -1)
        matches = prefix_sums(found).gather(-1, at).to(real_dtype(self.dtype))  # (N, B, R, T+1)
        shorter = torch.arange(self.order, device=tokens.device)[:, None, None, None]
        ours, theirs = (ends.unsqueeze(1) - shorter).clamp(min=0), (known_size - shorter).clamp(min=0)
        orders = ((ours > 0) & (theirs > 0)).sum(0).clamp(min=1)
        # Where one side has no n-gram there is no match, so the order adds 0 to both sums.
        precision = ordered_sum(matches / ours.clamp(min=1), 0) / orders
        recall = ordered_sum(matches / theirs.clamp(min=1), 0) / orders
        return best_reference(f_measure(precision, recall, self.beta), references)

    @cached_property
    def _letters(self) -> Int[Tensor, "V W"]:
        """The code points of each word, filled with ABSENT; a last row for an unk that must not match."""
        texts = ["".join(word.split()) for word in self.words]
        texts[EOS] = ""
        table = torch.full((len(texts) + 1, max(map(len, texts))), ABSENT)
        for row, text in zip(table, texts, strict=False):
            row[: len(text)] = torch.tensor([ord(letter) for letter in text], dtype=torch.long)
        table[-1, : len(texts[UNK])] = UNMATCHED
        return table

    def _spell(self, rows: Int[Tensor, "M T"], fill: int) -> tuple[Int[Tensor, "M C"], Int[Tensor, "M T+1"]]:
        """The letters of each sentence in one line, and where each prefix of words ends in it."""
        letters = self._letters.to(rows.device)[rows]  # (M, T, W)
        kept = letters != ABSENT
        ends = prefix_sums(kept.sum(-1))
        width = int(ends.amax()) if ends.numel() else 0  # the one number that is read back: how wide the line must be
        place = ends[:, :-1, None] + torch.arange(letters.shape[-1], device=rows.device)
        line = letters.new_full((len(rows), width + 1), fill)  # what is not a letter goes to the last column
        line.scatter_(1, place.where(kept, width).flatten(1), letters.flatten(1))
        return line[:, :-1], ends
