import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import brute
from seqcredit.credit.values import (
    at_bound,
    chosen,
    divergence,
    entropy,
    expected_value,
    one_step_targets,
    only_actions,
    returns_to_go,
    soft_policy,
    soft_value,
    sums_ahead,
    token_rewards,
)

TAUS = (0.0, 0.05, 0.4, 1.0, 7.0)
FORCED = torch.tensor([[False, True, False], [True, False, True]])


def random(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


energies = st.lists(st.floats(-5, 5), min_size=1, max_size=6)


def test_token_rewards_are_what_each_token_adds() -> None:
    scores = torch.tensor([[0.5, 1.0, 0.25, 0.25]], dtype=torch.float64)
    assert token_rewards(scores).tolist() == [[0.5, -0.75, 0.0]]


@given(energies, st.sampled_from(TAUS))
def test_soft_value_is_the_sum_of_the_paper(q: list[float], tau: float) -> None:
    value = soft_value(torch.tensor(q, dtype=torch.float64), tau)
    assert float(value) == pytest.approx(brute.soft_max(q, tau), abs=1e-12)


@given(energies, st.sampled_from(TAUS))
def test_soft_policy_is_the_boltzmann_distribution(q: list[float], tau: float) -> None:
    policy = soft_policy(torch.tensor(q, dtype=torch.float64), tau)
    assert policy.tolist() == pytest.approx(brute.boltzmann(q, tau), abs=1e-12)


def test_tau_zero_is_greedy_and_shares_ties() -> None:
    q = torch.tensor([[1.0, 3.0, 3.0], [2.0, -1.0, 0.0]])
    assert soft_value(q, 0.0).tolist() == [3, 2]
    assert soft_policy(q, 0.0).tolist() == [[0, 0.5, 0.5], [1, 0, 0]]


def test_tau_zero_is_the_limit() -> None:
    q = random(4, 6)
    torch.testing.assert_close(soft_value(q, 1e-4), soft_value(q, 0.0), atol=1e-3, rtol=0)
    torch.testing.assert_close(soft_policy(q, 1e-4), soft_policy(q, 0.0))


@pytest.mark.parametrize("tau", TAUS)
def test_gradient_of_the_soft_value_is_the_soft_policy(tau: float) -> None:
    q = random(3, 5).requires_grad_()
    (gradient,) = torch.autograd.grad(soft_value(q, tau).sum(), q)
    torch.testing.assert_close(gradient, soft_policy(q.detach(), tau))


@pytest.mark.parametrize("tau", TAUS)
def test_at_the_bound_only_eos_counts(tau: float) -> None:
    q, logp = random(2, 3, 4), random(2, 3, 4, seed=1).log_softmax(-1)
    for free, bound in (
        (soft_value(q, tau), soft_value(q, tau, FORCED)),
        (expected_value(q, logp, tau), expected_value(q, logp, tau, FORCED)),
    ):
        assert torch.equal(bound[FORCED], q[..., 0][FORCED])
        assert torch.equal(bound[~FORCED], free[~FORCED])
    policy = soft_policy(q, tau, FORCED)
    assert policy[FORCED].tolist() == [[1, 0, 0, 0]] * 3
    assert torch.equal(policy[~FORCED], soft_policy(q, tau)[~FORCED])
    assert torch.equal(entropy(logp, FORCED), entropy(logp).masked_fill(FORCED, 0))


@given(energies)
def test_entropy(logits: list[float]) -> None:
    p = brute.boltzmann(logits, 1.0)
    value = entropy(torch.tensor(p, dtype=torch.float64).log())
    assert float(value) == pytest.approx(brute.entropy(p), abs=1e-12)


def test_divergence() -> None:
    """KL between two policies, one of which never says a word that the other may say; nothing moves the other."""
    logits, other = (
        torch.tensor([[0.3, -1.0, 2.0], [1.0, 0.0, -math.inf]]),
        torch.tensor([[1.0, 0.5, -0.2], [0.0, 2.0, 1.0]]),
    )
    logits, other = logits.double().requires_grad_(), other.double().requires_grad_()
    found = divergence(logits.log_softmax(-1), other.log_softmax(-1))
    for row in range(2):
        p, q = (brute.boltzmann(each[row].tolist(), 1.0) for each in (logits, other))
        expected = sum(a * (math.log(a) - math.log(b)) for a, b in zip(p, q, strict=True) if a > 0)
        assert float(found[row].detach()) == pytest.approx(expected, abs=1e-12)
    found.sum().backward()
    assert other.grad is None
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_zero_log_zero_is_zero_with_its_gradient() -> None:
    logp = torch.tensor([[0.0, -math.inf], [math.log(0.5), math.log(0.5)]], dtype=torch.float64, requires_grad=True)
    value = entropy(logp)
    assert value.tolist() == pytest.approx([0, math.log(2)])
    (gradient,) = torch.autograd.grad(value.sum(), logp)
    assert gradient.isfinite().all()
    q = random(2, 2)
    expected = expected_value(q, logp, 0.3)
    assert expected.tolist() == pytest.approx([float(q[0, 0]), float(q[1].mean()) + 0.3 * math.log(2)])
    assert torch.autograd.grad(expected.sum(), logp)[0].isfinite().all()


@given(energies, st.sampled_from(TAUS), st.integers(0, 100))
def test_expected_value_is_the_sum_of_the_paper(q: list[float], tau: float, seed: int) -> None:
    logp = random(len(q), seed=seed).log_softmax(-1)
    by_hand = sum(math.exp(lp) * (x - tau * lp) for x, lp in zip(q, logp.tolist(), strict=True))
    value = expected_value(torch.tensor(q, dtype=torch.float64), logp, tau)
    assert float(value) == pytest.approx(by_hand, abs=1e-12)


@pytest.mark.parametrize("tau", TAUS[1:])
def test_the_soft_policy_attains_the_soft_value_and_none_does_better(tau: float) -> None:
    q = random(5, 7)
    best = soft_value(q, tau)
    torch.testing.assert_close(expected_value(q, soft_policy(q, tau).log(), tau), best)
    assert (expected_value(q, random(5, 7, seed=3).log_softmax(-1), tau) < best).all()


def test_one_step_targets_by_hand_with_nothing_after_eos() -> None:
    tokens = torch.tensor([[4, 0, 0], [0, 0, 0], [3, 2, 0]])
    rewards = torch.tensor([[1.0, 2.0, 0.0], [3.0, 0.0, 0.0], [4.0, 5.0, 6.0]])
    values = torch.tensor([[10.0, 20.0, 30.0], [40.0, 50.0, 60.0], [70.0, 80.0, 90.0]])
    assert one_step_targets(rewards, values, tokens).tolist() == [[21, 2, 0], [3, 0, 0], [84, 95, 6]]


def test_nothing_follows_what_is_cut_off() -> None:
    targets = one_step_targets(torch.tensor([[1.0, 2.0]]), torch.tensor([[10.0, 20.0]]), torch.tensor([[4, 3]]))
    assert targets.tolist() == [[21, 2]]


def test_values_after_eos_reach_no_target() -> None:
    tokens, rewards = torch.tensor([[4, 0, 7]]), random(1, 3)
    values = random(1, 3, seed=1).requires_grad_()
    targets = one_step_targets(rewards, values, tokens)
    assert targets.detach()[0, 2] == 0
    (gradient,) = torch.autograd.grad(targets.sum(), values)
    assert gradient.tolist() == [[0, 1, 0]]


def test_chosen() -> None:
    table = torch.arange(12.0).reshape(1, 3, 4)
    assert chosen(table, torch.tensor([[3, 0, 2]])).tolist() == [[3, 4, 10]]


def test_the_bound_counts_eos() -> None:
    tokens = torch.zeros(2, 4, dtype=torch.long)
    assert at_bound(tokens, 3).tolist() == [[False, False, True, True]] * 2
    assert at_bound(tokens, torch.tensor([1, 4])).tolist() == [[True] * 4, [False, False, False, True]]


def test_sums_ahead() -> None:
    numbers = torch.tensor([[1.0, 2, 4, 8], [3, 0, 0, 5]], requires_grad=True)
    assert sums_ahead(numbers, 0).tolist() == [[0, 0, 0, 0]] * 2
    assert sums_ahead(numbers, 1).tolist() == [[2, 4, 8, 0], [0, 0, 5, 0]]
    assert sums_ahead(numbers, 2).tolist() == [[6, 12, 8, 0], [0, 5, 5, 0]]
    assert sums_ahead(numbers, 99).tolist() == [[14, 12, 8, 0], [5, 5, 5, 0]]
    sums_ahead(numbers, 2)[0, 1].backward()
    assert numbers.grad is not None
    assert numbers.grad.tolist() == [[0, 0, 1, 1], [0, 0, 0, 0]]


def test_returns_to_go_by_hand() -> None:
    """Rewards from each token on, and tau times the entropy of later states up to the last; none after eos."""
    tokens = torch.tensor([[4, 3, 0, 0], [0, 0, 0, 0]])
    rewards = torch.tensor([[1.0, 2.0, 4.0, 0.0], [3.0, 0.0, 0.0, 0.0]])
    uncertainty = torch.tensor([[10.0, 20.0, 40.0, 80.0], [10.0, 20.0, 40.0, 80.0]])
    expected = torch.tensor([[7.0 + 6, 6 + 4, 4, 0], [3, 0, 0, 0]])
    torch.testing.assert_close(returns_to_go(rewards, uncertainty, tokens, 0.1), expected)
    other = torch.tensor([[4, 0, 3, 9], [3, 0, 0, 0]])
    torch.testing.assert_close(returns_to_go(rewards, uncertainty, other, 0.1, eos=3), expected)


# Other alphabets: the ids renumbered, eos moved to 5; and ids among them that are no actions, whatever stands there.

IDS, SIZE = torch.tensor([5, 0, 3, 1, 2, 4]), 6  # the new id of each old one
TOKENS = torch.tensor([[4, 2, 0], [3, 0, 0]])  # old ids
SOME, WIDE = torch.tensor([5, 7, 1, 2, 9, 4]), 10
ACTIONS = torch.zeros(WIDE, dtype=torch.bool).index_fill(0, SOME, True)
JUNK = 1e3
STATES = {
    "soft_value": lambda q, logp, tau, forced, eos, actions: soft_value(q, tau, forced, eos, actions),
    "expected_value": lambda q, logp, tau, forced, eos, actions: expected_value(q, logp, tau, forced, eos),
    "entropy": lambda q, logp, tau, forced, eos, actions: entropy(logp, forced),
}
states = pytest.mark.parametrize("name", STATES)
taus = pytest.mark.parametrize("tau", TAUS)
bounds = pytest.mark.parametrize("forced", [None, FORCED], ids=["free", "bound"])


def renumber(table: Tensor, ids: Tensor = IDS, size: int = SIZE, junk: float = 0.0) -> Tensor:
    """Columns under their new ids, and junk in the others."""
    return table.new_full((*table.shape[:-1], size), junk).index_copy(-1, ids, table)


@states
@taus
@bounds
def test_values_do_not_depend_on_the_numbers_of_words(name: str, tau: float, forced: Tensor | None) -> None:
    q, logp = random(2, 3, 6), random(2, 3, 6, seed=1).log_softmax(-1)
    expected = STATES[name](q, logp, tau, forced, 0, None)
    found = STATES[name](renumber(q), renumber(logp), tau, forced, 5, None)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


@states
@taus
@bounds
def test_values_and_their_gradients_know_actions_alone(name: str, tau: float, forced: Tensor | None) -> None:
    """As if the other columns were not there; their gradient is 0."""
    q, logits = random(2, 3, 6).requires_grad_(), random(2, 3, 6, seed=1).requires_grad_()
    wide = [renumber(table.detach(), SOME, WIDE, JUNK).requires_grad_() for table in (q, logits)]
    expected = STATES[name](q, logits.log_softmax(-1), tau, forced, 0, None)
    found = STATES[name](wide[0], only_actions(wide[1], ACTIONS).log_softmax(-1), tau, forced, 5, ACTIONS)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    weights = random(2, 3, seed=2)
    small, large = (
        torch.autograd.grad((value * weights).sum(), tables, allow_unused=True)
        for value, tables in ((expected, (q, logits)), (found, wide))
    )
    for mine, theirs in zip(large, small, strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            assert mine[..., ~ACTIONS].eq(0).all()
            torch.testing.assert_close(mine, renumber(theirs, SOME, WIDE), atol=1e-12, rtol=0)
    assert any(gradient is not None for gradient in small)


@taus
@bounds
def test_the_soft_policy_in_another_alphabet(tau: float, forced: Tensor | None) -> None:
    q = random(2, 3, 6)
    expected = soft_policy(q, tau, forced)
    torch.testing.assert_close(soft_policy(renumber(q), tau, forced, 5), renumber(expected), atol=1e-12, rtol=0)
    found = soft_policy(renumber(q, SOME, WIDE, JUNK), tau, forced, 5, ACTIONS)
    assert found[..., ~ACTIONS].eq(0).all()
    torch.testing.assert_close(found, renumber(expected, SOME, WIDE), atol=1e-12, rtol=0)
    ties = torch.tensor([[JUNK, 3.0, 3.0, 1.0]])
    assert soft_policy(ties, 0.0, actions=torch.tensor([False, True, True, True])).tolist() == [[0, 0.5, 0.5, 0]]


def test_only_actions() -> None:
    scores = random(2, 4)
    assert only_actions(scores, None) is scores
    masked = only_actions(scores, torch.tensor([True, False, True, False]))
    assert torch.equal(masked[:, [0, 2]], scores[:, [0, 2]])
    assert masked[:, [1, 3]].eq(-torch.inf).all()


def test_targets_and_returns_end_with_another_eos() -> None:
    rewards, values, renamed = random(2, 3), random(2, 3, seed=1), IDS[TOKENS]
    assert (renamed == 0).sum() == 0  # the old eos names a word that is not here
    for ids in (renamed, torch.where(TOKENS == 4, 0, renamed)):  # or is
        assert torch.equal(one_step_targets(rewards, values, ids, 5), one_step_targets(rewards, values, TOKENS))
        expected = returns_to_go(rewards, values, TOKENS, 0.3)
        assert torch.equal(returns_to_go(rewards, values, ids, 0.3, 5), expected)
