"""`seqcredit compare`: the difference of two runs, with a significance test."""

import argparse

from seqcredit.commands import shared

ABOUT = "compare two runs on the same data, with a significance test"


def options(parser: argparse.ArgumentParser) -> None:
    """Two runs and a split."""
    parser.add_argument("baseline", metavar="BASELINE", type=shared.given, help="a run folder")
    parser.add_argument("system", metavar="RUN", type=shared.given, help="the run folder to compare with it")
    parser.add_argument("--split", default="test", help="a split that both have been evaluated on (default: test)")
    about = "how many of the largest gains, and of the largest losses, to print (default: 3)"
    parser.add_argument("--show", type=shared.natural, default=3, metavar="N", help=about)
    shared.metric_option(parser)


def run(options: argparse.Namespace) -> int:
    """The metric of both, the paired bootstrap, and the sentences that differ most."""
    from seqcredit.experiments.runs import Run
    from seqcredit.results.compare import compare

    runs = Run.open(options.baseline), Run.open(options.system)
    for line in compare(*runs, options.split, options.show, options.metric):
        print(line)
    return 0
