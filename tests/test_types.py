import pytest
import torch
from torch import Tensor

from seqcredit.rewards import Bleu
from seqcredit.types import ABSENT, EOS, UNK, Alphabet, Batch, Known, lengths, pad, pad_open, pad_references, token_mask

# eos and unk in each other's place, in one of both places, elsewhere; and no unknown word.
SPECIALS = [(0, 1), (1, 0), (0, 5), (5, 1), (1, 5), (5, 0), (5, 3), (3, None), (1, None), (0, None)]
specials = pytest.mark.parametrize(("eos", "unk"), SPECIALS)
SIZE = 8


def test_padding_is_what_follows_the_first_eos() -> None:
    tokens = torch.tensor([[3, 2, 0, 0], [0, 5, 0, 4], [2, 2, 2, 2]])
    assert lengths(tokens).tolist() == [2, 0, 4]
    assert token_mask(tokens).tolist() == [[True, True, True, False], [True, False, False, False], [True] * 4]


def test_padding_is_what_follows_another_eos() -> None:
    tokens = torch.tensor([[3, 0, 7, 0], [7, 5, 7, 4], [0, 2, 2, 2]])
    assert lengths(tokens, 7).tolist() == [2, 0, 4]
    assert token_mask(tokens, 7).tolist() == [[True, True, True, False], [True, False, False, False], [True] * 4]


def test_pad_closes_with_eos() -> None:
    assert pad([[5, 3], [], [4]]).tolist() == [[5, 3, 0], [0, 0, 0], [4, 0, 0]]
    assert pad([[5]], width=4).tolist() == [[5, 0, 0, 0]]
    assert pad([[5, 0], []], eos=7).tolist() == [[5, 0, 7], [7, 7, 7]]


def test_missing_references_are_marked() -> None:
    references = pad_references([[[2], [3, 4]], [[5]]])
    assert references.tolist() == [[[2, 0, 0], [3, 4, 0]], [[5, 0, 0], [ABSENT] * 3]]
    other = pad_references([[[2], [3, 0]], [[5]]], eos=7)
    assert other.tolist() == [[[2, 7, 7], [3, 0, 7]], [[5, 7, 7], [ABSENT] * 3]]


def test_rows_of_a_batch_are_repeated_side_by_side() -> None:
    batch = Batch(torch.tensor([[1.0], [2.0]]), pad_references([[[2]], [[3]]])).repeated(2)
    assert batch.source.tolist() == [[1], [1], [2], [2]]
    assert batch.references[..., 0].tolist() == [[2], [2], [3], [3]]


# Alphabets.


@specials
def test_every_id_has_a_name_of_its_own_among_words(eos: int, unk: int | None) -> None:
    named = Alphabet(SIZE, eos, unk).as_words(torch.arange(SIZE).view(1, -1))[0]
    assert sorted(named.tolist()) == list(range(SIZE))
    assert named[eos] == EOS
    assert unk is None or named[unk] == UNK


@specials
def test_negative_ids_stay_and_any_axes_will_do(eos: int, unk: int | None) -> None:
    alphabet = Alphabet(SIZE, eos, unk)
    tokens = torch.tensor([[[2, ABSENT, eos], [-2, 7, 4]]])
    named = alphabet.as_words(tokens)
    assert named.shape == tokens.shape
    assert named[tokens < 0].tolist() == [ABSENT, -2]
    flat = [int(alphabet.as_words(torch.tensor([[token]]))) for token in tokens[tokens >= 0]]
    assert named[tokens >= 0].tolist() == flat


@pytest.mark.parametrize("alphabet", [Alphabet(SIZE), Alphabet(SIZE, unk=None)])
def test_the_alphabet_of_words_names_itself(alphabet: Alphabet) -> None:
    tokens = torch.tensor([[3, 1, 0, ABSENT]])
    assert torch.equal(alphabet.as_words(tokens), tokens)


@specials
@pytest.mark.parametrize("spare", [[], [2, 6]])
def test_words_are_the_actions_but_eos_and_unk(eos: int, unk: int | None, spare: list[int]) -> None:
    actions = None
    if spare:
        actions = torch.ones(SIZE, dtype=torch.bool)
        actions[spare] = False
    expected = [token for token in range(SIZE) if token not in (eos, unk, *spare)]
    assert Alphabet(SIZE, eos, unk, actions).words().tolist() == expected
    assert Alphabet(SIZE, eos, unk, actions).words("cpu").tolist() == expected
    assert actions is None or int(actions.sum()) == SIZE - 2  # which is left as it was


@pytest.mark.parametrize(
    ("eos", "unk", "unk_matches"),
    [(eos, unk, matches) for eos, unk in SPECIALS for matches in ((True,) if unk is None else (True, False))],
)
def test_bleu_is_that_of_the_same_sequences_with_other_names(eos: int, unk: int | None, unk_matches: bool) -> None:
    """Sequences of words, given any names in an alphabet, score as they did, where unk matches or not."""
    generator, special = torch.Generator().manual_seed(3), [eos] if unk is None else [eos, unk]
    others = torch.tensor([token for token in range(SIZE) if token not in special])
    ids = torch.cat([torch.tensor(special), others[torch.randperm(len(others), generator=generator)]])
    tokens = torch.randint(0, SIZE, (40, 6), generator=generator)
    tokens[:, -1] = EOS
    tokens = torch.where(token_mask(tokens), tokens, EOS)
    references = torch.stack([tokens.roll(1, 0), tokens.roll(2, 0)], 1)
    references[::3, 1] = ABSENT

    def called(words: Tensor) -> Tensor:
        return torch.where(words < 0, words, ids[words.clamp(min=0)])

    alphabet, bleu = Alphabet(SIZE, eos, unk), Bleu(unk_matches=unk_matches, dtype=torch.float64)
    expected = bleu.prefix_scores(tokens, references)
    found = bleu.prefix_scores(alphabet.as_words(called(tokens)), alphabet.as_words(called(references)))
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    assert len(expected[:, -1].unique()) > 8


@pytest.mark.parametrize(("eos", "unk"), SPECIALS)
def test_there_and_back(eos: int, unk: int | None) -> None:
    alphabet, ids = Alphabet(8, eos, unk), torch.tensor([[*range(8), ABSENT, -2]])
    assert torch.equal(alphabet.from_words(alphabet.as_words(ids)), ids)
    assert torch.equal(alphabet.as_words(alphabet.from_words(ids)), ids)
    assert int(alphabet.from_words(torch.tensor([0]))) == eos
    assert unk is None or int(alphabet.from_words(torch.tensor([1]))) == unk


def test_sources_that_nothing_closes() -> None:
    assert pad_open([[5, 6, 7], [8], []]).tolist() == [[5, 6, 7], [8, ABSENT, ABSENT], [ABSENT] * 3]
    assert pad_open([]).shape == (0, 0)


def test_references_that_know_their_source() -> None:
    known = Known([["a", "b"], ["c"]], "the source")
    assert known == [["a", "b"], ["c"]]
    assert known.source == "the source"
