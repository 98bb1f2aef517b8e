"""The objectives, as in the paper: plain functions from tensors to one number a token, 0 on padding.

They are the reference implementation. No module, no option object, no randomness and no reduction: a caller sums over
time and averages over sentences. Axes: B sequences (any number of axes, M proposals included), T time, V actions.
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seqcredit.credit.values import (
    chosen,
    divergence,
    expected_value,
    one_step_targets,
    soft_policy,
    soft_value,
    sums_ahead,
)
from seqcredit.types import EOS, token_mask

EntropyForm = Literal["exact", "normalised"]
SmoothingForm = Literal["sum", "mean"]


def mle(logp: Float[Tensor, "*B T V"], tokens: Int[Tensor, "*B T"], eos: int = EOS) -> Float[Tensor, "*B T"]:
    """- log pi of the tokens."""
    return -chosen(logp, tokens).masked_fill(~token_mask(tokens, eos), 0)


def importance_weights(scores: Float[Tensor, "*B M"], tau: float) -> Float[Tensor, "*B M"]:
    """exp(R / tau) over its sum among the M samples: P_R on them, the proposal's own density left out.

    Appendix B.1. `scores` are the pay-off of the weights, which need not be the pay-off of the token rewards.
    """
    return soft_policy(scores, tau)


def raml(
    logp: Float[Tensor, "*B T V"], tokens: Int[Tensor, "*B T"], weights: Float[Tensor, "*B"], eos: int = EOS
) -> Float[Tensor, "*B T"]:
    """Weighted - log pi of the samples.

    Eq. (raml_objective), in the form of appendix B.1.
    """
    return weights.unsqueeze(-1) * mle(logp, tokens, eos)


def soft_q(
    q: Float[Tensor, "*B T V"],
    tokens: Int[Tensor, "*B T"],
    rewards: Float[Tensor, "*B T"],
    tau: float,
    target_q: Float[Tensor, "*B T V"] | None = None,
    forced: Bool[Tensor, "*B T"] | None = None,
    steps: int = 1,
    eos: int = EOS,
    actions: Bool[Tensor, " V"] | None = None,
) -> Float[Tensor, "*B T"]:
    """Squared soft Bellman residual, with the gradient through both of its sides.

    Eq. (soft_q_learning). With `target_q` (of a target network, or `q.detach()`) the look-ahead side is a constant.
    With several `steps` the residuals that follow are added before squaring: Q of a token against all rewards within
    the steps, less tau log P_Q of the later tokens, plus the value where they lead. Path consistency, Nachum (2017).
    """
    look_ahead, padding = q if target_q is None else target_q.detach(), ~token_mask(tokens, eos)
    targets = one_step_targets(rewards, soft_value(look_ahead, tau, forced, eos, actions), tokens, eos)
    residual = (chosen(q, tokens) - targets).masked_fill(padding, 0)
    if steps > 1:
        later = (chosen(look_ahead, tokens) - targets).masked_fill(padding, 0)
        residual = residual + sums_ahead(later, steps - 1)
    return residual.square()


def path_consistency(
    taken: Float[Tensor, "*B T"],
    values: Float[Tensor, "*B T"],
    tokens: Int[Tensor, "*B T"],
    rewards: Float[Tensor, "*B T"],
    tau: float,
    steps: int = 0,
    eos: int = EOS,
) -> Float[Tensor, "*B T"]:
    """(V(s) + tau log pi of d tokens - their rewards - V(the state that they lead to))^2, with its whole gradient.

    Nachum et al. (2017), eq. (14) without a discount. `taken` is log pi of each token, 0 where eos was forced; d is
    `steps`, or what is left of the sequence; 0 is always to its end.
    """
    targets = one_step_targets(rewards, values, tokens, eos)
    residual = (values + tau * taken - targets).masked_fill(~token_mask(tokens, eos), 0)
    return (residual + sums_ahead(residual, (steps or tokens.shape[-1]) - 1)).square()


def terminal(
    q: Float[Tensor, "*B T V"], tokens: Int[Tensor, "*B T"], gains: Float[Tensor, "*B T"], eos: int = EOS
) -> Float[Tensor, "*B T"]:
    """Squared error of Q(prefix, eos), for the prefix before each token, whatever that is.

    Eq. (terminal_condition): the truth is known, it is what eos would add to the pay-off (`gains`).
    """
    return (q[..., eos] - gains).masked_fill(~token_mask(tokens, eos), 0).square()


def vaml(
    logp: Float[Tensor, "*B T V"],
    q: Float[Tensor, "*B T V"],
    tokens: Int[Tensor, "*B T"],
    weights: Float[Tensor, "*B"],
    tau: float,
    kappa: float | Bool[Tensor, "*B T"],
    forced: Bool[Tensor, "*B T"] | None = None,
    eos: int = EOS,
    actions: Bool[Tensor, " V"] | None = None,
) -> Float[Tensor, "*B T"]:
    """Weighted mixture of the cross entropy to P_Q (kappa) and - log pi of the sample (1 - kappa).

    Appendix B.2, J_kappa: a number takes the expectation over its coin, a boolean tensor gives the coins drawn.
    """
    target = soft_policy(q.detach(), tau, forced, eos, actions)
    to_target = -(target * logp.masked_fill(target == 0, 0)).sum(-1)
    to_sample = -chosen(logp, tokens)
    if isinstance(kappa, Tensor):
        mixture = torch.where(kappa, to_target, to_sample)
    elif kappa == 0:  # exactly RAML, also where a log-probability is infinite
        mixture = to_sample
    else:
        mixture = kappa * to_target + (1 - kappa) * to_sample
    return weights.unsqueeze(-1) * mixture.masked_fill(~token_mask(tokens, eos), 0)


def td_targets(
    target_q: Float[Tensor, "*B T V"],
    logp: Float[Tensor, "*B T V"],
    tokens: Int[Tensor, "*B T"],
    rewards: Float[Tensor, "*B T"],
    tau: float,
    future_entropy: bool = True,
    forced: Bool[Tensor, "*B T"] | None = None,
    eos: int = EOS,
) -> Float[Tensor, "*B T"]:
    """r + sum_w pi Q-bar + tau H(pi) of the next state: constants.

    Eq. (erac_critic_td); `tau = 0`, or no future entropy, is Actor-Critic's.
    """
    values = expected_value(target_q, logp, tau if future_entropy else 0.0, forced, eos)
    return one_step_targets(rewards, values, tokens, eos).detach()


def critic_td(
    q: Float[Tensor, "*B T V"], tokens: Int[Tensor, "*B T"], targets: Float[Tensor, "*B T"], eos: int = EOS
) -> Float[Tensor, "*B T"]:
    """Squared TD error of the tokens taken.

    Eq. (erac_critic).
    """
    return (chosen(q, tokens) - targets).masked_fill(~token_mask(tokens, eos), 0).square()


def smoothing(
    q: Float[Tensor, "*B T V"],
    tokens: Int[Tensor, "*B T"],
    form: SmoothingForm = "sum",
    forced: Bool[Tensor, "*B T"] | None = None,
    eos: int = EOS,
    actions: Bool[Tensor, " V"] | None = None,
) -> Float[Tensor, "*B T"]:
    """sum_w (Q - mean Q)^2 of the states where tokens are chosen; "mean" is the released code's variance.

    Algorithm 3; nothing at the length bound, where nothing is chosen.
    """
    q = q if actions is None else q[..., actions]
    square = (q - q.mean(-1, keepdim=True)).square()
    spread = square.sum(-1) if form == "sum" else square.mean(-1)
    return spread.masked_fill(_not_chosen(tokens, forced, eos), 0)


def actor(
    logp: Float[Tensor, "*B T V"],
    q: Float[Tensor, "*B T V"],
    tokens: Int[Tensor, "*B T"],
    tau: float,
    entropy_form: EntropyForm = "exact",
    forced: Bool[Tensor, "*B T"] | None = None,
    eos: int = EOS,
    start: Float[Tensor, "*B T V"] | None = None,
    leash: float = 0.0,
) -> Float[Tensor, "*B T"]:
    """- (sum_w pi Q + tau H(pi)) with Q constant: the policy gradient over the whole action set.

    Eq. (erac_actor); `tau = 0` is Actor-Critic's. "normalised" is the released code's entropy term, tau log pi over its
    L2 norm. Beyond the paper, `leash` times KL(pi || pi of the start) is added, given the log-probabilities `start`.
    """
    q = q.detach()
    if tau == 0 or entropy_form == "exact":
        gain = expected_value(q, logp, tau)
    else:
        finite = logp.detach().masked_fill(logp == -torch.inf, 0)  # ids that are no actions
        direction = torch.nn.functional.normalize(finite, dim=-1)
        gain = (logp.exp() * (q - tau * direction)).sum(-1)
    if start is not None:
        gain = gain - leash * divergence(logp, start)
    return -gain.masked_fill(_not_chosen(tokens, forced, eos), 0)


def _not_chosen(tokens: Int[Tensor, "*B T"], forced: Bool[Tensor, "*B T"] | None, eos: int) -> Bool[Tensor, "*B T"]:
    """Padding, and the states at the bound where eos was forced."""
    padding = ~token_mask(tokens, eos)
    return padding if forced is None else padding | forced
