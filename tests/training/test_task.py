"""Which networks some phases ask for."""

import pytest

from seqcredit.algorithms import ActorCritic, Critic, Mle, Phase, Raml, SoftQ, Vaml
from seqcredit.training.task import networks_of


@pytest.mark.parametrize(
    ("phases", "networks"),
    [
        ((Mle("mle", 0.1),), ["actor"]),
        ((Mle("mle", 0.1), Raml("raml", 0.1)), ["actor"]),
        ((SoftQ("q", 0.1),), ["actor", "critic"]),
        ((Vaml("vaml", 0.1),), ["actor", "critic"]),
        ((Critic("critic", 0.1),), ["actor", "critic"]),
        ((Mle("mle", 0.1), ActorCritic("ac", 0.1)), ["actor", "critic"]),
    ],
)
def test_networks_of_phases(phases: tuple[Phase, ...], networks: list[str]) -> None:
    assert networks_of(phases) == networks
