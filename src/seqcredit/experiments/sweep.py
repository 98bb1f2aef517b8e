"""`seqcredit sweep`: every missing cell of a plan, each in its own process.

What is on the disk says what is done, so a sweep may be killed at any moment and given again. A process that trains a
cell holds the cell's lock and one of the folder's places for as long as it lives, also when its sweep has gone: the
system gives them back, nobody has to clean up, and two sweeps never work at the same cell.
"""

import fcntl
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from rich.console import Group
from rich.table import Table as RichTable
from rich.text import Text

from seqcredit.data.prepared import Prepared
from seqcredit.errors import UserError
from seqcredit.experiments.entries import Planned
from seqcredit.experiments.kept import read as read_kept
from seqcredit.experiments.plan import Plan
from seqcredit.experiments.progress import Forecast, in_the_way, missing, next_step, trained
from seqcredit.rewards.figures import figure
from seqcredit.training.log import log_entries
from seqcredit.training.watch import duration

LOCKS = ".sweep"  # below the runs
BLINK, SUMMARY = 1.0, 60.0  # seconds between two states of the grid, and between two lines where nothing is live
ENDED = ("done", "diverged", "failed")
COLOURS = {"done": "green", "running": "cyan", "waiting": "dim", "failed": "red", "diverged": "yellow"}

Say = Callable[[str], None]


class Status(NamedTuple):
    """How it is with a cell, in a word and in more."""

    kind: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.note}".strip()


class Machine(NamedTuple):
    """What a sweep may use."""

    jobs: int
    threads: int = 1
    device: str = "cpu"


@runtime_checkable
class Process(Protocol):
    """What a sweep asks of a process."""

    @property
    def returncode(self) -> int | None:
        """None while it runs; below 0 where a signal ended it."""

    def poll(self) -> int | None:
        """The same, after a look."""

    def send_signal(self, sig: int, /) -> None:
        """Ask it to stop."""


@dataclass
class Job:
    """A process that works at a cell."""

    cell: Planned
    step: str
    process: Process
    locks: list[int]
    offset: int  # where its lines begin in the cell's log
    told: int = 0  # how often it was asked to stop


def words(plan: Plan, cell: Planned, step: str, machine: Machine) -> list[str]:
    """The command of a step."""
    run = str(plan.run(cell.id))
    using = ["--threads", str(machine.threads), *(["--device", machine.device] if machine.device != "cpu" else [])]
    if step == "record":
        others = [str(plan.run(other)) for other in cell.against]
        room = ["--headroom", str(cell.headroom), *using] if cell.headroom else []
        return ["record", run, str(plan.record(cell)), *(["--against", *others] if others else []), *room]
    if step == "resume":
        return ["resume", run, *using]
    changes = [word for override in cell.overrides for word in ("--set", override)]
    until = ["--until", cell.until] if cell.until else []
    start = ["--init-from", str(plan.run(cell.init_from))] if cell.init_from else []
    where = ["--data", str(plan.data), "--out", run, "--seed", str(cell.seed)]
    return ["train", str(cell.path), *where, *changes, *until, *start, *using]


def lock(path: Path) -> int | None:
    """A file that is this process's, and its children's if they inherit it; None if it is someone else's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def begin(command: Sequence[str], log: Path, locks: Sequence[int]) -> Process:
    """A process that runs a command, adds what it says to a log, and holds the locks."""
    with log.open("ab") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "seqcredit", *command],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            pass_fds=locks,
            start_new_session=True,
        )


class Sweep:
    """Works at all cells of a plan until each is done or has failed.

    `say` gets every line that stays; `show`, where there is a terminal, the grid, with figures of the cells' own metric
    or of another one that they have kept.
    """

    def __init__(
        self,
        plan: Plan,
        machine: Machine,
        say: Say,
        show: Callable[[Group], None] | None = None,
        metric: str | None = None,
    ) -> None:
        self.plan, self.machine, self.say, self.show, self.metric = plan, machine, say, show, metric
        self.todo = missing(plan)
        self.forecast = Forecast(plan)
        self.jobs: list[Job] = []
        self.stops = 0  # how often someone asked to stop
        self.states = {name: Status("waiting") if name in self.todo else self._done(name) for name in plan.cells}
        self.failed: set[str] = set()
        self._shown = -math.inf

    def run(self) -> int:
        """0 if all cells are done, 1 if one has failed."""
        self._check()
        before = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while self.jobs or (not self.stops and any(s.kind not in ENDED for s in self.states.values())):
                self._collect()
                self._start()
                self._pass_on()
                self._report()
                time.sleep(0.1)
        except OSError as error:
            where = f"{error.filename or self.plan.runs}: {error.strerror}"
            raise UserError(f"{where}; what runs goes on; mend it and give the same command again.") from None
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        self._report(last=True)
        if self.stops:
            raise UserError("stopped and saved; give the same command again to go on.")
        return 1 if self.failed else 0

    def _check(self) -> None:
        """What would stop every cell stops the sweep."""
        for cell in self.plan.cells.values():
            if in_the_way(self.plan, cell):
                folder = self.plan.run(cell.id)
                raise UserError(f"{folder} is in the way: it is not a run that can be resumed; move it elsewhere.")
        if self.todo:
            splits = Prepared.open(self.plan.data).manifest.splits
            if "test" not in splits and any(self.plan.cells[name].records for name in self.todo):
                raise UserError(
                    f"{self.plan.data} has no test split, so there is nothing to record; prepare it with one."
                )

    def _stop(self, *_: object) -> None:
        self.stops += 1

    # Processes.

    def _start(self) -> None:
        """Whatever can begin, recording first, then what is half done, then in the order of the file."""
        if len(self.jobs) == self.machine.jobs:
            return  # looking at all cells' files ten times a second takes a tenth of a core
        open_cells = [name for name, state in self.states.items() if state.kind not in ENDED]
        busy = {job.cell.id for job in self.jobs}
        steps = {name: next_step(self.plan, self.plan.cells[name]) for name in open_cells if name not in busy}
        order = {"record": 0, None: 0, "resume": 1, "train": 2}
        for name in sorted(steps, key=lambda name: order[steps[name]]):
            if not self.stops:
                self.states[name] = self._begin(self.plan.cells[name], steps[name])

    def _begin(self, cell: Planned, step: str | None) -> Status:
        """Start a process for a cell if it has all it needs, its lock and a place."""
        start = [cell.init_from] if step == "train" and cell.init_from else []
        for other in cell.against if step == "record" else start:
            if not trained(self.plan, other):
                if other in self.failed:
                    return self._fail(cell, f"it needs {other}, which failed")
                return Status("waiting", f"for {other}")
        folder = self.plan.runs / LOCKS
        mine = lock(folder / f"{cell.id}.lock")
        if mine is None:
            return Status("running", f"elsewhere, {self._where(cell)}")
        if next_step(self.plan, cell) != step:  # someone else was at it
            os.close(mine)
            return Status("waiting")
        places = (lock(folder / f"place-{number}.lock") for number in range(1, self.machine.jobs + 1))
        place = next((handle for handle in places if handle is not None), None) if step else None
        if step is None or place is None:
            os.close(mine)
            return Status("waiting") if step else self._finish(cell)
        self.jobs.append(self._spawn(cell, step, [mine, place]))
        return Status("running", self._where(cell))

    def _spawn(self, cell: Planned, step: str, locks: list[int]) -> Job:
        """A process in a session of its own, so that Ctrl-C reaches it through this one alone."""
        run = self.plan.run(cell.id)
        if step == "train" and not in_the_way(self.plan, cell):
            shutil.rmtree(run, ignore_errors=True)  # a beginning that was killed before its first checkpoint
        command = words(self.plan, cell, step, self.machine)
        starts = f", from {cell.init_from}" if step == "train" and cell.init_from else ""
        if step != "record":
            self.say(f"{cell.id}: {step}{starts}")
        log = self._log(cell)
        offset = log.stat().st_size if log.exists() else 0
        return Job(cell, step, begin(command, log, locks), locks, offset)

    def _pass_on(self) -> None:
        """Ctrl-C goes on to the processes, which save themselves; pressed again, they end at once."""
        for job in self.jobs:
            for _ in range(self.stops - job.told):
                job.process.send_signal(signal.SIGINT)
            job.told = self.stops

    def _collect(self) -> None:
        """What has come to its end."""
        for job in [job for job in self.jobs if job.process.poll() is not None]:
            self.jobs.remove(job)
            for handle in job.locks:
                os.close(handle)
            cell, code = job.cell, job.process.returncode or 0
            if code and not self.stops:
                why = f"killed by {signal.Signals(-code).name}" if code < 0 else self._last_line(job)
                self.states[cell.id] = self._fail(cell, f"{why} ({self._log(cell)})")
            elif not code and next_step(self.plan, cell) is None:
                self.states[cell.id] = self._finish(cell)
            else:
                self.states[cell.id] = Status("waiting")

    def _finish(self, cell: Planned) -> Status:
        state = self._done(cell.id)
        self.say(f"{cell.id}: {state}")
        return state

    def _fail(self, cell: Planned, why: str) -> Status:
        """A run that diverged once too often says so in the last line of its log."""
        self.failed.add(cell.id)
        entries = log_entries(self.plan.run(cell.id) / "log.jsonl")
        kind = "diverged" if entries and entries[-1]["event"] == "diverged" else "failed"
        self.say(f"{cell.id}: {kind}: {why}")
        return Status(kind, why)

    def _log(self, cell: Planned) -> Path:
        return self.plan.runs / f"{cell.id}.log"

    def _last_line(self, job: Job) -> str:
        with self._log(job.cell).open("rb") as log:
            log.seek(job.offset)
            lines = log.read().decode(errors="replace").split("\n")
        said = [line.strip().removeprefix("seqcredit: ") for line in lines if line.strip()]
        return said[-1] if said else f"it said nothing and ended with code {job.process.returncode}"

    # What is shown.

    def _done(self, name: str) -> Status:
        """With its test figure, and whether a phase diverged."""
        cell = self.plan.cells[name]
        for path in (self.plan.record(cell), self.plan.run(name) / "result.json"):
            if cell.records and path.exists():
                figures = read_kept(path)
                kind = "diverged" if figures.get("diverged") else "done"
                found = figure(figures, self.metric)
                return Status(kind, f"{found.value:.{found.metric.digits}f}" if found else "")
        return Status("done")

    def _where(self, cell: Planned) -> str:
        phase, share, seconds = self.forecast.standing(cell)
        done = "" if share is None else f" {share:.0%}"
        return f"{phase}{done}" + ("" if seconds is None else f", {duration(seconds)} left")

    def _report(self, last: bool = False) -> None:
        """The grid or, where nothing is live, a line now and then."""
        now = time.monotonic()
        if not last and now - self._shown < (BLINK if self.show else SUMMARY):
            return
        self._shown = now
        self.forecast.refresh()
        for job in self.jobs:
            self.states[job.cell.id] = Status("running", self._where(job.cell) if job.step != "record" else "recording")
        if self.show:
            self.show(grid(self.plan, self.states, self.summary()))
        else:
            running = "".join(f"; {job.cell.id} {self.states[job.cell.id].note}" for job in self.jobs)
            self.say(f"{self.summary()}{running}")

    def summary(self) -> str:
        """How many cells are in which state, and the time that is left."""
        kinds = [state.kind for state in self.states.values()]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in COLOURS if kind in kinds)
        left = [name for name, state in self.states.items() if state.kind not in ENDED]
        return counts + (f"; time left: {self.forecast.until_all(left, self.machine.jobs)}" if left else "")


def grid(plan: Plan, states: Mapping[str, Status], title: str) -> Group:
    """A row a name, a column a seed."""
    seeds = sorted({cell.seed for cell in plan.cells.values()})
    table = RichTable("cell", *(f"seed {seed}" for seed in seeds))
    for name in dict.fromkeys(cell.name for cell in plan.cells.values()):
        found = [states.get(f"{name}-{seed}") for seed in seeds]
        table.add_row(name, *(_shown(state) if state else "" for state in found))
    return Group(table, title)


def _shown(state: Status) -> Text:
    """Why a cell failed stands above the grid."""
    return Text(state.kind if state.kind == "failed" else str(state), COLOURS[state.kind])
