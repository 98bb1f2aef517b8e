"""Sharded networks: each process has a part of them (torch's `fully_shard`, FSDP2), and how the parts are saved."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from seqcredit.errors import require
from seqcredit.training.parallel import Held, Losing
from seqcredit.training.processes import Processes


class Shards(Held):
    """A network of which every process has a shard of each weight, its gradient and what the optimizer knows of it.

    A loss may ask for any weight at any time, as often as its samples are long, and processes draw samples of unequal
    lengths: so all weights are gathered before a loss and released after its gradients.
    """

    def __init__(self, network: nn.Module, processes: Processes) -> None:
        super().__init__(network)
        self.processes = processes
        kinds = {str(weight.dtype) for weight in network.parameters()}
        mixed = f"Weights of {' and '.join(sorted(kinds))} cannot be sharded together: make them one kind, by .float()."
        require(len(kinds) == 1, mixed)
        numbers = [key for key, weight in network.named_parameters() if not weight.dim()]
        require(not numbers, f"{', '.join(numbers)}: a single number cannot be sharded; make it a vector of length 1.")
        mesh = init_device_mesh(next(network.parameters()).device.type, (processes.size,))
        self.losing = Losing(network)
        self.control = fully_shard(self.losing, mesh=mesh, reshard_after_forward=False)  # the same module
        self.control.set_reshard_after_backward(False)

    def backward(self, loss: Tensor, last: bool) -> None:
        """As of a copy, but that all processes must have gradients of the same weights: some are zeros."""
        self.control.set_requires_gradient_sync(last)
        taken, learning = self.losing(lambda: loss * self.processes.size), self.learning()
        for weight in learning if last else ():
            weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
        taken.backward(inputs=learning)

    def gather(self) -> None:
        """All shards of all weights."""
        self.control.unshard()

    def release(self) -> None:
        """One shard of each."""
        self.control.reshard()

    def whole(self, tensor: Tensor) -> Tensor:
        """From the shards of all processes."""
        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

    def part(self, tensor: Tensor, like: Tensor) -> Tensor:
        """The shard of this process."""
        if isinstance(tensor, DTensor) or not isinstance(like, DTensor):
            return super().part(tensor, like)
        there = tensor.to(like.device_mesh.device_type)
        return distribute_tensor(there, like.device_mesh, like.placements, src_data_rank=None)


def write(folder: Path, groups: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Named groups of tensors: each process writes what it has, and comes back when all have written."""
    flat = {f"{group}/{key}": tensor.detach() for group, tensors in groups.items() for key, tensor in tensors.items()}
    try:
        save(flat, storage_writer=FileSystemWriter(folder))
    except CheckpointException as error:
        raise OSError(str(next(iter(error.failures.values()))[0])) from error


def read(folder: Path, group: str, like: Callable[[str], Tensor | None]) -> dict[str, Tensor]:
    """The tensors of a group, each shared out as the one that it is like, however many processes have written them."""
    reader, found = FileSystemReader(folder), dict[str, Tensor]()
    for name, known in reader.read_metadata().state_dict_metadata.items():
        mine, _, key = name.partition("/")
        if mine == group and isinstance(known, TensorStorageMetadata):
            near = like(key)
            if near is None or near.shape != known.size:
                near = torch.empty(known.size, dtype=known.properties.dtype)
            found[key] = torch.zeros_like(near)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a process alone has no group
        load({f"{group}/{key}": tensor for key, tensor in found.items()}, storage_reader=reader)
    return found
