"""`seqcredit demo`: made-up sentences or pictures, every algorithm of the paper, one table."""

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from seqcredit.commands import shared
from seqcredit.errors import require

if TYPE_CHECKING:
    from rich.table import Table

    from seqcredit.types import Json

Say = Callable[[str], None]
ABOUT = "train the paper's algorithms on made-up data, in about 4 minutes"
ROWS = ("mle", "mle-continued", "raml", "vaml", "ac", "erac")
FIRST = "mle"
ALONE = "vaml"  # begins beside it, for it needs nothing of it
OTHERS = ("erac", "ac", "raml", "mle-continued")  # the longest first, two at a time
CONTINUE = ("erac", "ac", "mle-continued")  # start from the first one's actor
RECIPES = {"translation": "demo", "captioning": "demo-captioning"}
EVERY = 10.0  # seconds between two lines of progress where there is no terminal
STORY = {
    "translation": """\
A small network learns to translate a made-up part of German. Most correct translations are casual (60 %), but they
begin with one of four words (well, so, look, oh), so the most probable first word is a formal one. MLE picks that word
and is wrong more often than not. Which algorithms learn what a first word leads to?
""",
    "captioning": """\
A small network learns to describe pictures of two shapes, each with three captions. Most captions are casual (60 %),
but they begin in one of four ways (here is, that is, look at, i see), so the most probable first word is a formal one.
MLE picks that word and is wrong more often than not. Which algorithms learn what a first word leads to?
""",
}
LEARNS = {
    "mle": "learns the next word of the reference; the baseline",
    "mle-continued": "MLE for longer: shows what more training alone gains",
    "raml": "also learns sentences near the reference; closer ones count more",
    "vaml": "learns the same sentences, with a target for each word from a Q that is learned first",
    "ac": "learns from its own samples; a critic says what each word is worth",
    "erac": "learns from its own samples by a critic, as AC does, with a bonus for entropy",
}
WHY_VAML = """\
VAML is below RAML because its targets are only as good as the Q that it has learned, which is still far from the exact
one (see the next line). With the exact Q it was level with RAML on real data, not better: docs/results/cmudict.md.\
"""


class Size(NamedTuple):
    """How many examples are made, which rows are trained, and what is changed in their recipes."""

    examples: Mapping[str, int]
    changes: Mapping[str, tuple[str, ...]]
    judged: int = 24  # sentences on which Q is compared with a better one


WHOLE = {
    "translation": Size({"train": 3_000, "valid": 400, "test": 1_000}, dict.fromkeys(ROWS, ())),
    "captioning": Size({"train": 1_500, "valid": 300, "test": 600}, dict.fromkeys(ROWS, ())),
}
SOON = (  # a critic that learns faster, from targets that follow faster
    "phase.critic.epochs=3",
    "phase.critic.learning_rate=0.01",
    "phase.critic.target_rate=0.5",
    "phase.actor_critic.epochs=2",
    "phase.actor_critic.critic_learning_rate=0.003",
    "phase.actor_critic.target_rate=0.2",
)
QUICK = {
    task: Size(
        examples,
        {
            "mle": (f"phase.mle.epochs={epochs}",),
            "mle-continued": (f"phase.mle.epochs={epochs}", "phase.continued.epochs=2"),
            "erac": (f"phase.mle.epochs={epochs}", *SOON),
        },
        judged=8,
    )
    for task, epochs, examples in (
        ("translation", 6, {"train": 3_000, "valid": 200, "test": 500}),
        ("captioning", 12, {"train": 1_500, "valid": 150, "test": 300}),
    )
}


def options(parser: argparse.ArgumentParser) -> None:
    """Which data, which rows, and how much of it."""
    parser.add_argument("task", nargs="?", choices=tuple(RECIPES), default="translation", help="default: translation")
    about = "default: runs/demo, runs/demo-captioning; with --quick, runs/demo-quick, runs/demo-captioning-quick"
    parser.add_argument("--out", type=shared.wanted, metavar="FOLDER", help=about)
    parser.add_argument("--only", nargs="+", choices=ROWS, metavar="NAME", help=f"train only some of {', '.join(ROWS)}")
    about = "one minute: fewer epochs, a smaller test set, and only MLE, continued MLE and ERAC"
    parser.add_argument("--quick", action="store_true", help=about)


def run(options: argparse.Namespace) -> int:
    """Make the data, train, and print the table."""
    import torch
    from rich.console import Console

    torch.set_num_threads(1)  # of small networks a second one mostly waits
    size = (QUICK if options.quick else WHOLE)[options.task]
    names = options.only or tuple(size.changes)
    other = [name for name in names if name not in size.changes]
    require(not other, f"--quick trains {', '.join(size.changes)}: leave out --only {' '.join(other)}.")
    out = options.out or Path("runs") / (RECIPES[options.task] + ("-quick" if options.quick else ""))
    taken = out.exists() and any(out.iterdir())
    require(not taken, f"{out} is there already: remove it, or choose another folder with --out.")
    print(STORY[options.task])
    for name in (name for name in ROWS if name == FIRST or name in names):
        print(f"  {name:14} {LEARNS[name]}")
    print(flush=True)
    Console().print(compare(out, Progress(out), options.task, size, names))
    for line in remarks(out, size.judged) if options.task == "translation" else ():
        print(line, flush=True)
    if "erac" in names:
        *others, look = next_steps(out, options.task, program())
        print("\nMore to try:")
        for line in others:
            print(f"  {line}")
        print(f"\nTo see the credit of every word, MLE next to ERAC, in your browser:\n  {look}")
    return 0


class Progress:
    """Lines that stay, and meanwhile what the runs are doing: in place on a terminal, elsewhere a line now and then."""

    def __init__(self, out: Path, every: float = EVERY) -> None:
        self.out, self.began, self.running = out, time.monotonic(), dict[str, float]()
        self.terminal = sys.stdout.isatty()
        self.every = 1.0 if self.terminal else every
        self._over, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> "Progress":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def __call__(self, line: str) -> None:
        """A line that stays."""
        with self._lock:
            print(("\r\033[K" if self.terminal else "") + line, flush=True)

    def line(self) -> str:
        """What is being trained, and how far it is."""
        places = [f"{name}{_place(self.out / name / 'log.jsonl')}" for name in list(self.running)]
        return f"  {time.monotonic() - self.began:.0f} s: training {' and '.join(places)}"

    def _tell(self) -> None:
        while not self._over.wait(self.every):
            if self.running and self.terminal:
                with self._lock:
                    print(f"\r\033[K{self.line()}", end="", flush=True)
            elif self.running:
                self(self.line())


def _place(log: Path) -> str:
    """The phase and the epoch that the log speaks of last, if it does yet."""
    import re

    found = re.findall(r'"phase": "(\w+)", "epoch": (\d+)', log.read_text()) if log.exists() else []
    return f", {found[-1][0]} epoch {found[-1][1]}" if found else ""


def compare(out: Path, progress: Progress, task: str, size: Size, only: Sequence[str]) -> "Table":
    """Make the data, train the recipes of the task's demo, MLE among them, and compare them on the test set."""
    from concurrent.futures import ThreadPoolExecutor

    started, names = time.monotonic(), [name for name in ROWS if name == FIRST or name in only]
    make = make_phrases if task == "translation" else make_pictures
    progress(f"data: {make(out, size.examples)} in {out / 'data'}")

    def begin(name: str) -> None:
        progress.running[name] = time.monotonic()
        try:
            train(name, RECIPES[task], out, progress, size.changes[name])
        finally:
            del progress.running[name]

    with progress, ThreadPoolExecutor(2) as pool:
        first, *alone = (pool.submit(begin, name) for name in (FIRST, ALONE) if name in names)
        first.result()
        list(pool.map(begin, [name for name in OTHERS if name in names]))
        for other in alone:
            other.result()
    progress(f"trained {len(names)} recipes in {time.monotonic() - started:.0f} s")
    return table(out, names)


def make_phrases(out: Path, sizes: Mapping[str, int]) -> str:
    """Sentences of a grammar."""
    from seqcredit.data.manifest import PrepareOptions
    from seqcredit.data.phrases import phrases
    from seqcredit.data.prepare import prepare

    made = {name: phrases(name, count) for name, count in sizes.items()}
    prepare(made, out / "data", PrepareOptions(tokenized=True))
    return f"{sizes['train']:,} made-up sentences"


def make_pictures(out: Path, sizes: Mapping[str, int]) -> str:
    """Draw them; their features are made here too, so no backbone is needed."""
    import numpy as np

    from seqcredit.data.images import Features
    from seqcredit.data.manifest import PrepareOptions
    from seqcredit.data.prepare import prepare
    from seqcredit.data.shapes import CAPTIONS, features, shapes

    made = {name: list(shapes(name, count)) for name, count in sizes.items()}
    drawn = [(example.source, features(picture)) for split in made.values() for example, picture in split]
    seen = Features([name for name, _ in drawn], np.stack([row for _, row in drawn]))
    examples = {name: [example for example, _ in split] for name, split in made.items()}
    prepare(examples, out / "data", PrepareOptions(tokenized=True), features=seen)
    return f"{sizes['train']:,} pictures of two shapes, drawn here, with {CAPTIONS} captions each,"


def train(name: str, folder: str, out: Path, say: Say, changes: Sequence[str] = ()) -> None:
    """One recipe in a process of its own; its lines go to a file."""
    import subprocess

    from seqcredit.experiments import recipe

    began = time.monotonic()
    words = ["train", f"{recipe.RECIPES / folder / name}.toml", "--data", str(out / "data"), "--out", str(out / name)]
    words += ["--threads", "1"] + (["--init-from", str(out / FIRST)] if name in CONTINUE else [])
    words += [word for change in changes for word in ("--set", change)]
    command = [sys.executable, "-m", "seqcredit", *words]
    with (out / f"{name}.log").open("w") as log:
        done = subprocess.run(command, stdout=log, stderr=subprocess.PIPE, text=True, check=False)
    require(done.returncode == 0, f"{name} failed: {done.stderr.strip() or 'see its log'} ({out / name}.log).")
    say(f"{name}: test BLEU {read(out, name)['bleu']:.2f} after {time.monotonic() - began:.0f} s")


def read(out: Path, name: str) -> "Json":
    """What a run has measured."""
    import json

    return json.loads((out / name / "result.json").read_text())


def table(out: Path, names: Sequence[str] = ROWS) -> "Table":
    """A row a recipe, with what it is above MLE and above MLE that went on as long."""
    from rich.table import Table

    results = {name: read(out, name) for name in names}
    made = Table("algorithm", "test BLEU", "to MLE", "to continued MLE", "validation", "")
    bases = [results.get(name) for name in ("mle", "mle-continued")]
    best = max(result["bleu"] for result in results.values())
    for result in results.values():
        bleu, validation = result["bleu"], [*result["validation"].values()][-1]
        differences = ("" if base is None else f"{bleu - base['bleu']:+.2f}" for base in bases)
        mark, style = ("best", "bold green") if bleu == best else ("", None)
        made.add_row(result["recipe"], f"{bleu:.2f}", *differences, f"{validation:.2f}", mark, style=style)
    return made


def remarks(out: Path, sentences: int) -> Iterator[str]:
    """What the table does not show: why VAML is below RAML, and how good the learned Q are."""
    there = [name for name in ("raml", "vaml") if (out / name / "result.json").exists()]
    if len(there) == 2 and read(out, "vaml")["bleu"] < read(out, "raml")["bleu"]:
        yield WHY_VAML
    yield from credit_lines(out, sentences)


def credit_lines(out: Path, sentences: int) -> Iterator[str]:
    """How good the learned Q are, in words."""
    from seqcredit.data.prepared import Prepared
    from seqcredit.experiments.runs import Run
    from seqcredit.results.credit import against_edit_oracle, against_rollouts

    prepared = Prepared.open(out / "data")
    if (out / "vaml").exists():
        vaml = against_edit_oracle(Run.open(out / "vaml"), prepared, "test", sentences)
        yield (
            f"VAML's Q against {vaml.judge}, in {vaml.states:,} states: mean error {vaml.absolute:.2f} (untrained "
            f"{vaml.untrained:.2f}), KL of the token targets {vaml.kl:.2f} (untrained {vaml.untrained_kl:.2f})"
        )
    for name in (name for name in ("ac", "erac") if (out / name).exists()):
        error = against_rollouts(Run.open(out / name), prepared, "test", sentences)
        figures = f"mean error {error.absolute:.2f} (untrained {error.untrained:.2f})"
        yield f"{name.upper()}'s critic against {error.judge}: {figures}"


def program() -> str:
    """How to call seqcredit: by its name, or where `make` has put it if the shell does not find it."""
    import shutil

    if shutil.which("seqcredit"):
        return "seqcredit"
    return sys.argv[0] if Path(sys.argv[0]).name == "seqcredit" else f"{sys.executable} -m seqcredit"


def next_steps(out: Path, task: str = "translation", name: str = "seqcredit") -> Sequence[str]:
    """What to run after it: the credit page last."""
    mine, page = f"{RECIPES[task]}/erac", f"{out / 'credit.html'}"
    steps = [
        f"{name} compare {out / 'mle'} {out / 'erac'}      # a significance test, and the sentences that differ most",
        f"{name} headroom {out / 'mle'} {out / 'erac'}     # what MLE could still gain, and what is left after ERAC",
        f"{name} train {mine} --data {out / 'data'} --init-from {out / 'mle'} --set phase.3.tau=0.1",
        f"{name} inspect {out / 'mle'} {out / 'erac'} --critic {out / 'erac'} --out {page} --open",
    ]
    if task == "translation":
        sentence = "der alte mann hat gestern ein buch gekauft ."
        steps.insert(1, f'echo "{sentence}" | {name} translate {out / "erac"} --n-best 3')
    return steps
