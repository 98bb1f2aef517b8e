"""What a reward is asked for, by whom it is given the source, and sequences in the alphabet of a model."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from seqcredit.rewards import Bleu, Custom, EditDistance, OnlyFinished, OwnReference, Weighted
from seqcredit.rewards.finished import finished_scores
from seqcredit.rewards.scores import at_end, final_scores, prefix_scores, scored
from seqcredit.types import Alphabet, Batch, FinalReward, Reward, SourceReward, pad, pad_references

# eos and unk in each other's place, in one of both places, elsewhere; and no unknown word.
SPECIALS = [(0, 1), (1, 0), (0, 5), (5, 1), (1, 5), (5, 0), (5, 3), (3, None), (1, None), (0, None)]
TOKENS, REFERENCES = pad([[2, 3, 4], [5], []]), pad_references([[[2, 3, 5], [4]], [[5]], [[2, 2], [3], [4]]])
SOURCE = torch.tensor([[7.0], [8.0], [9.0]])


@dataclass(frozen=True)
class BySource:
    """100 times the source and the number of references, and one for each column."""

    def prefix_scores(self, tokens: Tensor, references: Tensor) -> Tensor:
        raise AssertionError("asked without the source")

    def source_scores(self, tokens: Tensor, references: Tensor, source: Tensor | None) -> Tensor:
        assert source is not None
        return 100 * source + 10 * references.shape[1] + torch.arange(tokens.shape[1] + 1)


def test_who_asks_for_the_source_gets_it() -> None:
    reward = BySource()
    assert isinstance(reward, SourceReward)
    assert not isinstance(reward, FinalReward)
    assert not isinstance(Bleu(), SourceReward | FinalReward)
    assert prefix_scores(reward, TOKENS, REFERENCES, SOURCE)[:, 2].tolist() == [732, 832, 932]
    assert final_scores(reward, TOKENS, REFERENCES, SOURCE).tolist() == [734, 834, 934]
    with pytest.raises(AssertionError):
        prefix_scores(reward, TOKENS, REFERENCES)


@pytest.mark.parametrize("ask", [prefix_scores, final_scores, finished_scores])
def test_what_is_around_a_reward_passes_the_source_on(ask) -> None:
    whole = ask(BySource(), TOKENS, REFERENCES, SOURCE)
    several = Weighted([(0.5, BySource()), (2.0, BySource())])
    assert torch.equal(ask(several, TOKENS, REFERENCES, SOURCE), 2.5 * whole)
    assert torch.equal(ask(OwnReference(BySource()), TOKENS, REFERENCES, SOURCE), whole - 20)
    late = ask(OnlyFinished(BySource()), TOKENS, REFERENCES, SOURCE)
    if ask is prefix_scores:
        expected = torch.tensor([[0, 0, 0, 0, 734], [0, 0, 834, 834, 834], [0, 934, 934, 934, 934]])
        assert late.tolist() == expected.tolist()
    else:
        assert torch.equal(late, whole)


@pytest.mark.parametrize(
    "reward",
    [
        Bleu(scaled=True),
        Bleu(unfinished_brevity=False),
        OwnReference(EditDistance()),
        Custom(lambda ids, group: len(ids) / (1 + len(group))),
        OnlyFinished(Bleu()),
        Weighted([(0.3, Bleu()), (-1.0, OnlyFinished(EditDistance()))]),
    ],
    ids=lambda reward: type(reward).__name__,
)
def test_final_scores_are_the_last_column(reward: Reward) -> None:
    every = prefix_scores(reward, TOKENS, REFERENCES)
    assert torch.equal(every, reward.prefix_scores(TOKENS, REFERENCES))
    assert torch.equal(final_scores(reward, TOKENS, REFERENCES), every[:, -1])
    assert torch.equal(final_scores(reward, TOKENS[:0], REFERENCES[:0]), every[:0, -1])


def test_scores_of_whole_sequences_come_with_their_end() -> None:
    found = at_end(torch.tensor([2.0, 3.0, 5.0, 7.0]), torch.tensor([[2, 3, 0], [0, 4, 0], [2, 0, 0], [2, 3, 4]]))
    assert found.tolist() == [[0, 0, 0, 2], [0, 3, 3, 3], [0, 0, 5, 5], [0, 0, 0, 7]]


# Alphabets.


@pytest.mark.parametrize(("eos", "unk"), SPECIALS)
@pytest.mark.parametrize("ask", [prefix_scores, final_scores, finished_scores])
def test_sequences_in_the_alphabet_of_a_model(eos: int, unk: int | None, ask) -> None:
    alphabet, reward = Alphabet(8, eos, unk), Bleu(unfinished_brevity=False)
    batch = Batch(SOURCE, alphabet.from_words(REFERENCES))
    found = scored(reward, alphabet, alphabet.from_words(TOKENS), batch, ask)
    assert torch.equal(found, ask(reward, TOKENS, REFERENCES))
    assert float(found.max()) > 0.5
    if ask is prefix_scores:
        assert torch.equal(scored(BySource(), alphabet, TOKENS, batch), ask(BySource(), TOKENS, REFERENCES, SOURCE))
        assert torch.equal(scored(reward, alphabet, alphabet.from_words(TOKENS), batch), found)
