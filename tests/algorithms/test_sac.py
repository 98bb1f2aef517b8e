"""The soft form of A2C: its fixed point is ERAC's, the exact one; two critics; a temperature that holds the entropy."""

import pytest
import torch
from torch import Tensor

from algorithms.tabled import ALL, BLEU, EVERY, payoffs, random_table, tabled
from algorithms.tiny import BATCH, REWARD, drawn, equipped, models, noise, run
from seqcredit.algorithms import ActorCritic, Models, Outcome, Progress, Sac, rollout
from seqcredit.algorithms.sac import Temperature
from seqcredit.credit import losses
from seqcredit.credit.oracle.enumeration import solve
from seqcredit.credit.values import token_rewards
from seqcredit.draws import Noise
from seqcredit.errors import UserError
from seqcredit.models.twin import Twin

TAU = 0.4
SETTINGS = {"tau": TAU, "mle_weight": 0.0, "smoothing": 0.0, "extra_length": 1}


def every_loss(phase: ActorCritic, nets: Models, monkeypatch: pytest.MonkeyPatch) -> dict[str, Tensor]:
    """Along all sequences of the space, each once."""
    monkeypatch.setattr(rollout, "sample", lambda *_: EVERY)
    return phase.loss(nets, ALL, BLEU, Noise(torch.Generator(), len(EVERY)), Progress()).losses


def twins(first: Tensor, second: Tensor) -> Twin:
    return Twin(tabled(first), tabled(second))


@pytest.mark.parametrize("kind", [Sac, ActorCritic])
def test_the_exact_solution_is_its_fixed_point_as_it_is_eracs(
    kind: type[ActorCritic], monkeypatch: pytest.MonkeyPatch
) -> None:
    q = solve(payoffs(), TAU).q
    phase = kind("sac", 0.1, **SETTINGS)
    for actor, critic, at_rest in ((q / TAU, q, True), (q / TAU + 1e-3 * random_table(), q, False)):
        nets = equipped(phase, Models(tabled(actor), twins(critic, critic), twins(critic, critic)))
        found = every_loss(phase, nets, monkeypatch)
        gradients = torch.autograd.grad(found["actor"], nets.actor.parameters())
        gradients += torch.autograd.grad(found["critic"], nets.judge.parameters())
        largest = max(float(gradient.abs().max()) for gradient in gradients)
        assert largest < 1e-7 if at_rest else largest > 1e-4  # a temperature has the digits of float32


def test_the_lower_q_counts_and_both_critics_learn() -> None:
    nets, bound = models(dropout=0.0), 5 + 2
    pair = nets._replace(critic=Twin(nets.judge, nets.slow_judge), target=Twin(nets.slow_judge, nets.judge))
    phase = ActorCritic("ac", 0.1, **{**SETTINGS, "extra_length": 2})
    found = run(phase, pair)
    tokens = drawn(nets, bound)
    logp = nets.actor.score(nets.actor.encode(BATCH.source), tokens).table().log_softmax(-1)
    one, other = (net.score(net.encode(BATCH.references), tokens).table() for net in (nets.judge, nets.slow_judge))
    lower = torch.minimum(one, other)
    assert not torch.equal(lower, one)
    forced = (torch.arange(tokens.shape[1]) == bound - 1).expand(tokens.shape)
    torch.testing.assert_close(found.losses["actor"], losses.actor(logp, lower, tokens, TAU, forced=forced).sum() / 4)
    rewards = token_rewards(REWARD.prefix_scores(tokens, BATCH.references))
    targets = losses.td_targets(lower, logp, tokens, rewards, TAU, forced=forced)
    both = sum(losses.critic_td(q, tokens, targets).sum() for q in (one, other))
    torch.testing.assert_close(found.losses["critic"], both / 4)


@pytest.mark.parametrize("wanted", [0.2, 3.0])
def test_the_temperature_falls_where_there_is_more_entropy_than_wanted(wanted: float) -> None:
    nets = models(dropout=0.0)
    phase = Sac("sac", 0.1, tau=0.3, entropy_target=wanted, extra_length=2)
    nets = equipped(phase, nets)
    found = run_with(phase, nets)
    total, states = found.sums["entropy"]
    temperature = nets.brought("temperature", Temperature)
    assert float(temperature().detach()) == pytest.approx(0.3)
    (gradient,) = torch.autograd.grad(found.losses["temperature"], temperature.parameters())
    assert float(gradient) == pytest.approx(0.3 * float(total - wanted * states) / 4, rel=1e-5)
    assert (float(gradient) > 0) == (float(total / states) > wanted)
    assert float(found.sums["tau"][0] / found.sums["tau"][1]) == pytest.approx(0.3)


def test_at_its_present_temperature_it_is_erac() -> None:
    nets = equipped(Sac("sac", 0.1, tau=0.7), models(dropout=0.0))
    found = run_with(Sac("sac", 0.1, tau=0.2), nets).losses  # it has come to 0.7
    erac = run(ActorCritic("erac", 0.1, tau=0.7), models(dropout=0.0)).losses
    for name in ("actor", "critic"):
        torch.testing.assert_close(found[name], erac[name])


def run_with(phase: Sac, nets: Models) -> Outcome:
    """With what the networks have come to."""
    return phase.loss(nets, BATCH, REWARD, noise(), Progress())


def test_its_settings() -> None:
    with pytest.raises(UserError, match=r"^Sac: tau is 0\.0, but it must be above 0 and finite\.$"):
        Sac("sac", 0.1, tau=0.0)
    phase = Sac("sac", 0.1, critic_learning_rate=0.2, tau_learning_rate=0.3)
    assert [phase.rate(name) for name in phase.trains] == [0.1, 0.2, 0.3]
