"""What the credit page shows: sentences and images of a split, or typed ones, with each run's outputs."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from torch import Tensor

from seqcredit.data.batches import collate, from_sentences, to_device
from seqcredit.data.prepared import Prepared, Split
from seqcredit.errors import UserError, require
from seqcredit.experiments.runs import Run
from seqcredit.inspect.examiners import Examiner, load_examiners
from seqcredit.inspect.numbers import Credit, judge_tokens
from seqcredit.results.evaluate import hypotheses_file, read_hypotheses
from seqcredit.rewards.metrics import Words, sentence_bleu
from seqcredit.training.decoding import translate
from seqcredit.types import Batch, pad, pad_references

ENTRIES = 20_000_000  # of a (B, T, V) tensor at a time


class Subject(NamedTuple):
    """A source, its references, and what each run makes of it."""

    source: str
    references: list[str]
    credits: list[Credit]


def inspect_split(examiners: Sequence[Examiner], split: Split, count: int | None = None) -> list[Subject]:
    """The first sentences, or pictures, of a split."""
    return inspect_rows(examiners, split, range(len(split))[:count])


def inspect_rows(examiners: Sequence[Examiner], split: Split, rows: Sequence[int]) -> list[Subject]:
    """Sentences, or pictures, of a split, with the hypotheses that each run has written, or writes now."""
    known = [_written(examiner.run, split) for examiner in examiners]
    sources = [" ".join(words) for words in itertools.islice(split.source_texts(), max(rows, default=-1) + 1)]
    references = {row: split.reference_text(row) for row in rows}
    judged: list[list[Credit]] = []
    for part in _chunks(rows, len(examiners[0].prepared.target_vocabulary), known):
        batch = to_device(collate(split, np.asarray(split.groups[:-1])[part]), examiners[0].device)
        texts = [references[row] for row in part]
        found = []
        for examiner, written in zip(examiners, known, strict=True):
            hypotheses = _said(examiner, batch) if written is None else [written[row] for row in part]
            found.append(judge_words(examiner, batch, hypotheses, texts))
        judged += [list(one) for one in zip(*found, strict=True)]
    return [
        Subject(sources[row], [" ".join(words) for words in references[row]], each)
        for row, each in zip(rows, judged, strict=True)
    ]


def inspect_one(run: Run, prepared: Prepared, name: str, number: int, lender: Run | None = None) -> Subject:
    """One sentence of a split, counted from 1, with everything that a critic says of it."""
    split = prepared.split(name)
    require(1 <= number <= len(split), f"There is no sentence {number} in {name}: it has 1 to {len(split):,}.")
    examiners = load_examiners([run], prepared, lender)
    if examiners[0].critic is None:
        raise UserError(f"{run.folder} has no trained critic: give --critic RUN, a run of AC, ERAC or VAML.")
    return inspect_rows(examiners, split, [number - 1])[0]


def inspect_typed(examiners: Sequence[Examiner], source: str, references: Sequence[str]) -> Subject:
    """A sentence of the user's own; without references only probabilities and entropies can be told."""
    batch, texts = typed_batch(examiners[0], source, references)
    judged = []
    for examiner in examiners:
        judged += judge_words(examiner, batch, _said(examiner, batch), [texts])
    return Subject(source, list(references), judged)


def _said(examiner: Examiner, batch: Batch) -> list[list[str]]:
    """What a run makes of some sources."""
    return translate(examiner.actor, examiner.prepared, batch.source, examiner.search)


def typed_batch(examiner: Examiner, source: str, references: Sequence[str]) -> tuple[Batch, list[list[str]]]:
    """A batch of one sentence, cut as the corpus was, and the references in words."""
    prepared = examiner.prepared
    require(not prepared.pictures, f"{prepared.folder} holds pictures, not sentences: leave out --source.")
    batch = from_sentences([prepared.cut(source)], prepared)
    ids, texts = reference_ids(prepared, references)
    return to_device(Batch(batch.source, ids), examiner.device), texts


def reference_ids(prepared: Prepared, references: Sequence[str]) -> tuple[Int[Tensor, "1 R L"], list[list[str]]]:
    """References of one sentence as ids and in words."""
    texts = [prepared.reference_words(text) for text in references]
    return pad_references([[prepared.target_ids(words) for words in texts]], prepared.alphabet.eos), texts


def judge_words(
    examiner: Examiner, batch: Batch, hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]
) -> list[Credit]:
    """Credit of hypotheses in words; `references` are those of the batch, in words."""
    ids = [examiner.prepared.target_ids(list(words)) for words in hypotheses]
    tokens = pad(ids, eos=examiner.prepared.alphabet.eos).to(batch.source.device)
    pairs = zip(hypotheses, references, strict=True)
    bleus = [sentence_bleu(words, group) if group else None for words, group in pairs]
    return judge_tokens(examiner, batch, tokens, [" ".join(words) for words in hypotheses], bleus)


def _written(run: Run, split: Split) -> list[list[str]] | None:
    """The hypotheses of a run, if it has any."""
    if not hypotheses_file(run, split.name).exists():
        return None
    found = read_hypotheses(run, split.name)
    if len(found) != len(split):
        raise UserError(
            f"{hypotheses_file(run, split.name)} has {len(found)} lines and {split.name} has {len(split)} examples: "
            f"run `seqcredit evaluate {run.folder} --split {split.name}` again."
        )
    return found


def _chunks(rows: Sequence[int], actions: int, known: Sequence[list[list[str]] | None]) -> Iterator[list[int]]:
    """Rows that fit into memory together."""
    longest = max([40, *(len(words) for written in known for words in written or [])])
    step = max(1, min(64, ENTRIES // (actions * longest)))
    return (list(rows[start : start + step]) for start in range(0, len(rows), step))
