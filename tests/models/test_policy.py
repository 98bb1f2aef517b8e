import torch

from seqcredit.models.memory import State, join, repeat, select


def state(rows: int) -> State:
    number = torch.arange(rows, dtype=torch.float64)
    return State(*(number.view(-1, *[1] * dims).expand(-1, *[3] * dims) for dims in (2, 2, 1, 1)))


def test_select_takes_the_same_rows_of_every_field() -> None:
    picked = select(state(4), torch.tensor([2, 0, 2]))
    assert isinstance(picked, State)
    for field, whole in zip(picked, state(4), strict=True):
        assert torch.equal(field, whole[[2, 0, 2]])


def test_repeat_puts_the_copies_side_by_side() -> None:
    for field, whole in zip(repeat(state(3), 2), state(3), strict=True):
        assert torch.equal(field, whole[[0, 0, 1, 1, 2, 2]])


def test_join_keeps_the_order() -> None:
    for field, whole in zip(join(state(2), state(3)), state(3), strict=True):
        assert torch.equal(field, whole[[0, 1, 0, 1, 2]])
