"""`seqcredit record`: a cell of `results/` from a finished run."""

import argparse

from seqcredit.commands import headroom, shared

ABOUT = "keep the results of a finished run, with its command, in one file"


def options(parser: argparse.ArgumentParser) -> None:
    """Which run, which file, and what it is compared with."""
    shared.run_argument(parser)
    about = "the JSON to write, such as results/tatoeba-seeds/erac-1.json"
    parser.add_argument("cell", metavar="FILE", type=shared.wanted, help=about)
    about = "runs to compare it with, by paired bootstrap"
    parser.add_argument("--against", nargs="+", default=[], type=shared.given, metavar="RUN", help=about)
    about = "also measure its `seqcredit headroom` with N samples, on validation data"
    parser.add_argument("--headroom", type=shared.positive, metavar="N", help=about)
    shared.device_option(parser)
    shared.threads_option(parser)


def run(options: argparse.Namespace) -> int:
    """Measure what was asked for, and write."""
    from seqcredit.experiments.runs import Run
    from seqcredit.results.record import record

    found, prepared = shared.open_run(options.run_folder)
    if options.headroom is not None:
        headroom.measure(found, prepared, "valid", options.headroom, options)
    record(found, prepared, options.cell, [Run.open(folder) for folder in options.against])
    print(f"written to {options.cell}, with the hypotheses and their counts beside it")
    return 0
