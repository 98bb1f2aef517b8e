"""GRPO: a sample becomes more likely by what it earns above its group. Shao et al. (2024).

Every batch of samples serves one update. The ratio to the sampler is then 1, so that clipping does nothing; it is there
as in the paper, and tested where it does something.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.profiler import record_function as part

from seqcredit.algorithms.along import through
from seqcredit.algorithms.phase import Models, Outcome, Progress, count
from seqcredit.algorithms.rollout import watch
from seqcredit.algorithms.sampling import Sampling
from seqcredit.credit.drawn import clipped, group_advantage
from seqcredit.draws import Noise
from seqcredit.options import FROM_2, NOT_NEGATIVE, SHARE, option
from seqcredit.types import Batch, Reward


@dataclass(frozen=True)
class Grpo(Sampling):
    """Group relative policy optimisation."""

    samples: int = option(8, FROM_2)  # group size: sequences drawn for each sentence
    leash: float = option(0.04, NOT_NEGATIVE)  # weight of KL(actor || the actor as it was when the phase began)
    leash_form: Literal["loss", "estimate", "reward"] = (
        "estimate"  # exact KL over all words; estimate from the drawn word; subtracted from its reward
    )
    scaled: bool = True  # divides advantages by the standard deviation of their group
    length: Literal["sample", "longest", "sum"] = "sample"  # what a sample's sum is divided by: tokens, most tokens, 1
    ratio_low: float = option(0.2, SHARE)  # the ratio to the sampling policy is clipped below 1 - ratio_low
    ratio_high: float = option(0.2, NOT_NEGATIVE)  # and above 1 + ratio_high

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        """The clipped ratio times the advantage in the group, for every token that was chosen."""
        rollout, alphabet = self.draw(models, batch, reward, noise), models.actor.alphabet
        advantage = group_advantage(rollout.worth[:, -1].unflatten(0, (-1, self.samples)), self.scaled).flatten()
        free = rollout.free
        weights = self._weights(free).to(advantage.dtype)
        chosen, gains = weights.unsqueeze(-1) * free, advantage.unsqueeze(-1)
        with part("actor"):
            loss = through(
                [(rollout.actor, rollout.tokens)],
                lambda logp: (
                    chosen * clipped(logp[0], logp[0].detach(), gains, self.ratio_low, self.ratio_high)
                ).sum(),
            )
        watched = watch(rollout, alphabet) | {"advantage": (advantage.abs().sum(), count(advantage))}
        return self.outcome(loss, watched, rollout, batch, noise, weights)

    def _weights(self, free: Bool[Tensor, "B T"]) -> Float[Tensor, " B"]:
        """What each token of a sample counts for."""
        tokens = free.sum(1).clamp(min=1)
        if self.length != "sample":
            tokens = torch.full_like(tokens, self.longest_sample if self.length == "longest" else 1)
        return 1 / tokens
