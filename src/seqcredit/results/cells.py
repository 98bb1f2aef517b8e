"""Result cells to make tables and figures from: files of `results/`, or run folders."""

import gzip
import itertools
import json
import shlex
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from seqcredit import config
from seqcredit.data.prepared import Prepared
from seqcredit.errors import UserError
from seqcredit.experiments.catalogue import FOLDER
from seqcredit.experiments.runs import Run
from seqcredit.results import headroom
from seqcredit.results.evaluate import read_hypotheses
from seqcredit.results.logs import Curve, history
from seqcredit.results.record import COUNTS
from seqcredit.results.significance import COUNTED, Counts, counts

# What has to be the same in all cells of a table, as far as they have kept it.
ALIKE: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "data": lambda figures: figures.get("data", {}).get("content"),
    "numbers of examples": lambda figures: figures.get("data", {}).get("examples"),
    "vocabularies": lambda figures: figures.get("vocabularies"),
    "splits": lambda figures: figures.get("split"),
    "numbers of sentences": lambda figures: figures.get("sentences"),
    "metric signatures": lambda figures: figures.get("bleu_signature"),
}
# Keys of an actor-critic phase that say how long and how fast it is trained, but not what.
BUDGET = ("name", "epochs", "updates", "decays", "decay", "validate_every", "fused")


@dataclass(frozen=True)
class Cell:
    """What one run measured; of a run that is not finished there is no BLEU."""

    path: Path
    name: str  # of its row
    figures: Mapping[str, Any]
    run: Run | None = None
    shown: str = ""  # its path, where that is to be written in another way

    def __str__(self) -> str:
        return self.shown or str(self.path)

    @property
    def recipe(self) -> str:
        return str(self.figures["recipe"])

    @property
    def seed(self) -> int:
        return int(self.figures["seed"])

    @property
    def bleu(self) -> float | None:
        return self.figures.get("bleu")

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
    def settings(self) -> config.Recipe:
        """The recipe with every value, as the cell keeps it, or else from its command."""
        if self.run:
            return self.run.recipe
        if "settings" in self.figures:
            return config.parse(self.figures["settings"], str(self.path))
        return _from_command(self.path, str(self.figures.get("command", "")))

    @property
    def actor_critic(self) -> config.ActorCritic | None:
        """The last phase, if it is one of AC or ERAC."""
        last = self.settings.phase[-1]
        return last if isinstance(last, config.ActorCritic) else None

    def curve(self, key: str) -> Curve:
        """One of `results.CREDIT` over updates; empty where it was not measured."""
        if self.run:
            return history(self.run).curve(key)
        return [(int(updates), float(value)) for updates, value in self.figures.get("credit", {}).get(key, [])]

    def least(self, key: str) -> float | None:
        """The lowest point of such a curve."""
        return min((value for _, value in self.curve(key)), default=None)

    def headroom(self, *keys: str) -> Any:
        """A figure of `seqcredit headroom`, such as "bleu", "beam"; None if nobody asked for it."""
        found: Any = headroom.read(self.run) if self.run else self.figures.get("headroom")
        for key in keys:
            found = None if found is None else found.get(key)
        return found

    def counts(self) -> Counts | None:
        """What BLEU counts in every sentence: as it was kept, or from the data of a run; None if there is neither."""
        return _count(self.run) if self.run else _kept_counts(self.path.with_suffix(COUNTS))


def _count(run: Run) -> Counts | None:
    try:
        prepared = Prepared.open(run.data, check=False)
    except UserError:
        return None
    return counts(read_hypotheses(run, "test"), list(prepared.split("test").reference_texts()))


def _kept_counts(path: Path) -> Counts | None:
    if not path.exists():
        return None
    try:
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        found = np.array([[int(word) for word in line.split()] for line in lines], np.int64)
    except (OSError, EOFError, zlib.error, ValueError):
        found = np.zeros(0, np.int64)
    if found.ndim != 2 or found.shape[1] != COUNTED:
        raise UserError(f"{path} does not hold {COUNTED} whole numbers a line: record its cell again.")
    return found


def read(paths: Sequence[Path]) -> list[Cell]:
    """The cells of files, of run folders, and of everything below other folders."""
    cells = [cell for path in paths for cell in _below(path)]
    if not cells:
        listed = ", ".join(map(str, paths))
        raise UserError(f"There is no cell in {listed}; `seqcredit record RUN FILE` writes one.")
    return list({cell.path.resolve(): cell for cell in cells}.values())


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
    try:
        figures = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UserError(f"{path} cannot be read as JSON: give a cell that `seqcredit record` wrote.") from None
    if not isinstance(figures, dict) or not {"recipe", "seed", "bleu"} <= set(figures):
        raise UserError(f"{path} is not a cell: it has no recipe, seed and bleu; `seqcredit record` writes one.")
    return Cell(path, _name(path.stem, figures), figures)


def _folder(path: Path) -> Cell:
    run, result = Run.open(path), path / "result.json"
    figures = {"recipe": run.recipe.name, "seed": run.recipe.seed, "vocabularies": run.about["vocabularies"]}
    if result.is_file():
        figures = dict(_file(result).figures)
    return Cell(path, _name(path.resolve().name, figures), figures, run)


def _name(stem: str, figures: Mapping[str, Any]) -> str:
    """NAME of NAME-SEED; of other names the recipe's."""
    ending = f"-{figures['seed']}"
    return stem.removesuffix(ending) if stem.endswith(ending) else str(figures["recipe"])


def _from_command(path: Path, command: str) -> config.Recipe:
    words = shlex.split(command)
    changes = [after for word, after in itertools.pairwise(words) if word == "--set"]
    changes += [word.removeprefix("--set=") for word in words if word.startswith("--set=")]
    given = Path(next((word for word in words if word.endswith(".toml")), ""))
    parts = given.parts
    kept = FOLDER.joinpath(*parts[parts.index("recipes") + 1 :]) if "recipes" in parts else given
    recipe = next((place for place in (given, kept) if place.is_file()), None)
    if recipe is None:
        raise UserError(f"{path}: its settings are not known, because there is no recipe {given}; record it again.")
    return config.load(recipe, changes)


def check_alike(cells: Sequence[Cell]) -> None:
    """Figures of different data or of different metrics do not belong together."""
    for said, get in ALIKE.items():
        known = [(cell, get(cell.figures)) for cell in cells if get(cell.figures) is not None]
        for cell, value in known:
            if value != known[0][1]:
                raise UserError(
                    f"{known[0][0].path} and {cell.path} do not belong together: their {said} differ; give cells of "
                    "one data set and one metric."
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


def check_settings(cells: Sequence[Cell], varied: Sequence[str]) -> None:
    """Actor-critic phases that are to differ in some keys differ in no other ones."""
    same = [field.name for field in fields(config.ActorCritic) if field.name not in (*varied, *BUDGET)]
    for cell in cells[1:]:
        for key in same:
            mine, first = getattr(cell.actor_critic, key), getattr(cells[0].actor_critic, key)
            if mine != first:
                raise UserError(
                    f"{cells[0].path} has {key} = {first} and {cell.path} has {mine}: give cells that differ in "
                    f"{' and '.join(varied)} alone."
                )
