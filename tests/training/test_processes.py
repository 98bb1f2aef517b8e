"""Which process has which part of a batch; what several of them do together is in test_parallel.py."""

import pytest
import torch

from seqcredit.errors import UserError
from seqcredit.training.processes import Processes, backends, local_gpu, share


def test_shares_cover_the_batch_once() -> None:
    for rows in (1, 2, 7, 50):
        for size in (1, 2, 3, 5):
            slices = [Processes(rank, size).share(rows) for rank in range(size)]
            assert slices == [share(rows, rank, size) for rank in range(size)]
            assert [i for s in slices for i in range(rows)[s]] == list(range(rows))


def test_one_process_changes_nothing() -> None:
    alone = Processes.join(shard=True)
    assert alone == Processes()
    weight = torch.ones(3)
    alone.take([weight])
    assert torch.equal(weight, torch.ones(3))
    assert alone.any(True, False) == [True, False]
    with alone.in_turn():
        alone.wait()
    assert alone.summed({"td": (1.0, 2.0)}) == {"td": (1.0, 2.0)}
    assert alone.writes
    assert not Processes(1, 2).writes


@pytest.mark.parametrize("wrong", [{"WORLD_SIZE": "abc"}, {"WORLD_SIZE": "2"}, {"WORLD_SIZE": "2", "RANK": "x"}])
def test_what_only_looks_like_torchrun_is_said(wrong: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in wrong.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=r"^WORLD_SIZE, RANK, .* are torchrun's: start with it, or unset them"):
        Processes.join()


def test_each_process_of_a_machine_has_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for rank in range(4):
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        found.append((local_gpu(4), local_gpu(1)))
    assert found == [(rank, 0) for rank in range(4)]
    monkeypatch.delenv("LOCAL_RANK")
    assert local_gpu(2) == 0


def test_tensors_of_the_cpu_never_go_to_nccl() -> None:
    assert backends(cuda=False) == "gloo"
    assert dict(pair.split(":") for pair in backends(cuda=True).split(",")) == {"cpu": "gloo", "cuda": "nccl"}
