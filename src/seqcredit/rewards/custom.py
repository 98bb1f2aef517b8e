"""A Python function as a reward."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqcredit.errors import require
from seqcredit.rewards.calls import Calls, Ids, beginnings, groups, sequences, table
from seqcredit.rewards.prefixes import UNMATCHED
from seqcredit.types import UNK

UNMATCHED_TEXT = "\N{REPLACEMENT CHARACTER}"  # the hypothesis' unk, where words are asked for and unk must not match

Pair = tuple[Ids, tuple[Ids, ...]]  # a prefix and its references, without eos


@dataclass(frozen=True)
class Custom:
    """The score of a function of yours, called once for each different prefix and its references.

    `score(hypothesis, references) -> float`: a list of ids (of words, if `words` is given) and a list of such lists.
    With `text`, words are joined by spaces: a text and a list of texts. If `batched`, a list of hypotheses and a list
    of the references of each -> as many floats. eos is never passed. `TextReward` knows sources and tokenizers, too.
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
        rows = [[(ids, group) for ids in beginnings(whole)] for whole, group in self._pairs(tokens, references)]
        return table(rows, self._answers, tokens.shape[1] + 1, self.dtype, tokens.device)

    def final_scores(
        self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"], source: Tensor | None
    ) -> Float[Tensor, " B"]:
        """Your score of all tokens."""
        rows = [[pair] for pair in self._pairs(tokens, references)]
        return table(rows, self._answers, 1, self.dtype, tokens.device).squeeze(1)

    def _pairs(self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"]) -> list[Pair]:
        """Whole sequences and their references."""
        unknown = UNK if self.unk_matches else UNMATCHED
        whole = [tuple(unknown if i == UNK else i for i in ids) for ids in sequences(tokens)]
        return list(zip(whole, groups(references), strict=True))

    def _answers(self, pairs: Sequence[Pair]) -> list[float]:
        given = [(self._spell(ids), [self._spell(one) for one in group]) for ids, group in pairs]
        return Calls(self.score, self.name, self.batched).answers(given)

    def _spell(self, ids: Ids) -> list[int] | list[str] | str:
        if self.words is None:
            return list(ids)
        words = [UNMATCHED_TEXT if i == UNMATCHED else self.words[i] for i in ids]
        return " ".join(words) if self.text else words
