"""The networks of finished phases, for search and for warm starts: a file each in the folder `weights` of a run."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

INITIAL = "initial"  # weights to begin with, where a run starts from another one's


def path_of(run: Path, phase: str) -> Path:
    """Where the networks of a phase are kept."""
    return run / "weights" / f"{phase}.safetensors"


def save(run: Path, phase: str, tensors: Mapping[str, Tensor]) -> None:
    """The best networks of a finished phase, whole or not at all."""
    path = path_of(run, phase)
    path.parent.mkdir(exist_ok=True)
    partial = path.with_name(f".{phase}.partial")
    save_file({key: tensor.detach().contiguous() for key, tensor in tensors.items()}, partial)
    partial.replace(path)


def load(run: Path, phase: str) -> dict[str, Tensor]:
    """The networks of a phase; keys begin with `actor.` or `critic.`."""
    return load_file(path_of(run, phase))


def finished(run: Path, phases: Sequence[str]) -> list[str]:
    """Those of some phases that are finished, in their order."""
    return [phase for phase in phases if path_of(run, phase).exists()]


def of_network(weights: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The state of one network, "actor" or "critic", from weights whose keys begin with its name."""
    return {key.removeprefix(f"{name}."): tensor for key, tensor in weights.items() if key.startswith(f"{name}.")}
