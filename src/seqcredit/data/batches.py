"""Batches of sentences of similar length, in an order that depends only on seed and epoch.

A row of a batch is a pair: a reference with its source. Pairs are counted as the references are, so that where every
example has one reference, pair i is example i. Pictures are an exception in two ways: they have no length, and a batch
is a number of pictures, each with all of its captions.

Two orders. By sources alone, references of all lengths meet: no batch teaches only when to stop, but where an example
has several references that say what they like, most of a batch is padding. By both, references of like length meet, the
longest at most a third longer than the shortest.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from seqcredit.data.prepared import Prepared, Split
from seqcredit.errors import require
from seqcredit.types import ABSENT, Batch, pad, pad_open, pad_references

WINDOW = 50  # batches that are sorted by the lengths of sources together
ALIKE = 1.35  # tokens of the longest reference of a class over those of the shortest

Indices = NDArray[np.int64]
SortBy = Literal["source", "both"]


class Sequential(NamedTuple):
    """Batches for evaluation. With the results of all batches in one list, `results[restore[i]]` is example i's."""

    batches: list[Indices]
    restore: Indices


def epoch_batches(
    split: Split, batch_size: int, seed: int, epoch: int, sort_by: SortBy = "source", tokens: int = 0
) -> list[Indices]:
    """The pairs of each batch of an epoch, every pair once; every batch but one is full.

    With `tokens` a batch is full when another pair would give it more places than that, padding included.
    """
    rng = np.random.default_rng([seed, epoch])
    if split.pictures:
        check(split, sort_by, tokens)
        return [_captions(split, chunk) for chunk in chunks(rng.permutation(len(split)), batch_size)]
    rows = rng.permutation(len(split.reference_lengths))
    sources = split.source_lengths[examples(split, rows)]
    if sort_by == "both":
        return _by_both(rows, sources, split.reference_lengths[rows], batch_size, tokens, rng)
    batches: list[Indices] = []
    for start in range(0, len(rows), WINDOW * batch_size):
        window = slice(start, start + WINDOW * batch_size)
        # By sources alone: references of one length would teach when to stop, in turns.
        order = np.argsort(sources[window], kind="stable")
        batches += chunks(rows[window][order], batch_size)
    return [batches[number] for number in rng.permutation(len(batches))]


def _by_both(
    rows: Indices, sources: Indices, references: Indices, size: int, tokens: int, rng: np.random.Generator
) -> list[Indices]:
    """Pairs in classes of like references, there by their sources; those that are alike in both are in any order.

    Where token budgets cut does not depend on that order, so that every epoch has as many batches.
    """
    kind = np.floor(np.log(references + 1) / np.log(ALIKE)).astype(np.int64)
    order = np.lexsort((sources, kind))
    if tokens:
        longest = np.zeros(kind.max() + 1, np.int64)
        np.maximum.at(longest, kind, references)
        cuts = _fill(sources[order] + 1, longest[kind[order]] + 1, tokens)
    else:
        sizes = np.full(-(-len(rows) // size), size)
        # The batch that is not full is any of them: its pairs count for more.
        sizes[rng.integers(len(sizes))] -= -len(rows) % size
        cuts = sizes.cumsum()[:-1].tolist()
    batches = np.split(rows[order], cuts)
    return [batches[number] for number in rng.permutation(len(batches))]


def _fill(sources: Indices, references: Indices, tokens: int) -> list[int]:
    """Where batches begin, but for the first: each takes as many pairs as fit, and one at the least."""
    cuts, start, read, written = list[int](), 0, 0, 0
    for row, (source, reference) in enumerate(zip(sources.tolist(), references.tolist(), strict=True)):
        read, written = max(read, source), max(written, reference)
        if row > start and (read + written) * (row + 1 - start) > tokens:
            cuts.append(row)
            start, read, written = row, source, reference
    return cuts


def check(split: Split, sort_by: SortBy, tokens: int) -> None:
    """Pictures have no length to sort by, and their batches are counted."""
    why_not = "a picture has no length, and a batch is a number of pictures: leave sort_by and batch_tokens out."
    require(not split.pictures or (sort_by == "source" and not tokens), why_not)


def _captions(split: Split, pictures: Indices) -> Indices:
    """The pairs of some pictures, side by side."""
    return np.concatenate([np.arange(split.groups[number], split.groups[number + 1]) for number in pictures])


def sequential_batches(split: Split, batch_size: int) -> Sequential:
    """Every example once, the longest sources first: if the memory does not suffice, that shows at once."""
    order = np.argsort(-split.source_lengths, kind="stable")
    return Sequential(chunks(np.asarray(split.groups[:-1])[order], batch_size), np.argsort(order))


def collate(split: Split, pairs: Indices) -> Batch:
    """The pairs as one batch: each source, and its references with the pair's own first."""
    rows = examples(split, pairs)
    return Batch(torch.from_numpy(split.source_half.padded(rows)), torch.from_numpy(_references(split, pairs, rows)))


def _references(split: Split, pairs: Indices, rows: Indices) -> NDArray[np.int64]:
    """(B, R, L): the pair's own reference, then the example's others in their order, then ABSENT."""
    first, count = split.groups[rows][:, None], (split.groups[rows + 1] - split.groups[rows])[:, None]
    own, column = pairs[:, None] - first, np.arange(count.max())
    number = first + np.where(column == 0, own, column - (column <= own))
    present = column < count
    tokens = split.reference_half.padded(np.where(present, number, first))
    return np.where(present[..., None], tokens, ABSENT)


class Loader:
    """Puts batches on a device, each while the one before it is used."""

    def __init__(self, split: Split, device: torch.device | str) -> None:
        self._split, self._device = split, torch.device(device)
        self._pool = ThreadPoolExecutor(1)
        self._ahead: tuple[Indices, Future[Batch]] | None = None

    def get(self, pairs: Indices, following: Indices | None = None) -> Batch:
        """The batch of `pairs`, while that of `following` is begun."""
        announced = self._ahead if self._ahead and self._ahead[0] is pairs else None
        batch = announced[1] if announced else self._pool.submit(self._load, pairs)
        self._ahead = None if following is None else (following, self._pool.submit(self._load, following))
        return batch.result()

    def _load(self, pairs: Indices) -> Batch:
        return to_device(collate(self._split, pairs), self._device)


def to_device(batch: Batch, device: torch.device | str) -> Batch:
    """A batch on another device; a GPU fetches it while the program goes on."""
    source, references = batch
    if torch.device(device).type == "cuda":
        source, references = source.pin_memory(), references.pin_memory()
    return Batch(source.to(device, non_blocking=True), references.to(device, non_blocking=True))


def from_sentences(sentences: Sequence[Sequence[str]], prepared: Prepared) -> Batch:
    """Sentences, cut as the corpus was, as one batch without references: (B, 0, 1)."""
    sources = [prepared.source_vocabulary.encode(words) for words in sentences]
    nothing = pad_references([[] for _ in sources])
    return Batch(pad(sources) if prepared.tokenizer is None else pad_open(sources), nothing)


def examples(split: Split, pairs: Indices) -> Indices:
    """The examples to which pairs belong."""
    return np.searchsorted(split.groups, pairs, side="right") - 1


def padding_ratio(split: Split, batches: Sequence[Indices], of: Literal["all", "references"] = "all") -> float:
    """Share of the places of all sentences, sources and own references, that follow the closing eos."""
    used, places = 0, 0
    for pairs in batches:
        sources = [] if split.pictures or of == "references" else [split.source_lengths[examples(split, pairs)]]
        for lengths in (*sources, split.reference_lengths[pairs]):
            used += int(lengths.sum()) + len(lengths)
            places += (int(lengths.max()) + 1) * len(lengths)
    return 1 - used / places


def count_tokens(split: Split, pairs: Indices) -> int:
    """Tokens of the own references of some pairs, eos included: what a step's cost is measured against."""
    return int(split.reference_lengths[pairs].sum()) + len(pairs)


def chunks(rows: Indices, size: int) -> list[Indices]:
    """Rows in their order, so many at a time."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]
