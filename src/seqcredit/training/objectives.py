"""One function a training phase: sample or propose, score, value, lose. The trainer knows no algorithm.

Every loss is a sum over time and a mean over the sentences of the whole batch, of which this process may hold a part.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seqcredit.config import ActorCritic, Critic, Mle, Proposing, Raml, SoftQ, Vaml
from seqcredit.credit import losses
from seqcredit.credit.proposals import corrupt_tokens, replace_ngrams
from seqcredit.credit.values import at_bound, entropy, token_rewards
from seqcredit.draws import Noise
from seqcredit.models.memory import repeat
from seqcredit.models.search import sample
from seqcredit.rewards.bleu import corpus_counts
from seqcredit.types import EOS, UNK, Batch, Reward, lengths, token_mask

Models = Mapping[str, Any]  # "actor", "critic", "target": sequence models with encode, features, readout, masks


class Payoffs(NamedTuple):
    """The pay-off of the token rewards, and that of the importance weights."""

    reward: Reward
    weight: Reward


Sums = dict[str, tuple[Tensor, Tensor]]


class Outcome(NamedTuple):
    """Losses of the networks to train, and what is worth watching: sums over tokens or sentences, and their counts."""

    losses: dict[str, Tensor]
    sums: Sums


def mle(models: Models, batch: Batch, phase: Mle, payoffs: Payoffs, noise: Noise) -> Outcome:
    """- log pi of the reference."""
    actor = models["actor"]
    loss, watched = _reference_loss(actor, actor.encode(batch.source), batch, noise)
    return Outcome({"actor": loss}, watched)


def raml(models: Models, batch: Batch, phase: Raml, payoffs: Payoffs, noise: Noise) -> Outcome:
    """- log pi of sequences near the reference, weighted by their pay-off. Appendix B.1."""
    actor = models["actor"]
    tokens, weights = _weighted_proposals(batch, phase, payoffs, noise, actor.actions)
    masks = actor.masks(tokens.shape[-1], noise)
    logp = _over_proposals(actor, actor.encode(batch.source), tokens, masks).log_softmax(-1)
    loss = losses.raml(logp, tokens, weights).sum()
    watched = {"loss": (loss.detach(), _count(weights)), "reference_weight": (weights[:, 0].sum(), _count(weights))}
    return Outcome({"actor": loss / noise.total}, watched)


def soft_q(models: Models, batch: Batch, phase: SoftQ, payoffs: Payoffs, noise: Noise) -> Outcome:
    """Squared soft Bellman residual along sequences near the reference. Algorithm 1."""
    critic = models["critic"]
    tokens = _proposals(batch, phase, noise, critic.actions)
    M = tokens.shape[1]
    rewards = token_rewards(_scores(payoffs.reward, tokens, batch.references))
    masks = critic.masks(tokens.shape[-1], noise)
    q = _over_proposals(critic, critic.encode(batch.references), tokens, masks)
    target_q = q.detach() if phase.look_ahead == "constant" else None
    if phase.look_ahead == "target":
        with torch.no_grad():
            target_q = _over_proposals(models["target"], models["target"].encode(batch.references), tokens, None)
    residual = losses.soft_q(q, tokens, rewards, phase.tau, target_q, _bounded(tokens, phase)).sum()
    return Outcome({"critic": residual / noise.total / M}, {"td": (residual.detach(), token_mask(tokens).sum())})


def vaml(models: Models, batch: Batch, phase: Vaml, payoffs: Payoffs, noise: Noise) -> Outcome:
    """Cross entropy to the token targets of a fixed Q for a share kappa, - log pi for the rest. Algorithm 2."""
    actor, critic = models["actor"], models["critic"]
    tokens, weights = _weighted_proposals(batch, phase, payoffs, noise, actor.actions)
    masks = actor.masks(tokens.shape[-1], noise)
    logp = _over_proposals(actor, actor.encode(batch.source), tokens, masks).log_softmax(-1)
    with torch.no_grad():
        q = _over_proposals(critic, critic.encode(batch.references), tokens, None)
    kappa = noise.uniform(*tokens.shape[1:], device=tokens.device) < phase.kappa if phase.kappa_draws else phase.kappa
    forced = _bounded(tokens, phase)
    loss = losses.vaml(logp, q, tokens, weights, phase.tau, kappa, forced).sum()
    watched = {"loss": (loss.detach(), _count(weights)), "reference_weight": (weights[:, 0].sum(), _count(weights))}
    return Outcome({"actor": loss / noise.total}, watched)


class Rollout(NamedTuple):
    """Sequences drawn from the actor, and what the actor and the target critic say of them."""

    tokens: Int[Tensor, "B T"]
    references: Int[Tensor, "B R L"]
    final: Float[Tensor, " B"]  # R of the whole sequence
    logp: Float[Tensor, "B T V"]
    targets: Float[Tensor, "B T"]
    returns: Float[Tensor, "B T"]  # what really followed each token, its reward included
    forced: Bool[Tensor, "B T"]


def critic(models: Models, batch: Batch, phase: Critic, payoffs: Payoffs, noise: Noise) -> Outcome:
    """TD error and smoothing on samples of a fixed actor. Algorithm 3 with the actor fixed."""
    with torch.no_grad():
        memory = models["actor"].encode(batch.source)
        rollout = _rollout(models, memory, batch, phase, payoffs, noise)
    loss, _, watched = _critic_loss(models, rollout, phase, noise)
    return Outcome({"critic": loss}, watched)


def actor_critic(models: Models, batch: Batch, phase: ActorCritic, payoffs: Payoffs, noise: Noise) -> Outcome:
    """Algorithm 3: ERAC, or Actor-Critic where tau = 0."""
    actor = models["actor"]
    memory = actor.encode(batch.source)
    rollout = _rollout(models, memory, batch, phase, payoffs, noise)
    critic_loss, q, watched = _critic_loss(models, rollout, phase, noise)
    gain = losses.actor(rollout.logp, q, rollout.tokens, phase.tau, phase.entropy_form, rollout.forced).sum()
    actor_loss = gain / noise.total / phase.samples
    if phase.mle_weight:
        reference_loss, likelihood = _reference_loss(actor, memory, batch, noise)
        actor_loss = actor_loss + phase.mle_weight * reference_loss
        watched |= likelihood
    chosen = rollout.forced.logical_not() & token_mask(rollout.tokens)
    uncertainty = entropy(rollout.logp.detach(), ~chosen).sum()
    watched["entropy"] = (uncertainty, chosen.sum())
    return Outcome({"actor": actor_loss, "critic": critic_loss}, watched)


OBJECTIVES: dict[str, Callable[..., Outcome]] = {
    "mle": mle,
    "raml": raml,
    "soft_q": soft_q,
    "vaml": vaml,
    "critic": critic,
    "actor_critic": actor_critic,
}


def _reference_loss(actor: Any, memory: Any, batch: Batch, noise: Noise) -> tuple[Tensor, Sums]:
    tokens = batch.references[:, 0]
    loss = losses.mle(_logp(actor, memory, tokens, actor.masks(tokens.shape[1], noise)), tokens).sum()
    return loss / noise.total, {"nll": (loss.detach(), token_mask(tokens).sum())}


def _logp(model: Any, memory: Any, tokens: Int[Tensor, "B T"], masks: Tensor | None) -> Float[Tensor, "B T V"]:
    return cast(Tensor, model.readout(model.features(memory, tokens, masks)).log_softmax(-1))


def _count(rows: Tensor) -> Tensor:
    """How many there are along the first axis."""
    return torch.tensor(len(rows), device=rows.device)


def _proposals(batch: Batch, phase: Proposing, noise: Noise, actions: int) -> Int[Tensor, "B M L"]:
    references = batch.references[:, 0]
    if phase.proposal == "ngram":
        return replace_ngrams(references, phase.samples, actions, noise, phase.longest).tokens
    return corrupt_tokens(references, phase.samples, actions, noise, phase.corruption).tokens


def _bounded(tokens: Int[Tensor, "B M L"], phase: Proposing) -> Bool[Tensor, "B M L"]:
    """States at the length bound; a longer reference moves the bound of its batch."""
    return at_bound(tokens, max(phase.bound, tokens.shape[-1]))


def _weighted_proposals(
    batch: Batch, phase: Raml, payoffs: Payoffs, noise: Noise, actions: int
) -> tuple[Int[Tensor, "B M L"], Float[Tensor, "B M"]]:
    """M sequences for each reference, and P_R on them."""
    tokens = _proposals(batch, phase, noise, actions)
    final = _scores(payoffs.weight, tokens, batch.references)[..., -1]
    return tokens, losses.importance_weights(final, phase.tau if phase.weight_tau is None else phase.weight_tau)


def _scores(reward: Reward, tokens: Int[Tensor, "B M L"], references: Int[Tensor, "B R K"]) -> Float[Tensor, "B M P"]:
    """Prefix scores of several sequences for each sentence."""
    M = tokens.shape[1]
    return reward.prefix_scores(tokens.flatten(0, 1), references.repeat_interleave(M, 0)).unflatten(0, (-1, M))


def _over_proposals(model: Any, memory: Any, tokens: Int[Tensor, "B M L"], masks: Tensor | None) -> Tensor:
    """The readout (B, M, L, V) along M sequences that share one encoder pass and one dropout mask."""
    M = tokens.shape[1]
    masks = None if masks is None else masks.repeat_interleave(M, 0)
    features = model.features(repeat(memory, M), tokens.flatten(0, 1), masks)
    return cast(Tensor, model.readout(features).unflatten(0, (-1, M)))


def _rollout(models: Models, memory: Any, batch: Batch, phase: Critic, payoffs: Payoffs, noise: Noise) -> Rollout:
    """Draw sequences from the actor; the same dropout gives the samples, pi in the targets and the actor's gradient."""
    actor, target = models["actor"], models["target"]
    longest = batch.references.shape[-1] - 1  # words of the longest reference of the whole batch
    bound = min(longest + phase.extra_length, phase.longest_sample)
    references = batch.references.repeat_interleave(phase.samples, 0)
    memory = repeat(memory, phase.samples)
    several = noise.repeated(phase.samples)
    masks = actor.masks(bound, several)
    tokens = sample(actor, memory, bound, several.uniform(bound, device=references.device), masks)
    T = tokens.shape[1]
    logp = _logp(actor, memory, tokens, None if masks is None else masks[:, :T])
    scores = payoffs.reward.prefix_scores(tokens, references)
    forced = at_bound(tokens, bound)
    value_forced = forced if phase.bound_value == "eos" else None
    with torch.no_grad():
        target_q = target.readout(target.features(target.encode(references), tokens))
        rewards = token_rewards(scores)
        targets = losses.td_targets(
            target_q, logp.detach(), tokens, rewards, phase.tau, phase.future_entropy, value_forced
        )
        returns = _returns(rewards, entropy(logp, forced), tokens, phase)
    return Rollout(tokens, references, scores[:, -1], logp, targets, returns, forced)


def _returns(
    rewards: Float[Tensor, "B T"], uncertainty: Float[Tensor, "B T"], tokens: Int[Tensor, "B T"], phase: Critic
) -> Float[Tensor, "B T"]:
    """The rewards from each token on, and tau times the entropy of the states after it: one sample of Q^pi."""
    later = uncertainty.masked_fill(~token_mask(tokens), 0) * (phase.tau if phase.future_entropy else 0.0)
    following = torch.cat([later[:, 1:], torch.zeros_like(later[:, :1])], 1)
    return (rewards + following).flip(1).cumsum(1).flip(1)


def _critic_loss(
    models: Models, rollout: Rollout, phase: Critic, noise: Noise
) -> tuple[Tensor, Float[Tensor, "B T V"], Sums]:
    """Loss of the critic, its Q, and what is worth watching."""
    critic, tokens = models["critic"], rollout.tokens
    memory = critic.encode(rollout.references)
    q = critic.readout(critic.features(memory, tokens))
    td = losses.critic_td(q, tokens, rollout.targets).sum()
    loss = td if phase.td_form == "squared" else td / 2
    if phase.smoothing:
        loss = loss + phase.smoothing * losses.smoothing(q, tokens, phase.smoothing_form, rollout.forced).sum()
    words, known = lengths(tokens), lengths(rollout.references[:, 0])
    surprise = losses.critic_td(q.detach(), tokens, rollout.returns).sum()
    watched = {
        "td": (td.detach(), token_mask(tokens).sum()),
        "return_error": (surprise, token_mask(tokens).sum()),
        "reward": (rollout.final.sum(), _count(rollout.final)),
        "length_ratio": (words.sum(), known.sum()),
        "repeated": (repeated_bigrams(tokens), (words - 1).clamp(min=0).sum()),
        "unknown": ((tokens == UNK).sum(), words.sum()),
        **_bleu_counts(tokens, rollout.references),
    }
    return loss / noise.total / phase.samples, q, watched


def _bleu_counts(tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"]) -> Sums:
    """What `watch.means` makes the corpus BLEU of the samples from."""
    matches, totals, closest = corpus_counts(tokens, references)
    precisions = {f"precision_{n}": pair for n, pair in enumerate(zip(matches, totals, strict=True), 1)}
    return {**precisions, "closeness": (totals[0], closest)}


def repeated_bigrams(tokens: Int[Tensor, "B T"]) -> Tensor:
    """Number of bigrams that stand earlier in the same sequence: a gamed reward shows here."""
    words = token_mask(tokens) & (tokens != EOS)
    pair = torch.stack([tokens[:, :-1], tokens[:, 1:]], -1)  # (B, T - 1, 2)
    real = words[:, 1:]
    same = (pair.unsqueeze(1) == pair.unsqueeze(2)).all(-1) & real.unsqueeze(1) & real.unsqueeze(2)
    return same.tril(-1).any(-1).sum()
