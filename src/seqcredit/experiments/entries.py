"""What a sweep file says: a [[cell]] or [[grid]] becomes cells, with every combination of settings and seeds."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from seqcredit.errors import UserError, in_words, require
from seqcredit.experiments import recipe as recipes
from seqcredit.experiments.recipe import Recipe
from seqcredit.options import check_keys
from seqcredit.types import Json

ENTRY = ("name", "recipe", "seeds", "init_from", "against", "set", "until", "headroom", "minutes")
AGAIN = ("name", "set", "headroom")
SEARCH_MINUTES = 1.0  # a guess
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
        return "actor" in self.recipe.phase[-1].trains


def cells_of(
    kind: str, entry: Json, seeds: object, common: Sequence[str], more: Sequence[str], where: str
) -> Iterator[Planned]:
    """Every combination of overrides, of what to start from, and of seeds; what is common to all comes first."""
    check_keys(entry, ENTRY, where)
    name, path = _name(entry, where), Path(text_of(entry, "recipe", where))
    seeds = _seeds(entry.get("seeds", seeds), where)
    sources = _sources(entry.get("init_from"), kind, where)
    combinations = list(_combinations(entry.get("set", []), kind, where))
    until, minutes = entry.get("until"), entry.get("minutes")
    if minutes is not None and not (type(minutes) in (int, float) and 0 < minutes < float("inf")):
        raise UserError(f"{where}: minutes is {minutes!r}, but it must be a number above 0.")
    guess = None if minutes is None else float(minutes)
    samples = _headroom(entry, where)
    against = texts_of(entry.get("against", []), "against", where)
    for source, (label, own), seed in itertools.product(sources, combinations, seeds):
        overrides = (*common, *own, *more)
        recipe = _recipe(path, overrides, seed, until, where)
        start = f"-{Path(source).name}" if source and len(sources) > 1 else ""
        yield Planned(f"{name}{start}{label}", seed, path, recipe, overrides, until, source, against, samples, guess)


def searched_again(entry: Json, cells: Sequence[Planned], more: Sequence[str], where: str) -> Iterator[Planned]:
    """Every result once more with other settings of its search; nothing is trained."""
    check_keys(entry, AGAIN, where)
    end, own = _name(entry, where), texts_of(entry.get("set", []), "set", where)
    check_no_seed([text.partition("=")[0] for text in own], where)
    results = [cell for cell in cells if cell.records]
    theirs = {cell.name: f"{cell.name}-{end}" for cell in results}
    theirs |= {cell.id: f"{cell.name}-{end}-{cell.seed}" for cell in results}
    for cell in results:
        overrides = (*cell.overrides, *own, *more)
        recipe = _recipe(cell.path, overrides, cell.seed, cell.until, where)
        against = tuple(theirs.get(other, other) for other in cell.against)
        same = replace(cell, name=theirs[cell.name], recipe=recipe, overrides=overrides, init_from=cell.id)
        yield replace(same, against=against, headroom=_headroom(entry, where), minutes=SEARCH_MINUTES)


def _recipe(path: Path, overrides: Sequence[str], seed: int, until: str | None, where: str) -> Recipe:
    """As a cell has it."""
    with in_words(UserError, lambda error: f"{where}: {error}"):
        recipe = recipes.load(path, [*overrides, f"seed={seed}"])
        return recipes.until(recipe, until) if until is not None else recipe


def _name(entry: Json, where: str) -> str:
    name = text_of(entry, "name", where)
    require(NAME.fullmatch(name), f"{where}: a name becomes that of a folder: letters, digits and . _ + - only.")
    return name


def _headroom(entry: Json, where: str) -> int:
    samples = entry.get("headroom", 0)
    if type(samples) is int and samples in (0, *range(2, 1025)):
        return samples
    raise UserError(f"{where}: headroom is {samples!r}, but it must be a number of samples, from 2 to 1,024.")


def _combinations(wanted: object, kind: str, where: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What is added to the name, and the overrides, of each combination. Keys with a comma between move together."""
    if isinstance(wanted, list):
        overrides = texts_of(wanted, "set", where)
        check_no_seed([text.partition("=")[0] for text in overrides], where)
        yield "", overrides
        return
    if not isinstance(wanted, dict):
        raise UserError(f"{where}: set must be a list of KEY=VALUE or a table, not {wanted!r}.")
    flat = dict(_flat(wanted))
    varied = [key for key, values in flat.items() if isinstance(values, list)]
    if varied and kind == "cell":
        raise UserError(f"{where}: {varied[0]} has several values; write [[grid]] instead of [[cell]].")
    for key, values in flat.items():
        check_no_seed(_keys(key), where)
        require(values != [], f"{where}: {key} has no values.")
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


# Values of the TOML.


def text_of(table: Json, key: str, where: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise UserError(f"{where}: {key} is {'missing' if value is None else f'{value!r}, but it must be text'}.")
    return value


def texts_of(value: object, key: str, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UserError(f"{where}: {key} is {value!r}, but it must be a list of texts.")
    return tuple(value)


def tables_of(table: Json, key: str, where: str) -> list[Json]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise UserError(f"{where}: write each {key} as [[{key}]].")
    return value


def _seeds(value: object, where: str) -> list[int]:
    if value is None or value == []:
        raise UserError(f"{where}: there are no seeds; write seeds = [1, 2, 3] at the top or here.")
    if not isinstance(value, list) or not all(type(seed) is int and seed >= 0 for seed in value):
        raise UserError(f"{where}: seeds is {value!r}, but it must be a list of whole numbers from 0 on.")
    require(len(set(value)) == len(value), f"{where}: a seed stands twice in {value}.")
    return value


def _sources(value: object, kind: str, where: str) -> list[str | None]:
    if value is None or isinstance(value, str):
        return [value or None]
    if kind == "cell" or not value:
        raise UserError(
            f"{where}: init_from is {value!r}, but it must be a cell; in a [[grid]] it may be a list of them."
        )
    return list(texts_of(value, "init_from", where))


def check_no_seed(keys: Sequence[str], where: str) -> None:
    if "seed" in [key.strip() for key in keys]:
        raise UserError(f"{where}: the seed does not belong in set; write it in seeds.")
