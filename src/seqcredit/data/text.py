"""Raw text: files with one example a line, read as a stream, and how a line is cut into words."""

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import Literal, NamedTuple

from seqcredit.data.reading import readable
from seqcredit.errors import UserError, in_words, require

Cut = Callable[[str], list[str]]


class Example(NamedTuple):
    """A sentence and its translations, as text."""

    source: str
    references: list[str]


@dataclass(frozen=True)
class TextOptions:
    """How a line becomes words. Moses first, then lower case, then pieces of words."""

    lowercase: bool = False
    moses: bool = False
    source_language: str | None = None  # "de", "en", ...: Moses has its rules by language
    target_language: str | None = None
    bpe: int | None = None  # number of pieces of words on each side; needs the extra 'bpe'
    tokenizer: Literal["plain", "chat"] | None = None  # a model's own cuts the text; a chat has special tokens written

    def __post_init__(self) -> None:
        if self.moses and not (self.source_language and self.target_language):
            raise UserError("Moses tokens depend on the language: set source_language and target_language.")
        if self.bpe is not None and self.bpe < 1:
            raise UserError(f"bpe is the number of pieces, and {self.bpe} is too few: set it to some thousands.")


def read_files(paths: Sequence[Path]) -> Iterator[Example]:
    """Two parallel text files, or one file whose ending tells: .tsv or .jsonl."""
    if len(paths) == 2:
        return read_parallel(*paths)
    readers = {".tsv": read_tsv, ".jsonl": read_jsonl}
    if len(paths) != 1 or paths[0].suffix not in readers:
        names = ", ".join(map(str, paths))
        raise UserError(f"{names}: give two parallel text files, or one file that ends in .tsv or .jsonl.")
    return readers[paths[0].suffix](paths[0])


def read_parallel(source_path: Path, target_path: Path) -> Iterator[Example]:
    """Line i of one file with line i of the other."""
    pairs = enumerate(zip_longest(lines(source_path), lines(target_path)))
    for number, (source, reference) in pairs:
        if source is None or reference is None:
            longer = number + 1 + sum(1 for _ in pairs)
            counts = (number, longer) if source is None else (longer, number)
            raise UserError(
                f"{source_path} has {counts[0]} lines and {target_path} has {counts[1]}: "
                "give files in which line i of one translates line i of the other."
            )
        yield Example(source, [reference])


def read_tsv(path: Path) -> Iterator[Example]:
    """Lines `source <tab> reference`, with further references after further tabs."""
    for number, line in enumerate(lines(path), 1):
        source, *references = line.split("\t")
        if not references and source.strip():
            raise UserError(f"{path}, line {number} has no tab: write source<tab>reference.")
        yield Example(source, references or [""])


def read_jsonl(path: Path) -> Iterator[Example]:
    """Lines `{"source": ..., "references": [...]}`, or "reference" with a single one."""
    for number, line in enumerate(lines(path), 1):
        yield _json_example(line, f"{path}, line {number}") if line.strip() else Example("", [""])


def _json_example(line: str, where: str) -> Example:
    with in_words((ValueError, RecursionError), f"{where} is not JSON: write one object a line."):
        record = json.loads(line)
    fields = record if isinstance(record, dict) else {}
    references = fields.get("references", [fields.get("reference")])
    texts = [fields.get("source"), *references] if isinstance(references, list) else []
    if len(texts) < 2 or not all(isinstance(text, str) for text in texts):
        raise UserError(f'{where} lacks a key: write {{"source": a text, "references": [a text, ...]}}.')
    if any("\ud800" <= character <= "\udfff" for text in texts for character in text):
        raise UserError(f"{where} holds half a surrogate pair, which is no character: write it as UTF-8.")
    return Example(texts[0], texts[1:])


def lines(path: Path) -> Iterator[str]:
    """Lines of a UTF-8 file as a stream, cut at newlines alone."""
    number = 0
    not_text = in_words(UnicodeDecodeError, lambda _: f"{path}, line {number} is not UTF-8: convert the file to UTF-8.")
    with readable(path, "give a file that can be read"), not_text, path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    require(number > 0, f"{path} is empty: give a file with one example a line.")


def tokenizer(options: TextOptions, language: str | None) -> Cut:
    """The function that cuts a line of `language` into words; pieces of words come after it."""
    if options.moses:
        cut = _moses(language)
        return (lambda text: [word.lower() for word in cut(text)]) if options.lowercase else cut
    return (lambda text: text.lower().split()) if options.lowercase else str.split


def _moses(language: str | None) -> Cut:
    with in_words(ImportError, "Moses tokens need the package sacremoses: run `pip install sacremoses`."):
        from sacremoses import MosesTokenizer  # type: ignore[import-untyped,import-not-found,unused-ignore]
    moses = MosesTokenizer(language)
    # Escaped (&apos;), as Moses and with it every published corpus does. Its words may still hold a rare space.
    return lambda text: moses.tokenize(text, return_str=True).split()


def detokenize(words: list[str], options: TextOptions, language: str | None) -> str:
    """Words as a line to read; Moses' cuts and escapes are undone, lower case stays."""
    if not options.moses:
        return " ".join(words)
    from sacremoses import MosesDetokenizer

    return MosesDetokenizer(language).detokenize(words)


SPACE = "▁"  # sentencepiece begins with it every piece that begins a word
BPE_SENTENCES = 1_000_000  # sentencepiece holds its sentences in memory: of a larger corpus it sees every k-th


class Pieces:
    """Cuts words into the pieces that byte pair encoding has learned, and joins them again."""

    def __init__(self, model: bytes) -> None:
        self._processor = _sentencepiece().SentencePieceProcessor(model_proto=model)

    def cut(self, words: Iterable[str]) -> list[str]:
        """Words as pieces."""
        return self._processor.encode(" ".join(words), out_type=str)

    def join(self, pieces: Iterable[str]) -> list[str]:
        """Pieces as words."""
        return "".join(pieces).replace(SPACE, " ").split()


def learn_pieces(sentences: Iterator[str], size: int) -> bytes:
    """A sentencepiece BPE model of `size` pieces, the same for the same sentences."""
    model = io.BytesIO()
    failed = f"Cannot learn {size} pieces of words from this text: set bpe to a smaller number."
    with in_words(RuntimeError, failed):
        _sentencepiece().SentencePieceTrainer.train(
            sentence_iterator=sentences,
            model_writer=model,
            vocab_size=size,
            model_type="bpe",
            character_coverage=1.0,
            normalization_rule_name="identity",  # the text that is learned is the text that is scored
            num_threads=1,
            minloglevel=2,
        )
    return model.getvalue()


def _sentencepiece() -> ModuleType:
    with in_words(ImportError, "bpe needs the package sentencepiece: run `pip install 'seqcredit[bpe]'`."):
        import sentencepiece  # type: ignore[import-untyped,import-not-found,unused-ignore]
    return sentencepiece
