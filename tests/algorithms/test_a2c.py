"""A2C: over the whole space of sequences it climbs the expected reward, and its V is the policy's own."""

import pytest
import torch
from torch import Tensor

from algorithms.tabled import BLEU, EVERY, ONE, SPACE, payoffs, random_table, tabled
from algorithms.tiny import BATCH, REWARD, drawn, models, run
from seqcredit.algorithms import A2c, Models, Progress, rollout
from seqcredit.algorithms.a2c import state_values
from seqcredit.algorithms.along import Along
from seqcredit.credit.oracle.enumeration import evaluate, sequence_logp
from seqcredit.credit.values import entropy
from seqcredit.draws import Noise
from seqcredit.models.policy import Linear, Written
from seqcredit.types import Alphabet, lengths

ACTOR = random_table(1)


def values_of(actor: Tensor) -> Tensor:
    """V^pi of every node, as a table that says it of every word."""
    exact = evaluate(payoffs(), actor.log_softmax(-1), 0.0)
    return exact.value.unsqueeze(-1).repeat(1, SPACE.actions)


def expected_gradients(phase: A2c, critic: Tensor, monkeypatch: pytest.MonkeyPatch) -> dict[str, Tensor]:
    """Of both losses, over all sequences as the policy draws them."""
    nets = Models(tabled(ACTOR), tabled(critic))
    mass = sequence_logp(SPACE, ACTOR.log_softmax(-1)).exp()
    assert float(mass.sum()) == pytest.approx(1)
    found = {name: torch.zeros_like(ACTOR) for name in ("actor", "critic")}
    for row, share in enumerate(mass):
        monkeypatch.setattr(rollout, "sample", lambda *_, row=row: EVERY[[row]])
        losses = phase.loss(nets, ONE, BLEU, Noise(torch.Generator(), 1), Progress()).losses
        for name, net in (("actor", nets.actor), ("critic", nets.judge)):
            found[name] += share * torch.autograd.grad(losses[name], net.parameters())[0]
    return found


def climbing(beta: float) -> Tensor:
    """The gradient of the expected reward, and beta times that of the entropy of each state as often as it is met."""
    logits = ACTOR.clone().requires_grad_()
    logp = logits.log_softmax(-1)
    mass = sequence_logp(SPACE, logp).exp()
    met = torch.zeros(len(SPACE), dtype=torch.float64)
    for row, words in enumerate(lengths(EVERY).tolist()):
        met[SPACE.nodes(EVERY[[row]])[0, : words + 1]] += mass[row].detach()
    states = (met * entropy(logp).masked_fill(SPACE.forced, 0)).sum()
    (gradient,) = torch.autograd.grad((mass * payoffs().finished).sum() + beta * states, logits)
    return gradient


@pytest.mark.parametrize(
    ("trace", "steps", "exact"), [(1.0, 0, False), (1.0, 9, False), (0.0, 0, True), (0.6, 0, True), (1.0, 2, True)]
)
@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_on_average_it_climbs_the_expected_reward(
    trace: float, steps: int, exact: bool, beta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the end with any V at all, for a shorter sight with the right one."""
    phase = A2c("a2c", 0.1, entropy_weight=beta, trace=trace, steps=steps, extra_length=1)
    assert phase.longest_for(2) == SPACE.bound
    critic = values_of(ACTOR) if exact else random_table(2)
    found = expected_gradients(phase, critic, monkeypatch)
    torch.testing.assert_close(found["actor"], -climbing(beta), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("trace", "steps"), [(0.0, 0), (0.6, 0), (1.0, 0), (1.0, 2)])
def test_its_critic_rests_at_the_value_of_the_policy(trace: float, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    phase = A2c("a2c", 0.1, trace=trace, steps=steps, extra_length=1)
    at_rest = expected_gradients(phase, values_of(ACTOR), monkeypatch)["critic"]
    torch.testing.assert_close(at_rest, torch.zeros_like(at_rest), rtol=0, atol=1e-12)
    moved = expected_gradients(phase, values_of(ACTOR) + 0.1, monkeypatch)["critic"]
    assert (moved.sum() > 0.1).all()


@pytest.mark.parametrize(("trace", "steps"), [(0.7, 0), (0.7, 2), (1.0, 3), (0.0, 0)])
def test_advantages_and_targets_by_a_plain_loop(trace: float, steps: int) -> None:
    nets, bound = models(dropout=0.0), 5 + 2
    phase = A2c("a2c", 0.1, entropy_weight=0.0, trace=trace, steps=steps, extra_length=2)
    tokens = drawn(nets, bound)
    scores = REWARD.prefix_scores(tokens, BATCH.references)
    logp = nets.actor.score(nets.actor.encode(BATCH.source), tokens).table().log_softmax(-1).detach()
    values = nets.judge.score(nets.judge.encode(BATCH.references), tokens).table().mean(-1).detach()
    actor, critic = 0.0, 0.0
    for b, words in enumerate(lengths(tokens).tolist()):
        r = [float(scores[b, t + 1] - scores[b, t]) for t in range(words + 1)]
        v = [*values[b, : words + 1].tolist(), 0.0]
        for t in range(words + 1):
            ahead = range(t, min(words + 1, t + steps) if steps else words + 1)
            advantage = sum(trace ** (k - t) * (r[k] + v[k + 1] - v[k]) for k in ahead)
            critic += advantage**2
            actor -= 0.0 if t == bound - 1 else advantage * float(logp[b, t, tokens[b, t]])
    found = run(phase, nets).losses
    assert float(found["actor"].detach()) == pytest.approx(actor / 4, rel=1e-4)
    assert float(found["critic"].detach()) == pytest.approx(critic / 4, rel=1e-4)


def test_values_are_the_mean_of_what_a_critic_says_of_actions() -> None:
    torch.manual_seed(0)
    features, weight, bias = torch.randn(2, 3, 5), torch.randn(4, 5), torch.randn(4)
    actions = torch.tensor([True, False, True, True])
    for readout in (Linear(features, weight, bias), Linear(features, weight)):
        table = readout.table()
        for some, kept in ((None, table), (actions, table[..., actions])):
            for scores in (readout, Written(table)):
                found = state_values(Along(scores, Alphabet(4, actions=some)))
                torch.testing.assert_close(found, kept.mean(-1))


def test_the_actor_waits_for_its_critic() -> None:
    phase = A2c("a2c", 0.1, critic_first=3, critic_learning_rate=0.7, critic_clip=2.0)
    assert [phase.stride("actor", Progress(n, 9)) for n in (0, 2, 3, 8)] == [0, 0, 1, 1]
    assert phase.stride("critic", Progress(0, 9)) == 1
    assert (phase.rate("critic"), phase.rate("actor"), phase.clipping("critic"), phase.clipping("actor")) == (
        0.7,
        0.1,
        2.0,
        5.0,
    )
    assert A2c("a2c", 0.1).rate("critic") == 0.1
    assert phase.judged_tau == phase.later_tau == 0


def test_each_loss_reaches_its_own_network_and_what_is_watched_has_no_gradient() -> None:
    nets = models()
    found = run(A2c("a2c", 0.1, entropy_weight=0.2), nets)
    assert {"td", "return_error", "return", "entropy", "reward"} <= found.sums.keys()
    assert not any(part.requires_grad for pair in found.sums.values() for part in pair)
    found.losses["critic"].backward()
    assert all(weight.grad is None for weight in nets.actor.parameters())
    assert any(weight.grad is not None for weight in nets.judge.parameters())
