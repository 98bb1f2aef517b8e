"""The command line. Every error is one sentence on stderr and a non-zero exit code."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import NoReturn

from seqcredit import __version__
from seqcredit.errors import UserError


class Parser(argparse.ArgumentParser):
    """An argument parser that says what is wrong in one sentence."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message.rstrip('.')}. See '{self.prog} --help'.")


def parser() -> Parser:
    """All commands and their options."""
    top = Parser(prog="seqcredit", description="Train sequence models with token-level credit.")
    top.add_argument("--version", action="version", version=f"seqcredit {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)

    about = "check each proposition and equality of the paper on whole spaces of sequences"
    command = commands.add_parser("verify", help=about, description=f"{about.capitalize()}. Exit code 1 if one fails.")
    command.add_argument("--json", action="store_true", help="print every cell as JSON instead of the table")
    command.set_defaults(run=verify)
    return top


def verify(options: argparse.Namespace) -> int:
    """`seqcredit verify`: 0 if every claim holds to 1e-9 in float64, 1 otherwise."""
    import torch
    from rich.console import Console
    from rich.progress import track

    from seqcredit.reporting import verify as report

    torch.set_num_threads(1)  # thousands of small tensors: threads only wait for each other
    progress = Console(stderr=True)
    cells = track(report.cells(), "checking", report.COUNT, console=progress, transient=True)
    results = list(cells if progress.is_terminal else report.cells())
    if options.json:
        print(json.dumps([cell._asdict() for cell in results], indent=1))
    else:
        console = Console()
        console.print(report.summary(results))
        console.print(report.scope(results), highlight=False)
    return 0 if all(cell.passed for cell in results) else 1


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code."""
    try:
        options = parser().parse_args(arguments)
        code = options.run(options)
    except UserError as error:
        print(f"seqcredit: {error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("seqcredit: interrupted.", file=sys.stderr)
        code = 130
    sys.exit(code)
