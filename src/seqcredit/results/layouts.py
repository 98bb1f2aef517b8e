"""The layouts of a table besides recipes by seeds: the paper's tables, credit errors, headroom and others."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from seqcredit.errors import UserError
from seqcredit.results.cells import Cell, check_alike, check_once, check_rows, check_settings
from seqcredit.results.headroom import OFFHAND, WAYS
from seqcredit.results.record import CREDIT, SHARES
from seqcredit.results.tables import (
    DIVERGED,
    MISSING,
    Summary,
    Table,
    better,
    by_name,
    footnotes,
    grouped,
    label,
    measured,
    metric_of,
    of_data,
)
from seqcredit.rewards.metrics import BLEU, DEFAULT, Metric, label_of
from seqcredit.types import Json

FEEDING, FROM_MLE = ", input feeding", ", from MLE"  # of which the paper's tables know nothing in a name
WITHOUT = "ERAC without future entropy"

ERRORS = dict(zip(CREDIT, ("credit error", "KL of token targets"), strict=True))
KNOWN = dict(zip(SHARES, ("explained", "first third", "middle", "last third", "agreement"), strict=True))
# Figures of a cell beside its own metric, and what a table calls them.
ASPECTS = {
    "bleu": "BLEU",
    "brevity_penalty": "brevity penalty",
    "length_ratio": "length ratio",
    "cider": "CIDEr-D",
    "rouge_l": "ROUGE-L",
    "wrong": "wrong, %",
    "distinct": "distinct, %",
}
BEFORE, AFTER = "-before", "-after"  # names of cells that belong together

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
            summary = Summary.of_scores(cell for cell in mine if _algorithm(cell) == name)
            n, _, _, least, most = summary.texts()
            mean, deviation, *range_of = paper[number]
            theirs = [f"{mean:.2f} ± {deviation:.2f}", *(f"{value:.2f}" for value in range_of)]
            bold |= {(len(rows), 6)} if name in ("VAML", "ERAC") else set()
            means[name] = summary
            rows.append([setting, name, n, summary.spread(), least, most, *theirs])
        first = len(rows) - len(PAPER)
        for pair in RIVALS:
            best = better(metric_of(mine), {name: means[name] for name in pair})
            bold |= {(first + [*PAPER].index(name), 3) for name in best}
        notes += [f"{setting}: {measured(mine)}"] if mine else []
        notes += footnotes(mine, {})
    header = ["task", "algorithm", "n", "mean", "min", "max", "paper: mean", "paper: min", "paper: max"]
    notes.append("The paper's figures are of IWSLT 2014 and MSCOCO, 9 runs each.")
    return Table(header, rows, notes, bold, rules - {0})


def _setting(cell: Cell) -> str:
    return SETTINGS[2] if cell.pictures else SETTINGS[cell.settings.actor.fed]


def _algorithm(cell: Cell) -> str:
    return cell.recipe.removesuffix(FEEDING).removesuffix(FROM_MLE)


def ablation(cells: Sequence[Cell]) -> Table:
    """Smoothing by target rate: the mean validation of ERAC, beside the paper's own."""
    grid, metric = ablation_grid(cells), judged_by(cells)
    rates = sorted({*(rate for row in grid.values() for rate in row), *PAPER_ABLATION[0.0]})
    rows: list[list[str]] = []
    ours: dict[tuple[int, int], Summary] = {}
    rules = set()
    for smoothing in sorted({*grid, *PAPER_ABLATION}):
        rules.add(len(rows))
        found = {rate: grid[smoothing][rate] for rate in rates if rate in grid.get(smoothing, {})}
        ours |= {(len(rows), rates.index(rate) + 2): summary for rate, summary in found.items()}
        texts = (found[rate].spread() if rate in found else MISSING for rate in rates)
        rows.append([f"{smoothing:g}", "ours", *texts])
        if smoothing in PAPER_ABLATION:
            rows.append([f"{smoothing:g}", "paper", *(_paper_text(smoothing, rate) for rate in rates)])
    notes = [
        f"Mean validation {metric.label} of ERAC: a row is lambda_var (smoothing), a column beta (target_rate).",
        f"{DIVERGED} without the runs that diverged.",
    ]
    header = ["lambda_var", "of", *(f"beta {rate:g}" for rate in rates)]
    return Table(header, rows, notes, better(metric, ours), rules - {0})


def judged_by(cells: Sequence[Cell]) -> Metric:
    """The metric by which the runs themselves were judged: that of their validations."""
    return next((cell.judged_by for cell in cells if cell.judged_by), BLEU)


def ablation_grid(cells: Sequence[Cell]) -> dict[float, dict[float, Summary]]:
    """Validation of ERAC's cells: smoothing -> target rate -> runs."""
    mine = [cell for cell in cells if cell.erac]
    if not mine:
        raise UserError("There is no cell of ERAC among them: an ablation is made of runs that end with actor_critic.")
    check_alike(mine)
    check_settings(mine, ("smoothing", "target_rate"))
    check_once(mine, _place)
    grid: dict[float, dict[float, Summary]] = {}
    for cell in mine:
        same = [other for other in mine if _place(other) == _place(cell)]
        summary = Summary.of(same, lambda cell: cell.validation, judged_by(mine).digits)
        grid.setdefault(cell.option("smoothing"), {})[cell.option("target_rate")] = summary
    return grid


def _place(cell: Cell) -> str:
    return f"smoothing = {cell.option('smoothing'):g}, target_rate = {cell.option('target_rate'):g}"


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
        summary = Summary.of_scores(cell for cell in mine if cell.recipe == name)
        means[len(rows)] = summary
        n, *_, largest = summary.texts()
        rows.append([name, n, summary.spread(), largest, f"{mean:.2f} ± {deviation:.2f}", f"{most:.2f}"])
    best = {(row, 2) for row in better(metric_of(mine), means)}
    notes = [measured(mine), *footnotes(mine, {}), "The paper's figures are of IWSLT 2014, 9 runs each."]
    return Table(["algorithm", "n", "mean", "max", "paper: mean", "paper: max"], rows, notes, best | {(0, 4)})


def credit(cells: Sequence[Cell]) -> Table:
    """How far a learned Q was from the exact one at its best, and how good is what was trained with it."""
    least = {said: partial(Cell.least, key=key) for key, said in ERRORS.items()}
    return _beside(cells, least, "Credit error and KL: the smallest value of all validations.")


def critics(cells: Sequence[Cell]) -> Table:
    """What critics knew before their actors moved, and how good these are in the end."""
    known = {said: partial(Cell.last, key=key) for key, said in (KNOWN | ERRORS).items() if key != "credit_kl"}
    return _beside(
        cells,
        known,
        "Explained: the share of the returns' variance that Q explains. Agreement: correlation of Q and rollouts in "
        "how they rank likely words. Both on validation data.",
    )


def aspects(cells: Sequence[Cell]) -> Table:
    """What outputs are like, besides their score: other metrics, their length, and how many differ."""
    own = metric_of(cells).name
    there = {key: said for key, said in ASPECTS.items() if key != own and any(key in cell.figures for cell in cells)}
    figures = {said: lambda cell, key=key: cell.figures.get(key) for key, said in there.items()}
    return _beside(cells, figures, "Wrong: equal to no reference. Distinct: how many different ones there are.")


def costs(cells: Sequence[Cell]) -> Table:
    """What training used, and what it made of the actor: the reward and the entropy of its samples."""
    figures: dict[str, Callable[[Cell], float | None]] = {
        "samples, thousands": lambda cell: None if (n := cell.figures.get("drawn")) is None else n / 1000,
        "CPU time, minutes": lambda cell: None if (n := cell.figures.get("cpu")) is None else n / 60,
        "reward of samples": lambda cell: cell.headroom("payoff", "sample"),
        "of the search": lambda cell: cell.headroom("payoff", "beam"),
        "entropy": lambda cell: cell.headroom("entropy"),
        "distinct, %": lambda cell: cell.figures.get("distinct"),
    }
    return _beside(
        cells,
        figures,
        "Samples and CPU time: of all phases after the start that the rows share, critics included. Rewards and "
        "entropy (nats a state of its samples): on validation data, seeds for which they were measured. Distinct: how "
        "many different outputs there are.",
    )


def _beside(cells: Sequence[Cell], figures: Mapping[str, Callable[[Cell], float | None]], said: str) -> Table:
    """Several figures of each row, and the test's at the end."""
    check_rows(cells)
    rows = []
    for name, group in by_name(cells).items():
        scores = Summary.of_scores(group)
        found = (Summary.of(group, figure).spread() for figure in figures.values())
        rows.append([name, str(len(scores.values)), *found, scores.spread()])
    header = ["way", "n", *figures, f"test {metric_of(cells).label}"]
    return Table(header, rows, [measured(cells), *footnotes(cells, {}), said])


def starts(cells: Sequence[Cell]) -> Table:
    """What models were, and what came back: of cells NAME-before and NAME-after, on data of their own."""
    groups, rows = by_name(cells), []
    for name, before in groups.items():
        after = groups.get(f"{name.removesuffix(BEFORE)}{AFTER}") if name.endswith(BEFORE) else None
        if after is None:
            continue
        check_rows([*before, *after])
        metric, first = metric_of(before), _by_seed(before)
        changes = [
            f"{score - first[seed]:+.{metric.digits}f}" for seed, score in _by_seed(after).items() if seed in first
        ]
        told = Summary.of_scores(before).spread(), Summary.of_scores(after).spread(), ", ".join(changes)
        rows.append([name.removesuffix(BEFORE), metric.label, str(len(changes)), *told])
    return Table(["start", "metric", "n", "before", "after", "change, seed by seed"], rows, footnotes(cells, {}))


def _by_seed(cells: Sequence[Cell]) -> dict[int, float]:
    """The scores of finished runs."""
    return {cell.seed: cell.score for cell in cells if cell.score is not None}


def headroom(cells: Sequence[Cell]) -> Table:
    """What actors say in several ways, of sentences that they have not seen and of some that they have."""
    check_rows(cells)
    rooms = [{"metric": DEFAULT, **(cell.room or {})} for cell in cells]
    asked = {tuple(map(room.get, ("split", "samples", "width", "metric"))) for room in rooms}
    if len(asked) > 1 or None in next(iter(asked)):
        raise UserError(
            "The headroom of these cells was not measured, or not in the same way: give `seqcredit headroom` all of "
            "the runs, with the same --split, --samples and --metric, and record them again."
        )
    metric, groups = str(rooms[0]["metric"]), by_name(cells)
    rows = []
    for name, group in groups.items():
        for figure, said in ((metric, _label(rooms[0])), ("payoff", "pay-off")):
            mine = [_mean(group, figure, way) for way in WAYS]
            seen = [_mean(group, "train", figure, way) for way in OFFHAND]
            nats = [_mean(group, *where, "nll") if figure == metric else "" for where in ((), ("train",))]
            rows.append([label(name, groups), str(len(group)), said, *mine, nats[0], *seen, nats[1]])
    header = [*WAYS.values(), "nats", *(f"train: {said}" for said in (*map(WAYS.__getitem__, OFFHAND), "nats"))]
    return Table(["recipe", "n", "of", *header], rows, [*_asked(cells), *footnotes(cells, {})])


def _label(room: Json) -> str:
    return str(room.get("metric_label", label_of(room.get("metric", DEFAULT))))


def _mean(cells: Sequence[Cell], *keys: str) -> str:
    return Summary.of(cells, lambda cell: cell.headroom(*keys)).spread()


def _asked(cells: Sequence[Cell]) -> list[str]:
    """What the columns of a headroom are."""
    room = cells[0].room or {}
    samples, width, size = room["samples"], room["width"], f"{room['sentences']:,} sentences"
    return [
        f"{_label(room)}{of_data(cells)}, {room['split']}, {size}, and of as many of train, {room['signature']}.",
        f"By its beliefs: among {-(-samples // 2)} samples and the outputs of a beam of {width}, the one that scores "
        f"best against {samples // 2} other samples. By the reference: the output of the beam that scores best "
        "against the reference. Nats: negative log-likelihood per reference token.",
    ]


def search(cells: Sequence[Cell]) -> Table:
    """What was tried with each recipe, and which of it validation chose; the test has no say, and no column."""
    check_rows(cells)
    rows: list[list[str]] = []
    metric = judged_by(cells)
    best, rules = set(), set()
    for recipe, tried in grouped(cells, lambda cell: cell.recipe).items():
        rules.add(len(rows))
        found = {}
        for name, group in by_name(tried).items():
            summary = Summary.of(group, lambda cell: cell.validation, metric.digits)
            found[len(rows)] = summary
            rows.append([recipe, name, summary.texts()[0], summary.spread()])
        best |= {(row, 3) for row in better(metric, found)}
    notes = [
        f"Validation {metric.label} of the last phase at its best; bold is the best of a recipe.",
        *footnotes(cells, {}),
    ]
    return Table(["recipe", "tried", "n", "validation"], rows, notes, best, rules - {0})


LAYOUTS: dict[str, Callable[[Sequence[Cell]], Table]] = {
    "table1": table1,
    "ablation": ablation,
    "entropy": entropy,
    "credit": credit,
    "critics": critics,
    "headroom": headroom,
    "search": search,
    "starts": starts,
    "aspects": aspects,
    "costs": costs,
}
