"""What is exported translates, far from where it was trained."""

import json
import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_an_export_translates_without_the_run_or_its_data(folder: Path, run, tmp_path: Path) -> None:
    done = run("export", folder / "run1", tmp_path / "model")
    assert done.returncode == 0, done.stderr
    elsewhere = tmp_path / "elsewhere"
    shutil.move(tmp_path / "model", elsewhere)
    assert not list(elsewhere.rglob("*.npy"))
    hypotheses = (folder / "run1" / "hypotheses" / "test.txt").read_text()
    assert run("translate", elsewhere, folder / "test.de").stdout == hypotheses
    card = (elsewhere / "README.md").read_text()
    assert card.startswith("# tiny\n")
    assert "BLEU" in card
    assert "tok:none" in card
    result = json.loads((folder / "run1" / "result.json").read_text())
    bleu, chrf = (f"{result[key]:g} (`{result[f'{key}_signature']}`)" for key in ("bleu", "chrf"))
    assert f"On 25 sentences of its test set: BLEU {bleu}, chrF {chrf}." in card
    assert str(folder) not in "".join(
        p.read_text() for p in elsewhere.rglob("*") if p.suffix in {".json", ".md", ".toml"}
    )


def test_an_existing_folder_is_not_overwritten(folder: Path, run, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("precious")
    done = run("export", folder / "run1", tmp_path / "mine")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert (tmp_path / "mine" / "file").read_text() == "precious"
