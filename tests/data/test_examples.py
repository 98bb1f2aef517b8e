"""Examples in memory."""

from typing import Any

import pytest

from seqcredit.data.examples import examples, has_chat, have_references, rows_of
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
        (("a", "\ud800"), r"valid\[1\]: '.ud800' holds half of a character: leave"),
        ((None, "b"), r"valid\[1\]: its source is None"),
    ):
        with pytest.raises(UserError, match=said):
            list(examples([("a", "b"), row], name="valid"))  # type: ignore[list-item]
    for words in (["a b"], [""]):
        with pytest.raises(UserError, match="but a word has no spaces"):
            list(examples([("x", "y")], lambda text, made=words: made))


def test_rows_of_datasets() -> None:
    """A Dataset is a list of rows; all of its splits, or a stream, are one sentence."""
    datasets = pytest.importorskip("datasets", reason="the package datasets is not installed")
    known = [{"source": "a b", "references": ["c d", "e"]}, {"source": "f", "references": ["g"]}]
    made = datasets.Dataset.from_list(known)
    assert list(examples(rows_of(made))) == [Example("a b", ["c d", "e"]), Example("f", ["g"])]
    assert list(examples(rows_of(made.select([1])))) == [Example("f", ["g"])]
    chat = datasets.Dataset.from_list([{"prompt": [{"role": "user", "content": "hi"}]}] * 2)
    assert has_chat(rows_of(chat))
    assert not have_references(rows_of(chat))
    absent = datasets.Dataset.from_list([{"prompt": "a", "reference": None}] * 2)
    assert not have_references(rows_of(absent))
    with pytest.raises(UserError, match=r"an IterableDataset, which may have no end: .* list\(data\.take\(10_000\)\)"):
        rows_of(made.to_iterable_dataset())
    with pytest.raises(UserError, match=r"data is a dict of train, test: give one of its values, such as data\['tr"):
        rows_of(datasets.DatasetDict({"train": made, "test": made}))


def test_rows_of_other_kinds() -> None:
    assert rows_of(iter([("a", "b")])) == [("a", "b")]
    with pytest.raises(UserError, match="data is a dict of source, target: give one of its values"):
        rows_of({"source": ["a"], "target": ["b"]})  # type: ignore[arg-type]
