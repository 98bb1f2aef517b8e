"""Professor forcing: losses by hand, sentence by sentence, gradients by finite differences, and the gates."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from algorithms.tiny import BATCH, REWARD, drawn, equipped, models, noise, run
from seqcredit.algorithms import Mle, Models, Outcome, ProfessorForcing, Progress, rollout
from seqcredit.algorithms.professor_forcing import Discriminator
from seqcredit.errors import UserError
from seqcredit.models.wrapped import Wrapped
from seqcredit.types import lengths

OPEN = Progress(5, 10, last={"accuracy": 0.9})
SETTINGS: dict[str, Any] = {"extra_length": 2, "hidden": 6}


def double(phase: ProfessorForcing) -> Models:
    nets = models(dropout=0.0)._replace(critic=None, target=None, start=None)
    nets.actor.double()
    nets = equipped(phase, nets)
    for weight in nets.own["discriminator"].parameters():
        weight.data *= 8  # so that it has an opinion
    return nets


def lose(phase: ProfessorForcing, nets: Models, progress: Progress = OPEN) -> Outcome:
    return phase.loss(nets, BATCH, REWARD, noise(), progress)


def one_by_one(nets: Models, tokens: Tensor) -> Tensor:
    """What the discriminator says of each sequence alone, without padding."""
    found = []
    for b, words in enumerate(lengths(tokens).tolist()):
        said = nets.actor.score(nets.actor.encode(BATCH.source[[b]]), tokens[[b], : words + 1])
        found.append(nets.own["discriminator"](said.features, torch.tensor([words + 1])))
    return torch.cat(found)


@pytest.mark.parametrize("both_ways", [False, True])
def test_losses_by_hand(both_ways: bool) -> None:
    phase = ProfessorForcing("pf", 0.1, weight=0.7, mle_weight=0.4, both_ways=both_ways, **SETTINGS)
    nets = double(phase)
    found = lose(phase, nets)
    own, known = one_by_one(nets, drawn(nets, 5 + 2)), one_by_one(nets, BATCH.references[:, 0])
    likelihood = run(Mle("mle", 0.1), nets).losses["actor"]
    fooled = softplus(-own).sum() + (softplus(known).sum() if both_ways else 0.0)
    torch.testing.assert_close(found.losses["actor"], 0.4 * likelihood + 0.7 * fooled / 4)
    judge = [*nets.own["discriminator"].parameters()]
    told = (softplus(-known) + softplus(own)).sum() / 4
    torch.testing.assert_close(found.losses["discriminator"], told)
    torch.testing.assert_close(
        *(torch.autograd.grad(loss, judge, retain_graph=True) for loss in (found.losses["discriminator"], told))
    )
    right = ((known > 0).double().mean() + (own < 0).double().mean()) / 2
    assert float(found.sums["accuracy"][0] / found.sums["accuracy"][1]) == pytest.approx(float(right))
    assert not any(weight.grad is not None for weight in nets.actor.parameters())
    found.losses["discriminator"].backward()
    assert all(weight.grad is None for weight in nets.actor.parameters())


def test_gradients_are_finite_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the actor's loss, along sequences that stand still."""
    phase = ProfessorForcing("pf", 0.1, both_ways=True, **SETTINGS)
    nets = double(phase)
    tokens = drawn(nets, 5 + 2)
    monkeypatch.setattr(rollout, "sample", lambda *_: tokens)
    weights = [*nets.actor.parameters()]
    gradient = torch.autograd.grad(lose(phase, nets).losses["actor"], weights)
    generator, step = torch.Generator().manual_seed(1), 1e-6
    moves = [torch.randn(w.shape, generator=generator, dtype=torch.float64) for w in weights]
    ends = []
    for sign in (1, -1):
        moved = nets._replace(actor=copy.deepcopy(nets.actor))
        for weight, move in zip(moved.actor.parameters(), moves, strict=True):
            weight.data += sign * step * move
        ends.append(float(lose(phase, moved).losses["actor"].detach()))
    slope = sum(float((g * move).sum()) for g, move in zip(gradient, moves, strict=True))
    assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5)


@pytest.mark.parametrize(
    ("accuracy", "fools", "learns"),
    [(None, False, True), (0.5, False, True), (0.75, False, True), (0.76, True, True), (0.99, True, False)],
)
def test_the_gates(accuracy: float | None, fools: bool, learns: bool) -> None:
    phase = ProfessorForcing("pf", 0.1, **SETTINGS)
    nets = double(phase)
    progress = Progress(3, 10, last={} if accuracy is None else {"accuracy": accuracy})
    found = lose(phase, nets, progress)
    assert ("discriminator" in found.losses) == learns
    mle = run(Mle("mle", 0.1), nets).losses["actor"]
    assert torch.equal(found.losses["actor"], mle) != fools
    if not fools:  # then it is MLE, to the last gradient
        weights = [*nets.actor.parameters()]
        pairs = zip(*(torch.autograd.grad(loss, weights) for loss in (found.losses["actor"], mle)), strict=True)
        assert all(torch.allclose(mine, theirs, rtol=1e-12, atol=1e-14) for mine, theirs in pairs)


def test_without_weight_it_is_mle() -> None:
    phase = ProfessorForcing("pf", 0.1, weight=0.0, **SETTINGS)
    nets = double(phase)
    torch.testing.assert_close(lose(phase, nets).losses["actor"], run(Mle("mle", 0.1), nets).losses["actor"])


def test_its_settings() -> None:
    phase = ProfessorForcing("pf", 0.1, discriminator_learning_rate=0.4)
    assert [phase.rate(name) for name in phase.trains] == [0.1, 0.4]
    assert ProfessorForcing("pf", 0.1).rate("discriminator") == 0.1
    first, again, other = (Discriminator(3, 4, seed).layers[0].weight for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    with pytest.raises(UserError, match="looks at the actor's features, and this model shows none"):
        phase.brings(Wrapped(torch.nn.Identity(), 4), 1)
