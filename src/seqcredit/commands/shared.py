"""What several commands share: numbers checked as they are read, options, devices, runs with data, a live line."""

import argparse
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from seqcredit.errors import UserError

if TYPE_CHECKING:
    import torch

    from seqcredit.data.prepared import Prepared
    from seqcredit.experiments.runs import Run
    from seqcredit.inspect.examiners import Examiner
    from seqcredit.training.decoding import Search

Say = Callable[[str], None]
THREADS = 1_024  # more than that torch cannot start on most machines
WIDTH = 10_000  # of a beam

# Numbers, for `type=` of an option: what is out of range gets one sentence.


def positive(text: str) -> int:
    """1, 2, 3 and so on."""
    return _whole(text, 1, 2**31 - 1, "a whole number above 0")


def natural(text: str) -> int:
    """0, 1, 2 and so on."""
    return _whole(text, 0, 2**31 - 1, "a whole number, 0 or more")


def threads(text: str) -> int:
    """As many as a machine may have."""
    return _whole(text, 1, THREADS, f"a whole number from 1 to {THREADS:,}")


def width(text: str) -> int:
    """As many hypotheses as fit into memory."""
    return _whole(text, 1, WIDTH, f"a whole number from 1 to {WIDTH:,}")


def port(text: str) -> int:
    """Where a server listens; 0 is any that is free."""
    return _whole(text, 0, 65_535, "a port, from 0 to 65535")


def minutes(text: str) -> float:
    """0 or more; `inf` is never."""
    return _real(text, lambda number: number >= 0, "a number, 0 or more")


def seconds(text: str) -> float:
    """Above 0, and finite."""
    return _real(text, lambda number: 0 < number < float("inf"), "a number of seconds above 0")


def penalty(text: str) -> float:
    """An exponent of a length, small enough that no length overflows."""
    return _real(text, lambda number: abs(number) <= 10, "a number from -10 to 10")


def _whole(text: str, least: int, most: int, said: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not {said}")
    return number


def _real(text: str, holds: Callable[[float], bool], said: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not holds(number):  # nan never does
        raise argparse.ArgumentTypeError(f"{text!r} is not {said}")
    return number


# Options.


def device_option(parser: argparse.ArgumentParser) -> None:
    """Where tensors are; `use_device` looks whether it is there."""
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1, mps")


def threads_option(parser: argparse.ArgumentParser) -> None:
    """How many threads; `use_threads` takes them."""
    parser.add_argument("--threads", type=threads, metavar="N", help="threads of the CPU")


def backbone_option(parser: argparse.ArgumentParser) -> None:
    """What turns pictures into features."""
    about = "what the features of training came from"
    parser.add_argument("--backbone", default="efficientnet-lite2", metavar="NAME", help=about)


def machine_options(parser: argparse.ArgumentParser) -> None:
    """Of training: where, and what is said and kept on the way."""
    device_option(parser)
    threads_option(parser)
    about = "updates between lines (default: 100)"
    parser.add_argument("--log-every", type=positive, default=100, metavar="N", help=about)
    parser.add_argument("--checkpoint-minutes", type=minutes, default=5.0, metavar="M", help="default: 5")
    about = "write the log for TensorBoard too, in the run folder"
    parser.add_argument("--tensorboard", action="store_true", help=about)


def metric_option(parser: argparse.ArgumentParser, about: str = "what to judge by") -> None:
    """A metric by its name."""
    names = "bleu, chrf, rouge-l, cider, edit, wrong, exact, reward, or FILE:FUNCTION"
    parser.add_argument("--metric", metavar="NAME", help=f"{about}: {names} (default: the recipe's)")


def search_options(parser: argparse.ArgumentParser) -> None:
    """How to decode, and with which weights."""
    parser.add_argument("--beam", type=width, metavar="N", help="beam width (default: the recipe's)")
    about = "rank by logp / length^X (default: 0)"
    parser.add_argument("--length-penalty", type=penalty, default=0.0, metavar="X", help=about)
    about = "unknown words become the attended source word"
    parser.add_argument("--replace-unknown", action="store_true", help=about)
    parser.add_argument("--phase", help="weights of this phase (default: the last one)")
    device_option(parser)


def judge_options(parser: argparse.ArgumentParser) -> None:
    """Whose critic, and where."""
    about = "lends its critic to runs without one, such as MLE"
    parser.add_argument("--critic", type=Path, metavar="RUN", help=about)
    device_option(parser)
    threads_option(parser)


# What they mean.


def use_device(options: argparse.Namespace) -> "torch.device":
    """The device of `--device`, on which a tensor has been made and read; a command asks before it writes anything."""
    import torch

    try:
        found = torch.device(options.device)
        torch.zeros(1, device=found).cpu()
    except Exception:  # every backend has its own
        there = ["cpu", *(["cuda"] * torch.cuda.is_available()), *(["mps"] * torch.backends.mps.is_available())]
        raise UserError(
            f"--device {options.device}: torch finds no such device here; give {' or '.join(there)}."
        ) from None
    return found


def use_threads(options: argparse.Namespace) -> None:
    """As many threads as were asked for, or as torch would take."""
    import torch

    if options.threads is not None:
        torch.set_num_threads(options.threads)


def search_of(run: "Run", options: argparse.Namespace, least: int = 1) -> "Search":
    """The recipe's search as the options change it, for so many results at least."""
    from seqcredit.training.decoding import Search

    width = max(options.beam or run.recipe.beam, least)
    return Search(width, run.recipe.longest_output + 1, options.length_penalty, options.replace_unknown)


def open_run(folder: Path) -> "tuple[Run, Prepared]":
    """A run, and its data."""
    from seqcredit.experiments.runs import Run

    run = Run.open(folder)
    return run, data_of(run)


def data_of(run: "Run") -> "Prepared":
    """The data of a run, whose vocabularies are still those that it was trained with."""
    from seqcredit.experiments.start import open_data

    return open_data(run.data, run.about["vocabularies"])


def open_judges(options: argparse.Namespace) -> "tuple[list[Run], Prepared, list[Examiner]]":
    """Runs that are looked at together, their data, and their networks."""
    from seqcredit.experiments.runs import Run
    from seqcredit.inspect.examiners import load_examiners

    use_device(options)
    use_threads(options)
    runs = [Run.open(folder) for folder in options.run_folders]
    lender = Run.open(options.critic) if options.critic else None
    prepared = data_of(runs[0])
    return runs, prepared, load_examiners(runs, prepared, lender, options.device)


@contextlib.contextmanager
def display(writes: bool = True) -> Iterator[tuple[Say, Say | None]]:
    """Where lines that stay go, and, on a terminal, where the live one goes."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    if not writes:
        yield (lambda _: None), None
    elif not console.is_terminal:
        yield (lambda line: print(line, flush=True)), None
    else:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            yield (
                lambda line: console.print(line, markup=False, soft_wrap=True),
                lambda line: live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True),
            )
