"""Before training: the device, the data, and phases that another run has finished."""

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from seqcredit.data.prepared import Prepared
from seqcredit.errors import UserError, require
from seqcredit.experiments.runs import Run
from seqcredit.models.build import differences
from seqcredit.training.weights import INITIAL


def open_device(device: torch.device | str, said: str = "device") -> torch.device:
    """A device on which a tensor has been made and read; whoever writes anything asks first."""
    try:
        found = torch.device(device)
        torch.zeros(1, device=found).cpu()
    except Exception:  # every backend has its own
        there = ["cpu", *(["cuda"] * torch.cuda.is_available()), *(["mps"] * torch.backends.mps.is_available())]
        raise UserError(f"{said} {device}: torch finds no such device here; give {' or '.join(there)}.") from None
    return found


def open_data(folder: Path, vocabularies: Mapping[str, str] | None = None) -> Prepared:
    """A prepared folder, with the vocabularies that a run was trained on."""
    if str(folder) in ("", "."):
        raise UserError("No data: give --data FOLDER, a folder that `seqcredit prepare` made, or `data` in the recipe.")
    prepared = Prepared.open(folder)
    for side, checksum in (vocabularies or {}).items():
        if prepared.checksums[side] != checksum:
            raise UserError(f"The {side} vocabulary of {folder} is not the one that the run was trained with.")
    return prepared


def take_over(run: Run, folder: Path, say: Callable[[str], None]) -> None:
    """Start from what another run has finished: phases of the same name are not trained again."""
    other = Run.open(folder)
    _same_vocabularies(run, other)
    done = other.phases_done()
    require(done, f"{folder} has not finished a phase yet; there is nothing to take over.")
    theirs = {phase.name: phase for phase in other.recipe.phase}
    leading = list(itertools.takewhile(lambda phase: phase.name in done, run.recipe.phase))
    for phase in leading:
        if phase != theirs[phase.name]:
            say(f"{phase.name}: taken over from {folder}, where it was trained with other settings.")
    taken = [phase.name for phase in leading]
    _same_shapes(run, other, taken[-1] if taken else done[-1])
    for name in taken:
        run.save_weights(name, other.weights(name))
    if not taken:
        run.save_weights(INITIAL, other.weights(done[-1]))
    what = f"phases {', '.join(taken)}" if taken else f"the weights of phase {done[-1]}"
    say(f"{what} taken over from {folder}")


def _same_vocabularies(run: Run, other: Run) -> None:
    for side, checksum in run.about["vocabularies"].items():
        if other.about["vocabularies"].get(side) != checksum:
            raise UserError(
                f"{other.folder} was trained with another {side} vocabulary; prepare its data in the same way, or "
                "train from scratch."
            )


def _same_shapes(run: Run, other: Run, phase: str) -> None:
    """Networks that are taken over must have the recipe's shape."""
    held = {key.partition(".")[0] for key in other.weights(phase)}
    for name in held:
        for key, mine, theirs in differences(getattr(run.recipe, name), getattr(other.recipe, name)):
            raise UserError(
                f"The {name} of {other.folder} has {key} = {theirs}, this recipe's has {mine}; make them the same, or "
                "train from scratch."
            )
