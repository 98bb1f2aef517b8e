"""Actor-Critic and ERAC on a tiny network: by hand, and every setting at work."""

from typing import Any

import pytest
import torch

from algorithms.tiny import BATCH, REWARD, V, drawn, gradients, models, noise, run
from seqcredit.algorithms import ActorCritic, Criterion, Critic, Progress
from seqcredit.algorithms.phase import Examples
from seqcredit.credit import losses
from seqcredit.credit.values import chosen, entropy, token_rewards
from seqcredit.models.policy import repeat
from seqcredit.rewards import OnlyFinished
from seqcredit.search import sample
from seqcredit.types import EOS, Alphabet, token_mask


def test_each_loss_of_actor_critic_reaches_its_own_network_alone() -> None:
    for key, other in (("actor", "critic"), ("critic", "actor")):
        nets = models()
        run(ActorCritic("actor_critic", 0.1, samples=2, extra_length=2), nets).losses[key].backward()
        assert gradients(nets) == {key: True, other: False, "target": False, "start": False}


def actor_loss(**changes: Any) -> float:
    settings = {"samples": 1, "extra_length": 2, "mle_weight": 0.0, "smoothing": 0.0, **changes}
    return float(run(ActorCritic("ac", 0.1, **settings)).losses["actor"].detach())


def critic_loss(**changes: Any) -> float:
    settings = {"samples": 1, "extra_length": 2, "smoothing": 0.0, **changes}
    return float(run(Critic("c", 0.1, **settings)).losses["critic"].detach())


def test_every_setting_of_actor_critic_matters() -> None:
    base = actor_loss(tau=0.5)
    assert actor_loss(tau=0.0) > base  # without the entropy bonus
    assert actor_loss(tau=0.5, mle_weight=1.0) != base
    assert base < actor_loss(tau=0.5, entropy_form="normalised") < actor_loss(tau=0.0)


def test_every_setting_of_the_critic_matters() -> None:
    base = critic_loss(tau=0.5)
    assert critic_loss(tau=0.5, td_form="half") == pytest.approx(base / 2)
    assert critic_loss(tau=0.5, future_entropy=False) == pytest.approx(critic_loss(tau=0.0))
    assert critic_loss(tau=0.5, future_entropy=False) != base
    total = critic_loss(tau=0.5, smoothing=1.0, smoothing_form="sum") - base
    mean = critic_loss(tau=0.5, smoothing=1.0, smoothing_form="mean") - base
    assert total == pytest.approx(V * mean, rel=1e-4)
    assert critic_loss(tau=0.5, extra_length=0, bound_value="free") != critic_loss(tau=0.5, extra_length=0)
    assert critic_loss(tau=0.5, trace=0.6) != base


def test_the_trace_goes_from_its_start_to_its_end() -> None:
    fading, steady = Critic("c", 0.1, trace=0.8, trace_end=0.2), Critic("c", 0.1, trace=0.8)
    found = [(fading.looking(at).trace, steady.looking(at).trace) for at in (Progress(0, 8), Progress(2, 8))]
    assert found == [(0.8, 0.8), (pytest.approx(0.65), 0.8)]
    assert fading.looking(Progress(9, 8)).trace == pytest.approx(0.2)


def test_with_a_whole_trace_the_critic_learns_what_really_followed() -> None:
    """Where the target network says 0 of everything and there is no entropy, targets are the returns."""
    nets = models(dropout=0.0)
    for slow in (nets.slow_judge.readout.weight, nets.slow_judge.readout.bias):
        slow.data.zero_()
    sums = run(Critic("c", 0.1, tau=0.0, trace=1.0, samples=1, extra_length=2), nets).sums
    assert float(sums["td"][0]) == pytest.approx(float(sums["return_error"][0]), rel=1e-5)
    sums = run(Critic("c", 0.1, tau=0.0, trace=0.0, samples=1, extra_length=2), nets).sums
    assert float(sums["td"][0]) != pytest.approx(float(sums["return_error"][0]), rel=1e-2)


@pytest.mark.parametrize("kind", [Critic, ActorCritic])
def test_a_critic_learns_what_eos_is_worth_at_every_prefix(kind: type[Critic]) -> None:
    """The critic says 3 of eos and 0 of words. Eos adds nothing to BLEU, but all of it if BLEU comes at the end."""
    nets = models(dropout=0.0)
    nets.judge.readout.weight.data.zero_()
    nets.judge.readout.bias.data.zero_()[EOS] = 3.0
    plain, taught = (kind("c", 0.1, tau=0.0, samples=1, extra_length=2, exact_eos=w) for w in (0.0, 0.7))
    losses_of = [run(phase, nets).losses["critic"] for phase in (plain, taught)]
    sums = run(taught, nets).sums
    states = int(sums["eos_error"][1])
    assert states > 4
    torch.testing.assert_close(sums["eos_error"][0], torch.tensor(9.0 * states))
    torch.testing.assert_close(losses_of[1] - losses_of[0], torch.tensor(0.7 * 9.0 * states / 4))

    nets, late = models(dropout=0.0), OnlyFinished(REWARD)  # now a critic that says another thing at each prefix
    found = run(taught, nets, reward=late)
    tokens, critic = drawn(nets, 5 + 2), nets.judge
    said = critic.score(critic.encode(BATCH.references), tokens).table()[..., EOS]
    worth = REWARD.prefix_scores(tokens, BATCH.references)[:, :-1]
    expected = (said - worth).square().masked_fill(~token_mask(tokens), 0).sum()
    torch.testing.assert_close(found.sums["eos_error"][0], expected.detach())


def test_returns_are_what_really_followed() -> None:
    """Without entropy, the error of a critic that says 0 everywhere is the mean square of rewards to come."""
    nets = models(dropout=0.0)
    nets.judge.readout.weight.data.zero_()
    nets.judge.readout.bias.data.zero_()
    outcome = run(Critic("c", 0.1, tau=0.0, samples=1, extra_length=2), nets)
    tokens = drawn(nets, 5 + 2)
    scores = REWARD.prefix_scores(tokens, BATCH.references)
    to_come = (scores[:, -1:] - scores[:, :-1]) * token_mask(tokens)
    torch.testing.assert_close(outcome.sums["return_error"][0], to_come.square().sum())
    known = to_come[token_mask(tokens)]
    torch.testing.assert_close(outcome.sums["return"], (known.sum(), torch.tensor(len(known))))
    torch.testing.assert_close(outcome.sums["return_square"], (known.square().sum(), torch.tensor(len(known))))


def test_erac_by_hand() -> None:
    """Both losses from the specification, with the target network in the targets and a mean over two samples."""
    nets = models(dropout=0.0)
    phase = ActorCritic("ac", 0.1, tau=0.3, mle_weight=0.0, samples=2, extra_length=2, smoothing=0.2)
    found = run(phase, nets).losses
    actor, bound, here = nets.actor, 5 + 2, BATCH.source.device
    memory, references = repeat(actor.encode(BATCH.source), 2, here), BATCH.references.repeat_interleave(2, 0)
    tokens = sample(actor, memory, bound, noise().repeated(2).uniform(bound))
    logp = actor.score(memory, tokens).table().log_softmax(-1)
    q, later = (net.score(net.encode(references), tokens).table() for net in (nets.judge, nets.slow_judge))
    forced = (torch.arange(tokens.shape[1]) == bound - 1).expand(tokens.shape)
    torch.testing.assert_close(found["actor"], losses.actor(logp, q, tokens, 0.3, forced=forced).sum() / 8)
    rewards = token_rewards(REWARD.prefix_scores(tokens, references))
    targets = losses.td_targets(later, logp, tokens, rewards, 0.3, forced=forced)
    both = losses.critic_td(q, tokens, targets).sum() + 0.2 * losses.smoothing(q, tokens, forced=forced).sum()
    torch.testing.assert_close(found["critic"], both / 8)


def test_the_likelihood_of_the_reference_is_added_with_its_weight() -> None:
    nets = models(dropout=0.0)
    with_it, without = (
        run(ActorCritic("ac", 0.1, tau=0.3, mle_weight=weight, extra_length=2), nets) for weight in (0.7, 0.0)
    )
    tokens, actor = BATCH.references[:, 0], nets.actor
    logp = actor.score(actor.encode(BATCH.source), tokens).table().log_softmax(-1)
    likelihood = losses.mle(logp, tokens).sum() / 4
    torch.testing.assert_close(with_it.losses["actor"] - without.losses["actor"], 0.7 * likelihood)
    torch.testing.assert_close(with_it.sums["nll"][0], (4 * likelihood).detach())
    assert "nll" not in without.sums


@pytest.mark.parametrize("fused", [True, False])
def test_what_is_watched_by_hand(fused: bool) -> None:
    """The TD error of all tokens, and the entropy where the actor had a choice: at the bound it has none."""
    nets = models(dropout=0.0)
    found = run(ActorCritic("ac", 0.1, tau=0.3, extra_length=0, longest_sample=4, fused=fused), nets).sums
    tokens, bound = drawn(nets, 4), 4
    actor, critic, target = nets.actor, nets.judge, nets.slow_judge
    logp = actor.score(actor.encode(BATCH.source), tokens).table().log_softmax(-1)
    q, later = (net.score(net.encode(BATCH.references), tokens).table() for net in (critic, target))
    real, forced = token_mask(tokens), (torch.arange(tokens.shape[1]) == bound - 1).expand(tokens.shape)
    rewards = token_rewards(REWARD.prefix_scores(tokens, BATCH.references))
    errors = chosen(q, tokens) - losses.td_targets(later, logp, tokens, rewards, 0.3, forced=forced)
    torch.testing.assert_close(found["td"][0], errors[real].square().sum().detach())
    free = real & ~forced
    assert real.sum() > free.sum() > 0
    assert not real.all()
    torch.testing.assert_close(found["entropy"][0], entropy(logp)[free].sum().detach())
    assert int(found["entropy"][1]) == free.sum()


@pytest.mark.parametrize("kind", [Critic, ActorCritic])
def test_what_is_watched_has_no_gradient(kind: type[Critic]) -> None:
    for total, count in run(kind("c", 0.1, tau=0.3, exact_eos=0.5)).sums.values():
        assert not total.requires_grad
        assert not count.requires_grad


class Asking:
    """Says what a phase asks of a validation."""

    def metric(self, network: str, beam: int | None = None) -> Criterion:
        return Criterion(f"metric of {network}", 1.0)

    def mean(self, key: str, still: tuple[str, ...] = ()) -> Criterion:
        return Criterion(f"mean {key}", 1.0, higher=False)

    def credit(self, key: str) -> Criterion:
        return Criterion(key, 1.0, higher=False)


def test_what_it_is_judged_by() -> None:
    assert Critic("c", 0.1).criterion(Asking()).name == "mean return_error"
    assert Critic("c", 0.1, judged_by="td").criterion(Asking()).name == "mean td"
    assert ActorCritic("ac", 0.1).criterion(Asking()).name == "metric of actor"


def test_rollouts_judge_its_credit_if_that_is_asked_for() -> None:
    """They are made again where the actor learns too."""
    given = Examples(lambda _sentences, _words: BATCH, REWARD, Alphabet(V))
    for kind, again in ((Critic, False), (ActorCritic, True)):
        assert kind("c", 0.1).judge(given) is None
        judge = kind("c", 0.1, exact=4).judge(given)
        assert judge is not None
        assert judge.again == again


def test_its_rates_and_temperatures() -> None:
    phase = Critic("c", 0.1, tau=0.3, target_rate=0.02)
    assert (phase.follows(Progress(7, 9)), phase.judged_tau, phase.later_tau) == (0.02, 0.3, 0.3)
    assert Critic("c", 0.1, tau=0.3, future_entropy=False).later_tau == 0


def test_the_target_network_slows_down_by_a_constant_factor() -> None:
    phase = Critic("c", 0.1, target_rate=0.1, target_rate_end=0.001)
    speeds = [phase.follows(Progress(update, 4)) for update in range(6)]
    assert speeds == pytest.approx([0.1, 10**-1.5, 0.01, 10**-2.5, 0.001, 0.001])


def test_the_way_to_the_actor_opens_when_enough_is_explained() -> None:
    assert Critic("c", 0.1).gate({"explained": 0.9}) is None
    shares = ({"explained": 0.5}, {"explained": 0.49}, {"explained": 0.2}, {})
    for changes, opened, at_once in (
        ({"critic_until": 0.5}, [True, False, False, False], [True, False, False, False]),
        ({"critic_least": 0.2}, [True, True, True, False], [False] * 4),
        ({"critic_until": 0.5, "critic_least": 0.2}, [True, True, True, False], [True, False, False, False]),
        ({"critic_until": 0.5, "critic_least": 0.0}, [True] * 4, [True, False, False, False]),
    ):
        found = [Critic("c", 0.1, **changes).gate(figures) for figures in shares]
        assert [gate is not None and gate.open for gate in found] == opened
        assert [gate is not None and gate.at_once for gate in found] == at_once
    said = "the critic explains 0.49 of the returns' variance, and 0.5 was asked for"
    assert Critic("c", 0.1, critic_until=0.5).gate(shares[1]) == (False, False, said)


@pytest.mark.parametrize(("explained", "share"), [(0.4, 0.4), (-3.0, 0.0), (1.0, 1.0)])
def test_a_cautious_actor_steps_as_far_as_its_critic_explains(explained: float, share: float) -> None:
    progress = Progress(explained=explained)
    assert ActorCritic("ac", 0.1, cautious=True).stride("actor", progress) == share
    assert ActorCritic("ac", 0.1, cautious=True).stride("critic", progress) == 1
    assert ActorCritic("ac", 0.1).stride("actor", progress) == 1


def test_a_leash_costs_the_divergence_from_the_start() -> None:
    nets, settings = models(dropout=0.0), {"tau": 0.3, "extra_length": 2, "mle_weight": 0.0}
    free, held = (run(ActorCritic("ac", 0.1, leash=leash, **settings), nets) for leash in (0.0, 0.6))
    bound = BATCH.references.shape[-1] - 1 + 2
    tokens = drawn(nets, bound)
    logp, start = (
        net.score(net.encode(BATCH.source), tokens).table().log_softmax(-1) for net in (nets.actor, nets.origin)
    )
    place = token_mask(tokens) & (torch.arange(tokens.shape[1]) < bound - 1)
    apart = torch.nn.functional.kl_div(start, logp, reduction="none", log_target=True).sum(-1)[place].sum()
    torch.testing.assert_close(held.losses["actor"] - free.losses["actor"], 0.6 * apart / 4)
    torch.testing.assert_close(held.sums["drift"][0], apart.detach())
    assert int(held.sums["drift"][1]) == place.sum()
    assert "drift" not in free.sums


def test_the_critic_may_have_a_rate_and_a_norm_of_its_own() -> None:
    same = ActorCritic("ac", 0.1, clip=3.0)
    other = ActorCritic("ac", 0.1, clip=3.0, critic_learning_rate=0.2, critic_clip=4.0)
    for phase in (same, other):
        assert (phase.rate("actor"), phase.clipping("actor")) == (0.1, 3.0)
    assert (same.rate("critic"), same.clipping("critic")) == (0.1, 3.0)
    assert (other.rate("critic"), other.clipping("critic")) == (0.2, 4.0)


def test_the_entropy_of_later_states_counts_for_tau_or_nothing() -> None:
    assert Critic("c", 0.1, tau=0.3).later_tau == 0.3
    assert Critic("c", 0.1, tau=0.3, future_entropy=False).later_tau == 0.0


@pytest.mark.parametrize("kind", [Critic, ActorCritic])
def test_samples_are_watched(kind: type[Critic]) -> None:
    assert {"reward", "length_ratio", "repeated", "unknown", "closeness"} <= run(kind("c", 0.1)).sums.keys()


def test_a_leash_alone_asks_for_the_start() -> None:
    assert ActorCritic("ac", 0.1, leash=0.1).remembers_start
    assert not ActorCritic("ac", 0.1).remembers_start
    assert not Critic("c", 0.1).remembers_start
