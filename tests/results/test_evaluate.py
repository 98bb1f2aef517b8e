"""A run from two text files to figures, through the command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from seqcredit.results.evaluate import peak_memory, resident_memory, scores

pytestmark = pytest.mark.slow


def test_the_result_has_all_that_a_figure_needs(folder: Path, run) -> None:
    result = json.loads((folder / "run1" / "result.json").read_text())
    assert result["recipe"] == "tiny"
    assert result["seed"] == 1
    assert "version:" in result["bleu_signature"]
    assert result["sentences"] == 25
    assert result["bleu_release_filter"]["sentences"] == 25
    assert result["seconds"] > 0
    assert result["peak_memory_mb"] > 50
    for key in ("commit", "chrf", "length_ratio", "unknown_words", "repeated_bigrams", "vocabularies", "validation"):
        assert key in result
    assert len((folder / "run1" / "hypotheses" / "test.txt").read_text().splitlines()) == 25


def test_evaluate_again_gives_the_same_figures(folder: Path, run) -> None:
    result = json.loads((folder / "run1" / "result.json").read_text())
    figures = json.loads(run("evaluate", folder / "run1", "--json").stdout)
    raw = json.loads(run("evaluate", folder / "run1", "--raw", folder / "test.de", folder / "test.en", "--json").stdout)
    assert figures["bleu"] == raw["bleu"] == result["bleu"]
    greedy = json.loads(run("evaluate", folder / "run1", "--beam", 1, "--split", "valid", "--json").stdout)
    assert greedy["sentences"] == 20
    assert "bleu " in run("evaluate", folder / "run1").stdout


def test_translate_streams_and_gives_n_best(folder: Path, run) -> None:
    lines = (folder / "test.de").read_text().splitlines()[:3]
    hypotheses = (folder / "run1" / "hypotheses" / "test.txt").read_text().splitlines()[:3]
    done = run("translate", folder / "run1", stdin="\n".join(lines) + "\n")
    assert done.stdout.splitlines() == hypotheses
    best = run("translate", folder / "run1", folder / "test.de", "--n-best", 2, "--scores").stdout.splitlines()
    assert len(best) == 50
    number, logp, text = best[0].split("\t")
    assert number == "1"
    assert float(logp) < 0
    assert text == hypotheses[0]


def test_compare(folder: Path, run) -> None:
    done = run("compare", folder / "run1", folder / "run2", "--show", 2)
    assert done.returncode == 0
    assert "p = " in done.stdout
    assert done.stdout.count("sentence BLEU") == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["evaluate", "NOWHERE"], "NOWHERE is not a run folder"),
        (["evaluate", "RUN", "--split", "dev"], "has no split 'dev'"),
        (["evaluate", "RUN", "--phase", "x"], "no weights of phase 'x'"),
        (["translate", "RUN", "NOWHERE"], "There is no file NOWHERE"),
        (["compare", "RUN", "RUN", "--split", "valid2"], "has no split 'valid2'"),
        (["train", "NOWHERE"], "There is no recipe NOWHERE"),
        (["train", "RECIPE"], "No data: give --data"),
        (["train", "RECIPE", "--data", "RUN"], "not a prepared folder"),
        (["train", "RECIPE", "--data", "DATA", "--out", "RUN"], "is there already"),
        (["train", "RECIPE", "--data", "DATA", "--set", "phase.1.epoch=3"], "the nearest is 'epochs'"),
        (["prepare", "OUT"], "--train and --valid are needed"),
        (["prepare", "OUT", "--train", "a", "b", "c", "--valid", "a.tsv"], "give two parallel text files"),
        (["resume", "NOWHERE"], "NOWHERE is not a run folder"),
    ],
)
def test_one_sentence_for_each_slip(folder: Path, run, words: list[str], sentence: str, tmp_path: Path) -> None:
    names = {"RUN": folder / "run1", "RECIPE": folder / "recipe.toml", "DATA": folder / "data", "OUT": tmp_path / "out"}
    done = run(*(names.get(word, word) for word in words))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("seqcredit: ")
    assert sentence in line
    assert not (tmp_path / "out").exists()


def test_scores_show_a_gamed_metric() -> None:
    references = [[["a", "b", "c", "d", "e"]], [["f"] * 60]]
    figures = scores([["a", "b", "a", "b", "<unk>"], ["f"] * 60], references, [["x"], ["y"]])
    assert figures["repeated_bigrams"] == pytest.approx((1 + 58) / (4 + 59), abs=1e-5)
    assert figures["unknown_words"] == pytest.approx(1 / 65, abs=1e-5)
    assert figures["length_ratio"] == 1.0
    assert figures["bleu_release_filter"]["sentences"] == 1


def test_peak_memory_is_in_megabytes() -> None:
    assert 50 < resident_memory() <= peak_memory() < 200_000


def test_peak_memory_is_that_of_this_process_alone() -> None:
    large = bytearray(b"x") * (800 * 2**20)  # where this one has been, a child must not seem to have been
    code = "from seqcredit.results.evaluate import peak_memory; print(peak_memory())"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(child.stdout) < len(large) / 2**20
