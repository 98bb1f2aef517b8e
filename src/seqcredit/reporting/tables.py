"""`seqcredit table`: cells as a table in Markdown, LaTeX or CSV; what is missing stays visibly missing."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev

from seqcredit.errors import UserError
from seqcredit.reporting.cells import Cell, check_alike, check_once, check_settings
from seqcredit.reporting.compare import Scores, of_means, resampled
from seqcredit.reporting.headroom import WAYS
from seqcredit.reporting.results import CREDIT

MISSING, DIVERGED = "-", "†"
CLOSE = 1e-3  # BLEU that is the same, but for its rounding
FEEDING, FROM_MLE = ", input feeding", ", from MLE"  # of which the paper's tables know nothing in a name
WITHOUT = "ERAC without future entropy"

Figures = tuple[float, float, float, float]  # mean, standard deviation, min, max

# Table 1 of the paper, 9 runs each.
SETTINGS = ("MT, no input feeding", "MT, input feeding", "captioning")
PAPER: dict[str, tuple[Figures, Figures, Figures]] = {
    "MLE": ((27.01, 0.20, 26.72, 27.27), (28.06, 0.15, 27.84, 28.22), (29.54, 0.21, 29.27, 29.89)),
    "RAML": ((27.74, 0.15, 27.47, 27.93), (28.56, 0.15, 28.35, 28.80), (29.84, 0.21, 29.50, 30.17)),
    "VAML": ((28.16, 0.11, 28.00, 28.26), (28.84, 0.10, 28.62, 28.94), (29.93, 0.22, 29.51, 30.24)),
    "AC": ((28.04, 0.05, 27.97, 28.10), (29.05, 0.06, 28.95, 29.16), (30.90, 0.20, 30.49, 31.16)),
    "ERAC": ((28.30, 0.06, 28.25, 28.42), (29.31, 0.04, 29.26, 29.36), (31.44, 0.22, 31.07, 31.82)),
}
RIVALS = (("RAML", "VAML"), ("AC", "ERAC"))  # the better of each is bold
# Its ablation: smoothing -> target rate -> validation BLEU, and those without the runs that diverged.
PAPER_ABLATION = {
    0.0: {0.001: 27.91, 0.01: 26.27, 0.1: 28.88, 1.0: 27.38},
    0.001: {0.001: 29.41, 0.01: 29.26, 0.1: 29.32, 1.0: 27.44},
}
PAPER_DIVERGED = ((0.0, 0.01), (0.0, 1.0))
# Its table of future entropy: mean, standard deviation, max.
PAPER_ENTROPY = {"ERAC": (28.30, 0.06, 28.42), WITHOUT: (28.06, 0.05, 28.11), "AC": (28.04, 0.05, 28.10)}

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

    @classmethod
    def of(cls, cells: Iterable[Cell], figure: Callable[[Cell], float | None]) -> "Summary":
        found = [(cell.diverged, figure(cell)) for cell in cells]
        values = [value for lost, value in found if value is not None and not lost]
        return cls(values, sum(lost for lost, _ in found))

    @property
    def mean(self) -> float:
        return fmean(self.values) if self.values else math.nan

    def texts(self) -> list[str]:
        """n, mean, standard deviation, min, max."""
        v = self.values
        spread = _text(stdev(v)) if len(v) > 1 else MISSING
        return [str(len(v)), _text(self.mean), spread, *(_text(f(v)) if v else MISSING for f in (min, max))]

    def spread(self) -> str:
        """mean ± standard deviation, with a mark where runs were left out."""
        n, mean, deviation, *_ = self.texts()
        return mean + (f" ± {deviation}" if int(n) > 1 else "") + (DIVERGED if self.diverged else "")


def _text(value: float) -> str:
    return MISSING if math.isnan(value) else f"{value:.2f}"


def plain(cells: Sequence[Cell], baseline: str | None = None, judge: "Judge | None" = None) -> Table:
    """Recipes by seeds, with mean, spread and range, and the difference to a baseline with its significance."""
    check_alike(cells)
    check_once(cells, lambda cell: cell.name)
    groups = by_name(cells)
    base = row(groups, baseline or "MLE")
    if baseline and base is None:
        raise UserError(
            f"Of the baseline {baseline!r} there is none among the rows {', '.join(groups)}: choose one of these."
        )
    order = sorted(groups, key=lambda name: name != base)
    seeds = sorted({cell.seed for cell in cells})
    judge = judge or Judge()
    rows = []
    for name in order:
        group, summary = groups[name], Summary.of(groups[name], lambda cell: cell.bleu)
        by_seed = {cell.seed: cell for cell in group}
        change = ["", ""] if name == base or base is None else against(groups[base], group, judge)
        figures = [_one(by_seed.get(seed)) for seed in seeds]
        rows.append([label(name, groups), *figures, *summary.texts(), *change, str(summary.diverged)])
    to = f"to {label(base, groups)}" if base else "to baseline"
    header = ["recipe", *(f"seed {seed}" for seed in seeds), "n", "mean", "sd", "min", "max", to, "p", "diverged"]
    notes = [_measured(cells), *judge.notes()] if base else [_measured(cells), "No baseline is among the cells."]
    return Table(header, rows, [*notes, *_footnotes(cells, groups)])


def slim(table: Table) -> Table:
    """A plain table without what it says twice: statistics of one seed, and divergence where there is none."""
    seeds = sum(name.startswith("seed ") for name in table.header)
    dropped = {"n", "mean", "sd", "min", "max"} if seeds == 1 else set()
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
    if cell is None or cell.bleu is None:
        return MISSING
    return f"{cell.bleu:.2f}{DIVERGED if cell.diverged else ''}"


def against(base: Sequence[Cell], group: Sequence[Cell], judge: "Judge") -> list[str]:
    """The difference of two means, and its p."""
    mine, theirs = (Summary.of(cells, lambda cell: cell.bleu).mean for cells in (group, base))
    p = judge.p(base, group)
    difference = MISSING if math.isnan(mine - theirs) else f"{mine - theirs:+.2f}"
    return [difference, "" if p is None else f"{p:.3f}"]


class Judge:
    """Significance of differences: from what BLEU counts in each sentence, or as the cells have kept it."""

    def __init__(self) -> None:
        self.resampled: dict[Path, Scores | None] = {}
        self.signature = self.why = ""

    def p(self, base: Sequence[Cell], group: Sequence[Cell]) -> float | None:
        """How often chance alone makes such a difference; None if that cannot be told."""
        first, second = (sorted(counted(cells), key=lambda cell: cell.seed) for cells in (base, group))
        if not first or not second:
            return None
        before, after = ([s for cell in some if (s := self._scores(cell)) is not None] for some in (first, second))
        if len(before) < len(first) or len(after) < len(second):
            return self._kept(first, second)
        paired = [cell.seed for cell in first] == [cell.seed for cell in second]
        found = of_means(before, after, str(first[0].figures["bleu_signature"]), paired)
        self.signature = found.signature
        return found.p

    def _kept(self, base: Sequence[Cell], group: Sequence[Cell]) -> float | None:
        """With a run on either side, what `seqcredit record --against` found."""
        if len(group) == len(base) == 1:
            for other in group[0].figures.get("against", {}).values():
                if abs(other["bleu"] - (base[0].bleu or 0)) < CLOSE:
                    self.signature = other["test"]
                    return float(other["p"])
        self.why = "p is blank where a cell has no counts of its sentences beside it: record it again."
        return None

    def _scores(self, cell: Cell) -> Scores | None:
        """BLEU of a cell and of its samples, computed once."""
        if cell.path not in self.resampled:
            counts = cell.counts()
            self.resampled[cell.path] = None if counts is None else _checked(cell, resampled(counts))
        return self.resampled[cell.path]

    def notes(self) -> list[str]:
        """What p is, and why it is missing where it is."""
        test = f"p: paired bootstrap over seeds and sentences, {self.signature}."
        return [note for note in (test if self.signature else "", self.why) if note]


def _checked(cell: Cell, scores: Scores) -> Scores:
    if not abs(scores[0] - (cell.bleu or 0)) < CLOSE:
        raise UserError(
            f"The counts of {cell.path} give BLEU {scores[0]:.2f}, but the cell says {cell.bleu:.2f}: record it again."
        )
    return scores


def counted(cells: Iterable[Cell]) -> list[Cell]:
    """Those that count: finished, and not diverged."""
    return [cell for cell in cells if cell.bleu is not None and not cell.diverged]


def _measured(cells: Sequence[Cell]) -> str:
    """What the figures are."""
    known = [cell for cell in cells if cell.bleu is not None]
    if not known:
        return "No run is finished."
    first, of = known[0].figures, _of_data(known)
    return (
        f"BLEU{of}, {first.get('split', 'test')}, {first.get('sentences', 0):,} sentences, {first['bleu_signature']}."
    )


def _of_data(cells: Sequence[Cell]) -> str:
    """The data that cells are about, where they know it."""
    names = sorted({cell.figures["data"]["name"] for cell in cells if "data" in cell.figures})
    return f" of {', '.join(names)}" if names else ""


def _footnotes(cells: Sequence[Cell], groups: Mapping[str, Sequence[Cell]]) -> list[str]:
    lost = [f"{cell}, {', '.join(cell.figures['diverged'])}" for cell in cells if cell.diverged]
    notes = [f"{DIVERGED} diverged and left out: {'; '.join(lost)}."] if lost else []
    searches = {str(cell.figures["search"]) for cell in cells if "search" in cell.figures}
    if len(searches) > 1:
        notes.append("The cells were not all decoded in the same way.")
    unfinished = [str(cell) for cell in cells if cell.bleu is None]
    notes += [f"Not finished: {', '.join(unfinished)}."] if unfinished else []
    mixed = [name for name, group in groups.items() if len({cell.recipe for cell in group}) > 1]
    return notes + ([f"Cells of different recipes stand in one row: {', '.join(mixed)}."] if mixed else [])


def table1(cells: Sequence[Cell]) -> Table:
    """Table 1 of the paper: five algorithms in three settings, beside the paper's own figures."""
    halves = grouped(cells, _setting)
    rows: list[list[str]] = []
    bold, rules, notes = set(), set(), []
    for number, setting in enumerate(SETTINGS):
        mine = [cell for cell in halves.get(setting, []) if _algorithm(cell) in PAPER]
        check_alike(mine)
        check_once(mine, lambda cell, setting=setting: f"{_algorithm(cell)} ({setting})")  # type: ignore[misc]
        means: dict[str, Summary] = {}
        rules.add(len(rows))
        for name, paper in PAPER.items():
            summary = Summary.of((cell for cell in mine if _algorithm(cell) == name), lambda cell: cell.bleu)
            n, _, _, least, most = summary.texts()
            mean, deviation, *range_of = paper[number]
            theirs = [f"{mean:.2f} ± {deviation:.2f}", *(f"{value:.2f}" for value in range_of)]
            bold |= {(len(rows), 6)} if name in ("VAML", "ERAC") else set()
            means[name] = summary
            rows.append([setting, name, n, summary.spread(), least, most, *theirs])
        first = len(rows) - len(PAPER)
        bold |= {(first + [*PAPER].index(best), 3) for best in _best(means)}
        notes += [f"{setting}: {_measured(mine)}"] if mine else []
        notes += _footnotes(mine, {})
    header = ["task", "algorithm", "n", "mean", "min", "max", "paper: mean", "paper: min", "paper: max"]
    notes.append("The paper's figures are of IWSLT 2014 and MSCOCO, 9 runs each.")
    return Table(header, rows, notes, bold, rules - {0})


def _setting(cell: Cell) -> str:
    return SETTINGS[2] if cell.pictures else SETTINGS[cell.settings.actor.input_feeding]


def _algorithm(cell: Cell) -> str:
    return cell.recipe.removesuffix(FEEDING).removesuffix(FROM_MLE)


def _best(means: Mapping[str, Summary]) -> Iterable[str]:
    for pair in RIVALS:
        if all(means[name].values for name in pair):
            yield max(pair, key=lambda name: means[name].mean)


def ablation(cells: Sequence[Cell]) -> Table:
    """Smoothing by target rate: mean validation BLEU of ERAC, beside the paper's own."""
    grid = ablation_grid(cells)
    rates = sorted({*(rate for row in grid.values() for rate in row), *PAPER_ABLATION[0.0]})
    rows: list[list[str]] = []
    ours, rules = {}, set()
    for smoothing in sorted({*grid, *PAPER_ABLATION}):
        rules.add(len(rows))
        for column, rate in enumerate(rates, 2):
            summary = grid.get(smoothing, {}).get(rate)
            if summary and summary.values:
                ours[len(rows), column] = summary.mean
        found = [_grid_text(grid.get(smoothing, {}).get(rate)) for rate in rates]
        rows.append([f"{smoothing:g}", "ours", *found])
        if smoothing in PAPER_ABLATION:
            rows.append([f"{smoothing:g}", "paper", *(_paper_text(smoothing, rate) for rate in rates)])
    best = {max(ours, key=ours.__getitem__)} if len(ours) > 1 else set()
    notes = [
        "Mean validation BLEU of ERAC: a row is lambda_var (smoothing), a column beta (target_rate).",
        f"{DIVERGED} without the runs that diverged.",
    ]
    header = ["lambda_var", "of", *(f"beta {rate:g}" for rate in rates)]
    return Table(header, rows, notes, best, rules - {0})


def ablation_grid(cells: Sequence[Cell]) -> dict[float, dict[float, Summary]]:
    """Validation BLEU of ERAC's cells: smoothing -> target rate -> runs."""
    mine = [cell for cell in cells if (phase := cell.actor_critic) and phase.tau > 0 and phase.future_entropy]
    if not mine:
        raise UserError("There is no cell of ERAC among them: an ablation is made of runs that end with actor_critic.")
    check_alike(mine)
    check_settings(mine, ("smoothing", "target_rate"))
    check_once(mine, _place)
    grid: dict[float, dict[float, Summary]] = {}
    for cell in mine:
        phase = cell.actor_critic
        assert phase is not None
        same = [other for other in mine if _place(other) == _place(cell)]
        grid.setdefault(phase.smoothing, {})[phase.target_rate] = Summary.of(same, lambda cell: cell.validation)
    return grid


def _place(cell: Cell) -> str:
    phase = cell.actor_critic
    assert phase is not None
    return f"smoothing = {phase.smoothing:g}, target_rate = {phase.target_rate:g}"


def _grid_text(summary: Summary | None) -> str:
    return summary.spread() if summary else MISSING


def _paper_text(smoothing: float, rate: float) -> str:
    value = PAPER_ABLATION[smoothing].get(rate)
    mark = DIVERGED if (smoothing, rate) in PAPER_DIVERGED else ""
    return MISSING if value is None else f"{value:.2f}{mark}"


def entropy(cells: Sequence[Cell]) -> Table:
    """ERAC, ERAC without future entropy and AC, beside the paper's own figures."""
    mine = [cell for cell in cells if cell.recipe in PAPER_ENTROPY]
    check_alike(mine)
    check_once(mine, lambda cell: cell.recipe)
    rows: list[list[str]] = []
    means = {}
    for name, (mean, deviation, most) in PAPER_ENTROPY.items():
        summary = Summary.of((cell for cell in mine if cell.recipe == name), lambda cell: cell.bleu)
        if summary.values:
            means[len(rows)] = summary.mean
        n, *_, largest = summary.texts()
        rows.append([name, n, summary.spread(), largest, f"{mean:.2f} ± {deviation:.2f}", f"{most:.2f}"])
    best = {(max(means, key=means.__getitem__), 2)} if len(means) > 1 else set()
    notes = [_measured(mine), *_footnotes(mine, {}), "The paper's figures are of IWSLT 2014, 9 runs each."]
    return Table(["algorithm", "n", "mean", "max", "paper: mean", "paper: max"], rows, notes, best | {(0, 4)})


def credit(cells: Sequence[Cell]) -> Table:
    """How far a learned Q was from the exact one at its best, and the BLEU of what was trained with it."""
    check_alike(cells)
    check_once(cells, lambda cell: cell.name)
    rows = []
    for name, group in by_name(cells).items():
        least = (Summary.of(group, lambda cell, key=key: cell.least(key)).spread() for key in CREDIT)  # type: ignore[misc]
        bleu = Summary.of(group, lambda cell: cell.bleu)
        rows.append([name, str(len(bleu.values)), *least, bleu.spread()])
    notes = [_measured(cells), *_footnotes(cells, {}), "Credit error and KL: the least of all validations."]
    return Table(["way", "n", "credit error", "KL of token targets", "test BLEU"], rows, notes)


def headroom(cells: Sequence[Cell]) -> Table:
    """What actors say in several ways, of sentences that they have not seen and of some that they have."""
    check_alike(cells)
    check_once(cells, lambda cell: cell.name)
    asked = {(cell.headroom("split"), cell.headroom("samples"), cell.headroom("width")) for cell in cells}
    if len(asked) > 1 or None in next(iter(asked)):
        raise UserError(
            "The headroom of these cells was not measured, or not in the same way: give `seqcredit headroom` all of "
            "the runs, with the same --split and --samples, and record them again."
        )
    columns = [(way, False) for way in (*WAYS, "nll")] + [(way, True) for way in ("sample", "greedy", "nll")]
    groups = by_name(cells)
    rows = []
    for name, group in groups.items():
        figures = (
            Summary.of(group, lambda cell, way=way, seen=seen: cell.headroom(way, seen=seen)).spread()  # type: ignore[misc]
            for way, seen in columns
        )
        rows.append([label(name, groups), str(len(group)), *figures])
    named = {**WAYS, "nll": "nats"}
    header = [f"train: {named[way]}" if seen else named[way] for way, seen in columns]
    return Table(["recipe", "n", *header], rows, [*_asked(cells), *_footnotes(cells, {})])


def _asked(cells: Sequence[Cell]) -> list[str]:
    """What the columns of a headroom are."""
    split, sentences, samples, width, signature = map(
        cells[0].headroom, ("split", "sentences", "samples", "width", "signature")
    )
    return [
        f"BLEU{_of_data(cells)}, {split}, {sentences:,} sentences, and of as many of train, {signature}.",
        f"By its beliefs: of the {width} that beam search finds and of {-(-samples // 2)} samples, the one with the "
        f"best mean pay-off if {samples // 2} other samples are taken for the reference. By the reference: the best of "
        f"the {width}. Nats: what a token of the reference costs.",
    ]


def search(cells: Sequence[Cell]) -> Table:
    """What was tried with each recipe, and which of it validation chose; the test has no say, and no column."""
    check_alike(cells)
    check_once(cells, lambda cell: cell.name)
    rows: list[list[str]] = []
    best, rules = set(), set()
    for recipe, tried in grouped(cells, lambda cell: cell.recipe).items():
        rules.add(len(rows))
        found = {}
        for name, group in by_name(tried).items():
            summary = Summary.of(group, lambda cell: cell.validation)
            if summary.values:
                found[len(rows)] = summary.mean
            rows.append([recipe, name, summary.texts()[0], summary.spread()])
        best |= {(max(found, key=found.__getitem__), 3)} if len(found) > 1 else set()
    notes = ["Validation BLEU of the last phase at its best; bold is the best of a recipe.", *_footnotes(cells, {})]
    return Table(["recipe", "tried", "n", "validation"], rows, notes, best, rules - {0})


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
LAYOUTS: dict[str, Callable[[Sequence[Cell]], Table]] = {
    "table1": table1,
    "ablation": ablation,
    "entropy": entropy,
    "credit": credit,
    "headroom": headroom,
    "search": search,
}
