"""`seqcredit bench`: what a step of every algorithm costs."""

import argparse
import os
import sys

from seqcredit.commands import shared

ABOUT = "time a step of each algorithm on made-up data (about 10 minutes)"


def options(parser: argparse.ArgumentParser) -> None:
    """How often, and what is measured."""
    shared.count_option(parser, "--rounds", 7)
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    parser.add_argument(
        "--profile", type=shared.wanted, metavar="FILE", help="write a trace of one ERAC step, and nothing else"
    )
    parser.add_argument(
        "--growth", type=shared.wanted, metavar="FILE", help="plot how the cost grows (.png or .svg), and nothing else"
    )
    shared.threads_option(parser)


def run(options: argparse.Namespace) -> int:
    """Measure, and print."""
    import json

    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # torch's profiler announces itself otherwise
    from rich.console import Console

    from seqcredit.inspect import bench
    from seqcredit.results import plots

    shared.use_threads(options)
    if options.profile:
        bench.profile(options.profile)
        print(f"written to {options.profile}; open it in chrome://tracing or ui.perfetto.dev")
        return 0
    if options.growth:
        plots.check(options.growth)
        grown = bench.growth(options.rounds, _say)
        plots.growth(grown, bench.AXES, options.growth)
        print(json.dumps({"axes": bench.AXES, "milliseconds": grown}, indent=1))
        return 0
    found = bench.bench(options.rounds, _say)
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
        for shown in bench.tables(found):
            console.print(shown)
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
