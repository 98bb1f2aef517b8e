"""Tokens without their padding; what is done with them is tested with `fused`."""

import threading

import torch
from torch import Tensor

from seqcredit.credit import values
from seqcredit.credit.tables import Packing, Reader, Table, look_ahead, pack, share
from seqcredit.types import token_mask

D = 3
# The last sequence is cut off before its eos.
TOKENS = torch.tensor([[3, 2, 4, 0], [1, 0, 0, 0], [0, 0, 0, 0], [6, 4, 0, 0], [5, 5, 2, 6]])
B, T = TOKENS.shape
MASK = token_mask(TOKENS)
PACKING = pack(TOKENS)


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_packing_by_hand() -> None:
    assert PACKING.places.tolist() == [0, 1, 2, 3, 4, 5, 8, 12, 13, 14, 16, 17, 18, 19]
    assert PACKING.following.tolist() == [1, 2, 3, -1, 5, -1, -1, 8, 9, -1, 11, 12, 13, -1]
    assert PACKING.take(TOKENS).tolist() == [3, 2, 4, 0, 1, 0, 0, 6, 4, 0, 5, 5, 2, 6]


def test_what_is_packed_comes_back_with_zeros_on_padding() -> None:
    padded = random(B, T, seed=5)
    assert torch.equal(PACKING.spread(PACKING.take(padded)), torch.where(MASK, padded, 0.0))
    features = random(B, T, D, seed=6)
    assert torch.equal(PACKING.take(features), features[MASK])


def test_proposals_may_have_their_own_axis() -> None:
    tokens = TOKENS[:4].reshape(2, 2, T)
    packing, flat = pack(tokens), pack(TOKENS[:4])
    assert torch.equal(packing.places, flat.places)
    assert torch.equal(packing.following, flat.following)
    features = random(2, 2, T, D, seed=6)
    assert torch.equal(packing.take(features), features[token_mask(tokens)])
    assert packing.spread(packing.take(features)[:, 0]).shape == tokens.shape


def test_look_ahead_never_crosses_the_end_of_a_sequence() -> None:
    states = random(B, T, seed=7)
    expected = values.one_step_targets(torch.zeros(B, T, dtype=torch.float64), states, TOKENS)
    assert torch.equal(PACKING.spread(look_ahead(PACKING.take(states), PACKING.following)), expected)


def test_sharing_by_hand() -> None:
    """Of three samples the second branches off at 1, the third only with eos; the second sentence has no words."""
    tokens = torch.tensor([[[5, 6, 7, 0], [5, 8, 7, 0], [5, 6, 7, 0]], [[0, 0, 0, 0]] * 3])
    packing = share(tokens, torch.tensor([[3, 1, 3], [0, 0, 0]]))
    assert packing.take(tokens).tolist() == [5, 6, 7, 0, 8, 7, 0, 0, 0, 0, 0]
    assert packing.states.tolist() == [0, 1, 2, 3, 1, 4, 5, 3, 6, 6, 6]
    assert packing.following.tolist() == [1, 2, 3, -1, 4, 5, -1, -1, -1, -1, -1]
    assert packing.own.tolist() == [0, 1, 2, 3, 6, 7, 12]
    assert packing.take_states(tokens).tolist() == [5, 6, 7, 0, 7, 0, 0]
    weights = torch.tensor([[1.0, 10.0, 100.0], [1.0, 10.0, 100.0]])
    assert packing.weigh(weights).tolist() == [111, 101, 101, 1, 10, 10, 10, 100, 1, 10, 100]
    full = [[[1, 2, 3, 4], [1, 5, 6, 7], [1, 2, 3, 8]], [[9, 0, 0, 0], [10, 0, 0, 0], [11, 0, 0, 0]]]
    assert packing.fill(torch.arange(1.0, 12)).tolist() == full


def test_filling_without_sharing_is_spreading() -> None:
    numbers = torch.arange(1.0, len(PACKING.places) + 1)
    assert torch.equal(PACKING.fill(numbers), PACKING.spread(numbers))


def test_what_is_not_shared_is_weighed_by_its_sequence() -> None:
    assert PACKING.weigh(torch.arange(5.0)).tolist() == [0] * 4 + [1] * 2 + [2] + [3] * 3 + [4] * 4


def reader(states: int, words: int, seed: int = 1) -> Reader:
    return Reader(Table(random(states, D, seed=seed), random(words, D, seed=seed + 1), random(words, seed=seed + 2)))


def test_room_for_scores_stays_and_grows() -> None:
    small, again, large = (reader(states, 7).tables(2) for states in (4, 4, 9))
    assert small.shape == again.shape == (2, 4, 7)
    assert large.shape == (2, 9, 7)
    assert small.data_ptr() == again.data_ptr()
    large.zero_()


def test_threads_have_rooms_of_their_own() -> None:
    mine, others = reader(4, 7).tables(1), []
    thread = threading.Thread(target=lambda: others.append(reader(4, 7).tables(1)))
    thread.start()
    thread.join()
    assert others[0].data_ptr() != mine.data_ptr()


# Other alphabets.

IDS = torch.tensor([5, 0, 3, 1, 2, 4, 6])  # the new id of each old one: eos is 5, and a word is called 0


def assert_same(found: Packing, expected: Packing) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        assert torch.equal(mine, theirs) if isinstance(mine, Tensor) else mine == theirs


def test_packing_and_sharing_with_another_eos() -> None:
    assert_same(pack(IDS[TOKENS], 5), PACKING)
    tokens = torch.tensor([[[5, 6, 1, 0], [5, 3, 1, 0], [5, 6, 1, 0]], [[0, 0, 0, 0]] * 3])
    fork = torch.tensor([[3, 1, 3], [0, 0, 0]])
    assert_same(share(IDS[tokens], fork, 5), share(tokens, fork))


def test_a_reader_without_a_bias_and_with_ids_that_are_no_actions() -> None:
    features, weight, bias = random(4, D, seed=1), random(7, D, seed=2), random(7, seed=3)
    actions = torch.tensor([True, False, True, True, False, True, True])
    everywhere = torch.arange(4)
    for added in (None, bias):
        full = torch.nn.functional.linear(features, weight, added)
        plain, some = Reader(Table(features, weight, added, 5)), Reader(Table(features, weight, added, 5, actions))
        torch.testing.assert_close(plain.scores(everywhere, plain.tables(1)[0]), full)
        scores = some.scores(everywhere, some.tables(1)[0]).clone()
        torch.testing.assert_close(scores[:, actions], full[:, actions])
        assert scores.isfinite().all()  # for 0 times a number is 0
        assert scores.softmax(-1)[:, ~actions].eq(0).all()
        assert (plain.count(), some.count()) == (7, 5)
        readout = torch.cat([weight, torch.zeros(7, 1).double() if added is None else added.unsqueeze(-1)], 1)
        torch.testing.assert_close(plain.mean_readout(), readout.mean(0))
        torch.testing.assert_close(some.mean_readout(), readout[actions].mean(0))
        for reader in (plain, some):
            torch.testing.assert_close(reader.eos(), full[:, 5])
            torch.testing.assert_close(reader.chosen(torch.tensor([6, 0, 2, 5]), None), full[everywhere, [6, 0, 2, 5]])
        policy = full.masked_fill(~actions, -torch.inf).softmax(-1)
        torch.testing.assert_close(some.expected(policy, everywhere), (policy * full).sum(-1))
