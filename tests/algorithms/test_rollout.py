"""Samples of the actor, and what is worth watching of them."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from algorithms.tiny import BATCH, EVERY_WAY, REWARD, V, drawn, models, noise, run
from seqcredit.algorithms import Phase, Reinforce
from seqcredit.algorithms.exact import RolloutJudge
from seqcredit.algorithms.phase import Examples
from seqcredit.algorithms.rollout import Asked, repeated_bigrams, roll_out, spread, watch
from seqcredit.rewards import Bleu, OnlyFinished, TextReward
from seqcredit.types import ABSENT, EOS, UNK, Alphabet, Batch, lengths, pad, pad_references, token_mask


def test_repeated_bigrams() -> None:
    assert int(repeated_bigrams(pad([[2, 3, 2, 3, 2], [4, 4, 4], [5, 6, 7]]), EOS)) == 2 + 1
    assert int(repeated_bigrams(pad([[2, 3, 4, 3], [3, 2, 3, 4]]), EOS)) == 0  # words again, but no two of them
    empty: Tensor = repeated_bigrams(pad([[], [2]]), EOS)
    assert int(empty) == 0


def test_what_the_variance_of_returns_is_made_of() -> None:
    returns, real = torch.tensor([[1.0, 2.0, 9.0], [4.0, 9.0, 9.0]]), torch.tensor([[1, 1, 0], [1, 0, 0]]).bool()
    found = {key: (float(total), int(number)) for key, (total, number) in spread(returns, real).items()}
    assert found == {"return": (7.0, 3), "return_square": (21.0, 3)}


def test_the_same_network_samples_and_is_scored() -> None:
    """With dropout: the words that were drawn are those of the distribution that the loss sees."""
    nets, bound = models(dropout=0.3), 7
    rollout = roll_out(nets.actor, BATCH, REWARD, noise(), Asked(1, bound, True, False, False))
    assert torch.equal(rollout.tokens, drawn(nets, bound))
    several = noise()
    dropout, uniform = nets.actor.drop(bound, several), several.uniform(bound)
    assert dropout is not None
    logits = rollout.actor.scores.table()
    torch.testing.assert_close(
        logits, nets.actor.score(nets.actor.encode(BATCH.source), rollout.tokens, dropout).table()
    )
    free = token_mask(rollout.tokens) & (torch.arange(rollout.tokens.shape[1]) < bound - 1)
    reached = logits.softmax(-1).cumsum(-1).gather(-1, rollout.tokens.unsqueeze(-1)).squeeze(-1)
    assert (reached >= uniform[:, : reached.shape[1]] - 1e-6)[free].all()


@pytest.mark.parametrize("fused", [True, False])
def test_references_are_scored_in_the_same_pass_as_if_they_were_alone(fused: bool) -> None:
    nets, bound = models(dropout=0.3), 4  # shorter than the longest reference
    rollout = roll_out(nets.actor, BATCH, REWARD, noise(), Asked(2, bound, fused, False, True))
    actor, known, several = nets.actor, BATCH.references[:, 0], noise().repeated(2)
    dropout, _ = actor.drop(bound, several), several.uniform(bound)
    own = actor.drop(known.shape[1], several.__class__(several.generator, 4))
    memory = actor.encode(BATCH.source)
    assert rollout.reference is not None
    expected = actor.score(memory, known, own).table()
    real = token_mask(known)
    torch.testing.assert_close(rollout.reference[0].scores.table()[real], expected[real])
    twice = memory.select(torch.arange(4).repeat_interleave(2))
    mine = token_mask(rollout.tokens)
    drawn_alone = actor.score(twice, rollout.tokens, dropout).table()
    torch.testing.assert_close(rollout.actor.scores.table()[mine], drawn_alone[mine])
    assert rollout.forced.tolist() == [[t == bound - 1 for t in range(rollout.tokens.shape[1])]] * 8


def test_what_eos_would_add() -> None:
    nets, late = models(dropout=0.0), OnlyFinished(REWARD)
    rollout = roll_out(nets.actor, BATCH, late, noise(), Asked(1, 7, True, True, False))
    assert rollout.ends is not None
    whole = REWARD.prefix_scores(rollout.tokens, BATCH.references)[:, :-1]
    unfinished = (torch.arange(whole.shape[1]) <= lengths(rollout.tokens).unsqueeze(1)) & (
        torch.arange(whole.shape[1]) < rollout.tokens.shape[1]
    )
    torch.testing.assert_close(rollout.ends[unfinished], whole[unfinished])
    assert roll_out(nets.actor, BATCH, late, noise(), Asked(1, 7, True, False, False)).ends is None
    at_once = roll_out(nets.actor, BATCH, REWARD, noise(), Asked(1, 7, True, True, False))
    assert at_once.scores.any()
    assert at_once.ends is not None
    assert not at_once.ends.any()  # prefixes have their score already


def test_what_is_watched_by_hand() -> None:
    nets = models(dropout=0.0)
    rollout = roll_out(nets.actor, BATCH, REWARD, noise(), Asked(1, 7, True, False, False))
    tokens, references = pad([[2, 3, 2, 3], [UNK], []], 7), pad_references([[[2, 3]], [[4]], [[5, 6]]])
    batch = rollout.batch._replace(references=references)
    scores = torch.arange(24.0).view(3, 8)
    found = watch(rollout._replace(tokens=tokens, batch=batch, scores=scores), Alphabet(9))
    means = {key: (float(total), int(count)) for key, (total, count) in found.items()}
    assert means["reward"] == (pytest.approx(float(scores[:, -1].sum())), 3)
    assert means["length_ratio"] == (5, 5)
    assert means["repeated"] == (1, 3)  # of three bigrams one stands there already
    assert means["unknown"] == (1, 5)
    assert [means[f"precision_{n}"] for n in (1, 2)] == [(2, 5), (1, 3)]
    assert means["closeness"] == (5, 5)
    assert watch(rollout, Alphabet(9, unk=None))["unknown"][0] == 0


# Rewards that look at the source.


class Plain:
    """BLEU that no phase knows another scale of."""

    def prefix_scores(self, tokens: Tensor, references: Tensor) -> Tensor:
        return Bleu(unfinished_brevity=False).prefix_scores(tokens, references)


@dataclass
class Paired(Plain):
    """The same, of a row whose reference and source belong together."""

    rows: list[int] = field(default_factory=list)

    def source_scores(self, tokens: Tensor, references: Tensor, source: Tensor | None) -> Tensor:
        assert source is not None
        assert len(tokens) == len(references) == len(source)
        pairs = dict(zip(map(str, BATCH.references.tolist()), BATCH.source.tolist(), strict=True))
        assert [pairs[str(group)] for group in references.tolist()] == source.tolist()
        self.rows.append(len(tokens))
        return self.prefix_scores(tokens, references)


REWARDED = {
    name: phase
    for name, phase in EVERY_WAY.items()
    if name not in ("likelihood", "raml, exact", "vaml, policy", "scheduled sampling")
}


@pytest.mark.parametrize("phase", REWARDED.values(), ids=REWARDED)
def test_every_phase_gives_each_sequence_its_source(phase: Phase) -> None:
    paired = Paired()
    found, expected = run(phase, reward=paired), run(phase, reward=Plain())
    assert paired.rows
    assert all(torch.equal(found.losses[name], loss) for name, loss in expected.losses.items())


def test_rollouts_that_judge_credit_know_their_sources() -> None:
    nets, paired = models(dropout=0.0), Paired()
    expected, found = (
        RolloutJudge(Examples(lambda *_: BATCH, each, Alphabet(V)), lambda _: 7, 0.1, 4, words=2, rollouts=3)
        for each in (Plain(), paired)
    )
    assert found.figures(nets) == expected.figures(nets)
    assert {8, 24, 4} <= {*paired.rows}  # words of each sentence, their rollouts, samples


@pytest.mark.parametrize("references", [torch.zeros(4, 0, 6).long(), torch.full((4, 1, 6), ABSENT)])
def test_a_reward_without_references(references: Tensor) -> None:
    """A reward of the source alone: nothing else is watched of samples, which have nothing to be compared with."""
    asked = []

    def score(text: str, source: str) -> float:
        asked.append((text, source))
        return float(len(text) - len(source))

    def spell(ids: list[int]) -> str:
        return " ".join(map(str, ids))

    nets, batch = models(), Batch(BATCH.source, references)
    phase = Reinforce("r", 1.0, samples=2, extra_length=1)
    outcome = run(phase, nets, batch, TextReward(score, spell, spell, at="end"))
    outcome.losses["actor"].backward()
    assert all(weight.grad is not None for weight in nets.actor.parameters())
    assert {source for _, source in asked} == {spell(ids) for ids in BATCH.source.tolist()}
    means = {key: (float(total), int(count)) for key, (total, count) in outcome.sums.items()}
    assert means["length_ratio"] == (0, 0)
    assert all(pair == (0, 0) for key, pair in means.items() if key.startswith(("precision", "closeness")))
    assert means["reward"][1] == 8


def test_a_sentence_without_references_is_watched_alone() -> None:
    nets = models(dropout=0.0)
    rollout = roll_out(nets.actor, BATCH, REWARD, noise(), Asked(1, 7, True, False, False))
    tokens, references = pad([[2, 3, 2, 3], [4, 4]], 7), pad_references([[[2, 3]], []])
    batch = rollout.batch._replace(references=references)
    found = watch(rollout._replace(tokens=tokens, batch=batch), Alphabet(9))
    assert [tuple(map(int, found[key])) for key in ("length_ratio", "precision_1", "closeness", "repeated")] == [
        (4, 2), (2, 4), (4, 2), (1, 4)
    ]  # fmt: skip
