"""From a network's scores along sequences to losses: by the reference implementation, or fused where possible.

Both give the same numbers and gradients. Losses are sums over all tokens; what comes back for each state is a constant.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seqcredit.credit import fused, losses
from seqcredit.credit.losses import EntropyForm, SmoothingForm
from seqcredit.credit.pieces import BoundValue
from seqcredit.credit.tables import Packing, Table, at, look_ahead, pack
from seqcredit.credit.values import (
    chosen,
    divergence,
    entropy,
    one_step_targets,
    only_actions,
    sums_ahead,
    trace_targets,
)
from seqcredit.models.policy import Linear, Network, Scores
from seqcredit.models.twin import Lower
from seqcredit.types import Alphabet, token_mask


@dataclass(frozen=True)
class Along:
    """What a network says of every state of some sequences."""

    scores: Scores  # (*B, T) states, or the N of a packing
    alphabet: Alphabet
    fast: bool = True
    packing: Packing | None = None  # where sequences share their states

    @classmethod
    def of(cls, network: Network, scores: Scores, fast: bool = True, packing: Packing | None = None) -> "Along":
        """A network's scores."""
        return cls(scores, network.alphabet, fast, packing)

    @property
    def fused(self) -> bool:
        """Whether the fast path can be taken."""
        return self.fast and self.scores.linear() is not None

    @property
    def halves(self) -> list["Along"]:
        """Each of two critics side by side, for a loss that teaches both; of one, itself."""
        if not isinstance(self.scores, Lower):
            return [self]
        return [Along(scores, self.alphabet, self.fast, self.packing) for scores in self.scores]

    @cached_property
    def table(self) -> Float[Tensor, "*B T V"]:
        """All of it, written down; what autocast has made shorter is as precise as losses want it."""
        table = self.scores.table()
        return table.to(torch.promote_types(table.dtype, torch.float32))

    @cached_property
    def logp(self) -> Float[Tensor, "*B T V"]:
        """Log-probabilities of all actions; those of other ids are - infinity."""
        return only_actions(self.table, self.alphabet.actions).log_softmax(-1)

    def packed(self, packing: Packing) -> Table:
        """Without padding, for the fast path."""
        linear = self.scores.linear()
        assert linear is not None
        features = packing.take(linear.features) if self.packing is None else linear.features
        return Table(features, linear.weight, linear.bias, self.alphabet.eos, self.alphabet.actions)


Side = tuple[Along, Tensor]  # what a network says of some sequences, and these


def likelihood(
    actor: Along, tokens: Int[Tensor, "*B T"], weights: Float[Tensor, "*B"] | None = None
) -> Float[Tensor, ""]:
    """Sum of - log pi of sequences, each with its weight."""
    eos = actor.alphabet.eos
    if actor.fused:
        packing = actor.packing or pack(tokens, eos)
        each = None if weights is None else packing.weigh(weights)
        return fused.cross_entropy(actor.packed(packing), packing.take(tokens), each, packing.states)[0]
    logp = actor.logp
    return (losses.mle(logp, tokens, eos) if weights is None else losses.raml(logp, tokens, weights, eos)).sum()


def policy_gradient(actor: Along, tokens: Int[Tensor, "B T"], credit: Float[Tensor, "B T"]) -> Float[Tensor, ""]:
    """Sum of - log pi of the tokens, each with its own credit, which is a constant."""
    eos = actor.alphabet.eos
    if not actor.fused:
        return (credit.detach() * losses.mle(actor.logp, tokens, eos)).sum()
    packing = pack(tokens, eos)
    return fused.cross_entropy(actor.packed(packing), packing.take(tokens), packing.take(credit))[0]


def log_likelihood(actor: Along, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """log pi of the tokens, as constants; 0 on padding."""
    eos = actor.alphabet.eos
    if not actor.fused:
        return -losses.mle(actor.logp, tokens, eos).detach()
    packing = pack(tokens, eos)
    with torch.no_grad():
        return packing.spread(-fused.cross_entropy(actor.packed(packing), packing.take(tokens))[1])


def through(sides: Sequence[Side], loss: Callable[[Sequence[Tensor]], Tensor]) -> Float[Tensor, ""]:
    """A loss that is a function of log pi of the tokens of some sequences.

    Fused: first the numbers, which tell what each token counts for, then the gradient of the tokens so weighed.
    """
    if not all(actor.fused for actor, _ in sides):
        return loss([-losses.mle(actor.logp, tokens, actor.alphabet.eos) for actor, tokens in sides])
    numbers = [log_likelihood(actor, tokens).requires_grad_() for actor, tokens in sides]
    with torch.enable_grad():
        value = loss(numbers)
        slopes = torch.autograd.grad(value, numbers)
    weighed = [policy_gradient(*side, -slope) for side, slope in zip(sides, slopes, strict=True)]
    return value.detach() + sum(part - part.detach() for part in weighed)


def distillation(
    actor: Along,
    q: Along,
    tokens: Int[Tensor, "*B T"],
    weights: Float[Tensor, "*B"],
    tau: float,
    kappa: float | Bool[Tensor, "*B T"],
    forced: Bool[Tensor, "*B T"],
) -> Float[Tensor, ""]:
    """Cross entropy to the token targets of Q for a share kappa, - log pi for the rest."""
    eos, actions = actor.alphabet.eos, actor.alphabet.actions
    if not (actor.fused and q.fused):
        known = q.table.to(actor.logp.dtype)
        return losses.vaml(actor.logp, known, tokens, weights, tau, kappa, forced, eos, actions).sum()
    packing = actor.packing or pack(tokens, eos)
    coins = packing.take(kappa) if isinstance(kappa, Tensor) else kappa
    tables, each = (actor.packed(packing), q.packed(packing)), (packing.take(tokens), packing.weigh(weights))
    return fused.vaml(*tables, *each, tau, coins, packing.take_states(forced), packing.states)[0]


def soft_residual(
    q: Along,
    later: Along | None,
    tokens: Int[Tensor, "*B T"],
    rewards: Float[Tensor, "*B T"],
    tau: float,
    steps: int,
    forced: Bool[Tensor, "*B T"],
) -> Float[Tensor, ""]:
    """Sum of squared soft Bellman residuals; with `later`, the side that looks ahead is a constant from there.

    Several steps: residuals of packed tokens, added along their sequences. Samples that share a token need not share
    what follows it, so that sums are formed where all stand in full.
    """
    eos, actions = q.alphabet.eos, q.alphabet.actions
    if not q.fused:
        constant = None if later is None else later.table.detach()
        return losses.soft_q(q.table, tokens, rewards, tau, constant, forced, steps, eos, actions).sum()
    packing = q.packing or pack(tokens, eos)
    words, gains, bound = packing.take(tokens), packing.take(rewards), packing.take_states(forced)
    table, following, states = q.packed(packing), packing.following, packing.states
    if steps > 1:
        given = words, gains, following, tau, bound, states
        if later is None:
            first = after = fused.soft_residuals(table, *given)
        else:
            with torch.no_grad():
                after = fused.soft_residuals(later.packed(packing), *given)
                expected = _taken(later, packing, tokens) - after  # reward and value of the next state
            first = _taken(q, packing, tokens) - expected
        return (packing.fill(first) + sums_ahead(packing.fill(after), steps - 1)).square().sum()
    each = packing.weigh(rewards.new_ones(tokens.shape[:-1]))
    if later is None:
        return fused.soft_q(table, words, gains, following, tau, bound, each, states)[0]
    values = fused.soft_value(later.packed(packing), tau, bound)
    return fused.critic(table, words, gains + look_ahead(values, following), weights=each, states=states)[0]


def terminal_error(q: Along, tokens: Int[Tensor, "*B T"], gains: Float[Tensor, "*B T"]) -> Float[Tensor, ""]:
    """Sum of the squared errors of Q(eos) before every token, given what eos would add to the pay-off there."""
    eos = q.alphabet.eos
    if not q.fused:
        return losses.terminal(q.table, tokens, gains, eos).sum()
    packing = q.packing or pack(tokens, eos)
    found = _taken(q, packing, torch.full_like(tokens, eos))
    each = packing.weigh(gains.new_ones(tokens.shape[:-1]))
    return (each * (found - packing.take(gains)).square()).sum()


def _taken(q: Along, packing: Packing, actions: Int[Tensor, "*B T"]) -> Float[Tensor, " K"]:
    """Q of one action for each packed token, no other being scored."""
    table = q.packed(packing)
    return Linear(at(table.features, packing.states), table.weight, table.bias).of(packing.take(actions))


class Looking(NamedTuple):
    """How the value of the next state is formed."""

    tau: float
    future_entropy: bool
    bound_value: BoundValue
    trace: float = 0.0  # how much of what followed after the next state counts
    steps: int = 0  # how many rewards count at the most; 0: all


class Judged(NamedTuple):
    """TD targets, the actor's entropy in every state, and the sum of its losses, 0 where it does not learn."""

    targets: Float[Tensor, "B T"]
    entropy: Float[Tensor, "B T"]
    loss: Float[Tensor, ""]
    drift: Float[Tensor, "B T"]  # KL to the start, 0 without a leash


class Leash(NamedTuple):
    """How much it costs an actor to leave the policy that it started from."""

    start: Along
    weight: float


def evaluate(
    actor: Along,
    target: Along,
    tokens: Int[Tensor, "B T"],
    rewards: Float[Tensor, "B T"],
    looking: Looking,
    forced: Bool[Tensor, "B T"],
    q: Along | None = None,
    entropy_form: EntropyForm = "exact",
    leash: Leash | None = None,
) -> Judged:
    """TD targets: what each token adds, and the value of the state after it.

    With Q also the actor's loss under it, from one pass over its distribution; without, the actor is fixed.
    """
    eos, (start, weight) = actor.alphabet.eos, leash or (None, 0.0)
    fading = tokens, looking.trace, looking.steps, eos
    if all(network.fused for network in (actor, target, q, start) if network is not None):
        packing = pack(tokens, eos)
        critic, first = (None if network is None else network.packed(packing) for network in (q, start))
        how = looking.tau, entropy_form, looking.future_entropy, packing.take(forced), looking.bound_value
        found = fused.actor(actor.packed(packing), critic, target.packed(packing), *how, start=first, leash=weight)
        values, uncertainty, drift = (packing.spread(each) for each in found[1:])
        targets, loss = one_step_targets(rewards, values, tokens, eos), found.loss
        if looking.trace:
            targets = trace_targets(targets, packing.spread(_taken(target, packing, tokens)).detach(), *fading)
    else:
        logp, bound = actor.logp.detach(), forced if looking.bound_value == "eos" else None
        later, origin = target.table.detach(), None if start is None else start.logp.detach()
        targets = losses.td_targets(later, logp, tokens, rewards, looking.tau, looking.future_entropy, bound, eos)
        loss, uncertainty, drift = rewards.new_zeros(()), entropy(logp, forced), torch.zeros_like(rewards)
        if q is not None:
            given = tokens, looking.tau, entropy_form, forced, eos, origin, weight
            loss = losses.actor(actor.logp, q.table, *given).sum()
        if origin is not None:
            drift = divergence(logp, origin)
        if looking.trace:
            targets = trace_targets(targets, chosen(later, tokens), *fading)
    return Judged(targets, uncertainty, loss, drift)


class Restrained(NamedTuple):
    """The cost of little entropy and of leaving the start, and both in every state."""

    loss: Float[Tensor, ""]
    entropy: Float[Tensor, "B T"]
    drift: Float[Tensor, "B T"]


def restrain(
    actor: Along,
    tokens: Int[Tensor, "B T"],
    forced: Bool[Tensor, "B T"],
    tau: float,
    leash: Leash | None,
    weights: Float[Tensor, " B"],
) -> Restrained:
    """Sum of leash KL(pi || start) - tau H(pi), each sequence with its weight: the actor's loss where all Q are 0."""
    eos, (start, strength) = actor.alphabet.eos, leash or (None, 0.0)
    if actor.fused and (start is None or start.fused):
        packing = pack(tokens, eos)
        mine, first = actor.packed(packing), None if start is None else start.packed(packing)
        flat = mine.features.new_zeros(len(mine.features), 1), mine.weight.new_zeros(len(mine.weight), 1)
        no_q = mine._replace(features=flat[0], weight=flat[1], bias=None)
        bound, each = packing.take(forced), packing.weigh(weights)
        found = fused.actor(mine, no_q, no_q, tau, forced=bound, weights=each, start=first, leash=strength)
        return Restrained(found.loss, packing.spread(found.entropy), packing.spread(found.drift))
    logp, origin = actor.logp, None if start is None else start.logp
    each = losses.actor(logp, torch.zeros_like(logp), tokens, tau, "exact", forced, eos, origin, strength)
    known = logp.detach()
    drift = torch.zeros_like(forced, dtype=logp.dtype) if origin is None else divergence(known, origin)
    return Restrained((weights.unsqueeze(-1) * each).sum(), entropy(known, forced), drift)


class Smoothing(NamedTuple):
    """The critic's penalty for a wide spread of Q."""

    strength: float
    form: SmoothingForm


def temporal_difference(
    q: Along,
    tokens: Int[Tensor, "B T"],
    targets: Float[Tensor, "B T"],
    share: float,
    smoothing: Smoothing,
    forced: Bool[Tensor, "B T"],
) -> tuple[Float[Tensor, ""], Float[Tensor, "B T"]]:
    """Sum of `share` times the squared TD errors and of smoothing, and Q of the tokens, 0 on padding."""
    eos, actions = q.alphabet.eos, q.alphabet.actions
    if q.fused:
        packing = pack(tokens, eos)
        given = packing.take(tokens), packing.take(targets), *smoothing, packing.take(forced), share
        loss, found = fused.critic(q.packed(packing), *given)
        return loss, packing.spread(found)
    loss = share * losses.critic_td(q.table, tokens, targets, eos).sum()
    if smoothing.strength:
        spread = losses.smoothing(q.table, tokens, smoothing.form, forced, eos, actions)
        loss = loss + smoothing.strength * spread.sum()
    return loss, chosen(q.table, tokens).detach().masked_fill(~token_mask(tokens, eos), 0)
