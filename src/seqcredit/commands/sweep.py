"""`seqcredit sweep`: many runs from one file."""

import argparse
import os
from pathlib import Path

from seqcredit.commands import shared

ABOUT = "train and record every missing run of a file of recipes and seeds"


def options(parser: argparse.ArgumentParser) -> None:
    """The file, how much at once, and which of its cells."""
    parser.add_argument("file", metavar="FILE", type=shared.given, help="a TOML file, see `sweeps/`")
    parser.add_argument(
        "--jobs", type=shared.positive, metavar="N", help="runs at the same time (default: one per core)"
    )
    parser.add_argument(
        "--threads", type=shared.threads, default=1, metavar="N", help="CPU threads per run (default: 1)"
    )
    shared.device_option(parser)
    parser.add_argument(
        "--data-root",
        type=shared.given,
        default=Path(),
        metavar="FOLDER",
        help="the folder that holds the data folder (default: here)",
    )
    about = "put the folders of runs and results into this folder (default: here)"
    parser.add_argument("--into", type=shared.wanted, default=Path(), metavar="FOLDER", help=about)
    about = "only these cells and those that they start from: `erac` or `erac-2`"
    parser.add_argument("--only", nargs="+", default=[], metavar="CELL", help=about)
    about = "change a key in all cells, such as phase.*.epochs=1; may be given several times"
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=about)
    shared.metric_option(parser, "show this metric in the grid; every cell must have recorded it")
    about = "print what would be run and how long it would take, and stop"
    parser.add_argument("--dry-run", action="store_true", help=about)


def run(options: argparse.Namespace) -> int:
    """0 if every cell is done, 1 if one has failed."""
    from seqcredit.experiments.plan import read
    from seqcredit.experiments.progress import outline
    from seqcredit.experiments.sweep import Machine, Sweep

    shared.use_device(options)
    jobs = options.jobs or max(1, (os.cpu_count() or 1) // options.threads)
    plan = read(options.file, options.data_root, options.into, options.only, options.set)
    machine = Machine(jobs, options.threads, options.device)
    for note in plan.notes():
        print(note, flush=True)
    if options.dry_run:
        print("\n".join(outline(plan, jobs)))
        return 0
    with shared.display(stays=True) as (say, show):
        return Sweep(plan, machine, say, show, options.metric).run()
