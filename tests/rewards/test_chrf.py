"""chrF against the definition and against sacreBLEU."""

from collections import Counter
from collections.abc import Sequence
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import CHRF

from rewards.cases import FOREIGN, Case, assert_brute_force, assert_close, cases, last_score, sentences
from seqcredit.errors import UserError
from seqcredit.rewards import ChrF

WORDS = ["</s>", "ab?", "a", "aba", "caché"]
TEXTS = {**dict(enumerate(WORDS)), FOREIGN: "###"}  # an unk that does not match is as long as unk


def characters(line: str, n: int) -> Counter[str]:
    return Counter(line[i : i + n] for i in range(len(line) - n + 1))


def chrf_pair(ours: str, theirs: str, order: int, beta: float) -> float:
    both = []
    for n in range(1, order + 1):
        a, b = characters(ours, n), characters(theirs, n)
        if a and b:
            both.append(((a & b).total() / a.total(), (a & b).total() / b.total()))
    precision, recall = (sum(values) / len(both) for values in zip(*both, strict=True)) if both else (0, 0)
    if precision + recall == 0:
        return 0.0
    return (1 + beta**2) * precision * recall / (beta**2 * precision + recall)


def chrf(words: Sequence[int], references: Sequence[Sequence[int]], order: int, beta: float) -> float:
    ours, *theirs = ("".join(TEXTS[w] for w in sentence) for sentence in [words, *references])
    return max(chrf_pair(ours, reference, order, beta) for reference in theirs)


@given(cases(), st.integers(1, 6), st.sampled_from([1.0, 2.0]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_prefix(case: Case, order: int, beta: float, unk: bool) -> None:
    assert_brute_force(ChrF(WORDS, order, beta, unk, torch.float64), partial(chrf, order=order, beta=beta), case, unk)


@given(sentences, st.lists(sentences, min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_equals_sacrebleu(words: list[int], references: list[list[int]]) -> None:
    line, *lines = (" ".join(WORDS[w] for w in sentence) for sentence in [words, *references])
    expected = CHRF().sentence_score(line, lines).score / 100
    assert_close(last_score(ChrF(WORDS, dtype=torch.float64), words, references), expected)


def test_spaces_inside_a_word_are_left_out() -> None:
    spaced = ChrF(["", "?", "a b", "ab"], dtype=torch.float64)
    assert_close(last_score(spaced, [2], [[3]]), 1.0)


@pytest.mark.parametrize("options", [{"order": 0}, {"beta": 0.0}, {"words": [""]}])
def test_invalid_options(options: dict[str, object]) -> None:
    with pytest.raises(UserError, match=r"1 or more|above 0|every id"):
        ChrF(**{"words": WORDS, **options})
