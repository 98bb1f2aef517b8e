import dataclasses
import math
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
import torch

from seqcredit import config
from seqcredit.data.images import Features
from seqcredit.data.prepare import prepare
from seqcredit.data.prepared import Prepared, PrepareOptions
from seqcredit.data.text import Example
from seqcredit.errors import UserError
from seqcredit.models.captioner import Captioner
from seqcredit.rewards import Bleu, ChrF, CiderD, EditDistance, Hamming, LinearBleu, OnlyFinished, OwnReference, RougeL
from seqcredit.experiments.build import SCALED, build_actor, build_critic, build_payoffs, build_reward

RECIPE = config.Recipe("r", (config.Mle("mle", 0.1),), actor=config.Model(8, 6), critic=config.Model(8, 6, 1, "mlp"))


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
    looking = dataclasses.replace(RECIPE, actor=config.Model(8, 6, 2, "none", dropout=0.2))
    actor = build_actor(looking, pictures)
    assert isinstance(actor, Captioner)
    assert (actor.picture.in_features, actor.decoder.num_layers, actor.dropout) == (5, 2, 0.2)
    assert torch.equal(actor.readout.weight, build_actor(looking, pictures).readout.weight)
    with pytest.raises(UserError, match=r"holds pictures.*attention to 'none'"):
        build_actor(RECIPE, pictures)
    with pytest.raises(UserError, match="holds sentences"):
        build_actor(looking, prepared)
    with pytest.raises(UserError, match="critic reads the reference"):
        build_critic(dataclasses.replace(RECIPE, critic=config.Model(attention="none")), pictures)


def test_only_the_own_reference(prepared: Prepared) -> None:
    reward = build_reward(config.Payoff(references="own", unfinished="nothing"), prepared, True)
    assert isinstance(reward, OnlyFinished)
    assert isinstance(reward.reward, OwnReference)
    assert isinstance(reward.reward.reward, Bleu)


@pytest.mark.parametrize(
    ("metric", "kind"),
    [
        ("bleu", Bleu),
        ("linear-bleu", LinearBleu),
        ("edit", EditDistance),
        ("hamming", Hamming),
        ("rouge-l", RougeL),
        ("chrf", ChrF),
        ("cider", CiderD),
    ],
)
def test_every_metric_has_a_reward(prepared: Prepared, metric: str, kind: type) -> None:
    reward = build_reward(config.Payoff(metric=metric, unk_matches=False), prepared, True)
    assert isinstance(reward, kind)
    assert not reward.unk_matches
    late = build_reward(config.Payoff(metric=metric, unfinished="nothing"), prepared, True)
    assert isinstance(late, OnlyFinished)
    assert isinstance(late.reward, kind)
    scores = reward.prefix_scores(torch.tensor([[2, 3, 0]]), torch.tensor([[[2, 3, 0]]]))
    assert scores[0, -1] > scores[0, 0]


def test_two_payoffs(prepared: Prepared) -> None:
    unscaled = build_payoffs(RECIPE, config.Raml("raml", 0.1), prepared)
    assert (unscaled.reward.scaled, unscaled.weight.scaled) == (True, False)
    scaled = build_payoffs(RECIPE, config.Raml("raml", 0.1, weight_scaled=True), prepared)
    assert scaled.weight.scaled


def test_unfinished_prefixes(prepared: Prepared) -> None:
    """A right word of two: e^-1 of what it has without brevity penalty, which comes only with eos; or nothing."""
    tokens, references = torch.tensor([[2, 0]]), torch.tensor([[[2, 3, 0]]])
    penalty = math.exp(-1)
    for unfinished, first in {"score": penalty, "without_brevity": 1.0, "nothing": 0.0}.items():
        reward = build_reward(config.Payoff(unfinished=unfinished), prepared, False)
        scores = reward.prefix_scores(tokens, references)
        torch.testing.assert_close(scores, torch.tensor([[0, first, penalty]]))


@pytest.mark.parametrize(
    ("metric", "scaled", "weight_scaled", "one"),
    [
        ("bleu", True, True, True),
        ("bleu", False, False, True),
        ("bleu", True, False, False),
        ("edit", False, True, False),
        ("chrf", True, False, True),
        ("cider", True, False, True),
    ],
)
def test_equal_payoffs_are_built_once(
    prepared: Prepared, metric: str, scaled: bool, weight_scaled: bool, one: bool
) -> None:
    recipe = dataclasses.replace(RECIPE, payoff=config.Payoff(metric=metric, scaled=scaled))
    payoffs = build_payoffs(recipe, config.Raml("raml", 0.1, weight_scaled=weight_scaled), prepared)
    assert (payoffs.reward is payoffs.weight) == one
    without = build_payoffs(recipe, config.Critic("critic", 0.1), prepared)
    assert without.reward is without.weight


def test_what_scaled_changes(prepared: Prepared) -> None:
    """The metrics of which both pay-offs may differ are those that it changes."""
    tokens, references = torch.tensor([[2, 4, 0]]), torch.tensor([[[2, 3, 4, 5, 0]]])
    for metric in get_args(get_type_hints(config.Payoff)["metric"]):
        two = [build_reward(config.Payoff(metric=metric), prepared, scaled) for scaled in (False, True)]
        scores, times = (reward.prefix_scores(tokens, references) for reward in two)
        assert torch.equal(scores, times) == (metric not in SCALED)
