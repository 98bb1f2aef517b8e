"""What all phases have in common: whom they train, that a shared batch adds up, how long they last, at which rates."""

import math
from dataclasses import dataclass

import pytest
import torch

from algorithms.tiny import BATCH, gradients, models, run
from seqcredit.algorithms import ActorCritic, Criterion, Critic, Mle, Phase, Progress, Raml, SoftQ, Vaml
from seqcredit.algorithms.phase import count as rows_of
from seqcredit.algorithms.phase import unless_edit
from seqcredit.errors import UserError
from seqcredit.rewards import Hamming
from seqcredit.rewards.payoff import Payoff
from seqcredit.training.learner import Learner
from seqcredit.types import Batch

PHASES: dict[str, Phase] = {
    "mle": Mle("mle", 0.1),
    "raml": Raml("raml", 0.1, samples=3),
    "soft_q": SoftQ("soft_q", 0.1, samples=3, look_ahead="target"),
    "vaml": Vaml("vaml", 0.1, samples=3, kappa=0.4, kappa_draws=True),
    "critic": Critic("critic", 0.1, extra_length=2),
    "actor_critic": ActorCritic("actor_critic", 0.1, samples=2, extra_length=2),
}
DRAWN: dict[str, Phase] = {
    "soft_q, mixed": SoftQ("soft_q", 0.1, samples=4, proposal="mixed", steps=2, exact_eos=0.5),
    "soft_q, policy": SoftQ("soft_q", 0.1, samples=3, proposal="policy", bound=9),
    "vaml, policy": Vaml("vaml", 0.1, samples=3, proposal="policy"),
}


@pytest.mark.parametrize("case", [*PHASES, *DRAWN])
def test_shares_of_a_batch_add_up_to_the_batch(case: str) -> None:
    """Losses, gradients and all that is watched: two processes are one."""
    whole_nets, part_nets, phase = models(), models(), {**PHASES, **DRAWN}[case]
    whole = run(phase, whole_nets)
    parts = []
    for first, rows in ((0, 3), (3, 1)):
        share = Batch(BATCH.source[first : first + rows], BATCH.references[first : first + rows])
        parts.append(run(phase, part_nets, share, first=first, rows=rows))
    for key, loss in whole.losses.items():
        torch.testing.assert_close(loss, sum(part.losses[key] for part in parts), rtol=1e-5, atol=1e-6)
        for outcome in (whole, *parts):
            outcome.losses[key].backward(retain_graph=True)
    for one, other in zip((whole_nets.actor, whole_nets.judge), (part_nets.actor, part_nets.judge), strict=True):
        for a, b in zip(one.parameters(), other.parameters(), strict=True):
            assert (a.grad is None) == (b.grad is None)
            if a.grad is not None:
                torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)
    for key, (total, count) in whole.sums.items():
        torch.testing.assert_close(float(total), float(sum(part.sums[key][0] for part in parts)), rtol=1e-5, atol=1e-5)
        assert int(count) == sum(int(part.sums[key][1]) for part in parts)


@pytest.mark.parametrize(
    ("name", "trained"),
    [
        ("mle", {"actor"}),
        ("raml", {"actor"}),
        ("soft_q", {"critic"}),
        ("vaml", {"actor"}),
        ("critic", {"critic"}),
        ("actor_critic", {"actor", "critic"}),
    ],
)
def test_only_the_networks_of_the_phase_get_gradients(name: str, trained: set[str]) -> None:
    nets, phase = models(), PHASES[name]
    outcome = run(phase, nets)
    for loss in outcome.losses.values():
        loss.backward(retain_graph=True)
    assert {net for net, has in gradients(nets).items() if has} == trained
    assert outcome.losses.keys() == {*phase.trains} == trained


@pytest.mark.parametrize(
    ("epochs", "updates", "lengths"),
    [(2, 0, [8, 8]), (2, 8, [8]), (2, 9, [8, 1]), (2, 16, [8, 8]), (2, 99, [8, 8]), (0, 5, []), (3, 2, [2])],
)
def test_the_length_of_every_epoch(epochs: int, updates: int, lengths: list[int]) -> None:
    assert Mle("mle", 0.1, epochs=epochs, updates=updates).lengths(8) == lengths


def test_the_merit_of_an_error_is_higher_the_smaller_it_is() -> None:
    assert Criterion("bleu", 30.0).merit > Criterion("bleu", 20.0).merit
    assert Criterion("td", 0.2, higher=False).merit > Criterion("td", 0.3, higher=False).merit


def test_rates_and_temperatures_where_a_phase_says_nothing_else() -> None:
    phase = Mle("mle", 0.1, clip=3.0)
    assert (phase.rate("actor"), phase.clipping("actor")) == (0.1, 3.0)
    assert (phase.judged_tau, phase.later_tau) == (None, 0)
    assert SoftQ("q", 0.1, tau=0.4).later_tau == 0.4


def test_rows_are_counted() -> None:
    assert int(rows_of(torch.zeros(3, 2))) == 3


def test_how_far_a_phase_has_come() -> None:
    assert [Progress(done, 8).share for done in (0, 2, 8, 9)] == [0, 0.25, 1, 1]
    assert Progress().share == 0


def rates(phase: Phase, updates: int = 20) -> list[float]:
    """What is left of the learning rate at every update, by schedule."""
    found, left = [], 1.0
    for done in range(updates):
        found.append(left * phase.warmth(Progress(done, updates)))
        left *= phase.annealing(done + 1, updates)
    return [*found, left]


def test_rates_rise_in_a_line_and_fall_in_a_line_or_along_a_cosine() -> None:
    rise = [(n + 1) / 5 for n in range(5)]
    assert rates(Mle("mle", 0.1)) == [1.0] * 21
    assert rates(Mle("mle", 0.1, warmup=5)) == pytest.approx([*rise, *[1.0] * 16])
    assert rates(Mle("mle", 0.1, anneal=True)) == pytest.approx([1 - n / 20 for n in range(21)])
    line = [*rise, *(1 - n / 15 for n in range(16))]
    assert rates(Mle("mle", 0.1, anneal=True, warmup=5)) == pytest.approx(line)
    wave = [(1 + math.cos(math.pi * n / 15)) / 2 for n in range(16)]
    cosine = Mle("mle", 0.1, anneal=True, anneal_form="cosine", warmup=5)
    assert rates(cosine) == pytest.approx([*rise, *wave], abs=1e-12)
    assert rates(cosine)[-1] == 0
    assert rates(Mle("mle", 0.1, anneal=True, warmup=30)) == pytest.approx([*((n + 1) / 30 for n in range(20)), 1])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"weight_decay": 0.1}, "Mle: weight_decay is 0.1, but sgd has none; set optimizer to 'adamw'."),
        (
            {"weight_decay": 0.1, "optimizer": "adam"},
            "Mle: weight_decay is 0.1, but adam has none; set optimizer to 'adamw'.",
        ),
        ({"anneal_form": "cosine"}, "Mle: anneal_form is 'cosine', but nothing is annealed; set anneal to true."),
    ],
)
def test_an_option_that_does_nothing_is_an_error(options: dict[str, object], said: str) -> None:
    with pytest.raises(UserError) as raised:
        Mle("mle", 0.1, **options)  # type: ignore[arg-type]
    assert str(raised.value) == said
    Mle("mle", 0.1, "adamw", weight_decay=0.1, anneal=True, anneal_form="cosine")


def test_options_are_checked_as_all_are() -> None:
    with pytest.raises(UserError, match=r"^Mle: clip is 0.0, but it must be above 0 and finite\.$"):
        Mle("mle", 0.1, clip=0.0)


def test_credit_of_the_edit_distance_wants_its_payoff() -> None:
    assert unless_edit(Payoff("edit")) is None
    said = "its credit is that of the edit distance, and the pay-off is bleu: set metric to 'edit'."
    assert unless_edit(Payoff("bleu")) == said


def test_batches_by_tokens_are_of_sentences_of_like_length() -> None:
    with pytest.raises(UserError, match=r"^Mle: batch_tokens is 500, .* set sort_by to 'both'\.$"):
        Mle("mle", 0.1, batch_tokens=500)
    assert Mle("mle", 0.1, batch_size=20).batch_weight(10) == 1  # the mean of a batch that is not full is a mean


def test_by_tokens_a_pair_counts_as_much_as_in_a_batch_of_the_given_size() -> None:
    """Whatever batch it is in: of an update's gradient, batches of one and three are a batch of four."""
    steps = []
    for sizes in ((4,), (1, 3)):
        nets = models()
        nets.actor.dropout = 0.0
        phase = Mle("mle", 0.1, sort_by="both", batch_tokens=500, batch_size=4, clip=1e9)
        learner = Learner({"actor": nets.actor}, phase, Hamming())
        before, first = nets.actor.readout.bias.detach().clone(), 0
        moved = torch.zeros_like(before)
        for rows in sizes:
            learner.update(Batch(BATCH.source[first : first + rows], BATCH.references[first : first + rows]))
            moved += nets.actor.readout.bias.detach() - before
            with torch.no_grad():
                for weight, was in zip(nets.actor.parameters(), models().actor.parameters(), strict=True):
                    weight.copy_(was)
            first += rows
        steps.append(moved)
    torch.testing.assert_close(*steps, rtol=1e-4, atol=1e-6)


def test_a_network_has_a_rate_and_a_norm_of_its_own_where_they_are_given() -> None:
    """Also of a phase of the user's own, whose options are called so."""

    @dataclass(frozen=True)
    class Helped(Mle):
        helper_learning_rate: float | None = None
        helper_clip: float | None = 4.0

    for phase, rate in ((Helped("h", 0.1, clip=2.0), 0.1), (Helped("h", 0.1, clip=2.0, helper_learning_rate=0.0), 0.0)):
        assert [(phase.rate(name), phase.clipping(name)) for name in ("actor", "helper")] == [(0.1, 2.0), (rate, 4.0)]
