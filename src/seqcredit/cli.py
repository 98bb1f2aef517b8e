"""The command line: finds the command, and turns every error into one sentence and a non-zero exit code."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn

from seqcredit.commands import GROUPS, Command
from seqcredit.errors import UserError, one_line

# What torch says where one of several processes has died.
LEFT_ALONE = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Timed out waiting", "NCCL error")

KERNELS = "32"  # that oneDNN keeps, one a shape: its own 1,024 are 100 MB of shapes that rarely come again


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
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", KERNELS)
    try:
        _check_command(words)
        options = parser().parse_args(words)
        code = options.run(options)
    except KeyboardInterrupt:
        print("seqcredit: interrupted.", file=sys.stderr)
        code = 130
    except BrokenPipeError:  # nobody reads our output any more
        sys.stderr.close()
        code = 0
    except Exception as error:
        code, sentence = _ended(error)
        print(f"seqcredit: {one_line(sentence)}", file=sys.stderr)
        if os.environ.get("SEQCREDIT_DEBUG"):
            import traceback

            traceback.print_exc()
    sys.exit(code)


# What ends a command.


def _ended(error: Exception) -> tuple[int, str]:
    """The exit code and the sentence of an error: 2 where the user can mend it, 70 where nobody has foreseen it."""
    if isinstance(error, UserError):
        return 2, str(error)
    if _out_of_memory(error):
        return 2, "There is not enough memory for this: make the networks, the batches or the beam smaller."
    if isinstance(error, RuntimeError) and any(sign in str(error) for sign in LEFT_ALONE):
        return 2, "Another process of this training has ended: look at what it said, then resume the run."
    if isinstance(error, UnicodeEncodeError) and error.encoding == getattr(sys.stdout, "encoding", None):
        letter = error.object[error.start]
        return 2, f"The output is {error.encoding}, which has no {letter!a}: set PYTHONIOENCODING=utf-8."
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename is not None else ""
        return 2, f"{place}{error.strerror}; look at the path, who may read and write it, and the room that is left."
    from seqcredit.named import message, own_place

    own = own_place(error)
    if own is not None:
        said = f"{own}: {type(error).__name__}: {message(error)}"
        return 2, f"{said}; this is in a file of your own; SEQCREDIT_DEBUG=1 shows the way there."
    kept = _crash(error)
    where = f"{kept} says where: please send it to the authors" if kept else "SEQCREDIT_DEBUG=1 shows where"
    return 70, f"This should not have happened ({type(error).__name__}); {where}."


def _out_of_memory(error: Exception) -> bool:
    """Of the system or of a device: torch has no class of its own for the first."""
    said = str(error)
    signs = ("can't allocate memory", "not enough memory", "out of memory", "Storage size calculation overflowed")
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(sign in said for sign in signs))


def _crash(error: Exception) -> str | None:
    """A file with the traceback, versions and the command; None where none can be written."""
    import platform
    import tempfile
    import traceback

    torch = sys.modules.get("torch")
    try:
        from seqcredit import __version__

        lines = [
            f"seqcredit {__version__}, torch {getattr(torch, '__version__', 'not loaded')}",
            f"Python {platform.python_version()}, {platform.platform()}",
            f"command: {sys.argv!r}",
            *traceback.format_exception(error),
        ]
        with tempfile.NamedTemporaryFile("w", prefix="seqcredit-crash-", suffix=".txt", delete=False) as file:
            file.write("\n".join(lines).encode(errors="backslashreplace").decode())
    except Exception:
        return None
    return file.name
