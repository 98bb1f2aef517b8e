"""Minimum risk training: its gradient against the whole space of sequences, and what counts once."""

import pytest
import torch
from torch import Tensor

from algorithms.enumerated import BLEU, EARNED, EVERY, ONE, actor, gradient_of, log_likelihood
from algorithms.tiny import BATCH, REWARD, models, noise, run
from seqcredit.algorithms import Models, Mrt, Progress, rollout
from seqcredit.draws import Noise
from seqcredit.models.lstm import Seq2Seq
from seqcredit.rewards.payoff import Payoff
from seqcredit.types import Batch

REFERENCE = int((torch.tensor([3, 1, 0]) == EVERY).all(1).nonzero())


def learned(net: Seq2Seq, rows: list[int], monkeypatch: pytest.MonkeyPatch, **options: object) -> tuple[Tensor, Tensor]:
    """Loss and gradient where these sequences were drawn."""
    monkeypatch.setattr(rollout, "sample", lambda *_: EVERY[rows])
    phase = Mrt("m", 0.1, samples=len(rows), extra_length=1, **options)
    found = phase.loss(Models(net), ONE, BLEU, Noise(torch.Generator(), 1), Progress()).losses["actor"]
    return found.detach(), gradient_of(net, found)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("with_reference", [True, False])
def test_of_the_whole_space_at_sharpness_1_it_is_the_expected_reward(
    with_reference: bool, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = actor()
    expected = -(log_likelihood(net, EVERY).exp() * EARNED).sum()
    options = {"sharpness": 1.0, "with_reference": with_reference, "fused": fused}
    found = learned(net, [*range(len(EVERY))], monkeypatch, **options)
    torch.testing.assert_close(found, (expected.detach(), gradient_of(net, expected)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("with_reference", [True, False])
def test_some_sequences_by_the_papers_gradient(with_reference: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """alpha sum_y Q(y) (R(y) - mean of R) d log pi(y); what was drawn twice counts once."""
    net, drawn, sharpness = actor(), [2, 7, 2, 11, 7], 0.3
    rows = [REFERENCE, 2, 7, 11] if with_reference else [2, 7, 11]
    logp = log_likelihood(net, EVERY[rows])
    share = (sharpness * logp.detach()).softmax(0)
    mean = (share * EARNED[rows]).sum()
    slope = gradient_of(net, -sharpness * (share * (EARNED[rows] - mean) * logp).sum())
    found = learned(net, drawn, monkeypatch, sharpness=sharpness, with_reference=with_reference)
    torch.testing.assert_close(found, (-mean, slope), rtol=1e-9, atol=1e-12)


def test_a_reference_that_was_drawn_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    net = actor()
    once, twice = (learned(net, rows, monkeypatch, sharpness=0.3) for rows in ([2, 7], [2, REFERENCE, 7]))
    torch.testing.assert_close(once, twice, rtol=1e-9, atol=1e-12)


def test_what_is_watched_and_parts_of_a_batch_add_up() -> None:
    nets, phase = models(), Mrt("m", 0.1, samples=3)
    found = run(phase, nets)
    assert int(found.sums["distinct"][1]) == 16
    assert 4 < int(found.sums["distinct"][0]) <= 16
    assert float(found.sums["loss"][0]) / 4 == pytest.approx(found.losses["actor"].item(), rel=1e-6)
    parts = [
        phase.loss(nets, Batch(*(of[rows] for of in BATCH)), REWARD, noise(3, rows.start, 2), Progress())
        for rows in (slice(0, 2), slice(2, 4))
    ]
    torch.testing.assert_close(sum(part.losses["actor"] for part in parts), found.losses["actor"])


def test_its_settings() -> None:
    assert Mrt("m", 0.1, samples=1, with_reference=False).check(Payoff()) == (
        "samples is 1, and there must be 2 sequences: set samples to 2 or more, or with_reference to true."
    )
    assert Mrt("m", 0.1, samples=1).check(Payoff()) is None
    longest = BATCH.references.shape[-1]
    assert Mrt("m", 0.1, longest_sample=2).bound(BATCH) == longest  # the reference fits
    assert Mrt("m", 0.1, longest_sample=2, with_reference=False).bound(BATCH) == 2
