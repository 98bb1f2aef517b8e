"""Edit and Hamming distance against their definitions."""

from collections.abc import Sequence
from functools import partial
from itertools import zip_longest

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.cases import Case, assert_brute_force, assert_close, cases, last_score
from seqcredit.rewards import EditDistance, Hamming


def distance(a: Sequence[int], b: Sequence[int]) -> int:
    table = [[i + j if i * j == 0 else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            replaced = table[i - 1][j - 1] + (a[i - 1] != b[j - 1])
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, replaced)
    return table[-1][-1]


def edit(words: Sequence[int], references: Sequence[Sequence[int]], by_length: bool) -> float:
    return max(-distance(words, r) / (max(len(r), 1) if by_length else 1) for r in references)


def hamming(words: Sequence[int], references: Sequence[Sequence[int]]) -> float:
    return max(-sum(a != b for a, b in zip_longest(words, r)) for r in references)


@given(cases(), st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_prefix(case: Case, by_length: bool, unk: bool) -> None:
    assert_brute_force(EditDistance(by_length, unk, torch.float64), partial(edit, by_length=by_length), case, unk)


@given(cases(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_prefix_hamming(case: Case, unk: bool) -> None:
    assert_brute_force(Hamming(unk, torch.float64), hamming, case, unk)


def test_by_hand() -> None:
    """One word left out at the start: one edit, but every position differs."""
    assert_close(last_score(EditDistance(), [3, 4, 5], [[2, 3, 4, 5]]), -1)
    assert_close(last_score(EditDistance(by_length=True), [3, 4, 5], [[2, 3, 4, 5]]), -0.25)
    assert_close(last_score(Hamming(), [3, 4, 5], [[2, 3, 4, 5]]), -4)
