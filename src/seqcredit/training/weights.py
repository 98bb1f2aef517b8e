"""The networks of finished phases, for search and for warm starts: a file each in the folder `weights` of a run."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor, nn

from seqcredit.data.reading import read_tensors, write_tensors
from seqcredit.errors import in_words

INITIAL = "initial"  # weights to begin with, where a run starts from another one's


def path_of(run: Path, phase: str) -> Path:
    """Where the networks of a phase are kept."""
    return run / "weights" / f"{phase}.safetensors"


def save(run: Path, phase: str, tensors: Mapping[str, Tensor]) -> None:
    """The best networks of a finished phase, whole or not at all."""
    path = path_of(run, phase)
    path.parent.mkdir(exist_ok=True)
    write_tensors(path, tensors)


def load(run: Path, phase: str) -> dict[str, Tensor]:
    """The networks of a phase; keys begin with `actor.` or `critic.`."""
    return read_tensors(path_of(run, phase), "train the phase again, or take a copy that is whole")


def put(network: nn.Module, weights: Mapping[str, Tensor], name: str, folder: Path) -> None:
    """Give a network its weights, "actor" or "critic", of a run folder."""
    unlike = f"The {name} in {folder} is not of the shape that its resolved.toml says: take both from one run."
    with in_words((RuntimeError, KeyError, TypeError), unlike):
        network.load_state_dict(of_network(weights, name))


def finished(run: Path, phases: Sequence[str]) -> list[str]:
    """Those of some phases that are finished, in their order."""
    return [phase for phase in phases if path_of(run, phase).exists()]


def of_network(weights: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The state of one network, "actor" or "critic", from weights whose keys begin with its name."""
    return {key.removeprefix(f"{name}."): tensor for key, tensor in weights.items() if key.startswith(f"{name}.")}
