"""A corpus, a recipe and two trained runs, made once through the command line."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from reporting.cellar import make_data, train
from seqcredit.data.phrases import phrases
from seqcredit.data.prepared import Prepared
from seqcredit.training.runs import Run

RECIPE = """
name = "tiny"
beam = 2
longest_output = 20
[actor]
embedding = 16
hidden = 16
[[phase]]
objective = "mle"
optimizer = "adam"
learning_rate = 0.02
epochs = 2
"""
Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="session")
def run() -> Callable[..., Done]:
    def command(*words: object, stdin: str = "") -> Done:
        line = [sys.executable, "-c", "from seqcredit.cli import main; main()", *map(str, words)]
        return subprocess.run(line, capture_output=True, text=True, check=False, input=stdin)

    return command


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, run: Callable[..., Done]) -> Path:
    place = tmp_path_factory.mktemp("whole")
    for split, size in (("train", 300), ("valid", 20), ("test", 25)):
        examples = list(phrases(split, size))
        (place / f"{split}.de").write_text("".join(e.source + "\n" for e in examples))
        (place / f"{split}.en").write_text("".join(e.references[0] + "\n" for e in examples))
    files = [word for s in ("train", "valid", "test") for word in (f"--{s}", place / f"{s}.de", place / f"{s}.en")]
    done = run("prepare", place / "data", *files, "--tokenized")
    assert done.returncode == 0, done.stderr
    assert "train: 300 examples; dropped 0 empty and 0 long (0.0%)" in done.stdout
    (place / "recipe.toml").write_text(RECIPE)
    for seed in (1, 2):
        out = place / f"run{seed}"
        done = run("train", place / "recipe.toml", "--data", place / "data", "--out", out, "--seed", seed)
        assert done.returncode == 0, done.stderr
        assert "test BLEU" in done.stdout
    return place


class Tiny(NamedTuple):
    """Made-up data, a run of MLE, critic and ERAC that is done, and one that was stopped in its third phase."""

    prepared: Prepared
    done: Run
    stopped: Run


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    place = tmp_path_factory.mktemp("tiny")
    prepared = make_data(place / "data")
    return Tiny(prepared, train(place / "done", prepared), train(place / "stopped", prepared, 2, 47))
