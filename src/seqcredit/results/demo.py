"""`seqcredit demo`: made-up sentences or pictures, every algorithm of the paper, one table."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from rich.table import Table as RichTable

from seqcredit.data.images import Features
from seqcredit.data.phrases import phrases
from seqcredit.data.prepare import prepare
from seqcredit.data.prepared import Prepared, PrepareOptions
from seqcredit.data.shapes import CAPTIONS, features, shapes
from seqcredit.errors import UserError
from seqcredit.experiments.catalogue import FOLDER
from seqcredit.results.credit import against_edit_oracle, against_rollouts
from seqcredit.training.runs import Run
from seqcredit.types import Json

SIZES = {"train": 3_000, "valid": 400, "test": 1_000}
PICTURES = {"train": 1_500, "valid": 300, "test": 600}
FIRST = "mle"
ALONE = "vaml"  # begins beside it, for it needs nothing of it
OTHERS = ("erac", "ac", "raml", "mle-continued")  # the longest first, two at a time
ROWS = ("mle", "mle-continued", "raml", "vaml", "ac", "erac")
RECIPES = {"translation": "demo", "captioning": "demo-captioning"}


def demo(out: Path, say: Callable[[str], None], task: str = "translation", only: Sequence[str] = ROWS) -> RichTable:
    """Make the data, train the recipes of the task's demo, MLE among them, and compare them on the test set."""
    if out.exists() and any(out.iterdir()):
        raise UserError(f"{out} is there already; remove it, or choose another folder with --out.")
    started, names = time.monotonic(), [name for name in ROWS if name == FIRST or name in only]
    what = _make_phrases(out) if task == "translation" else _make_pictures(out)
    say(f"data: {what} in {out / 'data'}")
    train = partial(_train, folder=RECIPES[task], out=out, say=say)
    with ThreadPoolExecutor(2) as pool:
        first, *alone = (pool.submit(train, name) for name in (FIRST, ALONE) if name in names)
        first.result()
        list(pool.map(train, [name for name in OTHERS if name in names]))
        for other in alone:
            other.result()
    say(f"trained {len(names)} recipes in {time.monotonic() - started:.0f} s")
    return _table(out, names)


def _make_phrases(out: Path) -> str:
    prepare({name: phrases(name, size) for name, size in SIZES.items()}, out / "data", PrepareOptions(tokenized=True))
    return f"{SIZES['train']:,} sentences of a made-up phrase language"


def _make_pictures(out: Path) -> str:
    """Draw them; their features are made here too, so no backbone is needed."""
    made = {name: list(shapes(name, size)) for name, size in PICTURES.items()}
    drawn = [(example.source, features(picture)) for split in made.values() for example, picture in split]
    seen = Features([name for name, _ in drawn], np.stack([row for _, row in drawn]))
    examples = {name: [example for example, _ in split] for name, split in made.items()}
    prepare(examples, out / "data", PrepareOptions(tokenized=True), features=seen)
    return f"{PICTURES['train']:,} pictures of two shapes, drawn here, with {CAPTIONS} captions each,"


def credit_lines(out: Path) -> Iterator[str]:
    """How good the learned Q are, in words."""
    prepared = Prepared.open(out / "data")
    if (out / "vaml").exists():
        vaml = against_edit_oracle(Run.open(out / "vaml"), prepared, "test", sentences=24)
        yield (
            f"VAML's Q against {vaml.judge}, {vaml.states:,} states: mean error {vaml.absolute:.2f} (untrained "
            f"{vaml.untrained:.2f}), KL of the token targets {vaml.kl:.2f} (untrained {vaml.untrained_kl:.2f})"
        )
    for name in (name for name in ("ac", "erac") if (out / name).exists()):
        error = against_rollouts(Run.open(out / name), prepared, "test", sentences=24)
        figures = f"mean error {error.absolute:.2f} (untrained {error.untrained:.2f})"
        yield f"{name.upper()}'s critic against {error.judge}: {figures}"


def _train(name: str, folder: str, out: Path, say: Callable[[str], None]) -> None:
    """One recipe in a process of its own; its lines go to a file."""
    began = time.monotonic()
    words = ["train", str(FOLDER / folder / f"{name}.toml"), "--data", str(out / "data"), "--out", str(out / name)]
    shares = name in ("erac", "ac", "mle-continued")
    words += ["--threads", "1"] + (["--init-from", str(out / FIRST)] if shares else [])
    command = [sys.executable, "-c", "from seqcredit.cli import main; main()", *words]
    with (out / f"{name}.log").open("w") as log:
        done = subprocess.run(command, stdout=log, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise UserError(f"{name} failed: {done.stderr.strip() or 'see its log'} ({out / name}.log).")
    say(f"{name}: test BLEU {_result(out, name)['bleu']:.2f} after {time.monotonic() - began:.0f} s")


def _result(out: Path, name: str) -> Json:
    return dict(json.loads((out / name / "result.json").read_text()))


def _table(out: Path, names: Sequence[str] = ROWS) -> RichTable:
    results = {name: _result(out, name) for name in names}
    table = RichTable("algorithm", "test BLEU", "to MLE", "to MLE continued", "validation")
    base, longer = (results[name]["bleu"] if name in results else None for name in ("mle", "mle-continued"))
    for result in results.values():
        bleu = result["bleu"]
        best = list(result["validation"].values())[-1]
        differences = ("" if other is None else f"{bleu - other:+.2f}" for other in (base, longer))
        table.add_row(result["recipe"], f"{bleu:.2f}", *differences, f"{best:.2f}")
    return table


def next_steps(out: Path, task: str = "translation") -> Sequence[str]:
    """What to run after it."""
    mine = f"{RECIPES[task]}/erac"
    steps = [
        f"seqcredit compare {out / 'mle'} {out / 'erac'}      significance, and the sentences that differ most",
        f"seqcredit headroom {out / 'mle'} {out / 'erac'}      what could be gained before, and what is left",
        f"seqcredit train {mine} --data {out / 'data'} --init-from {out / 'mle'} --set phase.3.tau=0.1",
    ]
    if task == "translation":
        sentence = "der alte mann hat gestern ein buch gekauft ."
        steps.insert(1, f'echo "{sentence}" | seqcredit translate {out / "erac"} --n-best 3')
    return steps
