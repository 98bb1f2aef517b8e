"""`seqcredit table`: cells as a table in Markdown, LaTeX or CSV; a missing cell is shown as missing."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import TypeVar

from seqcredit.errors import UserError
from seqcredit.results.cells import Cell, check_rows
from seqcredit.results.significance import Scores, Significance, of_means, resampled
from seqcredit.rewards.metrics import BLEU, Metric, Statistics

Place = TypeVar("Place")  # of a figure: a row, a row and a column, or a name

MISSING, DIVERGED = "-", "†"
STATISTICS = ("n", "mean", "sd", "min", "max")  # of several seeds
INTERVAL = "95 %"  # the column of a difference's interval
LATEX = {
    "\\": r"\textbackslash{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    DIVERGED: r"$^\dagger$",
    "±": r"$\pm$",
}


@dataclass(frozen=True)
class Table:
    """Texts in rows, and sentences below them."""

    header: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)
    bold: set[tuple[int, int]] = field(default_factory=set)  # row and column
    rules: set[int] = field(default_factory=set)  # rows with a line above them


@dataclass(frozen=True)
class Summary:
    """Several runs of one recipe. Diverged ones are counted, but their figures left out, and so are missing ones."""

    values: list[float]
    diverged: int
    digits: int = 2

    @classmethod
    def of(cls, cells: Iterable[Cell], figure: Callable[[Cell], float | None], digits: int = 2) -> "Summary":
        found = [(cell.diverged, figure(cell)) for cell in cells]
        values = [value for lost, value in found if value is not None and not lost]
        return cls(values, sum(lost for lost, _ in found), digits)

    @classmethod
    def of_scores(cls, cells: Iterable[Cell]) -> "Summary":
        """The figures of the cells' metric."""
        cells = list(cells)
        return cls.of(cells, lambda cell: cell.score, metric_of(cells).digits)

    @property
    def mean(self) -> float:
        return fmean(self.values) if self.values else math.nan

    def texts(self) -> list[str]:
        """As `STATISTICS`."""
        v, d = self.values, self.digits
        spread = text(stdev(v), d) if len(v) > 1 else MISSING
        return [str(len(v)), text(self.mean, d), spread, *(text(f(v), d) if v else MISSING for f in (min, max))]

    def spread(self) -> str:
        """mean ± standard deviation, with a mark where runs were left out."""
        n, mean, deviation, *_ = self.texts()
        return mean + (f" ± {deviation}" if int(n) > 1 else "") + (DIVERGED if self.diverged else "")


def text(value: float | None, digits: int = 2) -> str:
    """A figure, or the mark of one that is missing."""
    return MISSING if value is None or math.isnan(value) else f"{value:.{digits}f}"


def metric_of(cells: Iterable[Cell]) -> Metric:
    """The metric of the cells of a table, which is one and the same."""
    return next((cell.metric for cell in cells if cell.metric), BLEU)


def better(metric: Metric, found: Mapping[Place, Summary]) -> set[Place]:
    """Where the best of several means is; nowhere if there is none to compare it with."""
    means = {place: summary.mean for place, summary in found.items() if summary.values}
    best = max if metric.higher else min
    return {best(means, key=means.__getitem__)} if len(means) > 1 else set()


def plain(cells: Sequence[Cell], baseline: str | None = None, tests: "Significances | None" = None) -> Table:
    """Recipes by seeds, with mean, spread and range, and the difference to a baseline with its significance."""
    check_rows(cells)
    groups = by_name(cells)
    base = row(groups, baseline or "MLE")
    if baseline and base is None:
        raise UserError(
            f"Of the baseline {baseline!r} there is none among the rows {', '.join(groups)}: choose one of these."
        )
    order = sorted(groups, key=lambda name: name != base)
    seeds = sorted({cell.seed for cell in cells})
    tests = tests or Significances()
    rows = []
    for name in order:
        group, summary = groups[name], Summary.of_scores(groups[name])
        by_seed = {cell.seed: cell for cell in group}
        change = ["", "", ""] if name == base or base is None else against(groups[base], group, tests)
        figures = [_one(by_seed.get(seed)) for seed in seeds]
        rows.append([label(name, groups), *figures, *summary.texts(), *change, str(summary.diverged)])
    to = f"to {label(base, groups)}" if base else "to baseline"
    header = ["recipe", *(f"seed {seed}" for seed in seeds), *STATISTICS, to, INTERVAL, "p", "diverged"]
    notes = [measured(cells), *tests.notes()] if base else [measured(cells), "No baseline is among the cells."]
    return Table(header, rows, [*notes, *footnotes(cells, groups)])


def slim(table: Table) -> Table:
    """A plain table without what it says twice: statistics of one seed, and divergence where there is none."""
    seeds = sum(name.startswith("seed ") for name in table.header)
    dropped = {*STATISTICS} if seeds == 1 else set()
    dropped |= {"diverged"} if all(line[-1] == "0" for line in table.rows) else set()
    kept = [number for number, name in enumerate(table.header) if name not in dropped]
    header, *rows = ([line[number] for number in kept] for line in (table.header, *table.rows))
    return Table(header, rows, table.notes)


def by_name(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Rows of a plain table: what differs in its seed alone."""
    return grouped(cells, lambda cell: cell.name)


def grouped(cells: Iterable[Cell], key: Callable[[Cell], str]) -> dict[str, list[Cell]]:
    """Cells by a key, in the order in which they come."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(key(cell), []).append(cell)
    return groups


def row(groups: Mapping[str, list[Cell]], wanted: str) -> str | None:
    """A row by its own name, or by its recipe's if that is the only one of the recipe."""
    name = wanted.lower()
    exact = [key for key in groups if key.lower() == name]
    found = exact or [key for key, group in groups.items() if group[0].recipe.lower() == name]
    if len(found) > 1:
        there = ", ".join(groups)
        raise UserError(f"Of {wanted!r} there are {len(found)} among the rows {there}: choose one by its own name.")
    return found[0] if found else None


def label(name: str, groups: Mapping[str, list[Cell]]) -> str:
    """The recipe's name; where two rows have the same recipe, their own too."""
    recipe = groups[name][0].recipe
    alone = [group[0].recipe for group in groups.values()].count(recipe) == 1
    return recipe if alone or recipe.lower() == name.lower() else f"{recipe} ({name})"


def _one(cell: Cell | None) -> str:
    if cell is None or cell.score is None:
        return MISSING
    return f"{text(cell.score, metric_of([cell]).digits)}{DIVERGED if cell.diverged else ''}"


def against(base: Sequence[Cell], group: Sequence[Cell], tests: "Significances") -> list[str]:
    """The difference of two means, its interval and its p."""
    mine, theirs = (Summary.of_scores(cells).mean for cells in (group, base))
    found, d = tests.test(base, group), metric_of([*group, *base]).digits
    difference = MISSING if math.isnan(mine - theirs) else f"{mine - theirs:+.{d}f}"
    if found is None:
        return [difference, "", ""]
    low, high = found.interval
    return [difference, f"{low:+.{d}f} to {high:+.{d}f}", f"{found.p:.3f}"]


class Significances:
    """Significance of differences between rows, from what the metric knows of each example."""

    def __init__(self) -> None:
        self.resampled: dict[Path, Scores | None] = {}
        self.signature = self.why = ""

    def test(self, base: Sequence[Cell], group: Sequence[Cell]) -> Significance | None:
        """How often chance alone makes such a difference; None if that cannot be told."""
        first, second = (sorted(counted(cells), key=lambda cell: cell.seed) for cells in (base, group))
        if not first or not second:
            return None
        before, after = ([s for cell in some if (s := self._scores(cell)) is not None] for some in (first, second))
        if len(before) < len(first) or len(after) < len(second):
            self.why = "p is blank where a cell has no counts of its sentences beside it: record it again."
            return None
        paired = [cell.seed for cell in first] == [cell.seed for cell in second]
        found = of_means(before, after, first[0].signature, paired)
        self.signature = found.signature
        return found

    def _scores(self, cell: Cell) -> Scores | None:
        """The figure of a cell and those of its samples, computed once."""
        if cell.path not in self.resampled:
            rows = cell.statistics()
            self.resampled[cell.path] = None if rows is None else _checked(cell, rows)
        return self.resampled[cell.path]

    def notes(self) -> list[str]:
        """What p is, and why it is missing where it is."""
        test = (
            f"p and {INTERVAL}: paired bootstrap over seeds and sentences, {self.signature}. p is one-sided, as in "
            "sacreBLEU; the interval leaves 2.5 % on each side."
        )
        return [note for note in (test if self.signature else "", self.why) if note]


def _checked(cell: Cell, rows: Statistics) -> Scores:
    """The samples of a cell, whose rows must give the figure that it has kept, but for its rounding."""
    metric = metric_of([cell])
    scores, d = resampled(rows, metric=metric), metric.digits
    if not abs(scores[0] - (cell.score or 0)) < 10 ** -(d + 1):
        raise UserError(
            f"The counts of {cell.path} give {metric.label} {scores[0]:.{d}f}, but the cell says "
            f"{text(cell.score, d)}: record it again."
        )
    return scores


def counted(cells: Iterable[Cell]) -> list[Cell]:
    """Those that count: finished, and not diverged."""
    return [cell for cell in cells if cell.score is not None and not cell.diverged]


def measured(cells: Sequence[Cell]) -> str:
    """What the figures are."""
    known = [cell for cell in cells if cell.score is not None]
    if not known:
        return "No run is finished."
    first, of, metric = known[0], of_data(known), metric_of(known)
    lower = "" if metric.higher else " (lower is better)"
    split, sentences = first.figures.get("split", "test"), first.figures.get("sentences", 0)
    return f"{metric.label}{lower}{of}, {split}, {sentences:,} sentences, {first.signature}."


def of_data(cells: Sequence[Cell]) -> str:
    """The data that cells are about, where they know it."""
    names = sorted({cell.figures["data"]["name"] for cell in cells if "data" in cell.figures})
    return f" of {', '.join(names)}" if names else ""


def footnotes(cells: Sequence[Cell], groups: Mapping[str, Sequence[Cell]]) -> list[str]:
    lost = [f"{cell}, {', '.join(cell.figures['diverged'])}" for cell in cells if cell.diverged]
    notes = [f"{DIVERGED} diverged and left out: {'; '.join(lost)}."] if lost else []
    stayed = [f"{cell}, {cell.figures['skipped']['why']}" for cell in cells if "skipped" in cell.figures]
    notes += [f"The actor did not move: {'; '.join(stayed)}."] if stayed else []
    searches = {str(cell.figures["search"]) for cell in cells if "search" in cell.figures}
    if len(searches) > 1:
        notes.append("The cells were not all decoded in the same way.")
    unfinished = [str(cell) for cell in cells if cell.score is None]
    notes += [f"Not finished: {', '.join(unfinished)}."] if unfinished else []
    mixed = [name for name, group in groups.items() if len({cell.recipe for cell in group}) > 1]
    return notes + ([f"Cells of different recipes stand in one row: {', '.join(mixed)}."] if mixed else [])


def markdown(table: Table) -> str:
    """As a table of Markdown, its notes as paragraphs."""

    def line(texts: Iterable[str]) -> str:
        return f"| {' | '.join(texts)} |"

    rows = [
        [_strong(_piped(text), (r, c) in table.bold, "**", "**") for c, text in enumerate(row)]
        for r, row in enumerate(table.rows)
    ]
    lines = [line(map(_piped, table.header)), "|" + "---|" * len(table.header), *map(line, rows)]
    return "\n".join(lines) + "\n" + "".join(f"\n{_piped(note, '')}\n" for note in table.notes)


def _piped(text: str, bar: str = "|") -> str:
    return "".join(f"\\{letter}" if letter in "\\*_`<" + bar else letter for letter in text).replace("\n", " ")


def _strong(text: str, bold: bool, before: str, after: str) -> str:
    return f"{before}{text}{after}" if bold and text not in ("", MISSING) else text


def latex(table: Table) -> str:
    """As a float with a tabular; it needs the package booktabs."""
    lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}", r"\toprule"]
    lines += [" & ".join(map(_escaped, table.header)) + r" \\", r"\midrule"]
    for r, row in enumerate(table.rows):
        texts = (_strong(_escaped(text), (r, c) in table.bold, r"\textbf{", "}") for c, text in enumerate(row))
        lines += [r"\midrule"] if r in table.rules else []
        lines.append(" & ".join(texts) + r" \\")
    caption = _escaped(" ".join(table.notes))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", rf"\caption{{{caption}}}", r"\end{table}"]) + "\n"


def _escaped(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text.replace("\n", " "))


def csv_text(table: Table) -> str:
    """Header and rows; notes have no place in it."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([table.header, *table.rows])
    return out.getvalue()


FORMATS: dict[str, Callable[[Table], str]] = {"markdown": markdown, "latex": latex, "csv": csv_text}
