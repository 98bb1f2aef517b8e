"""`seqcredit evaluate`: the scores of a run on a split, or on two text files."""

import argparse
import sys

from seqcredit.commands import shared
from seqcredit.errors import UserError

ABOUT = "decode a data split with a trained run, and score it"


def options(parser: argparse.ArgumentParser) -> None:
    """Which run, on what, and how it searches."""
    shared.run_argument(parser)
    shared.split_option(parser)
    parser.add_argument(
        "--raw", nargs=2, type=shared.given, metavar=("SOURCE", "REFERENCE"), help="two text files, instead of a split"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    shared.metric_option(parser)
    shared.search_options(parser)


def run(options: argparse.Namespace) -> int:
    """Decode, score, keep the hypotheses of a split, and print."""
    import json

    from seqcredit.experiments.build import load_actor
    from seqcredit.results import evaluate

    device, written = shared.use_device(options), None
    found, prepared = shared.open_run(options.run_folder)
    search, metric = shared.search_of(found, options), evaluate.metric_of(found, prepared, options.metric)
    if options.raw and prepared.pictures:
        raise UserError(f"{found.folder} describes pictures: evaluate it on a split of its data.")
    split = None if options.raw else prepared.split(options.split)
    actor = load_actor(found, prepared, device, options.phase)
    search = shared.guided(search, options, prepared)
    if search.guide is not None and options.guide_weight is None:
        search = evaluate.best_guided(actor, prepared, search, metric, device)
    if split is None:
        figures = evaluate.measured_raw(actor, prepared, options.raw, search, metric, device)
    else:
        figures, hypotheses = evaluate.measured(actor, prepared, split, search, metric, device)
        known = {**figures, "data": prepared.about()}
        written = evaluate.keep(found, options.split, known, hypotheses, search, options.phase)
    if options.json:
        print(json.dumps(figures, indent=1))
    else:
        for key, value in figures.items():
            print(f"{key:22} {value}")
    if written:
        print(f"written to {written}, with its hypotheses", file=sys.stderr if options.json else sys.stdout)
    return 0
