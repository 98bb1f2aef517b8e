"""The leash: a KL penalty that keeps an actor near its start, for every algorithm that samples."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.profiler import record_function as part

from seqcredit.algorithms.along import Along, Leash, log_likelihood, restrain, through
from seqcredit.algorithms.phase import Models, Phase, Sums
from seqcredit.algorithms.rollout import Rollout
from seqcredit.credit.drawn import drift_estimate
from seqcredit.options import NOT_NEGATIVE, option


@dataclass(frozen=True)
class Leashed(Phase):
    """What phases share that may keep their actor near the one that they began with."""

    leash: float = option(0.0, NOT_NEGATIVE)  # weight of KL(actor || the actor as it was when the phase began)
    leash_form: Literal["loss", "estimate", "reward"] = (
        "loss"  # exact KL over all words; estimate from the drawn word; subtracted from its reward
    )

    @property
    def remembers_start(self) -> bool:
        """For the leash."""
        return self.leash > 0

    def unpaid(self) -> str | None:
        """What to say of a leash in the reward to those that learn from none."""
        if self.leash and self.leash_form == "reward":
            return "leash_form is 'reward', but it learns from no rewards: set it to 'loss'."
        return None

    def tied(self, models: Models, rollout: Rollout) -> Rollout:
        """Samples with what the first actor says of them, and what that takes off their rewards."""
        if not self.leash:
            return rollout
        origin, tokens = models.origin, rollout.tokens
        with torch.no_grad(), part("actor"):
            start = Along.of(origin, origin.score(origin.read(rollout.batch), tokens), self.fused)
            if self.leash_form != "reward":
                return rollout._replace(start=start)
        with part("actor"):
            apart = log_likelihood(rollout.actor, tokens) - log_likelihood(start, tokens)
        return rollout._replace(start=start, costs=self.leash * apart.masked_fill(rollout.forced, 0))

    def pull(
        self, rollout: Rollout, weights: Float[Tensor, " B"], entropy_weight: float = 0.0
    ) -> tuple[Tensor | float, Sums]:
        """What the leash and too little entropy cost, each sample with its weight, and what is worth watching of it."""
        actor, tokens, start = rollout.actor, rollout.tokens, rollout.start
        cost: Tensor | float = 0.0
        watched = Sums()
        tied = Leash(start, self.leash) if start is not None and self.leash_form == "loss" else None
        if tied or entropy_weight:
            with part("actor"):
                cost, uncertainty, drift = restrain(actor, tokens, rollout.forced, entropy_weight, tied, weights)
            watched["entropy"] = rollout.total(uncertainty)
            if tied:
                watched["drift"] = rollout.total(drift)
        if start is not None and self.leash_form == "estimate":
            with part("actor"):
                known = log_likelihood(start, tokens)
                weighed = (self.leash * weights).unsqueeze(-1) * rollout.free
                cost = cost + through(
                    [(actor, tokens)], lambda sides: (weighed * drift_estimate(sides[0], known)).sum()
                )
                drift = drift_estimate(log_likelihood(actor, tokens), known)
            watched["drift"] = rollout.total(drift)
        if rollout.costs is not None:
            total, states = rollout.total(rollout.costs)
            watched["drift"] = (total / self.leash, states)
        return cost, watched
