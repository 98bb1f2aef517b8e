"""A small world to spoil: text, captions, prepared data, recipes, runs, checkpoints, an export, cells and a sweep.

Commands are run in it by their relative names, so that it can be copied, and each is a fork of one process that has
loaded everything.
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

NETWORKS = "[actor]\nembedding = 6\nhidden = 6\n[critic]\nembedding = 6\nhidden = 6\n"
PHASE = '[[phase]]\nobjective = "{}"\noptimizer = "adam"\nlearning_rate = 0.02\nbatch_size = 8\nepochs = {}\n'
MLE = f'name = "tiny"\nbeam = 2\nlongest_output = 6\n{NETWORKS}{PHASE.format("mle", 2)}'
ERAC = (
    f"{MLE}{PHASE.format('critic', 1)}samples = 1\ntau = 0.05\n"
    f"{PHASE.format('actor_critic', 1)}samples = 1\ntau = 0.05\n"
)
VAML = f"{MLE}{PHASE.format('soft_q', 1)}tau = 0.4\nbound = 8\n{PHASE.format('vaml', 1)}tau = 0.4\nbound = 8\n"
SWEEP = """data = "data"
runs = "runs"
results = "results"
seeds = [1]
[[cell]]
name = "mle"
recipe = "mle.toml"
[[cell]]
name = "erac"
recipe = "erac.toml"
init_from = "mle"
against = ["mle-1"]
minutes = 1.5
[[grid]]
name = "more"
recipe = "erac.toml"
seeds = [2, 3]
set = { "phase.3.tau" = [0.1, 0.2] }
"""
REPORT = """text = "What was found."
[[section]]
title = "All"
text = "A table."
cells = ["results"]
baseline = "mle"
"""
LOADED = (
    *(
        "encodings.utf_8_sig",
        "encodings.idna",
        "importlib.readers",
        "lxml.etree",
        "sacrebleu",
        "sacremoses",
        "rich.live",
    ),
    *("torch", "torch._dynamo", "matplotlib.pyplot", "matplotlib.backends.backend_svg", "PIL.JpegImagePlugin"),
    *("PIL.PpmImagePlugin", "PIL.GifImagePlugin", "PIL.BmpImagePlugin", "PIL.PngImagePlugin", "sentencepiece"),
    *("seqcredit.cli", "seqcredit.data.captions", "seqcredit.data.iwslt", "seqcredit.data.prepare"),
    *("seqcredit.experiments.catalogue", "seqcredit.experiments.progress", "seqcredit.experiments.sweep"),
    *("seqcredit.inspect.heat", "seqcredit.inspect.subjects", "seqcredit.inspect.watch", "seqcredit.inspect.page"),
    *("webbrowser", "seqcredit.api", "seqcredit.results.headroom", "seqcredit.inspect.sheet"),
    *("transformers.models.t5.modeling_t5", "transformers.models.t5.tokenization_t5"),
    *("transformers.models.auto.modeling_auto", "transformers.models.auto.tokenization_auto"),
    *("seqcredit.results.export", "seqcredit.results.report", "seqcredit.training.trainer"),
)
OWN = """from dataclasses import dataclass
import torch
from seqcredit.algorithms import Mle


def score(text, references):
    return -abs(len(text) - len(references[0])) / 10


@dataclass(frozen=True)
class Mine(Mle):
    def loss(self, models, batch, reward, noise, progress):
        return super().loss(models, batch, reward, noise, progress)
"""
MOST_MEMORY, MOST_SECONDS = 12 << 30, 8  # of computing
NOBODY = 65_534


class Done(NamedTuple):
    """What a command said, and how it ended: below 0 by a signal, None if it did not end."""

    code: int | None
    out: str
    err: str
    seconds: float


def load() -> None:
    """Everything that a command may import, so that a fork has it at once; no commit, which others may move."""
    os.environ["GIT_DIR"] = os.devnull
    for name in LOADED:
        importlib.import_module(name)
    import torch

    torch.set_num_threads(1)
    gc.freeze()  # a fork that looks for garbage would copy all of it


def run(
    words: Sequence[str],
    cwd: Path,
    nobody: bool = False,
    seconds: float = MOST_SECONDS,
    before: Callable[[], None] | None = None,
) -> Done:
    """A command in a fork of this process, in a folder, as somebody else if that is asked for, after something else."""
    said = [cwd / f".{name}" for name in ("out", "err")]
    for path in said:
        path.write_bytes(b"")
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        _command(words, cwd, said, nobody, before)
    code = _wait(child, seconds)
    if code is None:  # it may be at work, as it was told: then it stops when it is asked to
        os.kill(child, signal.SIGINT)
        code = _wait(child, seconds)
    if code is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    out, err = (path.read_bytes().decode(errors="replace") for path in said)
    return Done(code, out, err, time.monotonic() - started)


def _wait(child: int, seconds: float) -> int | None:
    """The exit code of a process; None if it has computed for so long, or ten times that has gone by."""
    ticks, last = os.sysconf("SC_CLK_TCK"), time.monotonic() + 10 * seconds
    ends = os.pidfd_open(child)
    try:
        while time.monotonic() < last:
            if select.select([ends], [], [], 0.1)[0]:
                return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if _computed(child) / ticks > seconds:
                return None
        return None
    finally:
        os.close(ends)


def _computed(child: int) -> int:
    """Ticks of the processor."""
    times = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    return int(times[11]) + int(times[12])


def _command(
    words: Sequence[str], cwd: Path, said: Sequence[Path], nobody: bool, before: Callable[[], None] | None
) -> None:
    """The child: it never returns."""
    code = 99
    try:
        for number, path in enumerate(said, 1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
        os.chdir(cwd)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        if nobody:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = ["seqcredit", *words]
        from seqcredit.cli import main

        if before:
            before()
        main()
    except SystemExit as left:
        code = int(left.code or 0)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def make(place: Path) -> None:
    """The whole of it; every command here must work."""
    place.mkdir(parents=True)
    _raw(place)
    for name, text in (("mle", MLE), ("erac", ERAC), ("vaml", VAML), ("sweep", SWEEP), ("report", REPORT)):
        (place / f"{name}.toml").write_text(text)
    files = [w for s in ("train", "valid", "test") for w in (f"--{s}", f"raw/{s}.de", f"raw/{s}.en")]
    often = ["--log-every", "1", "--checkpoint-minutes", "0"]
    for line in (
        ["prepare", "data", *files, "--tokenized"],
        ["train", "mle.toml", "--data", "data", "--out", "runs/mle-1", "--seed", "1", *often],
        ["train", "erac.toml", "--data", "data", "--out", "runs/erac-1", "--seed", "1", "--init-from", "runs/mle-1"],
        ["export", "runs/mle-1", "export"],
        ["record", "runs/mle-1", "results/mle-1.json"],
        ["record", "runs/erac-1", "results/erac-1.json", "--against", "runs/mle-1"],
    ):
        done = run(line, place)
        assert done.code == 0, (line, done)
    _stopped(place)
    _pretrained(place)
    for about in (*place.glob("runs/*/run.json"), *place.glob("stopped/run.json")):
        kept = json.loads(about.read_text())
        kept["data"] = os.path.relpath(place / "data", about.parent)
        about.write_text(json.dumps(kept, indent=1) + "\n")


def _stopped(place: Path) -> None:
    """A run that was stopped in its second phase, with two checkpoints."""
    child = os.fork()
    if child == 0:
        try:
            os.chdir(place)
            from seqcredit.data.prepared import Prepared
            from seqcredit.experiments.build import task_of
            from seqcredit.experiments.recipe import load
            from seqcredit.experiments.runs import Run
            from seqcredit.training.status import Reporting, StoppedError
            from seqcredit.training.trainer import Trainer

            recipe, data = load(Path("erac.toml"), ["seed=5"]), Prepared.open(Path("data"))
            made = Run.create(Path("stopped"), ERAC, recipe, data.folder, data.checksums)
            lines = iter(range(100))
            trainer = Trainer(task_of(recipe, data), made.folder)

            def say(line: str) -> None:
                trainer.stop = next(lines) >= 9

            trainer.reporting, trainer.say = Reporting(say, log_every=1, checkpoint_minutes=0), say
            trainer.train()
        except StoppedError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _pretrained(place: Path) -> None:
    """A small model of transformers, with its tokenizer, and a file of the user's own."""
    from transformers import T5Config, T5ForConditionalGeneration
    from transformers.utils import logging

    from tokenizing import learn

    logging.disable_progress_bar()
    tokenizer = learn([line for end in ("de", "en") for line in (place / f"raw/train.{end}").read_text().splitlines()])
    ids = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    T5ForConditionalGeneration(T5Config(vocab_size=len(tokenizer), **ids, **sizes)).save_pretrained(place / "model")
    tokenizer.save_pretrained(place / "model")
    (place / "own.py").write_text(OWN)


def _raw(place: Path) -> None:
    """Text in every form that `prepare` reads."""
    import numpy as np

    from seqcredit.data.phrases import phrases

    raw, pictures = place / "raw", place / "pictures"
    raw.mkdir()
    pictures.mkdir()
    for split, size in (("train", 24), ("valid", 5), ("test", 5)):
        pairs = [(e.source, e.references[0]) for e in phrases(split, size)]
        (raw / f"{split}.de").write_text("".join(f"{source}\n" for source, _ in pairs))
        (raw / f"{split}.en").write_text("".join(f"{target}\n" for _, target in pairs))
        (raw / f"{split}.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
        rows = [{"source": source, "references": [target]} for source, target in pairs]
        (raw / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    names = [f"{number}.jpg" for number in range(8)]
    splits = ["train", "train", "restval", "train", "val", "val", "test", "test"]
    for split, some in (("train", range(4)), ("valid", range(4, 6))):
        coco = {
            "images": [{"id": i, "file_name": names[i]} for i in some],
            "annotations": [{"image_id": i, "caption": f"a cat {i} ."} for i in some for _ in range(2)],
        }
        (pictures / f"{split}.json").write_text(json.dumps(coco))
        (pictures / f"{split}.tsv").write_text("".join(f"{names[i]}\ta dog {i} .\n" for i in some))
    sentences = [{"tokens": ["a", "cat", "."]}, {"tokens": ["a", "dog"]}]
    karpathy = {
        "images": [{"filename": n, "split": s, "sentences": sentences} for n, s in zip(names, splits, strict=True)]
    }
    (pictures / "karpathy.json").write_text(json.dumps(karpathy))
    (place / "features").mkdir()
    np.save(place / "features" / "features.npy", np.ones((8, 4), np.float16))
    (place / "features" / "features.txt").write_text("".join(f"{name}\n" for name in names))


def copy(world: Path, place: Path) -> None:
    """A copy to spoil."""
    shutil.copytree(world, place, symlinks=True)
    os.chmod(place, 0o755)
