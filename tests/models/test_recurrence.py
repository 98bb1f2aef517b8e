"""An LSTM over sequences of any lengths: torch's own, and its gradients."""

import torch
from torch import Tensor

from seqcredit.models.recurrence import ragged, unroll

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
