"""The paper's algorithms for Python users: each is a plan of phases, pretraining included, with good defaults.

The others are in `compared`. Every phase of `seqcredit.algorithms` can be given to `seqcredit.train` too, alone or in a
list.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Literal, TypeVar

from seqcredit.algorithms import ActorCritic, Critic, Mle, Phase, Raml, SoftQ, Vaml
from seqcredit.options import ABOVE_0, FROM_0, FROM_1, NOT_NEGATIVE, SHARE, UP_TO_1, Options, changed, in_common, option

P = TypeVar("P", bound=Phase)
G = TypeVar("G", bound="Plan")
GENTLER = 20  # times lower than for a network that starts from nothing are the rates of a pretrained one


@dataclass(frozen=True)
class Plan(Options, ABC):
    """An algorithm with all of its phases."""

    epochs: int = option(10, FROM_1)  # at most
    batch_size: int = option(50, FROM_1)
    accumulate: int = option(1, FROM_1)  # parts of a batch, one after the other: less memory for the same update
    gradient_checkpointing: bool = False  # backward computes what is within layers anew: less memory, more time
    precision: Literal["float32", "bf16"] = "float32"  # of a loss's products

    @abstractmethod
    def phases(self, trained: bool) -> tuple[Phase, ...]:
        """What to train, for a model that is trained already or for one that is not."""

    def gentle(self: "G") -> "G":
        """For a pretrained model: learning rates that were not given are a twentieth."""
        default = type(self)()
        names = [each.name for each in fields(self) if each.name.endswith("learning_rate")]
        same = [name for name in names if getattr(self, name) == getattr(default, name)]
        return changed(self, {name: getattr(default, name) / GENTLER for name in same})

    def phase(self, kind: type[P], name: str, **others: object) -> P:
        """A phase with all options of this plan that it has too, unless others are given."""
        return changed(kind(**{"name": name, "optimizer": "adam", **in_common(self, kind)}), others)

    def mle_first(self, trained: bool, rate: float, epochs: int) -> tuple[Phase, ...]:
        """MLE for a model that is not trained yet."""
        return () if trained else (self.phase(Mle, "mle", learning_rate=rate, epochs=epochs, decays=4),)


@dataclass(frozen=True)
class MLE(Plan):
    """Maximum likelihood: learn the references.

    >>> MLE(epochs=3).phases(trained=False)[0].epochs
    3
    """

    epochs: int = option(20, FROM_1)  # at most; five validations without progress end it
    learning_rate: float = option(0.002, ABOVE_0)

    def phases(self, trained: bool) -> tuple[Phase, ...]:
        """One phase, whatever the model is."""
        return (self.phase(Mle, "mle", decays=4),)


@dataclass(frozen=True)
class RAML(Plan):
    """Reward augmented maximum likelihood: also learn sequences near the references, weighted by their reward.

    >>> [phase.name for phase in RAML().phases(trained=True)]
    ['raml']
    """

    epochs: int = option(20, FROM_1)  # at most
    learning_rate: float = option(0.002, ABOVE_0)
    tau: float = option(0.4, ABOVE_0)  # higher takes worse sequences along
    samples: int = option(5, FROM_1)  # for each reference, itself included

    def phases(self, trained: bool) -> tuple[Phase, ...]:
        """One phase, whatever the model is."""
        return (self.phase(Raml, "raml", decays=2),)


@dataclass(frozen=True)
class VAML(Plan):
    """Value augmented maximum likelihood: RAML with a target for every token, from a Q that is learned first.

    >>> [phase.name for phase in VAML().phases(trained=True)]
    ['soft_q', 'vaml']
    """

    epochs: int = option(20, FROM_1)  # at most
    q_epochs: int = option(10, FROM_1)  # at most, of soft Q-learning
    learning_rate: float = option(0.002, ABOVE_0)
    tau: float = option(0.4, ABOVE_0)
    kappa: float = option(0.2, SHARE)  # share of the token targets; 0 is RAML
    samples: int = option(5, FROM_1)

    def phases(self, trained: bool) -> tuple[Phase, ...]:
        """Soft Q-learning, then the actor."""
        soft_q = self.phase(SoftQ, "soft_q", epochs=self.q_epochs, decays=2, words="likely")
        return (soft_q, self.phase(Vaml, "vaml", decays=2))


@dataclass(frozen=True)
class ERAC(Plan):
    """Entropy-regularised Actor-Critic: a critic learns what samples are worth, then actor and critic learn together.

    A model that is not trained yet learns by MLE first. `train` returns the weights that validate best, or the starting
    weights: also if the critic explains too little of what samples earn.

    >>> [phase.name for phase in ERAC(tau=0.04).phases(trained=False)]
    ['mle', 'critic', 'actor_critic']
    """

    tau: float = option(0.01, NOT_NEGATIVE)  # weight of the entropy; too much makes samples random
    critic_epochs: int = option(6, FROM_1)  # at most, before the actor is trained
    critic_least: float = option(
        0.05, SHARE
    )  # the actor is trained only if Q explains this share of the returns' variance
    mle_epochs: int = option(20, FROM_0)  # at most, for a model that is not trained yet
    learning_rate: float = option(0.0005, ABOVE_0)
    critic_learning_rate: float = option(0.002, ABOVE_0)
    mle_learning_rate: float = option(0.002, ABOVE_0)
    samples: int = option(1, FROM_1)  # for each source
    mle_weight: float = option(0.1, NOT_NEGATIVE)  # of the references' likelihood beside the reward
    leash: float = option(0.0, NOT_NEGATIVE)  # weight of the KL to the model that it started from
    cautious: bool = False  # shorter steps while the critic explains little
    smoothing: float = option(10.0, NOT_NEGATIVE)  # of the variance of Q over the vocabulary
    target_rate: float = option(0.1, UP_TO_1)  # how fast the target network follows the critic
    trace: float = option(0.9, SHARE)  # how much of what follows later counts; 0 looks one step ahead, as in the paper

    def phases(self, trained: bool) -> tuple[Phase, ...]:
        """MLE where it is needed, the critic alone, then both."""
        rate, both = self.critic_learning_rate, {"decay": 0.7, "smoothing_form": "mean"}
        critic = self.phase(Critic, "critic", learning_rate=rate, epochs=self.critic_epochs, **both)
        return (
            *self.mle_first(trained, self.mle_learning_rate, self.mle_epochs),
            critic,
            self.phase(ActorCritic, "actor_critic", **both),
        )


@dataclass(frozen=True)
class AC(ERAC):
    """Actor-Critic: ERAC without entropy.

    >>> AC().phases(trained=True)[-1].tau
    0.0
    """

    tau: float = option(0.0, NOT_NEGATIVE)  # ERAC where it is above 0
