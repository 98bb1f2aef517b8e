"""All other algorithms for Python users: plans of phases, like those of `presets`."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

from seqcredit.algorithms import A2c, Bso, Grpo, Mixer, Mrt, Ocd, Pcl, Phase, Reinforce, Sac, Scst
from seqcredit.algorithms import ProfessorForcing as Forcing
from seqcredit.algorithms import ScheduledSampling as Scheduled
from seqcredit.experiments.presets import ERAC, Plan
from seqcredit.options import ABOVE_0, EVEN, FROM_0, FROM_1, FROM_2, NOT_NEGATIVE, SHARE, option


@dataclass(frozen=True)
class AfterMle(Plan):
    """One phase that starts from MLE: a model that is not trained yet learns by it first."""

    mle_epochs: int = option(20, FROM_0)  # at most, for a model that is not trained yet
    mle_learning_rate: float = option(0.002, ABOVE_0)

    def phases(self, trained: bool) -> tuple[Phase, ...]:
        """MLE where it is needed, then the phase."""
        return (*self.mle_first(trained, self.mle_learning_rate, self.mle_epochs), self.last())

    @abstractmethod
    def last(self) -> Phase:
        """The phase."""


@dataclass(frozen=True)
class Sampled(AfterMle):
    """What learns from samples without a critic."""

    learning_rate: float = option(0.0002, ABOVE_0)
    samples: int = option(5, FROM_1)  # for each source
    mle_weight: float = option(0.0, NOT_NEGATIVE)  # of the references' likelihood beside the reward
    leash: float = option(0.0, NOT_NEGATIVE)  # weight of the KL to the model that it started from


@dataclass(frozen=True)
class REINFORCE(Sampled):
    """REINFORCE: samples become more likely by what they earn above the other samples of their sentence. No critic.

    >>> [phase.name for phase in REINFORCE().phases(trained=False)]
    ['mle', 'reinforce']
    """

    samples: int = option(5, FROM_1)  # for each source; 1 compares with the greedy output, as SCST does
    entropy_weight: float = option(0.0, NOT_NEGATIVE)  # of the entropy of what the model says

    def last(self) -> Phase:
        """Leave-one-out, or SCST where there is nothing to leave out."""
        baseline = "others" if self.samples > 1 else "greedy"
        return self.phase(Reinforce, "reinforce", decay=0.7, baseline=baseline)


@dataclass(frozen=True)
class SCST(REINFORCE):
    """Self-critical sequence training: REINFORCE with the greedy output as the baseline.

    >>> SCST().phases(trained=True)[-1].baseline
    'greedy'
    """

    samples: int = option(1, FROM_1)  # for each source

    def last(self) -> Phase:
        """Whatever the number of samples is."""
        return self.phase(Scst, "scst", decay=0.7)


@dataclass(frozen=True)
class GRPO(Sampled):
    """Group relative policy optimisation: a sample becomes more likely by what it earns above its group, on a leash.

    >>> GRPO(samples=4).phases(trained=True)[-1].samples
    4
    """

    samples: int = option(8, FROM_2)  # for each source
    leash: float = option(0.04, NOT_NEGATIVE)  # weight of the KL to the model that it started from

    def last(self) -> Phase:
        """One phase."""
        return self.phase(Grpo, "grpo", decay=0.7)


@dataclass(frozen=True)
class MRT(Sampled):
    """Minimum risk training: among some samples and the reference, those with a higher reward become more likely.

    >>> MRT(sharpness=0.01).phases(trained=True)[-1].sharpness
    0.01
    """

    samples: int = option(10, FROM_1)  # for each source, beside the reference
    sharpness: float = option(0.005, ABOVE_0)  # alpha, the power of the model's probabilities

    def last(self) -> Phase:
        """One phase."""
        return self.phase(Mrt, "mrt", decay=0.7)


@dataclass(frozen=True)
class MIXER(Sampled):
    """MIXER: MLE for the beginning of each reference, REINFORCE for the rest, which grows during training.

    >>> [phase.name for phase in MIXER().phases(trained=False)]
    ['mle', 'mixer']
    """

    samples: int = option(1, FROM_1)  # for each source
    delta_start: int = option(2, FROM_0)  # tokens that are drawn at first, counted from the end
    delta: int = option(2, FROM_0)  # tokens that are added
    delta_every: int = option(100, FROM_1)  # number of updates until more are added

    def last(self) -> Phase:
        """One phase."""
        return self.phase(Mixer, "mixer", decay=0.7)


@dataclass(frozen=True)
class OCD(Sampled):
    """Optimal completion distillation: along its samples a model learns which words are still best, known exactly.

    It works with one reward only, "edit".

    >>> OCD(tau=0.1).phases(trained=True)[-1].tau
    0.1
    """

    samples: int = option(1, FROM_1)  # for each source
    tau: float = option(0.0, NOT_NEGATIVE)  # of the targets; 0: the best words alone, all alike
    mle_weight: float = option(1.0, NOT_NEGATIVE)  # of the references' likelihood beside them

    def last(self) -> Phase:
        """One phase."""
        return self.phase(Ocd, "ocd", decay=0.7)


@dataclass(frozen=True)
class ScheduledSampling(Plan):
    """Scheduled sampling: MLE in which the model reads its own words more and more often. It needs no reward.

    >>> ScheduledSampling(most=0.5).phases(trained=True)[0].rate_of(10**6)
    0.5
    """

    epochs: int = option(20, FROM_1)  # at most
    learning_rate: float = option(0.002, ABOVE_0)
    schedule: Literal["linear", "exponential", "sigmoid"] = "sigmoid"  # how the share of its own words rises
    pace: float = option(300.0, ABOVE_0)  # updates: more is slower
    most: float = option(0.25, SHARE)  # largest share of its own words
    words: Literal["drawn", "greedy"] = "drawn"  # which of its own words it hears

    def phases(self, trained: bool) -> tuple[Phase, ...]:
        """One phase, whatever the model is."""
        return (self.phase(Scheduled, "scheduled_sampling", decays=4),)


@dataclass(frozen=True)
class A2C(AfterMle):
    """Advantage Actor-Critic: samples become more likely by what they earn above a learned value of each state.

    >>> [phase.name for phase in A2C().phases(trained=False)]
    ['mle', 'a2c']
    """

    learning_rate: float = option(0.0005, ABOVE_0)
    critic_learning_rate: float = option(0.002, ABOVE_0)
    critic_first: int = option(300, FROM_0)  # updates in which the critic learns alone
    samples: int = option(1, FROM_1)  # for each source
    trace: float = option(0.95, SHARE)  # how much of what follows later counts
    entropy_weight: float = option(0.01, NOT_NEGATIVE)  # of every state's entropy
    mle_weight: float = option(0.1, NOT_NEGATIVE)  # of the references' likelihood beside the reward

    def last(self) -> Phase:
        """Actor and critic."""
        return self.phase(A2c, "a2c", decay=0.7)


@dataclass(frozen=True)
class SAC(ERAC):
    """Soft Actor-Critic: ERAC with a learned temperature, which keeps the entropy at a target.

    Give `train` a twin critic, such as `LSTM(attention="mlp", dropout=0.0, twin=True)`.

    >>> [phase.name for phase in SAC(entropy_target=0.5).phases(trained=True)]
    ['critic', 'sac']
    """

    tau: float = option(0.01, ABOVE_0)  # the first one
    entropy_target: float = option(1.0, NOT_NEGATIVE)  # nats that a state is to have on average
    tau_learning_rate: float = option(0.001, ABOVE_0)

    def phases(self, trained: bool) -> tuple[Phase, ...]:
        """As ERAC, with another joint phase."""
        return (*super().phases(trained)[:-1], self.phase(Sac, "sac", decay=0.7, smoothing_form="mean"))


@dataclass(frozen=True)
class PCL(AfterMle):
    """Path consistency learning: policy and value of one network learn to agree along samples and references.

    >>> PCL(tau=0.1).phases(trained=True)[0].tau
    0.1
    """

    learning_rate: float = option(0.0002, ABOVE_0)
    value_learning_rate: float = option(0.005, ABOVE_0)
    tau: float = option(0.05, ABOVE_0)  # of the entropy that counts; less asks for more certain words
    steps: int = option(10, FROM_0)  # tokens of a path; 0: always to the end
    off_policy: int = option(1, FROM_0)  # sequences near the reference to learn from too, itself the first
    samples: int = option(1, FROM_1)  # for each source
    mle_weight: float = option(0.1, NOT_NEGATIVE)  # of the references' likelihood beside it

    def last(self) -> Phase:
        """Policy and value."""
        return self.phase(Pcl, "pcl", decay=0.7)


@dataclass(frozen=True)
class BSO(AfterMle):
    """Beam search optimisation: where the reference would fall off the beam, it has to win by a margin.

    Search such a model with a beam: it ranks by unnormalised scores.

    >>> BSO(width=4).phases(trained=True)[0].width
    4
    """

    learning_rate: float = option(0.0005, ABOVE_0)
    width: int = option(6, FROM_2)  # of the beam in training: one more than that of testing
    first_width: int = option(2, FROM_0)  # where it begins to grow; 0: it does not
    margin: float = option(1.0, NOT_NEGATIVE)

    def last(self) -> Phase:
        """Search, in training."""
        return self.phase(Bso, "bso", decay=0.7)


@dataclass(frozen=True)
class ProfessorForcing(AfterMle):
    """Professor forcing: MLE, and a discriminator that makes states along samples look like those along references.

    >>> [phase.name for phase in ProfessorForcing().phases(trained=False)]
    ['mle', 'professor_forcing']
    """

    learning_rate: float = option(0.0005, ABOVE_0)
    weight: float = option(1.0, NOT_NEGATIVE)  # of fooling the discriminator
    hidden: int = option(128, EVEN)  # of the discriminator

    def last(self) -> Phase:
        """Actor and discriminator."""
        return self.phase(Forcing, "professor_forcing", decay=0.7)
