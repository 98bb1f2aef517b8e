"""Q^pi and V^pi of any policy and any reward, anywhere, by rollouts with a confidence interval."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from seqcredit.credit.values import entropy
from seqcredit.draws import draw, uniform
from seqcredit.types import EOS, Reward

# The next token's log-probabilities (N, V) after given prefixes (N, t); row i continues prefix i.
NextToken = Callable[[Tensor], Tensor]


class Estimate(NamedTuple):
    """Mean of the rollouts and the half width of its confidence interval."""

    mean: Float[Tensor, " B"]
    half_width: Float[Tensor, " B"]


def estimate_value(
    policy: NextToken,
    reward: Reward,
    references: Int[Tensor, "B R L"],
    prefixes: Int[Tensor, "B t"],
    bound: int,
    tau: float,
    rollouts: int,
    generator: Generator,
    z: float = 1.96,
    eos: int = EOS,
) -> Estimate:
    """V^pi of unfinished prefixes, all of t words: what R still gains, plus tau times the entropy of every state.

    Eq. (fixed_policy_iteration). `policy` sees the rollouts of a prefix one after the other. The interval is normal, of
    95 % with the default z; a prefix that holds eos is worth 0.
    """
    tokens = prefixes.repeat_interleave(rollouts, 0)
    extra = torch.zeros(len(tokens), dtype=torch.get_default_dtype(), device=tokens.device)
    going = (tokens != eos).all(-1)
    for t in range(prefixes.shape[1], bound):
        if t == bound - 1 or not going.any():
            token = torch.full_like(going, eos, dtype=torch.long)
        else:
            logp = policy(tokens)
            extra = extra + (tau * entropy(logp)).masked_fill(~going, 0)
            token = draw(logp.exp(), uniform(logp, generator)).masked_fill(~going, eos)
        tokens = torch.cat([tokens, token.unsqueeze(-1)], -1)
        going = going & (token != eos)
    scores = reward.prefix_scores(tokens, references.repeat_interleave(rollouts, 0))
    gained = scores[:, -1] - scores[:, prefixes.shape[1]]
    returns = (gained + extra).reshape(len(prefixes), rollouts)
    return Estimate(returns.mean(1), z * returns.std(1) / rollouts**0.5)


def estimate_q(
    policy: NextToken,
    reward: Reward,
    references: Int[Tensor, "B R L"],
    prefixes: Int[Tensor, "B t"],
    actions: Int[Tensor, " B"],
    bound: int,
    tau: float,
    rollouts: int,
    generator: Generator,
    z: float = 1.96,
    eos: int = EOS,
) -> Estimate:
    """Q^pi of one action after each prefix: its reward, then V^pi of where it leads."""
    tokens = torch.cat([prefixes, actions.unsqueeze(-1)], -1)
    t = prefixes.shape[1]
    scores = reward.prefix_scores(torch.nn.functional.pad(tokens, (0, 1), value=eos), references)  # t + 1 is unfinished
    after = estimate_value(policy, reward, references, tokens, bound, tau, rollouts, generator, z, eos)
    return Estimate(scores[:, t + 1] - scores[:, t] + after.mean, after.half_width)
