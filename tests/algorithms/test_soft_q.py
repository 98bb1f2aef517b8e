"""Soft Q-learning on the reference alone, by hand."""

import torch

from algorithms.tiny import BATCH, REWARD, V, models, noise, run
from seqcredit.algorithms import Criterion, Progress, SoftQ
from seqcredit.algorithms.exact import EditJudge
from seqcredit.algorithms.phase import Examples
from seqcredit.credit import losses
from seqcredit.credit.values import token_rewards
from seqcredit.rewards import EditDistance, OnlyFinished
from seqcredit.rewards.payoff import Payoff
from seqcredit.types import Alphabet, token_mask


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
    assert not any(total.requires_grad for total, _ in found.sums.values())
    at_once = run(phase, nets).sums["eos_error"][0]  # prefixes have their score already, and eos adds nothing
    torch.testing.assert_close(at_once, losses.terminal(q, tokens, torch.zeros_like(worth)).sum().detach())


def test_the_loss_is_a_mean_over_sentences_and_their_sequences() -> None:
    outcome = run(SoftQ("soft_q", 0.1, samples=3), models(dropout=0.0))
    torch.testing.assert_close(outcome.losses["critic"].detach(), outcome.sums["td"][0] / 4 / 3)
    assert int(outcome.sums["distinct"][1]) == 4 * 3


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
        assert phase.follows(Progress()) == (0.001 if look_ahead == "target" else None)


def test_dropout_is_drawn_for_every_token_after_the_proposals() -> None:
    nets, draws, phase = models(dropout=0.5), noise(), SoftQ("soft_q", 0.1, samples=1, tau=0.4)
    tokens, critic = phase.propose(BATCH, draws, nets.judge).tokens[:, 0], nets.judge
    q = critic.score(critic.encode(BATCH.references), tokens, critic.drop(tokens.shape[-1], draws)).table()
    rewards = token_rewards(REWARD.prefix_scores(tokens, BATCH.references))
    torch.testing.assert_close(run(phase, nets).losses["critic"], losses.soft_q(q, tokens, rewards, 0.4).sum() / 4)


class Asking:
    """Says what a phase asks of a validation."""

    def metric(self, network: str, beam: int | None = None) -> Criterion:
        return Criterion(f"metric of {network}, beam {beam}", 1.0)

    def mean(self, key: str, still: tuple[str, ...] = ()) -> Criterion:
        return Criterion(f"mean {key}, still {still}", 1.0, higher=False)

    def credit(self, key: str) -> Criterion:
        return Criterion(key, 1.0, higher=False)


def test_what_it_is_judged_by() -> None:
    assert SoftQ("q", 0.1).criterion(Asking()).name == "metric of critic, beam 1"
    assert SoftQ("q", 0.1, judged_by="td").criterion(Asking()).name == "mean td, still ('critic',)"
    assert SoftQ("q", 0.1, judged_by="exact", exact=4).criterion(Asking()).name == "credit_kl"


def test_the_exact_q_is_asked_for_by_a_number_of_sentences_and_known_for_edit_distance_alone() -> None:
    plain, other = Payoff("edit"), Payoff("bleu")
    for judged_by in ("metric", "td"):
        assert SoftQ("q", 0.1, judged_by=judged_by).check(plain) is None
        assert SoftQ("q", 0.1, judged_by=judged_by).check(other) is None
    assert "exact is 0" in str(SoftQ("q", 0.1, judged_by="exact").check(plain))
    for judged_by in ("metric", "exact"):
        assert SoftQ("q", 0.1, judged_by=judged_by, exact=4).check(plain) is None
        assert "plain edit distance alone" in str(SoftQ("q", 0.1, judged_by=judged_by, exact=4).check(other))


def test_the_exact_q_judges_its_credit_if_that_is_asked_for() -> None:
    given = Examples(lambda _sentences, _words: BATCH, EditDistance(), Alphabet(V))
    assert SoftQ("q", 0.1).judge(given) is None
    assert isinstance(SoftQ("q", 0.1, bound=8, exact=4).judge(given), EditJudge)
