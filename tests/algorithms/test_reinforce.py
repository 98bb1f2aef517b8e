"""REINFORCE and SCST: the gradient of the expected reward, over the whole space of sequences."""

import pytest
import torch

from algorithms.enumerated import (
    BLEU,
    EARNED,
    EVERY,
    ONE,
    SPACE,
    Nothing,
    actor,
    average,
    free,
    gradient_of,
    log_likelihood,
    logp_of_all,
)
from algorithms.tiny import BATCH, REWARD, drawn, models, noise, run
from seqcredit.algorithms import Models, Progress, Reinforce, Scst, rollout
from seqcredit.credit.values import at_bound, chosen, entropy
from seqcredit.draws import Noise
from seqcredit.rewards import OnlyFinished
from seqcredit.rewards.payoff import Payoff
from seqcredit.search import greedy
from seqcredit.types import Batch, token_mask

EVERY_WAY = [
    ("none", 1, "end"),
    ("none", 1, "to_go"),
    ("greedy", 1, "end"),
    ("greedy", 1, "to_go"),
    ("mean", 1, "end"),
    ("mean", 1, "to_go"),
    ("none", 2, "end"),
    ("others", 2, "end"),
    ("others", 2, "to_go"),
]


@pytest.mark.parametrize(
    ("baseline", "samples", "credit", "fused"),
    [(*way, fused) for fused in (True, False) for way in EVERY_WAY[: 9 if fused else 6]],
)
def test_on_average_it_climbs_the_expected_reward(
    baseline: str, samples: int, credit: str, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = actor()
    expected = -gradient_of(net, (log_likelihood(net, EVERY).exp() * EARNED).sum())
    phase = Reinforce("r", 0.1, baseline=baseline, samples=samples, credit=credit, fused=fused, extra_length=1)
    assert phase.longest_for(2) == SPACE.bound
    found = average(phase, Models(net), monkeypatch, samples, progress=Progress(earned=0.37))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_entropy_counts_in_every_state_that_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    net = actor()
    uncertain = entropy(logp_of_all(net, EVERY)).masked_fill(~free(EVERY), 0).sum(1)
    mass = log_likelihood(net, EVERY).detach().exp()
    phase = Reinforce("r", 0.1, baseline="none", entropy_weight=0.3, extra_length=1)
    found = average(phase, Models(net), monkeypatch, reward=Nothing())
    torch.testing.assert_close(found, -0.3 * gradient_of(net, (mass * uncertain).sum()), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("credit", ["end", "to_go"])
def test_scst_is_reinforce_with_the_greedy_output_as_the_baseline(credit: str) -> None:
    found = []
    for kind in (Scst, Reinforce):
        nets = models(dropout=0.3)
        loss = run(kind("s", 0.1, samples=2, baseline="greedy", credit=credit, mle_weight=0.2), nets).losses["actor"]
        found.append([loss, *torch.autograd.grad(loss, [*nets.actor.parameters()])])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_a_moving_mean_is_taken_off_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is earned goes to the log, whose mean of late comes back with the progress."""
    net, tokens = actor(), EVERY[[5]]
    monkeypatch.setattr(rollout, "sample", lambda *_: tokens)
    scores = BLEU.prefix_scores(tokens, ONE.references)
    for credit, numbers in (("end", scores[:, -1:]), ("to_go", scores[:, -1:] - scores[:, :-1])):
        phase = Reinforce("r", 0.1, baseline="mean", credit=credit, extra_length=1)
        found = phase.loss(Models(net), ONE, BLEU, Noise(torch.Generator(), 1), Progress(earned=0.25))
        real = token_mask(tokens) if credit == "to_go" else torch.ones_like(numbers, dtype=torch.bool)
        assert float(found.sums["earned"][0]) == pytest.approx(float(numbers[real].sum()))
        assert int(found.sums["earned"][1]) == int(found.sums["advantage"][1]) == int(real.sum())
        assert float(found.sums["advantage"][0]) == pytest.approx(float((numbers - 0.25)[real].sum()))
        logp = chosen(logp_of_all(net, tokens), tokens).masked_fill(~free(tokens), 0)
        expected = -((numbers - 0.25) * logp).sum()
        torch.testing.assert_close(found.losses["actor"], expected)


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
