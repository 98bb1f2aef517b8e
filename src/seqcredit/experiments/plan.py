"""The plan of a sweep: a TOML of recipes, overrides and seeds becomes cells, each checked before anything starts."""

import itertools
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypedDict

from seqcredit.algorithms import Phase
from seqcredit.data.reading import read_json, read_toml
from seqcredit.errors import UserError, in_words, require
from seqcredit.experiments import recipe as recipes
from seqcredit.experiments.entries import (
    Planned,
    cells_of,
    check_no_seed,
    searched_again,
    tables_of,
    text_of,
    texts_of,
)
from seqcredit.experiments.kept import read as read_kept
from seqcredit.experiments.recipe import Recipe
from seqcredit.models.build import differences
from seqcredit.options import check_keys, nearest
from seqcredit.training import checkpoints
from seqcredit.training.task import networks_of
from seqcredit.types import Json

TRAINED = ("cell", "grid")  # entries of what is trained; those of what is searched again come after them
TOP = ("data", "runs", "results", "seeds", "set", *TRAINED, "again")
SEARCH = ("beam", "longest_output", "length_penalty")  # how the test is searched: another way is a cell of its own


class Begun(TypedDict, total=False):
    """What is read of a run's `run.json`."""

    command: str


@dataclass(frozen=True)
class Plan:
    """All cells of a sweep, and its folders."""

    data: Path
    runs: Path
    results: Path
    cells: Mapping[str, Planned]

    def run(self, name: str) -> Path:
        """The run folder of a cell; a folder is its own."""
        return self.runs / name if name in self.cells else Path(name)

    def record(self, cell: Planned) -> Path:
        return self.results / f"{cell.id}.json"

    def source(self, cell: Planned) -> Recipe | None:
        """The recipe of what a cell starts from."""
        if cell.init_from is None:
            return None
        mine = self.cells.get(cell.init_from)
        return mine.recipe if mine else recipes.load(Path(cell.init_from) / "resolved.toml")

    def taken(self, cell: Planned) -> list[Phase]:
        """The phases that a cell need not train, as they were trained where it starts from."""
        source = self.source(cell)
        theirs = {phase.name: phase for phase in source.phase} if source else {}
        leading = itertools.takewhile(lambda phase: phase.name in theirs, cell.recipe.phase)
        return [theirs[phase.name] for phase in leading]

    def notes(self) -> Iterator[str]:
        """What is as asked for, but might surprise."""
        for cell in self.cells.values():
            for mine, theirs in zip(cell.recipe.phase, self.taken(cell), strict=False):
                if mine != theirs:
                    there, here = asdict(theirs), asdict(mine)
                    differ = [key for key in there if there[key] != here.get(key)]
                    other = ", ".join(f"{key} = {there[key]} instead of {here.get(key)}" for key in differ)
                    yield f"{cell.id}: {mine.name} comes from {cell.init_from}, trained with {other}."


def read(
    file: Path, data_root: Path = Path(), into: Path = Path(), only: Sequence[str] = (), overrides: Sequence[str] = ()
) -> Plan:
    """The plan of a sweep file, or of some of its cells and what they start from; what cannot work is one sentence."""
    table = read_toml(file)
    check_keys(table, TOP, str(file))
    check_no_seed([text.partition("=")[0] for text in overrides], "--set")
    data, runs, results = (Path(text_of(table, key, str(file))) for key in ("data", "runs", "results"))
    common = texts_of(table.get("set", []), "set", str(file))
    check_no_seed([text.partition("=")[0] for text in common], str(file))
    entries = [(kind, entry) for kind in TRAINED for entry in tables_of(table, kind, str(file))]
    require(entries, f"{file}: there is no [[cell]] and no [[grid]]; a sweep needs at least one.")
    cells: dict[str, Planned] = {}
    for kind, entry in entries:
        where = _where(file, kind, entry)
        _add(cells, cells_of(kind, entry, table.get("seeds"), common, overrides, where), where)
    for entry in tables_of(table, "again", str(file)):
        where = _where(file, "again", entry)
        _add(cells, searched_again(entry, tuple(cells.values()), overrides, where), where)
    resolved = _resolved(cells, str(file))
    wanted = _only(resolved, only, str(file)) if only else resolved
    plan = Plan(data_root / data, into / runs, into / results, wanted)
    for cell in plan.cells.values():
        _check_start(plan, cell, str(file))
        _check_against(plan, cell, str(file))
        check_same(plan, cell)
    return plan


def _where(file: Path, kind: str, entry: Json) -> str:
    return f"{file}: {kind} {entry.get('name', '')!r}"


def _add(cells: dict[str, Planned], made: Iterable[Planned], where: str) -> None:
    """Each cell has a name of its own."""
    for cell in made:
        twice = f"there are two cells {cell.name} with seed {cell.seed}; give each its own name, or other seeds."
        require(cell.id not in cells, f"{where}: {twice}")
        cells[cell.id] = cell


# Which cell is meant.


def _resolved(cells: dict[str, Planned], file: str) -> dict[str, Planned]:
    """Every reference to a cell by its id."""
    found = {}
    for cell in cells.values():
        where = f"{file}: {cell.id}"
        start = _lookup(cell.init_from, cell.seed, cells, f"{where}: init_from") if cell.init_from else None
        against = tuple(_lookup(word, cell.seed, cells, f"{where}: against") for word in cell.against)
        found[cell.id] = replace(cell, init_from=start, against=against)
    return found


def _only(cells: Mapping[str, Planned], names: Sequence[str], file: str) -> dict[str, Planned]:
    """Cells by their names or ids, and what they start from; they are compared with each other only."""
    wanted = []
    for name in names:
        found = [cell.id for cell in cells.values() if name in (cell.id, cell.name)]
        require(found, f"{file}: there is no cell {name!r}{nearest(name, cells)}.")
        wanted += found
    for name in wanted:  # grows as it is walked
        start = cells[name].init_from
        if start is not None and start in cells and start not in wanted:
            wanted.append(start)
    kept = {name: cell for name, cell in cells.items() if name in wanted}
    return {
        name: replace(cell, against=tuple(other for other in cell.against if other in kept or other not in cells))
        for name, cell in kept.items()
    }


def _lookup(word: str, seed: int, cells: Mapping[str, Planned], where: str) -> str:
    """`mle` is the cell of that name and of the same seed, `mle-1` is that one, `runs/mle` a run folder."""
    seeds = [cell.seed for cell in cells.values() if cell.name == word]
    if seed in seeds:
        return f"{word}-{seed}"
    if seeds:
        listed = ", ".join(f"{word}-{s}" for s in seeds)
        raise UserError(f"{where} = {word!r}: it has no seed {seed}; add it, or name one of {listed}.")
    if word in cells:
        return word
    if "/" in word:
        if not (Path(word) / "run.json").exists():
            raise UserError(f"{where} = {word!r}: that is not a run folder, it has no run.json.")
        return word
    names = dict.fromkeys(cell.name for cell in cells.values())
    raise UserError(f"{where} = {word!r}: there is no such cell{nearest(word, names)}.")


# What cannot work.


def _check_start(plan: Plan, cell: Planned, file: str) -> None:
    """No circles, networks of one shape, and something left to train or to search for otherwise."""
    way, at = [cell.id], plan.cells.get(cell.init_from or "")
    while at is not None and at.id not in way:
        way.append(at.id)
        at = plan.cells.get(at.init_from or "")
    if at is not None:
        round_ = " starts from ".join([*way, at.id])
        raise UserError(f"{file}: {round_}: that is a circle; take one init_from out.")
    source = plan.source(cell)
    if source is None:
        return
    searched = all(getattr(cell.recipe, key) == getattr(source, key) for key in SEARCH)
    if len(plan.taken(cell)) == len(cell.recipe.phase) and searched:
        names = ", ".join(phase.name for phase in cell.recipe.phase)
        raise UserError(
            f"{file}: {cell.id} starts from {cell.init_from}, which has all of its phases ({names}): nothing would be "
            f"trained; start from one that stops earlier (`until`), or set another {' or '.join(SEARCH)}."
        )
    for network in networks_of(source.phase):
        for key, mine, theirs in differences(getattr(cell.recipe, network), getattr(source, network)):
            raise UserError(
                f"{file}: {cell.id} starts from {cell.init_from}, whose {network} has {key} = {theirs} and not {mine}."
            )


def _check_against(plan: Plan, cell: Planned, file: str) -> None:
    if cell.against and not cell.records:
        raise UserError(f"{file}: {cell.id} ends with a critic and is not recorded: take `against` out.")
    for other in cell.against:
        if other == cell.id or (other in plan.cells and not plan.cells[other].records):
            why = "is itself" if other == cell.id else "ends with a critic and has no test figures"
            raise UserError(f"{file}: {cell.id} is to be compared with {other}, which {why}.")


def check_same(plan: Plan, cell: Planned) -> None:
    """What is on the disk under a cell's name must be that cell."""
    folder, record = plan.run(cell.id), plan.record(cell)
    start = [plan.run(cell.init_from).name] if cell.init_from else []
    if checkpoints.names(folder / "checkpoints"):  # without one, it is a beginning that will be made anew
        there = recipes.load(folder / "resolved.toml")
        words = itertools.pairwise(_command(folder))
        begun = [Path(value).name for word, value in words if word == "--init-from"]
        if there != cell.recipe or begun != start:
            what = "settings" if there != cell.recipe else "networks to start from"
            raise UserError(
                f"{folder} was made with other {what} than {cell.id} has now; rename the cell, or remove the folder."
            )
    kept = read_kept(record, "remove it, or put it right").get("settings") if record.exists() else None
    if record.exists() and (kept is None or recipes.parse(kept, cell.id) != cell.recipe):
        raise UserError(f"{record} has other settings than {cell.id} has now; rename the cell, or remove the file.")


def _command(folder: Path) -> list[str]:
    """The words that a run was begun with."""
    path, remedy = folder / "run.json", "remove the folder, or put it right"
    with in_words(ValueError, f"{path} is damaged, its command has no end: {remedy}."):
        return shlex.split(read_json(path, Begun, remedy).get("command", ""))
