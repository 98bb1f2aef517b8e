"""Whole algorithms do not depend on which id is which: another eos, another unk, ids that are no actions.

Every word keeps its weights under its new id. Sequences are drawn by cumulative sums over ids, which another order
changes; so what the first alphabet has drawn is given to the other one in its own ids.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from algorithms.tiny import EVERY_WAY, equipped, networks_of
from seqcredit.algorithms import (
    ActorCritic,
    Mle,
    Models,
    Outcome,
    Phase,
    Progress,
    Raml,
    SoftQ,
    Vaml,
    proposing,
    rollout,
)
from seqcredit.algorithms.erac import Judging
from seqcredit.algorithms.sampling import Sampling
from seqcredit.draws import Noise
from seqcredit.models.critic import Critic
from seqcredit.models.lstm import Seq2Seq
from seqcredit.models.policy import Network
from seqcredit.rewards import Bleu, OnlyFinished
from seqcredit.types import ABSENT, Alphabet, Batch, Reward, pad, pad_references

V, SENTENCES = 9, 4
BATCH = Batch(
    pad([[2, 3], [4], [5, 6, 2, 8, 3], [7, 2]]),
    pad_references([[[3, 2], [3]], [[4]], [[2, 6, 5, 7, 7, 2], [8, 6]], [[1, 5, 4], [8, 5]]]),
)
REWARD = Bleu(scaled=True, unk_matches=False, dtype=torch.float64)


class Relabelling(NamedTuple):
    """Another alphabet, and the id in it of each id of the first one; words keep their order, so proposals do too."""

    alphabet: Alphabet
    ids: Tensor

    @classmethod
    def of(cls, size: int, eos: int, unk: int, spare: tuple[int, ...] = ()) -> "Relabelling":
        actions = torch.ones(size, dtype=torch.bool)
        actions[list(spare)] = False
        alphabet = Alphabet(size, eos, unk, actions if spare else None)
        return cls(alphabet, torch.cat([torch.tensor([eos, unk]), alphabet.words()]))

    def tokens(self, tokens: Tensor) -> Tensor:
        return torch.where(tokens == ABSENT, tokens, self.ids[tokens.clamp(min=0)])


SAME = Relabelling.of(V, 0, 1)
OTHERS = {
    "eos and unk elsewhere": Relabelling.of(V, 5, 3),
    "eos is 1 and unk is 0": Relabelling.of(V, 1, 0),
    "spare ids": Relabelling.of(V + 3, 5, 10, (0, 4, 11)),
}


def network(kind: Callable[..., Network], mine: Relabelling, **options: Any) -> Network:
    """A network whose words have the same weights, whatever their ids are; spare ids have weights of their own."""
    torch.manual_seed(7)  # of spare ids
    given = {"embedding": 6, "hidden": 6, "generator": torch.Generator().manual_seed(3), **options}
    plain = (kind(V, Alphabet(V), **given) if kind is Seq2Seq else kind(Alphabet(V), **given)).double()
    other = (kind(V, mine.alphabet, **given) if kind is Seq2Seq else kind(mine.alphabet, **given)).double()
    known = dict(plain.named_parameters())
    with torch.no_grad():
        for name, weight in other.named_parameters():
            if in_ids(other, name):
                weight.normal_()
                weight[mine.ids] = 6 * known[name]
            else:
                weight.copy_(6 * known[name])
    return other


def in_ids(model: nn.Module, name: str) -> bool:
    """Whether a weight has a row for each id of the alphabet; an actor's source has ids of its own."""
    own = ("embedding.weight", "readout.weight", "readout.bias")
    return name in own or (name == "source_embedding.weight" and isinstance(model, Critic))


def networks(mine: Relabelling, copy: int) -> Models:
    made = Models(
        network(Seq2Seq, mine, dropout=0.3),
        network(Critic, mine, dropout=0.2, copy=copy, references="all"),
        network(Critic, mine, attention="dot", copy=copy),
        network(Seq2Seq, mine),
    )
    for frozen in (made.slow_judge, made.origin):
        frozen.requires_grad_(False).eval()
    return made


def outcome(phase: Phase, mine: Relabelling, copy: int, reward: Reward) -> tuple[Outcome, dict[str, Tensor]]:
    """What a phase says, and gradients with their rows in the order of the first alphabet."""
    models = equipped(phase, networks(mine, copy))
    batch = Batch(BATCH.source, mine.tokens(BATCH.references))
    found = phase.loss(models, batch, reward, Noise(torch.Generator().manual_seed(5), SENTENCES), Progress())
    gradients = {}
    for name, loss in found.losses.items():
        loss.backward()
        model = networks_of(models)[name]
        for key, weight in model.named_parameters():
            assert weight.grad is not None, key
            gradients[f"{name}.{key}"] = weight.grad[mine.ids] if in_ids(model, key) else weight.grad
            if in_ids(model, key):
                spare = torch.ones(len(weight), dtype=torch.bool)
                spare[mine.ids] = False
                assert not weight.grad[spare].any(), key
    return found, gradients


class Drawn:
    """Draws as usual and remembers, or says again what was drawn, in other ids."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.known: list[Tensor] = []
        self.again: Relabelling | None = None
        self.count = 0
        self.sample = rollout.sample
        for module in (rollout, proposing):
            monkeypatch.setattr(module, "sample", self)

    def __call__(self, *given: Any, **named: Any) -> Tensor:
        if self.again is None:
            self.known.append(self.sample(*given, **named))
            return self.known[-1]
        self.count += 1
        return self.again.tokens(self.known[self.count - 1])


MORE: dict[str, Phase] = {
    "raml, corrupted": Raml("raml", 1.0, proposal="corrupt", corruption=0.4),
    "raml, likely words": Raml("raml", 1.0, words="likely", samples=7),
    "soft Q, corrupted": SoftQ("q", 1.0, proposal="corrupt", corruption=0.4, exact_eos=0.5),
}


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("case", [*EVERY_WAY, *MORE])
def test_losses_and_gradients_are_those_of_the_first_alphabet(
    case: str, other: str, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    phase, copy = replace({**EVERY_WAY, **MORE}[case], fused=fused), 5 if "eos" in other else 0
    drawn = Drawn(monkeypatch)
    reward = OnlyFinished(REWARD) if "exact eos" in case else REWARD
    expected, gradients = outcome(phase, SAME, copy, reward)
    drawn.again = OTHERS[other]
    found, mine = outcome(phase, OTHERS[other], copy, reward)
    draws = "policy" in case or "mixed" in case or isinstance(phase, Judging | Sampling)
    assert drawn.count == len(drawn.known) == int(draws)
    torch.testing.assert_close(found.losses, expected.losses, rtol=1e-10, atol=1e-12)
    assert found.sums.keys() == expected.sums.keys()
    for key, (total, count) in expected.sums.items():
        assert float(found.sums[key][0]) == pytest.approx(float(total), rel=1e-10, abs=1e-12), key
        assert int(found.sums[key][1]) == int(count), key
    assert mine.keys() == gradients.keys()
    for key, gradient in gradients.items():
        torch.testing.assert_close(
            mine[key], gradient, rtol=1e-9, atol=1e-11, msg=lambda text, key=key: f"{key}: {text}"
        )
    assert all(gradient.any() for key, gradient in gradients.items() if "readout" in key)


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize(
    "phase",
    [
        Raml("ngrams", 0.1, samples=4),
        SoftQ("corrupted", 0.1, proposal="corrupt"),
        Vaml("likely", 0.1, words="likely"),
        SoftQ("policy", 0.1, proposal="policy"),
        SoftQ("mixed", 0.1, proposal="mixed"),
    ],
    ids=lambda phase: phase.name,
)
def test_proposals_are_the_same_words(phase: Raml | SoftQ, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, noise, drawn = OTHERS[other], lambda: Noise(torch.Generator().manual_seed(5), SENTENCES), Drawn(monkeypatch)
    critics = [networks(each, 0).judge for each in (SAME, mine)]
    first = phase.propose(BATCH, noise(), critics[0])
    drawn.again = mine
    second = phase.propose(Batch(BATCH.source, mine.tokens(BATCH.references)), noise(), critics[1])
    assert torch.equal(second.tokens, mine.tokens(first.tokens))
    assert torch.equal(second.fork, first.fork)
    assert (first.tokens != first.tokens[:, :1]).any()


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("phase", [Mle("mle", 0.1), ActorCritic("ac", 0.1, samples=2)], ids=["mle", "actor_critic"])
def test_samples_never_hold_a_spare_id_and_end_with_eos(
    phase: Phase, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawn by the alphabet's own network, however much its spare ids weigh."""
    mine, drawn = OTHERS[other], Drawn(monkeypatch)
    models = networks(mine, 0)
    spare = torch.ones(mine.alphabet.size, dtype=torch.bool)
    spare[mine.ids] = False
    with torch.no_grad():
        models.actor.readout.bias[spare] = 100.0
    batch = Batch(BATCH.source, mine.tokens(BATCH.references))
    phase.loss(models, batch, REWARD, Noise(torch.Generator().manual_seed(5), SENTENCES), Progress())
    assert len(drawn.known) == isinstance(phase, ActorCritic)
    for tokens in drawn.known:
        assert torch.isin(tokens, mine.ids).all()
        eos = mine.alphabet.eos
        ended = (tokens == eos).cumsum(-1) > 0
        assert (tokens[ended] == eos).all()
        assert ended[:, -1].all()
