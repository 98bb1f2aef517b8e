"""Losses of sampled sequences: functions of the log-probabilities of their own tokens only.

Not in the paper: the systems that it compares itself with. As in `losses`, there is no reduction over tokens.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

LEAST_SPREAD = 1e-4  # added to a group's standard deviation, as TRL does


def to_go(scores: Float[Tensor, "*B scores"]) -> Float[Tensor, "*B scores-1"]:
    """What is earned from each token on: the last score less that of the prefix before the token."""
    return scores[..., -1:] - scores[..., :-1]


def mean_of_others(earned: Float[Tensor, "B n *T"]) -> Float[Tensor, "B n *T"]:
    """Of n samples of a sentence, what the other n - 1 earned on average.

    Kool et al. (2019).
    """
    return (earned.sum(1, keepdim=True) - earned) / (earned.shape[1] - 1)


def group_advantage(earned: Float[Tensor, "B n"], scaled: bool = True) -> Float[Tensor, "B n"]:
    """What each sample earned above the mean of its group, in standard deviations of the group.

    Shao et al. (2024), outcome supervision; not scaled, Liu et al. (2025).
    """
    apart = earned - earned.mean(1, keepdim=True)
    return apart / (earned.std(1, keepdim=True) + LEAST_SPREAD) if scaled else apart


def clipped(
    logp: Float[Tensor, "*B T"],
    sampler: Float[Tensor, "*B T"],
    advantage: Float[Tensor, "*B #T"],
    low: float,
    high: float,
) -> Float[Tensor, "*B T"]:
    """- the least of ratio times advantage and of the same with the ratio kept within 1 - low and 1 + high.

    PPO's, Schulman et al. (2017); `sampler` has the log-probabilities with which the tokens were drawn.
    """
    ratio = (logp - sampler).exp()
    return -torch.minimum(ratio * advantage, ratio.clamp(1 - low, 1 + high) * advantage)


def drift_estimate(logp: Float[Tensor, "*B T"], start: Float[Tensor, "*B T"]) -> Float[Tensor, "*B T"]:
    """r - log r - 1 with r = pi of the start over pi: KL(pi || start) on average, and never below 0.

    Schulman (2020), as in GRPO. Its gradient is on average that of KL(start || pi), not of KL(pi || start).
    """
    log_ratio = start.detach() - logp
    return log_ratio.exp() - log_ratio - 1


def first_of_its_kind(tokens: Int[Tensor, "B n T"]) -> Bool[Tensor, "B n"]:
    """False for a sequence that stands earlier in its group."""
    same = (tokens.unsqueeze(1) == tokens.unsqueeze(2)).all(-1)
    return ~same.tril(-1).any(-1)


def risk(
    logp: Float[Tensor, "B n"], scores: Float[Tensor, "B n"], sharpness: float, counts: Bool[Tensor, "B n"]
) -> Float[Tensor, " B"]:
    """- the mean score of the sequences that count, by pi to the power `sharpness`, made to sum to 1 among them.

    Shen et al. (2016); `logp` are those of whole sequences.
    """
    share = (sharpness * logp).masked_fill(~counts, -torch.inf).softmax(-1)
    return -(share * scores).sum(-1)
