"""Path consistency learning: policy and value of one network agree along every path, sampled or given.

Nachum et al. (2017). Along any sequence, drawn by anybody, the best policy at temperature tau has
V(s) = sum of (r - tau log pi) + V(the state that it leads to). So samples of the actor teach it, and references do too.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.profiler import record_function as part

from seqcredit.algorithms.along import Along
from seqcredit.algorithms.phase import Models, Outcome, Phase, Progress
from seqcredit.algorithms.proposing import along, prefix_scores
from seqcredit.algorithms.rollout import watch
from seqcredit.algorithms.sampling import Sampling
from seqcredit.credit.losses import path_consistency
from seqcredit.credit.proposals import replace_ngrams
from seqcredit.credit.values import at_bound, chosen, entropy, token_rewards
from seqcredit.draws import Noise
from seqcredit.errors import UserError, require
from seqcredit.models.policy import Network
from seqcredit.options import ABOVE_0, FROM_0, FROM_1, NOT_NEGATIVE, changed, option
from seqcredit.rewards.payoff import Payoff
from seqcredit.types import Batch, Reward, token_mask


class ValueHead(nn.Module):
    """V(s), a readout of the actor's features that starts at 0."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.column = nn.Linear(width, 1)
        for weight in self.column.parameters():
            nn.init.zeros_(weight)

    def forward(self, features: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """V of each state."""
        return self.column(features).squeeze(-1)


class Inconsistency(NamedTuple):
    """Sums of squared residuals of the same value: one teaches the actor, the other the head of its value."""

    actor: Float[Tensor, ""]
    value: Float[Tensor, ""]


@dataclass(frozen=True)
class Pcl(Sampling):
    """Path consistency learning."""

    trains: ClassVar[tuple[str, ...]] = ("actor", "value")

    tau: float = option(0.01, ABOVE_0)  # weight of entropy relative to reward
    steps: int = option(10, FROM_0)  # d, tokens of a path; 0: to the end
    off_policy: int = option(1, FROM_0)  # sequences near the reference to learn from too, itself the first; 0: none
    longest: int = option(4, FROM_1)  # maximum words of the replaced n-gram in the others
    value_learning_rate: float | None = option(None, NOT_NEGATIVE)  # learning_rate if not given; it never decays

    def without_references(self, longest: int) -> Phase:
        """Along samples alone."""
        return changed(super().without_references(longest), {"off_policy": 0})

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        """Squared inconsistency of all paths of d tokens, along samples and along sequences near the references."""
        rollout, head = self.draw(models, batch, reward, noise), models.brought("value", ValueHead)
        tokens, alphabet, rewards = rollout.tokens, models.actor.alphabet, token_rewards(rollout.scores)
        with part("actor"):
            own = self._inconsistency(rollout.actor, head, tokens, rewards, rollout.forced)
        loss, value = own.actor, own.value / self.samples
        watched = watch(rollout, alphabet)
        watched["residual"] = own.value.detach(), token_mask(tokens, alphabet.eos).sum()
        watched["entropy"] = rollout.total(entropy(rollout.actor.logp.detach()))
        if self.off_policy:
            other, count = self._along_references(models.actor, head, batch, reward, noise)
            loss = loss + other.actor * self.samples / self.off_policy
            value = value + other.value / self.off_policy
            watched["reference_residual"] = (other.value.detach(), count)
        found = self.outcome(loss, watched, rollout, batch, noise)
        return Outcome({**found.losses, "value": value / noise.total}, found.sums)

    def check(self, payoff: Payoff) -> str | None:
        """Its paths know no other reward than the pay-off."""
        if self.leash and self.leash_form == "reward":
            return "leash_form is 'reward', which the paths of PCL do not count: set it to 'loss'."
        return None

    def _along_references(
        self, actor: Network, head: ValueHead, batch: Batch, reward: Reward, noise: Noise
    ) -> tuple[Inconsistency, Int[Tensor, ""]]:
        """The same along sequences near the references, and how many tokens these have."""
        alphabet = actor.alphabet
        proposals = replace_ngrams(batch.references[:, 0], self.off_policy, alphabet, noise, self.longest)
        tokens = proposals.tokens
        rewards = token_rewards(prefix_scores(reward, alphabet, tokens, batch))
        forced = at_bound(tokens, max(self.bound(batch), tokens.shape[-1]))
        with part("actor"):
            dropout = actor.drop(tokens.shape[-1], noise)
            says = along(actor, actor.read(batch), proposals, dropout, self.fused, shared=False)
            return self._inconsistency(says, head, tokens, rewards, forced), token_mask(tokens, alphabet.eos).sum()

    def _inconsistency(
        self,
        actor: Along,
        head: ValueHead,
        tokens: Int[Tensor, "*B T"],
        rewards: Float[Tensor, "*B T"],
        forced: Bool[Tensor, "*B T"],
    ) -> Inconsistency:
        """Along some sequences. The head learns from features that stand still."""
        linear = actor.scores.linear()
        if linear is None:
            raise UserError("PCL's value is a readout of the actor's features, and this model shows none.")
        taken = chosen(actor.logp, tokens).masked_fill(forced, 0)

        def total(taken: Tensor, features: Tensor) -> Tensor:
            values = head(features).to(taken.dtype)
            each = path_consistency(taken, values, tokens, rewards, self.tau, self.steps, actor.alphabet.eos)
            return each.sum()

        return Inconsistency(total(taken, linear.features), total(taken.detach(), linear.features.detach()))

    def brings(self, actor: Network, seed: int) -> dict[str, nn.Module]:
        """The head of its value."""
        shown = "PCL's value is a readout of the actor's features, and this model shows none: give it its readout."
        require(actor.width, shown)
        return {"value": ValueHead(actor.width)}

    @property
    def judged_tau(self) -> float | None:
        """The temperature."""
        return self.tau
