"""A reward against one reference only, the one that is learned from."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from seqcredit.rewards.scores import final_scores, prefix_scores
from seqcredit.types import Reward


@dataclass(frozen=True)
class OwnReference:
    """Another reward's score against the first reference alone: the one that a model learns from.

    So each picture with one of its captions is a pair of its own, as in the paper; with all references a word that any
    of them has is a match, and the closest of their lengths counts.
    """

    reward: Reward

    def prefix_scores(self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"]) -> Float[Tensor, "B T+1"]:
        """R of the first 0, 1, ..., T tokens."""
        return self.source_scores(tokens, references, None)

    def source_scores(
        self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"], source: Tensor | None
    ) -> Float[Tensor, "B T+1"]:
        """The same, with the source."""
        return prefix_scores(self.reward, tokens, references[:, :1], source)

    def final_scores(
        self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"], source: Tensor | None
    ) -> Float[Tensor, " B"]:
        """R of all tokens."""
        return final_scores(self.reward, tokens, references[:, :1], source)
