"""Calls of a reward: R of every prefix or only of whole sequences, with the source if the reward wants it."""

from collections.abc import Callable

from jaxtyping import Float, Int
from torch import Tensor

from seqcredit.rewards.prefixes import ended
from seqcredit.types import Alphabet, Batch, FinalReward, Reward, SourceReward

# What is asked: `prefix_scores`, `final_scores`, or `finished.finished_scores`.
Question = Callable[[Reward, Tensor, Tensor, Tensor | None], Tensor]


def prefix_scores(
    reward: Reward, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"], source: Tensor | None = None
) -> Float[Tensor, "B T+1"]:
    """R of the first 0, 1, ..., T tokens."""
    if isinstance(reward, SourceReward):
        return reward.source_scores(tokens, references, source)
    return reward.prefix_scores(tokens, references)


def final_scores(
    reward: Reward, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"], source: Tensor | None = None
) -> Float[Tensor, " B"]:
    """R of all tokens; their prefixes are left out where the reward knows how."""
    if isinstance(reward, FinalReward):
        return reward.final_scores(tokens, references, source)
    return prefix_scores(reward, tokens, references, source)[:, -1]


def at_end(final: Float[Tensor, " B"], tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T+1"]:
    """Scores of whole sequences as prefix scores: 0 for every unfinished prefix."""
    over = ended(tokens)
    return final.unsqueeze(1).expand(over.shape).masked_fill(~over, 0)


def scored(
    reward: Reward, alphabet: Alphabet, tokens: Int[Tensor, "B T"], batch: Batch, of: Question = prefix_scores
) -> Float[Tensor, "B *P"]:
    """What a reward says of sequences in a model's alphabet, each with its row of a batch."""
    return of(reward, alphabet.as_words(tokens), alphabet.as_words(batch.references), batch.source)
