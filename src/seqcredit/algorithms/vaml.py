"""RAML and VAML: likelihood of sequences near the reference, weighted by their pay-off; RAML is VAML with kappa = 0."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.profiler import record_function as part

from seqcredit.algorithms.along import Along, distillation, likelihood
from seqcredit.algorithms.phase import Models, Outcome, Progress, Sums, count, unless_edit
from seqcredit.algorithms.proposing import Proposal, Proposing, along, diversity, prefix_scores
from seqcredit.credit.losses import importance_weights
from seqcredit.credit.oracle.completions import best_completions
from seqcredit.credit.proposals import Proposals
from seqcredit.draws import Noise
from seqcredit.models.policy import Network, Written
from seqcredit.options import ABOVE_0, SHARE, option
from seqcredit.rewards.payoff import Payoff
from seqcredit.rewards.scaling import rescaled
from seqcredit.rewards.scores import final_scores
from seqcredit.types import Batch, Reward


@dataclass(frozen=True)
class Raml(Proposing):
    """Reward augmented maximum likelihood."""

    why_not: ClassVar[str] = "it has no Q to draw from"

    weight_scaled: bool = option(False, paper=True, released=False)  # the weights' pay-off: BLEU times length?
    weight_tau: float | None = option(None, ABOVE_0, released=1.0)  # temperature of the weights; tau if not given

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        """- log pi of sequences near the reference, weighted by their pay-off. Appendix B.1."""
        actor = models.actor
        proposals, weights = self.weighted_proposals(batch, reward, noise, actor)
        dropout = actor.drop(proposals.tokens.shape[-1], noise)
        with part("actor"):
            logits = along(actor, actor.read(batch), proposals, dropout, self.fused)
            loss = likelihood(logits, proposals.tokens, weights)
        watched = _weighted(loss, weights) | diversity(proposals.tokens, actor.alphabet)
        return Outcome({"actor": loss / noise.total}, watched)

    def weighted_proposals(
        self, batch: Batch, reward: Reward, noise: Noise, model: Network
    ) -> tuple[Proposals, Float[Tensor, "B M"]]:
        """M sequences for each reference, and P_R on them; what is drawn from P_R or P_Q has its share already."""
        proposals = self.propose(batch, noise, model)
        alike = proposals.fork.new_full(proposals.fork.shape, 1, dtype=torch.get_default_dtype())
        if self.proposal == "policy":
            return proposals, alike / self.samples
        if self.proposal == "exact":  # the reference counts as often as it is drawn
            return proposals, alike.index_fill(1, proposals.fork.new_zeros(1), 0) / (self.samples - 1)
        payoff = rescaled(reward, self.weight_scaled)
        final = prefix_scores(payoff, model.alphabet, proposals.tokens, batch, final_scores)
        return proposals, importance_weights(final, self.tau if self.weight_tau is None else self.weight_tau)


@dataclass(frozen=True)
class Vaml(Raml):
    """Value augmented maximum likelihood: the second phase."""

    needs: ClassVar[tuple[str, ...]] = ("critic",)
    draws: ClassVar[tuple[Proposal, ...]] = ("policy",)
    why_not: ClassVar[str] = "its weights are those of one kind of proposal"

    kappa: float = option(0.2, SHARE)  # share of the token targets; 0 is RAML
    kappa_draws: bool = option(False, paper=False, released=True)  # draw each token's coin, or take its expectation

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        """Cross entropy to the token targets of a fixed Q for a share kappa, - log pi for the rest. Algorithm 2."""
        actor = models.actor
        proposals, weights = self.weighted_proposals(batch, reward, noise, models.critic or actor)
        tokens, shared = proposals.tokens, self.shares_beginnings
        dropout = actor.drop(tokens.shape[-1], noise)
        with part("actor"):
            logits = along(actor, actor.read(batch), proposals, dropout, self.fused, shared)
        with torch.no_grad(), part("critic"):
            q = self.q(models, batch, proposals)
        coins = noise.uniform(*tokens.shape[1:], device=tokens.device) < self.kappa if self.kappa_draws else None
        with part("actor"):
            kappa = self.kappa if coins is None else coins
            loss = distillation(logits, q, tokens, weights, self.tau, kappa, self.bounded(tokens))
        watched = _weighted(loss, weights) | diversity(tokens, actor.alphabet)
        return Outcome({"actor": loss / noise.total}, watched)

    @property
    def shares_beginnings(self) -> bool:
        """Whether the states before a fork are scored once; not where each token has a coin of its own."""
        return self.fused and not self.kappa_draws

    def q(self, models: Models, batch: Batch, proposals: Proposals) -> Along:
        """Q along the proposals: that of the critic."""
        critic = models.judge
        return along(critic, critic.read(batch), proposals, None, self.fused, self.shares_beginnings)


@dataclass(frozen=True)
class ExactVaml(Vaml):
    """VAML of the edit distance with the exact Q* of the best completions in the place of a learned one."""

    needs: ClassVar[tuple[str, ...]] = ()
    draws: ClassVar[tuple[Proposal, ...]] = ()
    why_not: ClassVar[str] = "it has no Q to draw from"

    @property
    def shares_beginnings(self) -> bool:
        """Q is known for every state."""
        return False

    def q(self, models: Models, batch: Batch, proposals: Proposals) -> Along:
        """What the best completion after each word is worth."""
        alphabet, M = models.actor.alphabet, proposals.tokens.shape[1]
        tokens, known = proposals.tokens.flatten(0, 1), batch.references[:, 0].repeat_interleave(M, 0)
        q = best_completions(tokens, known, alphabet.size, alphabet.eos)
        return Along(Written(q.unflatten(0, (-1, M))), alphabet)

    def check(self, payoff: Payoff) -> str | None:
        """It knows one reward."""
        return unless_edit(payoff) or super().check(payoff)


def _weighted(loss: Tensor, weights: Float[Tensor, "B M"]) -> Sums:
    """What is worth watching of weighted sequences, the reference being the first."""
    return {"loss": (loss.detach(), count(weights)), "reference_weight": (weights[:, 0].sum(), count(weights))}
