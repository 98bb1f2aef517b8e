"""Checkpoints: tensors and JSON in a folder that appears complete or not at all.

Tensors are in safetensors, a file for each group. Those of sharded networks are in files of each process's own, as
torch.distributed.checkpoint writes them: any number of processes can read them, also one alone.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from seqcredit.data.reading import save_tensors
from seqcredit.data.storage import checksum, sync
from seqcredit.errors import UserError
from seqcredit.training.processes import Processes
from seqcredit.types import Json

STATE = "state.json"
WHOLE = ".safetensors"
KEEP = 2


class Checkpoint(NamedTuple):
    """What a checkpoint holds: named groups of tensors, and everything else as JSON."""

    tensors: dict[str, dict[str, Tensor]]
    state: Json
    shards: Path | None = None  # where the tensors still are, if their shards were saved

    def group(self, name: str, like: Callable[[str], Tensor | None]) -> dict[str, Tensor]:
        """The tensors of a group; of shards, this process reads what it has of a tensor that is `like` the one."""
        if self.shards is None:
            return self.tensors[name]
        from seqcredit.training import shards  # what it needs takes seconds to import

        return shards.read(self.shards, name, like)


def save(folder: Path, name: str, checkpoint: Checkpoint) -> None:
    """Write a checkpoint beside the others, then remove all but the newest few."""
    partial = folder / f".{name}.partial"
    with _written(folder, name):
        _begin(partial)
        for group, tensors in checkpoint.tensors.items():
            save_tensors(tensors, partial / f"{group}{WHOLE}")
        _end(partial, folder, name, checkpoint)


def save_shards(folder: Path, name: str, checkpoint: Checkpoint, processes: Processes) -> None:
    """The same by all processes together: each writes what it has."""
    from seqcredit.training import shards

    partial = folder / f".{name}.partial"
    with _written(folder, name):
        if processes.writes:
            _begin(partial)
        processes.wait()
        shards.write(partial, checkpoint.tensors)
        if processes.writes:
            _end(partial, folder, name, checkpoint)
        processes.wait()


def _begin(partial: Path) -> None:
    partial.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()


def _end(partial: Path, folder: Path, name: str, checkpoint: Checkpoint) -> None:
    """All files are on the disk, with their checksums, before the checkpoint has its name."""
    files = sorted(partial.iterdir())
    sync(*files)
    sums = {file.name: checksum(file) for file in files}
    text = json.dumps({**checkpoint.state, "files": sums}, indent=1)
    (partial / STATE).write_text(json.dumps({"sha256": _digest(text.encode()), "state": text}))
    sync(partial / STATE)
    os.replace(partial, folder / name)
    sync(folder)
    for old in names(folder)[:-KEEP]:
        shutil.rmtree(folder / old, ignore_errors=True)


@contextmanager
def _written(folder: Path, name: str) -> Iterator[None]:
    """A checkpoint that cannot be written is one sentence, and leaves nothing behind."""
    try:
        yield
    except OSError as error:
        shutil.rmtree(folder / f".{name}.partial", ignore_errors=True)
        raise UserError(
            f"The checkpoint {name} could not be written to {folder} ({error.strerror or error}); the one before it is "
            "whole: make room or allow writing there, then resume."
        ) from None


def names(folder: Path) -> list[str]:
    """The checkpoints of a folder, oldest first."""
    return sorted(path.name for path in folder.glob("[0-9]*") if path.is_dir()) if folder.exists() else []


def load(folder: Path, name: str) -> Checkpoint:
    """Read one checkpoint, every byte of it checked."""
    place = folder / name
    try:
        outer = json.loads((place / STATE).read_bytes())
        text = outer["state"]
        if _digest(text.encode()) != outer["sha256"]:
            raise ValueError(f"{STATE} was altered")
        state = json.loads(text)
        files = state.pop("files")
        for file, digest in files.items():
            if checksum(place / file) != digest:
                raise ValueError(f"{file} was altered or cut off")
        whole = [file for file in files if file.endswith(WHOLE)]
        tensors = {file.removesuffix(WHOLE): load_file(place / file) for file in whole}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
        raise UserError(f"The checkpoint {place} is damaged ({error}).") from None
    return Checkpoint(tensors, state, None if whole else place)


def newest(folder: Path, say: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint that is whole; damaged ones are named and passed over, unless there is no other."""
    there = names(folder)
    for name in reversed(there):
        try:
            return load(folder, name)
        except UserError as error:
            if name == there[0]:
                raise UserError(
                    f"{str(error).removesuffix('.')}, and there is no whole one in {folder}: bring one back from a "
                    "copy, or move that folder away to train the phase from its beginning; the log is kept."
                ) from None
            say(f"{error} Taking the one before it.")
    return None


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of an optimizer as named tensors."""
    state: Mapping[int, Mapping[str, Tensor]] = optimizer.state_dict()["state"]
    return {f"{i}.{key}": torch.as_tensor(value) for i, entry in state.items() for key, value in entry.items()}


def weight_of(optimizer: torch.optim.Optimizer, key: str) -> Tensor:
    """The weight that one of these tensors belongs to."""
    weights: list[Tensor] = [weight for group in optimizer.param_groups for weight in group["params"]]
    return weights[int(key.partition(".")[0])]


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put such tensors back; learning rates are not among them."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
