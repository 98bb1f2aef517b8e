"""Learning tests on the built-in data, and the demo's own table."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from seqcredit.data.phrases import phrases
from seqcredit.data.prepare import prepare
from seqcredit.data.prepared import Prepared, PrepareOptions
from seqcredit.errors import UserError
from seqcredit.reporting import demo
from seqcredit.reporting.credit import against_rollouts
from seqcredit.training.runs import Run


def train(recipe: str, folder: Path, *words: object) -> dict[str, object]:
    out = folder / recipe
    options = ["--data", folder / "data", "--out", out, "--threads", 1, *words]
    command = [
        sys.executable,
        "-c",
        "from seqcredit.cli import main; main()",
        "train",
        demo.FOLDER / f"demo/{recipe}.toml",
    ]
    done = subprocess.run([*map(str, [*command, *options])], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads((out / "result.json").read_text()))


@pytest.mark.slow
def test_credit_pays(tmp_path: Path) -> None:
    """MLE learns the language; Actor-Critic finds the register that pays; its critic is far better than none."""
    sizes = {"train": 3_000, "valid": 200, "test": 500}
    prepare(
        {name: phrases(name, size) for name, size in sizes.items()}, tmp_path / "data", PrepareOptions(tokenized=True)
    )
    mle = train("mle", tmp_path)
    assert 55 < mle["bleu"] < 85
    ac = train("ac", tmp_path, "--init-from", tmp_path / "mle")
    assert ac["diverged"] == []
    assert ac["bleu"] > mle["bleu"] + 1
    prepared = Prepared.open(tmp_path / "data")
    error = against_rollouts(Run.open(tmp_path / "ac"), prepared, "test", 20)
    assert error.absolute < 0.5 * error.untrained


def result(folder: Path, name: str, bleu: float) -> None:
    (folder / name).mkdir()
    text = json.dumps({"recipe": name.upper(), "bleu": bleu, "validation": {"mle": bleu + 1}})
    (folder / name / "result.json").write_text(text)


def test_the_table_shows_differences(tmp_path: Path) -> None:
    for i, name in enumerate(demo.ROWS):
        result(tmp_path, name, 50 + i)
    table = demo._table(tmp_path)
    assert list(table.columns[1].cells) == ["50.00", "51.00", "52.00", "53.00", "54.00", "55.00"]
    assert list(table.columns[2].cells)[-1] == "+5.00"
    assert list(table.columns[3].cells)[:2] == ["-1.00", "+0.00"]


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "something").write_text("mine")
    with pytest.raises(UserError, match="is there already"):
        demo.demo(tmp_path, print)


def test_what_to_run_next_is_there() -> None:
    from seqcredit.cli import parser

    for line in demo.next_steps(Path("runs/demo")):
        words = line.split("|")[-1].split("      ")[0].split()
        assert words[0] == "seqcredit"
        assert parser().parse_args(words[1:]).run
