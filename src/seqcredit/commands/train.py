"""`seqcredit train`: a recipe in a new run folder."""

import argparse
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from seqcredit.commands import shared
from seqcredit.errors import in_words

if TYPE_CHECKING:
    from seqcredit.data.prepared import Prepared
    from seqcredit.experiments.runs import Run
    from seqcredit.training.processes import Processes
    from seqcredit.training.trainer import Trainer

ABOUT = "train a recipe in a new run folder, then evaluate it on test data"


def options(parser: argparse.ArgumentParser) -> None:
    """The recipe, what is changed in it, and where it goes."""
    parser.add_argument(
        "recipe", metavar="RECIPE", type=shared.given, help="a TOML file, or one of `seqcredit recipes`"
    )
    parser.add_argument("--data", type=shared.given, metavar="FOLDER", help="a prepared folder (default: the recipe's)")
    parser.add_argument(
        "--out", type=shared.wanted, metavar="RUN", help="the run folder to make (default: runs/RECIPE-SEED)"
    )
    about = "change a key of the recipe: phase.2.tau=0.02; may be given several times"
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=about)
    parser.add_argument("--seed", type=shared.seed, help="default: the recipe's")
    parser.add_argument("--until", metavar="PHASE", help="stop after this phase")
    about = "reuse the phases that another run has finished"
    parser.add_argument("--init-from", type=shared.given, metavar="RUN", help=about)
    shared.machine_options(parser)


def run(options: argparse.Namespace) -> int:
    """Make the run folder, then train and evaluate."""
    from seqcredit.algorithms import must_be_known
    from seqcredit.experiments.build import check_own
    from seqcredit.experiments.recipe import found, load, until
    from seqcredit.experiments.runs import Run, own_files
    from seqcredit.experiments.start import open_data, take_over
    from seqcredit.training.boards import check
    from seqcredit.training.processes import Processes

    processes = Processes.join(options.shard)  # before the device is looked at: it picks the GPU
    shared.use_device(options)
    check(options.report_to)
    changes = [*options.set, *([] if options.seed is None else [f"seed={options.seed}"])]
    recipe = load(options.recipe, changes)
    recipe = until(recipe, options.until) if options.until else recipe
    must_be_known(recipe.phase)
    prepared = open_data(options.data or Path(recipe.data))
    out = options.out or Path("runs") / f"{options.recipe.stem}-{recipe.seed}"
    if processes.writes:
        file = found(options.recipe)
        start = (lambda run: take_over(run, options.init_from, print)) if options.init_from else None
        text = file.read_text(encoding="utf-8")
        check_own(recipe, prepared, file.parent)
        own = own_files(recipe, file.parent)
        Run.create(out, text, recipe, prepared.folder, prepared.checksums, own, start)
    processes.wait()
    return finish(Run.open(out), prepared, options, processes)


def finish(run: "Run", prepared: "Prepared", options: argparse.Namespace, processes: "Processes") -> int:
    """Train what is left, then evaluate on the test set."""
    from seqcredit.experiments.build import task_of
    from seqcredit.results import evaluate
    from seqcredit.training.status import Reporting, StoppedError
    from seqcredit.training.trainer import Trainer

    shared.use_threads(options)
    with shared.display(processes.writes) as (say, show):
        shown = Reporting(say, show, options.log_every, options.checkpoint_minutes, options.report_to)
        task = task_of(run.recipe, prepared, run.folder)
        trainer = Trainer(task, run.folder, shown, options.device, processes)
        _stop_on_interrupt(trainer)
        with in_words(StoppedError, f"stopped and saved; continue with `seqcredit resume {run.folder}`."):
            trainer.train()
    if processes.writes and "test" in prepared.manifest.splits and run.trains_an_actor():
        actor = task.networks["actor"].eval()
        print(evaluate.conclude(run, prepared, actor, task.metric, trainer.status.diverged, options.device))
    processes.leave()
    if processes.writes:
        print(f"done: {run.folder}")
    return 0


def _stop_on_interrupt(trainer: "Trainer") -> None:
    """Ctrl-C ends a run after its update, so that it can go on exactly; pressed again, at once."""

    def interrupt(*_: object) -> None:
        if trainer.stop:
            raise KeyboardInterrupt
        trainer.stop = True

    signal.signal(signal.SIGINT, interrupt)
