"""An LSTM over sequences of any lengths: torch's own, and its gradients; and along trees of sequences."""

import pytest
import torch
from torch import Tensor

from seqcredit.models.recurrence import Tree, grow, ragged, unroll, unroll_tree
from seqcredit.types import token_mask

LENGTHS = torch.tensor([3, 5, 0, 1, 5])
E, H = 4, 3


def test_places_are_step_by_step_with_the_longest_first() -> None:
    order = ragged(LENGTHS)
    assert order.sizes == [4, 3, 3, 2, 2]
    assert order.rank.tolist() == [2, 0, 4, 3, 1]
    assert order.place(torch.tensor([1, 0, 4]), torch.tensor([0, 2, 4])).tolist() == [0, 9, 13]
    everything = [order.place(torch.tensor([r]), torch.tensor([s])) for r, n in enumerate(LENGTHS) for s in range(n)]
    assert sorted(int(place) for place in everything) == list(range(14))


def test_nothing_at_all() -> None:
    assert ragged(torch.zeros(2, dtype=torch.long)).sizes == []
    assert ragged(torch.zeros(0, dtype=torch.long)).sizes == []


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def weights() -> list[Tensor]:
    return [random(4 * H, E, seed=1), random(4 * H, H, seed=2), random(4 * H, seed=3), random(4 * H, seed=4)]


def test_equals_torch_sequence_by_sequence() -> None:
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(E, H).double()
    inputs, h, c, order = random(14, E), random(5, H, seed=5), random(5, H, seed=6), ragged(LENGTHS)
    states, cells = unroll(inputs, order.sizes, h, c, lstm.all_weights[0])
    for sequence, length in enumerate(LENGTHS.tolist()):
        rank = int(order.rank[sequence])
        places = order.place(torch.full((length,), sequence), torch.arange(length))
        if length:
            expected, (last_h, last_c) = lstm(inputs[places], (h[rank][None], c[rank][None]))
            torch.testing.assert_close(states[places], expected)
            torch.testing.assert_close((states[places[-1:]], cells[places[-1:]]), (last_h, last_c))


def test_gradients_are_those_of_finite_differences() -> None:
    def both(inputs: Tensor, h: Tensor, c: Tensor, *others: Tensor) -> tuple[Tensor, Tensor]:
        return unroll(inputs, ragged(LENGTHS).sizes, h, c, others)

    assert torch.autograd.gradcheck(both, (random(14, E), random(5, H, seed=5), random(5, H, seed=6), *weights()))


# Trees: 3 sources, and 3 sequences of each. The second branches off the first; so does the third, but at the very end.

FORK = torch.tensor([[3, 1, 3], [1, 0, 1], [0, 0, 0]])


def sequences(eos: int) -> Tensor:
    rows = [[[5, 6, 7], [5, 8, 7], [5, 6, 7]], [[4], [9], [4]], [[], [], []]]
    return torch.tensor([[row + [eos] * (4 - len(row)) for row in group] for group in rows])


def tree(eos: int = 0) -> tuple[Tensor, Tensor, Tensor, Tree]:
    return grow(sequences(eos), FORK, eos)


@pytest.mark.parametrize("eos", [0, 3])
def test_states_of_a_tree_by_hand(eos: int) -> None:
    """All states of the stems; of the twigs those after the fork, where the state itself is the stem's."""
    b, m, t, (place, stems, twigs, fork) = tree(eos)
    expected = [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 0, 3), (0, 1, 2), (0, 1, 3)]
    expected += [(1, 0, 0), (1, 0, 1), (1, 1, 1), (2, 0, 0)]
    assert list(zip(b.tolist(), m.tolist(), t.tolist(), strict=True)) == expected
    assert stems.sizes == [3, 2, 1, 1]
    assert twigs.sizes == [2, 1]
    assert place.tolist() == [0, 3, 5, 6, 7, 9, 1, 4, 8, 2]
    assert fork.tolist() == [3, 6, 1, 4, 2, 2]


@pytest.mark.parametrize("eos", [0, 3])
def test_a_tree_equals_torch_sequence_by_sequence(eos: int) -> None:
    torch.manual_seed(0)
    lstm, words = torch.nn.LSTM(E, H).double(), random(10, E, seed=7)
    tokens, (b, m, t, grown) = sequences(eos), tree(eos)
    h, c = random(3, H, seed=5), random(3, H, seed=6)
    before = words[torch.nn.functional.pad(tokens[..., :-1], (1, 0), value=1)]  # (3, 3, 4, E)
    inputs = before[b, m, t][grown.place.argsort()]
    found = unroll_tree(inputs, grown, h, c, lstm.all_weights[0])[grown.place]
    for i, (source, sequence, step) in enumerate(zip(b, m, t, strict=True)):
        expected, _ = lstm(before[source, sequence, : step + 1], (h[source][None], c[source][None]))
        torch.testing.assert_close(found[i], expected[-1])
    assert len(found) < int(token_mask(tokens, eos).sum())


def test_gradients_of_a_tree_are_those_of_finite_differences() -> None:
    *_, grown = tree()

    def states(inputs: Tensor, h: Tensor, c: Tensor, *others: Tensor) -> Tensor:
        return unroll_tree(inputs, grown, h, c, others)

    assert torch.autograd.gradcheck(states, (random(10, E), random(3, H, seed=5), random(3, H, seed=6), *weights()))
