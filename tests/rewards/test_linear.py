"""Linear BLEU against its definition, and against what a changed sentence does to sacreBLEU's corpus BLEU."""

import math
from collections.abc import Sequence
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU
from sacrebleu.metrics.bleu import BLEUScore

from rewards.cases import Case, assert_brute_force, assert_close, cases, last_score, text
from rewards.test_bleu import clipped
from seqcredit.errors import UserError
from seqcredit.rewards import LinearBleu


def linear(
    words: Sequence[int],
    references: Sequence[Sequence[int]],
    order: int,
    precision: float,
    falling: float,
    length: float,
    scaled: bool,
) -> float:
    mean = sum(map(len, references)) / len(references)
    score = min(len(words) / max(mean, 1), 1.0) / length**2
    for n in range(1, order + 1):
        earned = clipped(words, references, n) / (precision * falling ** (n - 1))
        score += (earned - max(len(words) - n + 1, 0)) / order / max(length * mean - n + 1, 1)
    return score * mean if scaled else score


shares = st.floats(0.1, 1)


@given(cases(), st.integers(1, 5), shares, shares, shares, st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_prefix(
    case: Case, order: int, precision: float, falling: float, length: float, scaled: bool, unk: bool
) -> None:
    options = {"order": order, "precision": precision, "falling": falling, "length": length, "scaled": scaled}
    reward = LinearBleu(**options, unk_matches=unk, dtype=torch.float64)
    assert_brute_force(reward, partial(linear, **options), case, unk)


@pytest.mark.parametrize("others", [[2, 3, 4, 5, 8, 8], [2, 3, 4, 8]], ids=["long", "short"])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([2, 3, 9, 5, 6, 7], [2, 3, 4, 5, 6, 7]),  # a word mended, and with it two pairs
        ([2, 3, 4, 5, 6, 7], [2, 3, 4, 5, 6]),  # the last word dropped
        ([2, 3, 9, 5, 6, 7], [2, 3, 5, 6]),  # the wrong word dropped, and a right one
        ([2, 3, 4, 9, 9, 9], [9, 3, 4, 9, 9, 9]),
    ],
)
def test_is_what_a_sentence_does_for_the_corpus(old: list[int], new: list[int], order: int, others: list[int]) -> None:
    """Of 4,001 sentences one is changed: log BLEU moves by the difference of pay-offs, divided by their number.

    The precisions of two orders are always p and p times something; those of more are only roughly.
    """
    reference = [2, 3, 4, 5, 6, 7]
    metric = BLEU(tokenize="none", force=True, max_ngram_order=order)

    def corpus(first: list[int]) -> BLEUScore:
        return metric.corpus_score([text(first)] + [text(others)] * 4000, [[text(reference)] * 4001])

    before, after = corpus(old), corpus(new)
    falling = before.precisions[-1] / before.precisions[0]
    length = before.sys_len / before.ref_len
    reward = LinearBleu(order, before.precisions[0] / 100, falling, length, dtype=torch.float64)
    change = math.log(after.score / before.score) * 4001
    assert abs(change) > 0.02
    difference = last_score(reward, new, [reference]) - last_score(reward, old, [reference])
    assert float(difference) == pytest.approx(change, rel=0.002)


def test_by_hand() -> None:
    """Two of three words, one pair of two, one word too many: (2/0.8 - 3)/2 + (1/0.4 - 2)/1, halved; plus 2/2."""
    reward = LinearBleu(order=2, precision=0.8, falling=0.5, dtype=torch.float64)
    assert_close(last_score(reward, [2, 3, 9], [[2, 3]]), ((2 / 0.8 - 3) / 2 + (1 / 0.4 - 2)) / 2 + 1)


@pytest.mark.parametrize(
    ("options", "part"),
    [({"order": 0}, "1 or more"), ({"precision": 0.0}, "precision is 0.0"), ({"falling": 1.5}, "falling is 1.5")],
)
def test_invalid_options(options: dict[str, float], part: str) -> None:
    with pytest.raises(UserError, match=part):
        LinearBleu(**options)
