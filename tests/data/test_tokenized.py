"""Prepared folders whose ids are those of a model's own tokenizer."""

from pathlib import Path

import pytest

from data.test_tokenizer import TEXTS, alphabet
from seqcredit.data.batches import collate, epoch_batches, from_sentences
from seqcredit.data.prepared import Prepared
from seqcredit.data.text import Example
from seqcredit.data.tokenized import prepare_text
from seqcredit.data.tokenizer import ModelTokenizer
from seqcredit.errors import UserError
from seqcredit.types import ABSENT
from tokenizing import learn

EXAMPLES = [Example("the cat", ["a dog ran", "the dog"]), Example("a\tdog  on", []), Example("sat", ["the cat sat"])]


@pytest.fixture
def tokenizer() -> ModelTokenizer:
    return ModelTokenizer(learn(TEXTS), alphabet())


@pytest.fixture
def prepared(tmp_path: Path, tokenizer: ModelTokenizer) -> Prepared:
    prepare_text({"train": EXAMPLES, "valid": EXAMPLES[:1]}, tmp_path / "data", tokenizer)
    return Prepared.open(tmp_path / "data")


def test_texts_come_back_as_they_were(prepared: Prepared) -> None:
    split = prepared.split("train")
    assert [split.example(number) for number in range(3)] == EXAMPLES
    assert list(split.plain_sources()) == [example.source for example in EXAMPLES]
    known = list(split.reference_texts())
    assert known == [[["a", "dog", "ran"], ["the", "dog"]], [], [["the", "cat", "sat"]]]
    assert [group.source for group in known] == [example.source for example in EXAMPLES]


def test_batches_hold_the_models_ids(prepared: Prepared, tokenizer: ModelTokenizer) -> None:
    split = prepared.split("train")
    batch = collate(split, split.groups[:-1])
    for row, example in enumerate(EXAMPLES):
        ids = tokenizer.source_ids(example.source)
        assert batch.source[row].tolist() == ids + [ABSENT] * (batch.source.shape[1] - len(ids))
    first = tokenizer.target_ids("a dog ran")
    assert batch.references[0, 0, : len(first) + 1].tolist() == [*first, 1]
    assert batch.references[1, 0].unique().tolist() == [1]  # no reference: an empty one
    assert sorted(len(pairs) for pairs in epoch_batches(split, 2, 1, 0)) == [2, 2]
    typed = from_sentences([prepared.cut("the cat"), prepared.cut("sat")], prepared)
    assert typed.source[0].tolist() == tokenizer.source_ids("the cat")
    assert typed.source[1, -1] == ABSENT


def test_ids_are_spelled(prepared: Prepared, tokenizer: ModelTokenizer) -> None:
    ids = tokenizer.target_ids("the dog sat")
    assert prepared.words([*ids, 1, 7]) == ["the", "dog", "sat"]
    words = prepared.alphabet.as_words(collate(prepared.split("train"), prepared.split("train").groups[:1]).references)
    own = [number for number in words[0, 0].tolist() if number > 0]
    assert prepared.spell(own) == "a dog ran"
    assert prepared.spell_source(tokenizer.source_ids("a\tdog  on")) == "a\tdog  on"  # to the letter
    assert prepared.spell_source(tokenizer.source_ids("dog sat")) == "dog sat"  # not one of the data


def test_nothing_to_read_is_said(tmp_path: Path, tokenizer: ModelTokenizer) -> None:
    bare = ModelTokenizer(learn(TEXTS, closes=False), alphabet())
    with pytest.raises(UserError, match="train, example 2: its source is empty: give it some text"):
        prepare_text({"train": [EXAMPLES[0], Example("", ["a"])]}, tmp_path / "data", bare)
    with pytest.raises(UserError, match="Nothing is in the split 'valid': give it some examples"):
        prepare_text({"train": EXAMPLES, "valid": []}, tmp_path / "data", tokenizer)
    assert not (tmp_path / "data").exists()
