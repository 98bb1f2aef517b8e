"""Beam search optimisation: violations, restarts and gradients against the definition, written with lists."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from algorithms.tiny import BATCH, REWARD, V, models, noise, run
from seqcredit.algorithms import Bso, Models, Progress
from seqcredit.algorithms.bso import violations
from seqcredit.errors import UserError
from seqcredit.models.lstm import Seq2Seq
from seqcredit.models.wrapped import Wrapped
from seqcredit.rewards import Bleu
from seqcredit.types import EOS, pad


class Hit(NamedTuple):
    sentence: int
    place: int
    won: list[int]
    gap: Tensor


def plain(net: Seq2Seq, width: int, margin: float = 1.0) -> Iterator[Hit]:
    """Sentence by sentence, hypotheses as lists of words, every score from the beginning."""
    for b, reference in enumerate(BATCH.references[:, 0].tolist()):
        reference = reference[: reference.index(EOS) + 1]
        beam: list[list[int]] = [[]]
        for t, right in enumerate(reference):
            found = []
            for words in beam:
                said = net.score(net.encode(BATCH.source[[b]]), pad([words], t + 1)).table()[0, t]
                found += [(said[w], [*words, w]) for w in range(V)]
            (wanted,) = (score for score, words in found if words == reference[: t + 1])
            others = sorted(
                ((score, words) for score, words in found if words != reference[: t + 1]),
                key=lambda pair: -float(pair[0].detach()),
            )
            wins = [others[0 if right == EOS else width - 2], *(pair for pair in others if pair[1][-1] == EOS)]
            rival, won = max(wins, key=lambda pair: float(pair[0].detach()))
            beam = [reference[: t + 1]]
            if wanted < margin + rival:
                yield Hit(b, t, won, margin - wanted + rival)
            else:
                beam += [words for _, words in others[: width - 1] if words[-1] != EOS]


def net(scale: float = 1.0) -> Seq2Seq:
    made = models(dropout=0.0).actor.double()
    for weight in made.parameters():
        weight.data *= scale
    return made


@pytest.mark.parametrize(("width", "margin"), [(2, 0.0), (3, 0.3), (6, 1.0), (8, 1.0)])
def test_violations_and_gradients_by_lists(width: int, margin: float) -> None:
    actor = net(2.0)
    expected = list(plain(actor, width, margin))
    words = int((BATCH.references[:, 0] != EOS).sum()) + 4
    assert 0 < len(expected) < words  # some are, some are not
    phase = Bso("bso", 0.1, width=width, margin=margin)
    found = run(phase, Models(actor))
    total = torch.stack([hit.gap for hit in expected]).sum() / 4
    torch.testing.assert_close(found.losses["actor"], total)
    assert [int(x) for x in found.sums["violations"]] == [len(expected), words]
    gradients = [torch.autograd.grad(loss, [*actor.parameters()]) for loss in (found.losses["actor"], total)]
    torch.testing.assert_close(*gradients)
    memory, tokens = actor.encode(BATCH.source), BATCH.references[:, 0]
    wanted = actor.score(memory, tokens).table().gather(-1, tokens.unsqueeze(-1)).squeeze(-1).detach()
    where = violations(actor, memory, tokens, wanted, width, margin)
    mine = zip(where.sentence.tolist(), where.place.tolist(), where.tokens.tolist(), strict=True)
    assert sorted((b, t, said[: t + 1]) for b, t, said in mine) == sorted(hit[:3] for hit in expected)


def test_a_violation_costs_what_its_hypothesis_lacks() -> None:
    actor = net()
    bleu = Bleu(dtype=torch.float64)  # not scaled by length
    expected = torch.zeros((), dtype=torch.float64)
    for b, t, won, gap in plain(actor, 3):
        cost = 1 - bleu.prefix_scores(torch.tensor([won]), BATCH.references[[b]])[0, t + 1]
        assert 0 <= float(cost) <= 1
        expected = expected + cost * gap.detach()
    found = run(Bso("bso", 0.1, width=3, cost="reward"), Models(actor), reward=Bleu(scaled=True, dtype=torch.float64))
    torch.testing.assert_close(found.losses["actor"].detach(), expected / 4)


class Sure(nn.Module):
    """Says the reference of the only sentence, by so much, and nothing after any other words."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.tensor(by, dtype=torch.float64))

    def forward(self, source: Tensor, tokens: Tensor) -> Tensor:
        known = torch.tensor([3, 4, 5, EOS, EOS, EOS])[: tokens.shape[1]]
        so_far = nn.functional.pad((tokens == known).long().cumprod(1), (1, -1), value=1)
        return self.by * so_far.unsqueeze(-1) * nn.functional.one_hot(known, V)


@pytest.mark.parametrize(("by", "hits"), [(1.5, 0), (0.5, 4)])
def test_a_reference_that_wins_by_the_margin_costs_nothing(by: float, hits: int) -> None:
    actor = Wrapped(Sure(by), V)
    one = type(BATCH)(*(half[:1] for half in BATCH))
    found = Bso("bso", 0.1, width=2).loss(Models(actor), one, REWARD, replace(noise(), total=1, rows=1), Progress())
    assert int(found.sums["violations"][0]) == hits
    loss = found.losses["actor"]
    assert float(loss.detach()) == pytest.approx(hits * (1 - by))
    loss.backward()
    assert float(actor.module.by.grad) == -hits


def test_the_beam_grows_over_the_phase() -> None:
    phase = Bso("bso", 0.1, width=5, first_width=2)
    assert [phase.beam(Progress(n, 100)) for n in (0, 24, 25, 50, 75, 99, 100)] == [2, 2, 3, 4, 5, 5, 5]
    assert {Bso("bso", 0.1, width=4).beam(Progress(n, 10)) for n in (0, 9)} == {4}
    for wrong in (1, 5):
        with pytest.raises(
            UserError, match=f"^Bso: first_width is {wrong}, but it must be 0, or from 2 to width, which"
        ):
            Bso("bso", 0.1, width=4, first_width=wrong)


def test_the_same_dropout_for_both_sides() -> None:
    """What drops half of everything still finds the reference equal to itself: a beam without others has no rival."""
    nets = models(dropout=0.5)
    first, again = (run(Bso("bso", 0.1, width=3), nets).losses["actor"].detach() for _ in range(2))
    assert torch.equal(first, again)
    dry = run(Bso("bso", 0.1, width=3), nets._replace(actor=nets.actor.eval())).losses["actor"].detach()
    assert not torch.equal(first, dry)
