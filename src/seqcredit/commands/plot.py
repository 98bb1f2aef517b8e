"""`seqcredit plot`: figures of cells and runs."""

import argparse

from seqcredit.commands import shared

ABOUT = "draw a figure of runs or of recorded results, as PNG or SVG"
RESULTS = "recorded results, run folders, or folders of either"


def options(parser: argparse.ArgumentParser) -> None:
    """Which kind of figure, from what."""
    kinds = parser.add_subparsers(title="kinds", metavar="KIND", required=True, dest="kind")

    def kind(name: str, about: str) -> argparse.ArgumentParser:
        made = kinds.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        made.add_argument("--out", type=shared.wanted, required=True, metavar="FILE", help="ends in .png or .svg")
        return made

    for name, about in (
        ("tau", "test BLEU of AC and ERAC against the temperature, with its range over seeds"),
        ("ablation", "validation BLEU of ERAC by smoothing and target rate, as a heat map"),
        ("costs", "validation against samples drawn, and against CPU time"),
    ):
        kind(name, about).add_argument("cells", nargs="+", metavar="RESULTS", type=shared.given, help=RESULTS)
    drawn = kind("forest", "differences from a baseline, with confidence intervals")
    drawn.add_argument("cells", nargs="+", metavar="RESULTS", type=shared.given, help=RESULTS)
    drawn.add_argument("--baseline", metavar="NAME", help="the row that others are compared with (default: MLE)")
    drawn = kind("curves", "learning curves: what runs have logged at each update")
    shared.runs_argument(drawn)
    drawn.add_argument(
        "--only", nargs="+", default=[], metavar="KEY", help="only these curves, such as bleu reward entropy"
    )
    drawn = kind("credit", "what every token of a prediction is worth, as a heat map")
    shared.run_argument(drawn)
    drawn.add_argument("--sentence", type=shared.positive, required=True, metavar="N", help="counted from 1")
    drawn.add_argument(
        "--critic", type=shared.given, metavar="RUN", help="whose critic judges (default: the run's own)"
    )
    drawn.add_argument("--split", default="test", help="a split of the prepared data (default: test)")


def run(options: argparse.Namespace) -> int:
    """Draw it."""
    from seqcredit.experiments.history import history, labels
    from seqcredit.experiments.runs import Run
    from seqcredit.inspect.heat import credit
    from seqcredit.inspect.subjects import inspect_one
    from seqcredit.results import cells, plots

    plots.check(options.out)
    draw = {"tau": plots.tau, "ablation": plots.ablation, "costs": plots.costs}.get(options.kind)
    if draw is not None:
        draw(cells.read(options.cells), options.out)
    elif options.kind == "forest":
        plots.forest(cells.read(options.cells), options.out, options.baseline)
    elif options.kind == "curves":
        runs = [Run.open(folder) for folder in options.run_folders]
        names = labels([run.folder for run in runs])
        plots.curves({name: history(run) for name, run in zip(names, runs, strict=True)}, options.out, options.only)
    else:
        found, prepared = shared.open_run(options.run_folder)
        lender = Run.open(options.critic) if options.critic else None
        credit(inspect_one(found, prepared, options.split, options.sentence, lender), options.out)
    print(f"written to {options.out}")
    return 0
