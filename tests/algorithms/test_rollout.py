"""Samples of the actor, and what is worth watching of them."""

import pytest
import torch
from torch import Tensor

from algorithms.tiny import BATCH, REWARD, drawn, models, noise
from seqcredit.algorithms.rollout import Asked, repeated_bigrams, roll_out, spread, watch
from seqcredit.rewards import OnlyFinished
from seqcredit.types import EOS, UNK, Alphabet, lengths, pad, pad_references, token_mask


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
    torch.testing.assert_close(rollout.reference.scores.table()[real], expected[real])
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
