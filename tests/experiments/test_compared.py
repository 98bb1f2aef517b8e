"""The plans of the algorithms that the paper's are compared with: their phases, and what they pass on."""

from dataclasses import replace

import pytest

from seqcredit.algorithms import (
    A2c,
    Bso,
    Critic,
    Grpo,
    Mixer,
    Mle,
    Mrt,
    Ocd,
    Pcl,
    ProfessorForcing,
    Reinforce,
    Sac,
    ScheduledSampling,
    Scst,
)
from seqcredit.experiments import compared
from seqcredit.experiments.compared import GRPO, MIXER, MRT, OCD, REINFORCE, SCST
from seqcredit.experiments.presets import Plan


@pytest.mark.parametrize(
    ("plan", "kinds"),
    [
        (compared.A2C(), [A2c]),
        (compared.SAC(), [Critic, Sac]),
        (compared.PCL(), [Pcl]),
        (compared.BSO(), [Bso]),
        (compared.ProfessorForcing(), [ProfessorForcing]),
        (REINFORCE(), [Reinforce]),
        (SCST(), [Scst]),
        (GRPO(), [Grpo]),
        (MRT(), [Mrt]),
        (MIXER(), [Mixer]),
        (OCD(), [Ocd]),
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


def test_scheduled_sampling_has_one_phase_whatever_the_model_is() -> None:
    plan = compared.ScheduledSampling()
    assert [[type(phase) for phase in plan.phases(trained)] for trained in (False, True)] == [[ScheduledSampling]] * 2


def test_options_of_reinforce_reach_it() -> None:
    plan = REINFORCE(epochs=4, batch_size=12, learning_rate=0.1, samples=3, mle_weight=0.8, mle_epochs=6)
    mle, last = plan.phases(trained=False)
    assert isinstance(last, Reinforce)
    assert (last.epochs, last.batch_size, last.learning_rate, last.samples, last.mle_weight) == (4, 12, 0.1, 3, 0.8)
    assert (mle.epochs, mle.batch_size, mle.learning_rate) == (6, 12, 0.002)
    assert last.baseline == "others"
    (scst,) = REINFORCE(samples=1).phases(trained=True)
    assert scst == Reinforce("reinforce", 0.0002, "adam", epochs=10, decay=0.7)
    assert SCST().phases(trained=True) == (Scst("scst", 0.0002, "adam", epochs=10, decay=0.7),)


def test_options_of_the_others_reach_them() -> None:
    shared = {"epochs": 4, "batch_size": 12, "learning_rate": 0.1, "samples": 3, "mle_weight": 0.8, "leash": 0.3}
    said = {"name": "", "optimizer": "adam", "decay": 0.7, **shared}
    for plan, last in (
        (REINFORCE(entropy_weight=0.2, **shared), Reinforce(**said, baseline="others", entropy_weight=0.2)),
        (GRPO(**shared), Grpo(**said)),
        (MRT(sharpness=0.4, **shared), Mrt(**said, sharpness=0.4)),
        (MIXER(delta_start=5, delta=6, delta_every=7, **shared), Mixer(**said, delta_start=5, delta=6, delta_every=7)),
        (OCD(tau=0.4, **shared), Ocd(**said, tau=0.4)),
    ):
        (found,) = plan.phases(trained=True)
        assert replace(found, name="") == last
    plan = compared.ScheduledSampling(schedule="linear", pace=5.0, most=0.4, words="greedy", epochs=3)
    (phase,) = plan.phases(trained=True)
    assert isinstance(phase, ScheduledSampling)
    assert (phase.schedule, phase.pace, phase.most, phase.words, phase.epochs) == ("linear", 5.0, 0.4, "greedy", 3)
