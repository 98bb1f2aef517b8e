"""REINFORCE, without a critic: samples become more likely by what they earn above a baseline. Williams (1992).

With the greedy output as the baseline it is self-critical sequence training, SCST, Rennie et al. (2017); with the other
samples of the sentence it is leave-one-out, Kool et al. (2019). All tokens of a sample get the same credit, or each
what was earned from it on.
"""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn
from torch.profiler import record_function as part

from seqcredit.algorithms.along import policy_gradient
from seqcredit.algorithms.phase import Models, Outcome, Progress, Sums, count
from seqcredit.algorithms.rollout import Rollout, watch
from seqcredit.algorithms.sampling import Sampling
from seqcredit.credit.drawn import mean_of_others, to_go
from seqcredit.draws import Noise
from seqcredit.models.policy import Network, evaluating
from seqcredit.rewards.payoff import Payoff
from seqcredit.rewards.scores import final_scores, prefix_scores, scored
from seqcredit.search import greedy
from seqcredit.search.sample import Given
from seqcredit.types import Batch, Reward, token_mask


@dataclass(frozen=True)
class Reinforce(Sampling):
    """REINFORCE with a baseline; "greedy" is SCST."""

    baseline: Literal["greedy", "others", "mean", "none"] = "greedy"  # "others": samples; "mean": of the last updates
    credit: Literal["end", "to_go"] = "end"  # all that a sample earned, or what it earned from each token on

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        """- (R - baseline) log pi of samples; eos at the bound is forced, so it gets no credit."""
        given = self.given(batch, progress, models.actor.alphabet.eos)
        rollout = self.draw(models, batch, reward, noise, given)
        earned = to_go(rollout.worth) if self.credit == "to_go" else rollout.worth[:, -1:]
        advantage = earned - self._baseline(models.actor, batch, reward, earned, progress, given)
        with part("actor"):
            credit = self.credited(advantage.expand(rollout.tokens.shape), given).masked_fill(rollout.forced, 0)
            loss = policy_gradient(rollout.actor, rollout.tokens, credit)
        alphabet = models.actor.alphabet
        watched = watch(rollout, alphabet) | _watched(advantage, rollout, alphabet.eos, "advantage")
        return self.outcome(loss, watched | _watched(earned, rollout, alphabet.eos, "earned"), rollout, batch, noise)

    def check(self, payoff: Payoff) -> str | None:
        """Leaving one out takes two."""
        if self.baseline == "others" and self.samples < 2:
            return "baseline is 'others', of which there are none with 1 sample: set samples to 2 or more."
        return None

    def given(self, batch: Batch, progress: Progress, eos: int) -> Given | None:
        """Tokens of the samples that are not drawn."""
        return None

    def credited(self, advantage: Float[Tensor, "B T"], given: Given | None) -> Float[Tensor, "B T"]:
        """What - log pi of each token is multiplied by."""
        return advantage

    def _baseline(
        self,
        actor: Network,
        batch: Batch,
        reward: Reward,
        earned: Float[Tensor, "B n"],
        progress: Progress,
        given: Given | None,
    ) -> Tensor | float:
        """What was to be expected: a number for each sample, or for each of its tokens."""
        if self.baseline == "none":
            return 0.0
        if self.baseline == "mean":
            return progress.earned
        if self.baseline == "others":
            return mean_of_others(earned.unflatten(0, (-1, self.samples))).flatten(0, 1)
        first = None if given is None else given.every(self.samples)
        with part("sampling"), evaluating(actor):
            found = greedy(actor, actor.read(batch), self.bound(batch), given=first)
        with part("reward"):
            if self.credit == "end":
                base = scored(reward, actor.alphabet, found, batch, final_scores).unsqueeze(1)
            else:
                base = to_go(scored(reward, actor.alphabet, found, batch, prefix_scores))
                base = nn.functional.pad(base, (0, earned.shape[1] - base.shape[1]))  # cuts it where that is negative
        return base.repeat_interleave(self.samples, 0)


@dataclass(frozen=True)
class Scst(Reinforce):
    """Self-critical sequence training: REINFORCE with what the greedy output earns as the baseline."""

    baseline: Literal["greedy"] = "greedy"


def _watched(numbers: Float[Tensor, "B n"], rollout: Rollout, eos: int, name: str) -> Sums:
    """The sum over samples, or over their tokens."""
    if numbers.shape[1] == 1:
        return {name: (numbers.sum(), count(numbers))}
    real = token_mask(rollout.tokens, eos)
    return {name: (numbers.masked_fill(~real, 0).sum(), real.sum())}
