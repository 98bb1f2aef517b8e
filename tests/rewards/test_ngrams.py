"""Counts of n-grams, by hand."""

import torch

from seqcredit.rewards.ngrams import counts_in, matched, matches, occurrences


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


def test_an_occurrence_matches_if_the_reference_has_as_many() -> None:
    nth, counts = torch.tensor([0, 0, 1, 1, 2, 3]), torch.tensor([0, 1, 0, 1, 1, 3])
    assert matched(nth, counts).tolist() == [False, True, False, True, False, True]


def test_any_reference_will_do() -> None:
    words = torch.tensor([[2, 2, 3]])
    found = matches(words, torch.tensor([[[2, 2, 4], [3, 4, 2]]]), 2)
    assert found[:, 0].tolist() == [[True, True, True], [False, True, False]]


def test_more_than_127_of_a_kind() -> None:
    words = torch.full((1, 300), 2)
    assert occurrences(words, 1)[0, 0].tolist() == [*range(1, 301)]
    assert (counts_in(words, torch.full((1, 1, 200), 2), 1) == 200).all()
