"""`seqcredit watch`: learning curves of runs in progress, in the terminal and as a page that reloads itself."""

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import median

from rich.text import Text

from seqcredit.algorithms import Phase
from seqcredit.data.manifest import Manifest
from seqcredit.data.storage import write_whole
from seqcredit.errors import UserError, in_words
from seqcredit.experiments.history import history, labels
from seqcredit.experiments.runs import Run
from seqcredit.inspect.page import part
from seqcredit.rewards.metrics import label_of
from seqcredit.training.log import Curve, History, titles, validated
from seqcredit.training.watch import duration
from seqcredit.types import Json

LOSSES = ("nll", "loss", "td")  # the first that a run has is its loss
SHOWN = {"reward": "reward", "entropy": "entropy"}  # besides, in the terminal
ROWS = 4  # of a chart in the terminal; a letter holds 2 by 4 dots
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # of a Braille letter, from the top
RECENT = 5  # intervals of the log that tell the speed
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 460, 200, 52, 24, 8  # of a chart in the page
# Okabe and Ito's colours, on light and on dark ground.
PALETTE = (
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#e69f00"),
    ("#009e73", "#2fd4a4"),
    ("#cc79a7", "#e3a6c8"),
    ("#8a6d00", "#f0e442"),
    ("#555555", "#cccccc"),
)


@dataclass(frozen=True)
class Watched:
    """Where a run stands."""

    label: str
    history: History
    line: str
    done: bool

    def charts(self) -> dict[str, Curve]:
        """What the terminal shows of it, by name: validation, samples, and the loss that it has."""
        loss = next((key for key in LOSSES if self.history.curve(key)), LOSSES[0])
        metric = self.history.metric
        shown = {f"valid. {label_of(metric)}": validated(metric), **SHOWN, loss: loss}
        return {name: curve for name, key in shown.items() if (curve := self.history.curve(key))}


def states(folders: Sequence[Path], now: float | None = None) -> list[Watched]:
    """All runs as they stand now."""
    runs = [Run.open(folder) for folder in folders]
    now = time.time() if now is None else now
    found = [(run, history(run)) for run in runs]
    names = labels([run.folder for run in runs])
    return [
        Watched(name, past, _line(run, past, now), _done(run)) for name, (run, past) in zip(names, found, strict=True)
    ]


def _done(run: Run) -> bool:
    return len(run.phases_done()) == len(run.recipe.phase)


def _line(run: Run, past: History, now: float) -> str:
    """Phase, epoch, speed, learning rate, and how long it will take."""
    if not past.entries:
        return "done" if _done(run) else "no line in the log yet"
    last = past.entries[-1]
    if _done(run):
        return f"done, {last['total']:,} updates"
    phase = next((phase for phase in run.recipe.phase if phase.name == last["phase"]), None)
    if phase is None or last["event"] == "phase_end":
        return f"{last['phase']}: done, {_silence(last, now)}"
    mine = [entry for entry in past.entries if entry["phase"] == phase.name]
    epoch = next((entry["epoch"] for entry in reversed(mine) if "epoch" in entry), 0)
    speed, batches = _speed(mine), _batches(run, phase)
    epochs = len(phase.lengths(batches)) if batches else phase.epochs
    parts = [f"{phase.name}: epoch {min(epoch + 1, epochs)}/{epochs}, {last['updates']:,} updates"]
    parts += [f"{speed:.3g} updates/s"] if speed else []
    rates = [entry["rate"] for entry in mine if "rate" in entry]
    parts += [f"learning rate {phase.learning_rate * rates[-1]:.3g}"] if rates else []
    if speed and batches:
        left = max(0, sum(phase.lengths(batches)) - last["updates"]) / speed
        parts.append(f"phase at most {duration(left)} left")
    diverged = sum(entry["event"] == "diverged" for entry in past.entries)
    parts += [f"divergences: {diverged}"] if diverged else []
    return ", ".join([*parts, _silence(last, now)])


def _silence(last: Json, now: float) -> str:
    return f"last line {duration(max(0.0, now - last['time']))} ago"


def _speed(entries: Sequence[Json]) -> float | None:
    """Updates a second: the median of the last intervals, so that a pause does not count."""
    steps = [(b["updates"] - a["updates"], b["time"] - a["time"]) for a, b in itertools.pairwise(entries)]
    speeds = [updates / seconds for updates, seconds in steps if updates > 0 and seconds > 0]
    return median(speeds[-RECENT:]) if speeds else None


def _batches(run: Run, phase: Phase) -> int | None:
    """Updates of an epoch, if the data are still there and batches are counted."""
    if phase.batch_tokens:
        return None
    try:
        manifest = Manifest.load(run.data)
        counts = manifest.splits["train"]
    except (UserError, KeyError):
        return None
    return math.ceil((counts.examples if manifest.picture_width else counts.references) / phase.batch_size)


# In the terminal


def screen(found: Sequence[Watched], width: int = 80) -> Text:
    """A row a run: small charts, each with its own scale, and below them a line that says where it stands."""
    text = Text()
    for state in found:
        panels = [_panel(name, curve, width // 4) for name, curve in state.charts().items()]
        text.append(f"{state.label}\n", style="bold")
        for row in zip(*panels, strict=True):
            text.append("".join(row).rstrip() + "\n")
        text.append(f"{state.line}\n\n")
    return text


def _panel(name: str, curve: Curve, width: int) -> list[str]:
    """A chart between its smallest and its largest value, headed by the last one; every line has the same width."""
    low, high = (f(value for _, value in curve) for f in (min, max))
    margin = [f"{high:.3g}", *[""] * (ROWS - 2), f"{low:.3g}"]
    wide = max(map(len, margin))
    rows = chart(curve, low, high, max(4, width - wide - 3))
    body = [f"{number:>{wide}} {row}" for number, row in zip(margin, rows, strict=True)]
    return [f"{line:{width}}" for line in (f"{name} {curve[-1][1]:.4g}", *body)]


def chart(curve: Curve, low: float, high: float, columns: int, rows: int = ROWS) -> list[str]:
    """A line of Braille dots; the first row is the top."""
    wide, tall = 2 * columns, 4 * rows
    begin, end = curve[0][0], curve[-1][0]
    cells = [[0x2800] * columns for _ in range(rows)]

    def place(at: int, value: float) -> tuple[int, int]:
        x = (at - begin) / (end - begin) if end > begin else 0.0
        y = (value - low) / (high - low) if high > low else 0.5
        return round(x * (wide - 1)), round((1 - y) * (tall - 1))

    points = [place(*point) for point in curve]
    for (x0, y0), (x1, y1) in zip(points, points[1:] or points, strict=False):
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for step in range(steps + 1):
            x, y = round(x0 + (x1 - x0) * step / steps), round(y0 + (y1 - y0) * step / steps)
            cells[y // 4][x // 2] |= DOTS[y % 4][x % 2]
    return ["".join(map(chr, row)) for row in cells]


# As a page


def page(found: Sequence[Watched], every: float, now: float | None = None) -> str:
    """All runs over each other, and a table of the last figures; it reloads itself until the runs are done."""
    done = all(state.done for state in found)
    again = "" if done else f'<meta http-equiv="refresh" content="{max(1, round(every))}">\n'
    named = titles(state.history for state in found)
    light, dark = (" ".join(f"--run{n}: {pair[side]};" for n, pair in enumerate(PALETTE)) for side in (0, 1))
    figures = "\n".join(
        f"<figure><h2>{escape(name)}</h2>\n{_svg(found, key, name)}</figure>" for key, name in named.items()
    )
    style = part("watch.css").replace("{{LIGHT}}", light).replace("{{DARK}}", dark)
    written = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n{again}<title>seqcredit watch</title>\n'
        f"<style>\n{style}</style>\n</head>\n<body>\n<h1>Runs</h1>\n{_table(found, named)}\n"
        f'<div class="charts">\n{figures}\n</div>\n<footer>As of {written}; over updates.</footer>\n</body>\n</html>\n'
    )


def _table(found: Sequence[Watched], named: Mapping[str, str]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in ("run", *named.values(), "where it stands"))
    rows = []
    for number, state in enumerate(found):
        curves = [state.history.curve(key) for key in named]
        figures = "".join(f"<td>{curve[-1][1]:.4g}</td>" if curve else "<td>-</td>" for curve in curves)
        name = f'<span class="key" style="border-color: {_colour(number)}"></span>{escape(state.label)}'
        rows.append(f"<tr><td>{name}</td>{figures}<td>{escape(state.line)}</td></tr>")
    return f'<div class="table"><table>\n<tr>{head}</tr>\n' + "\n".join(rows) + "\n</table></div>"


def _colour(number: int) -> str:
    return f"var(--run{number % len(PALETTE)})"


def _svg(found: Sequence[Watched], key: str, name: str) -> str:
    """One chart, a line a run."""
    values = [value for state in found for _, value in state.history.curve(key)]
    low, high = min(values), max(values)
    low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
    longest = max(state.history.entries[-1]["total"] for state in found if state.history.entries) or 1
    right, base = WIDTH - 10, HEIGHT - BOTTOM
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(name)}">']
    for share in (0.0, 0.5, 1.0):
        y, x = base - share * (base - TOP), LEFT + share * (right - LEFT)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        value = f"{low + share * (high - low):.3g}"
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value}</text>')
        anchor = "start" if share == 0 else "end" if share == 1 else "middle"
        at = f"{longest * share:,.0f}"
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{at}</text>')
    for number, state in enumerate(found):
        if curve := state.history.curve(key):
            places = [
                (LEFT + at / longest * (right - LEFT), base - (value - low) / (high - low) * (base - TOP))
                for at, value in curve
            ]
            dashes = f' stroke-dasharray="{6 * (number // len(PALETTE))} 3"' if number >= len(PALETTE) else ""
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            title = f"<title>{escape(state.label)}</title>"
            parts.append(f'<polyline style="stroke: {_colour(number)}"{dashes} points="{points}">{title}</polyline>')
            x, y = places[-1]
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" style="fill: {_colour(number)}"/>')
    return "\n".join([*parts, "</svg>"])


def write_page(path: Path, found: Sequence[Watched], every: float) -> None:
    """Whole or not at all: a browser may read it at any time."""
    with in_words(OSError, lambda error: f"{path} cannot be written: {error.strerror}; choose another --html FILE."):
        write_whole(path, page(found, every).encode())
