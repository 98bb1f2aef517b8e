"""One process, or several that share every batch (torchrun)."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

BUCKET = 25 * 2**20  # bytes of gradients that are summed at a time


@dataclass(frozen=True)
class Processes:
    """This process among `size`. Sums over all of them make it as if one had the whole batch."""

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls) -> "Processes":
        """The group that torchrun started, or this process alone."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        if torch.cuda.is_available():  # what `cuda` means in this process
            torch.cuda.set_device(local_gpu(torch.cuda.device_count()))
        dist.init_process_group(backends(torch.cuda.is_available()))
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def writes(self) -> bool:
        """Only one of them writes to the disk."""
        return self.rank == 0

    def wait(self) -> None:
        """Until all of them are here."""
        if self.size > 1:
            dist.barrier()

    def leave(self) -> None:
        """The end of the group."""
        if self.size > 1:
            dist.destroy_process_group()

    def share(self, rows: int) -> slice:
        """The rows of a batch that are this process's."""
        return share(rows, self.rank, self.size)

    def sum_gradients(self, parameters: Sequence[Tensor]) -> None:
        """Add the gradients of all processes, in place; what does not learn has none."""
        if self.size == 1:
            return
        for parameter in parameters:
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        for bucket in buckets([parameter.grad for parameter in parameters if parameter.grad is not None]):
            # A large one needs no copy: it is summed where it stands.
            flat = bucket[0].flatten() if len(bucket) == 1 else torch.cat([each.flatten() for each in bucket])
            dist.all_reduce(flat)
            for gradient, part in zip(bucket, flat.split([each.numel() for each in bucket]), strict=True):
                gradient.copy_(part.view_as(gradient))

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


def buckets(tensors: Sequence[Tensor], most: int = BUCKET) -> Iterator[list[Tensor]]:
    """Neighbours of one dtype, so many bytes together at the most; a larger tensor is alone."""
    bucket: list[Tensor] = []
    for tensor in tensors:
        together = sum(each.nbytes for each in bucket) + tensor.nbytes
        if bucket and (together > most or tensor.dtype != bucket[0].dtype):
            yield bucket
            bucket = []
        bucket.append(tensor)
    if bucket:
        yield bucket


def local_gpu(gpus: int) -> int:
    """The GPU of this process, by torchrun's count of those on its machine; trained on the CPU, there may be more."""
    return int(os.environ.get("LOCAL_RANK", "0")) % gpus


def backends(cuda: bool) -> str:
    """Who sums what: NCCL takes no tensor of the CPU, and what is watched is there."""
    return "cpu:gloo,cuda:nccl" if cuda else "gloo"
