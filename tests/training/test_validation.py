"""What a trainer finds out about its networks: metrics of what they say, means of what a loss watches, credit error."""

from dataclasses import replace

import pytest
import torch

from seqcredit.algorithms import Critic, Mle, Phase, Progress, SoftQ
from seqcredit.data.batches import collate
from seqcredit.data.prepared import Prepared
from seqcredit.draws import Noise
from seqcredit.experiments.build import task_of
from seqcredit.experiments.recipe import Recipe
from seqcredit.models.build import LSTM
from seqcredit.models.policy import Network
from seqcredit.rewards.metrics import BLEU, EDIT, Metric, corpus
from seqcredit.rewards.payoff import Payoff
from seqcredit.training.decoding import Search, decode
from seqcredit.training.learner import Learner
from seqcredit.training.task import Task
from seqcredit.training.validation import Validator

SMALL = LSTM(8, 8, dropout=0.3)


def task(prepared: Prepared, phase: Phase, **keys: object) -> Task:
    recipe = Recipe("r", (phase,), actor=SMALL, critic=SMALL, longest_output=11, **keys)  # type: ignore[arg-type]
    made = task_of(recipe, prepared)
    for network in made.networks.values():
        for weight in network.parameters():
            weight.data *= 6
    return made


def validator(task: Task) -> Validator:
    (phase,) = task.phases
    return Validator(task, Learner(task.networks, phase, task.reward), "cpu")


def score(network: Network, prepared: Prepared, search: Search, metric: Metric) -> float:
    valid = prepared.split("valid")
    return corpus(metric, decode(network, prepared, valid, search), list(valid.reference_texts())).value


def test_the_metric_of_what_the_actor_says(prepared: Prepared) -> None:
    made = task(prepared, Mle("mle", 0.1), validation_beam=3)
    found = validator(made).judge()
    expected = score(made.networks["actor"], prepared, Search(3, 12), BLEU)
    assert (found.name, found.higher) == ("bleu", True)
    assert found.value == pytest.approx(expected)
    errors = validator(replace(made, metric=EDIT)).judge()
    expected = score(made.networks["actor"], prepared, Search(3, 12), EDIT)
    assert (errors.name, errors.higher) == ("edit", False)
    assert errors.value == pytest.approx(expected) == -errors.merit


def test_a_critic_says_its_best_words_greedily(prepared: Prepared) -> None:
    made = task(prepared, SoftQ("q", 0.1), validation_beam=3)
    expected = score(made.networks["critic"], prepared, Search(1, 12), BLEU)
    assert validator(made).judge().value == pytest.approx(expected)


@pytest.mark.parametrize("key", ["return_error", "td"])
def test_a_mean_is_that_of_the_loss_on_validation_data_always_with_the_same_draws(key: str, prepared: Prepared) -> None:
    phase = Critic("critic", 0.1, judged_by=key)  # type: ignore[arg-type]
    made = task(prepared, phase)
    judge, learner = validator(made), validator(made).learner
    found = judge.judge()
    assert judge.judge() == found
    assert (found.name, found.higher) == (key, False)
    valid = prepared.split("valid")  # all of its 30 sentences are one batch
    batch, noise = collate(valid, valid.groups[:-1]), Noise(torch.Generator().manual_seed(0), 30)
    sums = phase.loss(learner.models, batch, made.reward, noise, Progress()).sums
    error, mean, square = (
        float(total) / float(count) for total, count in (sums["return_error"], sums["return"], sums["return_square"])
    )
    total, count = sums[key]
    assert found.value == pytest.approx(float(total) / float(count))
    assert judge.measured == {"explained": pytest.approx(1 - error / (square - mean * mean), abs=1e-4)}


def test_networks_that_are_still_drop_nothing_and_learn_on_afterwards(prepared: Prepared) -> None:
    made = task(prepared, SoftQ("q", 0.1, judged_by="td"))
    judge, critic = validator(made), made.networks["critic"]
    still, moving = judge.mean("td", ("critic",)), judge.mean("td")
    assert judge.judge() == still != moving
    assert critic.training
    critic.eval()
    assert judge.mean("td") == still


def test_the_exact_judge_measures_before_the_phase_is_judged(prepared: Prepared) -> None:
    phase = SoftQ("q", 0.1, tau=0.2, exact=2, judged_by="exact")
    judge = validator(task(prepared, phase, payoff=Payoff("edit")))
    assert judge.measured == {}
    found = judge.judge()
    assert found == ("credit_kl", judge.measured["credit_kl"], False)
    assert judge.measured.keys() == {"credit_error", "credit_kl"}
