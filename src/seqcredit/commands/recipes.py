"""`seqcredit recipes`: the built-in recipes."""

import argparse

ABOUT = "list the built-in recipes, or show one"


def options(parser: argparse.ArgumentParser) -> None:
    """One of them, or none."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="such as iwslt14/erac")


def run(options: argparse.Namespace) -> int:
    """Print the list, or the file."""
    from seqcredit.experiments import catalogue

    if options.name:
        print(catalogue.show(options.name), end="")
    else:
        for name, about in catalogue.listing():
            print(f"{name:42} {about}")
    return 0
