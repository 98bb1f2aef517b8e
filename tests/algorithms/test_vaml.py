"""RAML and VAML: what they equal, and the weights of their sequences."""

import pytest
import torch

from algorithms.tiny import BATCH, REWARD, models, noise, run
from seqcredit.algorithms import Mle, Raml, Vaml
from seqcredit.credit.losses import importance_weights
from seqcredit.rewards import Bleu, EditDistance


def test_one_sample_makes_raml_mle_and_kappa_zero_makes_vaml_raml() -> None:
    nets = models(dropout=0.0)
    alone = run(Raml("raml", 0.1, samples=1), nets).losses["actor"]
    torch.testing.assert_close(alone, run(Mle("mle", 0.1), nets).losses["actor"])
    several = run(Raml("raml", 0.1, samples=3), nets).losses["actor"]
    assert not torch.equal(several, alone)
    vaml = run(Vaml("vaml", 0.1, samples=3, kappa=0.0), nets).losses["actor"]
    torch.testing.assert_close(vaml, several)


def test_a_temperature_of_its_own_for_the_weights() -> None:
    sharp = Raml("raml", 0.1, samples=4, weight_tau=1e-3)
    assert float(run(sharp).sums["reference_weight"][0]) >= 3.5  # a replacement may be the same word
    flat = Raml("raml", 0.1, samples=4, weight_tau=1e6)
    assert float(run(flat).sums["reference_weight"][0]) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("reward", [REWARD, Bleu(), EditDistance()], ids=["scaled", "not scaled", "edit"])
def test_the_weights_have_the_scale_that_the_phase_says_whatever_the_token_rewards_have(
    reward: Bleu | EditDistance, scaled: bool
) -> None:
    phase = Raml("raml", 0.1, samples=4, tau=0.3, weight_scaled=scaled)
    proposals, weights = phase.weighted_proposals(BATCH, reward, noise(), models().actor)
    plain = Bleu(scaled=scaled) if isinstance(reward, Bleu) else EditDistance(by_length=not scaled)
    references = BATCH.references.repeat_interleave(4, 0)
    final = plain.prefix_scores(proposals.tokens.flatten(0, 1), references)[:, -1].view(4, 4)
    torch.testing.assert_close(weights, importance_weights(final, 0.3))
    torch.testing.assert_close(weights.sum(1), torch.ones(4))


def test_draws_of_q_count_the_same() -> None:
    phase = Vaml("vaml", 0.1, samples=4, proposal="policy")
    assert float(run(phase).sums["reference_weight"][0]) == pytest.approx(1)  # a quarter in each of 4
