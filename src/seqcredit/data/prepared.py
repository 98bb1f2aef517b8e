"""A prepared folder: vocabularies, ids of every split mapped into memory, the words of the references, a manifest.

manifest.json               what was done with which options, counts, and the checksum of every other file
source.vocab  target.vocab  one word a line, in the order of their ids
source.bpe    target.bpe    sentencepiece models, with the option `bpe` alone
SPLIT.source.ids.npy        all sources one after another, without eos; SPLIT.source.offsets.npy: where each begins
SPLIT.source.features.npy   instead of these two, where the sources are pictures: a row each
SPLIT.references.ids.npy    all references likewise; SPLIT.references.offsets.npy
SPLIT.references.groups.npy the number of the first reference of each example
SPLIT.source.txt            words, before unknown ones were replaced and before they were cut into pieces; or names
SPLIT.references.txt        the same: a JSON list of references a line

With a model's own tokenizer (`data/tokenized.py`) there is a folder `tokenizer` instead of vocabularies, sources are
text as JSON, and ids of sources are all that the model reads, so that no eos is added to them.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from seqcredit.data.manifest import AGAIN, Manifest
from seqcredit.data.storage import (
    MANIFEST,
    Pictures,
    Sequences,
    check_file,
    checksum,
    open_array,
    with_suffix,
    written_lines,
)
from seqcredit.data.text import Cut, Example, Pieces, detokenize, tokenizer
from seqcredit.data.tokenizer import TOKENIZER, ModelTokenizer
from seqcredit.data.vocabulary import Vocabulary
from seqcredit.errors import UserError
from seqcredit.types import ABSENT, EOS, Alphabet, Json, Known

FEATURES = "features.npy"


@dataclass(frozen=True)
class Split:
    """One split: sources and references by number. Example i has the references groups[i], ..., groups[i + 1] - 1."""

    name: str
    folder: Path
    source_half: Sequences | Pictures
    reference_half: Sequences
    groups: NDArray[np.int64]
    tokenizer: ModelTokenizer | None = None  # the model's own, where it has one

    @classmethod
    def open(cls, folder: Path, name: str, pictures: bool = False, tokenizer: ModelTokenizer | None = None) -> "Split":
        """A split of a prepared folder, mapped into memory."""
        stem, references = folder / f"{name}.source", folder / f"{name}.references"
        fill, eos = (EOS, EOS) if tokenizer is None else (ABSENT, tokenizer.alphabet.eos)
        sources = Pictures(open_array(with_suffix(stem, FEATURES))) if pictures else Sequences.open(stem, fill)
        groups = open_array(with_suffix(references, "groups.npy"))
        return cls(name, folder, sources, Sequences.open(references, eos), groups, tokenizer)

    def __len__(self) -> int:
        return len(self.source_half)

    @property
    def pictures(self) -> bool:
        """Whether the sources are pictures."""
        return isinstance(self.source_half, Pictures)

    @property
    def source_lengths(self) -> NDArray[np.int64]:
        """Words of each source."""
        return self.source_half.lengths

    @property
    def reference_lengths(self) -> NDArray[np.int64]:
        """Words of each reference, of all examples one after another."""
        return self.reference_half.lengths

    def reference_text(self, index: int) -> Known:
        """The references of one example in words, as evaluation needs them: unknown words as they were."""
        example = self.example(index)
        return Known([text.split() for text in example.references], example.source)

    def reference_texts(self) -> Iterator[Known]:
        """The references of every example in words, one example after another."""
        pairs = zip(written_lines(self._reference_file), self.plain_sources(), strict=True)
        return (Known(_words(line), source) for line, source in pairs)

    def source_texts(self) -> Iterator[list[str]]:
        """Every source in words."""
        return (text.split() for text in self.plain_sources())

    def plain_sources(self) -> Iterator[str]:
        """Every source as text."""
        return (self._source(line) for line in written_lines(self._source_file))

    def example(self, index: int) -> Example:
        """One example in plain text."""
        source = _line(self._source_file, self._source_starts[index]).decode().removesuffix("\n")
        return Example(self._source(source), json.loads(_line(self._reference_file, self._reference_starts[index])))

    def _source(self, line: str) -> str:
        return line if self.tokenizer is None else str(json.loads(line))

    @property
    def _source_file(self) -> Path:
        return self.folder / f"{self.name}.source.txt"

    @property
    def _reference_file(self) -> Path:
        return self.folder / f"{self.name}.references.txt"

    @cached_property
    def _source_starts(self) -> list[int]:
        return _starts(self._source_file)

    @cached_property
    def _reference_starts(self) -> list[int]:
        return _starts(self._reference_file)


def _words(line: str | bytes) -> list[list[str]]:
    return [reference.split() for reference in json.loads(line)]


def _line(path: Path, start: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.readline()


def _starts(path: Path) -> list[int]:
    """Where each line of a file begins."""
    with path.open("rb") as file:
        lengths = [len(line) for line in file]
    return np.concatenate([[0], np.cumsum(lengths)[:-1]]).tolist()


@dataclass(frozen=True)
class Prepared:
    """An opened folder."""

    folder: Path
    manifest: Manifest
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    tokenizer: ModelTokenizer | None = None  # the model's own, where it has one

    @classmethod
    def open(cls, folder: Path, check: bool = True) -> "Prepared":
        """Open a prepared folder; `check` compares every file with its checksum."""
        manifest = Manifest.load(folder)
        for name, expected in manifest.files.items() if check else ():
            check_file(folder / name, expected, AGAIN)
        if manifest.options.text.tokenizer:
            tokenizer = ModelTokenizer.load(folder / TOKENIZER, manifest.options.text.tokenizer == "chat")
            return cls(folder, manifest, tokenizer.vocabulary, tokenizer.vocabulary, tokenizer)
        source, target = (Vocabulary.load(folder / f"{side}.vocab") for side in ("source", "target"))
        return cls(folder, manifest, source, target)

    @property
    def checksum(self) -> str:
        """SHA-256 of the manifest, and so of the whole folder."""
        return checksum(self.folder / MANIFEST)

    @property
    def content(self) -> str:
        """SHA-256 of what the files hold, in whatever way they were asked for."""
        return hashlib.sha256(json.dumps(self.manifest.files, sort_keys=True).encode()).hexdigest()

    def about(self) -> Json:
        """What results say of their data: figures of different data are not put into one table."""
        manifest = self.manifest
        return {
            "name": self.folder.name,
            "checksum": self.checksum,
            "content": self.content,
            "vocabulary": [manifest.source_vocabulary, manifest.target_vocabulary],
            "examples": {name: counts.examples for name, counts in manifest.splits.items()},
        }

    def split(self, name: str) -> Split:
        """A split by its name."""
        if name not in self.manifest.splits:
            there = ", ".join(self.manifest.splits)
            raise UserError(f"{self.folder} has no split {name!r}: choose one of {there}.")
        return Split.open(self.folder, name, self.pictures, self.tokenizer)

    @property
    def alphabet(self) -> Alphabet:
        """The ids that a model of these data predicts."""
        return Alphabet(len(self.target_vocabulary)) if self.tokenizer is None else self.tokenizer.alphabet

    @property
    def pictures(self) -> bool:
        """Whether the task is captioning."""
        return self.manifest.picture_width > 0

    @property
    def checksums(self) -> dict[str, str]:
        """Of both vocabularies, which a trained network depends on; pictures have a width instead."""
        if self.tokenizer is not None:
            return {"source": self.tokenizer.checksum, "target": self.tokenizer.checksum}
        width = self.manifest.picture_width
        source = f"pictures of {width} features" if self.pictures else self.source_vocabulary.checksum
        return {"source": source, "target": self.target_vocabulary.checksum}

    def cut(self, sentence: str) -> list[str]:
        """A sentence of the source language as the source vocabulary's words, cut as the corpus was."""
        if self.tokenizer is not None:
            return self.read_as(self.tokenizer.prompt(sentence))
        words, pieces = self._source_tokenizer(sentence), self._source_pieces
        return words if pieces is None else pieces.cut(words)

    def read_as(self, prepared_source: str) -> list[str]:
        """A source of these data, as it was prepared, in the words of the source vocabulary."""
        if self.tokenizer is not None:
            return self.tokenizer.pieces(self.tokenizer.source_ids(prepared_source))
        words, pieces = prepared_source.split(), self._source_pieces
        return words if pieces is None else pieces.cut(words)

    def reference_words(self, sentence: str) -> list[str]:
        """A sentence of the target language as words to score against, cut as the corpus was, but into no pieces."""
        options = self.manifest.options.text
        return tokenizer(options, options.target_language)(sentence)

    def target_ids(self, words: list[str]) -> list[int]:
        """Ids of words of the target language, without eos; they are cut into pieces where the corpus was."""
        if self.tokenizer is not None:
            return self.tokenizer.target_ids(" ".join(words))
        pieces = self._target_pieces
        return self.target_vocabulary.encode(words if pieces is None else pieces.cut(words))

    def words(self, ids: Iterable[int]) -> list[str]:
        """Predicted ids as words, up to the first eos; pieces are joined."""
        if self.tokenizer is not None:
            return self.tokenizer.text(ids).split()
        return self.join(self.target_vocabulary.decode(ids))

    def join(self, words: list[str]) -> list[str]:
        """Words of the target vocabulary as words to read: pieces are joined."""
        if self.tokenizer is not None:
            return self.words(self.target_vocabulary.encode(words))
        return words if self._target_pieces is None else self._target_pieces.join(words)

    def spell(self, ids: Sequence[int]) -> str:
        """Predicted ids as a text, given as rewards have them: in the alphabet of words, without eos."""
        own = [self._from_words[number] for number in ids]
        return " ".join(self.words(own)) if self.tokenizer is None else self.tokenizer.text(own)

    def spell_source(self, ids: Sequence[int]) -> str:
        """Ids of a source as the text that they were made of, if it is one of these data, else as they say it."""
        if self.tokenizer is None:
            words = self.source_vocabulary.decode(ids)
            return " ".join(words if self._source_pieces is None else self._source_pieces.join(words))
        return self._sources.get(tuple(ids)) or self.tokenizer.text(ids)

    @cached_property
    def _from_words(self) -> list[int]:
        """The own id of each id of the alphabet of words."""
        return self.alphabet.from_words(torch.arange(self.alphabet.size)).tolist()

    @cached_property
    def _sources(self) -> dict[tuple[int, ...], str]:
        """The text of every source by its ids."""
        assert self.tokenizer is not None
        texts = (text for name in self.manifest.splits for text in self.split(name).plain_sources())
        return {tuple(self.tokenizer.source_ids(text)): text for text in texts}

    def sentence(self, words: list[str]) -> str:
        """Predicted words as a line to read."""
        options = self.manifest.options.text
        return detokenize(words, options, options.target_language)

    @cached_property
    def _source_tokenizer(self) -> Cut:
        options = self.manifest.options.text
        return tokenizer(options, options.source_language)

    @cached_property
    def _source_pieces(self) -> Pieces | None:
        return self._pieces("source")

    @cached_property
    def _target_pieces(self) -> Pieces | None:
        return self._pieces("target")

    def _pieces(self, side: str) -> Pieces | None:
        return Pieces((self.folder / f"{side}.bpe").read_bytes()) if self.manifest.options.text.bpe else None
