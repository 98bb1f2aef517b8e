"""Soft Q-learning on the reference alone, by hand."""

import torch

from algorithms.tiny import BATCH, REWARD, models, run
from seqcredit.algorithms import SoftQ
from seqcredit.credit import losses
from seqcredit.credit.values import token_rewards
from seqcredit.rewards import OnlyFinished
from seqcredit.types import token_mask


def test_soft_q_on_the_reference_alone_by_hand() -> None:
    nets = models(dropout=0.0)
    tokens, critic = BATCH.references[:, 0], nets.judge
    q = critic.score(critic.encode(BATCH.references), tokens).table()
    rewards = token_rewards(REWARD.prefix_scores(tokens, BATCH.references))
    expected = losses.soft_q(q, tokens, rewards, 0.4).sum() / 4
    phase = SoftQ("soft_q", 0.1, samples=1, tau=0.4)
    torch.testing.assert_close(run(phase, nets).losses["critic"], expected)


def test_steps_and_eos_on_the_reference_alone_by_hand() -> None:
    """With a reward that comes at the end: there eos is worth something at every prefix, and more than nothing."""
    nets, reward = models(dropout=0.0), OnlyFinished(REWARD)
    tokens, critic = BATCH.references[:, 0], nets.judge
    q = critic.score(critic.encode(BATCH.references), tokens).table()
    worth = REWARD.prefix_scores(tokens, BATCH.references)[:, :-1]
    rewards = token_rewards(reward.prefix_scores(tokens, BATCH.references))
    residual = losses.soft_q(q, tokens, rewards, 0.4, steps=3).sum()
    error = losses.terminal(q, tokens, worth).sum()
    phase = SoftQ("soft_q", 0.1, samples=1, tau=0.4, steps=3, exact_eos=0.7)
    found = run(phase, nets, reward=reward)
    torch.testing.assert_close(found.losses["critic"], (residual + 0.7 * error) / 4)
    torch.testing.assert_close(found.sums["td"][0], residual.detach())
    torch.testing.assert_close(found.sums["eos_error"][0], error.detach())
    assert int(found.sums["eos_error"][1]) == int(token_mask(tokens).sum())


def test_the_target_network_is_the_one_that_looks_ahead_where_it_is_asked_for() -> None:
    nets = models(dropout=0.0)
    tokens = BATCH.references[:, 0]
    q, later = (net.score(net.encode(BATCH.references), tokens).table() for net in (nets.judge, nets.slow_judge))
    rewards = token_rewards(REWARD.prefix_scores(tokens, BATCH.references))
    for look_ahead, constant in (("target", later), ("constant", q.detach()), ("gradient", None)):
        phase = SoftQ("soft_q", 0.1, samples=1, tau=0.4, look_ahead=look_ahead)
        expected = losses.soft_q(q, tokens, rewards, 0.4, constant).sum() / 4
        found, weight = run(phase, nets).losses["critic"], nets.judge.readout.weight
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(
            *(torch.autograd.grad(loss, weight, retain_graph=True)[0] for loss in (found, expected))
        )
        assert phase.follows == (0.001 if look_ahead == "target" else None)
