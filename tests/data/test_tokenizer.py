"""A model's own tokenizer: text becomes its ids, and its ids become text again."""

from pathlib import Path

import pytest
import torch

from seqcredit.data.tokenizer import ModelTokenizer
from seqcredit.errors import UserError
from seqcredit.types import Alphabet
from tokenizing import learn

TEXTS = ["the cat sat", "a dog ran", "the dog sat on a cat"]
SIZE = 90  # more ids than the tokenizer has


def alphabet() -> Alphabet:
    actions = torch.ones(SIZE, dtype=torch.bool)
    actions[[0, 3]] = False  # <pad> and <extra>
    return Alphabet(SIZE, 1, 2, actions)


def made(chat: bool = False) -> ModelTokenizer:
    return ModelTokenizer(learn(TEXTS), alphabet(), chat)


def test_texts_and_ids() -> None:
    tokenizer = made()
    assert tokenizer.source_ids("the cat")[-1] == 1  # closed, as the model reads it
    ids = tokenizer.target_ids("the dog sat")
    assert 1 not in ids
    assert tokenizer.text([*ids, 1, 5, 5]) == "the dog sat"  # what follows eos is not said
    assert tokenizer.target_ids("the <extra> dog</s> sat<pad>") == tokenizer.target_ids("the  dog sat")
    assert "".join(tokenizer.pieces(ids)).replace("▁", " ").strip() == "the dog sat"


def test_the_vocabulary_has_every_id_of_the_model() -> None:
    vocabulary = made().vocabulary
    assert len(vocabulary) == SIZE
    assert vocabulary.words[:4] == ("<pad>", "</s>", "<unk>", "<extra>")
    assert vocabulary.words[-1] == f"<{SIZE - 1}>"
    pieces = [vocabulary.words[number] for number in (5, 7, 1)]
    assert vocabulary.encode(pieces) == [5, 7, 1]


def test_chats_go_through_the_template() -> None:
    messages = [{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "sat"}]
    assert made().prompt("as it is") == "as it is"
    assert made(chat=True).prompt(messages) == "<user> the cat <assistant> sat :"
    assert made(chat=True).prompt("the cat") == "<user> the cat :"
    assert made(chat=True).source_ids("the cat")[-1] != 1  # special tokens are written in the text
    bare = made(chat=True)
    bare.tokenizer.chat_template = None
    with pytest.raises(UserError, match=r"The tokenizer's chat template cannot be used .*: give sources as text"):
        bare.prompt("the cat")


def test_it_is_saved_and_loaded(tmp_path: Path) -> None:
    tokenizer = made()
    tokenizer.save(tmp_path / "tokenizer")
    other = ModelTokenizer.load(tmp_path / "tokenizer")
    assert other.checksum == tokenizer.checksum
    assert other.source_ids("the dog sat") == tokenizer.source_ids("the dog sat")
    assert other.alphabet.actions is not None
    assert torch.equal(other.alphabet.actions, alphabet().actions)  # type: ignore[arg-type]
    assert other.alphabet[:3] == (SIZE, 1, 2)
    assert ModelTokenizer(learn(TEXTS), alphabet(), chat=True).checksum != tokenizer.checksum
    assert ModelTokenizer(learn(TEXTS), Alphabet(SIZE, 1, 2)).checksum != tokenizer.checksum
    (tmp_path / "tokenizer" / "alphabet.json").write_text("{")
    with pytest.raises(UserError, match="does not hold a tokenizer that can be read: prepare the data again"):
        ModelTokenizer.load(tmp_path / "tokenizer")
