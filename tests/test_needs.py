"""A bare machine: what cannot run is skipped and counted, and where CI is set it fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import needs

ROOT = Path(__file__).parents[1]
BROWSER = "tests/inspect/test_page.py::test_search_and_sort"
DATA = "tests/data/test_prepare.py::test_real_text_comes_back"
PAPER = "tests/test_recipes.py::test_numbers_of_the_tables"


def bare(*words: str, **environment: str) -> tuple[int, list[str]]:
    """pytest with nothing on the path, and without data: its exit code and its last lines."""
    without = {key: value for key, value in os.environ.items() if key != "CI" and not key.startswith("PYTEST")}
    nowhere = {"PATH": "", "SEQCREDIT_DATA": "/nowhere/data", "SEQCREDIT_PAPER": "/nowhere/paper.tex"}
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    done = subprocess.run(
        line, env={**without, **nowhere, **environment}, cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.splitlines()


@pytest.mark.slow
def test_what_cannot_run_is_counted_at_the_end() -> None:
    code, lines = bare("-n", "2", BROWSER, DATA, PAPER, "tests/credit/test_fused.py::test_values_on_a_gpu")
    assert code == 0
    (sentence,) = [line for line in lines if " skipped because " in line]
    assert sentence == lines[-2]
    assert "Chromium is not installed" in sentence
    assert "/nowhere/data is not there" in sentence
    assert "/nowhere/paper.tex is not there" in sentence
    assert sentence.count(needs.NO_GPU) == (not needs.torch.cuda.is_available())


@pytest.mark.slow
def test_where_ci_is_set_it_has_to_run() -> None:
    code, lines = bare(BROWSER, DATA, PAPER, CI="true")
    assert code == 1
    assert not any("because" in line for line in lines)
    assert any("Chromium is not installed: where CI is set this test has to run." in line for line in lines)
    assert lines[-1].split(" in ")[0] in ("3 errors", "2 errors, 1 failed", "3 failed")


def test_the_sentence() -> None:
    assert needs.told([]) == ""
    assert needs.told(["Skipped: a is not there"]) == "1 test was skipped because a is not there."
    reasons = ["Skipped: b", *["Skipped: a"] * 3, "b"]
    assert needs.told(reasons) == "3 tests were skipped because a, 2 because b."


def test_a_path_beside_the_repository_is_shown_as_such(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(needs, "DATA", needs.SHARED / "absent")
    with pytest.raises(pytest.skip.Exception, match=r"^\.\./shared/absent is not there$"):
        needs.real_data("multi30k")
    monkeypatch.setattr(needs, "DATA", tmp_path)
    with pytest.raises(pytest.skip.Exception, match=r"multi30k is not there$"):
        needs.real_data("multi30k")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception):
        needs.real_data("multi30k")
