import dataclasses
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import stored
from seqcredit.algorithms import Mle
from seqcredit.data.batches import (
    Loader,
    check,
    collate,
    count_tokens,
    epoch_batches,
    examples,
    from_sentences,
    padding_ratio,
    sequential_batches,
)
from seqcredit.data.images import Features
from seqcredit.data.manifest import PrepareOptions
from seqcredit.data.prepare import prepare
from seqcredit.data.prepared import Prepared, Split
from seqcredit.data.text import Example, read_parallel
from seqcredit.data.vocabulary import Vocabulary
from seqcredit.errors import UserError
from seqcredit.types import pad, pad_references


@pytest.fixture
def split(several: Prepared) -> Split:
    return several.split("train")


def numbers(batches: list[np.ndarray]) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_every_pair_once_an_epoch(split: Split, size: int) -> None:
    batches = epoch_batches(split, size, seed=1, epoch=2)
    total = len(split.reference_lengths)
    assert sorted(np.concatenate(batches).tolist()) == list(range(total))
    assert sorted(len(batch) for batch in batches)[1:] == [size] * (len(batches) - 1)
    assert len(batches) == -(-total // size)


def test_order_is_a_function_of_seed_and_epoch(split: Split) -> None:
    orders = {(s, e): numbers(epoch_batches(split, 8, seed=s, epoch=e)) for s in range(3) for e in range(3)}
    for (s, e), order in orders.items():
        assert numbers(epoch_batches(split, 8, seed=s, epoch=e)) == order
    distinct = {str(order) for order in orders.values()}
    assert len(distinct) == len(orders)
    # Not only the order of the batches changes, but which sentences meet.
    assert len({str(sorted(map(sorted, order))) for order in orders.values()}) == len(orders)


def test_batches_are_of_like_source_length_and_in_no_order_of_length(split: Split) -> None:
    batches = epoch_batches(split, 8, seed=0, epoch=0)
    # All pairs lie in one window, and so the batches' ranges of lengths do not overlap.
    lengths = [split.source_lengths[examples(split, batch)] for batch in batches]
    ranges = [(inside.min(), inside.max()) for inside in lengths]
    ordered = sorted(ranges)
    assert all(a[1] <= b[0] for a, b in pairwise(ordered))
    assert ranges != ordered
    assert ranges != ordered[::-1]


def test_sorting_leaves_less_padding(split: Split) -> None:
    rows = np.random.default_rng(0).permutation(len(split.reference_lengths))
    random = [rows[i : i + 8] for i in range(0, len(rows), 8)]
    assert padding_ratio(split, epoch_batches(split, 8, 0, 0)) < 0.6 * padding_ratio(split, random)


def test_padding_ratio_counts_what_follows_eos(split: Split) -> None:
    batches = epoch_batches(split, 8, 0, 0)
    used, places = 0, 0
    for batch in batches:
        source = [stored.source(split, i) for i in examples(split, batch).tolist()]
        own = [stored.sequence(split.reference_half, i) for i in batch.tolist()]
        for side in (source, own):
            used += sum(len(words) + 1 for words in side)
            places += pad(side).numel()
    assert padding_ratio(split, batches) == pytest.approx(1 - used / places)
    assert padding_ratio(split, epoch_batches(split, 1, 0, 0)) == 0


def test_collate_is_padding_with_the_own_reference_first(split: Split) -> None:
    for pairs in epoch_batches(split, 9, seed=3, epoch=0):
        batch = collate(split, pairs)
        rows = examples(split, pairs).tolist()
        groups = []
        for pair, row in zip(pairs.tolist(), rows, strict=True):
            references = stored.references(split, row)
            own = references.pop(pair - int(split.groups[row]))
            groups.append([own, *references])
        assert torch.equal(batch.source, pad([stored.source(split, row) for row in rows]))
        assert torch.equal(batch.references, pad_references(groups))
        assert batch.source.dtype == batch.references.dtype == torch.int64


def test_collate_by_hand(tmp_path: Path) -> None:
    data = [Example("a b", ["x", "y y", "z"]), Example("b", ["y"])]
    prepare({"train": data}, tmp_path / "out", PrepareOptions())
    split = Prepared.open(tmp_path / "out").split("train")  # b a = 2 3, y x z = 2 3 4
    batch = collate(split, np.array([1, 3]))
    assert batch.source.tolist() == [[3, 2, 0], [2, 0, 0]]
    assert batch.references.tolist() == [
        [[2, 2, 0], [3, 0, 0], [4, 0, 0]],
        [[2, 0, 0], [-1, -1, -1], [-1, -1, -1]],
    ]
    assert collate(split, np.array([3])).references.tolist() == [[[2, 0]]]


@pytest.mark.parametrize("size", [1, 6, 500])
def test_sequential_batches_and_back(split: Split, size: int) -> None:
    batches, restore = sequential_batches(split, size)
    assert max(map(len, batches)) <= size
    rows = np.concatenate(batches)
    lengths = split.source_lengths[examples(split, rows)]
    assert (np.diff(lengths) <= 0).all()
    results = examples(split, rows)
    assert results[restore].tolist() == list(range(len(split)))
    # One row an example, whose references stand in their own order.
    first = collate(split, batches[0])
    row = int(examples(split, batches[0])[0])
    words = stored.references(split, row)
    width = first.references.shape[-1]
    assert first.references[0, : len(words)].tolist() == pad(words, width).tolist()


def test_typed_sentences(several: Prepared) -> None:
    prepared = dataclasses.replace(several, source_vocabulary=Vocabulary(("</s>", "<unk>", "a", "b")))
    batch = from_sentences([["b", "a", "x"], [], ["</s>"]], prepared)
    assert batch.source.tolist() == [[3, 2, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]]
    assert batch.references.shape == (3, 0, 1)


def test_batch_size_is_positive() -> None:
    with pytest.raises(UserError, match=r"^Mle: batch_size is 0, but it must be 1 or more\.$"):
        Mle("mle", 0.1, batch_size=0)


WORDS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=6).map(" ".join)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(WORDS, st.lists(WORDS, min_size=1, max_size=3)), min_size=1, max_size=12), st.integers(1, 5))
def test_batches_hold_the_corpus(
    tmp_path_factory: pytest.TempPathFactory, corpus: list[tuple[str, list[str]]], size: int
) -> None:
    """Text -> ids -> batches -> text: every pair comes back, once."""
    data = [Example(source, references) for source, references in corpus]
    folder = tmp_path_factory.getbasetemp() / "corpus"
    prepare({"train": data}, folder, PrepareOptions(), overwrite=True)
    prepared = Prepared.open(folder)
    split, found = prepared.split("train"), []
    for pairs in epoch_batches(split, size, 0, 0):
        batch = collate(split, pairs)
        for source, references in zip(batch.source.tolist(), batch.references.tolist(), strict=True):
            words = prepared.source_vocabulary.decode(source), prepared.words(references[0])
            found.append((" ".join(words[0]), " ".join(words[1])))
    assert sorted(found) == sorted((source, reference) for source, group in corpus for reference in group)


@pytest.mark.slow
def test_multi30k_has_little_padding(real_data: Path, tmp_path: Path) -> None:
    folder = real_data / "multi30k"
    data = read_parallel(folder / "train.de", folder / "train.en")
    prepare({"train": data}, tmp_path / "out", PrepareOptions(min_count=3))
    split = Prepared.open(tmp_path / "out").split("train")
    assert padding_ratio(split, epoch_batches(split, 50, 0, 0)) < 0.2


def test_a_loader_gives_every_batch_whether_it_was_announced_or_not(split: Split) -> None:
    loader, batches = Loader(split, "cpu"), epoch_batches(split, 8, 0, 0)
    for pairs, following in zip(batches, [batches[1], None, batches[0]], strict=False):
        batch, expected = loader.get(pairs, following), collate(split, pairs)
        assert torch.equal(batch.source, expected.source)
        assert torch.equal(batch.references, expected.references)


# References that say what they like.


@pytest.fixture(scope="module")
def free(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """600 examples with three references each, whose lengths have nothing to do with that of the source."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("free")

    def sentence() -> str:
        return "a " * int(np.clip(rng.normal(13, 5), 1, 40))

    examples = [Example(sentence(), [sentence() for _ in range(3)]) for _ in range(600)]
    prepare({"train": examples}, folder / "data", PrepareOptions())
    return Prepared.open(folder / "data").split("train")


BOTH: list[dict[str, Any]] = [{"sort_by": "both"}, {"sort_by": "both", "tokens": 500}]


def test_sorting_by_both_leaves_little_padding_of_references(free: Split) -> None:
    by_source = padding_ratio(free, epoch_batches(free, 20, 1, 0), "references")
    by_both = [padding_ratio(free, epoch_batches(free, 20, 1, 0, **how), "references") for how in BOTH]
    assert by_source > 0.4
    assert max(by_both) < 0.15


def test_padding_of_references_by_hand(pictures: Split, free: Split) -> None:
    assert padding_ratio(pictures, [np.array([3, 4, 5])], "references") == pytest.approx(1 - (3 + 4 + 5) / 15)
    batches = epoch_batches(free, 20, 1, 0)
    wide = sum(len(batch) * (int(free.reference_lengths[batch].max()) + 1) for batch in batches)
    used = int(free.reference_lengths.sum()) + len(free.reference_lengths)
    assert padding_ratio(free, batches, "references") == pytest.approx(1 - used / wide)
    assert sum(count_tokens(free, batch) for batch in batches) == used


@pytest.mark.parametrize("how", BOTH)
def test_every_pair_once_an_epoch_in_as_many_batches_by_both(free: Split, how: dict[str, Any]) -> None:
    epochs = [epoch_batches(free, 17, 3, epoch, **how) for epoch in range(4)]
    for batches in epochs:
        assert sorted(np.concatenate(batches).tolist()) == list(range(1800))
        assert len(batches) == len(epochs[0])
        # References of one length alone would teach when to stop, in turns.
        assert np.mean([np.ptp(free.reference_lengths[batch]) for batch in batches]) > 2
    assert numbers(epochs[0]) == numbers(epoch_batches(free, 17, 3, 0, **how))
    assert len({str(sorted(map(sorted, numbers(batches)))) for batches in epochs}) == 4


def test_all_batches_by_both_are_full_but_for_any_one(free: Split) -> None:
    lasts = []
    for epoch in range(40):
        batches = epoch_batches(free, 17, 3, epoch, sort_by="both")
        (short,) = (batch for batch in batches if len(batch) < 17)
        assert len(short) == 1800 % 17
        lasts.append(free.reference_lengths[short].mean())
    assert abs(np.mean(lasts) - free.reference_lengths.mean()) < 3 * np.std(lasts) / np.sqrt(40)


@pytest.mark.parametrize("how", BOTH)
def test_batches_by_both_come_in_no_order_of_length(free: Split, how: dict[str, Any]) -> None:
    """So that a phase which ends within an epoch has seen sentences of all lengths alike."""
    firsts = []
    for epoch in range(40):
        batches = epoch_batches(free, 17, 3, epoch, **how)
        firsts.append(free.reference_lengths[batches[0]].mean())
    spread = free.reference_lengths.std() + 1
    assert abs(np.mean(firsts) - free.reference_lengths.mean()) < 3 * spread / np.sqrt(40)


@pytest.mark.parametrize("tokens", [60, 500, 3000])
def test_a_budget_of_tokens_is_kept_and_used(free: Split, tokens: int) -> None:
    batches = epoch_batches(free, 1, 0, 0, sort_by="both", tokens=tokens)
    places = []
    for batch in batches:
        shape = collate(free, batch).source.shape[1], int(free.reference_lengths[batch].max()) + 1
        places.append(len(batch) * sum(shape))
        assert places[-1] <= tokens or len(batch) == 1
    if tokens >= 500:
        assert np.mean(places) > 0.8 * tokens


def test_pictures_are_not_sorted(pictures: Split) -> None:
    for how in BOTH:
        with pytest.raises(UserError, match="a picture has no length"):
            epoch_batches(pictures, 2, 0, 0, **how)
    check(pictures, "source", 0)


# Pictures.


@pytest.fixture
def pictures(tmp_path: Path) -> Split:
    """Seven pictures with one to three captions each."""
    examples = [Example(f"{n}.jpg", [f"a b {'c ' * k}" for k in range(1 + n % 3)]) for n in range(7)]
    seen = Features([f"{n}.jpg" for n in range(7)], np.arange(21, dtype=np.float16).reshape(7, 3))
    prepare({"train": examples}, tmp_path / "pictures", PrepareOptions(), features=seen)
    return Prepared.open(tmp_path / "pictures").split("train")


def test_a_batch_is_of_whole_pictures_side_by_side(pictures: Split) -> None:
    batches = epoch_batches(pictures, 2, seed=1, epoch=0)
    assert [len(set(examples(pictures, rows).tolist())) for rows in batches] == [2, 2, 2, 1]
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(pictures.reference_lengths)))
    for rows in batches:
        assert sum(a != b for a, b in pairwise(examples(pictures, rows))) < 2
    assert numbers(batches) != numbers(epoch_batches(pictures, 2, seed=1, epoch=1))


def test_the_source_of_a_caption_is_the_features_of_its_picture(pictures: Split) -> None:
    batch = collate(pictures, np.array([3, 4, 5, 0]))  # all captions of picture 2, the one of picture 0
    assert batch.source.tolist() == [[6, 7, 8]] * 3 + [[0, 1, 2]]
    assert batch.source.dtype == torch.float32
    assert batch.references.shape[1] == 3


def test_padding_of_captions_alone(pictures: Split) -> None:
    assert padding_ratio(pictures, [np.array([3, 4, 5])]) == pytest.approx(1 - (3 + 4 + 5) / 15)
