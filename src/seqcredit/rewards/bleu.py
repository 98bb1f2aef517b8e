"""BLEU of every prefix."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqcredit.errors import require
from seqcredit.rewards.ngrams import matches
from seqcredit.rewards.prefixes import (
    ended,
    hypothesis_words,
    mean_length,
    ordered_sum,
    prefix_lengths,
    prefix_sums,
    present,
    real_dtype,
    reference_lengths,
    reference_words,
)

SMOOTHINGS = ("add-one", "add-one-above-1", "floor", "exponential", "none")
BREVITIES = ("closest", "mean")
FLOOR = 0.1


@dataclass(frozen=True)
class Bleu:
    """Sentence BLEU in [0, 1]; R(empty) = 0.

    Papineni et al. (2002); the smoothings other than "add-one" are those of Chen and Cherry (2014) as in sacreBLEU.
    """

    order: int = 4
    smoothing: str = "add-one"  # matches + 1 over totals + 1 for every n; "add-one-above-1" leaves the unigrams alone
    scaled: bool = False  # times the reference's number of words, the mean over the references if there are several
    effective_order: bool = False  # average over the orders that the prefix is long enough for (add-one: over all)
    unfinished_brevity: bool = True  # False: only what has ended pays the brevity penalty, see `prefixes.ended`
    unk_matches: bool = True
    brevity: str = "closest"  # the length to reach: of the closest reference, or "mean", of all of them
    dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        require(self.order >= 1, f"Bleu: order is {self.order}, but it must be 1 or more.")
        names = ", ".join(SMOOTHINGS)
        require(self.smoothing in SMOOTHINGS, f"Bleu: smoothing is {self.smoothing!r}, but it must be one of {names}.")
        lengths = ", ".join(BREVITIES)
        require(self.brevity in BREVITIES, f"Bleu: brevity is {self.brevity!r}, but it must be one of {lengths}.")

    def prefix_scores(self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"]) -> Float[Tensor, "B T+1"]:
        """BLEU of the first 0, 1, ..., T tokens."""
        words = hypothesis_words(tokens, self.unk_matches)
        right = prefix_sums(matches(words, reference_words(references), self.order))  # (N, B, T+1)
        size = prefix_lengths(tokens)
        orders = torch.arange(self.order, device=tokens.device).int()
        totals = (size - orders[:, None, None]).clamp(min=0)

        dtype = real_dtype(self.dtype)
        log_mean = self._log_mean(self._precisions(right, totals, dtype), totals)
        wanted = mean_length(references, dtype) if self.brevity == "mean" else _closest_length(size, references)
        log_brevity = (1 - wanted / size.clamp(min=1).to(dtype)).clamp(max=0)
        if not self.unfinished_brevity:
            log_brevity = log_brevity.masked_fill(~ended(tokens), 0)
        without = size == 0 if self.smoothing == "add-one" else right[0] == 0
        scores = (log_mean + log_brevity).exp().masked_fill(without, 0)
        return scores * mean_length(references, dtype) if self.scaled else scores

    def _precisions(
        self, matches: Int[Tensor, "N B P"], totals: Int[Tensor, "N B P"], dtype: torch.dtype
    ) -> Float[Tensor, "N B P"]:
        """Smoothed n-gram precisions, 0 where the prefix is too short for an n-gram and nothing is added."""
        m, n = matches.to(dtype), totals.to(dtype)
        if self.smoothing == "add-one":
            return (m + 1) / (n + 1)
        if self.smoothing == "add-one-above-1":
            m[1:] += 1
            n[1:] += 1
        elif self.smoothing != "none":
            missed = (matches == 0) & (totals > 0)
            value = FLOOR if self.smoothing == "floor" else torch.pow(0.5, missed.cumsum(0)).to(dtype)
            m = torch.where(missed, value, m)
        return m / n.clamp(min=1)

    def _log_mean(self, precisions: Float[Tensor, "N B P"], totals: Int[Tensor, "N B P"]) -> Float[Tensor, "B P"]:
        """Logarithm of the geometric mean over n."""
        if not self.effective_order or self.smoothing.startswith("add-one"):
            return ordered_sum(precisions.log(), 0) / self.order
        possible = totals > 0
        return ordered_sum(precisions.log().masked_fill(~possible, 0), 0) / possible.sum(0).clamp(min=1)


def _closest_length(size: Int[Tensor, "B P"], references: Int[Tensor, "B R L"]) -> Int[Tensor, "B P"]:
    """Length of the reference that is closest to each prefix, the shorter of two that are equally close."""
    far = 2 * size.shape[-1] + references.shape[-1]  # further from every prefix than any reference
    lengths = reference_lengths(references).masked_fill(~present(references), far).unsqueeze(-1)  # (B, R, 1)
    gap = (lengths - size.unsqueeze(1)).abs().amin(1)  # (B, P)
    shorter = (lengths == (size - gap).unsqueeze(1)).any(1)
    return torch.where(shorter, size - gap, size + gap)


def corpus_counts(
    tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"], order: int = 4
) -> tuple[Int[Tensor, " N"], Int[Tensor, " N"], Int[Tensor, ""]]:
    """What corpus BLEU is made of: matches and totals for n = 1 .. order, and the length of the closest references.

    The hypotheses' length is the total of their unigrams. Unknown words match unknown words.
    """
    words = hypothesis_words(tokens, unk_matches=True)
    size = prefix_lengths(tokens)
    totals = (size[:, -1] - torch.arange(order, device=size.device).unsqueeze(1)).clamp(min=0)  # (N, B)
    closest = _closest_length(size, references)[:, -1]
    return matches(words, reference_words(references), order).sum((1, 2)), totals.sum(1), closest.sum()
