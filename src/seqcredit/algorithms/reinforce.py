"""REINFORCE, without a critic: samples are made likelier by what they earn above a baseline.

With the greedy output as the baseline it is self-critical sequence training, SCST, Rennie et al. (2017); with the other
samples of the sentence it is leave-one-out, Kool et al. (2019). All tokens of a sample get the same credit.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor
from torch.profiler import record_function as part

from seqcredit.algorithms.along import policy_gradient
from seqcredit.algorithms.exact import evaluating
from seqcredit.algorithms.mle import reference_loss
from seqcredit.algorithms.phase import Models, Outcome, Phase, Progress, count
from seqcredit.algorithms.rollout import Asked, Rollout, roll_out, watch
from seqcredit.draws import Noise
from seqcredit.models.policy import Network, read
from seqcredit.options import FROM_0, FROM_1, NOT_NEGATIVE, option
from seqcredit.rewards.payoff import Payoff
from seqcredit.search import greedy
from seqcredit.types import Batch, Reward


@dataclass(frozen=True)
class Reinforce(Phase):
    """REINFORCE with a baseline; "greedy" is SCST."""

    guarded: ClassVar[bool] = True

    baseline: Literal["greedy", "others", "none"] = "greedy"  # what the greedy output, or the other samples, earn
    samples: int = option(1, FROM_1)  # sequences drawn for each sentence; "others" needs 2
    extra_length: int = option(10, FROM_0)  # a sample's bound, eos included: so much over the longest reference
    longest_sample: int = option(50, FROM_1)  # and at the most this
    mle_weight: float = option(0.0, NOT_NEGATIVE)  # of the references' likelihood beside the reward
    keeps_start: bool = True  # it ends as it began if that validates best; comparisons with what does not say false

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        """- (R - baseline) log pi of samples. What is forced at the bound is nobody's choice, and gets no credit."""
        actor, bound = models.actor, self.longest_for(batch.references.shape[-1] - 1)
        asked = Asked(self.samples, bound, self.fused, ends=False, reference=self.mle_weight > 0)
        rollout = roll_out(actor, batch, reward, noise, asked)
        advantage = self._advantage(actor, batch, reward, rollout, bound)
        with part("actor"):
            credit = advantage.unsqueeze(-1).masked_fill(rollout.forced, 0)
            loss = policy_gradient(rollout.actor, rollout.tokens, credit) / noise.total / self.samples
        watched = watch(rollout, actor.alphabet) | {"advantage": (advantage.sum(), count(advantage))}
        if rollout.reference is not None:
            likelihood, seen = reference_loss(rollout.reference, batch, noise)
            loss, watched = loss + self.mle_weight * likelihood, watched | seen
        return Outcome({"actor": loss}, watched)

    def check(self, payoff: Payoff) -> str | None:
        """Leaving one out takes two."""
        if self.baseline == "others" and self.samples < 2:
            return "baseline is 'others', of which there are none with 1 sample: set samples to 2 or more."
        return None

    @property
    def validates_start(self) -> bool:
        """Whether it may end as it began."""
        return self.keeps_start

    def longest_for(self, words: int) -> int:
        """Some tokens over the longest reference of a batch."""
        return min(words + self.extra_length, self.longest_sample)

    def _advantage(
        self, actor: Network, batch: Batch, reward: Reward, rollout: Rollout, bound: int
    ) -> Float[Tensor, " B"]:
        """What each sample earned above its baseline."""
        earned = rollout.scores[:, -1]
        if self.baseline == "none":
            return earned
        if self.baseline == "greedy":
            with part("sampling"), evaluating(actor):
                found = greedy(actor, read(actor, batch), bound)
            words, references = actor.alphabet.as_words(found), actor.alphabet.as_words(batch.references)
            with part("reward"):
                return earned - reward.prefix_scores(words, references)[:, -1].repeat_interleave(self.samples)
        each = earned.unflatten(0, (-1, self.samples))
        others = (each.sum(1, keepdim=True) - each) / (self.samples - 1)
        return (each - others).flatten()
