"""Learning from samples without a critic: what REINFORCE, GRPO, minimum risk training and OCD share."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from seqcredit.algorithms.leash import Leashed
from seqcredit.algorithms.mle import reference_loss
from seqcredit.algorithms.phase import Models, Outcome, Sums
from seqcredit.algorithms.rollout import Asked, Bounded, Rollout, roll_out
from seqcredit.draws import Noise
from seqcredit.options import FROM_0, FROM_1, NOT_NEGATIVE, option
from seqcredit.search.sample import Given
from seqcredit.types import Batch, Reward


@dataclass(frozen=True)
class Sampling(Bounded, Leashed):
    """What phases that learn from samples, without a critic, share."""

    guarded: ClassVar[bool] = True

    samples: int = option(1, FROM_1)  # sequences drawn for each sentence
    extra_length: int = option(10, FROM_0)  # most tokens of a sample beyond the longest reference, eos included
    longest_sample: int = option(50, FROM_1)  # maximum tokens of a sample
    mle_weight: float = option(0.0, NOT_NEGATIVE)  # weight of the references' likelihood
    entropy_weight: float = option(0.0, NOT_NEGATIVE)  # weight of the entropy in every state of the samples
    keeps_start: bool = True  # validation may choose the starting weights as the best; false for comparisons with MLE

    @property
    def validates_start(self) -> bool:
        """Whether it may end as it began."""
        return self.keeps_start

    def draw(
        self,
        models: Models,
        batch: Batch,
        reward: Reward,
        noise: Noise,
        given: Given | None = None,
        reference: bool = False,
    ) -> Rollout:
        """Samples of the actor, and its scores along the references if asked for, or where their likelihood counts."""
        also = reference or self.mle_weight > 0
        asked = Asked(self.samples, self.bound(batch), self.fused, ends=False, reference=also, given=given)
        return self.tied(models, roll_out(models.actor, batch, reward, noise, asked))

    def outcome(
        self,
        loss: Tensor,
        watched: Sums,
        rollout: Rollout,
        batch: Batch,
        noise: Noise,
        weights: Float[Tensor, " B"] | None = None,
    ) -> Outcome:
        """The mean of a sum over samples; entropy and the leash, of samples with `weights`; and the likelihood."""
        ones = rollout.scores.new_ones(len(rollout.tokens)) if weights is None else weights
        cost, seen = self.pull(rollout, ones, self.entropy_weight)
        loss, watched = (loss + cost) / noise.total / self.samples, watched | seen
        if self.mle_weight and rollout.reference is not None:
            likelihood, seen = reference_loss(*rollout.reference, noise)
            loss, watched = loss + self.mle_weight * likelihood, watched | seen
        return Outcome({"actor": loss}, watched)
