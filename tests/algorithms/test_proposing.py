"""Sequences near the reference: those that a phase asks for, from the soft policy of Q too, and their diversity."""

from typing import Any

import pytest
import torch
from torch import Tensor

from algorithms.tiny import BATCH, REWARD, V, models, noise
from seqcredit.algorithms import Raml, SoftQ, Vaml
from seqcredit.algorithms.along import likelihood
from seqcredit.algorithms.proposing import along, diversity, prefix_scores
from seqcredit.draws import Noise
from seqcredit.errors import UserError
from seqcredit.models.critic import Critic
from seqcredit.models.policy import Written
from seqcredit.rewards.payoff import Payoff
from seqcredit.types import Alphabet, Batch, lengths, pad


class Certain(Critic):
    """Wants one word at every place and then eos, whatever the reference is."""

    def __init__(self, *words: int) -> None:
        super().__init__(V, 6, 6, generator=torch.Generator().manual_seed(1))
        self.wanted, self.place = [*words, *[0] * 20], 0

    def start(self, memory: Any) -> Any:
        self.place = 0
        return super().start(memory)

    def step(self, memory: Any, state: Any, token: Tensor | None, dropout: Tensor | None = None) -> tuple[Any, Any]:
        _, after = super().step(memory, state, token, dropout)
        scores = torch.zeros(memory.rows, V)
        scores[:, self.wanted[self.place]] = 50
        self.place += 1
        return Written(scores), after


@pytest.mark.parametrize(("kind", "drawn"), [("policy", 4), ("mixed", 2)])
def test_what_is_drawn_is_what_q_wants(kind: str, drawn: int) -> None:
    phase = SoftQ("q", 0.1, samples=5, tau=0.5, proposal=kind)  # type: ignore[arg-type]
    tokens, fork = phase.propose(BATCH, noise(), Certain(8, 8, 3))
    assert tokens.shape == (4, 5, BATCH.references.shape[-1] + 5)
    assert torch.equal(tokens[:, 0, : BATCH.references.shape[-1]], BATCH.references[:, 0])
    wanted = (tokens == pad([[8, 8, 3]], tokens.shape[-1])).all(-1)
    assert wanted[:, -drawn:].all()
    assert not wanted[:, :-drawn].any()
    assert fork[:, -drawn:].tolist() == [[n] * drawn for n in (0, 0, 3, 0)]  # the third reference begins in that way
    bounded = SoftQ("q", 0.1, samples=2, tau=0.5, proposal="policy", bound=3)
    assert bounded.propose(BATCH, noise(), Certain(8, 8, 3)).tokens[0, 1].tolist() == [8, 8, 0, 0, 0, 0]


@pytest.mark.parametrize("kind", ["ngram", "mixed"])
def test_likely_words_are_proposed_where_a_phase_wants_them(kind: str) -> None:
    """With thousands of words to choose from, only likely ones repeat those of the reference."""
    critic, share = models(dropout=0.0).judge, {}
    critic.alphabet = Alphabet(5_000)
    for words in ("uniform", "likely"):
        phase = SoftQ("q", 0.1, samples=8, proposal=kind, words=words)  # type: ignore[arg-type]
        reference, *replaced = phase.propose(BATCH, noise(), critic).tokens[:, :4].unbind(1)
        new = torch.stack([(row != reference) & (reference != 0) for row in replaced])
        known = torch.stack([(row.unsqueeze(-1) == reference.unsqueeze(1)).any(-1) for row in replaced])
        share[words] = float(known[new].float().mean())
    assert share["uniform"] < 0.05 < 0.3 < share["likely"]


def test_corrupted_tokens_are_proposed_at_their_rate() -> None:
    several = Batch(BATCH.source[2:3].expand(200, -1), BATCH.references[2:3].expand(200, -1, -1))
    phase = SoftQ("q", 0.1, samples=5, proposal="corrupt", corruption=0.3)
    tokens = phase.propose(several, Noise(torch.Generator().manual_seed(2), 200), models().judge).tokens
    changed = (tokens[:, 1:] != tokens[:, :1])[..., :5].float().mean()
    assert float(changed) == pytest.approx(0.3 * 6 / 7, abs=0.03)  # one of the seven words is the same one


def test_draws_follow_the_soft_policy_at_its_temperature() -> None:
    """The first word of many draws, against softmax(Q / tau)."""
    critic, many = models(dropout=0.0).judge, 400
    batch = Batch(BATCH.source[:1].expand(many, -1), BATCH.references[:1].expand(many, -1, -1))
    phase = SoftQ("q", 0.1, samples=11, tau=0.4, proposal="policy")
    tokens = phase.propose(batch, Noise(torch.Generator().manual_seed(2), many), critic).tokens
    memory = critic.encode(BATCH.references[:1])
    q = critic.step(memory, critic.start(memory), None)[0].table()[0].detach()
    found = torch.bincount(tokens[:, 1:, 0].flatten(), minlength=V) / (many * 10)
    torch.testing.assert_close(found, (q / 0.4).softmax(-1), atol=0.03, rtol=0)
    assert float((found - q.softmax(-1)).abs().max()) > 0.06


def test_diversity_by_hand() -> None:
    """Neighbours in a ring differ in 1 word of 3, 2 of 4 (one replaced, one more) and 1 of 4; the others in none."""
    tokens = torch.stack([pad([[2, 3, 4], [2, 5, 4], [2, 3, 4, 6]], 6), pad([[2, 2]] * 3, 6)])
    found = diversity(tokens, Alphabet(V))
    assert float(found["diversity"][0]) == pytest.approx(1 / 3 + 2 / 4 + 1 / 4)
    assert int(found["distinct"][0]) == 3 + 1
    assert int(found["diversity"][1]) == int(found["distinct"][1]) == 6


def test_its_temperature_and_its_bound() -> None:
    phase = SoftQ("q", 0.1, tau=0.3, bound=9)
    assert phase.judged_tau == 0.3
    assert [phase.longest_for(words) for words in (2, 20)] == [9, 9]


def test_its_options_are_checked_alone_and_together() -> None:
    for options, said in (
        ({"tau": 0.0}, "tau is 0.0"),
        ({"proposal": "corrupt", "words": "likely"}, "replaces no n-grams"),
        ({"proposal": "policy", "words": "likely"}, "replaces no n-grams"),
        ({"proposal": "exact", "words": "likely"}, "replaces no n-grams"),
    ):
        with pytest.raises(UserError, match=said):
            SoftQ("q", 0.1, **options)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="choose one of ngram, corrupt, exact, policy"):
        Vaml("v", 0.1, proposal="mixed")


@pytest.mark.parametrize(("bound", "forced"), [(4, [5]), (6, [5]), (7, []), (9, [])])
def test_a_longer_reference_moves_the_bound_of_its_batch(bound: int, forced: list[int]) -> None:
    tokens = pad([[2, 3, 4, 5, 6], [2]], 6).unsqueeze(0)
    found = SoftQ("q", 0.1, bound=bound).bounded(tokens)
    assert found.shape == tokens.shape
    assert found[0, 0].nonzero().flatten().tolist() == forced


@pytest.mark.parametrize("feeding", [False, True])
def test_scores_are_the_same_whether_sequences_share_their_beginnings_or_not(feeding: bool) -> None:
    """Input feeding cannot share them."""
    critic = Critic(V, 6, 6, input_feeding=feeding, dropout=0.3, generator=torch.Generator().manual_seed(1))
    proposals = SoftQ("q", 0.1, samples=3).propose(BATCH, noise(), critic)
    tokens, memory, weights = proposals.tokens, critic.encode(BATCH.references), torch.linspace(1, 2, 12).view(4, 3)
    dropout = critic.drop(tokens.shape[-1], noise())
    assert dropout is not None
    shared, apart, plain = (
        along(critic, memory, proposals, dropout, *how) for how in ((True,), (True, False), (False,))
    )
    assert (shared.packing is None) == feeding
    assert apart.packing is plain.packing is None
    assert (shared.fused, apart.fused, plain.fused) == (True, True, False)
    for m in range(3):
        torch.testing.assert_close(apart.table[:, m], critic.score(memory, tokens[:, m], dropout).table())
    for other in (shared, apart):
        torch.testing.assert_close(likelihood(other, tokens, weights), likelihood(plain, tokens, weights))


def test_prefix_scores_of_every_sequence_against_the_references_of_its_sentence() -> None:
    tokens = SoftQ("q", 0.1, samples=3).propose(BATCH, noise(), models().judge).tokens
    found = prefix_scores(REWARD, Alphabet(V), tokens, BATCH)
    for m in range(3):
        torch.testing.assert_close(found[:, m], REWARD.prefix_scores(tokens[:, m], BATCH.references))


def test_samples_of_p_r_stand_beside_the_reference() -> None:
    """Within the bound, which a longer reference moves."""
    for bound, widest in ((4, 6), (9, 9)):
        phase = Raml("raml", 0.1, proposal="exact", tau=0.3, samples=200, bound=bound)
        tokens, fork = phase.propose(BATCH, noise(), models().actor)
        assert tokens.shape == (4, 200, widest)
        assert torch.equal(tokens[:, 0, :6], BATCH.references[:, 0])
        assert int(lengths(tokens).max()) == widest - 1
        before = torch.arange(widest) < fork.unsqueeze(-1)
        assert ((tokens == tokens[:, :1]) | ~before).all()


def test_p_r_is_known_for_one_pay_off() -> None:
    exact = SoftQ("q", 0.1, proposal="exact")
    assert exact.check(Payoff(metric="edit", references="own")) is None
    assert Raml("raml", 0.1).check(Payoff()) is None
    for other in (Payoff(references="own"), Payoff(metric="edit"), Payoff("edit", scaled=False, references="own")):
        assert "P_R can only be drawn from for" in (exact.check(other) or "")
    with pytest.raises(UserError, match="set samples to 2 or more"):
        SoftQ("q", 0.1, proposal="exact", samples=1)
