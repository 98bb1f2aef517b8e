"""How far a sweep is, from the files on disk: what is done, what comes next, how long the rest will take."""

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from seqcredit.algorithms import Phase
from seqcredit.data.batches import epoch_batches
from seqcredit.data.prepared import Prepared
from seqcredit.data.storage import MANIFEST
from seqcredit.experiments.entries import Planned
from seqcredit.experiments.forecast import Rates, Standing, makespan, total
from seqcredit.experiments.plan import Plan
from seqcredit.training import checkpoints, weights
from seqcredit.training.log import CUT, log_entries
from seqcredit.training.watch import duration
from seqcredit.types import Json

BEGINNING = {"recipe.toml", "resolved.toml", "run.json", "weights", "log.jsonl", CUT, "checkpoints"}


def trained(plan: Plan, name: str) -> bool:
    """Whether a cell has all its networks and, if it is a result, its figures; a run folder is taken as it is."""
    cell, folder = plan.cells.get(name), plan.run(name)
    if cell is None:
        return True
    names = [phase.name for phase in cell.recipe.phase]
    return weights.finished(folder, names) == names and (not cell.records or (folder / "result.json").exists())


def begun(folder: Path) -> bool:
    """Whether there is something to resume. The first checkpoint comes after all that a run takes over."""
    return bool(checkpoints.names(folder / "checkpoints"))


def missing(plan: Plan) -> list[str]:
    """The cells to work at: results that are not recorded, and what they need that is not there."""
    starts = {cell.init_from for cell in plan.cells.values()}
    shared = [c.id for c in plan.cells.values() if not c.records and c.id not in starts and not trained(plan, c.id)]
    wanted = [c.id for c in plan.cells.values() if c.records and not plan.record(c).exists()] + shared
    for name in wanted:  # it grows on the way
        cell = plan.cells[name]
        needed = [*cell.against, *([cell.init_from] if cell.init_from and not trained(plan, name) else [])]
        wanted += [other for other in needed if other not in wanted and not trained(plan, other)]
    return [name for name in plan.cells if name in wanted]


def in_the_way(plan: Plan, cell: Planned) -> bool:
    """Whether a cell's folder is neither a run nor the mere beginning of one: then it is somebody's, and stays."""
    folder = plan.run(cell.id)
    lines = log_entries(folder / "log.jsonl")  # before the look at checkpoints: the first of them comes before any line
    if not folder.exists() or begun(folder) or trained(plan, cell.id):
        return False
    foreign = {path.name for path in folder.iterdir()} - BEGINNING if folder.is_dir() else {folder.name}
    return bool(foreign) or bool(lines)


def next_step(plan: Plan, cell: Planned) -> str | None:
    """What a cell needs next: train, resume, record, or nothing."""
    if not trained(plan, cell.id):
        return "resume" if begun(plan.run(cell.id)) else "train"
    return "record" if cell.records and not plan.record(cell).exists() else None


def epoch_counter(data: Path) -> Callable[[Phase], int | None]:
    """Updates of an epoch of a phase; unknown without data."""
    if not (data / MANIFEST).exists():
        return lambda phase: None
    split = Prepared.open(data).split("train")
    count = functools.cache(lambda size, *how: len(epoch_batches(split, size, 0, 0, *how)))
    return lambda phase: count(phase.batch_size, phase.sort_by, phase.batch_tokens)


class Forecast:
    """How long the cells of a plan will take, by the logs of all that have begun."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.rates = plan, Rates(epoch_counter(plan.data))
        self.phases = {cell.id: cell.recipe.phase[len(plan.taken(cell)) :] for cell in plan.cells.values()}
        self._logs: dict[str, tuple[tuple[int, int], Sequence[Json]]] = {}

    def refresh(self) -> None:
        """Read the logs that have changed."""
        for name, cell in self.plan.cells.items():
            path = self.plan.run(name) / "log.jsonl"
            if path.exists():
                about = path.stat()
                version = (about.st_size, about.st_mtime_ns)
                if self._logs.get(name, (None,))[0] != version:
                    self._logs[name] = (version, log_entries(path))
                    self.rates.add(cell.path, name, self._logs[name][1])

    def entries(self, name: str) -> Sequence[Json]:
        return self._logs[name][1] if name in self._logs else []

    def standing(self, cell: Planned) -> Standing:
        """Where a cell is; where nothing was measured, its guess is the time that is left."""
        found = self.rates.standing(cell.path, self.phases[cell.id], self.entries(cell.id))
        if found.seconds is None and cell.minutes is not None:
            return found._replace(seconds=60 * cell.minutes)
        return found

    def left(self, cell: Planned) -> float | None:
        """Seconds; recording takes none worth speaking of."""
        return 0.0 if trained(self.plan, cell.id) else self.standing(cell).seconds

    def until_all(self, names: list[str], jobs: int) -> str:
        """How long it will be until all of these are done, in words."""
        lefts = {name: self.left(self.plan.cells[name]) for name in names}
        unknown = total(lefts.values())[1]
        known = {name: left or 0.0 for name, left in lefts.items()}
        needs = {name: self.plan.cells[name].init_from for name in names}
        if unknown == len(lefts) and lefts:
            return "unknown"
        about = f"about {duration(makespan(known, needs, jobs))}"
        return f"{about} and {unknown} cells of unknown length" if unknown else about


def outline(plan: Plan, jobs: int) -> Iterator[str]:
    """What a sweep would do, and how long it would take, as lines."""
    forecast, todo = Forecast(plan), missing(plan)
    forecast.refresh()
    width = max(map(len, plan.cells))
    for name, cell in plan.cells.items():
        step = next_step(plan, cell) if name in todo else None
        left = forecast.left(cell) if step else 0.0
        start = f", from {cell.init_from}" if cell.init_from and step == "train" else ""
        time_left = ", unknown" if left is None else f", about {duration(left)}" if left else ""
        yield f"{name:{width}}  {step or 'nothing to do'}{start}{time_left}"
    known, unknown = total(forecast.left(plan.cells[name]) for name in todo)
    rest = f" and {unknown} cells of unknown length" if unknown else ""
    yield f"{len(plan.cells)} cells, {len(todo)} to do: {known / 3600:.1f} hours of computing{rest}"
    if todo:
        yield f"time, {jobs} at once: {forecast.until_all(todo, jobs)}"
