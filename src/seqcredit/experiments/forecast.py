"""How far a run is and how long the rest will take, estimated from the logs of similar runs."""

import heapq
import itertools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from seqcredit.algorithms import Phase
from seqcredit.types import Json

PAUSE = 10  # times the usual time between two lines: longer than that, a run was not running


class Pace(NamedTuple):
    """What a log says of one phase."""

    updates: int  # where it stands
    measured: int  # updates whose time is known
    seconds: float  # that they took, with validation and without pauses
    finished: bool


class Standing(NamedTuple):
    """Where a run is: a phase, the share of it that is done, and the time that is left, if anything is known."""

    phase: str
    share: float | None
    seconds: float | None


def paces(entries: Sequence[Json]) -> dict[str, Pace]:
    """The pace of every phase of a log, in its order."""
    found: dict[str, Pace] = {}
    before: float | None = None  # the end of the phase before
    for name in dict.fromkeys(entry["phase"] for entry in entries):
        mine = [entry for entry in entries if entry["phase"] == name]
        points = [(0, before)] if before is not None else []
        points += [(entry["updates"], entry["time"]) for entry in mine]
        found[name] = _pace(points, mine[-1]["event"] == "phase_end")
        before = mine[-1]["time"]
    return found


def _pace(points: Sequence[tuple[int, float]], finished: bool) -> Pace:
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(points) if b[0] >= a[0]]
    usual = statistics.median([seconds for updates, seconds in steps if updates] or [0.0])
    measured = sum(updates for updates, _ in steps)
    return Pace(points[-1][0], measured, sum(min(seconds, PAUSE * usual) for _, seconds in steps), finished)


@dataclass
class Rates:
    """Paces of all runs so far, by recipe and phase."""

    updates_an_epoch: Callable[[Phase], int | None]  # None where the data are not there to be counted
    known: dict[tuple[Path, str], dict[str, Pace]] = field(default_factory=dict)

    def add(self, recipe: Path, run: str, entries: Sequence[Json]) -> None:
        """What a run has measured; given again, the newer counts."""
        for phase, pace in paces(entries).items():
            self.known.setdefault((recipe, phase), {})[run] = pace

    def of_update(self, recipe: Path, phase: str) -> float | None:
        """Seconds."""
        found = self.known.get((recipe, phase), {}).values()
        measured = sum(pace.measured for pace in found)
        return sum(pace.seconds for pace in found) / measured if measured else None

    def expected(self, recipe: Path, phase: Phase) -> int | None:
        """Updates of a phase: as many as like runs had, otherwise as many as there can be at the most."""
        finished = [pace.updates for pace in self.known.get((recipe, phase.name), {}).values() if pace.finished]
        an_epoch = self.updates_an_epoch(phase)
        most = None if an_epoch is None else sum(phase.lengths(an_epoch))
        if not finished:
            return most
        mean = round(statistics.mean(finished))
        return mean if most is None else min(mean, most)

    def standing(self, recipe: Path, phases: Sequence[Phase], entries: Sequence[Json]) -> Standing:
        """Where a run is that has these phases to train; `seconds` is unknown if one of them was never measured."""
        mine = paces(entries)
        left = [phase for phase in phases if not (phase.name in mine and mine[phase.name].finished)]
        if not left:
            return Standing("test", None, 0.0)
        shares, lefts = [], []
        for phase in left:
            done, whole = mine[phase.name].updates if phase.name in mine else 0, self.expected(recipe, phase)
            rate = self.of_update(recipe, phase.name)
            shares.append(min(done / whole, 1.0) if whole else None)
            lefts.append(None if rate is None or whole is None else max(whole - done, 0) * rate)
        seconds, unknown = total(lefts)
        return Standing(left[0].name, shares[0], None if unknown else seconds)


def makespan(seconds: Mapping[str, float], needs: Mapping[str, str | None], jobs: int) -> float:
    """Until all is done, `jobs` at a time, each after the one that it needs."""
    waiting, running, now = list(seconds), list[tuple[float, str]](), 0.0
    while waiting or running:
        pending = {*waiting, *(name for _, name in running)}
        ready = [name for name in waiting if needs.get(name) not in pending]
        for name in ready[: jobs - len(running)]:
            waiting.remove(name)
            heapq.heappush(running, (now + seconds[name], name))
        now, _ = heapq.heappop(running)
    return now


def total(lefts: Iterable[float | None]) -> tuple[float, int]:
    """The known ones summed, and how many are not known."""
    found = list(lefts)
    known = [left for left in found if left is not None]
    return sum(known, 0.0), len(found) - len(known)
