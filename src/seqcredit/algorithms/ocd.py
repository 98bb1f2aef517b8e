"""Optimal completion distillation: the exact credit of the edit distance, along the actor's own samples.

Sabour et al. (2019). It is VAML with the exact Q* in the place of a learned one, where the actor really goes.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch.profiler import record_function as part

from seqcredit.algorithms.along import Along, distillation
from seqcredit.algorithms.phase import Models, Outcome, Progress, unless_edit
from seqcredit.algorithms.rollout import watch
from seqcredit.algorithms.sampling import Sampling
from seqcredit.credit.oracle.completions import best_completions
from seqcredit.draws import Noise
from seqcredit.models.policy import Written
from seqcredit.options import NOT_NEGATIVE, option
from seqcredit.rewards.payoff import Payoff
from seqcredit.types import Batch, Reward, token_mask


@dataclass(frozen=True)
class Ocd(Sampling):
    """Optimal completion distillation."""

    learns_references: ClassVar[bool] = True

    tau: float = option(0.0, NOT_NEGATIVE)  # temperature of the targets; 0: equal on the best words, 0 elsewhere
    weight: float = option(1.0, NOT_NEGATIVE)  # weight of the loss along samples

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        """Cross entropy to the token targets of Q*, along samples of the actor."""
        rollout, alphabet = self.draw(models, batch, reward, noise), models.actor.alphabet
        tokens = rollout.tokens
        with part("critic"):
            known = rollout.batch.references[:, 0]
            q = best_completions(tokens, known, alphabet.size, alphabet.eos).to(rollout.scores.dtype)
        with part("actor"):
            exact, ones = Along(Written(q), alphabet), q.new_ones(len(tokens))
            learned = distillation(rollout.actor, exact, tokens, ones, self.tau, 1.0, rollout.forced)
        watched = watch(rollout, alphabet) | {"loss": (learned.detach(), token_mask(tokens, alphabet.eos).sum())}
        return self.outcome(self.weight * learned, watched, rollout, batch, noise)

    def check(self, payoff: Payoff) -> str | None:
        """It knows one reward, and learns from none."""
        return self.unpaid() or unless_edit(payoff)
