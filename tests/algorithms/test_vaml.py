"""RAML and VAML: what they equal, and the weights of their sequences."""

import pytest
import torch
from torch import Tensor

from algorithms.tiny import BATCH, REWARD, V, models, noise, run
from seqcredit.algorithms import ExactVaml, Mle, Progress, Raml, Vaml
from seqcredit.credit.losses import importance_weights, mle
from seqcredit.credit.oracle.completions import best_completions
from seqcredit.credit.oracle.enumeration import Space, score
from seqcredit.errors import UserError
from seqcredit.rewards import Bleu, EditDistance, OnlyFinished
from seqcredit.rewards.payoff import Payoff
from seqcredit.types import Batch, token_mask


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


EDIT = Payoff(metric="edit", references="own")


def test_drawn_from_p_r_it_is_the_exact_raml() -> None:
    """On average - log pi of all sequences, each as often as its pay-off says, by enumeration."""
    nets, few = models(dropout=0.0), Batch(*(of[[1, 3]] for of in BATCH))
    space, expected = Space(V, 6), 0.0
    for row in range(2):
        weights = (score(space, EditDistance(), few.references[row]).finished / 0.3).softmax(0)
        likely = (weights > 1e-7).nonzero().squeeze(1)
        tokens = space.sequences()[likely]
        memory = nets.actor.encode(few.source[row : row + 1].expand(len(tokens), -1))
        logp = nets.actor.score(memory, tokens).table().log_softmax(-1).detach()
        expected += float((weights[likely] * mle(logp, tokens).sum(-1)).sum())
    phase = Raml("raml", 0.1, proposal="exact", tau=0.3, samples=6001, bound=6)
    found = phase.loss(nets, few, EditDistance(), noise(rows=2), Progress()).losses["actor"]
    assert float(found.detach()) * 4 == pytest.approx(expected, rel=0.01)


def test_the_reference_of_exact_draws_counts_as_often_as_it_is_drawn() -> None:
    phase = Raml("raml", 0.1, proposal="exact", tau=0.05, samples=4)  # so cold that it is drawn each time
    proposals, weights = phase.weighted_proposals(BATCH, REWARD, noise(), models().actor)
    assert torch.equal(weights, torch.tensor([[0, 1 / 3, 1 / 3, 1 / 3]] * 4))
    padded = proposals.tokens[..., : BATCH.references.shape[-1]]
    assert torch.equal(padded, BATCH.references.expand(-1, 4, -1))


@pytest.mark.parametrize("kappa", [0.3, 1.0])
def test_vaml_with_the_exact_q_by_hand(kappa: float) -> None:
    nets, phase = models(dropout=0.0), ExactVaml("vaml", 0.1, tau=0.3, kappa=kappa, samples=3, bound=6)
    proposals, weights = phase.weighted_proposals(BATCH, EditDistance(), noise(), nets.actor)
    expected = torch.zeros(())
    for row in range(4):
        tokens, reference = proposals.tokens[row], BATCH.references[row].expand(3, -1)
        logp = nets.actor.score(nets.actor.encode(BATCH.source[row : row + 1].expand(3, -1)), tokens).table()
        logp, q = logp.log_softmax(-1), best_completions(tokens, reference, V)
        for m, t in token_mask(tokens).nonzero().tolist():
            target = (q[m, t] / 0.3).softmax(-1) if t < 5 else torch.eye(V)[0]
            token = kappa * (target * logp[m, t]).sum() + (1 - kappa) * logp[m, t, tokens[m, t]]
            expected = expected - weights[row, m] * token
    torch.testing.assert_close(run(phase, nets, reward=EditDistance()).losses["actor"], expected / 4)


def test_where_p_r_and_the_exact_q_are_known() -> None:
    exact = Raml("raml", 0.1, proposal="exact")
    assert exact.check(EDIT) is None
    assert Raml("raml", 0.1).check(Payoff()) is None
    said = exact.check(Payoff(metric="edit"))
    assert said is not None
    assert said.endswith("set the pay-off's metric to 'edit', references to 'own', and scaled to true.")
    assert exact.check(Payoff(metric="edit", references="own", scaled=False)) == said
    assert exact.check(Payoff(references="own")) == said
    vaml = ExactVaml("vaml", 0.1)
    assert vaml.check(Payoff(metric="edit")) is None
    assert vaml.check(Payoff()) == (
        "its credit is that of the edit distance, and the pay-off is bleu: set metric to 'edit'."
    )
    assert ExactVaml("vaml", 0.1, proposal="exact").check(Payoff(metric="edit")) == said
    assert vaml.needs == ()
    with pytest.raises(UserError, match="samples beside the reference: set samples to 2 or more"):
        Raml("raml", 0.1, proposal="exact", samples=1)
    with pytest.raises(UserError, match="it has no Q to draw from; choose one of ngram, corrupt, exact"):
        ExactVaml("vaml", 0.1, proposal="policy")
