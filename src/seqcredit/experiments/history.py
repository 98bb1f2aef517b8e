"""What runs have logged, as curves."""

from collections.abc import Sequence
from pathlib import Path

from seqcredit.experiments.runs import Run
from seqcredit.training.log import History, read_history


def history(run: Run) -> History:
    """What a run has logged so far."""
    q_phases = {phase.name for phase in run.recipe.phase if "actor" not in phase.trains}
    return read_history(run.folder / "log.jsonl", run.recipe.metric, q_phases)


def labels(folders: Sequence[Path]) -> list[str]:
    """A name for each run: its folder's, or the whole path where two have the same."""
    names = [folder.resolve().name for folder in folders]
    return [name if names.count(name) == 1 else str(f) for name, f in zip(names, folders, strict=True)]
