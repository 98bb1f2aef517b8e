"""A reward that comes entirely at the end."""

from dataclasses import dataclass, replace

from jaxtyping import Float, Int
from torch import Tensor

from seqcredit.rewards.bleu import Bleu
from seqcredit.rewards.own import OwnReference
from seqcredit.rewards.scores import at_end, final_scores, prefix_scores
from seqcredit.rewards.text import Spell, TextReward
from seqcredit.rewards.weighted import Weighted
from seqcredit.types import Reward


@dataclass(frozen=True)
class OnlyFinished:
    """Another reward's score of a sequence that has ended, 0 for every unfinished prefix: eos earns all of it.

    A sequence without eos ends with its last token. The token rewards sum to R(y), where those of a reward whose
    R(empty) is not 0 sum to R(y) - R(empty): for one sentence all returns move alike.
    """

    reward: Reward

    def prefix_scores(self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"]) -> Float[Tensor, "B T+1"]:
        """0 for the first 0, 1, ... tokens, and R(y) from eos on."""
        return self.source_scores(tokens, references, None)

    def source_scores(
        self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"], source: Tensor | None
    ) -> Float[Tensor, "B T+1"]:
        """The same, with the source."""
        return at_end(self.final_scores(tokens, references, source), tokens)

    def final_scores(
        self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"], source: Tensor | None
    ) -> Float[Tensor, " B"]:
        """R(y)."""
        return final_scores(self.reward, tokens, references, source)


def finished_scores(
    reward: Reward, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"], source: Tensor | None = None
) -> Float[Tensor, "B T+1"]:
    """R of the first 0, 1, ..., T tokens if eos followed each time: less `prefix_scores`, it is what eos would add.

    Eq. (terminal_condition). A reward that is not from here is taken at the paper's word, R(prefix) = R(prefix + eos).
    """
    if isinstance(reward, OnlyFinished):
        return finished_scores(reward.reward, tokens, references, source)
    if isinstance(reward, OwnReference):
        return finished_scores(reward.reward, tokens, references[:, :1], source)
    if isinstance(reward, Weighted):
        return reward.total(lambda part: finished_scores(part, tokens, references, source))
    if isinstance(reward, TextReward):
        return reward.every_prefix(tokens, references, source)
    if isinstance(reward, Bleu):
        reward = replace(reward, unfinished_brevity=True)
    return prefix_scores(reward, tokens, references, source)


def read_by(reward: Reward, spell: Spell, spell_source: Spell) -> Reward:
    """A reward whose texts are read in this way, wherever it holds any; one that is not of texts stays as it is."""
    match reward:
        case TextReward():
            return reward.read_by(spell, spell_source)
        case Weighted():
            return Weighted([(weight, read_by(part, spell, spell_source)) for weight, part in reward.rewards])
        case OnlyFinished() | OwnReference():
            return replace(reward, reward=read_by(reward.reward, spell, spell_source))
    return reward
