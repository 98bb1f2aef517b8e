"""`seqcredit table`: cells as a table."""

import argparse
import sys

from seqcredit.commands import shared
from seqcredit.errors import UserError

ABOUT = "print a table of results: recipes by seeds, or as in the paper"


def options(parser: argparse.ArgumentParser) -> None:
    """Which cells, in which layout and format."""
    about = "recorded results, run folders, or folders of either"
    parser.add_argument("cells", nargs="+", metavar="RESULTS", type=shared.given, help=about)
    parser.add_argument("--baseline", metavar="NAME", help="the row that others are compared with (default: MLE)")
    parser.add_argument("--format", choices=("markdown", "latex", "csv"), default="markdown", help="default: markdown")
    paper = "a table of the paper (table1, ablation, entropy)"
    about = f"plain (default), {paper}, or another that docs/figures.md describes"
    others = ("credit", "critics", "headroom", "search", "starts", "aspects", "costs")
    layouts = ("plain", "table1", "ablation", "entropy", *others)
    parser.add_argument("--layout", choices=layouts, default="plain", help=about)
    shared.metric_option(parser, "show this metric; every cell must have recorded it")


def run(options: argparse.Namespace) -> int:
    """Print it; notes of a CSV go to stderr."""
    from seqcredit.results import cells, layouts, tables

    found = cells.read(options.cells, options.metric)
    plain = options.layout == "plain"
    if options.baseline and not plain:
        raise UserError("--baseline is for --layout plain. See 'seqcredit table --help'.")
    made = tables.plain(found, options.baseline) if plain else layouts.LAYOUTS[options.layout](found)
    print(tables.FORMATS[options.format](made), end="")
    if options.format == "csv":
        for note in made.notes:
            print(note, file=sys.stderr)
    return 0
