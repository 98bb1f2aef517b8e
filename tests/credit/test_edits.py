"""Draws from P_R of the edit distance, against the whole space of sequences."""

import pytest
import torch

from seqcredit.credit.edits import _share, draw_edits
from seqcredit.credit.oracle.enumeration import Space, score
from seqcredit.draws import Noise
from seqcredit.errors import UserError
from seqcredit.rewards import EditDistance
from seqcredit.types import Alphabet, lengths, pad

REFERENCES = [[1, 3], [2, 2, 3], [], [1, 1, 1, 1]]
SPACE = Space(4, 7)
SWAP = torch.tensor([3, 1, 2, 0])  # the same words with other numbers
DRAWS = 40_000


def noise(seed: int = 1, total: int = 1, first: int = 0, rows: int | None = None) -> Noise:
    return Noise(torch.Generator().manual_seed(seed), total, first, rows)


def assert_fair(drawn: torch.Tensor, reference: list[int], tau: float) -> None:
    """As often as e^(- distance / tau) says, but for chance."""
    probability = (score(SPACE, EditDistance(), torch.tensor([[*reference, 0]])).finished / tau).softmax(0)
    nodes = SPACE.nodes(torch.nn.functional.pad(drawn, (0, 1)))[:, -1]
    found = torch.bincount(nodes, minlength=len(SPACE)) / len(drawn)
    often = probability * len(drawn) > 20
    off = (found - probability) / (probability * (1 - probability) / len(drawn)).sqrt()
    assert often.sum() > 10
    assert off[often].abs().max() < 5
    assert off[often].square().mean() < 1 + 5 * (2 / int(often.sum())) ** 0.5


@pytest.mark.parametrize("tau", [0.4, 0.55])
@pytest.mark.parametrize("reference", REFERENCES, ids=str)
def test_every_sequence_comes_as_often_as_its_pay_off_says(reference: list[int], tau: float) -> None:
    (drawn,) = draw_edits(pad([reference]), DRAWS, Alphabet(4), noise(), tau, SPACE.bound)
    assert drawn.shape == (DRAWS, SPACE.bound)
    assert_fair(drawn, reference, tau)


def test_another_alphabet() -> None:
    """Another eos, and an id that is no action."""
    alphabet = Alphabet(5, eos=3, unk=None, actions=torch.tensor([True, True, True, True, False]))
    (drawn,) = draw_edits(SWAP[pad([[2, 2, 3]])], DRAWS, alphabet, noise(), 0.5, SPACE.bound)
    assert_fair(SWAP[drawn], [2, 2, 3], 0.5)


def test_references_of_a_batch_have_draws_of_their_own() -> None:
    drawn = draw_edits(pad(REFERENCES), DRAWS // 2, Alphabet(4), noise(total=4), 0.5, SPACE.bound)
    for row, reference in zip(drawn, REFERENCES, strict=True):
        assert_fair(row, reference, 0.5)


def test_parts_of_a_batch_are_drawn_as_the_whole_is() -> None:
    """However often each part has to try."""
    references = pad(REFERENCES)
    whole = draw_edits(references, 40, Alphabet(4), noise(total=4), 0.55, 6)
    parts = [
        draw_edits(references[rows], 40, Alphabet(4), noise(1, 4, rows.start, rows.stop - rows.start), 0.55, 6)
        for rows in (slice(0, 2), slice(2, 4))
    ]
    assert torch.equal(torch.cat(parts), whole)


def test_long_sequences_are_kept_as_often_as_they_should() -> None:
    """In single precision, where e^(- distance / tau) itself vanishes."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(1, 41, (50, 60), generator=generator)
    references = pad(torch.randint(1, 41, (50, 30), generator=generator).tolist())
    single = _share(tokens, references, 0.02)
    assert single.isfinite().all()
    torch.set_default_dtype(torch.float64)
    try:
        double = _share(tokens, references, 0.02)
    finally:
        torch.set_default_dtype(torch.float32)
    torch.testing.assert_close(single.double(), double, rtol=1e-3, atol=1e-6)
    assert ((double > 0) & (double <= 1)).all()


def test_where_there_is_one_way_it_is_kept() -> None:
    """With and without eos; "1 1" can be had of "1" in two ways."""
    tokens, references = torch.tensor([[1, 2], [1, 0], [1, 1]]), pad([[1, 2], [1], [1]])
    found = _share(tokens, references, 1e-6)
    torch.testing.assert_close(found, torch.tensor([1.0, 1.0, 0.5]), atol=1e-4, rtol=0)


def test_none_is_longer_than_the_bound() -> None:
    drawn = draw_edits(pad([[1, 2]]), 4000, Alphabet(4), noise(), 0.55, 4)
    assert lengths(drawn).max() == 3


def test_too_hot_is_one_sentence() -> None:
    said = r"^tau is 1, where P_R is mostly words that come in: set it to 0\.558 or less\.$"
    with pytest.raises(UserError, match=said):
        draw_edits(pad([[1, 2]]), 4, Alphabet(4), noise(), 1.0, 6)
    draw_edits(pad([[1, 2]]), 4, Alphabet(4), noise(), 0.558, 6)
