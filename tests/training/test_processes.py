import torch

from seqcredit.training.processes import Processes


def test_shares_cover_the_batch_once() -> None:
    for rows in (1, 2, 7, 50):
        for size in (1, 2, 3, 5):
            slices = [Processes(rank, size).share(rows) for rank in range(size)]
            assert [i for s in slices for i in range(rows)[s]] == list(range(rows))


def test_one_process_changes_nothing() -> None:
    alone = Processes()
    weight = torch.ones(3, requires_grad=True)
    weight.sum().backward()
    alone.sum_gradients([weight])
    assert torch.equal(weight.grad, torch.ones(3))
    assert alone.summed({"td": (1.0, 2.0)}) == {"td": (1.0, 2.0)}
    assert alone.writes
    assert not Processes(1, 2).writes
