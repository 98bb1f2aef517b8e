"""`seqcredit report`: RESULTS.md, the pages that it leads to, and their figures."""

import argparse
import sys
from pathlib import Path

from seqcredit.commands import shared

ABOUT = "write RESULTS.md and its pages from recorded results"


def options(parser: argparse.ArgumentParser) -> None:
    """From which file, to which, or only a look."""
    default = Path("results/report.toml")
    parser.add_argument("file", nargs="?", type=shared.given, default=default, help="default: results/report.toml")
    parser.add_argument(
        "--out", type=shared.wanted, default=Path("RESULTS.md"), metavar="FILE", help="default: RESULTS.md"
    )
    about = "write nothing; exit with 1 if a page or a figure is out of date"
    parser.add_argument("--check", action="store_true", help=about)


def run(options: argparse.Namespace) -> int:
    """With --check 0 if everything is as it would be written, 1 otherwise."""
    from seqcredit.results.report import make

    made = make(options.file, options.out)
    if not options.check:
        made.write()
        beside = f", {len(made.pages)} pages and {len(made.figures)} figures" if made.figures or made.pages else ""
        print(f"written to {options.out}{beside}")
        return 0
    stale = made.stale()
    if stale:
        listed, verb = ", ".join(map(str, stale)), "is" if len(stale) == 1 else "are"
        print(f"seqcredit: {listed} {verb} not what {options.file} gives: run `seqcredit report`.", file=sys.stderr)
    return 1 if stale else 0
