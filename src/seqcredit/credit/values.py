"""Rewards, values, policies and targets: what a token is worth.

Tensors over actions have V as their last axis, and every action of it counts. `forced` marks the states at the length
bound, where only eos is allowed: there V = Q(eos), the soft policy is eos and the entropy is 0. At `tau = 0` the soft
value is the maximum, the soft policy is uniform over the maximisers, and 0 log 0 = 0.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seqcredit.types import EOS, token_mask


def token_rewards(prefix_scores: Float[Tensor, "*B scores"]) -> Float[Tensor, "*B scores-1"]:
    """r, what each token adds to the pay-off; 0 on padding, because the last score repeats there.

    Eq. (reward).
    """
    return prefix_scores.diff(dim=-1)


def at_bound(tokens: Int[Tensor, "*B T"], bound: int | Int[Tensor, "*B"]) -> Bool[Tensor, "*B T"]:
    """States where only eos is allowed: bound - 1 tokens stand before them. The bound counts eos.

    Corollary 1, last item.
    """
    position = torch.arange(tokens.shape[-1], device=tokens.device)
    last = torch.as_tensor(bound, device=tokens.device).unsqueeze(-1) - 1
    return (position >= last).expand(tokens.shape)


def chosen(table: Float[Tensor, "*B T V"], tokens: Int[Tensor, "*B T"]) -> Float[Tensor, "*B T"]:
    """The entry of each token that was taken."""
    return table.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def soft_value(q: Float[Tensor, "*S V"], tau: float, forced: Bool[Tensor, "*S"] | None = None) -> Float[Tensor, "*S"]:
    """tau log sum_w exp(Q / tau).

    Eq. (optimal_V).
    """
    value = q.amax(-1) if tau == 0 else tau * torch.logsumexp(q / tau, -1)
    return value if forced is None else torch.where(forced, q[..., EOS], value)


def soft_policy(
    q: Float[Tensor, "*S V"], tau: float, forced: Bool[Tensor, "*S"] | None = None
) -> Float[Tensor, "*S V"]:
    """P_Q, the token-level target exp(Q / tau) / sum_w exp(Q / tau).

    Eq. (vaml_target).
    """
    if tau == 0:
        best = (q == q.amax(-1, keepdim=True)).to(q.dtype)
        policy = best / best.sum(-1, keepdim=True)
    else:
        policy = torch.softmax(q / tau, -1)
    if forced is None:
        return policy
    only_eos = q.new_zeros(q.shape[-1])
    only_eos[EOS] = 1
    return torch.where(forced.unsqueeze(-1), only_eos, policy)


def entropy(logp: Float[Tensor, "*S V"], forced: Bool[Tensor, "*S"] | None = None) -> Float[Tensor, "*S"]:
    """H(pi) = - sum_w pi log pi, where 0 log 0 = 0, also in its gradient."""
    p = logp.exp()
    value = -(p * logp.masked_fill(p == 0, 0)).sum(-1)
    return value if forced is None else value.masked_fill(forced, 0)


def expected_value(
    q: Float[Tensor, "*S V"],
    logp: Float[Tensor, "*S V"],
    tau: float,
    forced: Bool[Tensor, "*S"] | None = None,
) -> Float[Tensor, "*S"]:
    """sum_w pi (Q - tau log pi), the value of a given policy.

    Eq. (fixed_policy_iteration).
    """
    value = (logp.exp() * q).sum(-1)
    if tau != 0:
        value = value + tau * entropy(logp)
    return value if forced is None else torch.where(forced, q[..., EOS], value)


def sums_ahead(numbers: Float[Tensor, "*B T"], steps: int) -> Float[Tensor, "*B T"]:
    """The sum of the `steps` numbers after each, of all that are left where there are fewer."""
    to_end = numbers.flip(-1).cumsum(-1).flip(-1)
    after, beyond = (torch.nn.functional.pad(to_end, (0, n))[..., n:] for n in (1, steps + 1))
    return after - beyond


def one_step_targets(
    rewards: Float[Tensor, "*B T"], values: Float[Tensor, "*B T"], tokens: Int[Tensor, "*B T"]
) -> Float[Tensor, "*B T"]:
    """r + V(the state that the token leads to); after eos there is nothing, and 0 on padding.

    Eq. (optimal_Q) and (recursion_terminal). `values` are those of the states before each token; every sequence ends
    with eos.
    """
    following = torch.cat([values[..., 1:], torch.zeros_like(values[..., :1])], -1)
    targets = rewards + following.masked_fill(tokens == EOS, 0)
    return targets.masked_fill(~token_mask(tokens), 0)
