"""The credit error of networks whose Q is made right, or wrong, on purpose."""

from pathlib import Path

import pytest

from seqcredit import algorithms
from seqcredit.data.manifest import PrepareOptions
from seqcredit.data.phrases import phrases
from seqcredit.data.prepare import prepare
from seqcredit.data.prepared import Prepared
from seqcredit.errors import UserError
from seqcredit.experiments import recipe as recipes
from seqcredit.experiments.build import build_actor, build_critic
from seqcredit.experiments.runs import Run
from seqcredit.models.build import LSTM
from seqcredit.results import credit
from seqcredit.rewards.payoff import Payoff

SMALL, JUDGE = LSTM(8, 8), LSTM(8, 8, attention="mlp", dropout=0.0)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("data") / "phrases"
    sizes = {"train": 300, "valid": 20, "test": 60}
    prepare({name: phrases(name, size) for name, size in sizes.items()}, folder, PrepareOptions(tokenized=True))
    return Prepared.open(folder)


def make(folder: Path, prepared: Prepared, phase: algorithms.Phase, metric: str = "edit") -> Run:
    recipe = recipes.Recipe("r", (phase,), payoff=Payoff(metric=metric), actor=SMALL, critic=JUDGE)
    run = Run.create(folder, "", recipe, prepared.folder, {})
    nets = {"actor": build_actor(recipe, prepared), "critic": build_critic(recipe, prepared)}
    run.save_weights(phase.name, {f"{n}.{k}": t for n, net in nets.items() for k, t in net.state_dict().items()})
    return run


def test_a_network_that_learned_nothing_is_its_own_baseline(prepared: Prepared, tmp_path: Path) -> None:
    run = make(tmp_path / "run", prepared, algorithms.SoftQ("soft_q", 0.1, tau=0.2, bound=20))
    error = credit.against_edit_oracle(run, prepared, "test", 5)
    assert error.absolute == error.untrained > 0.5
    assert error.kl == error.untrained_kl
    assert error.kl is not None
    assert error.kl > 0


def test_another_payoff_is_refused(prepared: Prepared, tmp_path: Path) -> None:
    run = make(tmp_path / "run", prepared, algorithms.SoftQ("soft_q", 0.1), "bleu")
    with pytest.raises(UserError, match="the exact oracle knows the plain edit distance"):
        credit.against_edit_oracle(run, prepared, "test", 5)


def test_rollouts_judge_a_critic(prepared: Prepared, tmp_path: Path) -> None:
    """A constant critic is off by the distance of its constant."""
    run = make(tmp_path / "run", prepared, algorithms.Critic("critic", 0.1, tau=0.0, extra_length=2), "bleu")
    near = credit.against_rollouts(run, prepared, "test", 3, words=2, rollouts=8)
    weights = run.weights()
    weights["critic.readout.weight"].zero_()
    weights["critic.readout.bias"].fill_(100.0)
    run.save_weights("critic", weights)
    far = credit.against_rollouts(run, prepared, "test", 3, words=2, rollouts=8)
    assert near.absolute == near.untrained < 10
    assert 80 < far.absolute < 110
    assert far.untrained == near.untrained
    assert far.states == 6
