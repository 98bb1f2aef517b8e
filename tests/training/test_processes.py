"""Several processes that share a batch are one: real ones, by torchrun and gloo."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from seqcredit.training.processes import Processes, backends, buckets, local_gpu, share

# Prints nothing: what a process finds is written to `found-RANK.pt`.
BEGIN = """
import sys
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

from seqcredit.algorithms import ActorCritic, Mle, Raml
from seqcredit.draws import Noise
from seqcredit.models import critic as judges
from seqcredit.models.lstm import Seq2Seq
from seqcredit.rewards import Bleu
from seqcredit.training.learner import Learner
from seqcredit.training.processes import Processes
from seqcredit.types import Batch, pad, pad_references

processes = Processes.join()
"""
END = """
torch.save(found, Path(sys.argv[1]) / f"found-{processes.rank}.pt")
processes.leave()
"""
UPDATES = """
batch = Batch(
    pad([[2, 3], [4], [5, 6, 2], [3, 3, 4, 2], [6]]),
    pad_references([[[3, 2]], [[4]], [[2, 6, 5]], [[5, 5, 4, 3, 2]], [[6, 2]]]),
)
mine = processes.share(5)
some = Batch(batch.source[mine], batch.references[mine])
found = {}
for phase in (Mle("mle", 0.3), Raml("raml", 0.3), ActorCritic("joint", 0.3)):
    made = torch.Generator().manual_seed(0)
    networks = {"actor": Seq2Seq(7, 7, 8, 8, generator=made), "critic": judges.Critic(7, 8, 8, generator=made)}
    networks = {name: network.double() for name, network in networks.items()}
    phase = replace(phase, accumulate=2 if processes.size > 1 else 1, clip=1e9)
    learner = Learner(networks, phase, Bleu(scaled=True), processes=processes)
    for _ in range(2):
        noise = Noise(learner.generator, 5, mine.start, mine.stop - mine.start)
        watched = learner.update(some, noise)
    found[phase.name] = {name: network.state_dict() for name, network in learner.networks.items()}
    found[f"{phase.name} watched"] = {key: torch.tensor(pair, dtype=torch.float64) for key, pair in watched.items()}
"""
SUMS = """
shapes = [(3, 5), (7_000_000,), (2,), (4, 4), (6,), (5, 3), (2, 2)]
kinds = [torch.float32] * 4 + [torch.float64] * 3
own = torch.Generator().manual_seed(processes.rank)
weights = [torch.zeros(shape, dtype=kind, requires_grad=True) for shape, kind in zip(shapes, kinds, strict=True)]
for weight in weights[:5]:
    weight.grad = torch.randn(weight.shape, dtype=weight.dtype, generator=own)
weights[5].grad = torch.randn(3, 5, dtype=torch.float64, generator=own).T  # not contiguous, and the last has none
still = torch.zeros(2, requires_grad=False)
flat = [torch.zeros_like(weight).flatten() if weight.grad is None else weight.grad.flatten() for weight in weights]
halves = [torch.cat(flat[:4]), torch.cat(flat[4:])]
for half in halves:
    dist.all_reduce(half)
processes.sum_gradients([*weights[:2], still, *weights[2:]])
found = {"at once": halves, "in buckets": [weight.grad for weight in weights], "still": still.grad}
found["summed"] = processes.summed({"td": (processes.rank + 1.0, 2.0), "nll": (0.5, 1.0)})
"""


def run(script: str, folder: Path, processes: int) -> list[dict]:
    """What each of some processes finds."""
    folder.mkdir()
    (folder / "script.py").write_text(BEGIN + script + END)
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    start = [sys.executable, *(torchrun if processes > 1 else []), str(folder / "script.py"), str(folder)]
    done = subprocess.run(
        start, capture_output=True, text=True, check=False, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    return [torch.load(folder / f"found-{rank}.pt") for rank in range(processes)]


@pytest.mark.slow
def test_two_processes_of_two_parts_are_one_process(tmp_path: Path) -> None:
    """Weights and all that is watched after two updates, in float64; both processes have the same."""
    (alone,) = run(UPDATES, tmp_path / "one", 1)
    for found in run(UPDATES, tmp_path / "two", 2):
        for phase in ("mle", "raml", "joint"):
            torch.testing.assert_close(found[phase], alone[phase], rtol=0, atol=1e-12)
            torch.testing.assert_close(found[f"{phase} watched"], alone[f"{phase} watched"], rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_gradients_in_buckets_are_summed_as_all_at_once(tmp_path: Path) -> None:
    for found in run(SUMS, tmp_path / "two", 2):
        single, double = found["at once"]
        grads = found["in buckets"]
        assert torch.equal(torch.cat([grad.flatten() for grad in grads[:4]]), single)
        assert torch.equal(torch.cat([grad.flatten() for grad in grads[4:]]), double)
        assert float(single.abs().sum()) > 0
        assert found["still"] is None  # what does not learn
        assert found["summed"] == {"td": (3.0, 4.0), "nll": (1.0, 2.0)}


def test_buckets_keep_the_order_the_kind_and_the_size() -> None:
    sizes = [1, 2, 9, 1, 1, 1, 3]
    tensors = [torch.full((size,), float(size)) for size in sizes]
    tensors[4:] = [tensor.double() for tensor in tensors[4:]]
    found = [[len(tensor) for tensor in bucket] for bucket in buckets(tensors, most=16)]
    assert found == [[1, 2], [9], [1], [1, 1], [3]]
    assert list(buckets([])) == []


def test_shares_cover_the_batch_once() -> None:
    for rows in (1, 2, 7, 50):
        for size in (1, 2, 3, 5):
            slices = [Processes(rank, size).share(rows) for rank in range(size)]
            assert slices == [share(rows, rank, size) for rank in range(size)]
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
