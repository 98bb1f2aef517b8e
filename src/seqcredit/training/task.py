"""What there is to train: phases, networks, data, a reward and a metric."""

from dataclasses import dataclass
from typing import Literal

from seqcredit.algorithms import Models, Phase
from seqcredit.data.prepared import Prepared
from seqcredit.models.policy import Network
from seqcredit.rewards.metrics import Metric
from seqcredit.types import Reward


@dataclass(frozen=True)
class Task:
    """All that a trainer needs to know, wherever it comes from."""

    phases: tuple[Phase, ...]
    networks: dict[str, Network]  # "actor", and "critic" where a phase asks for one
    prepared: Prepared
    reward: Reward
    metric: Metric
    seed: int = 1
    validation_beam: int = 1
    longest_output: int = 100
    on_divergence: Literal["rollback", "record"] = "rollback"


def networks_of(phases: tuple[Phase, ...]) -> list[str]:
    """The networks that some phases train or need; there is always an actor."""
    asked = {name for phase in phases for name in (*phase.trains, *phase.needs)}
    return [name for name in Models._fields if name in asked | {"actor"}]
