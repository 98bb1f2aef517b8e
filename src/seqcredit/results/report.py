"""`seqcredit report`: findings in words, with tables and figures made from the cells of `results/`."""

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
    "costs": ("Validation {} over samples drawn and over CPU time", plots.costs),
    "forest": ("Differences in {} with their intervals", plots.forest),
}
FOLDER = "figures"  # beside the pages
KEYS = ("cells", "layout", "baseline", "rivals", "figure", "commands", "metric")  # of a section that holds cells


class Place(NamedTuple):
    """Where things stand: cells below `home`, pages and figures below `pages`, and what is being written in `page`."""

    home: Path
    pages: Path
    page: Path
    root: Path  # the folder of the short page: cells are named as seen from there
    prefix: str = ""  # of the names of figures

    def link(self, path: Path) -> str:
        """A path as the page links to it, the same on every machine."""
        return Path(os.path.relpath(path, self.page)).as_posix()

    def named(self, path: Path) -> str:
        """A path as people read it."""
        return Path(os.path.relpath(path, self.root)).as_posix()


@dataclass(frozen=True)
class Report:
    """The short page, the pages that it leads to, and the figures of them all."""

    out: Path
    text: str
    pages: Mapping[Path, str]
    figures: Mapping[Path, bytes]

    @property
    def files(self) -> dict[Path, bytes]:
        """All of it; the short page is the last."""
        pages = {path: text.encode() for path, text in (*self.pages.items(), (self.out, self.text))}
        return {**self.figures, **pages}

    def write(self) -> None:
        """Figures and pages."""
        for path, data in self.files.items():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, data)
            except OSError as error:
                raise UserError(f"{path} cannot be written ({error.strerror}); choose another --out.") from None

    def stale(self) -> list[Path]:
        """What is missing, or not what would be written."""
        return [path for path, data in self.files.items() if not path.is_file() or path.read_bytes() != data]


class Written(NamedTuple):
    """Blocks of Markdown, and figures: those that they link to by file, and by the title of their section."""

    blocks: list[str]
    figures: dict[Path, bytes]
    pictures: dict[str, tuple[str, Path]]  # what it shows, and its file


def make(file: Path, out: Path) -> Report:
    """The report of a TOML file; nothing is written yet."""
    table, said = read_toml(file), str(file)
    check_keys(table, ("text", "pages", "page", "section"), said)
    folder = Path(os.path.normpath(file.parent / _text(table, "pages", said)))
    place = Place(file.parent, folder, out.parent, out.parent)
    short = _sections(table, place, said)
    blocks = ["# Results", _text(table, "text", said), _made(file, place), *short.blocks]
    pages, figures = {}, dict(short.figures)
    for entry in _unique(tables_of(table, "page", said), "page", said):
        where = f"{file}: page {entry['title']!r}"
        check_keys(entry, ("name", "title", "text", "about", "shows", "section"), where)
        name = _text(entry, "name", where) or _slug(entry["title"])
        path, there = folder / f"{name}.md", place._replace(page=folder, prefix=f"{name}-")
        found = _sections(entry, there, where)
        about = [f"# {entry['title']}", _text(entry, "about", where), _made(file, there)]
        pages[path] = _joined([*about, *found.blocks])
        shown = [_picture(*found.pictures[name], place) for name in _shows(entry, found, where)]
        more = f"[Tables, figures and commands]({place.link(path)})"
        blocks += [f"## {entry['title']}", *shown, _text(entry, "text", where), more]
        figures |= found.figures
    return Report(out, _joined(blocks), pages, figures)


def _made(file: Path, place: Place) -> str:
    return f"Made by `seqcredit report` from [{file.name}]({place.link(file)}) and the cells beside it: change these."


def _joined(blocks: Iterable[str]) -> str:
    return "\n\n".join(block for block in blocks if block) + "\n"


def _picture(about: str, path: Path, place: Place) -> str:
    return f"![{about}]({place.link(path)})"


def _sections(table: Json, place: Place, where: str) -> Written:
    """The sections of a table, one after another."""
    written = Written([], {}, {})
    for section in _unique(tables_of(table, "section", where), "section", where):
        here = f"{where}: section {section['title']!r}"
        check_keys(section, ("title", "text", *(KEYS if "cells" in section else KEYS[:1])), here)
        written.blocks.extend([f"## {section['title']}", _text(section, "text", here)])
        if "cells" in section:
            try:
                shown = _cells(section, place, here)
            except UserError as error:
                said = str(error)
                raise UserError(said if said.startswith(here) else f"{here}: {said}") from None
            written.blocks.extend(shown.blocks)
            written.figures.update(shown.figures)
            written.pictures.update(shown.pictures)
    return written


# Reading the TOML


def _unique(entries: list[Json], kind: str, where: str) -> list[Json]:
    """Sections or pages, each with a title of its own."""
    titles: list[str] = []
    for number, entry in enumerate(entries, 1):
        title = _text(entry, "title", f"{where}: {kind} {number}")
        require(title, f"{where}: {kind} {number} has no title.")
        require(_slug(title) not in titles, f"{where}: there are two {kind}s {title!r}; give each its own title.")
        titles.append(_slug(title))
    return entries


def _shows(entry: Json, found: Written, where: str) -> list[str]:
    """Sections whose figures the short page repeats."""
    names = entry.get("shows", [])
    if not isinstance(names, list) or not all(name in found.pictures for name in names):
        has = ", ".join(map(repr, found.pictures)) or "none"
        raise UserError(f"{where}: shows is {names!r}, but it must be titles of sections with a figure: {has}.")
    return names


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
        return [replace(cell, shown=place.named(cell.path)) for cell in found], missing


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item for item in value)


def _holds_cells(path: Path) -> bool:
    return path.suffix == ".json" or (path.is_dir() and any(path.rglob("*.json")))


def _cells(section: Json, place: Place, where: str) -> Written:
    """A figure, a table, comparisons of rivals and the commands; what is not run is said."""
    shown = Shown.parse(section, where)
    found, missing = shown.find(place)
    ready, written = _ready(found, shown, bool(missing)), Written([], {}, {})
    tests, blocks = tables.Significances(), written.blocks
    if ready.figure:
        path = place.pages / FOLDER / f"{place.prefix}{_slug(section['title'])}-{ready.figure}.svg"
        about, draw = FIGURES[ready.figure]
        draw = partial(plots.forest, baseline=ready.baseline) if draw is plots.forest else draw
        written.figures[path] = _drawn(draw, found)
        picture = about.format(tables.metric_of(found).label), path
        written.pictures[section["title"]] = picture
        blocks.append(_picture(*picture, place))
    if ready.layout:
        made = _table(found, ready, tests)
        compared = rivals(found, ready.rivals, tests, made.notes)
        blocks.extend(tables.markdown(table).strip() for table in (made, compared) if table.rows)
    if missing:
        places = (f"`{place.named(place.home / pattern)}`" for pattern in missing)
        blocks.append(f"Not run yet, or not finished: {', '.join(places)}.")
    if found and shown.commands:
        blocks.append(commands(found).strip())
    return written


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
