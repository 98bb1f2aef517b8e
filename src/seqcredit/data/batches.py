"""Batches of sentences of like length, in an order that is a function of seed and epoch.

A row of a batch is a pair: a reference with its source. Pairs are counted as the references are, so that where every
example has one reference, pair i is example i. Pictures are an exception in two ways: they have no length, and a batch
is a number of pictures, each with all of its captions.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from seqcredit.data.prepared import Prepared, Split
from seqcredit.types import ABSENT, Batch, pad, pad_open, pad_references

WINDOW = 50  # batches that are sorted by length together

Indices = NDArray[np.int64]


class Sequential(NamedTuple):
    """Batches for evaluation. With the results of all batches in one list, `results[restore[i]]` is example i's."""

    batches: list[Indices]
    restore: Indices


def epoch_batches(split: Split, batch_size: int, seed: int, epoch: int) -> list[Indices]:
    """The pairs of each batch of an epoch, every pair once; every batch but one is full."""
    rng = np.random.default_rng([seed, epoch])
    if split.pictures:
        return [_captions(split, chunk) for chunk in chunks(rng.permutation(len(split)), batch_size)]
    rows = rng.permutation(len(split.reference_lengths))
    sources = split.source_lengths[examples(split, rows)]
    batches: list[Indices] = []
    for start in range(0, len(rows), WINDOW * batch_size):
        window = slice(start, start + WINDOW * batch_size)
        # By sources alone: references of one length would teach when to stop, in turns.
        order = np.argsort(sources[window], kind="stable")
        batches += chunks(rows[window][order], batch_size)
    return [batches[number] for number in rng.permutation(len(batches))]


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


def padding_ratio(split: Split, batches: Sequence[Indices]) -> float:
    """Share of the places of all sentences, sources and own references, that follow the closing eos."""
    used, places = 0, 0
    for pairs in batches:
        sources = [] if split.pictures else [split.source_lengths[examples(split, pairs)]]
        for lengths in (*sources, split.reference_lengths[pairs]):
            used += int(lengths.sum()) + len(lengths)
            places += (int(lengths.max()) + 1) * len(lengths)
    return 1 - used / places


def chunks(rows: Indices, size: int) -> list[Indices]:
    """Rows in their order, so many at a time."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]
