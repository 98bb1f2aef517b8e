"""The paper's claims as checks on one space, reward and temperature: each returns its largest error.

Every check has two sides that are computed in different ways; where a loss or a value function of this package states
the claim, one side is made with it.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from seqcredit.credit.losses import actor, critic_td, td_targets, vaml
from seqcredit.credit.oracle.enumeration import Payoffs, Space, evaluate, log_payoff, sequence_logp, solve
from seqcredit.credit.values import soft_value
from seqcredit.types import EOS

Check = Callable[[Payoffs, float, Generator], float]


def marginal_match(payoffs: Payoffs, tau: float, _: Generator) -> float:
    """prod_t P_Q(y_t | y_<t) = P_R(y) for every sequence, in logarithms.

    Proposition 1, sufficiency; eq. (marginal_match).
    """
    table = solve(payoffs, tau)
    return _gap(sequence_logp(payoffs.space, _log_soft_policy(table.q, tau)), log_payoff(payoffs, tau))


def terminal_condition(payoffs: Payoffs, tau: float, _: Generator) -> float:
    """Q(prefix, eos) is what eos itself adds, for every prefix.

    Eq. (terminal_condition).
    """
    return _gap(solve(payoffs, tau).q[:, EOS], payoffs.finished - payoffs.unfinished)


def necessity(payoffs: Payoffs, tau: float, _: Generator) -> float:
    """Q recovered from P_R by the ratio of the proof is the Q of the recursion, at every prefix and action.

    Proposition 1, necessity.
    """
    open_nodes = ~payoffs.space.forced
    return _gap(_recovered_q(payoffs, tau)[open_nodes], solve(payoffs, tau).q[open_nodes])


def uniqueness(payoffs: Payoffs, tau: float, _: Generator) -> float:
    """Number of entries of Q that can be moved by tau / 2 with neither condition broken.

    Proposition 1, "only if". An entry of eos breaks the terminal condition. Each other one moves the probability of the
    sequence that ends at its prefix, or of the one that takes the entry and then ends; the factors around it stay.
    """
    q, space = solve(payoffs, tau).q, payoffs.space
    exact, delta = _conditionals(payoffs, tau), tau / 2
    unnoticed = 0
    for action in range(space.actions):
        moved = q.clone()
        moved[:, action] += delta
        if action == EOS:
            unnoticed += int(((moved[:, EOS] - (payoffs.finished - payoffs.unfinished)).abs() < delta / 2).sum())
        else:
            change = (_log_soft_policy(moved, tau) - exact).abs()
            noticed = torch.maximum(change[:, EOS], change[:, action])
            unnoticed += int((noticed[~space.forced] < delta / tau / 4).sum())
    return float(unnoticed)


def soft_bellman(payoffs: Payoffs, tau: float, generator: Generator) -> float:
    """Value iteration on the Markov decision process, from random values, reaches the Q and P_Q that P_R implies.

    Corollary 1; eq. (soft_V), (soft_Q) and the optimal policy.
    """
    space, rewards = payoffs.space, payoffs.rewards()
    value = torch.randn(len(space), generator=generator, dtype=rewards.dtype)
    for _ in range(space.bound + 1):
        q = rewards.clone()
        for level, nodes in enumerate(space.levels[:-1]):
            q[nodes, 1:] += value[space.children(level)]
        value = soft_value(q, tau, space.forced)
    sides = (q, _recovered_q(payoffs, tau)), (_log_soft_policy(q, tau), _conditionals(payoffs, tau))
    return max(_gap(found[~space.forced], expected[~space.forced]) for found, expected in sides)


def optimality(payoffs: Payoffs, tau: float, generator: Generator) -> float:
    """The regularised return of any policy is V*(empty) - tau KL(pi || P_R): P_Q is optimal, and RAML its mirror.

    Section 3.2, first point.
    """
    logp = _random_policy(payoffs, generator)
    sequence = sequence_logp(payoffs.space, logp)
    kl = (sequence.exp() * (sequence - log_payoff(payoffs, tau))).sum()
    return _gap(evaluate(payoffs, logp, tau).value[0], solve(payoffs, tau).value[0] - tau * kl)


def vaml_objective(payoffs: Payoffs, tau: float, generator: Generator) -> float:
    """E over P_Q of the token-level cross entropies = sequence-level cross entropy of P_R, for any model.

    Eq. (vaml_objective) = eq. (raml_objective); appendix A.2.
    """
    space, tokens = payoffs.space, payoffs.space.sequences()
    logp, q = _random_policy(payoffs, generator), solve(payoffs, tau).q
    nodes = space.nodes(tokens)
    weights = log_payoff(payoffs, tau).exp()
    by_token = vaml(logp[nodes], q[nodes], tokens, weights, tau, 1.0, space.forced[nodes]).sum()
    return _gap(by_token, -(weights * sequence_logp(space, logp)).sum())


def policy_gradient(payoffs: Payoffs, tau: float, generator: Generator) -> float:
    """The actor's gradient under exact Q^pi = finite differences of the regularised return, in random directions.

    Eq. (erac_actor).
    """
    space, tokens = payoffs.space, payoffs.space.sequences()
    nodes, forced = space.nodes(tokens), space.forced
    logits = torch.randn(len(space), space.actions, generator=generator, dtype=torch.float64, requires_grad=True)
    logp = _policy(logits, space)
    q = evaluate(payoffs, logp.detach(), tau).q
    weights = sequence_logp(space, logp).exp().detach()
    loss = (weights.unsqueeze(-1) * actor(logp[nodes], q[nodes], tokens, tau, forced=forced[nodes])).sum()
    (gradient,) = torch.autograd.grad(-loss, logits)

    def regularised_return(step: float, direction: Tensor) -> Tensor:
        sequence = sequence_logp(space, _policy(logits.detach() + step * direction, space))
        return (sequence.exp() * (payoffs.finished - payoffs.unfinished[0] - tau * sequence)).sum()

    worst = 0.0
    for _ in range(4):
        direction = torch.randn(logits.shape, generator=generator, dtype=torch.float64)
        worst = max(worst, _gap((gradient * direction).sum(), _derivative(regularised_return, direction)))
    return worst


def policy_evaluation(payoffs: Payoffs, tau: float, generator: Generator) -> float:
    """V^pi by recursion = the mean of what follows over all sequences; Q^pi is a fixed point: its TD errors are 0.

    Eq. (fixed_policy_iteration), (erac_critic) and (erac_critic_td).
    """
    space, tokens = payoffs.space, payoffs.space.sequences()
    nodes, forced = space.nodes(tokens), space.forced
    logp = _random_policy(payoffs, generator)
    table, sequence = evaluate(payoffs, logp, tau), sequence_logp(space, logp)
    reach = _subtree_sums(space, sequence.exp())
    mean = _subtree_sums(space, sequence.exp() * (payoffs.finished - tau * sequence)) / reach
    by_definition = mean - payoffs.unfinished + tau * reach.log()
    rewards = payoffs.rewards()[nodes].gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    targets = td_targets(table.q[nodes], logp[nodes], tokens, rewards, tau, forced=forced[nodes])
    td_error = float(critic_td(table.q[nodes], tokens, targets).max()) ** 0.5
    return max(_gap(table.value, by_definition), td_error)


class Claim(NamedTuple):
    """A claim, where the paper makes it, and its check."""

    text: str
    paper: str
    check: Check


CLAIMS = (
    Claim("marginal match, every sequence", "Proposition 1", marginal_match),
    Claim("terminal condition, every prefix", "Proposition 1", terminal_condition),
    Claim("necessity: Q recovered from P_R", "Proposition 1", necessity),
    Claim("necessity: entries free to move", "Proposition 1", uniqueness),
    Claim("soft Bellman equivalence", "Corollary 1", soft_bellman),
    Claim("return = V* - tau KL(pi || P_R)", "section 3.2", optimality),
    Claim("VAML = sequence cross entropy", "appendix A.2", vaml_objective),
    Claim("policy gradient = finite differences", "eq. erac_actor", policy_gradient),
    Claim("policy evaluation = fixed point", "eq. fixed_policy_iteration", policy_evaluation),
)


def _gap(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def _policy(logits: Float[Tensor, "N V"], space: Space) -> Float[Tensor, "N V"]:
    """log-probabilities, with a certain eos at the bound."""
    logp = torch.log_softmax(logits, -1)
    return torch.where(space.forced.unsqueeze(-1), torch.zeros_like(logp), logp)


def _random_policy(payoffs: Payoffs, generator: Generator) -> Float[Tensor, "N V"]:
    shape = (len(payoffs.space), payoffs.space.actions)
    return _policy(torch.randn(shape, generator=generator, dtype=torch.float64), payoffs.space)


def _log_soft_policy(q: Float[Tensor, "N V"], tau: float) -> Float[Tensor, "N V"]:
    """log P_Q = (Q - V) / tau. Eq. (vaml_target)."""
    return (q - soft_value(q, tau).unsqueeze(-1)) / tau


def _subtree_sums(space: Space, of_sequences: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """Sum over all sequences that begin with each prefix."""
    total = of_sequences.clone()
    for level, nodes in reversed(list(enumerate(space.levels[:-1]))):
        total[nodes] += total[space.children(level)].sum(-1)
    return total


def _conditionals(payoffs: Payoffs, tau: float) -> Float[Tensor, "N V"]:
    """log P_R(w | prefix), from the probabilities of whole sequences alone; at the bound only eos has one."""
    space, joint = payoffs.space, log_payoff(payoffs, tau)
    subtree = joint.clone()
    for level, nodes in reversed(list(enumerate(space.levels[:-1]))):
        subtree[nodes] = torch.cat([joint[nodes, None], subtree[space.children(level)]], -1).logsumexp(-1)
    logp = torch.zeros(len(space), space.actions, dtype=joint.dtype)
    logp[:, EOS] = joint - subtree
    for level, nodes in enumerate(space.levels[:-1]):
        logp[nodes, 1:] = subtree[space.children(level)] - subtree[nodes, None]
    return logp


def _recovered_q(payoffs: Payoffs, tau: float) -> Float[Tensor, "N V"]:
    """Q from P_R and the terminal condition alone, by the proof's ratio P_R(y_1^t + eos) / P_R(y_1^(t-1) + eos)."""
    space, joint = payoffs.space, log_payoff(payoffs, tau)
    end = _conditionals(payoffs, tau)[:, EOS]
    q = (payoffs.finished - payoffs.unfinished).unsqueeze(-1).repeat(1, space.actions)
    for level, nodes in enumerate(space.levels[:-1]):
        children: Int[Tensor, "n K"] = space.children(level)
        q[nodes, 1:] += tau * (joint[children] - joint[nodes, None] - end[children])
    return q


def _derivative(f: Callable[[float, Tensor], Tensor], direction: Tensor, h: float = 1e-3) -> Tensor:
    """Five-point finite difference at 0."""
    outer = f(-2 * h, direction) - f(2 * h, direction)
    return (outer + 8 * (f(h, direction) - f(-h, direction))) / (12 * h)
