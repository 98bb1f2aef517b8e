"""Types that every part of seqcredit shares: alphabets, padding, references, batches and rewards.

The alphabet of words, which prepared text has, is chosen so that the action set of the paper, W = words + unk + eos, is
exactly `0 .. V-1`: 0 is eos, 1 is unk, words follow. A model with a tokenizer of its own has another `Alphabet`.

There is no id for padding: whatever follows the first eos is padding, and it is filled with eos. A model keeps bos to
itself. So neither padding nor bos can enter a softmax, a soft value, a mean over words or an entropy.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

EOS = 0
UNK = 1
FIRST_WORD = 2
ABSENT = -1  # fills a reference that a sentence does not have, where another sentence of the batch has more references
Context = Any  # what torch's own backward and forward hand to each other
Json = dict[str, Any]  # a table of JSON or TOML, whose values are checked where they are read


class Alphabet(NamedTuple):
    """The ids that a model predicts: which of them ends a sequence, and which may be chosen at all."""

    size: int
    eos: int = EOS
    unk: int | None = UNK  # None: there is no unknown word
    actions: Bool[Tensor, " V"] | None = None  # ids that may be chosen; None: all of them

    @classmethod
    def of(cls, given: "Alphabet | int") -> "Alphabet":
        """An alphabet as it is; of a number, that many words, eos and unk included."""
        return cls(given) if isinstance(given, int) else given

    def words(self, device: torch.device | str | None = None) -> Int[Tensor, " W"]:
        """Ids that may stand for a word: all actions but eos and unk."""
        chosen = torch.ones(self.size, dtype=torch.bool) if self.actions is None else self.actions.clone()
        chosen[[special for special in (self.eos, self.unk) if special is not None]] = False
        return chosen.nonzero().squeeze(1).to(device)

    def as_words(self, tokens: Int[Tensor, "*B T"]) -> Int[Tensor, "*B T"]:
        """The same sequences in the alphabet of words, where eos is 0 and unk is 1: other ids make room for these."""
        return tokens if self._is_words else _renamed(tokens, self._places(tokens.device))

    def from_words(self, words: Int[Tensor, "*B T"]) -> Int[Tensor, "*B T"]:
        """Sequences in the alphabet of words by their ids here: the inverse of `as_words`."""
        return words if self._is_words else _renamed(words, self._places(words.device).argsort())

    @property
    def _is_words(self) -> bool:
        return self.eos == EOS and self.unk in (UNK, None)

    def _places(self, device: torch.device) -> Int[Tensor, " V"]:
        """The id of each id among words."""
        place = torch.arange(self.size, device=device)
        for special, wanted in ((self.eos, EOS), (self.unk, UNK)):
            if special is not None:
                other, mine = (place == wanted).nonzero(), place[special].clone()
                place[other] = mine
                place[special] = wanted
        return place


def _renamed(tokens: Int[Tensor, "*B T"], names: Int[Tensor, " V"]) -> Int[Tensor, "*B T"]:
    """Every id by its new name; what is negative is no id and stays."""
    return torch.where(tokens < 0, tokens, names[tokens.clamp(min=0)])


@runtime_checkable
class Reward(Protocol):
    """How good is every prefix? Rewards know the alphabet of words: see `Alphabet.as_words`."""

    def prefix_scores(self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"]) -> Float[Tensor, "B T+1"]:
        """R of the first 0, 1, ..., T tokens; column 0 is R(empty), and after eos the last score repeats."""
        ...


@runtime_checkable
class SourceReward(Reward, Protocol):
    """A reward that looks at the source, too: what the model reads, in its own alphabet, or None where it is unknown.

    Asked for by `rewards.scores.prefix_scores` alone.
    """

    def source_scores(
        self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"], source: Tensor | None
    ) -> Float[Tensor, "B T+1"]:
        """R of the first 0, 1, ..., T tokens."""
        ...


@runtime_checkable
class FinalReward(Reward, Protocol):
    """A reward that scores whole sequences for less than all of their prefixes.

    Asked for by `rewards.scores.final_scores` alone.
    """

    def final_scores(
        self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"], source: Tensor | None
    ) -> Float[Tensor, " B"]:
        """R of all tokens, the last column of the prefix scores."""
        ...


class Known(list[list[str]]):
    """The references of an example in words, with its source as text, for metrics that look at that too."""

    def __init__(self, references: Iterable[list[str]], source: str) -> None:
        super().__init__(references)
        self.source = source


class Batch(NamedTuple):
    """Sentences to learn from. Only a model's `encode` looks inside `source`: ids (B, S), or features of images."""

    source: Tensor
    references: Int[Tensor, "B R L"]  # the first is the one that a model learns from, the others serve the reward

    def own(self, eos: int = EOS) -> Int[Tensor, "B T"]:
        """The references that a model learns from, as long as the longest of them: the others may be longer."""
        first = self.references[:, 0]
        return first if self.references.shape[1] == 1 else first[:, : int(token_mask(first, eos).any(0).sum())]

    def repeated(self, times: int) -> "Batch":
        """Every row `times` over, its copies side by side."""
        return Batch(self.source.repeat_interleave(times, 0), self.references.repeat_interleave(times, 0))


def lengths(tokens: Int[Tensor, "*B T"], eos: int = EOS) -> Int[Tensor, "*B"]:
    """Number of words before the first eos; T where there is none."""
    return (tokens == eos).cumsum(-1).eq(0).sum(-1)


def token_mask(tokens: Int[Tensor, "*B T"], eos: int = EOS) -> Bool[Tensor, "*B T"]:
    """True up to the first eos, which is included; False on padding."""
    ended = (tokens == eos).cumsum(-1)
    return (ended - (tokens == eos).long()) == 0


def pad(sequences: Sequence[Sequence[int]], width: int | None = None, eos: int = EOS) -> Int[Tensor, "B T"]:
    """Word ids as one tensor, each closed with eos and filled up with eos."""
    return _filled(sequences, max(map(len, sequences), default=0) + 1 if width is None else width, eos)


def pad_open(sequences: Sequence[Sequence[int]]) -> Int[Tensor, "B T"]:
    """Ids as one tensor, filled up with ABSENT, and closed by nothing: the sources of a model with a tokenizer."""
    return _filled(sequences, max(map(len, sequences), default=0), ABSENT)


def _filled(sequences: Sequence[Sequence[int]], width: int, fill: int) -> Int[Tensor, "B T"]:
    tokens = torch.full((len(sequences), width), fill)
    for row, sequence in zip(tokens, sequences, strict=True):
        row[: len(sequence)] = torch.tensor(sequence, dtype=torch.long)
    return tokens


def pad_references(references: Sequence[Sequence[Sequence[int]]], eos: int = EOS) -> Int[Tensor, "B R L"]:
    """References of each sentence as one tensor; a missing one is filled with ABSENT."""
    width = max((len(r) for group in references for r in group), default=0) + 1
    out = torch.full((len(references), max((len(group) for group in references), default=0), width), ABSENT)
    for b, group in enumerate(references):
        out[b, : len(group)] = pad(group, width, eos)
    return out
