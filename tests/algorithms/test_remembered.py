"""An algorithm of the user's script itself: its run is opened and compared without the script, and trained by it."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

import starter
from algorithms.test_own import FADING
from algorithms.tiny import BATCH, REWARD, models, noise
from seqcredit.algorithms import Models, Outcome, Phase, Progress, must_be_known, objective_of, remembered, traits
from seqcredit.draws import Noise
from seqcredit.errors import UserError
from seqcredit.experiments.recipe import Recipe, load, resolved
from seqcredit.types import Batch, Reward
from starter import Done

ONLY_PYTHON = "The algorithm of the phase Mine was given in Python, and only Python knows it: put the class into a file"
SCRIPT = f"""{FADING}

import sys
from pathlib import Path

import seqcredit as sc

with Path("count").open("a") as file:
    file.write("once more\\n")
pairs = [("1 2", "one two"), ("2", "two"), ("1", "one"), ("2 1 1", "two one one")] * 30
given = {{"test": pairs[:6], "longest_output": 6, "out": sys.argv[1], "seed": int(sys.argv[2]), "say": None}}
sc.train(sc.LSTM(embedding=8, hidden=8), pairs, algorithm=Fading("Mine", 0.01, "adam", epochs=2, share=0.3), **given)
"""
LOAD = """
import sys, seqcredit as sc
trained = sc.load(sys.argv[1])
print(trained.run.recipe.phase[0].share, len(trained.translate(["1 2", "2"])), trained.evaluate().metric)
"""


def python(*words: object, cwd: Path) -> Done:
    line = [sys.executable, *map(str, words)]
    return subprocess.run(line, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_run_of_the_script_itself(tmp_path: Path) -> None:
    """Whatever looks at it does not execute the script again; the script given again finds its run finished."""
    (tmp_path / "script.py").write_text(SCRIPT)
    for seed in (1, 2, 2):
        done = python("script.py", f"run{seed}", seed, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    loaded = python("-c", LOAD, "run1", cwd=tmp_path)
    assert loaded.stdout == "0.3 2 BLEU\n", loaded.stderr
    for words in (["table", "run1", "run2"], ["compare", "run1", "run2"], ["record", "run1", "cell-1.json"]):
        done = starter.run(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert starter.run("table", "cell-1.json", "run2", cwd=tmp_path).returncode == 0
    for words in (["resume", "run1"], ["train", "run1/resolved.toml", "--data", "run1/data", "--out", "run3"]):
        done = starter.run(*words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"seqcredit: {ONLY_PYTHON}")
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run3").exists()
    assert (tmp_path / "count").read_text().count("once more") == 3


def local() -> Phase:
    """Of a class that no file has at its top."""

    @dataclass(frozen=True)
    class Local(Phase):
        trains: ClassVar[tuple[str, ...]] = ("actor", "critic")
        needs: ClassVar[tuple[str, ...]] = ("target",)
        raw: ClassVar[bool] = True
        tau: float = 0.25
        words: str = "all"

        def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
            raise NotImplementedError

    return Local("Mine", 0.1, epochs=3, tau=0.5)


def test_all_but_its_loss_is_remembered(tmp_path: Path) -> None:
    given = local()
    assert objective_of(given) == "python"
    must_be_known([given])
    (tmp_path / "recipe.toml").write_text(resolved(Recipe("r", (given,))))
    (phase,) = load(tmp_path / "recipe.toml").phase
    assert traits(phase) == traits(given) == {
        "trains": ("actor", "critic"), "needs": ("target",), "raw": True, "soft": False
    }  # fmt: skip
    assert (phase.name, phase.epochs, phase.tau, phase.words) == ("Mine", 3, 0.5, "all")  # type: ignore[attr-defined]
    assert resolved(Recipe("r", (phase,))) == resolved(Recipe("r", (given,)))
    with pytest.raises(UserError, match=f"^{ONLY_PYTHON}"):
        must_be_known([phase])
    with pytest.raises(UserError, match=f"^{ONLY_PYTHON}"):
        phase.loss(models(), BATCH, REWARD, noise(), Progress())


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"trains": "actor"}, "here: trains is 'actor', but it must be a list of networks."),
        ({"needs": [1]}, r"here: needs is \[1\], but it must be a list of networks."),
        ({"no name": 1}, "here: the key 'no name' is no name of an option."),
    ],
)
def test_a_wrong_table_is_one_sentence(table: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        remembered(table, "here")
