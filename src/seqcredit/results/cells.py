"""Cells to make tables and figures from: files of `results/`, or run folders."""

import gzip
import math
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from seqcredit.algorithms import Phase
from seqcredit.data.prepared import Prepared
from seqcredit.errors import UserError, require
from seqcredit.experiments import kept
from seqcredit.experiments import recipe as recipes
from seqcredit.experiments.history import history
from seqcredit.experiments.recipe import Recipe
from seqcredit.experiments.runs import Run
from seqcredit.results import headroom
from seqcredit.results.evaluate import RESULT, metric_of, read_hypotheses
from seqcredit.results.record import COUNTS
from seqcredit.rewards.figures import KEPT, Figure, figure
from seqcredit.rewards.metrics import Counted, Metric, Statistics
from seqcredit.training.log import Course, Curve
from seqcredit.types import Json

# What has to be the same in all cells of a table, as far as they have kept it.
ALIKE: dict[str, Callable[["Cell"], object]] = {
    "data": lambda cell: cell.figures.get("data", {}).get("content"),
    "numbers of examples": lambda cell: cell.figures.get("data", {}).get("examples"),
    "vocabularies": lambda cell: cell.figures.get("vocabularies"),
    "splits": lambda cell: cell.figures.get("split"),
    "numbers of sentences": lambda cell: cell.figures.get("sentences"),
    "metrics": lambda cell: cell.metric.name if cell.metric else None,
    "metric signatures": lambda cell: cell.signature or None,
}
# Keys of an actor-critic phase that say how long and how fast it is trained, but not what.
BUDGET = ("name", "epochs", "updates", "decays", "decay", "validate_every", "fused")


@dataclass(frozen=True)
class Cell:
    """What one run measured; of a run that is not finished there is no score."""

    path: Path
    name: str  # of its row
    figures: Json
    run: Run | None = None
    shown: str = ""  # its path, where that is to be written in another way
    asked: str | None = None  # the metric to look at, instead of the one that the run is judged by
    other: Figure | None = None  # its figure, where the run has not kept it but can be measured anew

    def __str__(self) -> str:
        return self.shown or str(self.path)

    @property
    def recipe(self) -> str:
        return str(self.figures["recipe"])

    @property
    def seed(self) -> int:
        return int(self.figures["seed"])

    @cached_property
    def figure(self) -> Figure | None:
        """The figure of the metric that is asked for; None of a run that is not finished."""
        return self.other or figure(self.figures, self.asked)

    @property
    def score(self) -> float | None:
        return self.figure.value if self.figure else None

    @property
    def metric(self) -> Metric | None:
        return self.figure.metric if self.figure else None

    @property
    def signature(self) -> str:
        return self.figure.signature if self.figure else ""

    @property
    def judged_by(self) -> Metric | None:
        """The metric that the run itself was judged by, whatever is asked for now."""
        judged = figure(self.figures)
        return judged.metric if judged else None

    @property
    def diverged(self) -> bool:
        return bool(self.figures.get("diverged"))

    @property
    def validation(self) -> float | None:
        """The best validation of the last phase."""
        return self.figures.get("validation", {}).get(self.settings.phase[-1].name)

    @property
    def pictures(self) -> bool:
        """Whether it is about captions."""
        return str(self.figures.get("vocabularies", {}).get("source", "")).startswith("pictures")

    @property
    def command(self) -> str:
        """What made it."""
        return str(self.run.about["command"] if self.run else self.figures.get("command", "not kept"))

    @cached_property
    def settings(self) -> Recipe:
        """The recipe with every value."""
        if self.run:
            return self.run.recipe
        require("settings" in self.figures, f"{self.path} has not kept its settings: record it again.")
        return recipes.parse(self.figures["settings"], str(self.path))

    @property
    def joint(self) -> Phase | None:
        """The last phase, if actor and critic learn together in it, as in AC and ERAC."""
        last = self.settings.phase[-1]
        return last if {"actor", "critic"} <= set(last.trains) else None

    @property
    def future_entropy(self) -> bool:
        """Whether it is of AC or ERAC, as the paper has them."""
        return bool(getattr(self.joint, "future_entropy", False))

    @property
    def erac(self) -> bool:
        """Whether it is of ERAC: AC has no temperature."""
        return self.future_entropy and self.option("tau") > 0

    def option(self, key: str) -> float:
        """A number among the options of its joint phase; nan where there is none."""
        return float(getattr(self.joint, key, math.nan))

    @property
    def course(self) -> Course:
        """Samples, seconds and the metric at every validation; empty where it was not kept."""
        return history(self.run).course() if self.run else self.figures.get("course", [])

    def curve(self, key: str) -> Curve:
        """One of `record.CREDIT` or `record.SHARES` over updates; empty where it was not measured."""
        if self.run:
            return history(self.run).curve(key)
        return [(int(updates), float(value)) for updates, value in self.figures.get("credit", {}).get(key, [])]

    def least(self, key: str) -> float | None:
        """The lowest point of such a curve."""
        return min((value for _, value in self.curve(key)), default=None)

    def last(self, key: str) -> float | None:
        """Its end."""
        return self.curve(key)[-1][1] if self.curve(key) else None

    @property
    def room(self) -> Json | None:
        """What `seqcredit headroom` has measured; None if nobody asked for it."""
        return headroom.read(self.run) if self.run else self.figures.get("headroom")

    def headroom(self, *keys: str) -> float | None:
        """One figure of it, such as "payoff", "beam"."""
        found = self.room
        for key in keys[:-1]:
            found = (found or {}).get(key)
        return (found or {}).get(keys[-1])

    def statistics(self) -> Statistics | None:
        """The rows of the metric, as they were kept, or from the data of a run; None if there is neither."""
        if self.metric is None or self.judged_by is None:
            return None
        if self.run:
            found = _measure(self.run, self.metric.name)
            return found[1] if found else None
        if self.metric.name != self.judged_by.name or not self.path.with_suffix(COUNTS).exists():
            return None
        kept.check_beside(self.path, self.figures, COUNTS)
        return _kept_rows(self.path.with_suffix(COUNTS), self.metric)


def _measure(run: Run, name: str | None) -> tuple[Figure, Statistics] | None:
    """A figure of a run's test set and the rows that it is of, if the data are there."""
    try:
        prepared = Prepared.open(run.data)
    except UserError:
        return None
    split, metric = prepared.split("test"), metric_of(run, prepared, name)
    references = list(split.reference_texts())
    rows = metric.statistics(read_hypotheses(run, "test"), references)
    return Figure(metric, metric.score(rows.sum(0)), metric.signature(references)), rows


def _kept_rows(path: Path, metric: Metric) -> Statistics:
    """What stands beside a cell: a line an example."""
    whole = isinstance(metric, Counted)
    try:
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        found = np.array([[(int if whole else float)(word) for word in line.split()] for line in lines], np.float64)
    except (OSError, EOFError, zlib.error, ValueError):
        found = np.zeros(0)
    if found.ndim != 2 or found.shape[1] != metric.width or not np.isfinite(found).all():
        kind = "whole numbers" if whole else "numbers"
        raise UserError(f"{path} does not hold {metric.width} {kind} a line: record its cell again.")
    return found


def read(paths: Sequence[Path], metric: str | None = None) -> list[Cell]:
    """The cells of files, of run folders, and of everything below other folders; by another metric if one is given."""
    cells = [cell for path in paths for cell in _below(path)]
    if not cells:
        listed = ", ".join(map(str, paths))
        raise UserError(f"There is no cell in {listed}; `seqcredit record RUN FILE` writes one.")
    once = {cell.path.resolve(): cell for cell in cells}.values()
    return [cell if metric is None else _by(cell, metric) for cell in once]


def _by(cell: Cell, name: str) -> Cell:
    """A cell looked at by another metric: one that it has kept or, of a run with its data, any."""
    cell = replace(cell, asked=name)
    if cell.figure or cell.judged_by is None:
        return cell
    found = _measure(cell.run, name) if cell.run else None
    if found is None:
        kept = ", ".join(dict.fromkeys([cell.judged_by.name, *(key for key in KEPT if figure(cell.figures, key))]))
        raise UserError(f"{cell.path} has kept no {name}: choose one that it has, {kept}.")
    return replace(cell, other=found[0])


def _below(path: Path) -> Iterable[Cell]:
    if path.is_file():
        return [_file(path)]
    if (path / "run.json").is_file():
        return [_folder(path)]
    if not path.is_dir():
        raise UserError(f"There is no cell {path}: give files of results/, run folders, or folders with such in them.")
    runs = sorted(found.parent for found in path.rglob("run.json"))
    files = (found for found in sorted(path.rglob("*.json")) if found.name != "manifest.json")
    return [*map(_folder, runs), *(_file(found) for found in files if not set(found.parents) & set(runs))]


def _file(path: Path) -> Cell:
    figures = kept.read(path, "give a cell that `seqcredit record` wrote")
    if not {"recipe", "seed"} <= set(figures) or figure(figures) is None:
        raise UserError(f"{path} is not a cell: it has no recipe, seed and score; `seqcredit record` writes one.")
    return Cell(path, _name(path.stem, figures), figures)


def _folder(path: Path) -> Cell:
    run, result = Run.open(path), path / RESULT
    figures = {"recipe": run.recipe.name, "seed": run.recipe.seed, "vocabularies": run.about["vocabularies"]}
    if result.is_file():
        figures = dict(_file(result).figures)
    return Cell(path, _name(path.resolve().name, figures), figures, run)


def _name(stem: str, figures: Json) -> str:
    """NAME of NAME-SEED; of other names the recipe's."""
    ending = f"-{figures['seed']}"
    return stem.removesuffix(ending) if stem.endswith(ending) else str(figures["recipe"])


def check_alike(cells: Sequence[Cell]) -> None:
    """Figures of different data or of different metrics do not belong together."""
    for said, get in ALIKE.items():
        known = [(cell, get(cell)) for cell in cells if get(cell) is not None]
        for cell, value in known:
            if value != known[0][1]:
                choose = ", or choose one that all have kept with --metric" if said == "metrics" else ""
                raise UserError(
                    f"{known[0][0].path} and {cell.path} do not belong together: their {said} differ; give cells of "
                    f"one data set and one metric{choose}."
                )


def check_once(cells: Sequence[Cell], key: Callable[[Cell], object]) -> None:
    """Every row has a seed once."""
    seen: dict[tuple[object, int], Cell] = {}
    for cell in cells:
        other = seen.setdefault((key(cell), cell.seed), cell)
        if other is not cell:
            raise UserError(
                f"{other.path} and {cell.path} both are {key(cell)} with seed {cell.seed}: give one of them."
            )


def check_rows(cells: Sequence[Cell]) -> None:
    """Cells of one table, with a row for each name."""
    check_alike(cells)
    check_once(cells, lambda cell: cell.name)


def check_settings(cells: Sequence[Cell], varied: Sequence[str]) -> None:
    """Actor-critic phases that are to differ in some keys differ in no other ones."""
    kind = cells[0].settings.phase[-1]
    same = [field.name for field in fields(kind) if field.name not in (*varied, *BUDGET)]
    for cell in cells[1:]:
        for key in same:
            mine, first = getattr(cell.joint, key, None), getattr(cells[0].joint, key)
            if mine != first:
                raise UserError(
                    f"{cells[0].path} has {key} = {first} and {cell.path} has {mine}: give cells that differ in "
                    f"{' and '.join(varied)} alone."
                )
