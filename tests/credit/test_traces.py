"""Targets that look further than one step, against the whole space of sequences."""

import pytest
import torch
from torch import Tensor

from seqcredit.credit.oracle import enumeration
from seqcredit.credit.oracle.enumeration import Payoffs, Space
from seqcredit.credit.values import chosen, expected_value, one_step_targets, trace_targets
from seqcredit.types import EOS, token_mask

SPACE, TAU = Space(3, 4), 0.3
TOKENS = SPACE.sequences()
REAL = token_mask(TOKENS)


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


N = len(SPACE)
PAYOFFS = Payoffs(SPACE, random(N, seed=1), random(N, seed=2))
LOGP = random(N, 3, seed=3).log_softmax(-1)
WRONG = random(N, 3, seed=4)  # a target network that knows nothing
WRONG[SPACE.forced] = WRONG[SPACE.forced][:, :1]
REWARDS = (chosen(PAYOFFS.rewards()[SPACE.nodes(TOKENS)], TOKENS)).masked_fill(~REAL, 0)


def look_ahead(q: Tensor) -> Tensor:
    """The Bellman operator of the policy on a table of the whole space."""
    values, later = expected_value(q, LOGP, TAU, SPACE.forced), PAYOFFS.rewards()
    for level, nodes in enumerate(SPACE.levels[:-1]):
        later[nodes, 1:] += values[SPACE.children(level)]
    return later


def mean_targets(trace: float, q: Tensor, steps: int = 0) -> Tensor:
    """For every state and action, the mean of the targets over all sequences that take it there."""
    nodes = SPACE.nodes(TOKENS)
    values = expected_value(q, LOGP, TAU, SPACE.forced)[nodes]
    one_step = one_step_targets(REWARDS, values, TOKENS)
    targets = trace_targets(one_step, chosen(q[nodes], TOKENS), TOKENS, trace, steps)
    weights = enumeration.sequence_logp(SPACE, LOGP).exp().unsqueeze(-1).expand_as(targets)
    place = (nodes * 3 + TOKENS)[REAL]
    sums, mass = (
        torch.zeros(N * 3, dtype=torch.float64).index_add(0, place, of[REAL]) for of in (weights * targets, weights)
    )
    return (sums / mass).reshape(N, 3)


def test_at_1_the_mean_is_the_value_of_the_policy_however_wrong_the_target_network_is() -> None:
    found, exact = mean_targets(1.0, WRONG), enumeration.evaluate(PAYOFFS, LOGP, TAU).q
    taken = ~(SPACE.forced.unsqueeze(-1) & (torch.arange(3) != EOS))
    torch.testing.assert_close(found[taken], exact[taken], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("trace", [0.0, 0.3, 0.9])
def test_below_1_it_is_the_mixture_of_all_numbers_of_steps(trace: float) -> None:
    """(1 - lambda) sum_n lambda^(n - 1) T^n Q, where T^n no longer changes once n is the bound."""
    q, mixture, weight = WRONG, torch.zeros(N, 3, dtype=torch.float64), 1 - trace
    for step in range(1, SPACE.bound + 1):
        q = look_ahead(q)
        mixture = mixture + (weight if step < SPACE.bound else trace ** (SPACE.bound - 1)) * q
        weight = weight * trace
    taken = ~(SPACE.forced.unsqueeze(-1) & (torch.arange(3) != EOS))
    torch.testing.assert_close(mean_targets(trace, WRONG)[taken], mixture[taken], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 9])
def test_n_steps_apply_the_operator_n_times(steps: int) -> None:
    q = WRONG
    for _ in range(steps):
        q = look_ahead(q)
    taken = ~(SPACE.forced.unsqueeze(-1) & (torch.arange(3) != EOS))
    torch.testing.assert_close(mean_targets(1.0, WRONG, steps)[taken], q[taken], rtol=1e-12, atol=1e-12)


def test_where_q_is_right_nothing_is_left_to_chance_but_the_last_rewards() -> None:
    """The targets of a sequence are Q^pi itself, with any trace: the control variate takes the luck out."""
    exact = enumeration.evaluate(PAYOFFS, LOGP, TAU).q
    nodes = SPACE.nodes(TOKENS)
    one_step = one_step_targets(REWARDS, expected_value(exact, LOGP, TAU, SPACE.forced)[nodes], TOKENS)
    known = chosen(exact[nodes], TOKENS)
    for trace in (0.0, 0.5, 1.0):
        found = trace_targets(one_step, known, TOKENS, trace)
        torch.testing.assert_close(found, known.masked_fill(~REAL, 0), rtol=1e-12, atol=1e-12)


def test_by_hand_and_with_another_eos() -> None:
    tokens = torch.tensor([[4, 3, 0, 0]])
    targets, q = torch.tensor([[1.0, 2.0, 4.0, 9.0]]), torch.tensor([[0.0, 1.5, 3.0, 7.0]])
    expected = torch.tensor([[1 + 0.5 * 0.5 + 0.25 * 1, 2 + 0.5 * 1, 4, 0]])
    torch.testing.assert_close(trace_targets(targets, q, tokens, 0.5), expected)
    torch.testing.assert_close(trace_targets(targets, q, torch.tensor([[4, 0, 3, 8]]), 0.5, eos=3), expected)
