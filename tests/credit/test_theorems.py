import pytest
import torch

import brute
from seqcredit.credit import theorems
from seqcredit.credit.oracle.enumeration import Payoffs, Space, Table, evaluate, score, solve

SPACE = Space(actions=4, bound=4)
REWARD = brute.PythonReward(lambda h, rs: brute.negative_edit_distance(h, rs) - 0.3 * (len(h) == 2))
PAYOFFS = score(SPACE, REWARD, torch.tensor([[1, 3, 0]]))


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("tau", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("claim", theorems.CLAIMS, ids=lambda claim: claim.text)
def test_the_claim_holds(claim: theorems.Claim, tau: float) -> None:
    assert claim.check(PAYOFFS, tau, generator()) < 1e-10


def wrong_solve(payoffs: Payoffs, tau: float) -> Table:
    """One entry of Q moved by a little."""
    table = solve(payoffs, tau)
    q = table.q.clone()
    q[2, 0] += 1e-3
    q[1, 3] -= 1e-3
    return Table(table.space, q, table.value + 1e-3)


def wrong_evaluate(payoffs: Payoffs, logp: torch.Tensor, tau: float) -> Table:
    """Without the entropy of the last free choice."""
    table = evaluate(payoffs, logp, tau)
    return Table(table.space, table.q + 1e-3 * torch.arange(4), table.value + 1e-3)


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


def test_the_checks_notice_a_wrong_soft_value(monkeypatch) -> None:
    monkeypatch.setattr(theorems, "soft_value", lambda q, tau, forced=None: q.amax(-1) + 0.0 * tau)
    assert theorems.soft_bellman(PAYOFFS, 0.5, generator()) > 1e-3
    assert theorems.marginal_match(PAYOFFS, 0.5, generator()) > 1e-3


def test_vaml_needs_the_right_target(monkeypatch) -> None:
    monkeypatch.setattr(theorems, "solve", wrong_solve)
    assert theorems.vaml_objective(PAYOFFS, 0.5, generator()) > 1e-6


def test_uniqueness_counts_every_entry_that_goes_unnoticed(monkeypatch) -> None:
    monkeypatch.setattr(theorems, "_conditionals", lambda payoffs, tau: moved_to_match(payoffs, tau))
    assert theorems.uniqueness(PAYOFFS, 0.5, generator()) == int((~SPACE.forced).sum())


def moved_to_match(payoffs: Payoffs, tau: float) -> torch.Tensor:
    """Conditionals that a move of action 2 leads to: those moves then break nothing."""
    q = solve(payoffs, tau).q.clone()
    q[:, 2] += tau / 2
    return (q / tau).log_softmax(-1)
