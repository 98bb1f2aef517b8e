"""The plans of the paper's algorithms: their phases, and what they pass on."""

import pytest

from seqcredit.algorithms import ActorCritic, Critic, Mle, Raml, SoftQ, Vaml
from seqcredit.errors import UserError
from seqcredit.experiments.presets import AC, ERAC, MLE, RAML, VAML, Plan


@pytest.mark.parametrize(
    ("plan", "fresh", "trained"),
    [
        (MLE(), [Mle], [Mle]),
        (RAML(), [Raml], [Raml]),
        (VAML(), [SoftQ, Vaml], [SoftQ, Vaml]),
        (AC(), [Mle, Critic, ActorCritic], [Critic, ActorCritic]),
        (ERAC(), [Mle, Critic, ActorCritic], [Critic, ActorCritic]),
    ],
)
def test_phases_for_a_fresh_model_and_for_a_trained_one(plan: Plan, fresh: list[type], trained: list[type]) -> None:
    assert [type(phase) for phase in plan.phases(trained=False)] == fresh
    assert [type(phase) for phase in plan.phases(trained=True)] == trained
    names = [phase.name for phase in plan.phases(trained=False)]
    assert len(set(names)) == len(names)


def test_options_reach_their_phases() -> None:
    plan = ERAC(
        tau=0.03,
        epochs=4,
        critic_epochs=5,
        mle_epochs=6,
        learning_rate=0.1,
        critic_learning_rate=0.2,
        mle_learning_rate=0.3,
        samples=7,
        mle_weight=0.8,
        smoothing=0.9,
        target_rate=0.11,
        trace=0.4,
        critic_least=0.45,
        leash=0.6,
        cautious=False,
        batch_size=12,
    )
    mle, critic, joint = plan.phases(trained=False)
    assert isinstance(critic, Critic)
    assert isinstance(joint, ActorCritic)
    assert [phase.epochs for phase in (mle, critic, joint)] == [6, 5, 4]
    assert [phase.learning_rate for phase in (mle, critic, joint)] == [0.3, 0.2, 0.1]
    assert joint.rate("critic") == 0.2
    assert (joint.mle_weight, {phase.batch_size for phase in (mle, critic, joint)}) == (0.8, {12})
    for phase in (critic, joint):
        assert (phase.tau, phase.samples, phase.smoothing) == (0.03, 7, 0.9)
        assert (phase.target_rate, phase.trace) == (0.11, 0.4)
        assert phase.smoothing_form == "mean"  # so that one strength fits every vocabulary
    assert joint.validates_start
    assert (critic.critic_least, critic.critic_until) == (0.45, 0)
    assert (joint.leash, joint.cautious) == (0.6, False)
    assert AC().phases(trained=True)[-1].judged_tau == 0
    soft_q, vaml = VAML(tau=0.3, kappa=0.7, q_epochs=2, epochs=3, samples=4).phases(trained=True)
    assert isinstance(vaml, Vaml)
    assert (soft_q.judged_tau, vaml.judged_tau, vaml.kappa, soft_q.epochs, vaml.epochs) == (0.3, 0.3, 0.7, 2, 3)
    (raml,) = RAML(tau=0.6, samples=9, learning_rate=0.5).phases(trained=True)
    assert isinstance(raml, Raml)
    assert (raml.tau, raml.samples, raml.learning_rate) == (0.6, 9, 0.5)


def test_a_value_out_of_range_is_one_sentence() -> None:
    with pytest.raises(UserError, match=r"VAML: kappa is 2\.0, but it must be from 0 to 1"):
        VAML(kappa=2.0)
