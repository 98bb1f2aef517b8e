"""Scheduled sampling: MLE at rate 0, a walk by hand at every other, and the paper's three schedules."""

import math

import pytest
import torch
from torch import Tensor

from algorithms.tiny import BATCH, REWARD, models, noise, run
from seqcredit.algorithms import Mle, Models, Progress, ScheduledSampling
from seqcredit.draws import draw
from seqcredit.types import Batch, pad_references, token_mask


def gradients(nets: Models, loss: Tensor) -> list[Tensor]:
    return [loss.detach(), *torch.autograd.grad(loss, [*nets.actor.parameters()])]


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("schedule", ["linear", "sigmoid"])
def test_at_rate_0_it_is_mle(schedule: str, fused: bool) -> None:
    """Bit for bit, with dropout: the line at its beginning, the others where nothing is allowed."""
    most = 1.0 if schedule == "linear" else 0.0
    phase = ScheduledSampling("s", 0.1, schedule=schedule, most=most, fused=fused)
    found = []
    for each in (phase, Mle("m", 0.1, fused=fused)):
        nets = models(dropout=0.3)
        found.append(gradients(nets, run(each, nets).losses["actor"]))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def walked(nets: Models, rate: float, words: str) -> tuple[Tensor, int]:
    """The loss of a walk, step by step, with gradients through every state; and how often another word was heard."""
    actor, tokens, draws = nets.actor, BATCH.references[:, 0], noise()
    L = tokens.shape[1]
    dropout = actor.drop(L, draws)
    coins, uniform = draws.uniform(L), draws.uniform(L) if words == "drawn" else None
    memory = actor.encode(BATCH.source)
    state, heard, loss, own = actor.start(memory), None, torch.zeros(()), 0
    rows = torch.arange(len(tokens))
    for t in range(L):
        scores, state = actor.step(memory, state, heard, None if dropout is None else dropout.at(rows, t))
        logp = scores.table().log_softmax(-1)
        loss = loss - logp[rows, tokens[:, t]][token_mask(tokens)[:, t]].sum()
        mine = logp.argmax(-1) if uniform is None else draw(logp.detach().exp(), uniform[:, t])
        right = (coins[:, t] >= rate) | (tokens[:, t] == 0) | (mine == 0)
        heard = torch.where(right, tokens[:, t], mine)
        own += int((heard != tokens[:, t]).sum())
    return loss / len(tokens), own


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("words", ["drawn", "greedy"])
@pytest.mark.parametrize("rate", [0.5, 1.0])
def test_a_walk_by_hand(rate: float, words: str, fused: bool) -> None:
    nets = models(dropout=0.3)
    expected, own = walked(nets, rate, words)
    phase = ScheduledSampling("s", 0.1, schedule="linear", pace=1.0, most=rate, words=words, fused=fused)
    found = phase.loss(nets, BATCH, REWARD, noise(), Progress(update=1))
    torch.testing.assert_close(gradients(nets, found.losses["actor"]), gradients(nets, expected), rtol=1e-4, atol=1e-5)
    assert own > 1
    assert int(found.sums["own_words"][0]) == own
    assert float(found.sums["rate"][0] / found.sums["rate"][1]) == rate


def test_a_second_reference_may_be_longer() -> None:
    """References share a width; what is heard ends with the first one."""
    longer = pad_references([[[3, 4, 5], [2] * 9], [[6, 2]], [[8, 8, 3, 2, 4]], [[5]]])
    phase = ScheduledSampling("s", 0.1, pace=1.0, words="greedy")
    narrow, wide = (
        run(phase, models(dropout=0.0), Batch(BATCH.source, references)) for references in (BATCH.references, longer)
    )
    assert narrow.sums["nll"][1] == wide.sums["nll"][1]
    every = ScheduledSampling("s", 0.1, schedule="linear", pace=1.0, words="greedy")
    ends = [
        every.loss(models(dropout=0.0), Batch(BATCH.source, known), REWARD, noise(), Progress(5))
        for known in (BATCH.references, longer)
    ]
    torch.testing.assert_close(ends[0].losses["actor"], ends[1].losses["actor"])


def test_schedules_are_the_papers() -> None:
    """epsilon = k - c i, k^i, k / (k + exp(i / k)) is the share of right words."""
    for update in (0, 1, 30, 250, 1000):
        line, power, sigmoid = (
            1 - ScheduledSampling("s", 0.1, schedule=schedule, pace=40.0).rate_of(update)
            for schedule in ("linear", "exponential", "sigmoid")
        )
        assert line == pytest.approx(max(0.0, 1 - update / 40))
        assert power == pytest.approx(math.exp(-1 / 40) ** update)
        assert sigmoid == pytest.approx(40 / (40 + math.exp(update / 40)))
    limited = ScheduledSampling("s", 0.1, schedule="linear", pace=40.0, most=0.25)
    assert [limited.rate_of(update) for update in (0, 5, 10, 99)] == [0.0, 0.125, 0.25, 0.25]
    assert ScheduledSampling("s", 0.1, pace=1.0).rate_of(10**6) == 1.0


def test_eos_is_heard_where_it_is_right_alone() -> None:
    """An actor that would always stop hears the right words."""
    nets = models(dropout=0.0)
    with torch.no_grad():
        nets.actor.readout.bias[0] += 1000  # type: ignore[union-attr, operator, index]
    phase = ScheduledSampling("s", 0.1, schedule="linear", pace=1.0)
    found = phase.loss(nets, BATCH, REWARD, noise(), Progress(5))
    assert int(found.sums["own_words"][0]) == 0
    torch.testing.assert_close(found.losses["actor"], run(Mle("m", 0.1), nets).losses["actor"])
