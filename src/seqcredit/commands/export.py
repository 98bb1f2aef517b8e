"""`seqcredit export`: a run without its data and its past."""

import argparse
from pathlib import Path

from seqcredit.commands import shared

ABOUT = "write one folder that can translate elsewhere"


def options(parser: argparse.ArgumentParser) -> None:
    """Which run, and where to."""
    parser.add_argument("run_folder", metavar="RUN", type=Path)
    parser.add_argument("out", metavar="OUT", type=Path, help="the folder to make")
    parser.add_argument("--phase", help="weights of this phase (default: the last one)")


def run(options: argparse.Namespace) -> int:
    """Write it, and say how it is used."""
    from seqcredit.results.export import export

    export(*shared.open_run(options.run_folder), options.out, options.phase)
    print(f"written to {options.out}; try `seqcredit translate {options.out}`")
    return 0
