"""What is learned from what? One file an algorithm: options, networks, loss, and what it is judged by."""

from inspect import isabstract
from pathlib import Path

from seqcredit.algorithms.a2c import A2c
from seqcredit.algorithms.bso import Bso
from seqcredit.algorithms.erac import ActorCritic, Critic
from seqcredit.algorithms.grpo import Grpo
from seqcredit.algorithms.mixer import Mixer
from seqcredit.algorithms.mle import Mle
from seqcredit.algorithms.mrt import Mrt
from seqcredit.algorithms.ocd import Ocd
from seqcredit.algorithms.pcl import Pcl
from seqcredit.algorithms.phase import Criterion, Models, Outcome, Phase, Progress
from seqcredit.algorithms.professor_forcing import ProfessorForcing
from seqcredit.algorithms.reinforce import Reinforce, Scst
from seqcredit.algorithms.remembered import must_be_known, remembered, traits
from seqcredit.algorithms.sac import Sac
from seqcredit.algorithms.scheduled_sampling import ScheduledSampling
from seqcredit.algorithms.soft_q import SoftQ
from seqcredit.algorithms.vaml import ExactVaml, Raml, Vaml
from seqcredit.errors import UserError
from seqcredit.named import find, is_named, word_of

__all__ = [
    "ALGORITHMS",
    "A2c",
    "ActorCritic",
    "Bso",
    "Criterion",
    "Critic",
    "ExactVaml",
    "Grpo",
    "Mixer",
    "Mle",
    "Models",
    "Mrt",
    "Ocd",
    "Outcome",
    "Pcl",
    "Phase",
    "ProfessorForcing",
    "Progress",
    "Raml",
    "Reinforce",
    "Sac",
    "ScheduledSampling",
    "Scst",
    "SoftQ",
    "Vaml",
    "algorithm",
    "must_be_known",
    "objective_of",
    "remembered",
    "traits",
]

# The name of each in a recipe.
ALGORITHMS: dict[str, type[Phase]] = {
    "mle": Mle,
    "raml": Raml,
    "soft_q": SoftQ,
    "vaml": Vaml,
    "vaml_exact": ExactVaml,
    "critic": Critic,
    "actor_critic": ActorCritic,
    "reinforce": Reinforce,
    "scst": Scst,
    "mixer": Mixer,
    "mrt": Mrt,
    "grpo": Grpo,
    "scheduled_sampling": ScheduledSampling,
    "ocd": Ocd,
    "a2c": A2c,
    "sac": Sac,
    "pcl": Pcl,
    "bso": Bso,
    "professor_forcing": ProfessorForcing,
}


def algorithm(objective: object, folder: Path | None = None) -> type[Phase]:
    """An algorithm by its name in a recipe, which is in `folder`: one of ours, or `my_file:MyAlgorithm`."""
    if isinstance(objective, str) and objective in ALGORITHMS:
        return ALGORITHMS[objective]
    if not isinstance(objective, str) or not is_named(objective):
        names = ", ".join(ALGORITHMS)
        raise UserError(f"objective is {objective!r}, but it must be one of {names}, or FILE:CLASS of your own.")
    found = find(objective, folder)
    kind = found if isinstance(found, type) and issubclass(found, Phase) else None
    if kind is None or "__dataclass_fields__" not in vars(kind) or isabstract(kind):
        wanted = "a frozen dataclass, a subclass of seqcredit.algorithms.Phase, with a `loss`"
        raise UserError(f"{objective} is no algorithm: make it {wanted}.")
    return kind


def objective_of(phase: Phase) -> str:
    """The name of a phase's algorithm, as a recipe writes it."""
    kind = type(phase)
    for name, ours in ALGORITHMS.items():
        if kind is ours:
            return name
    return word_of(kind)
