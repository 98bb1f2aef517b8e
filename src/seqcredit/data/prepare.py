"""From raw text to a prepared folder, in two passes of which neither holds the corpus in memory."""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from seqcredit.data.images import Features
from seqcredit.data.manifest import FORMAT, Manifest, PrepareOptions, SplitCounts
from seqcredit.data.prepared import FEATURES
from seqcredit.data.storage import (
    MANIFEST,
    OFFSETS,
    checksum,
    growing_array,
    new_folder,
    write_sequences,
    written_lines,
)
from seqcredit.data.text import BPE_SENTENCES, Example, Pieces, learn_pieces, tokenizer
from seqcredit.data.vocabulary import SYMBOLS, Vocabulary
from seqcredit.errors import UserError, require
from seqcredit.types import FIRST_WORD, UNK

Encode = Callable[[list[str]], list[int]]
Words = tuple[int, int]  # of one half of a split: how many there are, and how many of them are unknown


def prepare(
    splits: Mapping[str, Iterable[Example]],
    out: Path,
    options: PrepareOptions,
    overwrite: bool = False,
    features: Features | None = None,
    vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
) -> Manifest:
    """Write a prepared folder from the splits' examples, which are gone through once.

    The folder appears whole or not at all. Vocabularies, and pieces of words, are learned from the split "train". With
    `features` the examples' sources are names of pictures; with `vocabularies`, those of a network that is trained
    already, none are learned.
    """
    _check_names(splits)
    with new_folder(out, overwrite) as folder:
        kept = {name: _write_words(folder, name, examples, options, features) for name, examples in splits.items()}
        wordless = None if features is None else Vocabulary(SYMBOLS)
        known = vocabularies or (wordless, None)
        source, encode_source = _learn(folder, "source", "source", options, known[0])
        target, encode_reference = _learn(folder, "target", "references", options, known[1])
        counts = {}
        for name, left in kept.items():
            if features is None:
                given, unknown = _write_ids(folder, name, "source", encode_source)
            else:
                given, unknown = _write_pictures(folder, name, features)
            words, missed = _write_ids(folder, name, "references", encode_reference)
            counts[name] = SplitCounts(
                **left,
                source_words=given,
                reference_words=words,
                unknown_source=unknown / max(1, given),
                unknown_references=missed / words,
            )
        files = {path.name: checksum(path) for path in sorted(folder.iterdir())}
        task, width = ("translation", 0) if features is None else ("captioning", features.array.shape[1])
        manifest = Manifest(FORMAT, task, options, len(source), len(target), counts, files, width)
        (folder / MANIFEST).write_bytes(manifest.text().encode())
    return manifest


def _check_names(splits: Mapping[str, Iterable[Example]]) -> None:
    require("train" in splits, 'There is no split "train" to learn the vocabulary from: add one.')
    for name in splits:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            raise UserError(f"{name!r} cannot be a part of a file's name: call the split by letters and digits.")


# First pass: words.


def _write_words(
    folder: Path, name: str, examples: Iterable[Example], options: PrepareOptions, features: Features | None
) -> dict[str, int]:
    """Cut the text into words, drop what is empty, too long or of a picture without features, write the rest down.

    What is left and what was dropped comes back, under the names of `SplitCounts`.
    """
    longest = _longest(name, options)
    cut_source = str.split if options.tokenized else tokenizer(options.text, options.text.source_language)
    cut_reference = str.split if options.tokenized else tokenizer(options.text, options.text.target_language)
    kept, pairs, empty, long, unseen = 0, 0, 0, 0, 0
    with (
        (folder / f"{name}.source.txt").open("w", encoding="utf-8", newline="\n") as sources,
        (folder / f"{name}.references.txt").open("w", encoding="utf-8", newline="\n") as references,
        growing_array(folder / f"{name}.references.groups.npy", OFFSETS) as firsts,
    ):
        firsts([0])
        for example in examples:
            if features is not None and example.source not in features.rows:
                unseen += 1
                continue
            # The name of a picture may hold spaces.
            source = [example.source] if features is not None else cut_source(example.source)
            group = [cut_reference(text) for text in example.references]
            full = [reference for reference in group if source and reference]
            short = [reference for reference in full if max(len(source), len(reference)) <= longest]
            empty += len(group) - len(full)
            long += len(full) - len(short)
            if short:
                kept += 1
                pairs += len(short)
                firsts([pairs])
                sources.write(" ".join(source) + "\n")
                references.write(json.dumps([" ".join(words) for words in short], ensure_ascii=False) + "\n")
    if not kept:
        pictures = f", and {unseen} pictures have no features" if features is not None else ""
        raise UserError(
            f"Nothing is left of the split {name!r}: {empty} pairs are empty and {long} are too long{pictures}."
        )
    dropped = {"dropped_empty": empty, "dropped_long": long, "dropped_unseen": unseen}
    return {"examples": kept, "references": pairs, **dropped}


def _longest(name: str, options: PrepareOptions) -> int:
    limits = (options.filter_all_splits, options.max_length if name == "train" else None)
    return min((limit for limit in limits if limit is not None), default=sys.maxsize)


def _sentences(folder: Path, name: str, half: str) -> Iterator[list[str]]:
    """The words of all sources, or of all references, one after another."""
    for line in written_lines(folder / f"{name}.{half}.txt"):
        yield from (text.split() for text in (json.loads(line) if half == "references" else [line]))


# Second pass: vocabularies and ids.


def _learn(
    folder: Path, side: str, half: str, options: PrepareOptions, given: Vocabulary | None
) -> tuple[Vocabulary, Encode]:
    """The vocabulary of one side, saved, and the way from words to ids; one that is given is not learned."""
    if given is not None:
        given.save(folder / f"{side}.vocab")
        return given, given.encode
    cut = _learn_pieces(folder, side, half, options.text.bpe)
    counts = Counter(word for words in _sentences(folder, "train", half) for word in cut(words))
    vocabulary = Vocabulary.build(counts, options.min_count, options.max_vocabulary)
    if len(vocabulary) == FIRST_WORD:
        raise UserError(
            f"No word of the {side} side occurs {options.min_count} times or more in training: lower min_count."
        )
    vocabulary.save(folder / f"{side}.vocab")
    return vocabulary, lambda words: vocabulary.encode(cut(words))


def _learn_pieces(folder: Path, side: str, half: str, size: int | None) -> Callable[[list[str]], list[str]]:
    """The way from words to pieces of words, whose model is saved; without `size` words stay whole."""
    if size is None:
        return lambda words: words
    step = 1 + sum(1 for _ in _sentences(folder, "train", half)) // BPE_SENTENCES
    sentences = (" ".join(words) for words in _sentences(folder, "train", half))
    model = learn_pieces(islice(sentences, 0, None, step), size)
    (folder / f"{side}.bpe").write_bytes(model)
    return Pieces(model).cut


def _write_ids(folder: Path, name: str, half: str, encode: Encode) -> Words:
    """One half of a split in ids."""
    total, unknown = 0, 0
    with write_sequences(folder / f"{name}.{half}") as append:
        for words in _sentences(folder, name, half):
            ids = encode(words)
            append(ids)
            total, unknown = total + len(ids), unknown + ids.count(UNK)
    return total, unknown


def _write_pictures(folder: Path, name: str, features: Features) -> Words:
    """Features of the pictures that are left, in their order."""
    rows = [features.rows[line] for line in written_lines(folder / f"{name}.source.txt")]
    shape = (len(rows), features.array.shape[1])
    out = open_memmap(folder / f"{name}.source.{FEATURES}", "w+", np.float16, shape)
    for start in range(0, len(rows), 1_000):
        out[start : start + 1_000] = features.array[rows[start : start + 1_000]]
    out.flush()
    return 0, 0
