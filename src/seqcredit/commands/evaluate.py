"""`seqcredit evaluate`: the figures of a run on a split, or on two text files."""

import argparse
import sys
from pathlib import Path

from seqcredit.commands import shared

ABOUT = "decode a split with a trained run and score it"


def options(parser: argparse.ArgumentParser) -> None:
    """Which run, on what, and how it searches."""
    parser.add_argument("run_folder", metavar="RUN", type=Path)
    parser.add_argument("--split", default="test", help="a split of the prepared data (default: test)")
    about = "two text files instead"
    parser.add_argument("--raw", nargs=2, type=Path, metavar=("SOURCE", "REFERENCE"), help=about)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    shared.metric_option(parser)
    shared.search_options(parser)


def run(options: argparse.Namespace) -> int:
    """Decode, score, keep the hypotheses of a split, and print."""
    import json

    from seqcredit.results import evaluate

    shared.use_device(options)
    found, prepared = shared.open_run(options.run_folder)
    search, metric, written = (
        shared.search_of(found, options),
        evaluate.metric_of(found, prepared, options.metric),
        None,
    )
    how = (search, options.device, options.phase, metric)
    if options.raw:
        source, reference = options.raw
        figures = evaluate.evaluate_raw(found, prepared, source, reference, *how)
    else:
        figures, hypotheses = evaluate.evaluate(found, prepared, prepared.split(options.split), *how)
        written = evaluate.keep(found, options.split, figures, hypotheses, search, options.phase)
    if options.json:
        print(json.dumps(figures, indent=1))
    else:
        for key, value in figures.items():
            print(f"{key:22} {value}")
    if written:
        print(f"written to {written}, with its hypotheses", file=sys.stderr if options.json else sys.stdout)
    return 0
