"""One process, or several that share every batch (torchrun)."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from seqcredit.errors import in_words


@dataclass(frozen=True)
class Processes:
    """This process among `size`. Sums over all of them make it as if one had the whole batch."""

    rank: int = 0
    size: int = 1
    sharded: bool = False  # each has a shard of every network

    @classmethod
    def join(cls, shard: bool = False) -> "Processes":
        """The group that torchrun started, or this process alone."""
        unfit = "WORLD_SIZE, RANK, LOCAL_RANK, MASTER_ADDR and MASTER_PORT are torchrun's: start with it, or unset them"
        with in_words(ValueError, lambda error: f"{unfit} ({error})."):
            if int(os.environ.get("WORLD_SIZE", "1")) == 1:
                return cls()
            if not dist.is_initialized():
                if torch.cuda.is_available():  # what `cuda` means in this process
                    torch.cuda.set_device(local_gpu(torch.cuda.device_count()))
                dist.init_process_group(backends(torch.cuda.is_available()))
        return cls(dist.get_rank(), dist.get_world_size(), shard)

    @property
    def writes(self) -> bool:
        """Only one of them writes to the disk."""
        return self.rank == 0

    def wait(self) -> None:
        """Until all of them are here."""
        if self.size > 1:
            dist.barrier()

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """First the one that writes, then the others."""
        if not self.writes:
            self.wait()
        yield
        if self.writes:
            self.wait()

    def take(self, tensors: Iterable[Tensor]) -> None:
        """All of them take the values that the first one has."""
        for tensor in tensors if self.size > 1 else ():
            dist.broadcast(tensor.detach(), 0)

    def leave(self) -> None:
        """The end of the group."""
        if self.size > 1:
            dist.destroy_process_group()

    def share(self, rows: int) -> slice:
        """The rows of a batch that are this process's."""
        return share(rows, self.rank, self.size)

    def any(self, *flags: bool) -> list[bool]:
        """What at least one of them says: they must do the same."""
        if self.size == 1:
            return [*flags]
        said = torch.tensor(flags, dtype=torch.float64)
        dist.all_reduce(said)
        return [number > 0 for number in said.tolist()]

    def summed(self, pairs: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
        """Add what each process measured."""
        if self.size == 1:
            return dict(pairs)
        table = torch.tensor(list(pairs.values()), dtype=torch.float64)
        dist.all_reduce(table)
        return {key: (float(row[0]), float(row[1])) for key, row in zip(pairs, table, strict=True)}


def share(rows: int, number: int, parts: int) -> slice:
    """The rows of one of so many parts of a batch, which are as equal as can be."""
    return slice(rows * number // parts, rows * (number + 1) // parts)


def local_gpu(gpus: int) -> int:
    """The GPU of this process, by torchrun's count of those on its machine; trained on the CPU, there may be more."""
    return int(os.environ.get("LOCAL_RANK", "0")) % gpus


def backends(cuda: bool) -> str:
    """Who sums what: NCCL takes no tensor of the CPU, and what is watched is there."""
    return "cpu:gloo,cuda:nccl" if cuda else "gloo"
