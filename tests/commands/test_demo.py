"""Learning tests on the built-in data, and the demo's own table."""

import argparse
import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from seqcredit.commands import demo
from seqcredit.errors import UserError
from seqcredit.experiments import recipe as recipes
from starter import Done


@pytest.mark.slow
def test_vaml_learns(tmp_path: Path) -> None:
    """Its Q comes near the exact one, and its actor learns the language, though it never saw MLE."""
    demo.make_phrases(tmp_path, demo.QUICK["translation"].examples)
    demo.train("vaml", demo.RECIPES["translation"], tmp_path, print, ("phase.soft_q.epochs=4", "phase.vaml.epochs=5"))
    result = json.loads((tmp_path / "vaml" / "result.json").read_text())
    assert result["diverged"] == []
    assert result["bleu"] > 60
    (line,) = demo.credit_lines(tmp_path, 8)
    assert line.startswith("VAML's")
    ((learned, untrained),) = re.findall(r"mean error ([\d.]+) \(untrained ([\d.]+)\)", line)
    assert float(learned) < 0.7 * float(untrained), line


def test_a_quick_one_changes_only_what_its_recipes_have() -> None:
    """Every change is of a key that its recipe has, for both tasks, and the rows go on from the same MLE."""
    for task, size in demo.QUICK.items():
        folder = recipes.RECIPES / demo.RECIPES[task]
        made = {name: recipes.load(folder / f"{name}.toml", changes) for name, changes in size.changes.items()}
        assert {recipe.phase[0] for recipe in made.values()} == {made["mle"].phase[0]}
        assert [phase.epochs for phase in made["erac"].phase[1:]] == [3, 2]
        assert made["mle-continued"].phase[1].epochs == made["erac"].phase[2].epochs


@pytest.mark.slow
def test_the_quick_demo_of_captions_shows_the_same(tmp_path: Path, run: Callable[..., Done]) -> None:
    """The same of the built-in pictures: ERAC is above MLE."""
    done = run("demo", "captioning", "--quick", "--only", "mle", "erac", "--out", tmp_path / "demo")
    assert done.returncode == 0, done.stderr
    assert "seqcredit compare" in done.stdout
    bleu = {n: json.loads((tmp_path / "demo" / n / "result.json").read_text())["bleu"] for n in ("mle", "erac")}
    assert 60 < bleu["mle"] < 82
    assert bleu["erac"] > bleu["mle"] + 1.5


def result(folder: Path, name: str, bleu: float) -> None:
    (folder / name).mkdir()
    text = json.dumps({"recipe": name.upper(), "bleu": bleu, "validation": {"mle": bleu + 1}})
    (folder / name / "result.json").write_text(text)


def test_the_table_shows_differences(tmp_path: Path) -> None:
    for i, name in enumerate(demo.ROWS):
        result(tmp_path, name, 50 + i)
    assert list(demo.table(tmp_path, ["mle", "erac"]).columns[3].cells) == ["", ""]
    table = demo.table(tmp_path)
    assert list(table.columns[1].cells) == ["50.00", "51.00", "52.00", "53.00", "54.00", "55.00"]
    assert list(table.columns[2].cells)[-1] == "+5.00"
    assert list(table.columns[3].cells)[:2] == ["-1.00", "+0.00"]


def test_the_best_row_is_marked_and_vaml_has_a_word_of_why(tmp_path: Path) -> None:
    for name, bleu in (("mle", 50.0), ("ac", 53.0), ("erac", 52.0)):
        result(tmp_path, name, bleu)
    assert list(demo.table(tmp_path, ["mle", "ac", "erac"]).columns[5].cells) == ["", "best", ""]
    result(tmp_path, "raml", 50.0)
    result(tmp_path, "vaml", 50.5)
    result_file = tmp_path / "vaml" / "result.json"
    result_file.write_text(result_file.read_text().replace("50.5", "49.5"))
    assert next(demo.remarks(tmp_path, 0)) == demo.WHY_VAML


def test_every_row_and_task_has_its_story() -> None:
    assert set(demo.LEARNS) == set(demo.ROWS)
    assert set(demo.STORY) == set(demo.RECIPES)


def test_progress_tells_what_is_being_trained_where_there_is_no_terminal(tmp_path: Path, capsys) -> None:
    """A line now and then, with the phase and the epoch of each run that has begun; nothing between two runs."""
    log = tmp_path / "erac" / "log.jsonl"
    log.parent.mkdir()
    log.write_text(
        '{"event": "train", "phase": "critic", "epoch": 3, "updates": 9}\n{"event": "phase_end", "phase": "x"'
    )
    with demo.Progress(tmp_path, every=0.02) as progress:
        time.sleep(0.1)
        assert capsys.readouterr().out == ""
        progress.running.update(erac=0.0, vaml=0.0)
        told = ""
        while "vaml" not in told:  # a busy machine takes its time
            time.sleep(0.02)
            told += capsys.readouterr().out
        progress("erac: done")
        progress.running.clear()
    assert re.fullmatch(r"  \d+ s: training erac, critic epoch 3 and vaml", told.splitlines()[0])
    assert "erac: done" in capsys.readouterr().out.splitlines()


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "something").write_text("mine")
    with pytest.raises(UserError, match="is there already"):
        demo.run(argparse.Namespace(task="translation", out=tmp_path, only=["mle"], quick=True))
    assert [path.name for path in tmp_path.iterdir()] == ["something"]


def test_what_to_run_next_is_there() -> None:
    from seqcredit.cli import parser

    for line in demo.next_steps(Path("runs/demo")):
        words = line.split("|")[-1].partition("#")[0].split()
        assert words[0] == "seqcredit"
        assert parser().parse_args(words[1:]).run
    assert line.endswith("--out runs/demo/credit.html --open")


def test_next_steps_can_be_pasted_where_the_shell_does_not_find_seqcredit(tmp_path: Path, monkeypatch) -> None:
    """After `make demo` alone, which puts it into .venv."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", [".venv/bin/seqcredit", "demo"])
    steps = demo.next_steps(Path("runs/demo"), name=demo.program())
    assert all(line.split("|")[-1].split()[0] == ".venv/bin/seqcredit" for line in steps)
    (tmp_path / "seqcredit").touch(mode=0o755)
    assert demo.program() == "seqcredit"
