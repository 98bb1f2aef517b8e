"""Figures, as PNG or SVG by the name of the file. They need matplotlib: the extra 'plots'."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqcredit.errors import UserError

STYLES = {"MLE": ("#000000", "o"), "RAML": ("#0072b2", "s"), "soft Q": ("#009e73", "^"), "ERAC": ("#d55e00", "D")}
AXES = {"vocabulary": "words of the vocabulary, V", "words": "words of a sentence, T", "samples": "proposals, M"}


def check(path: Path) -> None:
    """Before anything is measured for it: can this figure be made?"""
    if path.suffix not in (".png", ".svg"):
        raise UserError(f"{path}: a figure's name ends in .png or .svg.")
    if not path.parent.is_dir():
        raise UserError(f"{path}: there is no folder {path.parent}.")
    _pyplot()


def growth(found: Mapping[str, Mapping[str, Sequence[float]]], values: Mapping[str, Sequence[int]], path: Path) -> None:
    """Time of a step along each axis, both logarithmic: a straight line is a power."""
    pyplot = _pyplot()
    figure, panels = pyplot.subplots(1, len(found), figsize=(3.1 * len(found), 3.0), sharey=True, layout="constrained")
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
    _save(figure, path)


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise UserError("Figures need matplotlib: pip install 'seqcredit[plots]'.") from None
    matplotlib.use("agg")
    matplotlib.rcParams.update({"svg.hashsalt": "seqcredit", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    return pyplot


def _save(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}.") from None
