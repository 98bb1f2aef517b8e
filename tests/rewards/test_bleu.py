"""BLEU against the definition and against sacreBLEU."""

import logging
import math
from collections import Counter
from collections.abc import Sequence
from functools import partial

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU

from rewards.cases import Case, assert_brute_force, assert_close, cases, last_score, sentences, text
from seqcredit.errors import UserError
from seqcredit.rewards import Bleu
from seqcredit.rewards.bleu import BREVITIES, SMOOTHINGS, corpus_counts
from seqcredit.types import pad_references

SACREBLEU = {"add-one-above-1": "add-k", "floor": "floor", "exponential": "exp", "none": "none"}


def ngrams(words: Sequence[int], n: int) -> Counter[tuple[int, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def clipped(words: Sequence[int], references: Sequence[Sequence[int]], n: int) -> int:
    most = Counter[tuple[int, ...]]()
    for reference in references:
        most |= ngrams(reference, n)
    return (ngrams(words, n) & most).total()


def precisions(matches: list[int], totals: list[int], smoothing: str, effective: bool) -> list[float]:
    if smoothing == "add-one":
        return [(m + 1) / (t + 1) for m, t in zip(matches, totals, strict=True)]
    if matches[0] == 0:
        return [0.0]
    out, halves = [], 1.0
    for n, (m, t) in enumerate(zip(matches, totals, strict=True)):
        if smoothing == "add-one-above-1" and n > 0:
            out.append((m + 1) / (t + 1))
        elif t == 0:
            out += [] if effective else [0.0]
        elif m == 0 and smoothing == "floor":
            out.append(0.1 / t)
        elif m == 0 and smoothing == "exponential":
            halves /= 2
            out.append(halves / t)
        else:
            out.append(m / t)
    return out


def bleu(
    words: Sequence[int],
    references: Sequence[Sequence[int]],
    order: int = 4,
    smoothing: str = "add-one",
    effective: bool = False,
    scaled: bool = False,
    penalised: bool = True,
    brevity: str = "closest",
) -> float:
    if not words:
        return 0.0
    matches = [clipped(words, references, n) for n in range(1, order + 1)]
    totals = [max(len(words) - n + 1, 0) for n in range(1, order + 1)]
    values = precisions(matches, totals, smoothing, effective)
    closest = min((abs(len(r) - len(words)), len(r)) for r in references)[1]
    mean = sum(len(r) for r in references) / len(references)
    wanted = {"closest": closest, "mean": mean}[brevity]
    penalty = math.exp(min(0.0, 1 - wanted / len(words))) if penalised else 1.0
    return penalty * math.prod(values) ** (1 / len(values)) * (mean if scaled else 1)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@given(cases(), st.integers(1, 5), st.booleans(), st.booleans(), st.booleans(), st.sampled_from(BREVITIES))
@settings(max_examples=30, deadline=None)
def test_every_prefix(
    smoothing: str, case: Case, order: int, effective: bool, scaled: bool, unk: bool, brevity: str
) -> None:
    options = {"order": order, "smoothing": smoothing, "scaled": scaled, "brevity": brevity}
    exact = {"effective_order": effective, "unk_matches": unk, "dtype": torch.float64}
    score = partial(bleu, effective=effective, **options)
    assert_brute_force(Bleu(**options, **exact), score, case, unk)
    shaped = Bleu(**options, **exact, unfinished_brevity=False)
    assert_brute_force(shaped, score, case, unk, unfinished=partial(score, penalised=False))


@pytest.mark.parametrize("smoothing", SACREBLEU)
@pytest.mark.parametrize(("effective", "penalised"), [(False, True), (True, True), (True, False)])
@given(sentences, st.lists(sentences, min_size=1, max_size=3))
@settings(max_examples=30, deadline=None)
def test_equals_sacrebleu(
    smoothing: str, effective: bool, penalised: bool, words: list[int], references: list[list[int]]
) -> None:
    """Of a sentence that has ended: the penalty of unfinished ones is all the same."""
    logging.disable(logging.WARNING)  # sacreBLEU recommends effective_order
    theirs = BLEU(tokenize="none", force=True, effective_order=effective, smooth_method=SACREBLEU[smoothing])
    expected = theirs.sentence_score(text(words), [text(r) for r in references]).score / 100
    logging.disable(logging.NOTSET)
    options = {"effective_order": effective, "unfinished_brevity": penalised}
    reward = Bleu(smoothing=smoothing, **options, dtype=torch.float64)
    assert_close(last_score(reward, words, references), expected)


def test_the_shorter_of_two_lengths_counts() -> None:
    """4 words between references of 3 and 5: no brevity penalty."""
    words = [2, 3, 4, 5]
    assert_close(last_score(Bleu(dtype=torch.float64), words, [[2, 3, 4, 5, 6], [2, 3, 4]]), 1.0)
    assert_close(last_score(Bleu(dtype=torch.float64), words, [[2, 3, 4, 5, 6]]), math.exp(1 - 5 / 4))


def test_an_absent_reference_is_never_the_closest() -> None:
    references = pad_references([[[2]], [[2], [2]]])
    one, two = Bleu().prefix_scores(torch.full((2, 9), 2), references)
    assert torch.equal(one, two)
    references = pad_references([[[2] * 20], [[2] * 20] * 2])  # much longer than the hypothesis
    one, two = Bleu().prefix_scores(torch.full((2, 3), 2), references)
    assert torch.equal(one, two)


def test_by_hand() -> None:
    """One word of two, nothing longer: precisions (1+1)/(2+1), (0+1)/(1+1), 1, 1; then times 3 words, one missing."""
    expected = (2 / 3 * 1 / 2) ** 0.25 * math.exp(1 - 3 / 2) * 3
    assert_close(last_score(Bleu(scaled=True, dtype=torch.float64), [2, 7], [[2, 3, 4]]), expected)


def test_without_brevity_by_hand() -> None:
    """Two right words of four have all precisions 1: 4 until eos, then 4 e^(1 - 4/2); cut off there, the same."""
    reward, references = Bleu(scaled=True, unfinished_brevity=False), pad_references([[[2, 3, 4, 5]]])
    short = 4 * math.exp(1 - 4 / 2)
    closed = reward.prefix_scores(torch.tensor([[2, 3, 0, 0]]), references)
    torch.testing.assert_close(closed, torch.tensor([[0, 4, 4, short, short]]))
    open_ended = reward.prefix_scores(torch.tensor([[2, 3]]), references)
    torch.testing.assert_close(open_ended, torch.tensor([[0, 4, short]]))


def test_long_sentences() -> None:
    """A word can occur more than 127 times."""
    words = [2] * 300
    assert_close(last_score(Bleu(dtype=torch.float64), words, [[2] * 150]), bleu(words, [[2] * 150]))


@pytest.mark.parametrize("options", [{"smoothing": "laplace"}, {"order": 0}, {"brevity": "longest"}])
def test_invalid_options(options: dict[str, object]) -> None:
    with pytest.raises(UserError, match=r"add-one, add-one-above-1, floor, exponential, none|1 or more|closest, mean"):
        Bleu(**options)


@given(case=cases())
@settings(deadline=None, max_examples=60)
def test_corpus_counts_are_those_of_sacrebleu(case: Case) -> None:
    assume(all(reference for group in case.references for reference in group))  # sacreBLEU drops empty ones
    words = [text(hypothesis) for hypothesis in case.hypotheses]
    most = max(map(len, case.references))
    streams = [[text(group[n]) if n < len(group) else None for group in case.references] for n in range(most)]
    expected = BLEU(tokenize="none", force=True).corpus_score(words, streams)
    matches, totals, closest = corpus_counts(case.tokens, case.padded_references)
    assert (matches.tolist(), totals.tolist()) == (expected.counts, expected.totals)
    assert (int(totals[0]), int(closest)) == (expected.sys_len, expected.ref_len)
