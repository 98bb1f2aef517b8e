"""Any Python function as a reward."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqcredit.rewards.prefixes import UNMATCHED, check, is_word, present, real_dtype
from seqcredit.types import UNK

UNMATCHED_TEXT = "\N{REPLACEMENT CHARACTER}"  # the hypothesis' unk, where words are asked for and unk must not match

Pair = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]  # a prefix and its references, without eos


@dataclass(frozen=True)
class Custom:
    """The score of a function of yours, called once for each different prefix and its references.

    `score(hypothesis, references) -> float`: a list of ids (of words, if `words` is given) and a list of such lists.
    If `batched`, a list of hypotheses and a list of the references of each -> as many floats. eos is never passed.
    """

    score: Callable[..., Any]
    words: Sequence[str] | None = field(default=None, repr=False)  # the text of each id
    batched: bool = False
    unk_matches: bool = True  # False: unk in a hypothesis is passed as -2, or as U+FFFD, which no reference has
    dtype: torch.dtype | None = None

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
            values = _plain(self.score(hypotheses, references)) if pairs else []
            right = isinstance(values, Sequence) and len(values) == len(pairs)
            got = f"{len(values)} scores" if isinstance(values, Sequence) else f"a {type(values).__name__}"
            check(right, f"Custom: the function returned {got} for {len(pairs)} prefixes, return one float for each.")
        else:
            values = [_plain(self.score(*arguments)) for arguments in zip(hypotheses, references, strict=True)]
        for value, prefix in zip(values, hypotheses, strict=True):
            finite = isinstance(value, Real) and math.isfinite(value)
            check(finite, f"Custom: the function returned {value!r} for the prefix {prefix}, return a finite float.")
        return {pair: float(value) for pair, value in zip(pairs, values, strict=True)}

    def _spell(self, ids: Sequence[int]) -> list[int] | list[str]:
        if self.words is None:
            return list(ids)
        return [UNMATCHED_TEXT if i == UNMATCHED else self.words[i] for i in ids]


def _groups(references: Int[Tensor, "B R L"]) -> list[tuple[tuple[int, ...], ...]]:
    """The references that each sentence has."""
    sizes, there = is_word(references).sum(-1).tolist(), present(references).tolist()
    return [
        tuple(tuple(row[:size]) for row, size, kept in zip(*sentence, strict=True) if kept)
        for sentence in zip(references.tolist(), sizes, there, strict=True)
    ]


def _plain(value: Any) -> Any:
    """Tensors and arrays as plain floats or lists."""
    return value.tolist() if isinstance(value, Tensor | np.ndarray | np.generic) else value
