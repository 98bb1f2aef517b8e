import itertools
import math

import pytest
import torch

import brute
from seqcredit.credit.oracle.enumeration import (
    Space,
    evaluate,
    log_payoff,
    sample,
    score,
    sequence_logp,
    solve,
)
from seqcredit.errors import UserError

SPACE = Space(actions=4, bound=4)
REFERENCES = torch.tensor([[1, 3, 0], [2, 0, 0]])
REWARD = brute.PythonReward(lambda h, rs: -(brute.edit_distance(h, rs[0]) ** 1.3) - 0.1 * brute.edit_distance(h, rs[1]))
PAYOFFS = score(SPACE, REWARD, REFERENCES)
TAUS = (0.0, 0.2, 1.5)

EVERY = [list(words) for n in range(4) for words in itertools.product((1, 2, 3), repeat=n)]
NODE = {tuple(words): i for i, words in enumerate(EVERY)}


def payoff(words: list[int]) -> float:
    return REWARD.score(words, [[1, 3], [2]])


def test_every_sequence_once_shortest_first() -> None:
    assert len(SPACE) == 1 + 3 + 9 + 27
    assert [brute.words(row) for row in SPACE.sequences().tolist()] == EVERY
    assert SPACE.forced.tolist() == [len(words) == 3 for words in EVERY]


def test_nodes_along_a_sequence() -> None:
    tokens = torch.tensor([[3, 1, 2, 0], [2, 0, 0, 0], [0, 0, 0, 0]])
    expected = [[(), (3,), (3, 1), (3, 1, 2)], [(), (2,), (2,), (2,)], [()] * 4]
    assert SPACE.nodes(tokens).tolist() == [[NODE[prefix] for prefix in row] for row in expected]


def test_children() -> None:
    for level in range(3):
        for node, children in zip(range(len(SPACE))[SPACE.levels[level]], SPACE.children(level).tolist(), strict=True):
            assert [EVERY[child] for child in children] == [[*EVERY[node], w] for w in (1, 2, 3)]


def test_scores_and_rewards() -> None:
    assert PAYOFFS.finished.tolist() == pytest.approx([payoff(words) for words in EVERY])
    assert PAYOFFS.unfinished.tolist() == pytest.approx([payoff(words) for words in EVERY])
    rewards = PAYOFFS.rewards()
    for i, words in enumerate(EVERY):
        assert float(rewards[i, 0]) == 0
        if len(words) < 3:
            gained = [payoff([*words, w]) - payoff(words) for w in (1, 2, 3)]
            assert rewards[i, 1:].tolist() == pytest.approx(gained)


def test_what_eos_adds_is_counted_when_it_stands_there() -> None:
    """A reward that pays at eos only: nothing before it, all of it after."""

    class Late:
        def prefix_scores(self, tokens: torch.Tensor, references: torch.Tensor) -> torch.Tensor:
            ended = torch.nn.functional.pad((tokens == 0).cummax(-1).values, (1, 0))
            return REWARD.prefix_scores(tokens, references) * ended

    late = score(SPACE, Late(), REFERENCES)
    assert late.unfinished.abs().max() == 0
    assert late.finished.tolist() == pytest.approx([payoff(words) for words in EVERY])


def recursive_q(words: list[int], action: int, tau: float) -> float:
    """Eq. (recursion) and (recursion_terminal), as they stand."""
    if action == 0:
        return 0.0
    longer = [*words, action]
    return payoff(longer) - payoff(words) + recursive_v(longer, tau)


def recursive_v(words: list[int], tau: float) -> float:
    allowed = (0, 1, 2, 3) if len(words) < 3 else (0,)
    return brute.soft_max([recursive_q(words, a, tau) for a in allowed], tau)


@pytest.mark.parametrize("tau", TAUS)
def test_solve_is_the_recursion(tau: float) -> None:
    table = solve(PAYOFFS, tau)
    for i, words in enumerate(EVERY):
        assert float(table.value[i]) == pytest.approx(recursive_v(words, tau), abs=1e-12)
        if len(words) < 3:
            expected = [recursive_q(words, a, tau) for a in range(4)]
            assert table.q[i].tolist() == pytest.approx(expected, abs=1e-12)


def test_along_reads_q_before_each_token() -> None:
    table = solve(PAYOFFS, 0.2)
    along = table.along(torch.tensor([[3, 1, 0, 0]]))
    assert torch.equal(along[0, 1], table.q[NODE[3,]])
    assert torch.equal(along[0, 2], table.q[NODE[3, 1]])


@pytest.mark.parametrize("tau", TAUS)
def test_log_payoff(tau: float) -> None:
    expected = brute.boltzmann([payoff(words) for words in EVERY], tau)
    assert log_payoff(PAYOFFS, tau).exp().tolist() == pytest.approx(expected)


def random_policy() -> torch.Tensor:
    logits = torch.randn(len(SPACE), 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return logits.log_softmax(-1)


def test_sequence_logp_is_the_product_of_its_tokens() -> None:
    logp = random_policy()
    total = sequence_logp(SPACE, logp)
    for i, words in enumerate(EVERY):
        path = sum(float(logp[NODE[tuple(words[:t])], w]) for t, w in enumerate(words))
        path += 0 if len(words) == 3 else float(logp[i, 0])
        assert float(total[i]) == pytest.approx(path)
    assert float(total.exp().sum()) == pytest.approx(1)


@pytest.mark.parametrize("tau", TAUS)
def test_evaluate_is_the_mean_over_continuations(tau: float) -> None:
    """V^pi from all continuations of a prefix: E[R(y) - R(prefix) - tau log pi(y | prefix)]."""
    logp = random_policy()
    table = evaluate(PAYOFFS, logp, tau)
    for i, prefix in enumerate(EVERY):
        mean = 0.0
        for words in EVERY:
            if words[: len(prefix)] == prefix:
                steps = range(len(prefix), len(words))
                lp = sum(float(logp[NODE[tuple(words[:t])], words[t]]) for t in steps)
                lp += 0 if len(words) == 3 else float(logp[NODE[tuple(words)], 0])
                mean += math.exp(lp) * (payoff(words) - payoff(prefix) - tau * lp)
        assert float(table.value[i]) == pytest.approx(mean, abs=1e-12)


def test_sample_is_exact() -> None:
    drawn = sample(PAYOFFS, 0.7, 60_000, torch.Generator().manual_seed(0))
    nodes = torch.tensor([NODE[tuple(brute.words(row))] for row in drawn.tolist()])
    frequency = torch.bincount(nodes, minlength=len(SPACE)) / len(nodes)
    torch.testing.assert_close(frequency.double(), log_payoff(PAYOFFS, 0.7).exp(), atol=0.008, rtol=0)


def test_rewards_that_hold_back_until_eos_have_the_same_payoff() -> None:
    """Any score of unfinished prefixes is shaping: Q moves, P_R does not."""
    late = type(PAYOFFS)(SPACE, torch.full_like(PAYOFFS.unfinished, payoff([])), PAYOFFS.finished)
    open_nodes = ~SPACE.forced
    assert (solve(late, 0.2).q[open_nodes, 0] != 0).any()
    targets = [(solve(p, 0.2).q / 0.2).softmax(-1)[open_nodes] for p in (late, PAYOFFS)]
    torch.testing.assert_close(*targets)


def test_too_large_a_space_is_refused() -> None:
    with pytest.raises(UserError, match="more than 5,000,000"):
        Space(actions=1000, bound=5)
    with pytest.raises(UserError, match="at least 2 actions"):
        Space(actions=1, bound=5)
