"""A reward multiplied by the length of the reference, or not."""

from dataclasses import replace

from seqcredit.rewards.bleu import Bleu
from seqcredit.rewards.edit import EditDistance
from seqcredit.rewards.finished import OnlyFinished
from seqcredit.rewards.linear import LinearBleu
from seqcredit.rewards.own import OwnReference
from seqcredit.types import Reward


def rescaled(reward: Reward, scaled: bool) -> Reward:
    """The same reward, scaled by the reference's length or not; one that knows no scale stays as it is."""
    if isinstance(reward, OnlyFinished | OwnReference):
        return replace(reward, reward=rescaled(reward.reward, scaled))
    if isinstance(reward, Bleu | LinearBleu):
        return replace(reward, scaled=scaled)
    return replace(reward, by_length=not scaled) if isinstance(reward, EditDistance) else reward
