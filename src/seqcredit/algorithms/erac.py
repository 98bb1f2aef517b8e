"""Actor-Critic and ERAC: a critic learns what an actor's samples are worth, and the actor follows it; AC is tau = 0."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.profiler import record_function as part

from seqcredit.algorithms.along import (
    Along,
    Judged,
    Leash,
    Looking,
    Smoothing,
    evaluate,
    temporal_difference,
    terminal_error,
)
from seqcredit.algorithms.exact import RolloutJudge
from seqcredit.algorithms.leash import Leashed
from seqcredit.algorithms.mle import reference_loss
from seqcredit.algorithms.phase import (
    Criterion,
    Examples,
    Gate,
    Models,
    Outcome,
    Paired,
    Progress,
    Sums,
    Validation,
)
from seqcredit.algorithms.rollout import Asked, Bounded, Rollout, roll_out, spread, watch
from seqcredit.credit.values import returns_to_go, token_rewards
from seqcredit.draws import Noise
from seqcredit.models.policy import Network
from seqcredit.options import BELOW_1, FROM_0, FROM_1, NOT_NEGATIVE, SHARE, UP_TO_1, Feeding, option
from seqcredit.rewards.payoff import Payoff
from seqcredit.types import Batch, Reward, token_mask


@dataclass(frozen=True)
class Judging(Bounded):
    """What the phases with a critic of the actor's samples share."""

    tau: float = option(0.04, NOT_NEGATIVE, paper=Feeding(0.04, 0.05), released=Feeding(0.045, 0.04))  # 0 is AC
    target_rate: float = option(0.001, UP_TO_1)  # beta, how fast the target network follows the critic
    target_rate_end: float | None = option(None, UP_TO_1)  # at the end of the phase; target_rate if not given
    smoothing: float = option(0.001, NOT_NEGATIVE)  # lambda, weight of the variance of Q over all words
    smoothing_form: Literal["sum", "mean"] = option("sum", paper="sum", released="mean")  # over words
    td_form: Literal["squared", "half"] = option("squared", paper="squared", released="half")  # TD error
    future_entropy: bool = True  # entropy of later states counts in the targets
    bound_value: Literal["eos", "free"] = option("eos", paper="eos", released="free")  # V at the bound: Q(eos), or all
    trace: float = option(0.0, SHARE)  # lambda: 0 looks one step ahead, as in the paper; 1 to the end
    trace_end: float | None = option(None, SHARE)  # trace at the end of the phase; trace if not given
    trace_steps: int = option(0, FROM_0)  # maximum rewards in a target (n-step if trace = 1); 0: all
    samples: int = option(2, FROM_1)  # sequences drawn for each sentence
    extra_length: int = option(5, FROM_0)  # most tokens of a sample beyond the batch's longest reference, eos included
    longest_sample: int = option(50, FROM_1)  # maximum tokens of a sample
    judged_by: Literal["return_error", "td"] = option("return_error", released="td")  # by returns, or by TD error
    exact_eos: float = option(0.0, NOT_NEGATIVE)  # weight of the squared error of Q(eos) at every prefix, known exactly
    exact: int = option(0, FROM_0)  # short validation sentences to compare Q with rollouts of the actor on

    def judge(self, examples: Examples) -> RolloutJudge | None:
        """Rollouts of the actor."""
        if not self.exact:
            return None
        return RolloutJudge(examples, self.longest_for, self.later_tau, self.exact, again="actor" in self.trains)

    def follows(self, progress: Progress) -> float:
        """The speed of the target network: from the first to the last by a constant factor an update."""
        end = self.target_rate if self.target_rate_end is None else self.target_rate_end
        return self.target_rate * (end / self.target_rate) ** progress.share

    def looking(self, progress: Progress) -> Looking:
        """How the value of the next state is formed."""
        end = self.trace if self.trace_end is None else self.trace_end
        trace = self.trace + (end - self.trace) * progress.share
        return Looking(self.tau, self.future_entropy, self.bound_value, trace, self.trace_steps)

    @property
    def judged_tau(self) -> float | None:
        """The temperature."""
        return self.tau

    @property
    def later_tau(self) -> float:
        """Without future entropy, nothing."""
        return self.tau if self.future_entropy else 0.0

    def asked(self, batch: Batch, reference: bool) -> Asked:
        """What a rollout is to hold."""
        return Asked(self.samples, self.bound(batch), self.fused, bool(self.exact_eos), reference)

    def along(self, network: Network, rollout: Rollout) -> Along:
        """What a network says of the samples."""
        return Along.of(network, network.score(network.read(rollout.batch), rollout.tokens), self.fused)

    def critic_loss(self, q: Along, rollout: Rollout, judged: Judged, noise: Noise) -> tuple[Tensor, Sums]:
        """Loss of the critic, and what is worth watching of the samples."""
        tokens, eos, rewards = rollout.tokens, q.alphabet.eos, token_rewards(rollout.worth)
        returns = returns_to_go(rewards, judged.entropy, tokens, self.later_tau, eos)
        share = 1.0 if self.td_form == "squared" else 0.5
        smoothing = Smoothing(self.smoothing, self.smoothing_form)
        with part("critic"):
            given = tokens, judged.targets, share, smoothing, rollout.forced
            parts = [temporal_difference(one, *given) for one in q.halves]
            loss, found = (
                torch.stack([each for each, _ in parts]).sum(),
                torch.stack([each for _, each in parts]).amin(0),
            )
        real = token_mask(tokens, eos)
        td, surprise = ((found - wanted).masked_fill(~real, 0).square().sum() for wanted in (judged.targets, returns))
        watched = {"td": (td, real.sum()), "return_error": (surprise, real.sum()), **spread(returns, real)}
        watched |= watch(rollout, q.alphabet)
        if rollout.ends is not None:
            with part("critic"):
                error = torch.stack([terminal_error(one, tokens, rollout.ends) for one in q.halves]).sum()
            watched["eos_error"] = (error.detach(), real.sum())
            loss = loss + self.exact_eos * error
        return loss / noise.total / self.samples, watched


@dataclass(frozen=True)
class Critic(Judging):
    """Policy evaluation of a fixed actor."""

    trains: ClassVar[tuple[str, ...]] = ("critic",)
    needs: ClassVar[tuple[str, ...]] = ("actor",)
    drops: ClassVar[tuple[str, ...] | None] = ("actor", "critic")  # it samples as it will in the joint phase

    decays: int = option(5, FROM_0)  # decays before the phase stops
    critic_until: float = option(0.0, SHARE)  # stops once Q explains this share of the returns' variance; 0: never
    critic_least: float | None = option(None, SHARE)  # below it the actor is not trained; critic_until if not given

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        """TD error and smoothing on samples of a fixed actor. Algorithm 3 with the actor fixed."""
        with torch.no_grad():
            rollout = roll_out(models.actor, batch, reward, noise, self.asked(batch, reference=False))
        tokens, rewards, looking = rollout.tokens, token_rewards(rollout.scores), self.looking(progress)
        with torch.no_grad(), part("target"):
            target = self.along(models.slow_judge, rollout)
            judged = evaluate(rollout.actor, target, tokens, rewards, looking, rollout.forced)
        with part("critic"):
            q = self.along(models.judge, rollout)
        loss, watched = self.critic_loss(q, rollout, judged, noise)
        return Outcome({"critic": loss}, watched)

    def criterion(self, validation: Validation) -> Criterion:
        """Its error: against what really followed, or the TD error."""
        return validation.mean(self.judged_by)

    def gate(self, figures: Mapping[str, float]) -> Gate | None:
        """Whether the critic explains enough of what the samples earn."""
        least = self.critic_until if self.critic_least is None else self.critic_least
        if not (self.critic_until or least):
            return None
        explained = figures.get("explained", 0.0)
        said = f"the critic explains {explained:.2f} of the returns' variance, and {least:g} was asked for"
        return Gate(explained >= least, explained >= self.critic_until > 0, said)


@dataclass(frozen=True)
class ActorCritic(Judging, Leashed, Paired):
    """Actor-Critic with tau = 0, ERAC with tau > 0."""

    trains: ClassVar[tuple[str, ...]] = ("actor", "critic")
    guarded: ClassVar[bool] = True

    decay: float = option(0.5, UP_TO_1, released=0.9)  # factor of the actor's rate when validation does not improve
    decays: int = option(6, FROM_0)  # decays before the phase stops
    beta1: float = option(0.9, BELOW_1, released=0.0)  # Adam's first decay rate
    samples: int = option(1, FROM_1)  # sequences drawn for each sentence
    extra_length: int = option(10, FROM_0)  # most tokens of a sample beyond the longest reference, eos included
    mle_weight: float = option(0.1, NOT_NEGATIVE)  # weight of the references' likelihood
    cautious: bool = False  # scales the actor's steps by the share of variance that Q explains
    keeps_start: bool = True  # validation may choose the starting weights as the best; false for comparisons with MLE
    entropy_form: Literal["exact", "normalised"] = option("exact", paper="exact", released="normalised")

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        """Algorithm 3: ERAC, or Actor-Critic where tau = 0."""
        rollout = roll_out(models.actor, batch, reward, noise, self.asked(batch, reference=self.mle_weight > 0))
        rollout = self.tied(models, rollout)
        tokens, forced, rewards = rollout.tokens, rollout.forced, token_rewards(rollout.worth)
        with part("critic"):
            q = self.along(models.judge, rollout)
        with torch.no_grad(), part("target"):
            target = self.along(models.slow_judge, rollout)
        with part("actor"):
            given, leash = (tokens, rewards, self.looking(progress), forced), self._leash(rollout)
            judged = evaluate(rollout.actor, target, *given, q, self.entropy_form, leash)
        critic_loss, watched = self.critic_loss(q, rollout, judged, noise)
        # A leash in the loss is in `judged` already, from the same pass over all words.
        cost, seen = (0.0, Sums()) if leash else self.pull(rollout, rewards.new_ones(len(tokens)))
        actor_loss, watched = (judged.loss + cost) / noise.total / self.samples, watched | seen
        if rollout.reference is not None:
            likelihood, seen = reference_loss(*rollout.reference, noise)
            actor_loss = actor_loss + self.mle_weight * likelihood
            watched |= seen
        watched["entropy"] = rollout.total(judged.entropy)
        if leash is not None:
            watched["drift"] = rollout.total(judged.drift)
        return Outcome({"actor": actor_loss, "critic": critic_loss}, watched)

    def _leash(self, rollout: Rollout) -> Leash | None:
        """What the actor was, along the samples, where that is a matter of its loss over all words."""
        return Leash(rollout.start, self.leash) if rollout.start is not None and self.leash_form == "loss" else None

    def check(self, payoff: Payoff) -> str | None:
        """What eos adds is known of the pay-off alone."""
        if self.leash and self.leash_form == "reward" and self.exact_eos:
            return "exact_eos teaches what eos adds to the pay-off, and leash_form = 'reward' changes that: drop one."
        return super().check(payoff)

    @property
    def validates_start(self) -> bool:
        """Whether it may end as it began."""
        return self.keeps_start

    def stride(self, network: str, progress: Progress) -> float:
        """A cautious actor goes as far as its critic can see."""
        return min(max(progress.explained, 0.0), 1.0) if self.cautious and network == "actor" else 1.0
