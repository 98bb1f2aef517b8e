"""The pieces of the fused losses against the specification, in float64."""

import pytest
import torch
from torch import Tensor

from seqcredit.credit import losses, pieces
from seqcredit.credit.tables import Table, Trainable
from seqcredit.credit.values import soft_policy, soft_value


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("tau", [0.0, 0.3, 1.0, 4.0])
def test_the_soft_policy_and_the_soft_value_of_a_chunk(tau: float) -> None:
    scores = random(5, 7, seed=0)
    policy, value = pieces.boltzmann(scores.clone(), tau, torch.empty(6, 7, dtype=torch.float64))
    torch.testing.assert_close(policy, soft_policy(scores, tau))
    torch.testing.assert_close(value, soft_value(scores, tau))


def test_numbers_are_split_by_where_eos_is_forced() -> None:
    numbers, forced = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([False, True, False])
    free, bound = pieces.split(numbers, forced)
    assert (free.tolist(), bound.tolist()) == ([1, 0, 3], [0, 2, 0])
    free, bound = pieces.split(numbers, None)
    assert (free.tolist(), bound.tolist()) == ([1, 2, 3], [0, 0, 0])


def test_numbers_of_tokens_stand_at_the_states_that_they_lead_to() -> None:
    table = Table(torch.zeros(4, 2), torch.zeros(3, 2))
    moved = pieces.after(torch.tensor([5.0, 6.0, 7.0]), torch.tensor([1, 3, -1]), table)
    assert moved.tolist() == [0, 5, 0, 6]  # the last token ends its sequence


@pytest.mark.parametrize("actions", [None, torch.tensor([True, True, False, True, False, True])])
def test_the_spread_is_the_smoothing_of_the_specification(actions: Tensor | None) -> None:
    """Its value and its gradients, each state with a strength of its own."""
    features, weight, bias = (random(*shape, seed=n).requires_grad_() for n, shape in enumerate(((4, 3), (6, 3), (6,))))
    strength = torch.tensor([0.5, 0.0, 1.0, 2.0], dtype=torch.float64)
    learner = Trainable(Table(features, weight, bias, actions=actions))
    with learner:
        found = pieces.spread(learner, strength)
    q = features @ weight.T + bias
    tokens = torch.full((4, 1), 1)
    expected = (strength * losses.smoothing(q.unsqueeze(1), tokens, actions=actions).squeeze(1)).sum()
    torch.testing.assert_close(found, expected.detach())
    for mine, theirs in zip(learner.gradient, torch.autograd.grad(expected, (features, weight, bias)), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_the_pressure_of_the_entropy() -> None:
    logp = torch.tensor([[-1.0, -2.0, -2.0]])
    assert pieces.pressure(logp, 0.3, "exact", None).item() == pytest.approx(0.3)
    assert pieces.pressure(logp, 0.3, "normalised", None).item() == pytest.approx(0.1)
    some = torch.tensor([True, False, False])
    assert pieces.pressure(logp, 0.3, "normalised", some).item() == pytest.approx(0.3)
