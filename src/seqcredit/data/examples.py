"""Examples in memory: dicts, pairs, or rows of a `datasets.Dataset`, checked, and cut into words or left as text."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeGuard

from seqcredit.data.text import Example, lines
from seqcredit.data.tokenizer import Messages, ModelTokenizer
from seqcredit.errors import UserError, in_words, require

# {"source": ..., "references": [...]}, {"source": ..., "target": ...}, (source, reference) or (source, [references])
Row = Mapping[str, object] | Sequence[object]
Tokenizer = Callable[[str], Sequence[str]]

SOURCES = ("source", "prompt")
REFERENCES = ("references", "reference", "target")


def examples(rows: Iterable[Row], tokenizer: Tokenizer = str.split, name: str = "data") -> Iterator[Example]:
    """Rows as examples whose words stand apart by spaces; what is wrong is said with its place."""
    for number, row in enumerate(rows):
        where = f"{name}[{number}]"
        source, references = _parts(row, where)
        if not isinstance(source, str):
            raise UserError(f"{where}: its source is {source!r}, but it must be text.")
        if not references:
            raise UserError(f"{where}: its references are [], but a model that learns from pairs needs at least one.")
        yield Example(_cut(source, tokenizer, where), [_cut(text, tokenizer, where) for text in references])


def plain_examples(rows: Iterable[Row], tokenizer: ModelTokenizer, name: str = "data") -> Iterator[Example]:
    """Rows as examples in plain text, for a model with a tokenizer of its own.

    A source may be a text or the messages of a chat; there may be no reference at all.
    """
    for number, row in enumerate(rows):
        where = f"{name}[{number}]"
        source, references = _parts(row, where)
        if not isinstance(source, str) and not is_chat(source):
            raise UserError(f"{where}: its source is {source!r}, but it must be text, or messages of a chat.")
        yield Example(tokenizer.prompt(source), references)


def rows_of(data: Iterable[Row]) -> list[Row]:
    """Rows in memory; those of a `datasets.Dataset`, too, but not of all its splits, nor of a stream."""
    if isinstance(data, Mapping):
        splits = "give one of its values, such as data['train'], and others as `valid` and `test`."
        raise UserError(f"data is a dict of {', '.join(map(str, data))}: {splits}")
    datasets = sys.modules.get("datasets")
    require(isinstance(data, Iterable), f"data is {data!r}: give rows, a .jsonl file, or a prepared folder.")
    stream = datasets is not None and isinstance(data, datasets.IterableDataset)
    require(not stream, "data is an IterableDataset, which may have no end: give list(data.take(10_000)), or so many.")
    return list(data)


def is_chat(source: object) -> TypeGuard[Messages]:
    """Whether a source is a list of messages, each with a role and a content."""
    if not isinstance(source, Sequence) or isinstance(source, str) or not source:
        return False
    return all(isinstance(one, Mapping) and {"role", "content"} <= set(one) for one in source)


def have_references(rows: Iterable[Row], name: str = "data") -> bool:
    """Whether there is something to compare outputs with; without any rows there is nothing to say against it."""
    there = [bool(_parts(row, f"{name}[{number}]")[1]) for number, row in enumerate(rows)]
    if any(there) and not all(there):
        raise UserError(
            f"{name}[{there.index(False)}] has no references, and others have: give all of them some, or none."
        )
    return any(there) or not there


def read_rows(path: Path) -> list[Row]:
    """Rows of a file: a JSON object a line."""
    found: list[Row] = []
    for number, line in enumerate(lines(path), 1):
        with in_words((ValueError, RecursionError), f"{path}, line {number} is not JSON: write one object a line."):
            row = json.loads(line) if line.strip() else None
        if row is not None:
            require(isinstance(row, dict), f"{path}, line {number} is no JSON object: write one object a line.")
            found.append(row)
    return found


def has_chat(rows: Iterable[Row]) -> bool:
    """Whether sources are the messages of chats, by the first of them."""
    return any(is_chat(_parts(row, "data[0]")[0]) for row in islice(rows, 1))


def _parts(row: Row, where: str) -> tuple[object, list[str]]:
    """Source and references of a row; a dict may have no references."""
    if isinstance(row, Mapping):
        keys = [[key for key in known if key in row] for known in (SOURCES, REFERENCES)]
        if len(keys[0]) != 1 or len(keys[1]) > 1:
            listed = ", ".join(map(str, row))
            raise UserError(f"{where} has the keys {listed}: give `source`, and one of {', '.join(REFERENCES)}.")
        source, given = row[keys[0][0]], row[keys[1][0]] if keys[1] else []
    elif isinstance(row, Sequence) and not isinstance(row, str) and len(row) == 2:
        source, given = row
    else:
        raise UserError(f"{where} is {row!r}: give a dict, or a pair of source and reference.")
    references = [given] if isinstance(given, str) else [] if given is None else given
    if not isinstance(references, Sequence) or not all(isinstance(r, str) for r in references):
        raise UserError(f"{where}: its references are {given!r}, but they must be a text or a list of texts.")
    _check_text(source, references, where)
    return source, [str(reference) for reference in references]


def _check_text(source: object, references: Sequence[object], where: str) -> None:
    """No half of a character, which no tokenizer takes, and no file."""
    texts = [str(each["content"]) for each in source] if is_chat(source) else [source]
    for text in (*texts, *references):
        with in_words(UnicodeEncodeError, f"{where}: {text!r} holds half of a character: leave such characters out."):
            str(text).encode()


def _cut(text: str, tokenizer: Tokenizer, where: str) -> str:
    words = [str(word) for word in tokenizer(text)]
    for word in words:
        if word.split() != [word]:
            raise UserError(f"{where}: the tokenizer made the word {word!r}, but a word has no spaces and some letter.")
    return " ".join(words)
