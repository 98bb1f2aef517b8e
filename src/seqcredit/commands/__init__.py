"""One file a command: its help, its options and what it does. torch and the like are imported where they are used."""

import argparse
from typing import Protocol, runtime_checkable

from seqcredit.commands import (
    bench,
    caption,
    compare,
    demo,
    evaluate,
    export,
    features,
    headroom,
    inspect,
    plot,
    prepare,
    recipes,
    record,
    report,
    resume,
    serve,
    sheet,
    sweep,
    table,
    train,
    translate,
    tune,
    verify,
    watch,
)


@runtime_checkable
class Command(Protocol):
    """What a file of this folder has; the command is called as the file is."""

    __name__: str
    ABOUT: str  # in one line, for `seqcredit --help`

    def options(self, parser: argparse.ArgumentParser) -> None:
        """Add its options."""

    def run(self, options: argparse.Namespace) -> int:
        """Do it; the exit code."""


# In the order of `seqcredit --help`.
GROUPS: dict[str, tuple[Command, ...]] = {
    "data": (prepare, features),
    "train": (train, tune, resume, sweep, demo, recipes),
    "use": (translate, caption, export),
    "judge": (evaluate, compare, headroom, record, table, plot, report, sheet),
    "look": (inspect, serve, watch),
    "check": (verify, bench),
}
