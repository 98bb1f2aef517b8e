"""REINFORCE, without a critic: samples are made likelier by what they earn above a baseline.

With the greedy output as the baseline it is self-critical sequence training, SCST, Rennie et al. (2017); with the other
samples of the sentence it is leave-one-out, Kool et al. (2019). All tokens of a sample get the same credit.
"""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor
from torch.profiler import record_function as part

from seqcredit.algorithms.along import policy_gradient
from seqcredit.algorithms.exact import evaluating
from seqcredit.algorithms.phase import Models, Outcome, Progress, count
from seqcredit.algorithms.rollout import Rollout, watch
from seqcredit.algorithms.sampling import Sampling
from seqcredit.draws import Noise
from seqcredit.models.policy import Network
from seqcredit.rewards.payoff import Payoff
from seqcredit.rewards.scores import final_scores, scored
from seqcredit.search import greedy
from seqcredit.types import Batch, Reward


@dataclass(frozen=True)
class Reinforce(Sampling):
    """REINFORCE with a baseline; "greedy" is SCST."""

    baseline: Literal["greedy", "others", "none"] = "greedy"  # what the greedy output, or others (of 2 or more), earn

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        """- (R - baseline) log pi of samples; eos at the bound is forced, so it gets no credit."""
        rollout = self.draw(models, batch, reward, noise)
        advantage = self._advantage(models.actor, batch, reward, rollout)
        with part("actor"):
            credit = advantage.unsqueeze(-1).masked_fill(rollout.forced, 0)
            loss = policy_gradient(rollout.actor, rollout.tokens, credit)
        watched = watch(rollout, models.actor.alphabet) | {"advantage": (advantage.sum(), count(advantage))}
        return self.outcome(loss, watched, rollout, batch, noise)

    def check(self, payoff: Payoff) -> str | None:
        """Leaving one out takes two."""
        if self.baseline == "others" and self.samples < 2:
            return "baseline is 'others', of which there are none with 1 sample: set samples to 2 or more."
        return None

    def _advantage(self, actor: Network, batch: Batch, reward: Reward, rollout: Rollout) -> Float[Tensor, " B"]:
        """What each sample earned above its baseline."""
        earned = rollout.scores[:, -1]
        if self.baseline == "none":
            return earned
        if self.baseline == "greedy":
            with part("sampling"), evaluating(actor):
                found = greedy(actor, actor.read(batch), self.bound(batch))
            with part("reward"):
                base = scored(reward, actor.alphabet, found, batch, final_scores)
            return earned - base.repeat_interleave(self.samples)
        each = earned.unflatten(0, (-1, self.samples))
        others = (each.sum(1, keepdim=True) - each) / (self.samples - 1)
        return (each - others).flatten()
