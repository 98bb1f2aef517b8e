"""What several commands share: checked numbers, options, devices, runs with data, a status line."""

import argparse
import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from seqcredit.errors import require

if TYPE_CHECKING:
    import torch
    from rich.console import RenderableType

    from seqcredit.data.prepared import Prepared
    from seqcredit.experiments.runs import Run
    from seqcredit.inspect.examiners import Examiner
    from seqcredit.training.decoding import Search

    Show = Callable[[RenderableType], None]

Say = Callable[[str], None]
THREADS = 1_024  # more than that torch cannot start on most machines
WIDTH = 10_000  # of a beam

# Numbers, for `type=` of an option: what is out of range gets one sentence.

N = TypeVar("N", int, float)


def _number(kind: Callable[[str], N], holds: Callable[[N], bool], said: str) -> Callable[[str], N]:
    """Reads numbers of a kind and a range, which nan is never in."""

    def read(text: str) -> N:
        try:
            number = kind(text)
        except ValueError:
            number = None
        if number is None or not holds(number):
            raise argparse.ArgumentTypeError(f"{text!r} is not {said}")
        return number

    return read


positive = _number(int, lambda n: 1 <= n < 2**31, "a whole number above 0")
natural = _number(int, lambda n: 0 <= n < 2**31, "a whole number, 0 or more")
threads = _number(int, lambda n: 1 <= n <= THREADS, f"a whole number from 1 to {THREADS:,}")
width = _number(int, lambda n: 1 <= n <= WIDTH, f"a whole number from 1 to {WIDTH:,}")
port = _number(int, lambda n: 0 <= n <= 65_535, "a port, from 0 to 65535")  # 0 is any that is free
minutes = _number(float, lambda x: x >= 0, "a number, 0 or more")  # `inf` is never
seconds = _number(float, lambda x: 0 < x < float("inf"), "a number of seconds above 0")
penalty = _number(float, lambda x: abs(x) <= 10, "a number from -10 to 10")  # no length overflows by it
seed = _number(int, lambda n: 0 <= n < 2**63, "a seed, from 0 up to, but without, 2 ** 63")

# Paths, likewise: what may not be read or written is known before anything is.


def given(text: str) -> Path:
    """What is read: if it is there, it may be. Who reads it says what it should be."""
    path, about = Path(text), _about(text)
    if about is not None and not os.access(path, os.R_OK | (os.X_OK if stat.S_ISDIR(about.st_mode) else 0)):
        raise argparse.ArgumentTypeError(f"{text!r} may not be read: ask its owner")
    return path


def wanted(text: str) -> Path:
    """What is written: there is a folder for it, in which one may write."""
    path = Path(text)
    there = next((each for each in (path, *path.absolute().parents) if _about(str(each)) is not None), path)
    folder = there.parent if there == path and not there.is_dir() else there
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} cannot be made: {folder} is not a folder")
    if not os.access(folder, os.W_OK | os.X_OK) or not text:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be made: {folder} may not be written into")
    return path


def _about(text: str) -> os.stat_result | None:
    """What the system says of a path; None if there is nothing."""
    try:
        return os.stat(text)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no path: {getattr(error, 'strerror', None) or error}") from None


# Options.


def run_argument(parser: argparse.ArgumentParser) -> None:
    """One run."""
    parser.add_argument("run_folder", metavar="RUN", type=given, help="a run folder")


def runs_argument(parser: argparse.ArgumentParser) -> None:
    """One run or several."""
    parser.add_argument("run_folders", nargs="+", metavar="RUN", type=given, help="run folders")


def device_option(parser: argparse.ArgumentParser) -> None:
    """Where tensors are; `use_device` looks whether it is there."""
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1 or mps")


def threads_option(parser: argparse.ArgumentParser) -> None:
    """How many threads; `use_threads` takes them."""
    about = "CPU threads (default: 1 for small networks; torch decides for others)"
    parser.add_argument("--threads", type=threads, metavar="N", help=about)


def backbone_option(
    parser: argparse.ArgumentParser,
    about: str = "the backbone that made the training features (default: efficientnet-lite2)",
) -> None:
    """What turns pictures into features."""
    parser.add_argument("--backbone", default="efficientnet-lite2", metavar="NAME", help=about)


def split_option(parser: argparse.ArgumentParser, default: str = "test") -> None:
    """Which part of the data."""
    parser.add_argument("--split", default=default, help=f"a split of the prepared data (default: {default})")


def count_option(parser: argparse.ArgumentParser, name: str, default: int, about: str = "") -> None:
    """A whole number above 0, whose help ends with its default."""
    said = f"{about} (default: {default})" if about else f"default: {default}"
    parser.add_argument(name, type=positive, default=default, metavar="N", help=said)


def shard_option(parser: argparse.ArgumentParser) -> None:
    """How several processes have the networks."""
    about = "under torchrun: split every network among the processes (FSDP2), instead of copying it"
    parser.add_argument("--shard", action="store_true", help=about)


def machine_options(parser: argparse.ArgumentParser) -> None:
    """Of training: where, and what is said and kept on the way."""
    device_option(parser)
    threads_option(parser)
    count_option(parser, "--log-every", 100, "updates between lines of the log")
    parser.add_argument(
        "--checkpoint-minutes", type=minutes, default=5.0, metavar="M", help="minutes between checkpoints (default: 5)"
    )
    shard_option(parser)
    report_option(parser)


def report_option(parser: argparse.ArgumentParser) -> None:
    """Where the log is copied to."""
    about = "copy the log to TensorBoard (in the run folder), Weights & Biases or MLflow"
    parser.add_argument("--report-to", choices=("tensorboard", "wandb", "mlflow"), help=about)
    about = "the same as --report-to tensorboard"
    parser.add_argument("--tensorboard", action="store_const", const="tensorboard", dest="report_to", help=about)


def metric_option(parser: argparse.ArgumentParser, about: str = "what to judge by") -> None:
    """A metric by its name."""
    names = "bleu, chrf, rouge-l, cider, edit, wrong, exact, reward, or FILE:FUNCTION"
    parser.add_argument("--metric", metavar="NAME", help=f"{about}: {names} (default: the recipe's)")


def search_options(parser: argparse.ArgumentParser) -> None:
    """How to decode, and with which weights."""
    parser.add_argument("--beam", type=width, metavar="N", help="beam width (default: the recipe's)")
    about = "rank by logp / length^X (default: the recipe's)"
    parser.add_argument("--length-penalty", type=penalty, metavar="X", help=about)
    parser.add_argument(
        "--replace-unknown", action="store_true", help="replace unknown words by the source word they attend to most"
    )
    parser.add_argument("--phase", help="use the weights of this phase (default: the last one)")
    about = "a run whose critic reads only the source: search adds its prediction to the score of each hypothesis"
    parser.add_argument("--guide", type=Path, metavar="RUN", help=about)
    parser.add_argument("--guide-weight", type=penalty, metavar="X", help="weight of the guide")
    device_option(parser)


def examiner_options(parser: argparse.ArgumentParser) -> None:
    """Whose critic, and where."""
    parser.add_argument(
        "--critic", type=given, metavar="RUN", help="the run whose critic judges runs without one, such as MLE"
    )
    device_option(parser)
    threads_option(parser)


# What they mean.


def use_device(options: argparse.Namespace) -> "torch.device":
    """The device of `--device`, on which a tensor has been made and read; a command asks before it writes anything."""
    from seqcredit.experiments.start import open_device

    return open_device(options.device, "--device")


def use_threads(options: argparse.Namespace) -> None:
    """As many threads as were asked for."""
    from seqcredit.threads import ask_threads

    if options.threads is not None:
        ask_threads(options.threads)


def search_of(run: "Run", options: argparse.Namespace, least: int = 1) -> "Search":
    """The recipe's search as the options change it, for so many results at least."""
    from seqcredit.training.decoding import Search

    recipe, asked = run.recipe, options.length_penalty
    width, power = max(options.beam or recipe.beam, least), recipe.length_penalty if asked is None else asked
    phases = {phase.name: phase for phase in recipe.phase}
    raw = phases.get(options.phase or "", recipe.phase[-1]).raw
    return Search(width, recipe.longest_output + 1, power, options.replace_unknown, raw=raw)


def guided(search: "Search", options: argparse.Namespace, prepared: "Prepared") -> "Search":
    """A search with the guide that the options name, if they name one."""
    from seqcredit.experiments.build import load_guide
    from seqcredit.experiments.runs import Run

    if options.guide is None:
        require(options.guide_weight is None, "--guide-weight is for a guide: give --guide RUN too.")
        return search
    guide = load_guide(Run.open(options.guide), prepared, options.device)
    return search._replace(guide=guide, guide_weight=options.guide_weight or 0.0)


def weighed(search: "Search", options: argparse.Namespace) -> "Search":
    """A search whose guide has a weight, if it has one at all."""
    missing = search.guide is not None and options.guide_weight is None
    require(not missing, "--guide needs --guide-weight X here; `seqcredit evaluate --guide RUN` finds a good one.")
    return search


def open_run(folder: Path) -> "tuple[Run, Prepared]":
    """A run, and its data."""
    from seqcredit.experiments.runs import Run

    run = Run.open(folder)
    return run, data_of(run)


def data_of(run: "Run") -> "Prepared":
    """The data of a run, whose vocabularies are still those that it was trained with."""
    from seqcredit.experiments.start import open_data

    return open_data(run.data, run.about["vocabularies"])


def open_examiners(options: argparse.Namespace) -> "list[Examiner]":
    """The networks of runs that are looked at together."""
    from seqcredit.experiments.runs import Run
    from seqcredit.inspect.examiners import load_examiners

    use_device(options)
    use_threads(options)
    runs = [Run.open(folder) for folder in options.run_folders]
    lender = Run.open(options.critic) if options.critic else None
    return load_examiners(runs, data_of(runs[0]), lender, options.device)


@contextlib.contextmanager
def display(writes: bool = True, stays: bool = False) -> "Iterator[tuple[Say, Show | None]]":
    """Where lines that stay go, and, on a terminal, where the live line or table goes; the last may stay."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    if not writes:
        yield (lambda _: None), None
    elif not console.is_terminal:
        yield (lambda line: print(line, flush=True)), None
    else:
        with Live(console=console, auto_refresh=False, transient=not stays) as live:

            def show(shown: "RenderableType") -> None:
                line = Text(shown, no_wrap=True, overflow="ellipsis") if isinstance(shown, str) else shown
                live.update(line, refresh=True)

            yield (lambda line: console.print(line, markup=False, soft_wrap=True)), show
