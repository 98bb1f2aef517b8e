"""Rewards, values, policies and targets: what a token is worth.

Tensors over ids have V as their last axis, and every id of it counts, or those that `actions` marks. `forced` marks the
states at the length bound, where only eos is allowed: there V = Q(eos), the soft policy is eos and the entropy is 0. At
`tau = 0` the soft value is the maximum, the soft policy is uniform over the maximisers, and 0 log 0 = 0.
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


def only_actions(scores: Float[Tensor, "*S V"], actions: Bool[Tensor, " V"] | None) -> Float[Tensor, "*S V"]:
    """Scores with - infinity for ids that are no actions: in a softmax or a soft value they have no part."""
    return scores if actions is None else scores.masked_fill(~actions, -torch.inf)


def soft_value(
    q: Float[Tensor, "*S V"],
    tau: float,
    forced: Bool[Tensor, "*S"] | None = None,
    eos: int = EOS,
    actions: Bool[Tensor, " V"] | None = None,
) -> Float[Tensor, "*S"]:
    """tau log sum_w exp(Q / tau).

    Eq. (optimal_V).
    """
    allowed = only_actions(q, actions)
    value = allowed.amax(-1) if tau == 0 else tau * torch.logsumexp(allowed / tau, -1)
    return value if forced is None else torch.where(forced, q[..., eos], value)


def soft_policy(
    q: Float[Tensor, "*S V"],
    tau: float,
    forced: Bool[Tensor, "*S"] | None = None,
    eos: int = EOS,
    actions: Bool[Tensor, " V"] | None = None,
) -> Float[Tensor, "*S V"]:
    """P_Q, the token-level target exp(Q / tau) / sum_w exp(Q / tau).

    Eq. (vaml_target).
    """
    q = only_actions(q, actions)
    if tau == 0:
        best = (q == q.amax(-1, keepdim=True)).to(q.dtype)
        policy = best / best.sum(-1, keepdim=True)
    else:
        policy = torch.softmax(q / tau, -1)
    if forced is None:
        return policy
    only_eos = q.new_zeros(q.shape[-1])
    only_eos[eos] = 1
    return torch.where(forced.unsqueeze(-1), only_eos, policy)


def entropy(logp: Float[Tensor, "*S V"], forced: Bool[Tensor, "*S"] | None = None) -> Float[Tensor, "*S"]:
    """H(pi) = - sum_w pi log pi, where 0 log 0 = 0, also in its gradient."""
    p = logp.exp()
    value = -(p * logp.masked_fill(p == 0, 0)).sum(-1)
    return value if forced is None else value.masked_fill(forced, 0)


def divergence(logp: Float[Tensor, "*S V"], other: Float[Tensor, "*S V"]) -> Float[Tensor, "*S"]:
    """KL(pi || another policy) = sum_w pi (log pi - log other), where 0 log 0 = 0, also in its gradient."""
    p = logp.exp()
    return (p * (logp - other.detach()).masked_fill(p == 0, 0)).sum(-1)


def expected_value(
    q: Float[Tensor, "*S V"],
    logp: Float[Tensor, "*S V"],
    tau: float,
    forced: Bool[Tensor, "*S"] | None = None,
    eos: int = EOS,
) -> Float[Tensor, "*S"]:
    """sum_w pi (Q - tau log pi), the value of a given policy.

    Eq. (fixed_policy_iteration).
    """
    value = (logp.exp() * q).sum(-1)
    if tau != 0:
        value = value + tau * entropy(logp)
    return value if forced is None else torch.where(forced, q[..., eos], value)


def sums_ahead(numbers: Float[Tensor, "*B T"], steps: int) -> Float[Tensor, "*B T"]:
    """The sum of the `steps` numbers after each, of all that are left where there are fewer."""
    to_end = numbers.flip(-1).cumsum(-1).flip(-1)
    after, beyond = (torch.nn.functional.pad(to_end, (0, n))[..., n:] for n in (1, steps + 1))
    return after - beyond


def one_step_targets(
    rewards: Float[Tensor, "*B T"], values: Float[Tensor, "*B T"], tokens: Int[Tensor, "*B T"], eos: int = EOS
) -> Float[Tensor, "*B T"]:
    """r + V(the state that the token leads to); after eos there is nothing, and 0 on padding.

    Eq. (optimal_Q) and (recursion_terminal). `values` are those of the states before each token; every sequence ends
    with eos.
    """
    following = torch.cat([values[..., 1:], torch.zeros_like(values[..., :1])], -1)
    targets = rewards + following.masked_fill(tokens == eos, 0)
    return targets.masked_fill(~token_mask(tokens, eos), 0)


def trace_targets(
    targets: Float[Tensor, "*B T"],
    q: Float[Tensor, "*B T"],
    tokens: Int[Tensor, "*B T"],
    trace: float,
    steps: int = 0,
    eos: int = EOS,
) -> Float[Tensor, "*B T"]:
    """One-step targets, and what the target network's `q` of the later tokens was wrong by, faded by `trace` a step.

    Beyond the paper: Q(lambda) on the policy's own samples, Harutyunyan et al. (2016), lambda = `trace`. At 1 it is all
    that really followed, less what was to be expected of each draw: right on average, however wrong `q` is. With
    `steps` no more than so many rewards count, and then the value of the state that they lead to: n-step targets.
    """
    errors = (targets - q).masked_fill(~token_mask(tokens, eos), 0)
    place = torch.arange(tokens.shape[-1], device=tokens.device)
    ahead = place - place.unsqueeze(-1)  # (T, T): how far the second is after the first
    faded = (trace ** ahead.clamp(min=0).to(q.dtype)).masked_fill(ahead < 1, 0)
    if steps:
        faded = faded.masked_fill(ahead >= steps, 0)
    return (targets + errors @ faded.T).masked_fill(~token_mask(tokens, eos), 0)


def returns_to_go(
    rewards: Float[Tensor, "*B T"],
    uncertainty: Float[Tensor, "*B T"],
    tokens: Int[Tensor, "*B T"],
    tau: float,
    eos: int = EOS,
) -> Float[Tensor, "*B T"]:
    """The rewards from each token on, and tau times the entropy of the states after it: one sample of Q^pi."""
    later = uncertainty.masked_fill(~token_mask(tokens, eos), 0) * tau
    following = torch.cat([later[..., 1:], torch.zeros_like(later[..., :1])], -1)
    return (rewards + following).flip(-1).cumsum(-1).flip(-1)
