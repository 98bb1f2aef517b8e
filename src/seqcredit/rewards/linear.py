"""Linear BLEU of every prefix: what one sentence adds to the BLEU of a corpus."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqcredit.errors import require
from seqcredit.rewards.ngrams import matches
from seqcredit.rewards.prefixes import (
    hypothesis_words,
    mean_length,
    ordered_sum,
    prefix_lengths,
    prefix_sums,
    real_dtype,
    reference_words,
)


@dataclass(frozen=True)
class LinearBleu:
    """The first-order change of a corpus's log BLEU by one sentence; R(empty) = 0.

    After Tromble et al. (2008): with r words in the references, an n-gram earns 1 / p_n if it matches and costs 1, over
    N (length r - n + 1), where p_n is the corpus's precision; each of the first r words earns 1 / (r length^2), by
    which the corpus is less short. Nothing is smoothed.
    """

    order: int = 4
    precision: float = 0.6  # of the corpus's unigrams
    falling: float = 0.5  # the precision of n-grams over that of (n-1)-grams
    length: float = 1.0  # of the corpus, over that of the references
    scaled: bool = False  # times the references' number of words, their mean
    unk_matches: bool = True
    dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        require(self.order >= 1, f"LinearBleu: order is {self.order}, but it must be 1 or more.")
        for name in ("precision", "falling", "length"):
            value = getattr(self, name)
            require(0 < value <= 1, f"LinearBleu: {name} is {value}, but it must be above 0 and at most 1.")

    def prefix_scores(self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"]) -> Float[Tensor, "B T+1"]:
        """Linear BLEU of the first 0, 1, ..., T tokens."""
        words = hypothesis_words(tokens, self.unk_matches)
        right = prefix_sums(matches(words, reference_words(references), self.order))  # (N, B, T+1)
        dtype = real_dtype(self.dtype)
        size, wanted = prefix_lengths(tokens), mean_length(references, dtype)
        orders = torch.arange(self.order, device=tokens.device)[:, None, None]
        precisions = self.precision * self.falling ** orders.to(dtype)
        gained = (right / precisions - (size - orders).clamp(min=0)) / (self.length * wanted - orders).clamp(min=1)
        reached = (size / wanted.clamp(min=1)).clamp(max=1) / self.length**2
        scores = ordered_sum(gained, 0) / self.order + reached
        return scores * wanted if self.scaled else scores
