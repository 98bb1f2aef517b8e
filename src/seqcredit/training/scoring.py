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
from seqcredit.credit.tables import Packing, Table, look_ahead, pack
from seqcredit.credit.values import chosen, entropy, expected_value
from seqcredit.types import token_mask


@dataclass(frozen=True)
class Scores:
    """What a network says of every state of some sequences: features, and the readout that makes logits or Q."""

    features: Float[Tensor, "*B T D"]
    readout: Callable[[Tensor], Tensor]
    fast: bool = True

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
        return Table(packing.take(self.features), self.readout.weight, self.readout.bias)


def likelihood(
    actor: Scores, tokens: Int[Tensor, "*B T"], weights: Float[Tensor, "*B"] | None = None
) -> Float[Tensor, ""]:
    """Sum of - log pi of sequences, each with its weight."""
    if actor.fused:
        packing = pack(tokens)
        return fused.cross_entropy(actor.packed(packing), packing.take(tokens), _each(weights, packing))[0]
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
    packing = pack(tokens)
    coins = packing.take(kappa) if isinstance(kappa, Tensor) else kappa
    tables = actor.packed(packing), q.packed(packing)
    each = packing.take(tokens), _each(weights, packing)
    return fused.vaml(*tables, *each, phase.tau, coins, packing.take(forced))[0]


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
        return losses.soft_q(q.table, tokens, rewards, phase.tau, constant, forced).sum()
    packing = pack(tokens)
    words, gains, bound = packing.take(tokens), packing.take(rewards), packing.take(forced)
    if later is None:
        return fused.soft_q(q.packed(packing), words, gains, packing.following, phase.tau, bound)[0]
    values = fused.soft_value(later.packed(packing), phase.tau, bound)
    return fused.critic(q.packed(packing), words, gains + look_ahead(values, packing.following))[0]


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


def _each(weights: Tensor | None, packing: Packing) -> Tensor | None:
    """A sequence's weight for each of its tokens."""
    return None if weights is None else packing.take(weights.unsqueeze(-1).expand(packing.shape))
