"""Examples in memory."""

from typing import Any

import pytest

from seqcredit.data.examples import examples
from seqcredit.data.text import Example
from seqcredit.errors import UserError


@pytest.mark.parametrize(
    "row",
    [
        ("a  b", "c d"),
        ["a b", ["c d"]],
        {"source": "a b", "target": "c d"},
        {"source": "a b", "reference": "c d", "id": 7},
        {"source": "a b", "references": ["c d"]},
    ],
)
def test_rows_of_every_kind(row: Any) -> None:
    assert list(examples([row])) == [Example("a b", ["c d"])]


def test_words_by_a_tokenizer_and_several_references() -> None:
    rows = [{"source": "Ab", "references": ["Cd", "e"]}]
    assert list(examples(rows, lambda text: list(text.lower()))) == [Example("a b", ["c d", "e"])]


def test_what_is_wrong_is_said_with_its_place() -> None:
    for row, said in (
        ("ab", r"valid\[1\] is 'ab': give a dict, or a pair"),
        (("a", "b", "c"), r"valid\[1\] is \('a', 'b', 'c'\)"),
        ({"source": "a", "target": "b", "references": ["c"]}, r"valid\[1\] has the keys source, target, references"),
        (("a", []), r"valid\[1\]: its references are \[\]"),
        (("a", ["b", 3]), r"valid\[1\]: its references are \['b', 3\]"),
        ((None, "b"), r"valid\[1\]: its source is None"),
    ):
        with pytest.raises(UserError, match=said):
            list(examples([("a", "b"), row], name="valid"))  # type: ignore[list-item]
    for words in (["a b"], [""]):
        with pytest.raises(UserError, match="but a word has no spaces"):
            list(examples([("x", "y")], lambda text, made=words: made))
