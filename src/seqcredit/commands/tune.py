"""`seqcredit tune`: trains a Hugging Face model on examples with a reward, without a recipe."""

import argparse
import tomllib
from typing import TYPE_CHECKING

from seqcredit.commands import shared
from seqcredit.errors import in_words, require
from seqcredit.experiments.plans import DO_WITHOUT, PLANS, plan_class

if TYPE_CHECKING:
    from seqcredit.experiments.presets import Plan

ABOUT = "train a Hugging Face model with an algorithm and a reward"


def options(parser: argparse.ArgumentParser) -> None:
    """Model, data, reward, algorithm."""
    about = "a folder with config.json, weights and tokenizer, or a name on the hub"
    parser.add_argument("--model", required=True, metavar="FOLDER", help=about)
    about = 'lines {"source": text or messages, "references": [text, ...]}; references may be missing'
    parser.add_argument("--train", required=True, type=shared.given, metavar="FILE.jsonl", help=about)
    about = "default: every 20th example of --train is held out for validation"
    parser.add_argument("--valid", type=shared.given, metavar="FILE.jsonl", help=about)
    parser.add_argument("--test", type=shared.given, metavar="FILE.jsonl", help="evaluated after training")
    about = "bleu (default), rouge-l, edit, cider, or FILE:FUNCTION of (text, references) or (text, source)"
    parser.add_argument("--reward", default="bleu", metavar="NAME", help=about)
    about = f"default: erac; without references: one of {', '.join(DO_WITHOUT)}"
    parser.add_argument("--algorithm", default="erac", choices=PLANS, help=about)
    about = "train only LoRA adapters of this rank (peft); `seqcredit export` writes them as adapters, or merged"
    parser.add_argument("--lora", type=shared.positive, metavar="RANK", help=about)
    about = "the critic is a head on the model's own body: half the memory; only the actor's loss trains the body"
    parser.add_argument("--shared-critic", action="store_true", help=about)
    about = "an option of the algorithm: epochs=3, learning_rate=1e-5, tau=0.02"
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=about)
    parser.add_argument(
        "--metric", metavar="NAME", help="what decides which weights are best (default: bleu, or the reward)"
    )
    shared.count_option(parser, "--longest-output", 100, "maximum tokens of an output")
    parser.add_argument("--seed", type=shared.natural, default=1, help="default: 1")
    parser.add_argument(
        "--out",
        required=True,
        type=shared.wanted,
        metavar="RUN",
        help="the run folder; an unfinished run there is resumed",
    )
    shared.device_option(parser)
    shared.report_option(parser)
    shared.threads_option(parser)
    shared.shard_option(parser)


def run(options: argparse.Namespace) -> int:
    """Train, and say how to use the result."""
    from seqcredit.training.processes import Processes

    processes = Processes.join(options.shard)  # before the device is looked at: it picks the GPU
    device = shared.use_device(options)
    plan = plan_of(options.algorithm, options.set)
    for file in (options.train, options.valid, options.test):
        require(file is None or file.is_file(), f"There is no file {file}: give a file with one JSON object a line.")
    shared.use_threads(options)
    from seqcredit.api import train
    from seqcredit.models.hub import adapted, open_model, open_tokenizer

    model, tokenizer = open_model(options.model), open_tokenizer(options.model)
    with shared.display(processes.writes) as (say, _):
        train(
            model if options.lora is None else adapted(model, options.lora),
            options.train,
            valid=options.valid,
            test=options.test,
            reward=options.reward,
            algorithm=plan,
            metric=options.metric,
            critic="shared" if options.shared_critic else None,
            tokenizer=tokenizer,
            out=options.out,
            seed=options.seed,
            longest_output=options.longest_output,
            device=device,
            shard=options.shard,
            report_to=options.report_to,
            say=say,
        )
    processes.leave()
    if processes.writes:
        export = f"`seqcredit export {options.out} FOLDER` writes a folder that from_pretrained loads"
        print(f"done: {options.out}; {export}")
    return 0


def plan_of(name: str, changes: list[str]) -> "Plan":
    """An algorithm by its name, with options as `KEY=VALUE`."""
    from seqcredit.options import build

    values: dict[str, object] = {}
    for change in changes:
        key, _, value = change.partition("=")
        unfit = f"--set {change}: write KEY=VALUE, such as epochs=3"
        require(key.isidentifier() and bool(value), f"{unfit}.")
        with in_words((tomllib.TOMLDecodeError, RecursionError), f"{unfit}; text stands in quotes."):
            values |= tomllib.loads(f"{key} = {value}")
    return build(plan_class(name), values, name)
