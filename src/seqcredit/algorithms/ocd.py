"""Optimal completion distillation: an actor learns the exact credit of the edit distance along its own samples.

Sabour et al. (2019). It is VAML with the exact Q* in the place of a learned one, where the actor really goes.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch.profiler import record_function as part

from seqcredit.algorithms.along import Along, distillation
from seqcredit.algorithms.mle import reference_loss
from seqcredit.algorithms.phase import Models, Outcome, Phase, Progress
from seqcredit.algorithms.rollout import Asked, roll_out, watch
from seqcredit.credit.oracle.completions import best_completions
from seqcredit.draws import Noise
from seqcredit.models.policy import Written
from seqcredit.options import FROM_0, FROM_1, NOT_NEGATIVE, option
from seqcredit.rewards.payoff import Payoff
from seqcredit.types import Batch, Reward, token_mask


@dataclass(frozen=True)
class Ocd(Phase):
    """Optimal completion distillation."""

    guarded: ClassVar[bool] = True

    tau: float = option(0.0, NOT_NEGATIVE)  # of the targets; 0: the best words alone, all alike
    samples: int = option(1, FROM_1)  # sequences drawn for each sentence
    extra_length: int = option(10, FROM_0)  # a sample's bound, eos included: so much over the longest reference
    longest_sample: int = option(50, FROM_1)  # and at the most this
    weight: float = option(1.0, NOT_NEGATIVE)  # of what is learned along samples
    mle_weight: float = option(0.0, NOT_NEGATIVE)  # of the references' likelihood beside it
    keeps_start: bool = True  # it ends as it began if that validates best; comparisons with what does not say false

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        """Cross entropy to the token targets of Q*, along samples of the actor."""
        actor, bound = models.actor, self.longest_for(batch.references.shape[-1] - 1)
        asked = Asked(self.samples, bound, self.fused, ends=False, reference=self.mle_weight > 0)
        rollout = roll_out(actor, batch, reward, noise, asked)
        tokens, alphabet = rollout.tokens, actor.alphabet
        with part("critic"):
            known = rollout.batch.references[:, 0]
            q = best_completions(tokens, known, alphabet.size, alphabet.eos).to(rollout.scores.dtype)
        with part("actor"):
            ones = q.new_ones(len(tokens))
            learned = distillation(
                rollout.actor, Along(Written(q), alphabet), tokens, ones, self.tau, 1.0, rollout.forced
            )
        loss = self.weight * learned / noise.total / self.samples
        watched = watch(rollout, alphabet) | {"loss": (learned.detach(), token_mask(tokens, alphabet.eos).sum())}
        if rollout.reference is not None:
            likelihood, seen = reference_loss(rollout.reference, batch, noise)
            loss, watched = loss + self.mle_weight * likelihood, watched | seen
        return Outcome({"actor": loss}, watched)

    def check(self, payoff: Payoff) -> str | None:
        """It knows one reward."""
        if payoff.metric == "edit":
            return None
        return f"its credit is that of the edit distance, and the pay-off is {payoff.metric}: set metric to 'edit'."

    @property
    def validates_start(self) -> bool:
        """Whether it may end as it began."""
        return self.keeps_start

    def longest_for(self, words: int) -> int:
        """Some tokens over the longest reference of a batch."""
        return min(words + self.extra_length, self.longest_sample)
