"""`seqcredit sheet`: images and their captions, to look at."""

import argparse
from pathlib import Path

from seqcredit.commands import shared

ABOUT = "show images and their captions, by people and runs, in one PNG"


def options(parser: argparse.ArgumentParser) -> None:
    """Which runs, which images, and where to."""
    shared.runs_argument(parser)
    parser.add_argument("--images", type=shared.given, required=True, metavar="FOLDER", help="where the images are")
    parser.add_argument(
        "--out", type=shared.wanted, default=Path("sheet.png"), metavar="FILE", help="default: sheet.png"
    )
    shared.split_option(parser)
    shared.count_option(parser, "--count", 12)


def run(options: argparse.Namespace) -> int:
    """Draw it."""
    from seqcredit.experiments.runs import Run
    from seqcredit.inspect.sheet import sheet

    runs = [Run.open(folder) for folder in options.run_folders]
    count = sheet(runs, shared.data_of(runs[0]), options.split, options.images, options.count, options.out)
    print(f"{count} images, written to {options.out}")
    return 0
