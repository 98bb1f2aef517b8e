"""MIXER: MLE at one end, REINFORCE at the other, and both in between."""

import pytest
import torch

from algorithms.enumerated import EARNED, EVERY, actor, average, gradient_of, log_likelihood
from algorithms.tiny import BATCH, drawn, models, run
from seqcredit.algorithms import Mixer, Mle, Models, Phase, Progress, Reinforce
from seqcredit.types import lengths

ALL = 99


def learned(phase: Phase, progress: Progress | None = None) -> list[torch.Tensor]:
    nets = models(dropout=0.0)
    from algorithms.tiny import REWARD, noise

    loss = phase.loss(nets, BATCH, REWARD, noise(), progress or Progress()).losses["actor"]
    return [loss.detach(), *torch.autograd.grad(loss, [*nets.actor.parameters()])]


@pytest.mark.parametrize("fused", [True, False])
def test_without_samples_it_is_mle(fused: bool) -> None:
    mixer = Mixer("m", 0.1, delta_start=0, delta=0, baseline="greedy", samples=2, fused=fused)
    torch.testing.assert_close(learned(mixer), learned(Mle("m", 0.1, fused=fused)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("baseline", ["greedy", "others", "mean"])
def test_with_all_of_the_sequence_it_is_reinforce(baseline: str) -> None:
    same = {"baseline": baseline, "samples": 2}
    found = zip(learned(Mixer("m", 0.1, delta_start=ALL, **same)), learned(Reinforce("r", 0.1, **same)), strict=True)
    assert all(torch.equal(one, other) for one, other in found)


@pytest.mark.parametrize("baseline", ["none", "greedy"])
def test_in_between_on_average(baseline: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The likelihood of the reference's first word, and the expected reward of what follows it."""
    net = actor()
    mine = EVERY[EVERY[:, 0] == 3]  # the reference is 3 1 eos
    logp, first = log_likelihood(net, mine), log_likelihood(net, EVERY).exp()[EVERY[:, 0] == 3].sum().log()
    mass = (logp - first).exp()
    expected = gradient_of(net, -first - (mass * EARNED[EVERY[:, 0] == 3]).sum())
    phase = Mixer("m", 0.1, delta_start=2, baseline=baseline, extra_length=1, longest_sample=3)
    # The space is bounded by 3 tokens, and MIXER's samples by 4: eos at the third is forced here, and chosen there.
    monkeypatch.setattr(Mixer, "bound", lambda *_: 3)
    found = average(phase, Models(net), monkeypatch, sequences=mine, mass=mass.detach())
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_samples_begin_as_their_references() -> None:
    nets = models(dropout=0.0)
    known = BATCH.references[:, 0]
    phase = Mixer("m", 0.1, delta_start=2, samples=2)
    given = phase.given(BATCH, Progress(), 0)
    assert given.kept.sum(1).tolist() == [max(0, int(n) + 1 - 2) for n in lengths(known) for _ in range(2)]
    assert given.kept.sum(1).tolist() == [2, 2, 1, 1, 4, 4, 0, 0]
    assert torch.equal(given.tokens, known.repeat_interleave(2, 0))
    assert phase.bound(BATCH) == 15
    assert Mixer("m", 0.1, longest_sample=3).bound(BATCH) == known.shape[1] + 1
    whole = Mixer("m", 0.1, delta_start=ALL).given(BATCH, Progress(), 0)
    assert not whole.kept.any()
    assert drawn(nets, 15).shape[0] == 4
    assert run(phase, nets).losses["actor"].isfinite()


def test_what_is_drawn_grows_by_updates() -> None:
    phase = Mixer("m", 0.1, delta_start=1, delta=3, delta_every=10)
    assert [phase.drawn(Progress(update)) for update in (0, 9, 10, 19, 20, 35)] == [1, 1, 4, 4, 7, 10]
    assert phase.learns_references
    assert not phase.guarded
