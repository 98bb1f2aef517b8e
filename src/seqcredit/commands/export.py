"""`seqcredit export`: a trained model without its data and its log."""

import argparse

from seqcredit.commands import shared

ABOUT = "write a trained model to a folder; from_pretrained loads Hugging Face models"


def options(parser: argparse.ArgumentParser) -> None:
    """Which run, and where to."""
    shared.run_argument(parser)
    parser.add_argument("out", metavar="OUT", type=shared.wanted, help="the folder to make")
    about = "merge LoRA adapters into the weights (default: write the adapters alone, as peft does)"
    parser.add_argument("--merged", action="store_true", help=about)
    parser.add_argument("--phase", help="use the weights of this phase (default: the last one)")


def run(options: argparse.Namespace) -> int:
    """Write it, and say how it is used."""
    from seqcredit.experiments.build import load_actor
    from seqcredit.results.export import export, save_pretrained

    found, prepared = shared.open_run(options.run_folder)
    if prepared.tokenizer is not None:
        actor = load_actor(found, prepared, phase=options.phase)
        save_pretrained(found, prepared, actor, options.out, options.phase, options.merged)
        print(f"written to {options.out}; `from_pretrained` of transformers loads it")
        return 0
    export(found, prepared, options.out, options.phase)
    print(f"written to {options.out}; try `seqcredit translate {options.out}`")
    return 0
