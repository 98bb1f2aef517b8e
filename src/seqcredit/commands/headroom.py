"""`seqcredit headroom`: scores of samples, of search, by the model's beliefs and at best."""

import argparse
from typing import TYPE_CHECKING

from seqcredit.commands import shared

if TYPE_CHECKING:
    from seqcredit.data.prepared import Prepared
    from seqcredit.experiments.runs import Run

ABOUT = "measure what runs could still gain by choosing their words better"


def options(parser: argparse.ArgumentParser) -> None:
    """Which runs, on what, and how many samples."""
    shared.runs_argument(parser)
    shared.split_option(parser, "valid")
    about = "samples per source: half to choose from, half to judge by"
    shared.count_option(parser, "--samples", 32, about)
    shared.metric_option(parser)
    shared.device_option(parser)
    shared.threads_option(parser)


def run(options: argparse.Namespace) -> int:
    """Each run keeps its figures as soon as they are there; then a table of all."""
    from dataclasses import replace

    from seqcredit.experiments.history import labels
    from seqcredit.experiments.runs import Run
    from seqcredit.results import cells, layouts, tables

    runs = [Run.open(folder) for folder in dict.fromkeys(options.run_folders)]
    names = labels([run.folder for run in runs])
    rows = [
        replace(cell, name=name) for run, name in zip(runs, names, strict=True) for cell in cells.read([run.folder])
    ]
    cells.check_alike(rows)
    for found in runs:
        measure(found, shared.data_of(found), options.split, options.samples, options, options.metric)
    print(tables.markdown(layouts.headroom(rows)), end="")
    return 0


def measure(
    run: "Run", prepared: "Prepared", split: str, samples: int, options: argparse.Namespace, metric: str | None = None
) -> None:
    """The headroom of a run, into its folder."""
    from seqcredit.results import headroom

    shared.use_device(options)
    shared.use_threads(options)
    with shared.display() as (say, show):
        passing = show or (lambda _: None)
        found = headroom.measure(run, prepared, split, samples, options.device, passing, metric)
        headroom.write(run, found)
        say(f"{run.folder}: headroom kept in {run.folder / headroom.FILE}")
