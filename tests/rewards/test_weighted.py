"""Several rewards as one."""

import doctest
import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings

from rewards.cases import Case, assert_invariant, cases
from seqcredit.errors import UserError
from seqcredit.rewards import Bleu, EditDistance, OnlyFinished, TextReward, Weighted, weighted
from seqcredit.rewards.finished import finished_scores, read_by
from seqcredit.types import pad, pad_references


def test_a_function_is_a_reward_of_texts() -> None:
    """Which needs to know how ids are read, as others in it do."""
    alike = TextReward(lambda text, references: float(text == references[0]), spell=str)
    given = read_by(Weighted([(2.0, lambda text, references: float(text == references[0]))]), str, str)
    tokens, references = torch.tensor([[5, 7, 0], [5, 0, 0]]), torch.tensor([[[5, 7, 0]]] * 2)
    expected = 2 * alike.prefix_scores(tokens, references)
    assert expected[:, -1].tolist() == [2.0, 0.0]
    assert torch.equal(given.prefix_scores(tokens, references), expected)


def test_its_example_runs() -> None:
    found = doctest.testmod(weighted)
    assert (found.attempted > 2, found.failed) == (True, 0)


@given(cases())
@settings(max_examples=20, deadline=None)
def test_the_weighted_sum(case: Case) -> None:
    parts = [(0.3, Bleu(dtype=torch.float64)), (-2.0, EditDistance(dtype=torch.float64))]
    each = [weight * one.prefix_scores(case.tokens, case.padded_references) for weight, one in parts]
    found = Weighted(parts).prefix_scores(case.tokens, case.padded_references)
    torch.testing.assert_close(found, sum(each), rtol=0, atol=1e-12)
    assert torch.equal(Weighted(parts).final_scores(case.tokens, case.padded_references, None), found[:, -1])
    assert_invariant(Weighted(parts), case)


def test_what_eos_would_add_is_that_of_each() -> None:
    tokens, references = pad([[2, 3], [4]]), pad_references([[[2, 3, 4]], [[4]]])
    late, plain = OnlyFinished(EditDistance()), EditDistance()
    found = finished_scores(Weighted([(0.5, late), (1.0, plain)]), tokens, references)
    torch.testing.assert_close(found, 1.5 * plain.prefix_scores(tokens, references))


def test_what_it_cannot_be_made_of() -> None:
    with pytest.raises(UserError, match=r"^Weighted: there is no reward in it"):
        Weighted([])
    with pytest.raises(UserError, match=r"^Weighted: a weight is nan, but it must be finite\.$"):
        Weighted([(1.0, Bleu()), (math.nan, Bleu())])


def test_texts_are_read_as_the_data_say() -> None:
    def letters(text: str, source: str) -> float:
        return float(len(text) - len(source))

    tokens, references, source = torch.tensor([[2, 3, 0]]), torch.tensor([[[2, 0, 0]]]), torch.tensor([[3]])
    unread = TextReward(letters)
    with pytest.raises(UserError, match=r"how ids are read is not known \(`spell`\): give it to seqcredit\.train"):
        unread.source_scores(tokens, references, source)

    def spell(ids: Sequence[int]) -> str:
        return "".join("..bcc"[i] for i in ids)

    def names(ids: Sequence[int]) -> str:
        return "x" * len(ids)

    both = Weighted([(2.0, unread), (1.0, EditDistance())])
    found = read_by(both, spell, names)
    assert isinstance(found, Weighted)
    expected = 2 * TextReward(letters, spell, names).source_scores(tokens, references, source)
    expected = expected + EditDistance().prefix_scores(tokens, references)
    assert torch.equal(found.source_scores(tokens, references, source), expected)
    assert read_by(found, names, spell) == found  # whoever knows how keeps to it
    assert read_by(EditDistance(), spell, names) == EditDistance()
    ended = read_by(OnlyFinished(unread), spell, names)
    assert ended == OnlyFinished(TextReward(letters, spell, names))
