"""`seqcredit report`: what people found, in their words, with tables and figures made from the cells of `results/`."""

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from seqcredit.data.reading import read_toml
from seqcredit.data.storage import write_whole
from seqcredit.errors import UserError, require
from seqcredit.experiments.entries import tables_of
from seqcredit.options import check_keys
from seqcredit.results import cells, layouts, plots, tables
from seqcredit.results.cells import Cell
from seqcredit.types import Json

LAYOUTS = ("plain", *layouts.LAYOUTS)
# What each figure is called, where {} is the metric, and who draws it.
FIGURES: dict[str, tuple[str, Callable[[Sequence[Cell], Path], None]]] = {
    "tau": ("Test {} over the temperature", plots.tau),
    "credit": ("Distance of learned credit from the exact one", plots.credit_curves),
    "ablation": ("Validation {} over smoothing and target rate", plots.ablation),
    "forest": ("Differences in {} with their intervals", plots.forest),
}
FOLDER = "figures"  # beside the TOML
KEYS = ("cells", "layout", "baseline", "rivals", "figure", "commands", "metric")  # of a section that holds cells


class Place(NamedTuple):
    """Where things stand: cells and figures below `home`, and the page in the folder `page`."""

    home: Path
    page: Path

    def link(self, path: Path) -> str:
        """A path as the page writes it, the same on every machine."""
        return Path(os.path.relpath(path, self.page)).as_posix()


@dataclass(frozen=True)
class Report:
    """The page, and the figures that it links to."""

    out: Path
    text: str
    figures: Mapping[Path, bytes]

    def write(self) -> None:
        """The figures, then the page."""
        for path, data in (*self.figures.items(), (self.out, self.text.encode())):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, data)
            except OSError as error:
                raise UserError(f"{path} cannot be written ({error.strerror}); choose another --out.") from None

    def stale(self) -> list[Path]:
        """What is missing, or not what would be written."""
        wanted = {**self.figures, self.out: self.text.encode()}
        return [path for path, data in wanted.items() if not path.is_file() or path.read_bytes() != data]


def make(file: Path, out: Path) -> Report:
    """The report of a TOML file; nothing is written yet."""
    table = read_toml(file)
    place = Place(file.parent, out.parent)
    made = f"Made by `seqcredit report` from [{file.name}]({place.link(file)}) and the cells beside it: change these."
    blocks = ["# Results", _text(table, "text", str(file)), made]
    figures: dict[Path, bytes] = {}
    for section in _sections(table, str(file)):
        where = f"{file}: section {section['title']!r}"
        blocks += [f"## {section['title']}", _text(section, "text", where)]
        if "cells" in section:
            try:
                shown, drawn = _cells(section, place, where)
            except UserError as error:
                said = str(error)
                raise UserError(said if said.startswith(where) else f"{where}: {said}") from None
            blocks += shown
            figures |= drawn
    return Report(out, "\n\n".join(block for block in blocks if block) + "\n", figures)


# Reading the TOML


def _sections(table: Json, where: str) -> list[Json]:
    """All sections, each with a title of its own and with keys that belong together."""
    check_keys(table, ("text", "section"), where)
    sections = tables_of(table, "section", where)
    titles: list[str] = []
    for number, section in enumerate(sections, 1):
        title = _text(section, "title", f"{where}: section {number}")
        require(title, f"{where}: section {number} has no title.")
        require(_slug(title) not in titles, f"{where}: there are two sections {title!r}; give each its own title.")
        titles.append(_slug(title))
        held = KEYS if "cells" in section else KEYS[:1]
        check_keys(section, ("title", "text", *held), f"{where}: section {title!r}")
    return sections


def _text(table: Json, key: str, where: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise UserError(f"{where}: {key} is {value!r}, but it must be text.")
    return value.strip()


def _choice(table: Json, key: str, choices: Iterable[str], default: str, where: str) -> str:
    value = table.get(key, default)
    if value != default and value not in [*choices]:
        raise UserError(f"{where}: {key} is {value!r}, but it must be one of {', '.join(choices)}.")
    return str(value)


def _slug(title: str) -> str:
    """A title as the name of a file."""
    return "-".join(re.findall(r"\w+", title.lower()))


# Sections that hold cells


@dataclass(frozen=True)
class Shown:
    """Cells of a section, and what is to be shown of them."""

    patterns: tuple[str, ...]
    layout: str
    baseline: str | None
    rivals: tuple[tuple[str, str], ...]
    figure: str
    commands: bool
    metric: str | None

    @classmethod
    def parse(cls, section: Json, where: str) -> "Shown":
        patterns, rivals, commands = section["cells"], section.get("rivals", []), section.get("commands", True)
        if not _are_texts(patterns) or not patterns or any(Path(text).is_absolute() for text in patterns):
            raise UserError(f"{where}: cells is {patterns!r}, but it must be a list of paths relative to the file.")
        if not isinstance(rivals, list) or not all(_are_texts(pair) and len(pair) == 2 for pair in rivals):
            raise UserError(f'{where}: rivals is {rivals!r}, but it must be pairs of rows, such as [["erac", "ac"]].')
        require(isinstance(commands, bool), f"{where}: commands is {commands!r}, but it must be true or false.")
        layout = _choice(section, "layout", LAYOUTS, "plain", where)
        baseline = _text(section, "baseline", where) or None
        if baseline and layout != "plain":
            raise UserError(f"{where}: baseline is for the layout plain, not for {layout}.")
        pairs = tuple((first, second) for first, second in rivals)
        figure, metric = _choice(section, "figure", FIGURES, "", where), _text(section, "metric", where) or None
        return cls(tuple(patterns), layout, baseline, pairs, figure, commands, metric)

    def find(self, place: Place) -> tuple[list[Cell], list[str]]:
        """The cells, row by row as the patterns name them, and the patterns of which there is none."""
        paths: list[Path] = []
        missing = []
        for pattern in self.patterns:
            here = [path for path in sorted(place.home.glob(pattern)) if _holds_cells(path)]
            paths += here
            missing += [] if here else [pattern]
        found = cells.read(paths, self.metric) if paths else []
        return [replace(cell, shown=place.link(cell.path)) for cell in found], missing


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item for item in value)


def _holds_cells(path: Path) -> bool:
    return path.suffix == ".json" or (path.is_dir() and any(path.rglob("*.json")))


def _cells(section: Json, place: Place, where: str) -> tuple[list[str], dict[Path, bytes]]:
    """A table, comparisons of rivals, a figure and the commands, and the figures' files; what is not run is said."""
    shown = Shown.parse(section, where)
    found, missing = shown.find(place)
    ready, figures = _ready(found, shown, bool(missing)), {}
    tests, blocks = tables.Significances(), []
    if ready.layout:
        made = _table(found, ready, tests)
        compared = rivals(found, ready.rivals, tests, made.notes)
        blocks += [tables.markdown(table) for table in (made, compared) if table.rows]
    if ready.figure:
        name = f"{_slug(section['title'])}-{ready.figure}.svg"
        about, draw = FIGURES[ready.figure]
        draw = partial(plots.forest, baseline=ready.baseline) if draw is plots.forest else draw
        figures[place.home / FOLDER / name] = _drawn(draw, found)
        about = about.format(tables.metric_of(found).label)
        blocks.append(f"![{about}]({place.link(place.home / FOLDER / name)})")
    if missing:
        places = (f"`{place.link(place.home / pattern)}`" for pattern in missing)
        blocks.append(f"Not run yet, or not finished: {', '.join(places)}.")
    blocks += [commands(found)] if found and shown.commands else []
    return [block.strip() for block in blocks], figures


def _ready(found: Sequence[Cell], shown: Shown, waiting: bool) -> Shown:
    """What can be shown; while cells are missing, what needs them is left out instead of being an error."""
    if not found:
        return replace(shown, layout="", figure="")
    if not waiting:
        return shown
    base = shown.baseline if shown.baseline and tables.row(tables.by_name(found), shown.baseline) else None
    shown = replace(shown, baseline=base)
    if not any(cell.erac for cell in found):
        layout = "" if shown.layout == "ablation" else shown.layout
        shown = replace(shown, layout=layout, figure="credit" if shown.figure == "credit" else "")
    return shown


def _table(found: Sequence[Cell], shown: Shown, tests: tables.Significances) -> tables.Table:
    if shown.layout == "plain":
        return tables.slim(tables.plain(found, shown.baseline, tests))
    return layouts.LAYOUTS[shown.layout](found)


def rivals(
    found: Sequence[Cell], pairs: Iterable[tuple[str, str]], tests: tables.Significances, said: Sequence[str] = ()
) -> tables.Table:
    """The difference of the means of two rows, and its significance, for each pair."""
    rows = []
    sets = tables.grouped(found, lambda cell: str(cell.figures.get("data", {}).get("name", "")))
    for data, some in sets.items():
        groups = tables.by_name(some)
        for pair in pairs:
            keys = [tables.row(groups, name) for name in pair]
            mine, theirs = (groups[key] if key else [] for key in keys)
            cells.check_rows([*mine, *theirs])
            labels = (tables.label(key, groups) if key else name for key, name in zip(keys, pair, strict=True))
            seeds = " and ".join(str(len(tables.counted(group))) for group in (mine, theirs))
            of = f", {data}" if len(sets) > 1 else ""
            rows.append([" against ".join(labels) + of, seeds, *tables.against(theirs, mine, tests)])
    notes = [note for note in tests.notes() if note not in said]
    return tables.Table(["compared", "seeds", "difference", tables.INTERVAL, "p"], rows, notes)


def _drawn(draw: Callable[[Sequence[Cell], Path], None], found: Sequence[Cell]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figure.svg"
        draw(found, path)
        return path.read_bytes()


def commands(found: Sequence[Cell]) -> str:
    """What made each row, with seed, commit and the signature of its figure, folded away."""
    lines = []
    for name, group in tables.by_name(found).items():
        for cell in group:
            commit, signature = cell.figures.get("commit", "unknown"), cell.signature or "no figure yet"
            lines += [f"# {name}, {cell}: seed {cell.seed}, commit {commit}, {signature}", cell.command]
    longest = max((len(run) for run in re.findall("`+", "\n".join(lines))), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join(["<details><summary>Commands</summary>", "", fence, *lines, fence, "", "</details>"])
