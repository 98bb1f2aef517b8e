"""`seqcredit translate`: reads, translates and prints a line at a time."""

import argparse
import sys

from seqcredit.commands import shared
from seqcredit.errors import require

ABOUT = "translate lines of text from a file or from standard input"


def options(parser: argparse.ArgumentParser) -> None:
    """By which run, which text, and how."""
    shared.run_argument(parser)
    parser.add_argument(
        "file", nargs="?", default="-", type=shared.given, help="one sentence a line; - is standard input (default)"
    )
    about = "print the N best translations, with the line number of the source"
    parser.add_argument("--n-best", type=shared.width, default=1, metavar="N", help=about)
    parser.add_argument("--scores", action="store_true", help="print the log-probability before each")
    shared.search_options(parser)


def run(options: argparse.Namespace) -> int:
    """A line for each line, or n of them."""
    from seqcredit.data.text import lines
    from seqcredit.experiments.build import load_actor
    from seqcredit.training.decoding import n_best

    device = shared.use_device(options)
    found, prepared = shared.open_run(options.run_folder)
    actor = load_actor(found, prepared, device, options.phase)
    search = shared.weighed(shared.guided(shared.search_of(found, options, options.n_best), options, prepared), options)
    require(not prepared.pictures, f"{found.folder} describes pictures: use `seqcredit caption`.")
    for number, line in enumerate(sys.stdin if str(options.file) == "-" else lines(options.file), 1):
        for words, logp in n_best(actor, prepared, line.rstrip("\r\n"), search, options.n_best, device):
            fields = [str(number)] if options.n_best > 1 else []
            fields += [f"{logp:.4f}"] if options.scores else []
            print("\t".join([*fields, prepared.sentence(words)]), flush=True)
    return 0
