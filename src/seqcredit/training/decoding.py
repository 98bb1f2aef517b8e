"""From a network and a split to output texts."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

from seqcredit.data.batches import collate, from_sentences, sequential_batches, to_device
from seqcredit.data.prepared import Prepared, Split
from seqcredit.errors import UserError
from seqcredit.models.policy import M, Network, Policy, S, evaluating
from seqcredit.search import Guide, beam, greedy, replace_unknown
from seqcredit.types import Json


class Search(NamedTuple):
    """How to decode."""

    width: int = 1
    bound: int = 101  # eos included
    length_penalty: float = 0.0
    replace_unknown: bool = False
    batch_size: int = 100
    guide: Network | None = None  # a critic that reads the source, whose Q is added to the score of a continuation
    guide_weight: float = 0.0
    raw: bool = False  # by scores of the last word, as the phase that trained the model wants it

    def said(self) -> Json:
        """How it was searched, for a result."""
        asked = self._asdict()
        known = {"guide_weight": asked.pop("guide") is not None, "raw": self.raw}
        return {key: value for key, value in asked.items() if known.get(key, True)}


@torch.no_grad()
def decode(
    model: Network, prepared: Prepared, split: Split, search: Search, device: torch.device | str = "cpu"
) -> list[list[str]]:
    """The best translation of each example, in the split's order; a critic reads the references."""
    batches, restore = sequential_batches(split, search.batch_size)
    words: list[list[str]] = []
    with evaluating(model):
        for pairs in batches:
            batch = to_device(collate(split, pairs), device)
            words += search_in(model, prepared, model.read(batch), batch.source, search)
    return [words[place] for place in restore]


def translate(model: Network, prepared: Prepared, source: torch.Tensor, search: Search) -> list[list[str]]:
    """The best translation of each sentence of a batch."""
    return search_in(model, prepared, model.encode(source), source, search)


def search_in(
    model: Policy[M, S], prepared: Prepared, memory: M, source: torch.Tensor, search: Search
) -> list[list[str]]:
    """The best sequence for each row of what a model has read."""
    _check(prepared, search)
    vocabulary = prepared.target_vocabulary
    if search.width == 1 and not search.replace_unknown and search.guide is None:
        return [prepared.words(ids) for ids in greedy(model, memory, search.bound).tolist()]
    best = beam(model, memory, search.bound, search.width, 1, search.length_penalty, _guide(search, source), search.raw)
    found = [vocabulary.decode(ids) for ids in best.tokens[:, 0].tolist()]
    if not search.replace_unknown:
        return [prepared.join(words) for words in found]
    sources = [prepared.source_vocabulary.decode(ids) for ids in source.tolist()]
    rows = zip(best.tokens[:, 0].tolist(), found, best.attended[:, 0].tolist(), sources, strict=True)
    return [prepared.join(replace_unknown(*row)) for row in rows]


def n_best(
    model: Network, prepared: Prepared, sentence: str, search: Search, count: int, device: torch.device | str = "cpu"
) -> list[tuple[list[str], float]]:
    """The best translations of one sentence as words, each with its log-probability."""
    cut = prepared.cut(sentence)
    source = from_sentences([cut], prepared).source.to(device)
    return best_of(model, prepared, source, search, count, cut)


@torch.no_grad()
def best_of(
    model: Network, prepared: Prepared, source: torch.Tensor, search: Search, count: int, cut: Sequence[str] = ()
) -> list[tuple[list[str], float]]:
    """The best results for a batch of one source, which is `cut` into words if it is a sentence."""
    _check(prepared, search)
    how = count, search.length_penalty, _guide(search, source), search.raw
    found = beam(model, model.encode(source), search.bound, search.width, *how)
    results = []
    columns = (column[0].tolist() for column in (found.tokens, found.attended, found.logp))
    for tokens, attended, logp in zip(*columns, strict=True):
        words = prepared.target_vocabulary.decode(tokens)
        words = replace_unknown(tokens, words, attended, list(cut)) if search.replace_unknown else words
        if logp > -math.inf:
            results.append((prepared.join(words), logp))
    return results


def _guide(search: Search, source: torch.Tensor) -> Guide | None:
    """The guide of a search, which has read the sources."""
    critic = search.guide
    return None if critic is None else Guide(critic, critic.encode(source), search.guide_weight)


def _check(prepared: Prepared, search: Search) -> None:
    if search.replace_unknown and prepared.tokenizer is not None:
        raise UserError("A model with a tokenizer of its own writes no unknown words: leave out --replace-unknown.")
    if search.replace_unknown and prepared.pictures:
        raise UserError("A picture has no words to put in the place of unknown ones: leave out --replace-unknown.")
