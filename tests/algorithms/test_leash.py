"""A leash in its three forms: whose gradient each has on average, and what it costs."""

import pytest
import torch

from algorithms.enumerated import EVERY, Nothing, actor, average, free, gradient_of, log_likelihood, logp_of_all
from algorithms.tiny import BATCH, drawn, models, run
from seqcredit.algorithms import ActorCritic, Grpo, Mixer, Models, Mrt, Ocd, Reinforce, Scst
from seqcredit.algorithms.leash import Leashed
from seqcredit.credit.drawn import drift_estimate
from seqcredit.credit.values import at_bound, chosen, divergence, token_rewards
from seqcredit.rewards.payoff import Payoff
from seqcredit.types import token_mask

LEASH = 0.6


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("form", ["loss", "estimate", "reward"])
def test_what_each_form_pulls_at_on_average(form: str, fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the loss: the KL of the states that are met; estimated: the KL the other way round; in the reward: that of
    whole sequences, with what later states cost."""
    net, start = actor(), actor(5)
    logp, mass = logp_of_all(net, EVERY), log_likelihood(net, EVERY).detach().exp()
    origin = logp_of_all(start, EVERY).detach()
    if form == "reward":
        whole = log_likelihood(net, EVERY)
        cost = (whole.exp() * (whole - log_likelihood(start, EVERY).detach())).sum()
    elif form == "loss":
        cost = (mass * divergence(logp, origin).masked_fill(~free(EVERY), 0).sum(1)).sum()
    else:
        backwards = (origin.exp() * (origin - logp)).sum(-1)
        cost = (mass * backwards.masked_fill(~free(EVERY), 0).sum(1)).sum()
    expected = LEASH * gradient_of(net, cost)
    for credit in ("end", "to_go"):
        how = {"credit": credit, "leash": LEASH, "leash_form": form, "fused": fused}
        phase = Reinforce("r", 0.1, baseline="none", extra_length=1, **how)
        found = average(phase, Models(net, start=start), monkeypatch, reward=Nothing())
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", ["loss", "estimate", "reward"])
def test_what_it_costs_by_hand(form: str) -> None:
    nets, bound = models(dropout=0.0), BATCH.references.shape[-1] - 1 + 10
    tokens = drawn(nets, bound)
    real = token_mask(tokens) & ~at_bound(tokens, bound)
    here, there = (net.score(net.encode(BATCH.source), tokens).table().log_softmax(-1) for net in nets[::3])
    mine, first = chosen(here, tokens), chosen(there, tokens)
    drift = {"loss": divergence(here, there), "estimate": drift_estimate(mine, first), "reward": mine - first}[form]
    plain, held = (
        run(Reinforce("r", 0.1, baseline="none", leash=leash, leash_form=form), nets)  # type: ignore[arg-type]
        for leash in (0.0, LEASH)
    )
    assert "drift" not in plain.sums
    torch.testing.assert_close(held.sums["drift"][0], drift[real].sum().detach())
    assert int(held.sums["drift"][1]) == int(real.sum())
    torch.testing.assert_close(held.sums["reward"], plain.sums["reward"])  # what is shown is the pay-off alone
    cost = drift.masked_fill(~real, 0).sum(1)
    if form == "reward":
        cost = cost.detach() * mine.masked_fill(~real, 0).sum(1)  # - log pi times the reward that is lost
    torch.testing.assert_close(held.losses["actor"], plain.losses["actor"] + LEASH * cost.sum() / 4)


def test_a_critic_learns_what_a_leash_takes_off_the_rewards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rewards are those of the pay-off less the leash times the log-ratio of each word that was chosen."""
    settings = {"tau": 0.2, "mle_weight": 0.0, "smoothing": 0.0}
    nets = models(dropout=0.0)
    seen = []

    def watching(prefix_scores: torch.Tensor) -> torch.Tensor:
        seen.append(prefix_scores)
        return token_rewards(prefix_scores)

    monkeypatch.setattr("seqcredit.algorithms.erac.token_rewards", watching)
    run(ActorCritic("ac", 0.1, **settings), nets)
    held = run(ActorCritic("ac", 0.1, leash=LEASH, leash_form="reward", **settings), nets)
    free_scores, _, *held_scores = seen
    assert len(held_scores) == 2  # for the targets, and for what really followed
    bound = BATCH.references.shape[-1] - 1 + 10
    tokens = drawn(nets, bound)
    here, there = (net.score(net.encode(BATCH.source), tokens).table().log_softmax(-1) for net in nets[::3])
    real = token_mask(tokens) & ~at_bound(tokens, bound)
    apart = (chosen(here, tokens) - chosen(there, tokens)).masked_fill(~real, 0).detach()
    for scores in held_scores:
        torch.testing.assert_close(free_scores.diff(dim=1) - scores.diff(dim=1), LEASH * apart, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(held.sums["drift"][0], apart.sum())


@pytest.mark.parametrize("kind", [ActorCritic, Grpo, Mixer, Mrt, Ocd, Reinforce, Scst])
def test_every_algorithm_that_samples_has_one_of_one_name(kind: type[Leashed]) -> None:
    assert kind("s", 0.1, leash=0.1).remembers_start
    assert not kind("s", 0.1, leash=0.0).remembers_start


def test_what_does_not_go_together() -> None:
    pulled = {"leash": 0.1, "leash_form": "reward"}
    edit = Payoff(metric="edit")
    assert Ocd("o", 0.1, **pulled).check(edit) == (
        "leash_form is 'reward', but it learns from no rewards: set it to 'loss'."
    )
    assert Ocd("o", 0.1, leash=0.1).check(edit) is None
    assert ActorCritic("a", 0.1, exact_eos=1.0, **pulled).check(edit) == (
        "exact_eos teaches what eos adds to the pay-off, and leash_form = 'reward' changes that: drop one."
    )
    assert ActorCritic("a", 0.1, **pulled).check(edit) is None
    assert ActorCritic("a", 0.1, leash=0.1, exact_eos=1.0).check(edit) is None
    assert Mrt("m", 0.1, **pulled).check(edit) == (
        "leash_form is 'reward', which the reference does not pay: set with_reference to false."
    )
    assert Mrt("m", 0.1, with_reference=False, **pulled).check(edit) is None
