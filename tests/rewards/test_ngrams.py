"""Counts of n-grams, by hand."""

import torch

from seqcredit.rewards.ngrams import counts_in, occurrences


def test_occurrences() -> None:
    words = torch.tensor([[2, 3, 2, 3, 2]])
    assert occurrences(words, 3)[:, 0].tolist() == [[1, 1, 2, 2, 3], [0, 1, 1, 2, 2], [0, 0, 1, 1, 2]]


def test_counts_in_each_reference() -> None:
    words = torch.tensor([[2, 3, 2]])
    references = torch.tensor([[[2, 3, 2, 3], [3, 2, 2, 2]]])
    counts = counts_in(words, references, 2)[:, 0]
    assert counts[0].tolist() == [[2, 2, 2], [3, 1, 3]]
    assert counts[1].tolist() == [[0, 2, 1], [0, 0, 1]]


def test_an_ngram_does_not_span_two_references() -> None:
    words = torch.tensor([[2, 3]])
    assert counts_in(words, torch.tensor([[[4, 2], [3, 4]]]), 2)[1].sum() == 0
