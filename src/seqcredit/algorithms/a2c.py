"""A2C: samples become more likely by what they earn above a learned value of each state.

Mnih et al. (2016), with the targets of Schulman et al. (2016), GAE(lambda), or of n steps. The critic says V(s) alone.
Its soft form, which learns Q and counts the entropy of what follows, is `algorithms.sac`.
"""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor
from torch.profiler import record_function as part

from seqcredit.algorithms.along import Along, policy_gradient
from seqcredit.algorithms.phase import Models, Outcome, Paired, Progress
from seqcredit.algorithms.rollout import spread, watch
from seqcredit.algorithms.sampling import Sampling
from seqcredit.credit.values import one_step_targets, returns_to_go, token_rewards, trace_targets
from seqcredit.draws import Noise
from seqcredit.options import FROM_0, NOT_NEGATIVE, SHARE, option
from seqcredit.types import Batch, Reward, token_mask


@dataclass(frozen=True)
class A2c(Sampling, Paired):
    """Advantage Actor-Critic: a policy gradient with a learned V(s) as its baseline."""

    trains: ClassVar[tuple[str, ...]] = ("actor", "critic")

    entropy_weight: float = option(0.01, NOT_NEGATIVE)  # beta, weight of the actor's entropy in every state
    trace: float = option(1.0, SHARE)  # lambda of GAE: 0 looks one step ahead, 1 to the end
    steps: int = option(0, FROM_0)  # maximum rewards in a target (n-step if trace = 1); 0: all
    critic_first: int = option(0, FROM_0)  # updates at the start in which only the critic learns

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        """- advantage log pi - beta H(pi) for the actor, (V - target)^2 for the critic."""
        rollout, critic, alphabet = self.draw(models, batch, reward, noise), models.judge, models.actor.alphabet
        tokens, rewards = rollout.tokens, token_rewards(rollout.worth)
        real = token_mask(tokens, alphabet.eos)
        with part("critic"):
            values = state_values(Along.of(critic, critic.score(critic.read(rollout.batch), tokens)))
        known = values.detach().masked_fill(~real, 0)
        one_step = one_step_targets(rewards, known, tokens, alphabet.eos)
        targets = trace_targets(one_step, known, tokens, self.trace, self.steps, alphabet.eos)
        with part("actor"):
            loss = policy_gradient(rollout.actor, tokens, (targets - known).masked_fill(~rollout.free, 0))
        errors = (values - targets).masked_fill(~real, 0)
        returns = returns_to_go(rewards, rewards.new_zeros(tokens.shape), tokens, 0.0, alphabet.eos)
        surprise = (known - returns).masked_fill(~real, 0).square().sum()
        watched = watch(rollout, alphabet) | spread(returns, real)
        watched |= {"td": (errors.detach().square().sum(), real.sum()), "return_error": (surprise, real.sum())}
        found = self.outcome(loss, watched, rollout, batch, noise)
        critic_loss = errors.square().sum() / noise.total / self.samples
        return Outcome({**found.losses, "critic": critic_loss}, found.sums)

    @property
    def judged_tau(self) -> float:
        """V is that of the reward alone."""
        return 0.0

    def stride(self, network: str, progress: Progress) -> float:
        """The actor waits for its critic."""
        return 0.0 if network == "actor" and progress.update < self.critic_first else 1.0

    def stands_still(self, updates: int) -> bool:
        """While the actor waits."""
        return updates <= self.critic_first


def state_values(critic: Along) -> Float[Tensor, "B T"]:
    """V of every state, by a critic whose readout has a column for each word: their mean is one column for all.

    So any critic gives V, and its Q, which nobody teaches apart, stays near it.
    """
    linear, actions = critic.scores.linear(), critic.alphabet.actions
    if linear is None:
        return (critic.table if actions is None else critic.table[..., actions]).mean(-1)
    weight, bias = linear.weight, linear.bias
    column = (weight if actions is None else weight[actions]).mean(0)
    values = linear.features @ column
    return values if bias is None else values + (bias if actions is None else bias[actions]).mean()
