"""Figures, as PNG or SVG by the name of the file. They need matplotlib: the extra 'plots'."""

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from seqcredit.errors import UserError, in_words, require
from seqcredit.types import Json

if TYPE_CHECKING:
    from types import ModuleType

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

    from seqcredit.results.cells import Cell
    from seqcredit.training.log import History

# Okabe and Ito's colours, which colour-blind readers tell apart; lines differ in their marks too.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", ":")
TASKS = {"Machine translation": False, "Image captioning": True}  # are there pictures?
STYLES = {"MLE": ("#000000", "o"), "RAML": ("#0072b2", "s"), "soft Q": ("#009e73", "^"), "ERAC": ("#d55e00", "D")}
AXES = {"vocabulary": "words of the vocabulary, V", "words": "words of a sentence, T", "samples": "proposals, M"}


def check(path: Path) -> None:
    """Before anything is measured for it: can this figure be made?"""
    require(path.suffix in (".png", ".svg"), f"{path}: a figure's name ends in .png or .svg.")
    require(path.parent.is_dir(), f"{path}: there is no folder {path.parent}.")
    load_pyplot()


def growth(found: Mapping[str, Mapping[str, Sequence[float]]], values: Mapping[str, Sequence[int]], path: Path) -> None:
    """Time of a step along each axis, both logarithmic: a straight line is a power."""
    pyplot = load_pyplot()
    figure, panels = pyplot.subplots(1, len(found), figsize=(3.1 * len(found), 3.0), sharey=True)
    for panel, (axis, lines) in zip(panels, found.items(), strict=True):
        for name, milliseconds in lines.items():
            colour, marker = STYLES[name]
            panel.plot(values[axis], milliseconds, color=colour, marker=marker, markersize=4, label=name)
        panel.set(xscale="log", yscale="log", xlabel=AXES.get(axis, f"{axis} of the networks"))
        panel.set_xticks(values[axis], [f"{value:,}" for value in values[axis]])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("ms a step")
    panels[0].legend(frameon=False)
    save(figure, path)


def tau(cells: "Sequence[Cell]", path: Path) -> None:
    """Figures of AC and ERAC over the temperature, a panel a task: mean, range over seeds, and the runs themselves."""
    from seqcredit.results.tables import metric_of

    mine = [cell for cell in cells if cell.score is not None and cell.future_entropy]
    tasks = [(name, group) for name, of in TASKS.items() if (group := [cell for cell in mine if cell.pictures == of])]
    require(tasks, "There is no cell of AC or ERAC among them: the figure is made of runs with different tau.")
    pyplot = load_pyplot()
    figure, panels = pyplot.subplots(1, len(tasks), figsize=(4.2 * len(tasks), 3.2), squeeze=False)
    for panel, (name, group) in zip(panels[0], tasks, strict=True):
        mle = [c for c in cells if c.recipe == "MLE" and c.pictures == group[0].pictures and c.score is not None]
        _tau_panel(panel, group, mle)
        panel.set(xlabel="temperature τ", title=name)
    panels[0][0].set_ylabel(f"test {metric_of(mine).label}")
    save(figure, path)


def _tau_panel(panel: "Axes", cells: "Sequence[Cell]", mle: "Sequence[Cell]") -> None:
    from seqcredit.results.cells import check_alike, check_once, check_settings

    check_alike([*cells, *mle])
    check_settings(cells, ("tau",))
    check_once(cells, lambda cell: f"tau = {_tau(cell):g}")
    check_once(mle, lambda cell: cell.recipe)
    by_tau: dict[float, list[float]] = {}
    for cell in sorted(cells, key=_tau):
        if not cell.diverged:
            by_tau.setdefault(_tau(cell), []).append(cell.score or 0.0)
    place = {tau: number for number, tau in enumerate(sorted({_tau(cell) for cell in cells}))}  # evenly spaced
    places, runs, colour = [place[tau] for tau in by_tau], list(by_tau.values()), COLOURS[0]
    several = max(map(len, runs), default=0) > 1
    label = "mean, runs and their range" if several else "one run each"
    panel.fill_between(places, [*map(min, runs)], [*map(max, runs)], color=colour, alpha=0.2, lw=0)
    panel.plot(places, [*map(fmean, runs)], color=colour, marker="o", ms=4, label=label)
    for at, values in zip(places, runs, strict=True) if several else ():
        panel.plot([at] * len(values), values, "_", color=colour, ms=7)
    lost = sorted({place[_tau(cell)] for cell in cells if cell.diverged})
    if lost:  # at the foot: how low they are says nothing
        foot = panel.get_xaxis_transform()
        panel.plot(lost, [0.03] * len(lost), "x", color=COLOURS[1], ms=6, label="diverged", transform=foot)
    if mle:
        panel.axhline(fmean(cell.score or 0.0 for cell in mle), color=COLOURS[-1], ls="--", lw=1, label="MLE")
    panel.set_xticks([*place.values()], [f"{tau:g}" for tau in place])
    panel.grid(alpha=0.3)
    panel.legend(frameon=False)


def _tau(cell: "Cell") -> float:
    return cell.option("tau")


def curves(histories: "Mapping[str, History]", path: Path, only: Collection[str] = ()) -> None:
    """What some runs have logged, all of it or some keys, over updates; phases begin at dotted lines."""
    from seqcredit.training.log import titles

    shown = titles(histories.values())
    require(shown, "There is nothing to draw yet: no line of these logs has a figure.")
    unknown = [key for key in only if key not in shown]
    require(not unknown, f"These logs have no curve of {', '.join(unknown)}: choose from {', '.join(shown)}.")
    shown = {key: shown[key] for key in only or shown}
    pyplot = load_pyplot()
    columns = min(3, len(shown))
    rows = math.ceil(len(shown) / columns)
    figure, grid = pyplot.subplots(rows, columns, figsize=(3.6 * columns, 2.5 * rows + 0.5), squeeze=False)
    for panel in grid.flat[len(shown) :]:
        panel.remove()
    longest = max(history.entries[-1]["total"] for history in histories.values() if history.entries)
    for panel, key in zip(grid.flat, shown, strict=False):
        for number, history in enumerate(histories.values()):
            if found := history.curve(key):
                panel.plot(*zip(*found, strict=True), **_style(number, len(found) < 30), lw=1.2)
            for start in history.starts() if found else ():
                panel.axvline(start, color=_style(number)["color"], ls=":", lw=0.8, alpha=0.6)
        panel.set(title=shown[key], xlabel="updates", xlim=(-0.02 * longest, 1.02 * longest))
        panel.xaxis.set_major_locator(pyplot.MaxNLocator(5, integer=True))
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        panel.grid(alpha=0.3)
    _legend(figure, [*histories], 6)
    save(figure, path)


def credit_curves(cells: "Sequence[Cell]", path: Path) -> None:
    """Distance of learned credit from the exact one over updates: a panel a measure, a line a run."""
    from seqcredit.results.record import CREDIT
    from seqcredit.training.watch import VALIDATED

    shown = [key for key in CREDIT if any(cell.curve(key) for cell in cells)]
    require(shown, "No cell among them has a credit error: set `exact` of a phase to measure it.")
    names = list(dict.fromkeys(cell.name for cell in cells))
    figure, panels = load_pyplot().subplots(1, len(shown), figsize=(4.4 * len(shown), 3.6), squeeze=False)
    for panel, key in zip(panels[0], shown, strict=True):
        for cell in cells:
            if found := cell.curve(key):
                panel.plot(*zip(*found, strict=True), **_style(names.index(cell.name)), lw=1.2)
        panel.set(title=VALIDATED[key], xlabel="updates", yscale="log")
        panel.yaxis.get_major_locator().set_params(subs=(1, 2, 5))
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        panel.yaxis.set_minor_formatter(lambda value, _: "")
        panel.grid(alpha=0.3, which="both")
    _legend(figure, names, 2 * len(shown))
    save(figure, path)


def costs(cells: "Sequence[Cell]", path: Path) -> None:
    """Validation against samples drawn and against CPU time: a line a row, the mean of its seeds."""
    from seqcredit.results import tables

    groups = {name: group for name, group in tables.by_name(cells).items() if all(cell.course for cell in group)}
    require(groups, "No cell among them has kept what its validations had cost: record the runs again.")
    axes = {"samples drawn": 0, "CPU time, seconds": 1}
    figure, panels = load_pyplot().subplots(1, len(axes), figsize=(4.4 * len(axes), 4.2), sharey=True)
    for panel, (about, axis) in zip(panels, axes.items(), strict=True):
        for number, group in enumerate(groups.values()):
            points = np.array([cell.course for cell in group if len(cell.course) == len(group[0].course)]).mean(0)
            panel.plot(points[:, axis], points[:, 2], **_style(number), lw=1.2)
        panel.set(xlabel=about)
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel(f"validation {tables.metric_of(cells).label}")
    _legend(figure, [tables.label(name, groups) for name in groups], 4)
    save(figure, path)


def _legend(figure: "Figure", names: Sequence[str], columns: int) -> None:
    """Below the panels: what the line of each number is of."""
    lines = [load_pyplot().Line2D([], [], **_style(number), label=name) for number, name in enumerate(names)]
    figure.legend(handles=lines, loc="outside lower center", ncols=columns, frameon=False)


def _style(number: int, marked: bool = True) -> Json:
    """Of the line of a run: its colour, its marks, and dashes where colours begin anew."""
    n, again = number % len(COLOURS), number // len(COLOURS)
    return {"color": COLOURS[n], "marker": MARKERS[n] if marked else "", "ms": 3, "ls": DASHES[again % len(DASHES)]}


def ablation(cells: "Sequence[Cell]", path: Path) -> None:
    """Mean validation of ERAC as a heat map of smoothing by target rate; a place without runs stays empty."""
    from seqcredit.results.layouts import ablation_grid, judged_by

    pyplot, grid = load_pyplot(), ablation_grid(cells)
    rows, columns = sorted(grid), sorted({rate for row in grid.values() for rate in row})
    summaries = [[grid[row].get(rate) for rate in columns] for row in rows]
    means = [[summary.mean if summary else math.nan for summary in row] for row in summaries]
    size = (1.1 * len(columns) + 2.2, 0.6 * len(rows) + 1.3)
    figure, panel = pyplot.subplots(figsize=size)
    image = panel.imshow(means, cmap="cividis", aspect="auto")
    for r, row in enumerate(summaries):
        for c, summary in enumerate(row):
            text = summary.spread().replace(" ± ", "\n± ") if summary else "-"
            panel.text(c, r, text, ha="center", va="center", color=ink(image, means[r][c]))
    panel.set_xticks(range(len(columns)), [f"{rate:g}" for rate in columns])
    panel.set_yticks(range(len(rows)), [f"{row:g}" for row in rows])
    panel.set(xlabel="target rate β", ylabel="smoothing λ")
    figure.colorbar(image, label=f"validation {judged_by(cells).label}")
    save(figure, path)


def forest(cells: "Sequence[Cell]", path: Path, baseline: str | None = None) -> None:
    """Differences of rows to a baseline, MLE if none is named, with their intervals."""
    from seqcredit.results import tables

    groups = tables.by_name(cells)
    base = tables.row(groups, baseline or "MLE") or ""
    require(base, f"There is no row {baseline or 'MLE'} among {', '.join(groups)}: name one of them as the baseline.")
    tests, metric, mean = tables.Significances(), tables.metric_of(cells), tables.Summary.of_scores(groups[base]).mean
    found = {name: tests.test(groups[base], group) for name, group in groups.items() if name != base}
    shown = {name: test.interval for name, test in found.items() if test is not None}
    require(shown, "No row has counts of its sentences beside it: record the cells again.")
    figure, panel = load_pyplot().subplots(figsize=(5.2, 0.3 * len(shown) + 0.9))
    for place, (name, (low, high)) in enumerate(shown.items()):
        middle = tables.Summary.of_scores(groups[name]).mean - mean
        panel.plot([low, high], [place, place], color=COLOURS[0], lw=1.5)
        panel.plot([middle], [place], color=COLOURS[0], marker="o", ms=4)
    panel.axvline(0, color="black", lw=0.8)
    panel.set_yticks(range(len(shown)), [tables.label(name, groups) for name in shown])
    panel.set(
        ylim=(len(shown) - 0.5, -0.5), xlabel=f"difference in {metric.label} to {tables.label(base, groups)}, 95 %"
    )
    panel.grid(alpha=0.3, axis="x")
    save(figure, path)


def ink(image: "AxesImage", value: float) -> str:
    """Black or white, whichever can be read on the colour of a value."""
    if math.isnan(value):
        return "black"
    red, green, blue, _ = image.cmap(image.norm(np.asarray(value)))
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"


def load_pyplot() -> "ModuleType":
    """Matplotlib, which writes the same file every time."""
    with in_words(ImportError, "Figures need matplotlib: pip install 'seqcredit[plots]'."):
        import matplotlib
    matplotlib.use("agg")
    matplotlib.rcParams.update({"font.size": 9, "figure.constrained_layout.use": True, "text.parse_math": False})
    matplotlib.rcParams.update({"svg.hashsalt": "seqcredit", "svg.fonttype": "none"})
    from matplotlib import pyplot

    return pyplot


def save(figure: "Figure", path: Path) -> None:
    """Write a figure, and forget it."""
    try:
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        load_pyplot().close(figure)
