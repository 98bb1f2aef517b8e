"""From features to losses in two ways: by the specification for any readout, fused where it is linear.

Both give the same numbers and gradients. Losses are sums over all tokens; what comes back for each state is a constant.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqcredit.config import ActorCritic, Critic, SoftQ, Vaml
from seqcredit.credit import fused, losses
from seqcredit.credit.tables import Packing, Table, at, look_ahead, pack
from seqcredit.credit.values import chosen, entropy, expected_value, sums_ahead
from seqcredit.types import EOS, token_mask


@dataclass(frozen=True)
class Scores:
    """What a network says of every state of some sequences: features, and the readout that makes logits or Q."""

    features: Float[Tensor, "*B T D"] | Float[Tensor, "N D"]  # the latter with a packing
    readout: Callable[[Tensor], Tensor]
    fast: bool = True
    packing: Packing | None = None  # where sequences share their states

    @property
    def fused(self) -> bool:
        """Whether the fast path can be taken."""
        return self.fast and isinstance(self.readout, nn.Linear)

    @cached_property
    def table(self) -> Float[Tensor, "*B T V"]:
        """All of it, written down."""
        return self.readout(self.features)

    @cached_property
    def logp(self) -> Float[Tensor, "*B T V"]:
        """Log-probabilities of all actions."""
        return self.table.log_softmax(-1)

    def packed(self, packing: Packing) -> Table:
        """Without padding, for the fast path."""
        assert isinstance(self.readout, nn.Linear)
        features = packing.take(self.features) if self.packing is None else self.features
        return Table(features, self.readout.weight, self.readout.bias)


def likelihood(
    actor: Scores, tokens: Int[Tensor, "*B T"], weights: Float[Tensor, "*B"] | None = None
) -> Float[Tensor, ""]:
    """Sum of - log pi of sequences, each with its weight."""
    if actor.fused:
        packing = actor.packing or pack(tokens)
        each = None if weights is None else packing.weigh(weights)
        return fused.cross_entropy(actor.packed(packing), packing.take(tokens), each, packing.states)[0]
    if weights is None:
        return losses.mle(actor.logp, tokens).sum()
    return losses.raml(actor.logp, tokens, weights).sum()


def distillation(
    actor: Scores,
    q: Scores,
    tokens: Int[Tensor, "*B T"],
    weights: Float[Tensor, "*B"],
    phase: Vaml,
    kappa: float | Bool[Tensor, "*B T"],
    forced: Bool[Tensor, "*B T"],
) -> Float[Tensor, ""]:
    """Cross entropy to the token targets of Q for a share kappa, - log pi for the rest."""
    if not (actor.fused and q.fused):
        return losses.vaml(actor.logp, q.table, tokens, weights, phase.tau, kappa, forced).sum()
    packing = actor.packing or pack(tokens)
    coins = packing.take(kappa) if isinstance(kappa, Tensor) else kappa
    tables, each = (actor.packed(packing), q.packed(packing)), (packing.take(tokens), packing.weigh(weights))
    return fused.vaml(*tables, *each, phase.tau, coins, packing.take_states(forced), packing.states)[0]


def soft_residual(
    q: Scores,
    target: Scores | None,
    tokens: Int[Tensor, "*B T"],
    rewards: Float[Tensor, "*B T"],
    phase: SoftQ,
    forced: Bool[Tensor, "*B T"],
) -> Float[Tensor, ""]:
    """Sum of squared soft Bellman residuals; with a target network its side is a constant."""
    later = q if phase.look_ahead == "constant" else target
    if not q.fused:
        constant = None if later is None else later.table.detach()
        return losses.soft_q(q.table, tokens, rewards, phase.tau, constant, forced, phase.steps).sum()
    if phase.steps > 1:
        return _path_residual(q, later, tokens, rewards, phase, forced)
    packing = q.packing or pack(tokens)
    words, gains, bound = packing.take(tokens), packing.take(rewards), packing.take_states(forced)
    table, following, states = q.packed(packing), packing.following, packing.states
    each = packing.weigh(rewards.new_ones(tokens.shape[:-1]))
    if later is None:
        return fused.soft_q(table, words, gains, following, phase.tau, bound, each, states)[0]
    values = fused.soft_value(later.packed(packing), phase.tau, bound)
    return fused.critic(table, words, gains + look_ahead(values, following), weights=each, states=states)[0]


def _path_residual(
    q: Scores, later: Scores | None, tokens: Tensor, rewards: Tensor, phase: SoftQ, forced: Tensor
) -> Float[Tensor, ""]:
    """The same with several steps: residuals of packed tokens, added along their sequences.

    Samples that share a token need not share what follows it, so that sums are formed where all stand in full.
    """
    packing = q.packing or pack(tokens)
    given = packing.take(tokens), packing.take(rewards), packing.following, phase.tau, packing.take_states(forced)
    if later is None:
        first = after = fused.soft_residuals(q.packed(packing), *given, packing.states)
    else:
        with torch.no_grad():
            after = fused.soft_residuals(later.packed(packing), *given, packing.states)
            expected = _taken(later, packing, tokens) - after  # reward and value of the next state
        first = _taken(q, packing, tokens) - expected
    return (packing.fill(first) + sums_ahead(packing.fill(after), phase.steps - 1)).square().sum()


def terminal_error(q: Scores, tokens: Int[Tensor, "*B T"], gains: Float[Tensor, "*B T"]) -> Float[Tensor, ""]:
    """Sum of the squared errors of Q(eos) before every token, given what eos would add to the pay-off there."""
    if not q.fused:
        return losses.terminal(q.table, tokens, gains).sum()
    packing = q.packing or pack(tokens)
    found = _taken(q, packing, torch.full_like(tokens, EOS))
    each = packing.weigh(gains.new_ones(tokens.shape[:-1]))
    return (each * (found - packing.take(gains)).square()).sum()


def _taken(q: Scores, packing: Packing, actions: Int[Tensor, "*B T"]) -> Float[Tensor, " K"]:
    """Q of one action for each packed token, no other being scored."""
    features, weight, bias = q.packed(packing)
    words, features = packing.take(actions), at(features, packing.states)
    return (features * weight[words]).sum(-1) + bias[words]


class Judged(NamedTuple):
    """Sum of the actor's losses, and of every state its value under the actor and the actor's entropy."""

    loss: Float[Tensor, ""]
    values: Float[Tensor, "B T"]
    entropy: Float[Tensor, "B T"]


def improvement(
    actor: Scores,
    q: Scores,
    target: Scores,
    tokens: Int[Tensor, "B T"],
    phase: ActorCritic,
    forced: Bool[Tensor, "B T"],
) -> Judged:
    """The actor's gain under Q, and what the target critic expects of it."""
    if not (actor.fused and q.fused and target.fused):
        gain = losses.actor(actor.logp, q.table, tokens, phase.tau, phase.entropy_form, forced).sum()
        return Judged(gain, *_evaluated(actor, target, phase, forced))
    packing = pack(tokens)
    found = fused.actor(
        actor.packed(packing),
        q.packed(packing),
        target.packed(packing),
        phase.tau,
        phase.entropy_form,
        phase.future_entropy,
        packing.take(forced),
        phase.bound_value,
    )
    return Judged(found.loss, packing.spread(found.values), packing.spread(found.entropy))


@torch.no_grad()
def evaluation(
    actor: Scores, target: Scores, tokens: Int[Tensor, "B T"], phase: Critic, forced: Bool[Tensor, "B T"]
) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B T"]]:
    """Values of every state under a fixed actor, and its entropy there."""
    if not (actor.fused and target.fused):
        return _evaluated(actor, target, phase, forced)
    packing = pack(tokens)
    found = fused.expected_value(
        actor.packed(packing),
        target.packed(packing),
        phase.tau,
        phase.future_entropy,
        packing.take(forced),
        phase.bound_value,
    )
    return packing.spread(found[0]), packing.spread(found[1])


def temporal_difference(
    q: Scores, tokens: Int[Tensor, "B T"], targets: Float[Tensor, "B T"], phase: Critic, forced: Bool[Tensor, "B T"]
) -> tuple[Float[Tensor, ""], Float[Tensor, "B T"]]:
    """Sum of the critic's losses, smoothing included, and Q of the tokens, 0 on padding."""
    share = 1.0 if phase.td_form == "squared" else 0.5
    if q.fused:
        packing = pack(tokens)
        smoothing = phase.smoothing, phase.smoothing_form, packing.take(forced)
        loss, found = fused.critic(q.packed(packing), packing.take(tokens), packing.take(targets), *smoothing, share)
        return loss, packing.spread(found)
    loss = share * losses.critic_td(q.table, tokens, targets).sum()
    if phase.smoothing:
        loss = loss + phase.smoothing * losses.smoothing(q.table, tokens, phase.smoothing_form, forced).sum()
    return loss, chosen(q.table, tokens).detach().masked_fill(~token_mask(tokens), 0)


def _evaluated(actor: Scores, target: Scores, phase: Critic, forced: Tensor) -> tuple[Tensor, Tensor]:
    """By the specification: the values in `losses.td_targets`, and the entropy."""
    logp, tau = actor.logp.detach(), phase.tau if phase.future_entropy else 0.0
    values = expected_value(target.table.detach(), logp, tau, forced if phase.bound_value == "eos" else None)
    return values, entropy(logp, forced)
