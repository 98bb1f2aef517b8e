import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seqcredit.data.text import (
    Example,
    Pieces,
    TextOptions,
    detokenize,
    learn_pieces,
    read_jsonl,
    read_parallel,
    read_tsv,
    tokenizer,
)
from seqcredit.errors import UserError


def file(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_parallel(tmp_path: Path) -> None:
    # Line breaks of other kinds do not break a line; a byte order mark, \r and a missing last newline do no harm.
    a = file(tmp_path, "a", "\ufeffein\x0b haus\r\n\nzwei\u2028drei".encode())
    b = file(tmp_path, "b", b"a house\nx\ntwo three\n")
    assert list(read_parallel(a, b)) == [
        Example("ein\x0b haus", ["a house"]),
        Example("", ["x"]),
        Example("zwei\u2028drei", ["two three"]),
    ]


@pytest.mark.parametrize(("first", "second"), [(5, 3), (3, 5), (1, 2), (2, 1)])
def test_different_numbers_of_lines(tmp_path: Path, first: int, second: int) -> None:
    a, b = file(tmp_path, "a", b"x\n" * first), file(tmp_path, "b", b"y\n" * second)
    with pytest.raises(UserError) as caught:
        list(read_parallel(a, b))
    assert f"{a} has {first} lines and {b} has {second}: " in str(caught.value)


@pytest.mark.parametrize("reader", [read_tsv, read_jsonl, lambda path: read_parallel(path, path)])
def test_empty_missing_and_unreadable_files(tmp_path: Path, reader: Callable[[Path], Iterator[Example]]) -> None:
    with pytest.raises(UserError, match=f"^{tmp_path}/empty is empty: "):
        list(reader(file(tmp_path, "empty", b"")))
    with pytest.raises(UserError, match=f"^There is no file {tmp_path}/missing: "):
        list(reader(tmp_path / "missing"))
    with pytest.raises(UserError, match=f"^{tmp_path} cannot be read: Is a directory; "):
        list(reader(tmp_path))


def test_one_empty_file_of_two(tmp_path: Path) -> None:
    full, empty = file(tmp_path, "full", b"x\n"), file(tmp_path, "empty", b"")
    for pair in ((full, empty), (empty, full)):
        with pytest.raises(UserError, match=f"^{empty} is empty: "):
            list(read_parallel(*pair))


def test_invalid_utf8(tmp_path: Path) -> None:
    good, bad = file(tmp_path, "good", b"x\ny\nz\n"), file(tmp_path, "bad", b"x\ny\n\xe4\xf6\n")
    for pair in ((good, bad), (bad, good)):
        with pytest.raises(UserError, match=f"^{bad}, line 3 is not UTF-8: "):
            list(read_parallel(*pair))


def test_tsv(tmp_path: Path) -> None:
    path = file(tmp_path, "a.tsv", b"a b\tc\td e\n\nf\tg\n")
    assert list(read_tsv(path)) == [Example("a b", ["c", "d e"]), Example("", [""]), Example("f", ["g"])]


def test_tsv_without_a_tab(tmp_path: Path) -> None:
    path = file(tmp_path, "a.tsv", b"a\tb\nno tab here\n")
    with pytest.raises(UserError, match=f"^{path}, line 2 has no tab: "):
        list(read_tsv(path))


def test_jsonl(tmp_path: Path) -> None:
    text = '{"source": "a", "references": ["b", "c"]}\n\n{"source": "\\u00e4", "reference": "e", "more": 1}\n'
    path = file(tmp_path, "a.jsonl", text.encode())
    assert list(read_jsonl(path)) == [Example("a", ["b", "c"]), Example("", [""]), Example("ä", ["e"])]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[1]", "lacks a key"),
        ('{"source": "a"}', "lacks a key"),
        ('{"reference": "a"}', "lacks a key"),
        ('{"source": "a", "references": []}', "lacks a key"),
        ('{"source": "a", "references": "b"}', "lacks a key"),
        ('{"source": "a", "references": ["b", 3]}', "lacks a key"),
        ('{"source": 1, "reference": "b"}', "lacks a key"),
        ('{"source": "a\\ud800", "reference": "b"}', "half a surrogate pair"),
    ],
)
def test_bad_jsonl(tmp_path: Path, line: str, says: str) -> None:
    path = file(tmp_path, "a.jsonl", ('{"source": "a", "reference": "b"}\n' + line).encode())
    with pytest.raises(UserError) as caught:
        list(read_jsonl(path))
    assert str(caught.value).startswith(f"{path}, line 2 ")
    assert says in str(caught.value)


def test_reading_is_a_stream(tmp_path: Path) -> None:
    """The first example is there before a fault further down is read."""
    examples = read_tsv(file(tmp_path, "a.tsv", b"a\tb\n" + b"x\n"))
    assert next(examples) == Example("a", ["b"])
    with pytest.raises(UserError):
        next(examples)


def test_cutting_at_spaces() -> None:
    assert tokenizer(TextOptions(), None)(" Ein\u00a0 Haus. ") == ["Ein", "Haus."]
    assert tokenizer(TextOptions(lowercase=True), None)("Ein Haus.") == ["ein", "haus."]


def test_moses() -> None:
    options = TextOptions(moses=True, lowercase=True, source_language="de", target_language="en")
    german, english = tokenizer(options, "de"), tokenizer(options, "en")
    assert german("Das kostet ca. 3,50 Euro, Herr Müller.") == [
        "das",
        "kostet",
        "ca.",
        "3,50",
        "euro",
        ",",
        "herr",
        "müller",
        ".",
    ]
    assert english("It's Tom's & mine.") == ["it", "&apos;s", "tom", "&apos;s", "&amp;", "mine", "."]
    assert english("  ") == []
    assert detokenize(english("It's Tom's & mine."), options, "en") == "it's tom's & mine."
    assert detokenize(["a", "."], TextOptions(), None) == "a ."


def test_options_that_cannot_be() -> None:
    with pytest.raises(UserError, match="source_language"):
        TextOptions(moses=True, source_language="de")
    with pytest.raises(UserError, match="bpe"):
        TextOptions(bpe=0)


@pytest.mark.parametrize(
    ("package", "use", "says"),
    [
        ("sentencepiece", lambda: learn_pieces(iter(["a"]), 9), "pip install 'seqcredit\\[bpe\\]'"),
        ("sentencepiece", lambda: Pieces(b""), "pip install 'seqcredit\\[bpe\\]'"),
        ("sacremoses", lambda: tokenizer(TextOptions(False, True, "de", "en"), "de"), "pip install sacremoses"),
    ],
)
def test_missing_packages_are_named(
    monkeypatch: pytest.MonkeyPatch, package: str, use: Callable[[], object], says: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=says):
        use()


def test_pieces() -> None:
    pytest.importorskip("sentencepiece", reason="the extra 'bpe' is not installed")
    text = ["der hund und die hunde", "das haus und die häuser", "ein hündchen im häuschen"] * 5
    model = learn_pieces(iter(text), 40)
    assert model == learn_pieces(iter(text), 40)
    pieces = Pieces(model)
    words = ["die", "hundehäuser", "ÀÉ", "½", "ﬁ"]
    assert len(pieces.cut(words)) > len(words)
    assert pieces.join(pieces.cut(words)) == words
    with pytest.raises(UserError, match="smaller number"):
        learn_pieces(iter(text), 100_000)
