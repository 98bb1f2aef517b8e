"""Several rewards as one."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Float, Int
from torch import Tensor

from seqcredit.errors import require
from seqcredit.rewards.scores import final_scores, prefix_scores
from seqcredit.rewards.text import TextReward
from seqcredit.types import Reward


@dataclass(frozen=True)
class Weighted:
    """The sum of other rewards, each times a weight. A function of texts is one, too: see `TextReward`.

    >>> import torch
    >>> from seqcredit.rewards import Custom, EditDistance
    >>> reward = Weighted(((1.0, EditDistance()), (0.5, Custom(lambda ids, references: len(ids)))))
    >>> reward.prefix_scores(torch.tensor([[5, 7, 0]]), torch.tensor([[[5, 7, 0]]]))
    tensor([[-2.0000, -0.5000,  1.0000,  1.0000]])
    """

    parts: Sequence[tuple[float, Reward | Callable[..., object]]]

    def __post_init__(self) -> None:
        require(self.parts, "Weighted: there is no reward in it, give pairs of a weight and a reward.")
        for weight, _ in self.parts:
            require(math.isfinite(weight), f"Weighted: a weight is {weight}, but it must be finite.")

    @cached_property
    def rewards(self) -> list[tuple[float, Reward]]:
        """The parts, functions of texts among them as what they are."""
        return [(weight, part if isinstance(part, Reward) else TextReward(part)) for weight, part in self.parts]

    def prefix_scores(self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"]) -> Float[Tensor, "B T+1"]:
        """R of the first 0, 1, ..., T tokens."""
        return self.source_scores(tokens, references, None)

    def source_scores(
        self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"], source: Tensor | None
    ) -> Float[Tensor, "B T+1"]:
        """The same, with the source."""
        return self.total(lambda part: prefix_scores(part, tokens, references, source))

    def final_scores(
        self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"], source: Tensor | None
    ) -> Float[Tensor, " B"]:
        """R of all tokens."""
        return self.total(lambda part: final_scores(part, tokens, references, source))

    def total(self, of: Callable[[Reward], Tensor]) -> Tensor:
        """The weighted sum of what is asked of each reward."""
        (weight, first), *others = self.rewards
        found = weight * of(first)
        for weight, part in others:
            found = found + weight * of(part)
        return found
