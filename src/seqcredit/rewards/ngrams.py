"""Exact n-gram counts at every position, by comparing each word with each other: no hashing, no loop over sentences.

The n-grams that end at i and at j are equal if the words there are equal and the (n-1)-grams that end before them are.
The batch is the last axis inside, so that all comparisons run along contiguous memory.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def occurrences(words: Int[Tensor, "B T"], order: int) -> Int[Tensor, "N B T"]:
    """Which occurrence (1st, 2nd, ...) of its n-gram ends at each position, for n = 1 .. order; 0 where none ends."""
    ids = words.T.int().contiguous()  # (T, B)
    until = torch.ones(len(ids), len(ids), dtype=torch.bool, device=ids.device).triu()
    return _count_equal((ids.unsqueeze(1) == ids) & until.unsqueeze(-1), order).transpose(1, 2)


def counts_in(words: Int[Tensor, "B T"], references: Int[Tensor, "B R L"], order: int) -> Int[Tensor, "N B R T"]:
    """How often each reference has the n-gram that ends at each position, for n = 1 .. order."""
    ids = words.T.int().contiguous()  # (T, B)
    others = references.permute(1, 2, 0).int().contiguous()  # (R, L, B)
    return _count_equal(others.unsqueeze(2) == ids, order).permute(0, 3, 1, 2)


def matched(nth: Int[Tensor, "*P"], counts: Int[Tensor, "*Q"]) -> Bool[Tensor, "*O"]:
    """True where an n-gram ends whose occurrence the reference has too: its `nth`, of `counts` there."""
    return nth.clamp(min=1) <= counts


def matches(words: Int[Tensor, "B T"], references: Int[Tensor, "B R L"], order: int) -> Bool[Tensor, "N B T"]:
    """Where an n-gram ends that some reference has as often, for n = 1 .. order: what BLEU counts."""
    return matched(occurrences(words, order), counts_in(words, references, order).amax(2))


def _count_equal(equal: Bool[Tensor, "*R L T B"], order: int) -> Int[Tensor, "N *R T B"]:
    """From equal words to the number of equal n-grams, for n = 1 .. order."""
    length, width = equal.shape[-3:-1]
    small = torch.int8 if length < 128 else torch.int32  # a sum in the operands' own dtype needs no copy of them
    shape = (order, *equal.shape[:-3], *equal.shape[-2:])
    counts = torch.zeros(shape, dtype=small, device=equal.device)
    ngrams = equal
    for n in range(min(order, length, width)):
        if n > 0:
            ngrams = ngrams[..., :-1, :-1, :] & equal[..., n:, n:, :]
        torch.sum(ngrams.view(torch.int8), -3, dtype=small, out=counts[n, ..., n:, :])
    return counts.int()
