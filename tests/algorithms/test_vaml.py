"""RAML and VAML: what they equal, and the weights of their sequences."""

import pytest
import torch
from torch import Tensor

from algorithms.tiny import BATCH, REWARD, models, noise, run
from seqcredit.algorithms import Mle, Raml, Vaml
from seqcredit.credit.losses import importance_weights, mle
from seqcredit.rewards import Bleu, EditDistance, OnlyFinished


def test_one_sample_makes_raml_mle_and_kappa_zero_makes_vaml_raml() -> None:
    nets = models(dropout=0.0)
    alone = run(Raml("raml", 0.1, samples=1), nets).losses["actor"]
    torch.testing.assert_close(alone, run(Mle("mle", 0.1), nets).losses["actor"])
    several = run(Raml("raml", 0.1, samples=3), nets).losses["actor"]
    assert not torch.equal(several, alone)
    vaml = run(Vaml("vaml", 0.1, samples=3, kappa=0.0), nets).losses["actor"]
    torch.testing.assert_close(vaml, several)


@pytest.mark.parametrize("phase", [Raml("raml", 0.1, samples=1), Vaml("vaml", 0.1, samples=1, kappa=0.0)])
def test_dropout_is_drawn_for_every_token_after_the_proposals(phase: Raml) -> None:
    nets, draws = models(dropout=0.5), noise()
    tokens, actor = phase.propose(BATCH, draws, nets.actor).tokens[:, 0], nets.actor
    logits = actor.score(actor.encode(BATCH.source), tokens, actor.drop(tokens.shape[-1], draws)).table()
    outcome = run(phase, nets)
    torch.testing.assert_close(outcome.losses["actor"], mle(logits.log_softmax(-1), tokens).sum() / 4)
    assert not any(total.requires_grad for total, _ in outcome.sums.values())


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


def test_weights_are_those_of_finished_sequences() -> None:
    """So it makes none of them different if the pay-off comes at the end alone."""
    phase = Raml("raml", 0.1, samples=4, tau=0.3, weight_scaled=True)
    late, at_once = (
        phase.weighted_proposals(BATCH, of, noise(), models().actor)[1] for of in (OnlyFinished(REWARD), REWARD)
    )
    torch.testing.assert_close(late, at_once)
    assert float(late.std()) > 0.05


def test_coins_are_drawn_with_the_probability_kappa() -> None:
    """All of them fall on one side where it is 0 or 1."""
    nets = models(dropout=0.0)

    def loss(kappa: float, draws: bool, fused: bool = True) -> Tensor:
        return run(Vaml("vaml", 0.1, samples=3, kappa=kappa, kappa_draws=draws, fused=fused), nets).losses["actor"]

    for kappa in (0.0, 1.0):
        torch.testing.assert_close(loss(kappa, True), loss(kappa, False))
    torch.testing.assert_close(loss(0.5, False), (loss(0.0, False) + loss(1.0, False)) / 2)
    assert not torch.isclose(loss(0.5, True), loss(0.5, False))
    torch.testing.assert_close(loss(0.5, True), loss(0.5, True, fused=False))  # each token has its own


@pytest.mark.parametrize("kind", [Raml, Vaml])
def test_the_diversity_of_the_sequences_is_watched(kind: type[Raml]) -> None:
    assert int(run(kind("p", 0.1, samples=3)).sums["distinct"][1]) == 4 * 3
