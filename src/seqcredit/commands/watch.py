"""`seqcredit watch`: until all runs are done, or Ctrl-C."""

import argparse
import contextlib
import time

from seqcredit.commands import shared

ABOUT = "show learning curves of runs in progress"


def options(parser: argparse.ArgumentParser) -> None:
    """Which runs, and how often."""
    shared.runs_argument(parser)
    parser.add_argument("--once", action="store_true", help="print them once and exit")
    parser.add_argument(
        "--every", type=shared.seconds, default=5.0, metavar="SECONDS", help="seconds between refreshes (default: 5)"
    )
    parser.add_argument("--html", type=shared.wanted, metavar="FILE", help="also write a web page that reloads itself")


def run(options: argparse.Namespace) -> int:
    """Look, show, wait."""
    from rich.console import Console
    from rich.live import Live

    from seqcredit.inspect import watch

    def look() -> list[watch.Watched]:
        found = watch.states(options.run_folders)
        if options.html:
            watch.write_page(options.html, found, options.every)
        return found

    console, found = Console(highlight=False), look()
    if options.once or all(state.done for state in found):
        console.print(watch.screen(found, console.width))
        return 0
    shown = watch.screen(found, console.width)
    with contextlib.suppress(KeyboardInterrupt), Live(shown, console=console, auto_refresh=False) as live:
        while not all(state.done for state in found):
            time.sleep(options.every)
            found = look()
            live.update(watch.screen(found, console.width), refresh=True)
    return 0
