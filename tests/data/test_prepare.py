import json
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import stored
from seqcredit.data.images import Features
from seqcredit.data.manifest import Manifest, PrepareOptions
from seqcredit.data.prepare import prepare
from seqcredit.data.prepared import Prepared
from seqcredit.data.text import Example, TextOptions, read_jsonl, read_parallel, read_tsv
from seqcredit.errors import UserError
from seqcredit.types import FIRST_WORD

PLAIN = PrepareOptions()


class Source(str):
    """A text to which there are weak references."""


def pair(source: str, *references: str) -> Example:
    return Example(source, list(references))


SMALL = {
    "train": [pair("a b", "x y"), pair("a", "x"), pair("", "x"), pair("b", " "), pair("c c c", "z")],
    "test": [pair("a d", "x w", "", "y")],
}


def words(prepared: Prepared, name: str) -> list[tuple[list[str], list[list[str]]]]:
    split = prepared.split(name)
    source, target = prepared.source_vocabulary, prepared.target_vocabulary
    return [
        (source.decode(stored.source(split, i)), [target.decode(r) for r in stored.references(split, i)])
        for i in range(len(split))
    ]


def test_small_corpus(tmp_path: Path) -> None:
    manifest = prepare(SMALL, tmp_path / "out", PLAIN)
    prepared = Prepared.open(tmp_path / "out")
    assert prepared.manifest == manifest
    assert prepared.source_vocabulary.words == ("</s>", "<unk>", "c", "a", "b")
    assert prepared.target_vocabulary.words == ("</s>", "<unk>", "x", "y", "z")
    assert words(prepared, "train") == [(["a", "b"], [["x", "y"]]), (["a"], [["x"]]), (["c", "c", "c"], [["z"]])]
    assert words(prepared, "test") == [(["a", "<unk>"], [["x", "<unk>"], ["y"]])]
    test = prepared.split("test")
    assert test.reference_text(0) == [["x", "w"], ["y"]]
    assert list(test.source_texts()) == [["a", "d"]]
    train = manifest.splits["train"]
    assert (train.examples, train.references, train.dropped_empty, train.dropped_long) == (3, 3, 2, 0)
    assert (train.source_words, train.reference_words, train.unknown_source) == (6, 4, 0)
    counts = manifest.splits["test"]
    assert (counts.examples, counts.references, counts.dropped_empty) == (1, 2, 1)
    assert (counts.unknown_source, counts.unknown_references) == (1 / 2, 1 / 3)
    assert (manifest.source_vocabulary, manifest.target_vocabulary, manifest.task) == (5, 5, "translation")


def test_files_are_as_described(tmp_path: Path) -> None:
    prepare(SMALL, tmp_path / "out", PLAIN)

    def array(name: str) -> list[int]:
        return np.load(tmp_path / "out" / name).tolist()

    assert array("train.source.ids.npy") == [3, 4, 3, 2, 2, 2]
    assert array("train.source.offsets.npy") == [0, 2, 3, 6]
    assert array("test.references.ids.npy") == [2, 1, 3]
    assert array("test.references.offsets.npy") == [0, 2, 3]
    assert array("test.references.groups.npy") == [0, 2]
    assert (tmp_path / "out" / "test.references.txt").read_text() == '["x w", "y"]\n'
    assert (tmp_path / "out" / "source.vocab").read_text() == "</s>\n<unk>\nc\na\nb\n"


def test_symbols_in_the_text_never_become_eos(tmp_path: Path) -> None:
    prepare({"train": [pair("a </s> b", "x </s> <unk>")]}, tmp_path / "out", PLAIN)
    prepared = Prepared.open(tmp_path / "out")
    assert words(prepared, "train") == [(["a", "<unk>", "b"], [["x", "<unk>", "<unk>"]])]
    assert prepared.split("train").reference_text(0) == [["x", "</s>", "<unk>"]]
    assert prepared.manifest.splits["train"].unknown_references == 2 / 3


def test_strange_characters_stay(tmp_path: Path) -> None:
    """A byte order mark, no space to Unicode, is a word; other programs' line breaks are spaces."""
    strange = [pair("\ufeff", "\ufeffx"), pair("a\x85b\x1cc\u2028d\re", "\0 y\x0bz")]
    prepare({"train": strange}, tmp_path / "out", PLAIN)
    prepared = Prepared.open(tmp_path / "out")
    expected = [(["\ufeff"], [["\ufeffx"]]), (["a", "b", "c", "d", "e"], [["\0", "y", "z"]])]
    assert words(prepared, "train") == expected
    assert list(prepared.split("train").source_texts()) == [source for source, _ in expected]
    assert list(prepared.split("train").reference_texts()) == [references for _, references in expected]


def test_length_limits(tmp_path: Path) -> None:
    pairs = [pair("a a", "x"), pair("a", "x x"), pair("a a a", "x"), pair("a", "x x x", "x"), pair("a a a a", "x")]
    options = PrepareOptions(max_length=2, filter_all_splits=3)
    manifest = prepare({"train": pairs, "valid": pairs}, tmp_path / "out", options)
    train, valid = manifest.splits["train"], manifest.splits["valid"]
    assert (train.examples, train.references, train.dropped_long) == (3, 3, 3)
    assert (valid.examples, valid.references, valid.dropped_long) == (4, 5, 1)
    assert train.dropped_long_share == 1 / 2
    prepared = Prepared.open(tmp_path / "out")
    assert words(prepared, "train")[2] == (["a"], [["x"]])
    assert prepared.split("train").reference_text(2) == [["x"]]


def test_vocabulary_limits(tmp_path: Path) -> None:
    examples = [pair("a a a b b c", "x x x y y z")]
    manifest = prepare({"train": examples}, tmp_path / "two", PrepareOptions(min_count=2))
    assert (manifest.source_vocabulary, manifest.target_vocabulary) == (4, 4)
    manifest = prepare({"train": examples}, tmp_path / "one", PrepareOptions(max_vocabulary=3))
    assert Prepared.open(tmp_path / "one").target_vocabulary.words == ("</s>", "<unk>", "x")


def test_moses_applies_to_the_text_unless_it_is_cut_already(tmp_path: Path) -> None:
    text = TextOptions(lowercase=True, moses=True, source_language="de", target_language="en")
    train = [pair("Ein Haus.", "It's a house.")]
    prepare({"train": train}, tmp_path / "raw", PrepareOptions(text=text))
    raw = Prepared.open(tmp_path / "raw")
    assert words(raw, "train") == [(["ein", "haus", "."], [["it", "&apos;s", "a", "house", "."]])]
    assert raw.sentence(raw.words(stored.references(raw.split("train"), 0)[0])) == "it's a house."
    prepare({"train": train}, tmp_path / "cut", PrepareOptions(text=text, tokenized=True))
    cut = Prepared.open(tmp_path / "cut")
    assert words(cut, "train") == [(["Ein", "Haus."], [["It's", "a", "house."]])]
    for prepared in (raw, cut):
        assert prepared.cut("Ein Haus.") == ["ein", "haus", "."]


def test_pieces_of_words(tmp_path: Path) -> None:
    pytest.importorskip("sentencepiece", reason="the extra 'bpe' is not installed")
    train = [pair("der hund und die hunde", "the dog and the dogs"), pair("das haus", "the house")] * 4
    prepare({"train": train}, tmp_path / "out", PrepareOptions(text=TextOptions(bpe=24)))
    prepared = Prepared.open(tmp_path / "out")
    ids = stored.references(prepared.split("train"), 0)[0]
    assert len(ids) > 5
    assert 1 not in ids
    assert prepared.target_ids(["the", "dog", "and", "the", "dogs"]) == ids
    assert prepared.words([*ids, 0, 5]) == ["the", "dog", "and", "the", "dogs"]
    assert prepared.split("train").reference_text(0) == [["the", "dog", "and", "the", "dogs"]]
    assert "".join(prepared.cut("der hundehund")) == "▁der▁hundehund"
    assert prepared.source_vocabulary.encode(prepared.cut("die hunde"))[0] != 1
    (tmp_path / "out" / "target.bpe").write_bytes(b"other")
    with pytest.raises(UserError, match=r"target\.bpe has changed"):
        Prepared.open(tmp_path / "out")


def test_same_input_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        prepare(SMALL, tmp_path / name, PLAIN)
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two
    assert set(json.loads(one["manifest.json"])["files"]) == set(one) - {"manifest.json"}
    assert Prepared.open(tmp_path / "one").checksum == Prepared.open(tmp_path / "two").checksum


def test_examples_are_gone_through_once_as_a_stream(tmp_path: Path) -> None:
    """A generator does, and no example is alive when the next but one is asked for."""
    alive: list[weakref.ref[Source]] = []

    def stream() -> Iterator[Example]:
        for _ in range(50):
            assert sum(text() is not None for text in alive) <= 1
            source = Source("a")
            alive.append(weakref.ref(source))
            yield pair(source, "x")
            del source

    manifest = prepare({"train": stream()}, tmp_path / "out", PLAIN)
    assert manifest.splits["train"].examples == 50


READERS: list[tuple[str, bytes, Callable[[Path], Iterator[Example]], str]] = [
    ("bad.tsv", b"a\tb\nc\n", read_tsv, "bad.tsv, line 2 has no tab"),
    ("bad.jsonl", b'{"source": "a", "reference": "b"}\n{"source": "a"}\n', read_jsonl, "bad.jsonl, line 2 lacks a key"),
    ("bad.txt", b"a\n\xff\n", lambda path: read_parallel(path, path), "bad.txt, line 2 is not UTF-8"),
    ("bad.txt", b"", read_tsv, "bad.txt is empty"),
    ("bad.tsv", b"a\t \n\n", read_tsv, "Nothing is left of the split 'valid': 2 pairs are empty and 0 are too long"),
]


@pytest.mark.parametrize(("name", "content", "reader", "says"), READERS)
def test_bad_input_leaves_nothing(
    tmp_path: Path, name: str, content: bytes, reader: Callable[[Path], Iterator[Example]], says: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as caught:
        prepare({"train": [pair("a", "b")], "valid": reader(tmp_path / name)}, tmp_path / "new" / "out", PLAIN)
    assert says in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_unequal_files_leave_nothing_and_an_older_folder_stays(tmp_path: Path) -> None:
    prepare(SMALL, tmp_path / "out", PLAIN)
    before = Prepared.open(tmp_path / "out").checksum
    (tmp_path / "a").write_text("x\nx\nx\n")
    (tmp_path / "b").write_text("y\ny\n")
    examples = read_parallel(tmp_path / "a", tmp_path / "b")
    with pytest.raises(UserError, match=f"^{tmp_path}/a has 3 lines and {tmp_path}/b has 2: "):
        prepare({"train": examples}, tmp_path / "out", PLAIN, overwrite=True)
    assert Prepared.open(tmp_path / "out").checksum == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "out"]


def test_existing_folder_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    prepare(SMALL, tmp_path / "out", PLAIN)

    def never() -> Iterator[Example]:
        raise AssertionError("the corpus was read")
        yield

    with pytest.raises(UserError, match=f"^{tmp_path}/out exists and is not empty: "):
        prepare({"train": never()}, tmp_path / "out", PLAIN)


@pytest.mark.parametrize(
    ("splits", "options", "says"),
    [
        ({"valid": [pair("a", "b")]}, PLAIN, 'no split "train"'),
        ({"train": [pair("a", "b")], "../x": [pair("a", "b")]}, PLAIN, "cannot be a part of a file's name"),
        ({"train": [pair("a b", "x x")]}, PrepareOptions(min_count=2), "No word of the source side occurs 2 times"),
        ({"train": [pair("a a", "x y")]}, PrepareOptions(min_count=2), "No word of the target side occurs 2 times"),
        ({"train": [pair("</s>", "x")]}, PLAIN, "No word of the source side"),
        ({"train": [pair("a a", "x y")]}, PrepareOptions(max_length=1), "0 pairs are empty and 1 are too long"),
    ],
)
def test_what_cannot_be_prepared(
    tmp_path: Path, splits: dict[str, list[Example]], options: PrepareOptions, says: str
) -> None:
    with pytest.raises(UserError) as caught:
        prepare(splits, tmp_path / "out", options)
    assert says in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["min_count", "max_vocabulary", "max_length", "filter_all_splits"])
def test_options_that_cannot_be(name: str) -> None:
    with pytest.raises(UserError, match=f"^{name} is 0: "):
        PrepareOptions(**{name: 0})


def real(folder: Path, out: Path, options: PrepareOptions) -> Manifest:
    names = ("train", "valid", "test")
    splits = {name: read_parallel(folder / f"{name}.de", folder / f"{name}.en") for name in names}
    return prepare(splits, out, options)


def sizes(manifest: Manifest) -> list[int]:
    return [counts.examples for counts in manifest.splits.values()]


def test_real_text_comes_back(real_data: Path, tmp_path: Path) -> None:
    folder = real_data / "multi30k"
    prepare({"train": read_parallel(folder / "valid.de", folder / "valid.en")}, tmp_path / "out", PLAIN)
    texts = [
        [line.split() for line in (folder / f"valid.{side}").read_text("utf-8").split("\n")] for side in ("de", "en")
    ]
    expected = [(source, [reference]) for source, reference in zip(*texts, strict=True) if source]
    assert len(expected) == 1_014
    assert words(Prepared.open(tmp_path / "out"), "train") == expected


@pytest.mark.slow
def test_multi30k(real_data: Path, tmp_path: Path) -> None:
    """5,378 German and 4,564 English words are seen 3 times; two symbols come to each."""
    manifest = real(real_data / "multi30k", tmp_path / "out", PrepareOptions(min_count=3))
    assert sizes(manifest) == [29_000, 1_014, 1_000]
    assert (manifest.source_vocabulary, manifest.target_vocabulary) == (5_380, 4_566)
    prepared = Prepared.open(tmp_path / "out")
    texts = [line.split() for line in (real_data / "multi30k" / "test.en").read_text().splitlines()]
    assert [group for (group,) in prepared.split("test").reference_texts()] == texts
    known = set(prepared.target_vocabulary.words)
    assert words(prepared, "test")[5][1] == [[word if word in known else "<unk>" for word in texts[5]]]


@pytest.mark.slow
def test_tatoeba_short(real_data: Path, tmp_path: Path) -> None:
    """8,108 German and 5,940 English words are seen 3 times; two symbols come to each."""
    options = PrepareOptions(min_count=3, filter_all_splits=8)
    manifest = real(real_data / "tatoeba", tmp_path / "out", options)
    assert sizes(manifest) == [94_307, 4_285, 4_100]
    assert (manifest.source_vocabulary, manifest.target_vocabulary) == (8_110, 5_942)
    train = manifest.splits["train"]
    assert train.dropped_long == 155_745 - 94_307
    assert train.reference_words / train.examples == pytest.approx(6.2, abs=0.05)


# Pictures.


def test_pictures_bring_their_features(tmp_path: Path) -> None:
    seen = Features(["b.jpg", "spare.jpg", "a dog.jpg"], np.arange(12, dtype=np.float16).reshape(3, 4))
    train = [Example("a dog.jpg", ["a dog", "the dog"]), Example("lost.jpg", ["gone"]), Example("b.jpg", ["a b", " "])]
    splits = {"train": train, "valid": [Example("b.jpg", ["a b"])]}
    manifest = prepare(splits, tmp_path / "out", PrepareOptions(), features=seen)
    assert (manifest.task, manifest.picture_width) == ("captioning", 4)
    counts = manifest.splits["train"]
    assert (counts.examples, counts.references, counts.dropped_unseen, counts.dropped_empty) == (2, 3, 1, 1)
    prepared = Prepared.open(tmp_path / "out")
    assert prepared.pictures
    split = prepared.split("train")
    assert split.pictures
    assert stored.source(split, 0) == [8, 9, 10, 11]
    assert stored.source(split, 1) == [0, 1, 2, 3]
    assert list(split.source_texts()) == [["a", "dog.jpg"], ["b.jpg"]]
    assert len(prepared.source_vocabulary) == FIRST_WORD
    assert prepared.checksums["source"] == "pictures of 4 features"


def test_pictures_without_features_are_counted(tmp_path: Path) -> None:
    seen = Features(["b.jpg"], np.zeros((1, 4), np.float16))
    with pytest.raises(UserError, match="2 pictures have no features"):
        prepare(
            {"train": [Example("x.jpg", ["a"]), Example("y.jpg", ["a"])]},
            tmp_path / "out",
            PrepareOptions(),
            features=seen,
        )
    assert not (tmp_path / "out").exists()
