"""ROUGE-L and ROUGE-N of every prefix."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from seqcredit.errors import require
from seqcredit.rewards.ngrams import counts_in, matched, occurrences
from seqcredit.rewards.prefixes import (
    best_reference,
    f_measure,
    hypothesis_words,
    prefix_lengths,
    prefix_sums,
    real_dtype,
    reference_lengths,
    reference_words,
)

BETAS = {"best": 1.0, "coco": 1.2}


@dataclass(frozen=True)
class RougeL:
    """F-measure of the longest common subsequence; R(empty) = 0.

    Lin (2004). Pool "best": the best F over the references; "coco": F of the best precision and the best recall.
    """

    beta: float | None = None  # the weight of recall; None is 1 with "best" and 1.2 with "coco"
    pool: str = "best"
    unk_matches: bool = True
    dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        require(self.pool in BETAS, f"RougeL: pool is {self.pool!r}, but it must be one of {', '.join(BETAS)}.")
        require(self.beta is None or self.beta > 0, f"RougeL: beta is {self.beta}, but it must be above 0.")

    def prefix_scores(self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"]) -> Float[Tensor, "B T+1"]:
        """ROUGE-L of the first 0, 1, ..., T tokens."""
        beta = BETAS[self.pool] if self.beta is None else self.beta
        common = _common(hypothesis_words(tokens, self.unk_matches), reference_words(references))
        common = common.to(real_dtype(self.dtype))  # (B, R, T+1)
        precision = common / prefix_lengths(tokens).clamp(min=1).unsqueeze(1)
        recall = common / reference_lengths(references).clamp(min=1).unsqueeze(-1)
        if self.pool == "coco":  # an absent reference has nothing in common, so it is never the maximum
            return f_measure(precision.amax(1), recall.amax(1), beta)
        return best_reference(f_measure(precision, recall, beta), references)


@dataclass(frozen=True)
class RougeN:
    """F1 of the n-grams that a prefix and a reference have in common, the best over the references; R(empty) = 0.

    Lin (2004).
    """

    order: int = 2
    unk_matches: bool = True
    dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        require(self.order >= 1, f"RougeN: order is {self.order}, but it must be 1 or more.")

    def prefix_scores(self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"]) -> Float[Tensor, "B T+1"]:
        """ROUGE-N of the first 0, 1, ..., T tokens."""
        words = hypothesis_words(tokens, self.unk_matches)
        known = counts_in(words, reference_words(references), self.order)[-1]  # (B, R, T)
        nth = occurrences(words, self.order)[-1].unsqueeze(1)
        matches = prefix_sums(matched(nth, known)).to(real_dtype(self.dtype))
        shorter = self.order - 1
        precision = matches / (prefix_lengths(tokens) - shorter).clamp(min=1).unsqueeze(1)
        recall = matches / (reference_lengths(references) - shorter).clamp(min=1).unsqueeze(-1)
        return best_reference(f_measure(precision, recall, 1.0), references)


def _common(words: Int[Tensor, "B T"], references: Int[Tensor, "B R L"]) -> Int[Tensor, "B R T+1"]:
    """Length of the longest common subsequence of each prefix and each reference."""
    row = torch.zeros_like(pad(references, (1, 0)))  # (B, R, L+1)
    ends = [row[..., -1]]
    for word in words.unbind(1):
        diagonal = row[..., :-1] + (references == word[:, None, None]).to(row.dtype)
        row = torch.maximum(row, pad(diagonal, (1, 0))).cummax(-1).values
        ends.append(row[..., -1])
    return torch.stack(ends, -1)
