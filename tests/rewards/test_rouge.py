"""ROUGE against the definitions, rouge-score and pycocoevalcap."""

from collections import Counter
from collections.abc import Sequence
from functools import cache, partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocoevalcap.rouge.rouge import Rouge
from rouge_score.rouge_scorer import RougeScorer

from rewards.cases import Case, assert_brute_force, assert_close, cases, last_score, sentences, text
from seqcredit.errors import UserError
from seqcredit.rewards import RougeL, RougeN


def common(a: Sequence[int], b: Sequence[int]) -> int:
    @cache
    def longest(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return 0
        if a[i - 1] == b[j - 1]:
            return 1 + longest(i - 1, j - 1)
        return max(longest(i - 1, j), longest(i, j - 1))

    return longest(len(a), len(b))


def f(precision: float, recall: float, beta: float) -> float:
    if precision == 0 or recall == 0:
        return 0.0
    return (1 + beta**2) / (1 / precision + beta**2 / recall)


def rouge_l(words: Sequence[int], references: Sequence[Sequence[int]], beta: float, pool: str) -> float:
    both = [(common(words, r) / max(len(words), 1), common(words, r) / max(len(r), 1)) for r in references]
    if pool == "coco":
        return f(max(p for p, _ in both), max(r for _, r in both), beta)
    return max(f(p, r, beta) for p, r in both)


def ngrams(words: Sequence[int], n: int) -> Counter[tuple[int, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def rouge_n(words: Sequence[int], references: Sequence[Sequence[int]], order: int) -> float:
    ours, best = ngrams(words, order), 0.0
    for theirs in (ngrams(r, order) for r in references):
        matches = (ours & theirs).total()
        best = max(best, f(matches / max(ours.total(), 1), matches / max(theirs.total(), 1), 1))
    return best


@pytest.mark.parametrize("pool", ["best", "coco"])
@given(cases(), st.sampled_from([0.5, 1.0, 1.2]), st.booleans())
@settings(max_examples=50, deadline=None)
def test_every_prefix(pool: str, case: Case, beta: float, unk: bool) -> None:
    assert_brute_force(RougeL(beta, pool, unk, torch.float64), partial(rouge_l, beta=beta, pool=pool), case, unk)


@given(cases(), st.integers(1, 4), st.booleans())
@settings(max_examples=50, deadline=None)
def test_every_prefix_ngrams(case: Case, order: int, unk: bool) -> None:
    assert_brute_force(RougeN(order, unk, torch.float64), partial(rouge_n, order=order), case, unk)


class Whitespace:
    def tokenize(self, line: str) -> list[str]:
        return line.split()


SCORER = RougeScorer(["rougeL", "rouge1", "rouge2"], tokenizer=Whitespace())


@given(sentences, st.lists(sentences, min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_equals_rouge_score(words: list[int], references: list[list[int]]) -> None:
    theirs = SCORER.score_multi([text(r) for r in references], text(words))
    assert_close(last_score(RougeL(dtype=torch.float64), words, references), theirs["rougeL"].fmeasure)
    assert_close(last_score(RougeN(1, dtype=torch.float64), words, references), theirs["rouge1"].fmeasure)
    assert_close(last_score(RougeN(2, dtype=torch.float64), words, references), theirs["rouge2"].fmeasure)


# Neither side is empty: pycocoevalcap takes an empty sentence for one empty word, which another empty sentence matches.
some = sentences.filter(len)


@given(some, st.lists(some, min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_equals_pycocoevalcap(words: list[int], references: list[list[int]]) -> None:
    expected = Rouge().calc_score([text(words)], [text(r) for r in references])
    assert_close(last_score(RougeL(pool="coco", dtype=torch.float64), words, references), expected)


def test_invalid_options() -> None:
    with pytest.raises(UserError, match="best, coco"):
        RougeL(pool="mean")
    with pytest.raises(UserError, match="above 0"):
        RougeL(beta=-1.0)
    with pytest.raises(UserError, match="1 or more"):
        RougeN(order=0)
