"""The fast path and the specification are one: losses, gradients and all that is watched."""

from dataclasses import replace

import pytest
import torch

from algorithms.tiny import EVERY_WAY, equipped, networks_of
from seqcredit.algorithms import Models, Outcome, Phase, Progress
from seqcredit.algorithms.along import (
    Along,
    Judged,
    Looking,
    Smoothing,
    distillation,
    evaluate,
    soft_residual,
    temporal_difference,
    terminal_error,
)
from seqcredit.credit import losses
from seqcredit.draws import Noise
from seqcredit.models.critic import Critic
from seqcredit.models.lstm import Seq2Seq
from seqcredit.models.policy import Linear, Written
from seqcredit.rewards import Bleu
from seqcredit.types import EOS, Alphabet, Batch, pad, pad_references, token_mask

V = 9
BATCH = Batch(pad([[2, 3], [4], [5, 6, 2, 8, 3]]), pad_references([[[3, 2], [3]], [[4]], [[2, 6, 5, 7, 7, 2], [8, 6]]]))
REWARD = Bleu(scaled=True, dtype=torch.float64)


def networks(copy: int, dueling: bool) -> Models:
    generator = torch.Generator().manual_seed(3)
    made = Models(
        Seq2Seq(V, V, 8, 8, generator=generator).double(),
        Critic(V, 8, 8, generator=generator, dropout=0.2, copy=copy, dueling=dueling).double(),
        Critic(V, 8, 8, generator=generator, copy=copy, dueling=dueling).double().eval(),
        Seq2Seq(V, V, 8, 8, generator=generator).double().eval(),
    )
    for weight in (p for network in (made.judge, made.slow_judge) for p in network.parameters()):
        if not weight.any():  # as a dueling critic begins
            weight.data.normal_(generator=generator)
    return made


def _judges(phase: Phase) -> bool:
    """Whether it has a critic, which may be of several kinds."""
    return "critic" in (*phase.trains, *phase.needs)


def outcome(phase: Phase, copy: int, dueling: bool) -> tuple[Outcome, dict[str, list[torch.Tensor | None]]]:
    models, noise = equipped(phase, networks(copy, dueling)), Noise(torch.Generator().manual_seed(5), 3)
    found = phase.loss(models, BATCH, REWARD, noise, Progress())
    for loss in found.losses.values():
        loss.backward()
    return found, {name: [p.grad for p in model.parameters()] for name, model in networks_of(models).items()}


EVERY_CRITIC = [
    pytest.param(phase, copy, dueling, id=f"{name}, copy {copy}{', dueling' * dueling}")
    for name, phase in EVERY_WAY.items()
    for copy, dueling in ([(0, False), (5, False), (0, True), (5, True)] if _judges(phase) else [(0, False)])
]


@pytest.mark.parametrize(("phase", "copy", "dueling"), EVERY_CRITIC)
def test_both_paths_are_one(phase: Phase, copy: int, dueling: bool) -> None:
    fast, fast_gradients = outcome(phase, copy, dueling)
    plain, plain_gradients = outcome(replace(phase, fused=False), copy, dueling)
    torch.testing.assert_close(fast.losses, plain.losses, rtol=1e-9, atol=1e-12)
    assert fast.sums.keys() == plain.sums.keys()
    for key, (total, count) in plain.sums.items():
        assert float(fast.sums[key][0]) == pytest.approx(float(total), rel=1e-9, abs=1e-12), key
        assert int(fast.sums[key][1]) == int(count), key
    for name in plain.losses:
        for fast_gradient, gradient in zip(fast_gradients[name], plain_gradients[name], strict=True):
            assert gradient is not None
            torch.testing.assert_close(fast_gradient, gradient, rtol=1e-9, atol=1e-12)


def said(requires_grad: bool = True, seed: int = 0, fast: bool = True) -> Along:
    torch.manual_seed(seed)
    features = torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=requires_grad)
    readout = torch.nn.Linear(5, V).double()
    return Along(Linear(features, readout.weight, readout.bias), Alphabet(V), fast)


TOKENS = torch.tensor([[2, 3, 4, 0], [5, 0, 0, 0], [6, 6, 0, 0]])
FREE = torch.zeros(3, 4, dtype=torch.bool)


@pytest.mark.parametrize("fast", [True, False])
def test_half_of_the_square_is_half_of_the_td_loss_and_all_of_the_smoothing(fast: bool) -> None:
    q, targets = said(fast=fast), torch.ones(3, 4, dtype=torch.float64)
    assert q.fused == fast
    td, spread = losses.critic_td(q.table, TOKENS, targets).sum(), losses.smoothing(q.table, TOKENS).sum()
    for share in (1.0, 0.5):
        loss, found = temporal_difference(q, TOKENS, targets, share, Smoothing(0.3, "sum"), FREE)
        torch.testing.assert_close(loss, share * td + 0.3 * spread)
    torch.testing.assert_close(found[0], q.table[0].gather(-1, TOKENS[0].unsqueeze(-1)).squeeze(-1).detach())


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("look_ahead", ["gradient", "constant", "target"])
def test_what_soft_q_looks_ahead_with(look_ahead: str, fast: bool) -> None:
    q, slow, rewards = said(fast=fast), said(False, 1, fast), torch.rand(3, 4, dtype=torch.float64)
    later = {"gradient": None, "constant": q, "target": slow}[look_ahead]
    loss = soft_residual(q, later, TOKENS, rewards, 0.5, 1, FREE)
    constant = None if later is None else later.table.detach()
    expected = losses.soft_q(q.table, TOKENS, rewards, 0.5, constant).sum()
    torch.testing.assert_close(loss, expected)
    linear = q.scores.linear()
    assert linear is not None
    torch.testing.assert_close(
        *(torch.autograd.grad(one, linear.features, retain_graph=True)[0] for one in (loss, expected))
    )


@pytest.mark.parametrize("fast", [True, False])
def test_the_error_of_eos_is_against_what_eos_would_add(fast: bool) -> None:
    q, gains = said(fast=fast), torch.linspace(1, 2, 12, dtype=torch.float64).view(3, 4)
    errors = (q.table[..., EOS] - gains).square()
    torch.testing.assert_close(terminal_error(q, TOKENS, gains), errors[token_mask(TOKENS)].sum())


def test_scores_that_are_written_down_take_the_slow_path() -> None:
    """A model of which nothing is known has no readout to be fused."""
    fast, targets = said(), torch.ones(3, 4, dtype=torch.float64)
    written = Along(Written(fast.table), Alphabet(V), fast=True)
    assert fast.fused
    assert not written.fused
    given = TOKENS, targets, 1.0, Smoothing(0.3, "sum"), FREE
    torch.testing.assert_close(temporal_difference(written, *given), temporal_difference(fast, *given))


LOOKING = Looking(0.3, True, "eos")


def judged(actor: Along, q: Along, target: Along) -> tuple[Judged, Judged]:
    """Of a fixed actor, and of one that learns."""
    rewards = torch.linspace(0, 1, 12, dtype=torch.float64).view(3, 4)
    given = actor, target, TOKENS, rewards, LOOKING, FREE
    return evaluate(*given), evaluate(*given, q)


@pytest.mark.parametrize("slow", range(3))
def test_one_network_without_a_readout_makes_all_take_the_slow_path(slow: int) -> None:
    fast, weights = [said(seed=seed) for seed in range(3)], torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
    mixed = [Along(Written(one.table), one.alphabet) if n == slow else one for n, one in enumerate(fast)]
    losses = [distillation(*some[:2], TOKENS, weights, 0.5, 0.3, FREE) for some in (mixed, fast)]
    torch.testing.assert_close(*losses)
    for found, expected in zip(judged(*mixed), judged(*fast), strict=True):
        real = token_mask(TOKENS)
        torch.testing.assert_close(found.loss, expected.loss)
        torch.testing.assert_close(found.targets[real], expected.targets[real])
        torch.testing.assert_close(found.entropy[real], expected.entropy[real])


@pytest.mark.parametrize("fast", [True, False])
def test_what_comes_back_for_each_state_is_a_constant(fast: bool) -> None:
    networks = [said(seed=seed, fast=fast) for seed in range(3)]
    for found in judged(*networks):
        assert not found.targets.requires_grad
        assert not found.entropy.requires_grad
