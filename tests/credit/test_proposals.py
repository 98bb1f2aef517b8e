import math
from functools import partial

import pytest
import torch
from torch import Tensor

from seqcredit.credit.proposals import beside, corrupt_tokens, replace_ngrams
from seqcredit.draws import Noise
from seqcredit.types import FIRST_WORD, UNK, Alphabet, lengths, pad

V, M = 1000, 6
WORDS = Alphabet(V)
REFERENCES = pad([[7, 8, 9, 10, 11, 12, 1], [5], [], [4, 3], [6, 6, 6, 6, 6, 6, 6]]).repeat(40, 1)
LIKELY = partial(replace_ngrams, words="likely")
ALL = pytest.mark.parametrize("propose", [replace_ngrams, corrupt_tokens, LIKELY])


def noise(seed: int = 0, total: int = len(REFERENCES)) -> Noise:
    return Noise(torch.Generator().manual_seed(seed), total)


def changed(tokens: Tensor) -> Tensor:
    return tokens != REFERENCES.unsqueeze(1)


@ALL
def test_the_reference_is_among_the_samples(propose) -> None:
    tokens, fork = propose(REFERENCES, M, WORDS, noise())
    assert tokens.shape == (len(REFERENCES), M, REFERENCES.shape[1])
    assert torch.equal(tokens[:, 0], REFERENCES)
    assert torch.equal(fork[:, 0], lengths(REFERENCES))


@ALL
def test_eos_and_padding_stay_and_no_special_symbol_comes_in(propose) -> None:
    tokens, _ = propose(REFERENCES, M, WORDS, noise())
    assert torch.equal(lengths(tokens), lengths(REFERENCES).unsqueeze(1).expand(-1, M))
    allowed = tokens >= (UNK if propose is LIKELY else FIRST_WORD)  # an unknown word may be the reference's own
    assert allowed[changed(tokens)].all()
    assert tokens.max() < V


@ALL
def test_before_the_fork_all_is_the_references(propose) -> None:
    tokens, fork = propose(REFERENCES, M, WORDS, noise())
    before = torch.arange(tokens.shape[-1]) < fork.unsqueeze(-1)
    assert not (changed(tokens) & before).any()


def test_one_ngram_of_at_most_four_words_is_replaced() -> None:
    tokens, fork = replace_ngrams(REFERENCES, M, WORDS, noise())
    different = changed(tokens)[:, 1:]
    first = different.long().argmax(-1)
    span = different.shape[-1] - different.flip(-1).long().argmax(-1) - first
    touched = different.any(-1)
    assert (span[touched] <= 4).all()
    assert (span[touched] == 4).any()
    # With 998 words to choose from nearly every word of the n-gram differs: the change begins at the fork.
    assert (first == fork[:, 1:])[touched].float().mean() > 0.99
    assert (touched | (lengths(REFERENCES) == 0).unsqueeze(1)).float().mean() > 0.99


def test_length_place_and_word_are_uniform() -> None:
    references = pad([[2, 2, 2, 2, 2]]).expand(30_000, -1)
    tokens, fork = replace_ngrams(references, 2, Alphabet(2002), noise(total=30_000))
    different = tokens[:, 1] != references
    n = different.sum(-1)
    share = torch.bincount(n, minlength=5)[1:5] / len(n)
    torch.testing.assert_close(share, torch.full((4,), 0.25), atol=0.02, rtol=0)
    places = torch.bincount(fork[n == 2, 1], minlength=4) / (n == 2).sum()
    torch.testing.assert_close(places, torch.full((4,), 0.25), atol=0.02, rtol=0)
    words = tokens[:, 1][different].float()
    assert abs(float(words.mean()) - 1001.5) < 10
    assert words.min() < 10
    assert words.max() > 1990


def test_likely_words_are_half_the_references_own_and_half_as_frequent_as_their_rank_says() -> None:
    """Rank r of n has log(1 + 1 / r) / log(n + 1), which is about 1 / r: the closed form, and no eos among them."""
    ranks, own = 998, [900, 901, 902, 903]
    references = pad([own]).expand(40_000, -1)
    tokens, fork = LIKELY(references, 2, WORDS, noise(total=len(references)))
    # The whole sentence is replaced where all four words are; of the first word nothing else is known.
    first = tokens[fork[:, 1] == 0, 1, 0]
    of_reference = torch.isin(first, torch.tensor(own))
    assert float(of_reference.float().mean()) == pytest.approx(0.5, abs=0.01)
    share = torch.bincount(first[of_reference] - 900, minlength=4) / of_reference.sum()
    torch.testing.assert_close(share, torch.full((4,), 0.25), atol=0.02, rtol=0)
    others = first[~of_reference] - FIRST_WORD
    for r in (1, 2, 3, 10):
        expected = math.log(1 + 1 / r) / math.log(ranks + 1)
        assert float((others == r - 1).float().mean()) == pytest.approx(expected, abs=0.01), r
    assert float((others >= 30).float().mean()) == pytest.approx(math.log(999 / 31) / math.log(999), abs=0.01)
    assert others.max() > 900


def test_likely_words_of_two_ranks() -> None:
    """The second rank has log(3 / 2) / log 3."""
    references = pad([[4]]).expand(20_000, -1)
    tokens, _ = LIKELY(references, 2, Alphabet(4), noise(total=len(references)))
    drawn = tokens[:, 1, 0]
    of_rank = drawn[drawn != 4]  # ids 2 and 3; 4 is the reference's own
    assert float((of_rank == 3).float().mean()) == pytest.approx(math.log(3 / 2) / math.log(3), abs=0.02)


class Last(Noise):
    """Numbers that rounding has carried up to 1."""

    def uniform(self, *shape: int, device: torch.device | str = "cpu") -> Tensor:
        return torch.ones(self.total, *shape, device=device)


@ALL
def test_a_number_of_one_gives_the_last_word(propose) -> None:
    tokens, _ = propose(REFERENCES, M, WORDS, Last(torch.Generator(), len(REFERENCES)))
    assert tokens.max() == (V - 1 if propose is not corrupt_tokens else REFERENCES.max())
    assert (tokens[:, 1:] == V - 1).any() == (propose is not corrupt_tokens)


def test_likely_words_where_there_are_few() -> None:
    """One word to choose from, and sentences without any."""
    tokens, _ = LIKELY(pad([[2, 2], []]), 3, Alphabet(3), noise(total=2))
    assert torch.equal(tokens[0], pad([[2, 2]]).expand(3, -1))
    assert not tokens[1].any()


def test_the_rate_of_corruption() -> None:
    references = pad([[2] * 20]).expand(2_000, -1)
    tokens, _ = corrupt_tokens(references, 3, Alphabet(5_000), noise(total=2_000), rate=0.3)
    assert float((tokens[:, 1:, :20] != 2).float().mean()) == pytest.approx(0.3, abs=0.01)


def test_what_is_not_corrupted_has_no_fork() -> None:
    tokens, fork = corrupt_tokens(REFERENCES, M, WORDS, noise(), rate=0.0)
    assert not changed(tokens).any()
    assert torch.equal(fork, lengths(REFERENCES).unsqueeze(1).expand(-1, M))


@ALL
def test_same_seed_same_samples(propose) -> None:
    assert torch.equal(propose(REFERENCES, M, WORDS, noise(3)).tokens, propose(REFERENCES, M, WORDS, noise(3)).tokens)
    assert not torch.equal(
        propose(REFERENCES, M, WORDS, noise(3)).tokens, propose(REFERENCES, M, WORDS, noise(4)).tokens
    )


@ALL
def test_a_share_of_the_batch_gets_the_proposals_of_the_whole(propose) -> None:
    whole = propose(REFERENCES, M, WORDS, noise())
    rows = Noise(torch.Generator().manual_seed(0), len(REFERENCES), 30, 50)
    assert torch.equal(propose(REFERENCES[30:80], M, WORDS, rows).tokens, whole.tokens[30:80])


def test_sequences_from_elsewhere_beside_the_reference() -> None:
    """They share its beginning as far as they agree: 0 words, 2, all 3 though more follow, all 3, and one of an eos."""
    references = pad([[5, 6, 7]] * 5)
    drawn = pad([[6, 6, 7], [5, 6], [5, 6, 7, 8, 9], [5, 6, 7], [5]], 7).unsqueeze(1)
    tokens, fork = beside(references, drawn)
    assert tokens.shape == (5, 2, 7)
    assert torch.equal(tokens[:, 0, :4], references)
    assert not tokens[:, 0, 4:].any()
    assert torch.equal(tokens[:, 1], drawn[:, 0])
    assert fork.tolist() == [[3, 0], [3, 2], [3, 3], [3, 3], [3, 1]]
    short, _ = beside(references, pad([[5]] * 5).unsqueeze(1))
    assert short[:, 1].tolist() == [[5, 0, 0, 0]] * 5


# Other alphabets.


def spared(size: int, *spare: int) -> Tensor:
    actions = torch.ones(size, dtype=torch.bool)
    actions[list(spare)] = False
    return actions


@ALL
@pytest.mark.parametrize("unk", [1, None, 3])
def test_words_alone_come_in_whatever_the_alphabet(propose, unk: int | None) -> None:
    """eos is 5, and 0, 2 and 9 are no actions: lengths stay, and neither these nor unk are drawn."""
    alphabet = Alphabet(12, 5, unk, spared(12, 0, 2, 9))
    references = pad([[7, 8, 4, 10, 11], [6], [], [4, 8, 4]], eos=5).repeat(100, 1)
    tokens, fork = propose(references, M, alphabet, noise(total=400))
    assert torch.equal(lengths(tokens, 5), lengths(references, 5).unsqueeze(1).expand(-1, M))
    assert torch.equal(tokens[:, 0], references)
    assert torch.equal(fork[:, 0], lengths(references, 5))
    different = tokens != references.unsqueeze(1)
    before = torch.arange(tokens.shape[-1]) < fork.unsqueeze(-1)
    assert not (different & before).any()
    assert different.any()
    everything = {1, 3, 4, 6, 7, 8, 10, 11} - {unk}
    assert set(tokens[different].tolist()) == everything


@ALL
def test_the_same_numbers_make_the_same_proposals_where_the_order_of_words_stays(propose) -> None:
    """Words 2 .. 9 called 1, 2, 4, 6, 7, 8, 9, 11; eos 3, unk 10; 0 and 5 are no actions."""
    ids = torch.tensor([3, 10, 1, 2, 4, 6, 7, 8, 9, 11])
    alphabet = Alphabet(12, 3, 10, spared(12, 0, 5))
    references = pad([[2, 3, 4, 5, 1], [6], [], [9, 8, 7]]).repeat(20, 1)
    expected = propose(references, M, Alphabet(10), noise(total=80))
    found = propose(ids[references], M, alphabet, noise(total=80))
    assert torch.equal(found.tokens, ids[expected.tokens])
    assert torch.equal(found.fork, expected.fork)


def test_sequences_from_elsewhere_end_with_another_eos() -> None:
    references = pad([[5, 0, 7]] * 4, eos=3)
    drawn = pad([[0, 0, 7], [5, 0], [5, 0, 7, 8, 9], [5]], 7, eos=3).unsqueeze(1)
    tokens, fork = beside(references, drawn, eos=3)
    assert tokens.shape == (4, 2, 7)
    assert torch.equal(tokens[:, 0, :4], references)
    assert tokens[:, 0, 4:].eq(3).all()
    assert torch.equal(tokens[:, 1], drawn[:, 0])
    assert fork.tolist() == [[3, 0], [3, 2], [3, 3], [3, 1]]
    short, _ = beside(references, pad([[5]] * 4, eos=3).unsqueeze(1), eos=3)
    assert short[:, 1].tolist() == [[5, 3, 3, 3]] * 4
