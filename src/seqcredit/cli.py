"""The command line: finds the command, and makes of every error one sentence on stderr and a non-zero exit code."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn

from seqcredit.commands import GROUPS, Command
from seqcredit.errors import UserError


class Parser(argparse.ArgumentParser):
    """An argument parser that says what is wrong in one sentence."""

    def error(self, message: str) -> NoReturn:
        """Whatever argparse complains of."""
        raise UserError(f"{message.rstrip('.')}. See '{self.prog} --help'.")


class Version(argparse.Action):
    """Prints the version, which is read only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print it and leave."""
        from seqcredit import __version__

        print(f"seqcredit {__version__}")
        parser.exit()


def parser() -> Parser:
    """All commands and their options."""
    about = "\n".join(["Train sequence models with token-level credit.", *_listing()])
    shape, usage = argparse.RawDescriptionHelpFormatter, "seqcredit [-h] [--version] COMMAND ..."
    top = Parser(prog="seqcredit", usage=usage, description=about, formatter_class=shape)
    top.add_argument("--version", action=Version, nargs=0, default=argparse.SUPPRESS, help="show the version and exit")
    added = top.add_subparsers(prog="seqcredit", metavar="COMMAND", required=True, help=argparse.SUPPRESS)
    for name, command in _named().items():
        made = added.add_parser(name, description=f"{command.ABOUT[0].upper()}{command.ABOUT[1:]}.")
        made.set_defaults(run=command.run)
        command.options(made)
    return top


def _named() -> dict[str, Command]:
    """Every command by the name of its file."""
    return {_name(command): command for group in GROUPS.values() for command in group}


def _name(command: Command) -> str:
    return command.__name__.rpartition(".")[2]


def _listing() -> Iterator[str]:
    """The commands in their groups, a line each."""
    width = max(map(len, _named()))
    for title, group in GROUPS.items():
        yield f"\n{title}:"
        for command in group:
            yield f"  {_name(command):{width}}  {command.ABOUT}"


def _check_command(words: Sequence[str]) -> None:
    """The first word that is no option is a command; if it is none, the nearest is named."""
    word = next((word for word in words if not word.startswith("-")), None)
    if word is not None and word not in _named():
        import difflib

        near = difflib.get_close_matches(word, _named(), 1)
        nearest = f"; the nearest is {near[0]!r}" if near else ""
        raise UserError(f"There is no command {word!r}{nearest}. See 'seqcredit --help'.")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        _check_command(words)
        options = parser().parse_args(words)
        code = options.run(options)
    except UserError as error:
        print(f"seqcredit: {error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("seqcredit: interrupted.", file=sys.stderr)
        code = 130
    except BrokenPipeError:  # nobody reads our output any more
        sys.stderr.close()
        code = 0
    sys.exit(code)
