"""The losses of `losses`, fast: from features and readout to a weighted sum, without keeping an (N, V) tensor.

Chunks of rows that fit into the cache are scored, turned into the gradient of their scores and multiplied back at once.
A loss equals the reference implementation in value and gradient; everything else that comes back is a constant.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from seqcredit.credit.losses import EntropyForm, SmoothingForm
from seqcredit.credit.pieces import (
    BoundValue,
    after,
    boltzmann,
    bounded,
    normalise,
    policy_of,
    pressure,
    split,
    spread,
)
from seqcredit.credit.tables import Reader, Table, Trainable, at, look_ahead
from seqcredit.types import Context


def cross_entropy(
    logits: Table,
    tokens: Int[Tensor, " K"],
    weights: Float[Tensor, " K"] | None = None,
    states: Int[Tensor, " K"] | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, " K"]]:
    """Weighted sum of - log pi of the tokens; and - log pi of each, not weighted.

    `losses.mle` and `losses.raml`.
    """
    learner = Trainable(logits)
    with learner:
        weights = learner.numbers(weights, len(tokens))
        normaliser, scratch = learner.zeros(), learner.tables(2)
        normalise(learner, learner.chunks(), learner.by_state(weights, states), normaliser, scratch)
        nll = at(normaliser, states) - learner.chosen(tokens, states)
        learner.learn_chosen(tokens, states, -weights)
        loss = (weights * nll).sum()
    return learner.attach(loss), nll


def vaml(
    logits: Table,
    q: Table,
    tokens: Int[Tensor, " K"],
    weights: Float[Tensor, " K"] | None,
    tau: float,
    kappa: float | Bool[Tensor, " K"],
    forced: Bool[Tensor, " N"] | None = None,
    states: Int[Tensor, " K"] | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, " K"]]:
    """Weighted mixture of the cross entropy to P_Q (kappa) and - log pi (1 - kappa); and - log pi of each token.

    `losses.vaml`. Q is a constant; it is not read where kappa is 0.
    """
    if not isinstance(kappa, Tensor) and kappa == 0:
        return cross_entropy(logits, tokens, weights, states)
    learner, critic = Trainable(logits), Reader(q)
    with learner:
        weights = learner.numbers(weights, len(tokens))
        share = kappa.to(weights.dtype) if isinstance(kappa, Tensor) else kappa
        mass, taught = learner.by_state(weights, states), learner.by_state(weights * share, states)
        by_q, by_eos = split(taught, forced)
        normaliser, agreement, scratch = learner.zeros(), learner.zeros(), learner.tables(3)
        some = by_q != 0 if isinstance(kappa, Tensor) else None
        for rows in learner.chunks(some):
            target, _ = boltzmann(critic.scores(rows, scratch[0]), tau, scratch[1])
            scores = learner.scores(rows, scratch[0])
            agreement[rows] = learner.dot(target, scores)
            policy, normaliser[rows] = boltzmann(scores, 1.0, scratch[2])
            slope = policy.mul_(mass[rows, None]).addcmul_(target, by_q[rows, None], value=-1)
            learner.learn(rows, slope, torch.ones_like(mass[rows]))
        if some is not None:
            normalise(learner, learner.chunks(~some), mass, normaliser, scratch)
        nll = at(normaliser, states) - learner.chosen(tokens, states)
        learner.learn_chosen(tokens, states, weights * (share - 1))
        to_eos = normaliser - learner.eos()
        learner.learn_eos(-by_eos)
        loss = (weights * (1 - share) * nll).sum() + (by_q * (normaliser - agreement) + by_eos * to_eos).sum()
    return learner.attach(loss), nll


def soft_value(q: Table, tau: float, forced: Bool[Tensor, " N"] | None = None) -> Float[Tensor, " N"]:
    """tau log sum_w exp(Q / tau) of every state, as constants: with `look_ahead`, targets for `critic`.

    `values.soft_value`.
    """
    critic = Reader(q)
    with critic:
        values, scratch = critic.zeros(), critic.tables(2)
        for rows in critic.chunks():
            _, values[rows] = boltzmann(critic.scores(rows, scratch[0]), tau, scratch[1])
        return values if forced is None else torch.where(forced, critic.eos(), values)


def soft_q(
    q: Table,
    tokens: Int[Tensor, " K"],
    rewards: Float[Tensor, " K"],
    following: Int[Tensor, " K"],
    tau: float,
    forced: Bool[Tensor, " N"] | None = None,
    weights: Float[Tensor, " K"] | None = None,
    states: Int[Tensor, " K"] | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, " K"]]:
    """Weighted sum of squared soft Bellman residuals, the gradient through both sides; and the residual of each token.

    `losses.soft_q` without a target network. A state follows one token at the most, so its residual is known with it.
    """
    learner = Trainable(q)
    with learner:
        weights = learner.numbers(weights, len(tokens))
        excess = learner.chosen(tokens, states) - rewards  # the residual, but for the value that follows
        before, mass, reached = (after(x, following, q) for x in (excess, weights, torch.ones_like(excess)))
        values, eos, scratch = learner.zeros(), learner.eos(), learner.tables(2)
        for rows in learner.chunks(reached != 0):
            policy, value = boltzmann(learner.scores(rows, scratch[0]), tau, scratch[1])
            values[rows] = value if forced is None else torch.where(forced[rows], eos[rows], value)
            by_value, _ = split(2 * mass * (values - before), forced)
            learner.learn(rows, policy, by_value[rows])
        _, by_eos = split(2 * mass * (values - before), forced)
        learner.learn_eos(by_eos)
        residual = excess - look_ahead(values, following)
        learner.learn_chosen(tokens, states, 2 * weights * residual)
        loss = (weights * residual.square()).sum()
    return learner.attach(loss), residual


def soft_residuals(
    q: Table,
    tokens: Int[Tensor, " K"],
    rewards: Float[Tensor, " K"],
    following: Int[Tensor, " K"],
    tau: float,
    forced: Bool[Tensor, " N"] | None = None,
    states: Int[Tensor, " K"] | None = None,
) -> Float[Tensor, " K"]:
    """The soft Bellman residual of each token, with gradients: for losses that are made of several of them.

    What `losses.soft_q` squares. Scores are formed twice, forward and backward, since slopes are known only then.
    """
    residuals: Tensor = _Residuals.apply(*q, tokens, rewards, following, tau, forced, states)
    return residuals


class _Residuals(torch.autograd.Function):
    """Q of the tokens less rewards and the soft value of the states that follow."""

    @staticmethod
    def forward(
        ctx: Context,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        eos: int,
        actions: Tensor | None,
        tokens: Tensor,
        rewards: Tensor,
        following: Tensor,
        tau: float,
        forced: Tensor | None,
        states: Tensor | None,
    ) -> Tensor:
        table = Table(features, weight, bias, eos, actions)
        ctx.save_for_backward(features, weight, bias, tokens, following, forced, states)
        ctx.tau, ctx.eos, ctx.actions = tau, eos, actions
        values, reader = soft_value(table, tau, forced), Reader(table)
        with reader:
            return reader.chosen(tokens, states) - reader.numbers(rewards, len(tokens)) - look_ahead(values, following)

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, slope: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, bias, tokens, following, forced, states = ctx.saved_tensors
        table = Table(features, weight, bias, ctx.eos, ctx.actions)
        learner = Trainable(table, wanted=True)
        with learner:
            slope = learner.numbers(slope, len(tokens))
            by_value, by_eos = split(after(-slope, following, table), forced)
            scratch = learner.tables(2)
            for rows in learner.chunks(by_value != 0):
                policy, _ = boltzmann(learner.scores(rows, scratch[0]), ctx.tau, scratch[1])
                learner.learn(rows, policy, by_value[rows])
            learner.learn_eos(by_eos)
            learner.learn_chosen(tokens, states, slope)
        needed = zip(ctx.needs_input_grad[:3], learner.gradient, strict=True)
        return *(part if need else None for need, part in needed), *[None] * 8


class Improved(NamedTuple):
    """The loss of the actor, and what it and the target critic say of every state."""

    loss: Float[Tensor, ""]
    values: Float[Tensor, " N"]  # for `look_ahead`
    entropy: Float[Tensor, " N"]
    drift: Float[Tensor, " N"]  # KL to the start, 0 without a leash


def actor(
    logits: Table,
    q: Table | None,
    target_q: Table,
    tau: float,
    entropy_form: EntropyForm = "exact",
    future_entropy: bool = True,
    forced: Bool[Tensor, " N"] | None = None,
    bound_value: BoundValue = "eos",
    weights: Float[Tensor, " N"] | None = None,
    start: Table | None = None,
    leash: float = 0.0,
) -> Improved:
    """Weighted sum of - (sum_w pi Q + tau H(pi)); and sum_w pi Q-bar + tau H(pi) of every state, from the same pi.

    `losses.actor`, and the values in `losses.td_targets`. Q, Q-bar and the policy of the start are constants. Without Q
    the actor is fixed: there are the values and the entropy, and the loss is 0.
    """
    learner, target = Trainable(logits), Reader(target_q)
    critic, first = (None if table is None else Reader(table) for table in (q, start))
    with learner:
        weights, _ = split(learner.numbers(weights, len(logits.features)), forced)
        gain, values, entropy, drift = (learner.zeros() for _ in range(4))
        scratch = learner.tables(2 if q is None else 3 if start is None else 5)
        for rows in learner.chunks():
            policy, logp = policy_of(learner, rows, scratch)
            entropy[rows] = -learner.dot(policy, logp)
            values[rows] = target.expected(policy, rows)
            if critic is None:
                continue
            energy = critic.scores(rows, scratch[2])
            if tau != 0:
                energy.addcmul_(logp, pressure(logp, tau, entropy_form, logits.actions), value=-1)
            if first is not None:
                apart = logp - policy_of(first, rows, scratch[3:])[1]
                drift[rows] = learner.dot(policy, apart)
                energy.sub_(apart, alpha=leash)
            gain[rows] = learner.dot(policy, energy)
            learner.learn(rows, energy.sub_(gain[rows, None]).mul_(policy), -weights[rows])
        loss = -(weights * gain).sum()
        values, entropy = bounded(values, entropy, target, tau if future_entropy else 0.0, forced, bound_value)
    return Improved(learner.attach(loss), values, entropy, drift)


def critic(
    q: Table,
    tokens: Int[Tensor, " K"],
    targets: Float[Tensor, " K"],
    smoothing: float = 0.0,
    smoothing_form: SmoothingForm = "sum",
    forced: Bool[Tensor, " N"] | None = None,
    td_weight: float = 1.0,
    weights: Float[Tensor, " K"] | None = None,
    states: Int[Tensor, " K"] | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, " K"]]:
    """Weighted sum of squared TD errors, and of the spread of Q over all actions; and Q of each token.

    `losses.critic_td` and `losses.smoothing`. No product through V: a TD error knows one word, and the spread is a
    quadratic form of the features.
    """
    learner = Trainable(q)
    with learner:
        weights = learner.numbers(weights, len(tokens))
        chosen = learner.chosen(tokens, states)
        error = chosen - targets
        learner.learn_chosen(tokens, states, 2 * td_weight * weights * error)
        loss = td_weight * (weights * error.square()).sum()
        if smoothing:
            strength = smoothing / (learner.count() if smoothing_form == "mean" else 1)
            free, _ = split(learner.by_state(weights, states), forced)
            loss = loss + spread(learner, strength * free)
    return learner.attach(loss), chosen
