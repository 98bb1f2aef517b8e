"""One function a training phase: sample or propose, score, value, lose. The trainer knows no algorithm.

Every loss is a sum over time and a mean over the sentences of the whole batch, of which this process may hold a part.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.profiler import record_function as part

from seqcredit.config import ActorCritic, Critic, Mle, Proposing, Raml, SoftQ, Vaml
from seqcredit.credit import losses
from seqcredit.credit.proposals import Proposals, beside, corrupt_tokens, replace_ngrams
from seqcredit.credit.tables import share
from seqcredit.credit.values import at_bound, one_step_targets, token_rewards
from seqcredit.draws import Noise
from seqcredit.models.memory import join, repeat
from seqcredit.models.search import sample
from seqcredit.rewards.bleu import corpus_counts
from seqcredit.rewards.edit import EditDistance
from seqcredit.rewards.finished import finished_scores
from seqcredit.training import scoring
from seqcredit.training.scoring import Scores
from seqcredit.types import EOS, UNK, Batch, Reward, lengths, token_mask

LONGER = 5  # tokens that a sequence drawn from P_Q may have over the longest reference of its batch
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
    actor, tokens = models["actor"], batch.references[:, 0]
    with part("actor"):
        features = actor.features(actor.encode(batch.source), tokens, actor.masks(tokens.shape[1], noise))
    loss, watched = _reference_loss(Scores(features, actor.readout, phase.fused), batch, noise)
    return Outcome({"actor": loss}, watched)


def raml(models: Models, batch: Batch, phase: Raml, payoffs: Payoffs, noise: Noise) -> Outcome:
    """- log pi of sequences near the reference, weighted by their pay-off. Appendix B.1."""
    actor = models["actor"]
    proposals, weights = _weighted_proposals(batch, phase, payoffs, noise, actor)
    masks = actor.masks(proposals.tokens.shape[-1], noise)
    with part("actor"):
        logits = _along(actor, actor.encode(batch.source), proposals, masks, phase.fused)
        loss = scoring.likelihood(logits, proposals.tokens, weights)
    return Outcome({"actor": loss / noise.total}, _weighted(loss, weights) | _diversity(proposals.tokens))


def soft_q(models: Models, batch: Batch, phase: SoftQ, payoffs: Payoffs, noise: Noise) -> Outcome:
    """Squared soft Bellman residual along sequences near the reference. Algorithm 1."""
    critic = models["critic"]
    proposals = _proposals(batch, phase, noise, critic)
    tokens = proposals.tokens
    scores = _scores(payoffs.reward, tokens, batch.references)
    rewards = token_rewards(scores)
    masks = critic.masks(tokens.shape[-1], noise)
    target = None
    if phase.look_ahead == "target":
        with torch.no_grad(), part("target"):
            slow = models["target"]
            target = _along(slow, slow.encode(batch.references), proposals, None, phase.fused)
    with part("critic"):
        q = _along(critic, critic.encode(batch.references), proposals, masks, phase.fused)
        loss = scoring.soft_residual(q, target, tokens, rewards, phase, _bounded(tokens, phase))
        watched = {"td": (loss.detach(), token_mask(tokens).sum())}
        if phase.exact_eos:
            gains = _scores(payoffs.reward, tokens, batch.references, finished_scores) - scores
            error = scoring.terminal_error(q, tokens, gains[..., :-1])
            watched["eos_error"] = (error.detach(), token_mask(tokens).sum())
            loss = loss + phase.exact_eos * error
    return Outcome({"critic": loss / noise.total / tokens.shape[1]}, watched | _diversity(tokens))


def vaml(models: Models, batch: Batch, phase: Vaml, payoffs: Payoffs, noise: Noise) -> Outcome:
    """Cross entropy to the token targets of a fixed Q for a share kappa, - log pi for the rest. Algorithm 2."""
    actor, critic = models["actor"], models["critic"]
    proposals, weights = _weighted_proposals(batch, phase, payoffs, noise, critic)
    tokens, shared = proposals.tokens, phase.fused and not phase.kappa_draws  # each token has a coin of its own
    masks = actor.masks(tokens.shape[-1], noise)
    with part("actor"):
        logits = _along(actor, actor.encode(batch.source), proposals, masks, phase.fused, shared)
    with torch.no_grad(), part("critic"):
        q = _along(critic, critic.encode(batch.references), proposals, None, phase.fused, shared)
    kappa = noise.uniform(*tokens.shape[1:], device=tokens.device) < phase.kappa if phase.kappa_draws else phase.kappa
    with part("actor"):
        loss = scoring.distillation(logits, q, tokens, weights, phase, kappa, _bounded(tokens, phase))
    return Outcome({"actor": loss / noise.total}, _weighted(loss, weights) | _diversity(tokens))


class Rollout(NamedTuple):
    """Sequences drawn from the actor, with what they earned and what the networks say of their states."""

    tokens: Int[Tensor, "B T"]
    references: Int[Tensor, "B R L"]
    forced: Bool[Tensor, "B T"]
    scores: Float[Tensor, "B T+1"]  # R of every prefix
    ends: Float[Tensor, "B T"] | None  # what eos would add to it, if anybody asks
    actor: Scores
    target: Scores
    reference: Scores  # the actor's, along the first reference; without rows if nobody asks for it


def critic(models: Models, batch: Batch, phase: Critic, payoffs: Payoffs, noise: Noise) -> Outcome:
    """TD error and smoothing on samples of a fixed actor. Algorithm 3 with the actor fixed."""
    with torch.no_grad():
        rollout = _rollout(models, batch, phase, payoffs, noise)
    with part("target"):
        values, uncertainty = scoring.evaluation(rollout.actor, rollout.target, rollout.tokens, phase, rollout.forced)
    loss, watched = _critic_loss(_judge(models, rollout, phase), rollout, values, uncertainty, phase, noise)
    return Outcome({"critic": loss}, watched)


def actor_critic(models: Models, batch: Batch, phase: ActorCritic, payoffs: Payoffs, noise: Noise) -> Outcome:
    """Algorithm 3: ERAC, or Actor-Critic where tau = 0."""
    rollout = _rollout(models, batch, phase, payoffs, noise, phase.mle_weight > 0)
    q, tokens, forced = _judge(models, rollout, phase), rollout.tokens, rollout.forced
    with part("actor"):
        judged = scoring.improvement(rollout.actor, q, rollout.target, tokens, phase, forced)
    critic_loss, watched = _critic_loss(q, rollout, judged.values, judged.entropy, phase, noise)
    actor_loss = judged.loss / noise.total / phase.samples
    if phase.mle_weight:
        reference_loss, likelihood = _reference_loss(rollout.reference, batch, noise)
        actor_loss = actor_loss + phase.mle_weight * reference_loss
        watched |= likelihood
    free = token_mask(tokens) & ~forced
    watched["entropy"] = (judged.entropy.masked_fill(~free, 0).sum(), free.sum())
    return Outcome({"actor": actor_loss, "critic": critic_loss}, watched)


OBJECTIVES: dict[str, Callable[..., Outcome]] = {
    "mle": mle,
    "raml": raml,
    "soft_q": soft_q,
    "vaml": vaml,
    "critic": critic,
    "actor_critic": actor_critic,
}


def _reference_loss(actor: Scores, batch: Batch, noise: Noise) -> tuple[Tensor, Sums]:
    tokens = batch.references[:, 0]
    with part("actor"):
        loss = scoring.likelihood(actor, tokens)
    return loss / noise.total, {"nll": (loss.detach(), token_mask(tokens).sum())}


def _weighted(loss: Tensor, weights: Float[Tensor, "B M"]) -> Sums:
    """What is worth watching of weighted sequences, the reference being the first."""
    return {"loss": (loss.detach(), _count(weights)), "reference_weight": (weights[:, 0].sum(), _count(weights))}


def _count(rows: Tensor) -> Tensor:
    """How many there are along the first axis."""
    return torch.tensor(len(rows), device=rows.device)


def _diversity(tokens: Int[Tensor, "B M L"]) -> Sums:
    """Sequences that are not there already, and edit distance of neighbours over the longer one's length."""
    B, M, _ = tokens.shape
    same = (tokens.unsqueeze(1) == tokens.unsqueeze(2)).all(-1)  # (B, M, M)
    one, other = tokens.flatten(0, 1), tokens.roll(1, 1).flatten(0, 1)
    distance = -EditDistance().prefix_scores(one, other.unsqueeze(1))[:, -1]
    longer = torch.maximum(lengths(one), lengths(other)).clamp(min=1)
    count = torch.tensor(B * M, device=tokens.device)
    return {"distinct": ((~same.tril(-1).any(-1)).sum(), count), "diversity": ((distance / longer).sum(), count)}


def _proposals(batch: Batch, phase: Proposing, noise: Noise, model: Any) -> Proposals:
    """M sequences for each reference; `model` is the critic where some of them are drawn from its soft policy."""
    references, M, actions = batch.references[:, 0], phase.samples, model.actions
    with part("sampling"):
        if phase.proposal == "corrupt":
            return corrupt_tokens(references, M, actions, noise, phase.corruption)
        if phase.proposal == "policy":
            return beside(references, _drawn(model, batch, M - 1, phase, noise))
        if phase.proposal == "ngram":
            return replace_ngrams(references, M, actions, noise, phase.longest, phase.words)
        near = replace_ngrams(references, M - M // 2, actions, noise, phase.longest, phase.words)
        far = beside(references, _drawn(model, batch, M // 2, phase, noise))
        wide = nn.functional.pad(near.tokens, (0, far.tokens.shape[-1] - near.tokens.shape[-1]), value=EOS)
        return Proposals(torch.cat([wide, far.tokens[:, 1:]], 1), torch.cat([near.fork, far.fork[:, 1:]], 1))


@torch.no_grad()
def _drawn(critic: Any, batch: Batch, count: int, phase: Proposing, noise: Noise) -> Int[Tensor, "B n T"]:
    """Sequences from the soft policy P_Q, no longer than a few words over the longest reference of the batch."""
    bound = min(phase.bound, batch.references.shape[-1] + LONGER)
    several = noise.repeated(count)
    uniform = several.uniform(bound, device=batch.references.device)
    memory = repeat(critic.encode(batch.references), count)
    tokens = sample(critic, memory, bound, uniform, temperature=phase.tau)
    return nn.functional.pad(tokens, (0, bound - tokens.shape[1]), value=EOS).unflatten(0, (-1, count))


def _bounded(tokens: Int[Tensor, "B M L"], phase: Proposing) -> Bool[Tensor, "B M L"]:
    """States at the length bound; a longer reference moves the bound of its batch."""
    return at_bound(tokens, max(phase.bound, tokens.shape[-1]))


def _weighted_proposals(
    batch: Batch, phase: Raml, payoffs: Payoffs, noise: Noise, model: Any
) -> tuple[Proposals, Float[Tensor, "B M"]]:
    """M sequences for each reference, and P_R on them; what is drawn from P_Q has its share already."""
    proposals = _proposals(batch, phase, noise, model)
    if phase.proposal == "policy":
        return proposals, torch.full(proposals.fork.shape, 1 / phase.samples, device=proposals.fork.device)
    final = _scores(payoffs.weight, proposals.tokens, batch.references)[..., -1]
    return proposals, losses.importance_weights(final, phase.tau if phase.weight_tau is None else phase.weight_tau)


def _scores(
    reward: Reward,
    tokens: Int[Tensor, "B M L"],
    references: Int[Tensor, "B R K"],
    of: Callable[[Reward, Tensor, Tensor], Tensor] = lambda reward, *sides: reward.prefix_scores(*sides),
) -> Float[Tensor, "B M P"]:
    """Prefix scores of several sequences for each sentence."""
    M = tokens.shape[1]
    with part("reward"):
        return of(reward, tokens.flatten(0, 1), references.repeat_interleave(M, 0)).unflatten(0, (-1, M))


def _along(
    model: Any, memory: Any, proposals: Proposals, masks: Tensor | None, fused: bool, shared: bool = True
) -> Scores:
    """Scores along M sequences that share one encoder pass, one dropout mask and, where possible, their beginnings."""
    tokens, fork = proposals
    if fused and shared and isinstance(model.readout, nn.Linear) and hasattr(model, "branches") and not model.fed:
        features = model.branches(memory, tokens, fork, masks)
        return Scores(features, model.readout, packing=share(tokens, fork))
    M = tokens.shape[1]
    masks = None if masks is None else masks.repeat_interleave(M, 0)
    features = model.features(repeat(memory, M), tokens.flatten(0, 1), masks)
    return Scores(features.unflatten(0, (-1, M)), model.readout, fused)


def _rollout(
    models: Models, batch: Batch, phase: Critic, payoffs: Payoffs, noise: Noise, reference: bool = False
) -> Rollout:
    """Draw sequences from the actor; the same dropout gives the samples, pi in the targets and the actor's gradient."""
    actor, target = models["actor"], models["target"]
    longest = batch.references.shape[-1] - 1  # words of the longest reference of the whole batch
    bound = min(longest + phase.extra_length, phase.longest_sample)
    references = batch.references.repeat_interleave(phase.samples, 0)
    several = noise.repeated(phase.samples)
    masks = actor.masks(bound, several)
    with part("actor"):
        memory = actor.encode(batch.source)
    with part("sampling"):
        uniform = several.uniform(bound, device=references.device)
        tokens = sample(actor, repeat(memory, phase.samples), bound, uniform, masks)
    also = batch.references[: len(batch.references) if reference else 0, 0]
    masks_too = actor.masks(also.shape[1], noise) if reference else masks
    with part("actor"):
        drawn, known = _features(actor, memory, (tokens, also), (masks, masks_too), phase.samples)
    with torch.no_grad(), part("reward"):
        scores = payoffs.reward.prefix_scores(tokens, references)
        ends = (finished_scores(payoffs.reward, tokens, references) - scores)[:, :-1] if phase.exact_eos else None
    with torch.no_grad(), part("target"):
        judged = target.features(target.encode(references), tokens)
    logits, target_q, likelihood = (
        Scores(f, m.readout, phase.fused) for f, m in ((drawn, actor), (judged, target), (known, actor))
    )
    return Rollout(tokens, references, at_bound(tokens, bound), scores, ends, logits, target_q, likelihood)


def _features(
    actor: Any, memory: Any, tokens: tuple[Tensor, Tensor], masks: tuple[Tensor | None, Tensor | None], samples: int
) -> tuple[Float[Tensor, "N T D"], Float[Tensor, "B L D"]]:
    """Features along samples and along references, if there are any, in one pass of the decoder."""
    (drawn, known), longer = tokens, max(side.shape[1] for side in tokens)
    everything = repeat(memory, samples)
    if len(known):
        everything = join(everything, memory)
    both = torch.cat([nn.functional.pad(side, (0, longer - side.shape[1]), value=EOS) for side in tokens])
    drops = [
        nn.functional.pad(mask[: len(side), :longer], (0, 0, 0, max(0, longer - mask.shape[1])))
        for mask, side in zip(masks, tokens, strict=True)
        if mask is not None
    ]
    features = actor.features(everything, both, torch.cat(drops) if drops else None)
    return features[: len(drawn), : drawn.shape[1]], features[len(drawn) :, : known.shape[1]]


def _judge(models: Models, rollout: Rollout, phase: Critic) -> Scores:
    """Q along the samples."""
    critic = models["critic"]
    with part("critic"):
        features = critic.features(critic.encode(rollout.references), rollout.tokens)
    return Scores(features, critic.readout, phase.fused)


def _returns(
    rewards: Float[Tensor, "B T"], uncertainty: Float[Tensor, "B T"], tokens: Int[Tensor, "B T"], phase: Critic
) -> Float[Tensor, "B T"]:
    """The rewards from each token on, and tau times the entropy of the states after it: one sample of Q^pi."""
    later = uncertainty.masked_fill(~token_mask(tokens), 0) * (phase.tau if phase.future_entropy else 0.0)
    following = torch.cat([later[:, 1:], torch.zeros_like(later[:, :1])], 1)
    return (rewards + following).flip(1).cumsum(1).flip(1)


def _critic_loss(
    q: Scores,
    rollout: Rollout,
    values: Float[Tensor, "B T"],
    uncertainty: Float[Tensor, "B T"],
    phase: Critic,
    noise: Noise,
) -> tuple[Tensor, Sums]:
    """Loss of the critic, and what is worth watching of the samples."""
    tokens, rewards = rollout.tokens, token_rewards(rollout.scores)
    targets, returns = one_step_targets(rewards, values, tokens), _returns(rewards, uncertainty, tokens, phase)
    with part("critic"):
        loss, found = scoring.temporal_difference(q, tokens, targets, phase, rollout.forced)
    words, known, real = lengths(tokens), lengths(rollout.references[:, 0]), token_mask(tokens)
    td, surprise = ((found - wanted).masked_fill(~real, 0).square().sum() for wanted in (targets, returns))
    watched = {
        "td": (td, real.sum()),
        "return_error": (surprise, real.sum()),
        "reward": (rollout.scores[:, -1].sum(), _count(tokens)),
        "length_ratio": (words.sum(), known.sum()),
        "repeated": (repeated_bigrams(tokens), (words - 1).clamp(min=0).sum()),
        "unknown": ((tokens == UNK).sum(), words.sum()),
        **_bleu_counts(tokens, rollout.references),
    }
    if rollout.ends is not None:
        with part("critic"):
            error = scoring.terminal_error(q, tokens, rollout.ends)
        watched["eos_error"] = (error.detach(), real.sum())
        loss = loss + phase.exact_eos * error
    return loss / noise.total / phase.samples, watched


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
