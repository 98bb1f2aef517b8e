"""What a sweep is to run: a TOML of recipes, overrides and seeds becomes cells, each checked before anything starts."""

import itertools
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from seqcredit.algorithms import Phase
from seqcredit.errors import UserError
from seqcredit.experiments import recipe as recipes
from seqcredit.experiments.recipe import Recipe, read_toml
from seqcredit.experiments.runs import is_result
from seqcredit.models.build import SHAPE
from seqcredit.options import check_keys, nearest
from seqcredit.training import checkpoints
from seqcredit.training.task import networks_of
from seqcredit.types import Json

TOP = ("data", "runs", "results", "seeds", "cell", "grid")
SEARCH = ("beam", "longest_output")  # how the test is searched: another way is a cell of its own
ENTRY = ("name", "recipe", "seeds", "init_from", "against", "set", "until", "headroom", "minutes")
NAME = re.compile(r"\w[\w.+-]*")


@dataclass(frozen=True)
class Planned:
    """One run of a sweep."""

    name: str
    seed: int
    path: Path  # of the recipe
    recipe: Recipe  # with its overrides and its seed
    overrides: tuple[str, ...] = ()
    until: str | None = None
    init_from: str | None = None  # another cell, or a run folder
    against: tuple[str, ...] = ()
    headroom: int = 0  # samples that its headroom is measured by, when it is recorded
    minutes: float | None = None  # a guess, for as long as nothing has been measured

    @property
    def id(self) -> str:
        """Its run folder's name."""
        return f"{self.name}-{self.seed}"

    @property
    def records(self) -> bool:
        """Whether it is a result; one that ends with a critic is there to be shared."""
        return is_result(self.recipe)


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
                    other = ", ".join(
                        f"{key} = {there[key]} instead of {here.get(key)}"
                        for key in there
                        if there[key] != here.get(key)
                    )
                    yield f"{cell.id}: {mine.name} comes from {cell.init_from}, trained with {other}."


def read(
    file: Path,
    data_root: Path = Path(),
    into: Path = Path(),
    only: Sequence[str] = (),
    overrides: Sequence[str] = (),
) -> Plan:
    """The plan of a sweep file, or of some of its cells and what they start from; what cannot work is one sentence."""
    table = read_toml(file)
    check_keys(table, TOP, str(file))
    _no_seed([text.partition("=")[0] for text in overrides], "--set")
    data, runs, results = (_folder(table, key, str(file)) for key in ("data", "runs", "results"))
    entries = [(kind, entry) for kind in ("cell", "grid") for entry in _tables(table, kind, str(file))]
    if not entries:
        raise UserError(f"{file}: there is no [[cell]] and no [[grid]]; a sweep needs at least one.")
    cells: dict[str, Planned] = {}
    for kind, entry in entries:
        where = f"{file}: {kind} {entry.get('name', '')!r}"
        made = list(_cells(kind, entry, table.get("seeds"), overrides, where))
        for cell in made:
            if cell.id in cells:
                twice = f"there are two cells {cell.name} with seed {cell.seed}"
                raise UserError(f"{where}: {twice}; give each its own name, or other seeds.")
        cells |= {cell.id: cell for cell in made}
    resolved = _resolved(cells, str(file))
    wanted = _only(resolved, only, str(file)) if only else resolved
    plan = Plan(data_root / data, into / runs, into / results, wanted)
    for cell in plan.cells.values():
        _check_start(plan, cell, str(file))
        _check_against(plan, cell, str(file))
        check_same(plan, cell)
    return plan


# From tables to cells.


def _cells(kind: str, entry: Json, seeds: object, more: Sequence[str], where: str) -> Iterator[Planned]:
    """Every combination of overrides, of what to start from, and of seeds."""
    check_keys(entry, ENTRY, where)
    name, path = _text(entry, "name", where), Path(_text(entry, "recipe", where))
    _check_name(name, where)
    seeds = _seeds(entry.get("seeds", seeds), where)
    sources = _sources(entry.get("init_from"), kind, where)
    combinations = list(_combinations(entry.get("set", []), kind, where))
    until, minutes = entry.get("until"), entry.get("minutes")
    if minutes is not None and not (type(minutes) in (int, float) and 0 < minutes < float("inf")):
        raise UserError(f"{where}: minutes is {minutes!r}, but it must be a number above 0.")
    guess = None if minutes is None else float(minutes)
    samples = entry.get("headroom", 0)
    if type(samples) is not int or samples not in (0, *range(2, 1025)):
        raise UserError(f"{where}: headroom is {samples!r}, but it must be a number of samples, from 2 to 1,024.")
    against = _texts(entry.get("against", []), "against", where)
    for source, (label, own), seed in itertools.product(sources, combinations, seeds):
        overrides = (*own, *more)
        try:
            recipe = recipes.load(path, [*overrides, f"seed={seed}"])
            recipe = recipes.until(recipe, until) if until is not None else recipe
        except UserError as error:
            raise UserError(f"{where}: {error}") from None
        start = f"-{Path(source).name}" if source and len(sources) > 1 else ""
        yield Planned(f"{name}{start}{label}", seed, path, recipe, overrides, until, source, against, samples, guess)


def _combinations(wanted: object, kind: str, where: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What is added to the name, and the overrides, of each combination. Keys with a comma between move together."""
    if isinstance(wanted, list):
        overrides = _texts(wanted, "set", where)
        _no_seed([text.partition("=")[0] for text in overrides], where)
        yield "", overrides
        return
    if not isinstance(wanted, dict):
        raise UserError(f"{where}: set must be a list of KEY=VALUE or a table, not {wanted!r}.")
    flat = dict(_flat(wanted))
    varied = [key for key, values in flat.items() if isinstance(values, list)]
    if varied and kind == "cell":
        raise UserError(f"{where}: {varied[0]} has several values; write [[grid]] instead of [[cell]].")
    for key, values in flat.items():
        _no_seed(_keys(key), where)
        if values == []:
            raise UserError(f"{where}: {key} has no values.")
    labels = _labels(varied)
    columns = [
        [(key, value) for value in (values if isinstance(values, list) else [values])] for key, values in flat.items()
    ]
    for row in itertools.product(*columns):
        label = "".join(f"-{labels[key]}-{_plain(value)}" for key, value in row if key in varied)
        yield label, tuple(f"{one}={json.dumps(value)}" for key, value in row for one in _keys(key))


def _flat(table: Json, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Keys with dots, also where TOML has made tables of them."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _keys(joined: str) -> list[str]:
    return [key.strip() for key in joined.split(",")]


def _labels(varied: Sequence[str]) -> dict[str, str]:
    """The last part of each key, or all of it where two end alike."""
    last = {key: _keys(key)[0].rpartition(".")[2] for key in varied}
    ends = list(last.values())
    return {key: end if ends.count(end) == 1 else _keys(key)[0] for key, end in last.items()}


def _plain(value: object) -> str:
    """A value as a part of a file's name."""
    return re.sub(r"[^\w.+-]", "_", value if isinstance(value, str) else json.dumps(value))


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
        if not found:
            raise UserError(f"{file}: there is no cell {name!r}{nearest(name, cells)}.")
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
    for network, key in itertools.product(networks_of(source.phase), SHAPE):
        mine, theirs = (getattr(getattr(recipe, network), key) for recipe in (cell.recipe, source))
        if mine != theirs:
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
        begun = [Path(word).name for word in _option(_json(folder / "run.json")["command"], "--init-from")]
        if there != cell.recipe or begun != start:
            what = "settings" if there != cell.recipe else "networks to start from"
            raise UserError(
                f"{folder} was made with other {what} than {cell.id} has now; rename the cell, or remove the folder."
            )
    kept = _json(record).get("settings") if record.exists() else None
    if record.exists() and (kept is None or recipes.parse(kept, cell.id) != cell.recipe):
        raise UserError(f"{record} has other settings than {cell.id} has now; rename the cell, or remove the file.")


def _option(command: str, option: str) -> list[str]:
    """The values that a command gives to an option."""
    words = shlex.split(command)
    return [value for word, value in itertools.pairwise(words) if word == option]


def _json(path: Path) -> Json:
    try:
        return {"command": "", **json.loads(path.read_text())}
    except (OSError, TypeError, ValueError):
        raise UserError(f"{path} cannot be read as JSON; remove it, or put it right.") from None


# Values of the TOML.


def _text(table: Json, key: str, where: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise UserError(f"{where}: {key} is {'missing' if value is None else f'{value!r}, but it must be text'}.")
    return value


def _folder(table: Json, key: str, where: str) -> Path:
    return Path(_text(table, key, where))


def _texts(value: object, key: str, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UserError(f"{where}: {key} is {value!r}, but it must be a list of texts.")
    return tuple(value)


def _tables(table: Json, key: str, where: str) -> list[Json]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise UserError(f"{where}: write each {key} as [[{key}]].")
    return value


def _seeds(value: object, where: str) -> list[int]:
    if value is None or value == []:
        raise UserError(f"{where}: there are no seeds; write seeds = [1, 2, 3] at the top or here.")
    if not isinstance(value, list) or not all(type(seed) is int and seed >= 0 for seed in value):
        raise UserError(f"{where}: seeds is {value!r}, but it must be a list of whole numbers from 0 on.")
    if len(set(value)) < len(value):
        raise UserError(f"{where}: a seed stands twice in {value}.")
    return value


def _sources(value: object, kind: str, where: str) -> list[str | None]:
    if value is None or isinstance(value, str):
        return [value or None]
    if kind == "cell" or not value:
        raise UserError(
            f"{where}: init_from is {value!r}, but it must be a cell; in a [[grid]] it may be a list of them."
        )
    return list(_texts(value, "init_from", where))


def _check_name(name: str, where: str) -> None:
    if not NAME.fullmatch(name):
        raise UserError(f"{where}: a name becomes that of a folder: letters, digits and . _ + - only.")


def _no_seed(keys: Sequence[str], where: str) -> None:
    if "seed" in [key.strip() for key in keys]:
        raise UserError(f"{where}: the seed does not belong in set; write it in seeds.")
