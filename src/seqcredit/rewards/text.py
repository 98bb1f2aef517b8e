"""A Python function of texts as a reward: of what a prefix says, its references and its source."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seqcredit.errors import UserError, require
from seqcredit.rewards.calls import Calls, Ids, Memory, beginnings, groups, sequences, table
from seqcredit.rewards.scores import at_end
from seqcredit.types import ABSENT

PLACES = ("tokens", "words", "end")
REMEMBERED = 100_000  # answers
SOURCE = {"source", "sources"}  # names of a parameter; a batched function may have the second
Wants = Literal["references", "source", "both"]
Spell = Callable[[Sequence[int]], str]
Side = str | tuple[str, ...]  # a source, or references
Thing = tuple[Side, ...]  # a text, and what it is compared with


@dataclass(frozen=True)
class TextReward:
    """The score of a function of yours, called once for each different text.

    `score(text, references)`, `score(text, source)` or `score(text, references, source)`, told apart by their names:
    texts, and a list of texts for references, which may be empty. If `batched`, it takes a list of each and returns as
    many floats, as a list or as a tensor on any device: so a network is a reward. eos is never spelled. Given to
    `seqcredit.train`, it needs no `spell`: the data know how their ids are read.

    >>> import torch
    >>> words = ["</s>", "<unk>", "one", "two"]
    >>> spell = lambda ids: " ".join(words[i] for i in ids)
    >>> reward = TextReward(lambda text, source: -abs(len(text) - len(source)), spell, spell)
    >>> tokens, source, nothing = torch.tensor([[2, 3, 0]]), torch.tensor([[3, 3]]), torch.zeros(1, 0, 1).long()
    >>> reward.source_scores(tokens, nothing, source)
    tensor([[-7., -4.,  0.,  0.]])
    """

    score: Callable[..., object]
    spell: Spell | None = field(default=None, repr=False)  # the text of a sequence or a reference, of ids of words
    spell_source: Spell | None = field(default=None, repr=False)  # the text of a source, of ids as the model reads them
    batched: bool = False
    at: str = "tokens"  # every prefix; "words": those that end a word; "end": the whole text, what goes before is 0
    processes: int = 0  # that call the function, which must be importable by its name; 0: it is called here
    dtype: torch.dtype | None = None
    name: str = "TextReward"  # for what is said of it
    wants: Wants = field(init=False)

    def __post_init__(self) -> None:
        places = ", ".join(PLACES)
        require(self.at in PLACES, f"{self.name}: at is {self.at!r}, but it must be one of {places}.")
        require(self.processes >= 0, f"{self.name}: processes is {self.processes}, but it must be 0 or more.")
        object.__setattr__(self, "wants", wanted_by(self.score, self.name))
        unknown = f"{self.name}: the function asks for the source, but here it has no text (`spell_source`)"
        valid = self.wants == "references" or self.spell is None or self.spell_source is not None
        require(valid, f"{unknown}: make it one of (text, references).")

    def read_by(self, spell: Spell, spell_source: Spell) -> "TextReward":
        """The same, where ids are read in this way, unless it knows another."""
        return self if self.spell else replace(self, spell=spell, spell_source=spell_source)

    def prefix_scores(self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"]) -> Float[Tensor, "B T+1"]:
        """Your score of the first 0, 1, ..., T tokens."""
        return self.source_scores(tokens, references, None)

    def source_scores(
        self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"], source: Tensor | None
    ) -> Float[Tensor, "B T+1"]:
        """The same, with the source. In the middle of a word the score of those before it stays, if `at` is "words"."""
        if self.at == "end":
            return at_end(self.final_scores(tokens, references, source), tokens)
        texts = self._texts(map(beginnings, sequences(tokens)))
        rows = texts if self.at == "tokens" else [whole_words(row) for row in texts]
        return self._table(rows, references, source, tokens.shape[1] + 1)

    def final_scores(
        self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"], source: Tensor | None
    ) -> Float[Tensor, " B"]:
        """Your score of all tokens."""
        texts = self._texts([ids] for ids in sequences(tokens))
        return self._table(texts, references, source, 1).squeeze(1)

    def every_prefix(
        self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"], source: Tensor | None
    ) -> Float[Tensor, "B T+1"]:
        """Your score of the first 0, 1, ..., T tokens, whatever `at` says: that of texts which end there."""
        texts = self._texts(map(beginnings, sequences(tokens)))
        return self._table(texts, references, source, tokens.shape[1] + 1)

    def _texts(self, rows: Iterable[Sequence[Ids]]) -> list[list[str]]:
        """Ids as texts, the same ones only once."""
        rows, spell = list(rows), self.spell
        if spell is None:
            raise UserError(f"{self.name}: how ids are read is not known (`spell`): give it to seqcredit.train.")
        known = {ids: spell(list(ids)) for ids in {ids for row in rows for ids in row}}
        return [[known[ids] for ids in row] for row in rows]

    def _table(
        self, texts: list[list[str]], references: Int[Tensor, "B R L"], source: Tensor | None, width: int
    ) -> Float[Tensor, "B P"]:
        sides = zip(*self._sides(references, source), strict=True)
        rows = [[(text, *side) for text in row] for row, side in zip(texts, sides, strict=True)]
        return table(rows, self._answers, width, self.dtype, references.device)

    def _sides(self, references: Int[Tensor, "B R L"], source: Tensor | None) -> list[Sequence[Side]]:
        """For each sentence what its texts are compared with."""
        sides: list[Sequence[Side]] = []
        if self.wants != "source":
            sides.append([tuple(texts) for texts in self._texts(groups(references))])
        if self.wants != "references":
            sides.append(self._sources(source))
        return sides

    def _sources(self, source: Tensor | None) -> list[str]:
        known = f"{self.name}: the function asks for the source, "
        if source is None or self.spell_source is None:
            raise UserError(known + "which is not given here: ask for `source_scores`.")
        require(not source.is_floating_point(), known + "but it is no text: make it one of (text, references).")
        return [self.spell_source([i for i in ids if i != ABSENT]) for ids in source.tolist()]

    @cached_property
    def _memory(self) -> Memory[Thing]:
        return Memory(REMEMBERED)

    def _answers(self, things: list[Thing]) -> list[float]:
        """From memory, or by the function."""
        calls = Calls(self.score, self.name, self.batched, self.processes)
        return self._memory.answers(things, lambda new: calls.answers([_arguments(thing) for thing in new]))


def wanted_by(function: Callable[..., object], name: str = "The reward") -> Wants:
    """What a function asks for beside the text: the source by this name, references by any. Without a signature: these.

    >>> wanted_by(lambda text, source: 0.0)
    'source'
    """
    forms = "(text, references), (text, source) or (text, references, source)"
    require(
        callable(function), f"{name} is {function!r}: give a name, one of seqcredit.rewards, or a function of {forms}."
    )
    try:
        signature = inspect.signature(function.forward if isinstance(function, nn.Module) else function)
    except (TypeError, ValueError):
        return "references"
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = dict(enumerate(each.name for each in signature.parameters.values() if each.kind in positional))
    if names.get(2) in SOURCE and _takes(signature, 3):
        return "both"
    if _takes(signature, 2):
        return "source" if names.get(1) in SOURCE else "references"
    raise UserError(f"{name}: the function takes {signature}, but it must be one of {forms}.")


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def whole_words(texts: Sequence[str]) -> list[str]:
    """For each prefix the one up to which words have ended: there white space follows, or stands last, or nothing more.

    >>> whole_words(["", "fun", "funny", "funny dog", "funny dogs"])
    ['', '', 'funny', 'funny', 'funny dogs']
    """
    found = [*texts[:1]]
    for text, later in pairwise(texts[1:]):
        ended = text[-1:].isspace() or (later.startswith(text) and later[len(text) :][:1].isspace())
        found.append(text if ended else found[-1])
    return [*found, *texts[1:][-1:]]


def _arguments(thing: Thing) -> tuple[str | list[str], ...]:
    """References as a list of its own, whatever the function does to it."""
    return tuple(side if isinstance(side, str) else list(side) for side in thing)
