import pytest
import torch

import brute
from seqcredit.credit import theorems
from seqcredit.credit.oracle.enumeration import ExactTable, Payoffs, Space, evaluate, score, solve

SPACE = Space(actions=4, bound=4)
REWARD = brute.PythonReward(lambda h, rs: brute.negative_edit_distance(h, rs) - 0.3 * (len(h) == 2))
PAYOFFS = score(SPACE, REWARD, torch.tensor([[1, 3, 0]]))
# Unfinished prefixes have any score, so that eos adds something too.
SHAPED = Payoffs(
    SPACE, torch.randn(len(SPACE), generator=torch.Generator().manual_seed(5), dtype=torch.float64), PAYOFFS.finished
)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("tau", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("claim", theorems.CLAIMS, ids=lambda claim: claim.text)
def test_the_claim_holds(claim: theorems.Claim, tau: float) -> None:
    assert claim.check(PAYOFFS, tau, generator()) < 1e-10
    assert claim.check(SHAPED, tau, generator()) < 1e-9


def wrong_solve(payoffs: Payoffs, tau: float) -> ExactTable:
    """One entry of Q moved by a little."""
    table = solve(payoffs, tau)
    q = table.q.clone()
    q[2, 0] += 1e-3
    q[1, 3] -= 1e-3
    return ExactTable(table.space, q, table.value + 1e-3)


def wrong_evaluate(payoffs: Payoffs, logp: torch.Tensor, tau: float) -> ExactTable:
    """Without the entropy of the last free choice."""
    table = evaluate(payoffs, logp, tau)
    return ExactTable(table.space, table.q + 1e-3 * torch.arange(4), table.value + 1e-3)


USES_SOLVE = ("marginal_match", "terminal_condition", "necessity", "optimality")
USES_EVALUATE = ("optimality", "policy_gradient", "policy_evaluation")


@pytest.mark.parametrize("name", USES_SOLVE)
def test_the_check_notices_a_wrong_q_star(name: str, monkeypatch) -> None:
    monkeypatch.setattr(theorems, "solve", wrong_solve)
    assert getattr(theorems, name)(PAYOFFS, 0.5, generator()) > 1e-4


@pytest.mark.parametrize("name", USES_EVALUATE)
def test_the_check_notices_a_wrong_q_pi(name: str, monkeypatch) -> None:
    monkeypatch.setattr(theorems, "evaluate", wrong_evaluate)
    assert getattr(theorems, name)(PAYOFFS, 0.5, generator()) > 1e-4


@pytest.mark.parametrize(("of_q", "of_value"), [(1e-3, 0.0), (0.0, 1e-3)])
def test_policy_evaluation_looks_at_values_and_at_td_errors(of_q: float, of_value: float, monkeypatch) -> None:
    def wrong(payoffs: Payoffs, logp: torch.Tensor, tau: float) -> ExactTable:
        table = evaluate(payoffs, logp, tau)
        q = table.q.clone()
        q[1, 2] += of_q
        return ExactTable(table.space, q, table.value + of_value)

    monkeypatch.setattr(theorems, "evaluate", wrong)
    assert theorems.policy_evaluation(PAYOFFS, 0.5, generator()) == pytest.approx(1e-3, rel=0.01)


def test_the_checks_notice_a_wrong_soft_value(monkeypatch) -> None:
    monkeypatch.setattr(theorems, "soft_value", lambda q, tau, forced=None: q.amax(-1) + 0.0 * tau)
    assert theorems.soft_bellman(PAYOFFS, 0.5, generator()) > 1e-3
    assert theorems.marginal_match(PAYOFFS, 0.5, generator()) > 1e-3


def test_vaml_needs_the_right_target(monkeypatch) -> None:
    monkeypatch.setattr(theorems, "solve", wrong_solve)
    assert theorems.vaml_objective(PAYOFFS, 0.5, generator()) > 1e-6


@pytest.mark.parametrize("action", [1, 2, 3])
def test_uniqueness_counts_every_entry_that_goes_unnoticed(action: int, monkeypatch) -> None:
    monkeypatch.setattr(theorems, "_conditionals", lambda payoffs, tau: moved_to_match(payoffs, tau, action))
    assert theorems.uniqueness(PAYOFFS, 0.5, generator()) == int((~SPACE.forced).sum())


def moved_to_match(payoffs: Payoffs, tau: float, action: int) -> torch.Tensor:
    """Conditionals that a move of one action leads to: those moves then break nothing."""
    q = solve(payoffs, tau).q.clone()
    q[:, action] += tau / 2
    return (q / tau).log_softmax(-1)


def test_uniqueness_counts_eos_too(monkeypatch) -> None:
    """Were Q of eos too low by tau / 2, the move would mend the terminal condition and nobody would notice it."""

    def too_low(payoffs: Payoffs, tau: float) -> ExactTable:
        table = solve(payoffs, tau)
        q = table.q.clone()
        q[:, 0] -= tau / 2
        return ExactTable(table.space, q, table.value)

    monkeypatch.setattr(theorems, "solve", too_low)
    assert theorems.uniqueness(SHAPED, 0.5, generator()) == len(SPACE)


@pytest.mark.parametrize("name", ["_recovered_q", "_conditionals"])
def test_soft_bellman_looks_at_values_and_at_policies(name: str, monkeypatch) -> None:
    right = getattr(theorems, name)(PAYOFFS, 0.5)
    right_q = theorems._recovered_q(PAYOFFS, 0.5)
    monkeypatch.setattr(theorems, "_recovered_q", lambda *_: right_q)
    assert theorems.soft_bellman(PAYOFFS, 0.5, generator()) < 1e-10
    monkeypatch.setattr(theorems, name, lambda *_: right + 1e-3)
    assert theorems.soft_bellman(PAYOFFS, 0.5, generator()) > 1e-4
