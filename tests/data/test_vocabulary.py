import hashlib
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqcredit.data.vocabulary import Vocabulary
from seqcredit.errors import UserError

# Words as `str.split` makes them, and the two symbols.
CHARACTERS = st.characters(codec="utf-8")
WORDS = st.text(CHARACTERS, min_size=1).filter(lambda word: word.split() == [word])
SENTENCES = st.lists(WORDS | st.sampled_from(["</s>", "<unk>"]), max_size=8)


def vocabulary(*words: str) -> Vocabulary:
    return Vocabulary(("</s>", "<unk>", *words))


def test_frequent_words_come_first_and_equals_are_alphabetical() -> None:
    counts = Counter(["b", "b", "b", "c", "c", "a", "a", "d"])
    assert Vocabulary.build(counts).words == ("</s>", "<unk>", "b", "a", "c", "d")
    assert Vocabulary.build(counts, min_count=2).words == ("</s>", "<unk>", "b", "a", "c")
    assert Vocabulary.build(counts, max_size=4).words == ("</s>", "<unk>", "b", "a")


def test_order_of_counting_does_not_matter() -> None:
    words = ["to", "be", "or", "not", "to", "be"]
    assert Vocabulary.build(Counter(words)) == Vocabulary.build(Counter(reversed(words)))


def test_words_and_ids() -> None:
    two = vocabulary("a", "b")
    assert len(two) == 4
    assert two.encode(["b", "x", "a"]) == [3, 1, 2]
    assert two.decode([3, 1, 2, 0, 3]) == ["b", "<unk>", "a"]
    assert two.decode([0, 3]) == []


def test_symbols_in_a_text_are_unknown_words() -> None:
    built = Vocabulary.build(Counter({"</s>": 9, "<unk>": 9, "a": 1}))
    assert built.words == ("</s>", "<unk>", "a")
    assert built.encode(["</s>", "a", "<unk>"]) == [1, 2, 1]


@pytest.mark.parametrize("wrong", [-1, 4])
def test_what_is_no_id_has_no_word(wrong: int) -> None:
    with pytest.raises(IndexError):
        vocabulary("a", "b").decode([wrong])


@given(SENTENCES)
def test_round_trip_of_text_and_file(tmp_path_factory: pytest.TempPathFactory, sentence: list[str]) -> None:
    built = Vocabulary.build(Counter(sentence))
    path = tmp_path_factory.getbasetemp() / "words.vocab"
    built.save(path)
    loaded = Vocabulary.load(path)
    assert loaded == built
    assert loaded.checksum == built.checksum
    ids = loaded.encode(sentence)
    assert 0 not in ids
    assert loaded.decode(ids) == ["<unk>" if word == "</s>" else word for word in sentence]


def test_checksum_is_that_of_the_file(tmp_path: Path) -> None:
    two = vocabulary("a", "ü")
    two.save(tmp_path / "v")
    assert (tmp_path / "v").read_bytes() == "</s>\n<unk>\na\nü\n".encode()
    assert two.checksum == hashlib.sha256((tmp_path / "v").read_bytes()).hexdigest()
    assert two.checksum != vocabulary("ü", "a").checksum


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "starts with </s> and <unk>"),
        (b"a\nb\n", "starts with </s> and <unk>"),
        (b"</s>\n<unk>\na\n\nb\n", "empty lines"),
        (b"</s>\n<unk>\na\nb\na\n", "'a' is there twice"),
        (b"</s>\n<unk>\na\n</s>\n", "'</s>' is there twice"),
        (b"</s>\n<unk>\n\xff\n", "not UTF-8"),
    ],
)
def test_what_is_no_vocabulary(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "v"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        Vocabulary.load(path)
    assert str(path) in str(caught.value)
    assert says in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere"):
        Vocabulary.load(tmp_path / "nowhere")
