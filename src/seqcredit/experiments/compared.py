"""The systems that the paper compares itself with, for Python users: plans of phases, like those of `presets`."""

from dataclasses import dataclass

from seqcredit.algorithms import A2c, Bso, Pcl, Phase, Sac
from seqcredit.algorithms import ProfessorForcing as Forcing
from seqcredit.experiments.presets import ERAC, AfterMle
from seqcredit.options import ABOVE_0, EVEN, FROM_0, FROM_1, FROM_2, NOT_NEGATIVE, SHARE, option


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
