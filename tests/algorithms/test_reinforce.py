"""REINFORCE and SCST: the gradient of the expected reward, over the whole space of sequences."""

from itertools import product

import pytest
import torch
from torch import Tensor

from algorithms.tiny import BATCH, REWARD, drawn, models, noise, run
from seqcredit.algorithms import Models, Progress, Reinforce, rollout
from seqcredit.credit.oracle.enumeration import Space
from seqcredit.credit.values import at_bound, chosen
from seqcredit.draws import Noise
from seqcredit.models.lstm import Seq2Seq
from seqcredit.rewards import Bleu, OnlyFinished
from seqcredit.rewards.payoff import Payoff
from seqcredit.search import greedy
from seqcredit.types import Batch, pad, pad_references, token_mask

SPACE = Space(4, 3)
EVERY = SPACE.sequences()
ONE = Batch(pad([[1, 2]]), pad_references([[[3, 1]]]))
BLEU = Bleu(scaled=True, dtype=torch.float64)


def actor() -> Seq2Seq:
    made = Seq2Seq(4, 4, 6, 6, dropout=0.0, generator=torch.Generator().manual_seed(0)).double()
    for weight in made.parameters():
        weight.data *= 6  # far from uniform
    return made


def log_likelihood(net: Seq2Seq, tokens: Tensor) -> Tensor:
    """Of sequences, in which eos at the bound is no choice."""
    memory = net.encode(ONE.source.expand(len(tokens), -1))
    logp = chosen(net.score(memory, tokens).table().log_softmax(-1), tokens)
    return logp.masked_fill(~token_mask(tokens) | at_bound(tokens, SPACE.bound), 0).sum(-1)


def gradient_of(net: Seq2Seq, number: Tensor) -> Tensor:
    return torch.cat([part.flatten() for part in torch.autograd.grad(number, [*net.parameters()])])


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("baseline", "samples"), [("none", 1), ("greedy", 1), ("none", 2), ("others", 2)])
def test_on_average_it_climbs_the_expected_reward(
    baseline: str, samples: int, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = actor()
    logp = log_likelihood(net, EVERY)
    mass = logp.detach().exp()
    assert float(mass.sum()) == pytest.approx(1)
    earned = BLEU.prefix_scores(EVERY, ONE.references.expand(len(EVERY), -1, -1))[:, -1]
    expected = -gradient_of(net, (logp.exp() * earned).sum())
    phase = Reinforce("r", 0.1, baseline=baseline, samples=samples, fused=fused, extra_length=1)
    assert phase.longest_for(2) == SPACE.bound
    found = torch.zeros_like(expected)
    for rows in product(range(len(EVERY)), repeat=samples):
        monkeypatch.setattr(rollout, "sample", lambda *_, rows=rows: EVERY[list(rows)])
        loss = phase.loss(Models(net), ONE, BLEU, Noise(torch.Generator(), 1), Progress()).losses["actor"]
        found += mass[list(rows)].prod() * gradient_of(net, loss)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_baselines_by_hand() -> None:
    nets = models(dropout=0.0)
    bound = BATCH.references.shape[-1] - 1 + 10
    earned = REWARD.prefix_scores(drawn(nets, bound), BATCH.references)[:, -1]
    best = greedy(nets.actor, nets.actor.encode(BATCH.source), bound)
    base = REWARD.prefix_scores(best, BATCH.references)[:, -1]
    for baseline, expected in (("none", earned), ("greedy", earned - base)):
        found = run(Reinforce("r", 0.1, baseline=baseline), nets)  # type: ignore[arg-type]
        torch.testing.assert_close(found.sums["advantage"][0], expected.sum())
    others = run(Reinforce("r", 0.1, baseline="others", samples=3), nets)
    assert float(others.sums["advantage"][0]) == pytest.approx(0, abs=1e-5)
    assert int(others.sums["advantage"][1]) == 12


@pytest.mark.parametrize("baseline", ["none", "greedy"])
def test_the_loss_by_hand_with_a_reward_that_comes_with_eos(baseline: str) -> None:
    nets, late, bound = models(dropout=0.0), OnlyFinished(REWARD), BATCH.references.shape[-1] - 1 + 10
    tokens, memory = drawn(nets, bound), nets.actor.encode(BATCH.source)
    logp = chosen(nets.actor.score(memory, tokens).table().log_softmax(-1), tokens)
    logp = logp.masked_fill(~token_mask(tokens) | at_bound(tokens, bound), 0).sum(1)
    earned, base = (
        REWARD.prefix_scores(said, BATCH.references)[:, -1] for said in (tokens, greedy(nets.actor, memory, bound))
    )
    found = run(Reinforce("r", 0.1, baseline=baseline), nets, reward=late)  # type: ignore[arg-type]
    advantage = earned - base if baseline == "greedy" else earned
    torch.testing.assert_close(found.losses["actor"], -(advantage * logp).sum() / 4)
    torch.testing.assert_close(found.sums["advantage"][0], advantage.sum())


def test_the_greedy_output_drops_nothing_and_dropout_comes_back() -> None:
    """With dropout the baseline is what the actor says when it is used."""
    nets = models(dropout=0.5)
    bound = BATCH.references.shape[-1] - 1 + 10
    earned = REWARD.prefix_scores(drawn(nets, bound), BATCH.references)[:, -1]
    found = run(Reinforce("r", 0.1), nets).sums["advantage"][0]
    assert nets.actor.training
    nets.actor.eval()
    best = greedy(nets.actor, nets.actor.encode(BATCH.source), bound)
    torch.testing.assert_close(found, (earned - REWARD.prefix_scores(best, BATCH.references)[:, -1]).sum())


def test_likelihood_may_stand_beside_it() -> None:
    nets = models(dropout=0.0)
    plain, beside = (run(Reinforce("r", 0.1, mle_weight=weight), nets) for weight in (0.0, 0.3))
    nll = beside.sums["nll"][0]
    torch.testing.assert_close(beside.losses["actor"], plain.losses["actor"] + 0.3 * nll / 4)
    assert "nll" not in plain.sums
    assert {"reward", "length_ratio", "advantage"} <= plain.sums.keys() < beside.sums.keys()


def test_parts_of_a_batch_add_up() -> None:
    """As several processes share it."""
    nets, phase = models(), Reinforce("r", 0.1, samples=2, baseline="others")
    whole = run(phase, nets).losses["actor"]
    parts = [
        phase.loss(nets, Batch(*(of[rows] for of in BATCH)), REWARD, noise(3, rows.start, 2), Progress())
        for rows in (slice(0, 2), slice(2, 4))
    ]
    torch.testing.assert_close(sum(part.losses["actor"] for part in parts), whole)


def test_its_settings() -> None:
    phase = Reinforce("r", 0.1, baseline="others")
    assert phase.check(Payoff()) == (
        "baseline is 'others', of which there are none with 1 sample: set samples to 2 or more."
    )
    assert Reinforce("r", 0.1, baseline="others", samples=2).check(Payoff()) is None
    assert Reinforce("r", 0.1).check(Payoff()) is None
    assert phase.validates_start
    assert not Reinforce("r", 0.1, keeps_start=False).validates_start
    assert (phase.longest_for(7), Reinforce("r", 0.1, longest_sample=9).longest_for(7)) == (17, 9)
    assert phase.guarded
