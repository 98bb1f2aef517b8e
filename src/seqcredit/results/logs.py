"""A run's log as curves: what was measured, over the updates of all its phases, also while it is being written."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seqcredit import config
from seqcredit.errors import UserError
from seqcredit.experiments.runs import Run

# What can be drawn, and what it is called. Losses of different kinds are different curves.
CURVES = {
    "bleu": "validation BLEU",
    "q_bleu": "validation BLEU of Q",
    "sample_bleu": "sample BLEU",
    "reward": "reward of samples",
    "entropy": "entropy of the policy",
    "nll": "negative log-likelihood of a token",
    "loss": "loss of a sentence",
    "td": "squared TD error",
    "credit_error": "credit error",
    "credit_kl": "KL of token targets",
}
VALIDATED = {"bleu", "q_bleu", "credit_error", "credit_kl"}  # the others are measured while training

Curve = list[tuple[int, float]]  # updates since the run began, and what was measured then


@dataclass(frozen=True)
class History:
    """The lines of a log that count: what a rollback undid is left out."""

    entries: list[dict[str, Any]] = field(default_factory=list)  # `total`: updates since the run began

    def curve(self, key: str) -> Curve:
        """One of `CURVES`; empty if it was never measured."""
        event = "validation" if key in VALIDATED else "train"
        found = [(e["total"], float(e[key])) for e in self.entries if e["event"] == event and key in e]
        return [(total, value) for total, value in found if math.isfinite(value)]

    def starts(self) -> list[int]:
        """Where each phase but the first begins."""
        ends = [entry["total"] for entry in self.entries if entry["event"] == "phase_end"]
        return [end for end in ends if any(entry["total"] > end for entry in self.entries)]


def history(run: Run) -> History:
    """What a run has logged so far."""
    q_phases = {phase.name for phase in run.recipe.phase if isinstance(phase, config.SoftQ)}
    kept: list[dict[str, Any]] = []
    offset = 0  # updates of the phases before
    for entry in lines(run.folder / "log.jsonl"):
        phase, updates = entry["phase"], entry["updates"]
        total = offset + updates
        again = [old for old in _from(kept, total) if entry["event"] == "phase_end" or _stands(old, entry)]
        kept += again
        if phase in q_phases and "bleu" in entry:
            entry["q_bleu"] = entry.pop("bleu")
        kept.append({**entry, "total": total})
        offset = total if entry["event"] == "phase_end" else offset
    return History(kept)


def _from(kept: list[dict[str, Any]], total: int) -> list[dict[str, Any]]:
    """Takes the lines from a number of updates on off the end."""
    first = len(kept)
    while first and kept[first - 1]["total"] >= total:
        first -= 1
    taken = kept[first:]
    del kept[first:]
    return taken


def _stands(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether a line holds though a later one has no more updates; if not, a rollback has undone it."""
    same_moment = old["updates"] == new["updates"] and old["event"] != new["event"]
    return old["event"] == "diverged" or old["phase"] != new["phase"] or same_moment


def lines(path: Path) -> list[dict[str, Any]]:
    """All whole lines of a log; the last one may still be under way."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    found = []
    for number, line in enumerate(text.split(b"\n")[:-1], 1):
        try:
            entry = json.loads(line)
            found.append({**entry, "updates": int(entry["updates"]), "phase": str(entry["phase"])})
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{path}, line {number}, is damaged: `seqcredit resume` the run to mend it.") from None
    return found


def labels(folders: list[Path]) -> list[str]:
    """A name for each run: its folder's, or the whole path where two have the same."""
    names = [folder.resolve().name for folder in folders]
    return [name if names.count(name) == 1 else str(f) for name, f in zip(names, folders, strict=True)]
