"""One process, or several that share every batch (torchrun)."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


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
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
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
        return slice(rows * self.rank // self.size, rows * (self.rank + 1) // self.size)

    def sum_gradients(self, parameters: Sequence[Tensor]) -> None:
        """Add the gradients of all processes, in place."""
        if self.size > 1:
            gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            dist.all_reduce(flat)
            for parameter, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
                parameter.grad = part.view_as(parameter)

    def summed(self, pairs: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
        """Add what each process measured."""
        if self.size == 1:
            return dict(pairs)
        table = torch.tensor(list(pairs.values()), dtype=torch.float64)
        dist.all_reduce(table)
        return {key: (float(row[0]), float(row[1])) for key, row in zip(pairs, table, strict=True)}
