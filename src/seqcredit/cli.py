"""The command line. Every error is one sentence on stderr and a non-zero exit code."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from seqcredit import __version__, commands
from seqcredit.errors import UserError

Command = Callable[[argparse.Namespace], int]


class Parser(argparse.ArgumentParser):
    """An argument parser that says what is wrong in one sentence."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message.rstrip('.')}. See '{self.prog} --help'.")


def parser() -> Parser:
    """All commands and their options."""
    top = Parser(prog="seqcredit", description="Train sequence models with token-level credit.")
    top.add_argument("--version", action="version", version=f"seqcredit {__version__}")
    added = top.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, run: Command, about: str) -> argparse.ArgumentParser:
        made = added.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        made.set_defaults(run=run)
        return made

    _prepare_options(command("prepare", commands.prepare, "turn parallel text into a folder that training reads"))
    made = command("features", commands.features, "turn a folder of images into one row of numbers for each")
    made.add_argument("folder", metavar="FOLDER", type=Path, help="with .jpg, .jpeg and .png files")
    made.add_argument("out", metavar="OUT", type=Path, help="the folder to write features.npy and features.txt into")
    about = "efficientnet-lite2 (default), or resnet101, which needs torchvision"
    made.add_argument("--backbone", default="efficientnet-lite2", metavar="NAME", help=about)
    made.add_argument("--batch-size", type=int, default=16, metavar="N", help="images at a time (default: 16)")
    made.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1, mps")
    about = "train a recipe in a new run folder, then evaluate it on the test set"
    _train_options(command("train", commands.train, about))
    made = command("resume", commands.resume, "continue a run exactly where its last checkpoint stood")
    made.add_argument("run_folder", metavar="RUN", type=Path)
    _machine_options(made)
    about = "train and record every missing cell of a file of recipes, overrides and seeds"
    made = command("sweep", commands.sweep, about)
    made.add_argument("file", metavar="FILE", type=Path, help="a TOML file, see `sweeps/`")
    made.add_argument("--jobs", type=int, metavar="N", help="processes at once (default: one a core)")
    made.add_argument("--threads", type=int, default=1, metavar="N", help="threads of each (default: 1)")
    made.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1, mps")
    made.add_argument("--data-root", type=Path, default=Path(), metavar="FOLDER", help="where the data folder is")
    about = "where the folders of runs and results go, to repeat a cell beside the one that is kept"
    made.add_argument("--into", type=Path, default=Path(), metavar="FOLDER", help=about)
    about = "these alone, and what they start from: `erac` or `erac-2`"
    made.add_argument("--only", nargs="+", default=[], metavar="CELL", help=about)
    about = "in all cells, such as phase.*.epochs=1; may be given several times"
    made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=about)
    _metric_option(made, "figures in the grid, of those that a cell keeps")
    made.add_argument("--dry-run", action="store_true", help="only say what there is to do, and how long it will take")
    made = command("evaluate", commands.evaluate, "decode a split with a trained run and score it")
    made.add_argument("run_folder", metavar="RUN", type=Path)
    made.add_argument("--split", default="test", help="a split of the prepared data (default: test)")
    made.add_argument("--raw", nargs=2, type=Path, metavar=("SOURCE", "REFERENCE"), help="two text files instead")
    made.add_argument("--json", action="store_true", help="print the figures as JSON")
    _metric_option(made, "what to judge by")
    _search_options(made)
    made = command("translate", commands.translate, "translate lines of text from a file or from standard input")
    made.add_argument("run_folder", metavar="RUN", type=Path)
    made.add_argument("file", nargs="?", default="-", help="one sentence a line; - is standard input (default)")
    made.add_argument("--n-best", type=int, default=1, metavar="N", help="print the N best, numbered by line")
    made.add_argument("--scores", action="store_true", help="print the log-probability before each")
    _search_options(made)
    made = command("caption", commands.caption, "describe pictures")
    made.add_argument("run_folder", metavar="RUN", type=Path)
    made.add_argument("pictures", nargs="+", type=Path, metavar="PICTURE", help="JPEG or PNG files")
    made.add_argument("--n-best", type=int, default=1, metavar="N")
    made.add_argument("--scores", action="store_true", help="log-probabilities too")
    made.add_argument("--backbone", default="efficientnet-lite2", help="what the features of training came from")
    _search_options(made)
    made = command("sheet", commands.sheet, "photographs with what people and runs say of them, as one PNG")
    made.add_argument("run_folders", nargs="+", metavar="RUN", type=Path)
    made.add_argument("--photographs", type=Path, required=True, metavar="FOLDER", help="where the pictures are")
    made.add_argument("--out", type=Path, default=Path("sheet.png"), metavar="FILE", help="default: sheet.png")
    made.add_argument("--split", default="test")
    made.add_argument("--count", type=int, default=12, metavar="N", help="default: 12")
    made = command("compare", commands.compare, "compare two runs on the same split, with significance")
    made.add_argument("baseline", metavar="RUN", type=Path)
    made.add_argument("system", metavar="RUN", type=Path)
    made.add_argument("--split", default="test", help="a split that both have been evaluated on (default: test)")
    made.add_argument("--show", type=int, default=5, metavar="N", help="sentences that differ most (default: 5)")
    _metric_option(made, "what to judge by")
    about = "what could still be gained from runs: what they say by chance, by search, by their beliefs, at their best"
    made = command("headroom", commands.headroom, about)
    made.add_argument("run_folders", nargs="+", metavar="RUN", type=Path)
    made.add_argument("--split", default="valid", help="a split of the prepared data (default: valid)")
    about = "sentences drawn for each source, half of them to choose from and half to judge by (default: 32)"
    made.add_argument("--samples", type=int, default=32, metavar="N", help=about)
    _metric_option(made, "what to judge by")
    made.add_argument("--device", default="cpu")
    made.add_argument("--threads", type=int, metavar="N", help="threads of the CPU")
    made = command("inspect", commands.inspect, "show the credit of every token as one HTML page")
    made.add_argument("run_folders", nargs="+", metavar="RUN", type=Path)
    made.add_argument("--split", default="test", help="a split of the prepared data (default: test)")
    made.add_argument("--count", type=int, default=1000, metavar="N", help="examples at the most (default: 1000)")
    made.add_argument("--source", metavar="TEXT", help="a sentence of your own instead of a split")
    made.add_argument(
        "--reference", action="append", default=[], metavar="TEXT", help="its translation; may be repeated"
    )
    made.add_argument("--photographs", type=Path, metavar="FOLDER", help="captioning: where the pictures are")
    made.add_argument("--out", type=Path, default=Path("credit.html"), metavar="FILE", help="default: credit.html")
    _judge_options(made)
    about = "the same live: a page on this computer that translates, scores and can be edited"
    made = command("serve", commands.serve, about)
    made.add_argument("run_folders", nargs="+", metavar="RUN", type=Path)
    made.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1, this computer alone")
    made.add_argument("--port", type=int, default=8765, help="default: 8765; 0 takes a free one")
    made.add_argument("--backbone", default="efficientnet-lite2", help="what the features of training came from")
    _judge_options(made)
    made = command("record", commands.record, "keep the figures of a finished run in one small file, with its command")
    made.add_argument("run_folder", metavar="RUN", type=Path)
    made.add_argument(
        "cell", metavar="FILE", type=Path, help="the JSON to write, such as results/tatoeba-seeds/erac-1.json"
    )
    made.add_argument(
        "--against", nargs="+", default=[], type=Path, metavar="RUN", help="runs to compare with, by paired bootstrap"
    )
    about = "measure its `seqcredit headroom` too, with so many samples, on validation data"
    made.add_argument("--headroom", type=int, metavar="N", help=about)
    made.add_argument("--device", default="cpu", help="for --headroom")
    made.add_argument("--threads", type=int, metavar="N", help="threads of the CPU")
    made = command("results", commands.results, "print the cells below a folder as a table")
    made.add_argument("folder", nargs="?", type=Path, default=Path("results"), help="default: results")
    made = command("table", commands.table, "a table of result cells: recipes by seeds, or as in the paper")
    about = "cells, run folders, or folders with such in them"
    made.add_argument("cells", nargs="+", metavar="RESULTS", type=Path, help=about)
    made.add_argument("--baseline", metavar="NAME", help="the row that others are compared with (default: MLE)")
    made.add_argument("--format", choices=("markdown", "latex", "csv"), default="markdown")
    about = (
        "plain (default), a table of the paper (table1, ablation, entropy), credit errors, headroom, or a search on "
        "validation"
    )
    layouts = ("plain", "table1", "ablation", "entropy", "credit", "headroom", "search")
    made.add_argument("--layout", choices=layouts, default="plain", help=about)
    _metric_option(made, "figures of this one, which all cells must have kept")
    made = command("report", commands.report, "write what was found, with tables and figures made from result cells")
    made.add_argument(
        "file", nargs="?", type=Path, default=Path("results/report.toml"), help="default: results/report.toml"
    )
    made.add_argument("--out", type=Path, default=Path("RESULTS.md"), metavar="FILE", help="default: RESULTS.md")
    made.add_argument(
        "--check", action="store_true", help="write nothing; exit code 1 if it is not what would be written"
    )
    _plot_options(command("plot", commands.plot, "draw a figure from cells or runs, as PNG or SVG"))
    made = command("watch", commands.watch, "learning curves of runs in progress")
    made.add_argument("run_folders", nargs="+", metavar="RUN", type=Path)
    made.add_argument("--once", action="store_true", help="print them as they stand and end")
    made.add_argument("--every", type=float, default=5.0, metavar="SECONDS", help="default: 5")
    made.add_argument("--html", type=Path, metavar="FILE", help="write a page too, which loads itself anew")
    made = command("export", commands.export, "write one folder that can translate elsewhere")
    made.add_argument("run_folder", metavar="RUN", type=Path)
    made.add_argument("out", metavar="OUT", type=Path, help="the folder to make")
    made.add_argument("--phase", help="weights of this phase (default: the last one)")
    made = command("demo", commands.demo, "train every algorithm on made-up data and compare them (about 4 minutes)")
    made.add_argument("task", nargs="?", choices=("translation", "captioning"), default="translation")
    made.add_argument("--out", type=Path, metavar="FOLDER", help="default: runs/demo, runs/demo-captioning")
    rows = ("mle", "mle-continued", "raml", "vaml", "ac", "erac")
    made.add_argument(
        "--only", nargs="+", choices=rows, default=rows, metavar="NAME", help=f"some of {', '.join(rows)}"
    )
    made = command("recipes", commands.recipes, "list the recipes that come along, or show one")
    made.add_argument("name", nargs="?", metavar="NAME", help="such as iwslt14/erac")
    made = command("bench", commands.bench, "time a step of every algorithm on made-up data (about 10 minutes)")
    made.add_argument("--rounds", type=int, default=7, metavar="N", help="default: 7")
    made.add_argument("--json", action="store_true", help="print all figures as JSON")
    made.add_argument("--profile", type=Path, metavar="FILE", help="only write a trace of one ERAC step")
    made.add_argument("--growth", type=Path, metavar="FILE", help="only plot how cost grows, as .png or .svg")
    made.add_argument("--threads", type=int, metavar="N", help="threads of the CPU")
    about = "check each proposition of the paper on whole spaces; exit code 1 if one fails"
    made = command("verify", commands.verify, about)
    made.add_argument("--json", action="store_true", help="print every cell as JSON instead of the table")
    return top


def _plot_options(made: argparse.ArgumentParser) -> None:
    kinds = made.add_subparsers(title="kinds", metavar="KIND", required=True, dest="kind")

    def kind(name: str, about: str) -> argparse.ArgumentParser:
        made = kinds.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        made.add_argument("--out", type=Path, required=True, metavar="FILE", help="ends in .png or .svg")
        return made

    for name, about in (
        ("tau", "test BLEU of AC and ERAC over the temperature, with its range over seeds"),
        ("ablation", "validation BLEU of ERAC over smoothing and target rate, as a heat map"),
    ):
        kind(name, about).add_argument("cells", nargs="+", metavar="RESULTS", type=Path, help="as of `seqcredit table`")
    drawn = kind("curves", "what runs have logged, over updates")
    drawn.add_argument("run_folders", nargs="+", metavar="RUN", type=Path)
    drawn = kind("credit", "what every token of a prediction is worth, as a heat map")
    drawn.add_argument("run_folder", metavar="RUN", type=Path)
    drawn.add_argument("--sentence", type=int, required=True, metavar="N", help="counted from 1")
    drawn.add_argument("--critic", type=Path, metavar="RUN", help="whose critic judges (default: the run's own)")
    drawn.add_argument("--split", default="test")


def _prepare_options(made: argparse.ArgumentParser) -> None:
    made.add_argument("out", metavar="OUT", type=Path, help="the folder to make")
    for split in ("train", "valid", "test"):
        about = "two parallel text files, or one .tsv, or one .jsonl; captions as .tsv or as MSCOCO's .json"
        made.add_argument(f"--{split}", nargs="+", type=Path, metavar="FILE", help=about)
    made.add_argument("--task", choices=("translation", "captioning"), default="translation")
    made.add_argument("--features", type=Path, metavar="FOLDER", help="captioning: what `seqcredit features` wrote")
    made.add_argument("--karpathy", type=Path, metavar="FILE", help="captioning: a dataset_*.json with all splits")
    made.add_argument("--iwslt14", type=Path, metavar="FOLDER", help="the unpacked IWSLT14 de-en archive instead")
    made.add_argument("--tokenized", action="store_true", help="the text is tokenized already: cut it at spaces")
    made.add_argument("--lowercase", action="store_true")
    made.add_argument("--moses", action="store_true", help="Moses tokens")
    made.add_argument("--languages", nargs=2, metavar=("SOURCE", "TARGET"), default=(None, None), help="such as de en")
    made.add_argument("--bpe", type=int, metavar="SIZE", help="byte-pair pieces by sentencepiece")
    made.add_argument("--min-count", type=int, default=1, metavar="N", help="rarer words are unknown (default: 1)")
    made.add_argument("--max-vocabulary", type=int, metavar="N")
    made.add_argument("--max-length", type=int, metavar="N", help="drop longer training pairs")
    made.add_argument("--only-short", type=int, metavar="N", help="drop longer pairs in every split")
    made.add_argument("--overwrite", action="store_true", help="replace a folder that an earlier `prepare` made")


def _train_options(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "recipe",
        metavar="RECIPE",
        type=Path,
        help="a TOML file, or one of `seqcredit recipes`",
    )
    made.add_argument("--data", type=Path, metavar="FOLDER", help="a prepared folder (default: the recipe's)")
    made.add_argument("--out", type=Path, metavar="RUN", help="the run folder to make (default: runs/RECIPE-SEED)")
    made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a key: phase.2.tau=0.02")
    made.add_argument("--seed", type=int, help="instead of the recipe's")
    made.add_argument("--until", metavar="PHASE", help="leave out the phases after this one")
    made.add_argument(
        "--init-from", type=Path, metavar="RUN", help="take over the phases that another run has finished"
    )
    _machine_options(made)


def _machine_options(made: argparse.ArgumentParser) -> None:
    made.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1, mps")
    made.add_argument("--threads", type=int, metavar="N", help="threads of the CPU")
    made.add_argument("--log-every", type=int, default=100, metavar="N", help="updates between lines (default: 100)")
    made.add_argument("--checkpoint-minutes", type=float, default=5.0, metavar="M", help="default: 5")
    made.add_argument("--tensorboard", action="store_true", help="write the log for TensorBoard too, in the run folder")


def _metric_option(made: argparse.ArgumentParser, about: str) -> None:
    names = "bleu, chrf, rouge-l, cider, edit, wrong, exact, reward, or FILE:FUNCTION"
    made.add_argument("--metric", metavar="NAME", help=f"{about}: {names} (default: the recipe's)")


def _search_options(made: argparse.ArgumentParser) -> None:
    made.add_argument("--beam", type=int, metavar="N", help="beam width (default: the recipe's)")
    made.add_argument(
        "--length-penalty", type=float, default=0.0, metavar="X", help="rank by logp / length^X (default: 0)"
    )
    made.add_argument("--replace-unknown", action="store_true", help="unknown words become the attended source word")
    made.add_argument("--phase", help="weights of this phase (default: the last one)")
    made.add_argument("--device", default="cpu")


def _judge_options(made: argparse.ArgumentParser) -> None:
    made.add_argument("--critic", type=Path, metavar="RUN", help="lends its critic to runs without one, such as MLE")
    made.add_argument("--device", default="cpu")
    made.add_argument("--threads", type=int, metavar="N", help="threads of the CPU")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code."""
    try:
        options = parser().parse_args(arguments)
        code = options.run(options)
    except UserError as error:
        print(f"seqcredit: {error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("seqcredit: interrupted.", file=sys.stderr)
        code = 130
    except BrokenPipeError:  # whoever read our output has gone
        sys.stderr.close()
        code = 0
    sys.exit(code)
