"""A function of the user's: what it is given, how often it is called, and what it may return."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.cases import Case, assert_brute_force, cases
from seqcredit.errors import UserError
from seqcredit.rewards import Custom
from seqcredit.types import pad, pad_references


def overlap(words: Any, references: Any) -> float:
    return sum(0.1 * w if w in r else -1.0 for w in words for r in references) - len(references[0])


def overlaps(words: Any, references: Any) -> list[float]:
    return [overlap(*pair) for pair in zip(words, references, strict=True)]


@given(cases(), st.booleans(), st.booleans())
@settings(max_examples=50, deadline=None)
def test_every_prefix(case: Case, batched: bool, unk: bool) -> None:
    reward = Custom(overlaps if batched else overlap, batched=batched, unk_matches=unk, dtype=torch.float64)
    assert_brute_force(reward, overlap, case, unk)


TOKENS = pad([[2, 3], [2, 1], [], [2, 3]], 5)
REFERENCES = pad_references([[[2, 3, 4]], [[2, 3, 4]], [[2], [3, 4]], [[2, 3, 4]]])
CALLS = [
    ([], [[2, 3, 4]]),
    ([2], [[2, 3, 4]]),
    ([2, 3], [[2, 3, 4]]),
    ([2, 1], [[2, 3, 4]]),
    ([], [[2], [3, 4]]),
]


def test_called_once_for_each_prefix() -> None:
    """Nothing after eos, no absent reference, no prefix twice."""
    calls = []

    def score(words: list[int], references: list[list[int]]) -> float:
        calls.append((words, references))
        return len(words) + 10 * len(references)

    scores = Custom(score).prefix_scores(TOKENS, REFERENCES)
    assert calls == CALLS
    assert scores.dtype == torch.float32
    rows = [[10, 11, 12, 12, 12, 12], [10, 11, 12, 12, 12, 12], [20] * 6, [10, 11, 12, 12, 12, 12]]
    assert scores.tolist() == rows


def test_one_call_for_a_batch() -> None:
    calls = []

    def score(words: list[list[int]], references: list[list[list[int]]]) -> torch.Tensor:
        calls.append(list(zip(words, references, strict=True)))
        return torch.arange(len(words))

    scores = Custom(score, batched=True).prefix_scores(TOKENS, REFERENCES)
    assert calls == [CALLS]
    assert scores[:, 2].tolist() == [2, 3, 4, 2]


def test_whole_sequences_without_their_prefixes() -> None:
    calls = []

    def score(words: list[int], references: list[list[int]]) -> float:
        calls.append((words, references))
        return len(words) + 10 * len(references)

    assert Custom(score).final_scores(TOKENS, REFERENCES, None).tolist() == [12, 12, 20, 12]
    assert calls == [CALLS[2], CALLS[3], CALLS[4]]


@pytest.mark.parametrize("references", [torch.zeros(4, 0, 1).long(), torch.full((4, 2, 3), -1)])
def test_no_references_at_all(references: torch.Tensor) -> None:
    reward = Custom(lambda words, group: len(words) + 10 * len(group))
    assert reward.prefix_scores(TOKENS, references)[:, -1].tolist() == [2, 2, 0, 2]


def test_words() -> None:
    calls = []

    def score(words: list[str], references: list[list[str]]) -> float:
        calls.append((words, references))
        return 0.0

    words = ["</s>", "?", "a", "b", "c"]
    Custom(score, words).prefix_scores(pad([[1]]), pad_references([[[1, 2], [4]]]))
    Custom(score, words, unk_matches=False).prefix_scores(pad([[1]]), pad_references([[[1, 2]]]))
    assert calls[:2] == [([], [["?", "a"], ["c"]]), (["?"], [["?", "a"], ["c"]])]
    assert calls[3] == (["\ufffd"], [["?", "a"]])


@pytest.mark.parametrize("value", [1, True, 0.5, np.float32(0.5), torch.tensor(0.5), np.array(2.0)])
def test_numbers_of_all_kinds(value: Any) -> None:
    assert Custom(lambda *_: value).prefix_scores(pad([[2]]), pad_references([[[2]]])).tolist() == [[value] * 3]


@pytest.mark.parametrize("value", [None, "0.5", float("nan"), float("inf"), [0.5], torch.ones(2), 1j])
def test_not_a_finite_float(value: Any) -> None:
    def score(words: list[int], _: list[list[int]]) -> Any:
        return value if words == [2, 3] else 0.0

    with pytest.raises(UserError, match=r"^Custom: the function returned .* for the prefix \[2, 3\], return a finite "):
        Custom(score).prefix_scores(TOKENS, REFERENCES)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([0.0] * 4, "returned 4 scores for 5 prefixes"),
        ([], "returned 0 scores for 5 prefixes"),
        (0.5, "returned a float for 5 prefixes"),
        (None, "returned a NoneType for 5 prefixes"),
        ([0.0, float("nan"), 0.0, 0.0, 0.0], r"returned nan for the prefix \[2\]"),
    ],
)
def test_wrong_batch(returned: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Custom(lambda *_: returned, batched=True).prefix_scores(TOKENS, REFERENCES)


def test_text() -> None:
    calls = []

    def score(text: str, references: list[str]) -> float:
        calls.append((text, references))
        return 0.0

    words = ["</s>", "?", "a", "b", "c"]
    Custom(score, words, text=True).prefix_scores(pad([[2, 1]]), pad_references([[[1, 2], [4]]]))
    Custom(score, words, unk_matches=False, text=True).prefix_scores(pad([[2, 1]]), pad_references([[[1, 2]]]))
    assert calls[:3] == [("", ["? a", "c"]), ("a", ["? a", "c"]), ("a ?", ["? a", "c"])]
    assert calls[-1] == ("a \ufffd", ["? a"])
    with pytest.raises(UserError, match=r"^Custom: text needs `words`, the text of each id\.$"):
        Custom(score, text=True)


def test_errors_of_the_function_are_shown_as_what_they_are() -> None:
    def score(*_: object) -> float:
        raise KeyError("mine")

    for reward, name in (
        (Custom(score), "Custom"),
        (Custom(score, batched=True, name="my_file:score"), "my_file:score"),
    ):
        with pytest.raises(UserError) as caught:
            reward.prefix_scores(TOKENS, REFERENCES)
        line = score.__code__.co_firstlineno + 1
        assert str(caught.value) == f"{name}: the function failed. KeyError: 'mine' (test_custom.py, line {line})."
        assert isinstance(caught.value.__cause__, KeyError)
