"""What all rewards share: the words of a batch, the lengths of its prefixes, the best of several references.

R(prefix) = R(prefix + eos), so eos and padding never count and the score stays the same from the first eos on. Two
switches give an unfinished prefix another score and leave that of the whole sequence alone: `Bleu.unfinished_brevity`
and `OnlyFinished`.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from seqcredit.types import ABSENT, EOS, UNK

UNMATCHED = -2  # no reference has it: padding of a hypothesis, and its unk where unk must not match


def real_dtype(dtype: torch.dtype | None) -> torch.dtype:
    """The dtype to compute in: the given one, else torch's default."""
    return torch.get_default_dtype() if dtype is None else dtype


def is_word(tokens: Int[Tensor, "*B T"]) -> Bool[Tensor, "*B T"]:
    """True before the first eos; nowhere in an absent reference."""
    return (tokens > EOS).cummin(-1).values


def hypothesis_words(tokens: Int[Tensor, "B T"], unk_matches: bool) -> Int[Tensor, "B T"]:
    """The words, then UNMATCHED from the first eos on; unk is UNMATCHED too where it must not match."""
    kept = is_word(tokens) if unk_matches else is_word(tokens) & (tokens != UNK)
    return tokens.masked_fill(~kept, UNMATCHED)


def reference_words(references: Int[Tensor, "B R L"]) -> Int[Tensor, "B R L"]:
    """The words, then ABSENT from the first eos on."""
    return references.masked_fill(~is_word(references), ABSENT)


def prefix_lengths(tokens: Int[Tensor, "B T"]) -> Int[Tensor, "B T+1"]:
    """Number of words in each prefix: 0, 1, 2, ... and constant from the first eos on."""
    return prefix_sums(is_word(tokens))


def ended(tokens: Int[Tensor, "B T"]) -> Bool[Tensor, "B T+1"]:
    """False for an unfinished prefix. A sequence ends with its first eos, and one without eos with its last token."""
    over = pad(~is_word(tokens), (1, 0))
    over[:, -1] = True
    return over


def reference_lengths(references: Int[Tensor, "B R L"]) -> Int[Tensor, "B R"]:
    """Number of words of each reference, 0 for an absent one."""
    return is_word(references).sum(-1, dtype=torch.int32)


def present(references: Int[Tensor, "B R L"]) -> Bool[Tensor, "B R"]:
    """False for a reference that the sentence does not have."""
    return (references[..., :1] != ABSENT).all(-1)


def mean_length(references: Int[Tensor, "B R L"], dtype: torch.dtype) -> Float[Tensor, "B 1"]:
    """Mean number of words over the references that are present."""
    total = reference_lengths(references).sum(1, keepdim=True).to(dtype)
    return total / present(references).sum(1, keepdim=True)


def prefix_sums(steps: Tensor) -> Tensor:
    """Sums of the first 0, 1, ..., T entries of the last axis, in this order: integers for booleans."""
    dtype = torch.int32 if steps.dtype == torch.bool else steps.dtype
    sums = steps.new_zeros((*steps.shape[:-1], steps.shape[-1] + 1), dtype=dtype)
    torch.cumsum(steps, -1, dtype=dtype, out=sums[..., 1:])
    return sums


def ordered_sum(terms: Tensor, axis: int) -> Tensor:
    """The sum along an axis, added from first to last.

    `Tensor.sum` groups its terms by the shape of the whole tensor, so a larger batch could change the last bit.
    """
    return terms.cumsum(axis).select(axis, -1)


def best_reference(scores: Float[Tensor, "B R P"], references: Int[Tensor, "B R L"]) -> Float[Tensor, "B P"]:
    """The highest score over the references that are present."""
    return scores.masked_fill(~present(references).unsqueeze(-1), -torch.inf).amax(1)


def f_measure(precision: Tensor, recall: Tensor, beta: float) -> Tensor:
    """Weighted harmonic mean of precision and recall, 0 where both are 0.

    van Rijsbergen (1979): (1 + beta^2) P R / (beta^2 P + R).
    """
    total = beta**2 * precision + recall
    return ((1 + beta**2) * precision * recall / total).masked_fill(total == 0, 0.0)
