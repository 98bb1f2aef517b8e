"""`log.jsonl`, everything that a run measures: written line by line, and read as curves during the run too."""

import json
import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Required, TypedDict

from seqcredit.data.reading import parse_json
from seqcredit.data.storage import write_whole
from seqcredit.errors import UserError, in_words, require
from seqcredit.rewards.metrics import DEFAULT, label_of
from seqcredit.training.watch import VALIDATED
from seqcredit.types import Json

# What is measured while training, and what it is called. Losses of different kinds are different curves.
TRAINED = {
    "sample_bleu": "sample BLEU",
    "reward": "reward of samples",
    "entropy": "entropy of the policy",
    "nll": "negative log-likelihood of a token",
    "loss": "loss of a sentence",
    "td": "squared TD error",
}

TIMES = ("time", "cpu")  # of a line, which differ where all else is the same
CUT = "log.cut.jsonl"  # lines that a run wrote and then trained anew, or that were damaged


class Entry(TypedDict, total=False):
    """What a line of a log holds besides what it measures."""

    event: Required[str]
    phase: Required[str]
    updates: Required[int]
    time: float
    cpu: float
    drawn: int
    epoch: int
    best: float | None
    rate: float
    improved: bool
    why: str
    skipped: list[str]


Course = list[list[int | float]]  # samples drawn, seconds of CPU time, and the metric then
Curve = list[tuple[int, float]]  # updates since the run began, and what was measured then


class Log:
    """`log.jsonl`, which a resumed run cuts back to where its checkpoint stood; what is cut off stays beside it."""

    def __init__(self, path: Path, offset: int = 0, writes: bool = True) -> None:
        self.path, self.offset, self.writes = path, offset, writes
        self.copies: list[Callable[[Json], None]] = []  # who else wants to know
        if writes:
            self.offset = _cut_back(path, offset)

    def write(self, entry: Mapping[str, object]) -> None:
        """Add a line; the time stands last."""
        if self.writes:
            timed = {**entry, "time": round(time.time(), 2)}
            line = json.dumps(timed).encode() + b"\n"
            with self.path.open("ab") as file:
                file.write(line)
            self.offset += len(line)
            for copy in self.copies:
                copy(timed)


def _cut_back(path: Path, offset: int) -> int:
    """Cut a log to a length and to lines that can be read; its length then. The rest goes to the end of `CUT`."""
    path.touch()
    there = path.read_bytes()
    kept = b"".join(line for line in there[:offset].splitlines(keepends=True) if _whole(line))
    if kept != there:
        gone = there[len(kept) :] if there.startswith(kept) else there
        with path.with_name(CUT).open("ab") as file:
            file.write(gone)
            file.flush()
            os.fsync(file.fileno())
        write_whole(path, kept)
    return len(kept)


def _whole(line: bytes) -> bool:
    try:
        _entry(Path(), 0, line)
    except UserError:
        return False
    return line.endswith(b"\n")


def log_entries(path: Path) -> list[Json]:
    """All whole lines of a log; the last one may still be under way."""
    text = b""
    with in_words(OSError, lambda error: f"{path} cannot be read: {error.strerror}."), suppress(FileNotFoundError):
        text = path.read_bytes()
    return [_entry(path, number, line) for number, line in enumerate(text.split(b"\n")[:-1], 1)]


def _entry(path: Path, number: int, line: bytes) -> Json:
    damaged = f"{path}, line {number}, is damaged: `seqcredit resume` the run to mend it."
    with in_words(UserError, damaged):
        entry = parse_json(line, Entry, "it", "")
    require(entry["updates"] >= 0 and math.isfinite(entry.get("time", 0.0)), damaged)
    return entry


@dataclass(frozen=True)
class History:
    """The lines of a log that count: what a rollback undid is left out."""

    entries: list[Json] = field(default_factory=list)  # `total`: updates since the run began
    metric: str = DEFAULT  # the name of what the run is judged by

    def curve(self, key: str) -> Curve:
        """A figure of `titles` over updates; empty if it was never measured."""
        event = "train" if key in TRAINED else "validation"
        found = [(e["total"], e[key]) for e in self.entries if e["event"] == event and key in e]
        return [(total, float(value)) for total, value in found if type(value) in (int, float) and math.isfinite(value)]

    def course(self) -> Course:
        """Samples drawn, seconds of CPU time and the metric, at every validation of an actor."""
        key = validated(self.metric)
        there = (e for e in self.entries if e["event"] == "validation" and key in e and "drawn" in e)
        return [[e["drawn"], e["cpu"], e[key]] for e in there]

    def starts(self) -> list[int]:
        """Where each phase but the first begins."""
        ends = [entry["total"] for entry in self.entries if entry["event"] == "phase_end"]
        return [end for end in ends if any(entry["total"] > end for entry in self.entries)]


def titles(histories: Iterable[History]) -> dict[str, str]:
    """What some runs have measured, by its key in the log, and what it is called."""
    histories = list(histories)
    names = dict.fromkeys(history.metric for history in histories)
    judged = {validated(name): f"validation {label_of(name)}" for name in names}
    by_q = {_of_q(name): f"validation {label_of(name)} of Q" for name in names}
    known = {**judged, **by_q, **TRAINED, **VALIDATED}
    return {key: said for key, said in known.items() if any(history.curve(key) for history in histories)}


def validated(name: str) -> str:
    """The curve of what a run is judged by; that of a reward is not the one of its samples."""
    return f"validation_{name}" if name in TRAINED else name


def _of_q(name: str) -> str:
    """What Q says is judged by the same metric, but it is another curve."""
    return f"q_{name}"


def read_history(path: Path, metric: str = DEFAULT, q_phases: Collection[str] = ()) -> History:
    """What a log says so far; in `q_phases` the metric is of what Q says."""
    kept: list[Json] = []
    offset = 0  # updates of the phases before
    for entry in log_entries(path):
        total = offset + entry["updates"]
        kept += [old for old in _from(kept, total) if entry["event"] == "phase_end" or _stands(old, entry)]
        if entry["event"] == "validation" and metric in entry:
            entry[_of_q(metric) if entry["phase"] in q_phases else validated(metric)] = entry.pop(metric)
        kept.append({**entry, "total": total})
        offset = total if entry["event"] == "phase_end" else offset
    return History(kept, metric)


def _from(kept: list[Json], total: int) -> list[Json]:
    """Takes the lines from a number of updates on off the end."""
    first = next((end for end in range(len(kept), 0, -1) if kept[end - 1]["total"] < total), 0)
    taken = kept[first:]
    del kept[first:]
    return taken


def _stands(old: Json, new: Json) -> bool:
    """Whether a line holds though a later one has no more updates; if not, a rollback has undone it."""
    same_moment = old["updates"] == new["updates"] and old["event"] != new["event"]
    return old["event"] == "diverged" or old["phase"] != new["phase"] or same_moment
