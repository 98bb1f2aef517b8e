import dataclasses

import pytest
import torch

from seqcredit import config
from seqcredit.data.prepared import Prepared
from seqcredit.rewards import Bleu, ChrF, CiderD, EditDistance, Hamming, RougeL
from seqcredit.training.build import build_actor, build_critic, build_payoffs, build_reward

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


@pytest.mark.parametrize(
    ("metric", "kind"),
    [
        ("bleu", Bleu),
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
    scores = reward.prefix_scores(torch.tensor([[2, 3, 0]]), torch.tensor([[[2, 3, 0]]]))
    assert scores[0, -1] > scores[0, 0]


def test_two_payoffs(prepared: Prepared) -> None:
    unscaled = build_payoffs(RECIPE, config.Raml("raml", 0.1), prepared)
    assert (unscaled.reward.scaled, unscaled.weight.scaled) == (True, False)
    scaled = build_payoffs(RECIPE, config.Raml("raml", 0.1, weight_scaled=True), prepared)
    assert scaled.weight.scaled
