"""From a recipe and a prepared folder to networks, rewards and a task."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

import stored
from seqcredit.algorithms import ActorCritic, Critic, Mle
from seqcredit.data.images import Features
from seqcredit.data.manifest import PrepareOptions
from seqcredit.data.prepare import prepare
from seqcredit.data.prepared import Prepared
from seqcredit.data.text import Example
from seqcredit.errors import UserError
from seqcredit.experiments.build import (
    build_actor,
    build_critic,
    build_metric,
    build_reward,
    load_actor,
    load_critic,
    load_guide,
    task_of,
)
from seqcredit.experiments.recipe import Recipe
from seqcredit.experiments.runs import Run
from seqcredit.models.build import LSTM
from seqcredit.models.captioner import Captioner
from seqcredit.rewards import Bleu, ChrF, CiderD, Custom, OnlyFinished, OwnReference
from seqcredit.rewards.metrics import BLEU, EDIT, corpus
from seqcredit.rewards.payoff import Payoff
from seqcredit.types import Reward, pad_references

RECIPE = Recipe("r", (Mle("mle", 0.1),), actor=LSTM(8, 6), critic=LSTM(8, 6, 1, "mlp"))


def test_weights_are_a_function_of_the_seed(prepared: Prepared) -> None:
    for build in (build_actor, build_critic):
        first, again = (build(RECIPE, prepared).readout.weight for _ in range(2))
        assert torch.equal(first, again)
        other = build(dataclasses.replace(RECIPE, seed=2), prepared).readout.weight
        assert not torch.equal(first, other)
    assert not torch.equal(build_actor(RECIPE, prepared).readout.weight, build_critic(RECIPE, prepared).readout.weight)


def test_sizes_follow_the_recipe_and_the_vocabulary(prepared: Prepared) -> None:
    actor = build_actor(RECIPE, prepared)
    assert actor.readout.weight.shape == (len(prepared.target_vocabulary), 6)
    assert actor.source_embedding.weight.shape == (len(prepared.source_vocabulary), 8)
    assert build_critic(RECIPE, prepared).source_embedding.weight.shape == (len(prepared.target_vocabulary), 8)


@pytest.fixture
def pictures(tmp_path: Path) -> Prepared:
    seen = Features(["a.jpg"], np.zeros((1, 5), np.float16))
    splits = {split: [Example("a.jpg", ["a b", "a c"])] for split in ("train", "valid")}
    prepare(splits, tmp_path / "pictures", PrepareOptions(), features=seen)
    return Prepared.open(tmp_path / "pictures")


def test_pictures_have_an_actor_of_their_own(pictures: Prepared, prepared: Prepared) -> None:
    looking = dataclasses.replace(RECIPE, actor=LSTM(8, 6, 2, "none", dropout=0.2))
    actor = build_actor(looking, pictures)
    assert isinstance(actor, Captioner)
    assert (actor.picture.in_features, actor.decoder.num_layers, actor.dropout) == (5, 2, 0.2)
    assert torch.equal(actor.readout.weight, build_actor(looking, pictures).readout.weight)
    with pytest.raises(UserError, match=r"hold pictures.*attention to 'none'"):
        build_actor(RECIPE, pictures)
    with pytest.raises(UserError, match="hold sentences"):
        build_actor(looking, prepared)
    with pytest.raises(UserError, match="critic reads the reference"):
        build_critic(dataclasses.replace(RECIPE, critic=LSTM(attention="none")), pictures)


def reward(payoff: Payoff, prepared: Prepared, folder: Path | None = None) -> Reward:
    return build_reward(dataclasses.replace(RECIPE, payoff=payoff), prepared, folder)


def test_only_the_own_reference(prepared: Prepared) -> None:
    made = reward(Payoff(references="own", unfinished="nothing"), prepared)
    assert isinstance(made, OnlyFinished)
    assert isinstance(made.reward, OwnReference)
    assert isinstance(made.reward.reward, Bleu)


def test_rewards_know_the_words_and_the_references_of_training(prepared: Prepared, tmp_path: Path) -> None:
    words = prepared.target_vocabulary.words
    spelt = reward(Payoff("chrf"), prepared)
    tokens, references = torch.tensor([[2, 3, 0]]), torch.tensor([[[2, 4, 0]]])
    expected = ChrF(words).prefix_scores(tokens, references)
    assert torch.equal(spelt.prefix_scores(tokens, references), expected)
    weighed = reward(Payoff("cider"), prepared)
    train = prepared.split("train")
    known = [sorted({tuple(reference) for reference in stored.references(train, i)}) for i in range(len(train))]
    expected = CiderD.from_references(pad_references(known)).prefix_scores(tokens, references)
    torch.testing.assert_close(weighed.prefix_scores(tokens, references), expected)
    (tmp_path / "own_build_file.py").write_text("def score(text, references):\n    return len(text.split())\n")
    own = reward(Payoff("own_build_file:score"), prepared, tmp_path)
    assert isinstance(own, Custom)
    assert own.words is words
    assert own.prefix_scores(tokens, references).tolist() == [[0, 1, 2, 2]]


def test_cider_does_not_count_the_references_of_a_huge_corpus(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqcredit.experiments.build.MOST_DOCUMENTS", 100)
    with pytest.raises(UserError, match="CIDEr-D counts the references of at most 100 training examples"):
        reward(Payoff("cider"), prepared)
    assert isinstance(reward(Payoff("bleu"), prepared), Bleu)


def test_a_task_is_what_the_recipe_asks_for(prepared: Prepared) -> None:
    keys = {"seed": 7, "validation_beam": 3, "longest_output": 9, "on_divergence": "record", "metric": "edit"}
    recipe = dataclasses.replace(RECIPE, **keys, payoff=Payoff("edit"))
    task = task_of(recipe, prepared)
    assert (task.phases, task.prepared, task.metric) == (recipe.phase, prepared, EDIT)
    assert task_of(RECIPE, prepared).metric is BLEU
    assert (task.seed, task.validation_beam, task.longest_output, task.on_divergence) == (7, 3, 9, "record")
    assert task.reward == build_reward(recipe, prepared)
    assert task.networks.keys() == {"actor"}
    assert torch.equal(task.networks["actor"].readout.weight, build_actor(recipe, prepared).readout.weight)
    both = task_of(dataclasses.replace(recipe, phase=(ActorCritic("ac", 0.1),)), prepared)
    assert both.networks.keys() == {"actor", "critic"}
    assert torch.equal(both.networks["critic"].readout.weight, build_critic(recipe, prepared).readout.weight)


def test_the_reward_itself_may_be_the_metric(prepared: Prepared) -> None:
    recipe = dataclasses.replace(RECIPE, metric="reward", payoff=Payoff("edit", scaled=False))
    metric, split = build_metric(recipe, prepared), prepared.split("valid")
    assert (metric.name, metric.higher, metric.signature([])) == ("reward", True, "mean reward|edit|scaled:False")
    references = list(split.reference_texts())
    said = [group[0][:-1] for group in references]  # a word is missing everywhere
    expected = sum(-1 / len(group[0]) for group in references) / len(references)
    assert corpus(metric, said, references).value == pytest.approx(expected)
    assert build_metric(recipe, prepared, name="edit") is EDIT


def test_the_critic_reads_the_references_that_the_payoff_counts(prepared: Prepared) -> None:
    for references in ("own", "all"):
        recipe = dataclasses.replace(RECIPE, payoff=Payoff(references=references))
        assert build_critic(recipe, prepared).references == references


def test_networks_of_a_finished_phase(prepared: Prepared, tmp_path: Path) -> None:
    recipe = dataclasses.replace(RECIPE, phase=(Mle("mle", 0.1), Critic("critic", 0.1)))
    run = Run.create(tmp_path / "run", "", recipe, prepared.folder, {})
    for number, phase in enumerate(("mle", "critic"), 1):
        networks = {"actor": build_actor(recipe, prepared), "critic": build_critic(recipe, prepared)}
        run.save_weights(
            phase, {f"{n}.{k}": t * 0 + number for n, m in networks.items() for k, t in m.state_dict().items()}
        )
    for load, other in ((load_actor, "mle"), (load_critic, "mle")):
        last, first = load(run, prepared), load(run, prepared, phase=other)
        assert not last.training
        assert all((weight == 2).all() for weight in last.parameters())
        assert all((weight == 1).all() for weight in first.parameters())


def test_a_critic_that_reads_the_source_is_like_an_actor(prepared: Prepared, pictures: Prepared) -> None:
    reading = dataclasses.replace(RECIPE, critic=LSTM(8, 6, reads="source"))
    critic, actor = build_critic(reading, prepared), build_actor(reading, prepared)
    assert critic.reads == "source"
    assert critic.source_embedding.weight.shape == actor.source_embedding.weight.shape
    assert not torch.equal(critic.readout.weight, actor.readout.weight)
    looking = dataclasses.replace(RECIPE, critic=LSTM(8, 6, attention="none", reads="source"))
    assert isinstance(build_critic(looking, pictures), Captioner)


def test_who_can_guide_a_search(prepared: Prepared, tmp_path: Path) -> None:
    reads, late = LSTM(8, 6, reads="source"), Payoff(unfinished="nothing")
    cases = {
        "good": (reads, late, "critic", None),
        "blind": (LSTM(8, 6), late, "critic", "reads references, which a search has none of: set reads to 'source'"),
        "soon": (reads, Payoff(), "critic", "knows what is still to come, not the whole: set unfinished to 'nothing'"),
        "alone": (reads, late, "actor", "has no critic to guide by: train one as the recipe demo/guide does"),
    }
    for name, (critic, payoff, held, problem) in cases.items():
        recipe = dataclasses.replace(RECIPE, critic=critic, payoff=payoff)
        run = Run.create(tmp_path / name, "", recipe, prepared.folder, prepared.checksums)
        made = build_critic(recipe, prepared)
        run.save_weights("mle", {f"{held}.{key}": weight + 1 for key, weight in made.state_dict().items()})
        if problem is None:
            assert torch.equal(load_guide(run, prepared).readout.weight, made.readout.weight + 1)
        else:
            with pytest.raises(UserError, match=problem):
                load_guide(run, prepared)
    run.about["vocabularies"] = {"target": "another"}
    with pytest.raises(UserError, match="was trained with another target vocabulary: it cannot guide here"):
        load_guide(run, prepared)
