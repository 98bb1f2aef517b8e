"""Path consistency: nothing is inconsistent at the exact solution, and gradients are those of finite differences."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algorithms.tabled import ALL, BLEU, EVERY, SPACE, payoffs, random_table, tabled
from algorithms.tiny import BATCH, REWARD, drawn, equipped, models, run
from seqcredit.algorithms import Models, Pcl, Progress, rollout
from seqcredit.algorithms.pcl import ValueHead
from seqcredit.credit.oracle.enumeration import solve
from seqcredit.draws import Noise
from seqcredit.errors import UserError
from seqcredit.models.wrapped import Wrapped
from seqcredit.types import lengths, token_mask

TAU = 0.4


class Nodes(nn.Module):
    """Features that tell every node of the space apart."""

    def forward(self, source: Tensor, tokens: Tensor) -> Tensor:
        return nn.functional.one_hot(SPACE.nodes(tokens), len(SPACE)).double()


def networks(logits: Tensor, values: Tensor) -> Models:
    """An actor and a value of this."""
    readout, head = nn.Linear(len(SPACE), SPACE.actions, bias=False).double(), ValueHead(len(SPACE)).double()
    readout.weight.data, head.column.weight.data = logits.T.clone(), values.unsqueeze(0).clone()
    return Models(Wrapped(Nodes(), SPACE.actions, readout), own={"value": head})


def losses_of(nets: Models, monkeypatch: pytest.MonkeyPatch, **options: Any) -> dict[str, Tensor]:
    """Along all sequences of the space, each once, and along some near the reference."""
    monkeypatch.setattr(rollout, "sample", lambda *_: EVERY)
    phase = Pcl("pcl", 0.1, tau=TAU, extra_length=1, **options)
    noise = Noise(torch.Generator().manual_seed(0), len(EVERY))
    return phase.loss(nets, ALL, BLEU, noise, Progress()).losses


WAYS = [{"steps": 1, "off_policy": 0}, {"steps": 2, "off_policy": 3}, {"steps": 0, "off_policy": 1}]


@pytest.mark.parametrize("options", WAYS)
def test_nothing_is_inconsistent_at_the_exact_solution(options: dict[str, int], monkeypatch: Any) -> None:
    exact = solve(payoffs(), TAU)
    for value, logits, least in (
        (exact.value, exact.q / TAU, None),
        (exact.value + 0.01, exact.q / TAU, 5e-5),
        (exact.value, exact.q / TAU + 0.1 * random_table(), 1e-4),
    ):
        found = losses_of(networks(logits, value), monkeypatch, **options)
        for name in ("actor", "value"):
            assert float(found[name].detach()) < 1e-25 if least is None else float(found[name].detach()) > least


@pytest.mark.parametrize("options", WAYS)
def test_gradients_are_finite_differences(options: dict[str, int], monkeypatch: Any) -> None:
    logits, values = random_table(1), random_table(2)[:, 0]
    nets = networks(logits, values)
    found = losses_of(nets, monkeypatch, **options)
    weight, head = nets.actor.readout.weight, nets.own["value"].column.weight
    gradient, of_head = (torch.autograd.grad(found[n], w)[0] for n, w in (("actor", weight), ("value", head)))
    step = 1e-6

    def slope(move: Tensor, move_values: Tensor) -> float:
        ends = [
            losses_of(networks(logits + sign * move, values + sign * move_values), monkeypatch, **options)["actor"]
            for sign in (step, -step)
        ]
        return float((ends[0] - ends[1]).detach() / (2 * step))

    still = torch.zeros_like(values)
    for seed in range(3):
        move, move_values = random_table(seed + 5), random_table(seed + 9)[:, 1]
        assert float((gradient * move.T).sum()) == pytest.approx(slope(move, still), rel=1e-6)
        expected = slope(torch.zeros_like(logits), move_values)
        assert float((of_head[0] * move_values).sum()) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_the_residual_by_a_plain_loop(steps: int) -> None:
    """C = - V(s) + V(d tokens later) + sum of (r - tau log pi), of every state."""
    phase = Pcl("pcl", 0.1, tau=0.3, steps=steps, off_policy=0, extra_length=0, longest_sample=4)
    nets, bound = equipped(phase, models(dropout=0.0)), 4
    head = nets.own["value"].column
    head.weight.data.normal_(generator=torch.Generator().manual_seed(4))
    tokens = drawn(nets, bound)
    assert (lengths(tokens) == bound - 1).any()  # eos is forced there
    scores = REWARD.prefix_scores(tokens, BATCH.references)
    said = nets.actor.score(nets.actor.encode(BATCH.source), tokens)
    logp, values = said.table().log_softmax(-1), head(said.features).squeeze(-1)
    total = torch.zeros(())
    for b, words in enumerate(lengths(tokens).tolist()):
        for t in range(words + 1):
            end = min(t + (steps or 99), words + 1)
            residual = -values[b, t] + (values[b, end] if end <= words else 0.0)
            for k in range(t, end):
                surprise = 0.0 if k == bound - 1 else logp[b, k, tokens[b, k]]
                residual = residual + scores[b, k + 1] - scores[b, k] - 0.3 * surprise
            total = total + residual.square()
    found = phase.loss(nets, BATCH, REWARD, Noise(torch.Generator().manual_seed(3), 4), Progress()).losses
    torch.testing.assert_close(found["actor"], total / 4)
    expected = torch.autograd.grad(total / 4, [*nets.actor.parameters()], retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(found["actor"], [*nets.actor.parameters()]), expected)
    torch.testing.assert_close(*(torch.autograd.grad(x, head.weight)[0] for x in (found["value"], total / 4)))


def test_references_count_as_much_as_samples() -> None:
    """The mean over samples, and the mean over sequences near the reference, of which the first is itself."""
    phase = Pcl("pcl", 0.1, tau=0.3, samples=2, off_policy=1)
    nets = models(dropout=0.0)
    with_it, without = (run(replace(phase, off_policy=n), nets) for n in (1, 0))
    more = with_it.losses["actor"] - without.losses["actor"]
    total, count = with_it.sums["reference_residual"]
    torch.testing.assert_close(more.detach(), total / 4, rtol=1e-4, atol=1e-4)
    assert int(count) == int(token_mask(BATCH.references[:, 0]).sum())
    assert "reference_residual" not in without.sums


def test_a_model_that_shows_no_features_is_told_so() -> None:
    with pytest.raises(UserError, match="PCL's value is a readout of the actor's features, and this model shows none"):
        Pcl("pcl", 0.1).brings(tabled(random_table()), 1)


def test_its_settings() -> None:
    phase = Pcl("pcl", 0.1, value_learning_rate=0.4)
    assert [phase.rate(name) for name in phase.trains] == [0.1, 0.4]
    assert Pcl("pcl", 0.1).rate("value") == 0.1
    assert phase.judged_tau == phase.later_tau == 0.01
