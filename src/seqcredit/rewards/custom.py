"""A Python function as a reward."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Real

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqcredit.errors import UserError, require
from seqcredit.named import said
from seqcredit.rewards.prefixes import UNMATCHED, is_word, present, real_dtype
from seqcredit.types import UNK

UNMATCHED_TEXT = "\N{REPLACEMENT CHARACTER}"  # the hypothesis' unk, where words are asked for and unk must not match

Pair = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]  # a prefix and its references, without eos


@dataclass(frozen=True)
class Custom:
    """The score of a function of yours, called once for each different prefix and its references.

    `score(hypothesis, references) -> float`: a list of ids (of words, if `words` is given) and a list of such lists.
    With `text`, words are joined by spaces: a text and a list of texts. If `batched`, a list of hypotheses and a list
    of the references of each -> as many floats. eos is never passed.
    """

    score: Callable[..., object]
    words: Sequence[str] | None = field(default=None, repr=False)  # the text of each id
    batched: bool = False
    unk_matches: bool = True  # False: unk in a hypothesis is passed as -2, or as U+FFFD, which no reference has
    dtype: torch.dtype | None = None
    text: bool = False  # words as one text
    name: str = "Custom"  # for what is said of it

    def __post_init__(self) -> None:
        require(not self.text or self.words is not None, f"{self.name}: text needs `words`, the text of each id.")

    def prefix_scores(self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"]) -> Float[Tensor, "B T+1"]:
        """Your score of the first 0, 1, ..., T tokens."""
        pairs = [
            [(tuple(ids[:end]), group) for end in range(len(ids) + 1)]
            for ids, group in zip(self._hypotheses(tokens), _groups(references), strict=True)
        ]
        scores = self._scores(list(dict.fromkeys(pair for row in pairs for pair in row)))
        width = tokens.shape[1] + 1
        table = [[scores[pair] for pair in row + row[-1:] * (width - len(row))] for row in pairs]
        return torch.tensor(table, dtype=real_dtype(self.dtype), device=tokens.device).view(-1, width)

    def _hypotheses(self, tokens: Int[Tensor, "B T"]) -> list[list[int]]:
        ids = tokens if self.unk_matches else tokens.masked_fill(tokens == UNK, UNMATCHED)
        sizes = is_word(tokens).sum(-1).tolist()
        return [row[:size] for row, size in zip(ids.tolist(), sizes, strict=True)]

    def _scores(self, pairs: list[Pair]) -> dict[Pair, float]:
        """Call the function for all pairs."""
        hypotheses = [self._spell(ids) for ids, _ in pairs]
        references = [[self._spell(ids) for ids in group] for _, group in pairs]
        if self.batched:
            values = self._call(hypotheses, references) if pairs else []
            if not isinstance(values, list) or len(values) != len(pairs):
                got = f"{len(values)} scores" if isinstance(values, list) else f"a {type(values).__name__}"
                wanted = f"{len(pairs)} prefixes, return one float for each"
                raise UserError(f"{self.name}: the function returned {got} for {wanted}.")
        else:
            values = [self._call(*arguments) for arguments in zip(hypotheses, references, strict=True)]
        found = zip(pairs, values, hypotheses, strict=True)
        return {pair: self._finite(value, prefix) for pair, value, prefix in found}

    def _call(self, hypothesis: object, references: object) -> object:
        """The function's answer as plain floats or lists; its errors are shown as what they are."""
        try:  # for every prefix: no context here
            value = self.score(hypothesis, references)
        except Exception as error:  # whatever the user's function does
            raise UserError(f"{self.name}: the function failed. {said(error)}.") from error
        if isinstance(value, Tensor | np.ndarray | np.generic):
            return value.tolist()
        return list(value) if isinstance(value, tuple) else value

    def _finite(self, value: object, prefix: object) -> float:
        if isinstance(value, Real) and math.isfinite(value):
            return float(value)
        raise UserError(f"{self.name}: the function returned {value!r} for the prefix {prefix}, return a finite float.")

    def _spell(self, ids: Sequence[int]) -> list[int] | list[str] | str:
        if self.words is None:
            return list(ids)
        words = [UNMATCHED_TEXT if i == UNMATCHED else self.words[i] for i in ids]
        return " ".join(words) if self.text else words


def _groups(references: Int[Tensor, "B R L"]) -> list[tuple[tuple[int, ...], ...]]:
    """The references that each sentence has."""
    sizes, there = is_word(references).sum(-1).tolist(), present(references).tolist()
    return [
        tuple(tuple(row[:size]) for row, size, kept in zip(*sentence, strict=True) if kept)
        for sentence in zip(references.tolist(), sizes, there, strict=True)
    ]
