"""Examples in memory: dicts, pairs, or rows of a `datasets.Dataset`, checked and cut into words."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from seqcredit.data.text import Example
from seqcredit.errors import UserError

# {"source": ..., "references": [...]}, {"source": ..., "target": ...}, (source, reference) or (source, [references])
Row = Mapping[str, object] | Sequence[object]
Tokenizer = Callable[[str], Sequence[str]]

REFERENCES = ("references", "reference", "target")


def examples(rows: Iterable[Row], tokenizer: Tokenizer = str.split, name: str = "data") -> Iterator[Example]:
    """Rows as examples whose words stand apart by spaces; what is wrong is said with its place."""
    for number, row in enumerate(rows):
        where = f"{name}[{number}]"
        source, references = _parts(row, where)
        yield Example(_cut(source, tokenizer, where), [_cut(text, tokenizer, where) for text in references])


def _parts(row: Row, where: str) -> tuple[str, list[str]]:
    """Source and references of a row."""
    if isinstance(row, Mapping):
        keys = [key for key in REFERENCES if key in row]
        if "source" not in row or len(keys) != 1:
            listed = ", ".join(map(str, row))
            raise UserError(f"{where} has the keys {listed}: give `source`, and one of {', '.join(REFERENCES)}.")
        source, given = row["source"], row[keys[0]]
    elif isinstance(row, Sequence) and not isinstance(row, str) and len(row) == 2:
        source, given = row
    else:
        raise UserError(f"{where} is {row!r}: give a dict, or a pair of source and reference.")
    references = [given] if isinstance(given, str) else given
    if not isinstance(source, str):
        raise UserError(f"{where}: its source is {source!r}, but it must be text.")
    if not isinstance(references, Sequence) or not references or not all(isinstance(r, str) for r in references):
        raise UserError(f"{where}: its references are {given!r}, but they must be a text or a list of texts.")
    return source, [str(reference) for reference in references]


def _cut(text: str, tokenizer: Tokenizer, where: str) -> str:
    words = [str(word) for word in tokenizer(text)]
    for word in words:
        if word.split() != [word]:
            raise UserError(f"{where}: the tokenizer made the word {word!r}, but a word has no spaces and some letter.")
    return " ".join(words)
