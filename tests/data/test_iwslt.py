from collections.abc import Sequence
from pathlib import Path

import pytest

from seqcredit.data import iwslt
from seqcredit.data.prepare import prepare
from seqcredit.data.prepared import Prepared
from seqcredit.data.text import Example
from seqcredit.errors import UserError

HEAD = ["<url>http://x</url>", "<keywords>a, b</keywords>", "<talkid>1</talkid>"]


def write(folder: Path, name: str, lines: Sequence[str]) -> None:
    (folder / name).write_bytes("".join(f"{line}\n" for line in lines).encode())


def archive(folder: Path, german: Sequence[str], english: Sequence[str]) -> Path:
    """The layout of the archive with these training lines after a talk's head, and two segments a test set."""
    for language, lines in (("de", german), ("en", english)):
        head = [*HEAD, f"<title>Titel {language}</title>", f"<description>Worum, {language}?</description>"]
        write(folder, f"train.tags.de-en.{language}", [*head, *lines])
        for name in iwslt.TEST_SETS:
            segments = [f'<seg id="{i}"> {name} It’s {i}, {language}. </seg>' for i in (1, 2)]
            body = ['<?xml version="1.0"?>', "<title>no</title>", '<doc docid="1">', *segments, "</doc>"]
            write(folder, f"IWSLT14.{name}.de-en.{language}.xml", body)
    return folder


def test_tags_and_order(tmp_path: Path) -> None:
    lines = [f"Satz Nummer {i} ." for i in range(1, 45)]
    splits = iwslt.read(archive(tmp_path, lines, lines))
    # With the title and the description there are 46 pairs: the 23rd and the 46th are for validation.
    assert splits["valid"] == [Example(f"satz nummer {i} .", [f"satz nummer {i} ."]) for i in (21, 44)]
    assert splits["train"][0] == Example("titel de", ["titel en"])
    assert splits["train"][1] == Example("worum , de ?", ["worum , en ?"])
    assert len(splits["train"]) == 44
    assert splits["train"][21:24] == [Example(f"satz nummer {i} .", [f"satz nummer {i} ."]) for i in (20, 22, 23)]


def test_test_set_is_five_sets_in_mixer_order(tmp_path: Path) -> None:
    test = iwslt.read(archive(tmp_path, ["a"], ["a"]))["test"]
    assert len(test) == 10
    assert [pair.source.split()[0] for pair in test[::2]] == [
        "ted.dev2010", "tedx.dev2012", "ted.tst2010", "ted.tst2011", "ted.tst2012",
    ]  # fmt: skip
    assert test[0].references == ["ted.dev2010 it &apos;s 1 , en ."]


@pytest.mark.parametrize(
    ("german", "english", "stays"),
    [
        (1, 1, True),
        (50, 50, True),
        (51, 50, False),
        (50, 51, False),
        (0, 1, False),
        (1, 0, False),
        (3, 2, True),
        (2, 3, True),
        (4, 2, False),
        (2, 4, False),
        (50, 33, False),
        (34, 50, True),
    ],
)
def test_cleaning(tmp_path: Path, german: int, english: int, stays: bool) -> None:
    read = iwslt.read(archive(tmp_path, [" ".join(["wort"] * german)], [" ".join(["word"] * english)]))
    assert (len(read["train"]), len(read["valid"])) == (2 + stays, 0)


def test_long_test_sentences_stay(tmp_path: Path) -> None:
    archive(tmp_path, ["a"], ["a"])
    for language in ("de", "en"):
        write(tmp_path, f"IWSLT14.TED.dev2010.de-en.{language}.xml", [f'<seg id="1"> {"x " * 70}</seg>'])
    assert len(iwslt.read(tmp_path)["test"][0].source.split()) == 70


@pytest.mark.parametrize("name", iwslt.files())
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    archive(tmp_path, ["a"], ["a"])
    (tmp_path / name).unlink()
    with pytest.raises(
        UserError, match=f"^{tmp_path} is not the unpacked IWSLT14 archive de-en: it has no file {name};"
    ):
        iwslt.read(tmp_path)


def test_sides_of_unequal_length(tmp_path: Path) -> None:
    archive(tmp_path, ["a", "b"], ["a"])
    with pytest.raises(UserError, match=r"train.tags.de-en.de has 4 sentences and .*train.tags.de-en.en has 3"):
        iwslt.read(tmp_path)


def test_prepared(tmp_path: Path) -> None:
    lines = [f"Es ist Nummer {i} ." for i in range(60)]
    (tmp_path / "de-en").mkdir()
    splits = iwslt.read(archive(tmp_path / "de-en", lines, lines))
    prepare(splits, tmp_path / "out", iwslt.OPTIONS)
    prepared = Prepared.open(tmp_path / "out")
    assert prepared.source_vocabulary.words == ("</s>", "<unk>", ".", "es", "ist", "nummer")
    # What a user types goes the same way as the corpus, though this was cut beforehand.
    assert prepared.cut("Es ist, ...") == ["es", "ist", ",", "..."]
    assert list(prepared.split("valid").source_texts()) == [pair.source.split() for pair in splits["valid"]]
