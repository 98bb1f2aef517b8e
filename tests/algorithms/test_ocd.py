"""Optimal completion distillation: targets by hand, and what it learns from."""

import pytest
import torch

from algorithms.tiny import BATCH, V, models, noise, run
from seqcredit.algorithms import Ocd, Progress
from seqcredit.credit.oracle.completions import best_completions
from seqcredit.rewards import EditDistance
from seqcredit.rewards.payoff import Payoff
from seqcredit.search import sample
from seqcredit.types import Batch, token_mask

EDIT = EditDistance()


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("tau", [0.0, 0.4])
@pytest.mark.parametrize("fused", [True, False])
def test_the_loss_by_hand(tau: float, fused: bool, samples: int) -> None:
    nets, bound = models(dropout=0.0), BATCH.references.shape[-1] - 1 + 2
    batch = BATCH.repeated(samples)
    memory = nets.actor.encode(batch.source)
    tokens = sample(nets.actor, memory, bound, noise().repeated(samples).uniform(bound))
    logp = nets.actor.score(memory, tokens).table().log_softmax(-1)
    q = best_completions(tokens, batch.references[:, 0], V)
    expected = torch.zeros(())
    for b, t in token_mask(tokens).nonzero().tolist():
        best = (q[b, t] == q[b, t].max()).float()
        target = best / best.sum() if tau == 0 else (q[b, t] / tau).softmax(-1)
        if t == bound - 1:
            target = torch.eye(V)[0]
        expected = expected - (target * logp[b, t]).sum()
    phase = Ocd("o", 0.1, tau=tau, extra_length=2, weight=0.5, fused=fused, samples=samples)
    found = run(phase, nets, reward=EDIT)
    torch.testing.assert_close(found.losses["actor"], 0.5 * expected / 4 / samples)
    assert not found.sums["loss"][0].requires_grad
    torch.testing.assert_close(found.sums["loss"][0], expected.detach())
    assert int(found.sums["loss"][1]) == token_mask(tokens).sum()


def test_likelihood_may_stand_beside_it() -> None:
    nets = models(dropout=0.0)
    plain, beside = (run(Ocd("o", 0.1, mle_weight=weight), nets, reward=EDIT) for weight in (0.0, 0.3))
    torch.testing.assert_close(beside.losses["actor"], plain.losses["actor"] + 0.3 * beside.sums["nll"][0] / 4)
    assert "nll" not in plain.sums
    assert {"reward", "length_ratio", "loss"} <= plain.sums.keys() < beside.sums.keys()


def test_parts_of_a_batch_add_up() -> None:
    """As several processes share it."""
    nets, phase = models(), Ocd("o", 0.1, samples=2)
    parts = [
        phase.loss(nets, Batch(*(of[rows] for of in BATCH)), EDIT, noise(3, rows.start, 2), Progress())
        for rows in (slice(0, 2), slice(2, 4))
    ]
    whole = run(phase, nets, reward=EDIT).losses["actor"]
    torch.testing.assert_close(sum(part.losses["actor"] for part in parts), whole)


def test_its_settings() -> None:
    phase = Ocd("o", 0.1)
    assert phase.check(Payoff(metric="edit")) is None
    said = "its credit is that of the edit distance, and the pay-off is bleu: set metric to 'edit'."
    assert phase.check(Payoff()) == said
    assert phase.validates_start
    assert not Ocd("o", 0.1, keeps_start=False).validates_start
    assert (phase.longest_for(7), Ocd("o", 0.1, longest_sample=9).longest_for(7)) == (17, 9)
    assert phase.guarded
