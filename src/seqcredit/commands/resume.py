"""`seqcredit resume`: continues a run from its last checkpoint."""

import argparse

from seqcredit.commands import shared, train

ABOUT = "continue a run from its last checkpoint, bit for bit"


def options(parser: argparse.ArgumentParser) -> None:
    """Which run."""
    shared.run_argument(parser)
    shared.machine_options(parser)


def run(options: argparse.Namespace) -> int:
    """Train what is left, and evaluate."""
    from seqcredit.training.processes import Processes

    processes = Processes.join(options.shard)  # before the device is looked at: it picks the GPU
    shared.use_device(options)
    found, prepared = shared.open_run(options.run_folder)
    found.must_be_ours()
    return train.finish(found, prepared, options, processes)
