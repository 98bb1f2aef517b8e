"""Parts of the fused losses: softmaxes of chunks, their soft values, the variance of Q as a quadratic form."""

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from seqcredit.credit.losses import EntropyForm
from seqcredit.credit.tables import Reader, Table, Trainable
from seqcredit.credit.values import soft_policy
from seqcredit.products import product

BoundValue = Literal["eos", "free"]


def normalise(actor: Trainable, chunks: Iterator[Tensor], mass: Tensor, normaliser: Tensor, scratch: Tensor) -> None:
    """log sum exp of the scores of each state, and the gradient of its sum weighted with `mass`."""
    for rows in chunks:
        policy, normaliser[rows] = boltzmann(actor.scores(rows, scratch[0]), 1.0, scratch[1])
        actor.learn(rows, policy, mass[rows])


def boltzmann(scores: Tensor, tau: float, out: Tensor) -> tuple[Tensor, Tensor]:
    """The soft policy of scores (n, V), and their soft value (n). Scores are divided by tau where they stand."""
    if tau == 0:
        return soft_policy(scores, tau), scores.amax(-1)
    if tau != 1:
        scores.div_(tau)
    policy = torch.softmax(scores, -1, out=out[: len(scores)])
    # The likeliest action has score - log probability = log sum exp, and its probability is far from 0.
    return policy, tau * (scores.amax(-1) - policy.amax(-1).log())


def policy_of(actor: Reader, rows: Tensor, scratch: Tensor) -> tuple[Tensor, Tensor]:
    """pi and log pi (n, V)."""
    scores = actor.scores(rows, scratch[0])
    policy, normaliser = boltzmann(scores, 1.0, scratch[1])
    return policy, scores.sub_(normaliser.unsqueeze(-1))


def pressure(logp: Tensor, tau: float, entropy_form: EntropyForm, actions: Tensor | None) -> Tensor:
    """The factor of - log pi beside Q (n, 1): tau, or tau over the L2 norm."""
    if entropy_form == "exact":
        return logp.new_full((1, 1), tau)
    finite = logp if actions is None else logp.masked_fill(~actions, 0)
    return tau / finite.norm(dim=-1, keepdim=True).clamp(min=1e-12)


def bounded(
    values: Tensor, entropy: Tensor, target: Reader, tau: float, forced: Tensor | None, bound_value: BoundValue
) -> tuple[Tensor, Tensor]:
    """Values with tau times the entropy, and the entropy; at the bound Q-bar(eos) and 0."""
    values = values + tau * entropy
    if forced is None:
        return values, entropy
    if bound_value == "eos":
        values = torch.where(forced, target.eos(), values)
    return values, entropy.masked_fill(forced, 0)


def spread(critic: Trainable, strength: Tensor) -> Tensor:
    """Sum over states of strength times sum_w (Q - mean Q)^2, as the product of two (D + 1) square matrices.

    With rows w~ = [weight, bias] less their mean and h~ = [features, 1] it is <sum_w w~ w~', sum_n strength h~ h~'>.
    """
    features = torch.cat([critic.features, torch.ones_like(critic.features[:, :1])], 1).to(strength.dtype)
    weighted = strength.unsqueeze(-1) * features
    of_states = features.T @ weighted
    of_words = torch.zeros_like(of_states)
    mean = critic.mean_readout()
    for words in critic.blocks():
        readout = torch.cat([critic.weight[words].to(strength.dtype), critic.bias[words].unsqueeze(-1)], 1) - mean
        if critic.actions is not None:
            readout = readout.masked_fill(~critic.actions[words].unsqueeze(-1), 0)
        of_words.add_(product(readout.T, readout))
        critic.learn_words(words, readout, 2 * of_states)
    critic.learn_features(2 * (weighted @ of_words)[:, :-1])
    return (of_words * of_states).sum()


def split(numbers: Tensor, forced: Tensor | None) -> tuple[Tensor, Tensor]:
    """Numbers of the states where all actions are allowed, and of those where eos is forced; 0 elsewhere."""
    if forced is None:
        return numbers, torch.zeros_like(numbers)
    return numbers.masked_fill(forced, 0), numbers.masked_fill(~forced, 0)


def after(numbers: Tensor, following: Tensor, table: Table) -> Tensor:
    """Numbers of tokens (K), at the states that they lead to (N); 0 at the others. The last cell holds the ends."""
    return numbers.new_zeros(len(table.features) + 1).index_put((following,), numbers)[:-1]
