import pytest
import torch
from torch import Tensor

import brute
from seqcredit.credit.oracle.enumeration import Space, evaluate, score
from seqcredit.credit.oracle.rollouts import estimate_q, estimate_value
from seqcredit.rewards import OnlyFinished
from seqcredit.types import Reward

SPACE = Space(actions=4, bound=5)
REFERENCES = torch.tensor([[[1, 3, 2, 0]]])
REWARD = brute.PythonReward(brute.negative_edit_distance)
PAYOFFS = score(SPACE, REWARD, REFERENCES[0])
LOGP = torch.randn(len(SPACE), 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
TAU, ROLLOUTS = 0.3, 4_000


def policy(prefixes: Tensor) -> Tensor:
    return LOGP[SPACE.nodes(torch.nn.functional.pad(prefixes, (0, 1)))[:, -1]]


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)


@pytest.mark.parametrize("tau", [0.0, TAU])
@pytest.mark.parametrize("prefix", [[], [1], [3, 2, 1]])
def test_value_agrees_with_enumeration(prefix: list[int], tau: float) -> None:
    exact = evaluate(PAYOFFS, LOGP, tau)
    prefixes = torch.tensor([prefix], dtype=torch.long)
    node = SPACE.nodes(torch.nn.functional.pad(prefixes, (0, 1)))[0, -1]
    mean, half_width = estimate_value(policy, REWARD, REFERENCES, prefixes, 5, tau, ROLLOUTS, generator(), z=4.0)
    assert 0 < float(half_width) < 0.15
    assert abs(float(mean) - float(exact.value[node])) < float(half_width)


@pytest.mark.parametrize("reward", [REWARD, OnlyFinished(REWARD)], ids=["every prefix", "only what has ended"])
def test_q_agrees_with_enumeration_for_every_action(reward: Reward) -> None:
    exact = evaluate(score(SPACE, reward, REFERENCES[0]), LOGP, TAU)
    prefixes, actions = torch.tensor([[1]] * 4), torch.arange(4)
    references = REFERENCES.expand(4, -1, -1)
    mean, half_width = estimate_q(policy, reward, references, prefixes, actions, 5, TAU, ROLLOUTS, generator(), z=4.0)
    node = SPACE.nodes(torch.tensor([[1, 0]]))[0, 1]
    assert float(half_width[0]) == 0  # nothing follows eos
    assert float(mean[0]) == float(exact.q[node, 0])
    assert ((mean - exact.q[node]).abs() <= half_width).all()
    assert (half_width[1:] > 0).all()


@pytest.mark.slow
def test_the_interval_covers_as_often_as_it_says() -> None:
    exact = float(evaluate(PAYOFFS, LOGP, TAU).value[0])
    prefixes = torch.zeros(400, 0, dtype=torch.long)
    mean, half_width = estimate_value(
        policy, REWARD, REFERENCES.expand(400, -1, -1), prefixes, 5, TAU, 60, generator(), z=1.96
    )
    covered = ((mean - exact).abs() <= half_width).double().mean()
    assert 0.90 < float(covered) < 0.985


def test_at_the_bound_only_eos_is_left() -> None:
    prefixes = torch.tensor([[1, 1, 1, 1]])
    mean, half_width = estimate_value(policy, REWARD, REFERENCES, prefixes, 5, TAU, 50, generator())
    assert (float(mean), float(half_width)) == (0, 0)
