"""The plans of the systems that the paper compares itself with: their phases, and what they pass on."""

import pytest

from seqcredit.algorithms import A2c, Bso, Critic, Mle, Pcl, ProfessorForcing, Sac
from seqcredit.experiments import compared
from seqcredit.experiments.presets import Plan


@pytest.mark.parametrize(
    ("plan", "kinds"),
    [
        (compared.A2C(), [A2c]),
        (compared.SAC(), [Critic, Sac]),
        (compared.PCL(), [Pcl]),
        (compared.BSO(), [Bso]),
        (compared.ProfessorForcing(), [ProfessorForcing]),
    ],
)
def test_phases_for_a_fresh_model_and_for_a_trained_one(plan: Plan, kinds: list[type]) -> None:
    assert [type(phase) for phase in plan.phases(trained=True)] == kinds
    assert [type(phase) for phase in plan.phases(trained=False)] == [Mle, *kinds]


def test_options_reach_their_phases() -> None:
    mle, a2c = compared.A2C(critic_first=7, trace=0.3, mle_epochs=4, entropy_weight=0.2).phases(trained=False)
    assert isinstance(a2c, A2c)
    assert (mle.epochs, mle.learning_rate, a2c.learning_rate, a2c.rate("critic")) == (4, 0.002, 0.0005, 0.002)
    assert (a2c.critic_first, a2c.trace, a2c.entropy_weight, a2c.mle_weight) == (7, 0.3, 0.2, 0.1)
    critic, sac = compared.SAC(tau=0.03, entropy_target=0.4, tau_learning_rate=0.2, trace=0.5).phases(trained=True)
    assert isinstance(sac, Sac)
    assert (critic.judged_tau, sac.tau, sac.entropy_target, sac.trace) == (0.03, 0.03, 0.4, 0.5)
    assert (sac.rate("temperature"), sac.rate("critic"), sac.smoothing_form) == (0.2, 0.002, "mean")
    (pcl,) = compared.PCL(tau=0.2, steps=3, off_policy=4, samples=2).phases(trained=True)
    assert isinstance(pcl, Pcl)
    assert (pcl.tau, pcl.steps, pcl.off_policy, pcl.samples, pcl.rate("value")) == (0.2, 3, 4, 2, 0.005)
    (bso,) = compared.BSO(width=4, first_width=3, margin=0.5).phases(trained=True)
    assert isinstance(bso, Bso)
    assert (bso.width, bso.first_width, bso.margin) == (4, 3, 0.5)
    (forcing,) = compared.ProfessorForcing(weight=0.3, hidden=12).phases(trained=True)
    assert isinstance(forcing, ProfessorForcing)
    assert (forcing.weight, forcing.hidden, forcing.mle_weight) == (0.3, 12, 1.0)
