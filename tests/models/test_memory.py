"""What LSTMs hand over: rows of every field at once."""

import torch

from models.small import SOURCE, model, parts
from seqcredit.models.memory import Memory, State


def state(rows: int) -> State:
    number = torch.arange(rows, dtype=torch.float64)
    return State(*(number.view(-1, *[1] * dims).expand(-1, *[3] * dims) for dims in (2, 2, 1, 1)))


def test_select_takes_the_same_rows_of_every_field() -> None:
    picked = state(4).select(torch.tensor([2, 0, 2]))
    assert isinstance(picked, State)
    assert picked.rows == 3
    for field, whole in zip(parts(picked), parts(state(4)), strict=True):
        assert torch.equal(field, whole[[2, 0, 2]])


def test_join_keeps_the_order() -> None:
    joined = state(2).join(state(3))
    assert isinstance(joined, State)
    assert joined.rows == 5
    for field, whole in zip(parts(joined), parts(state(3)), strict=True):
        assert torch.equal(field, whole[[0, 1, 0, 1, 2]])


def test_a_source_is_read_alike_in_parts() -> None:
    """Two halves of a batch, joined, are the batch: every field of a memory has a row for each sentence."""
    net = model()
    whole = net.encode(SOURCE)
    assert isinstance(whole, Memory)
    halves = whole.select(torch.tensor([0, 1])).join(whole.select(torch.tensor([2, 3])))
    assert whole.rows == halves.rows == len(SOURCE)
    for field, expected in zip(parts(halves), parts(whole), strict=True):
        assert len(field) == len(SOURCE)
        assert torch.equal(field, expected)
