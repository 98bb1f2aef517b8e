"""A run from two text files to figures, through the command line."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sacrebleu

from sample_runs import Shown
from seqcredit.data.batches import collate
from seqcredit.data.prepared import Prepared
from seqcredit.data.storage import checksum
from seqcredit.errors import UserError
from seqcredit.experiments.build import build_actor
from seqcredit.results import evaluate
from seqcredit.results.evaluate import (
    GUIDE_WEIGHTS,
    best_guided,
    evaluation_name,
    final_search,
    keep,
    metric_of,
    peak_memory,
    read_hypotheses,
    read_result,
    resident_memory,
    scores,
    write_result,
)
from seqcredit.rewards import EditDistance
from seqcredit.rewards.metrics import BLEU, EDIT, corpus, corpus_bleu
from seqcredit.types import pad


@pytest.mark.slow
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


@pytest.mark.slow
def test_evaluate_again_gives_the_same_figures(folder: Path, run) -> None:
    result = json.loads((folder / "run1" / "result.json").read_text())
    figures = json.loads(run("evaluate", folder / "run1", "--json").stdout)
    raw = json.loads(run("evaluate", folder / "run1", "--raw", folder / "test.de", folder / "test.en", "--json").stdout)
    assert figures["bleu"] == raw["bleu"] == result["bleu"]
    greedy = json.loads(run("evaluate", folder / "run1", "--beam", 1, "--split", "valid", "--json").stdout)
    assert greedy["sentences"] == 20
    assert "bleu " in run("evaluate", folder / "run1").stdout


@pytest.mark.slow
def test_another_way_to_search_leaves_the_result_alone(folder: Path, run, tmp_path: Path) -> None:
    """Figures and hypotheses of each evaluation are kept together, the run's own as they were."""
    shutil.copytree(folder / "run1", tmp_path / "run1")
    mine = tmp_path / "run1"
    before = {path: path.read_bytes() for path in (mine / "result.json", mine / "hypotheses" / "test.txt")}
    greedy = run("evaluate", mine, "--beam", 1, "--json")
    beside = mine / "evaluations" / "test-beam1"
    assert f"written to {beside}.json, with its hypotheses" in greedy.stderr
    said = run("evaluate", mine, "--beam", 1, "--metric", "edit", "--split", "valid").stdout
    assert said.splitlines()[-1] == f"written to {mine / 'evaluations' / 'valid-beam1-edit.json'}, with its hypotheses"
    assert {path: path.read_bytes() for path in before} == before
    kept = json.loads(beside.with_suffix(".json").read_text())
    assert {key: kept[key] for key in json.loads(greedy.stdout)} == json.loads(greedy.stdout)
    lines = [line.split() for line in beside.with_suffix(".txt").read_text().splitlines()]
    known = list(Prepared.open(folder / "data").split("test").reference_texts())
    assert corpus_bleu(lines, known).value == pytest.approx(kept["bleu"], abs=1e-4)
    assert kept["hypotheses_checksum"] == checksum(beside.with_suffix(".txt"))
    assert run("record", mine, tmp_path / "cell.json").returncode == 0
    (mine / "hypotheses" / "test.txt").write_bytes(beside.with_suffix(".txt").read_bytes() + b"one more\n")
    done = run("record", mine, tmp_path / "cell.json")
    assert done.returncode == 2
    assert "are not of one evaluation: `seqcredit evaluate" in done.stderr
    assert done.stderr.count("\n") == 1
    assert f"written to {mine / 'result.json'}" in run("evaluate", mine).stdout  # which makes both anew
    result = json.loads((mine / "result.json").read_text())
    old = json.loads(before[mine / "result.json"])
    times = {"seconds_of_search": 0, "checksum": ""}
    assert {**result, **times} == {**old, **times}
    assert run("record", mine, tmp_path / "cell.json").returncode == 0


@pytest.mark.slow
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


@pytest.mark.slow
def test_compare(folder: Path, run) -> None:
    done = run("compare", folder / "run1", folder / "run2", "--show", 2)
    assert done.returncode == 0
    assert "p = " in done.stdout
    counted = re.search(r"^(\d+) sentences are better, (\d+) worse, (\d+) the same$", done.stdout, flags=re.MULTILINE)
    assert counted
    better, worse, same = map(int, counted.groups())
    assert better + worse + same == 25
    assert done.stdout.count("sentence BLEU") == min(better, 2) + min(worse, 2) > 0


@pytest.mark.slow
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


def test_the_name_of_an_evaluation_says_what_differs(shown: Shown) -> None:
    run, final = shown.erac, final_search(shown.erac.recipe)

    def named(**other: object) -> str:
        asked = {"split": "test", "search": final, "phase": None, "metric": "bleu", **other}
        return evaluation_name(run, *asked.values())

    assert named() == named(phase="actor_critic") == "test"
    assert named(split="valid") == "valid"
    assert named(phase="mle") == "test-mle"
    assert named(search=final._replace(width=1)) == "test-beam1"
    assert named(search=final._replace(bound=7, length_penalty=0.6)) == "test-longest6-penalty0.6"
    assert named(search=final._replace(replace_unknown=True), metric="my_file:score") == "test-replaced-my_file.score"


def test_a_split_is_read_as_it_was_evaluated(shown: Shown, tmp_path: Path) -> None:
    run = replace(shown.mle, folder=Path(shutil.copytree(shown.mle.folder, tmp_path / "mle")))
    search, lines = final_search(run.recipe), [["a", "b"], [], ["c"]]
    with pytest.raises(UserError, match=r"has no hypotheses of valid; run `seqcredit evaluate .*mle --split valid`"):
        read_hypotheses(run, "valid")
    (run.folder / "hypotheses" / "valid.txt").write_text("of an older run\n")
    assert read_hypotheses(run, "valid") == [["of", "an", "older", "run"]]
    path = keep(run, "valid", {"metric": "bleu", "score": 1.0}, lines, search)
    assert path == run.folder / "evaluations" / "valid.json"
    assert read_hypotheses(run, "valid") == lines
    keep(run, "valid", {"metric": "bleu", "score": 2.0}, [["greedy"]], search._replace(width=1))
    assert read_hypotheses(run, "valid") == lines
    assert json.loads(path.read_text())["phase"] == "mle"


def test_an_older_result_is_known_by_its_bleu(shown: Shown, tmp_path: Path) -> None:
    run = replace(shown.mle, folder=Path(shutil.copytree(shown.mle.folder, tmp_path / "mle")))
    known = list(shown.prepared.split("test").reference_texts())
    with pytest.raises(UserError, match=r"mle has no result\.json"):
        read_result(run, known)
    bleu = round(corpus_bleu(read_hypotheses(run, "test"), known).value, 4)
    path = run.folder / "result.json"
    path.write_text(json.dumps({"bleu": bleu}))
    assert read_result(run, known) == ({"bleu": bleu}, read_hypotheses(run, "test"))
    for other, lines in ((bleu + 0.002, known), (bleu, known[:-1])):
        path.write_text(json.dumps({"bleu": other}))
        with pytest.raises(UserError, match="are not of one evaluation"):
            read_result(run, lines)


def test_a_result_knows_its_hypotheses(shown: Shown, tmp_path: Path) -> None:
    """By their checksum: another file of the same BLEU would not do."""
    run = replace(shown.mle, folder=Path(shutil.copytree(shown.mle.folder, tmp_path / "mle")))
    said, known = [["a"], ["b"]], [[["x", "y"]], [["z"]]]
    write_result(run, "test", {"bleu": 0.0}, said, [])
    result, lines = read_result(run, known)
    assert (result["bleu"], lines) == (0.0, said)
    (run.folder / "hypotheses" / "test.txt").write_text("b\na\n")
    with pytest.raises(UserError, match="are not of one evaluation"):
        read_result(run, known)


def test_what_diverged_is_known_from_the_log(shown: Shown, tmp_path: Path) -> None:
    """Where training has not said it: of a run that records divergence instead of rolling back."""
    run = replace(shown.mle, folder=Path(shutil.copytree(shown.mle.folder, tmp_path / "mle")))
    line = {"event": "diverged", "phase": "mle", "updates": 3, "why": "x", "time": 1.0}
    (run.folder / "log.jsonl").write_text(2 * (json.dumps(line) + "\n"))
    for choice, lost in (("record", ["mle"]), ("rollback", [])):
        asked = replace(run, recipe=replace(run.recipe, on_divergence=choice))
        (run.folder / "result.json").unlink(missing_ok=True)
        path = write_result(asked, "test", {"bleu": 1.0}, [["a"]])
        assert json.loads(path.read_text())["diverged"] == lost
    write_result(run, "test", {"bleu": 1.0}, [["a"]], ["critic"])
    write_result(run, "test", {"bleu": 2.0}, [["b"]])
    found = json.loads(path.read_text())
    assert (found["bleu"], found["diverged"]) == (2.0, ["critic"])


def test_what_was_skipped_is_known_from_the_log(shown: Shown, tmp_path: Path) -> None:
    run = replace(shown.mle, folder=Path(shutil.copytree(shown.mle.folder, tmp_path / "mle")))
    path = write_result(run, "test", {"bleu": 1.0}, [["a"]])
    assert "skipped" not in json.loads(path.read_text())
    line = {"event": "skipped", "phase": "critic", "updates": 3, "why": "too little", "skipped": ["ac"], "time": 1.0}
    (run.folder / "log.jsonl").write_text(json.dumps(line) + "\n")
    write_result(run, "test", {"bleu": 1.0}, [["a"]])
    assert json.loads(path.read_text())["skipped"] == {"phases": ["ac"], "why": "too little"}


def test_the_metric_of_a_run(shown: Shown, tmp_path: Path) -> None:
    run, prepared = shown.vaml, shown.prepared
    known = list(prepared.split("test").reference_texts())
    said = read_hypotheses(run, "test")
    reward = metric_of(run, prepared, "reward")
    ids = pad([prepared.target_ids(words) for words in said])
    payoff = EditDistance().prefix_scores(ids, collate(prepared.split("test"), np.arange(len(said))).references)
    assert corpus(reward, said, known).value == pytest.approx(float(payoff[:, -1].mean()))
    assert reward.signature(known) == "mean reward|edit"
    assert metric_of(run, prepared) == BLEU
    copied = replace(run, folder=tmp_path)
    (tmp_path / "of_the_run.py").write_text("def score(text, references):\n    return len(text.split())\n")
    assert metric_of(copied, prepared, "of_the_run:score").label == "score"
    with pytest.raises(UserError, match=r"There is no nowhere_at_all\.py"):
        metric_of(copied, prepared, "nowhere_at_all:score")


def test_the_metric_comes_first() -> None:
    references, sources = [[["a", "b", "c", "d"]], [["e", "f"]]], [["x"], ["y"]]
    figures = scores([["a", "b", "c", "x"], ["e", "f"]], references, sources, EDIT)
    assert list(figures)[:3] == ["metric", "score", "signature"]
    assert (figures["metric"], figures["score"]) == ("edit", round(100 / 6, 4))
    assert figures["bleu"] == round(corpus_bleu([["a", "b", "c", "x"], ["e", "f"]], references).value, 4)
    plain = scores([["a", "b", "c", "x"], ["e", "f"]], references, sources)
    assert (plain["metric"], plain["score"], plain["signature"]) == ("bleu", plain["bleu"], plain["bleu_signature"])


def test_scores_show_a_gamed_metric() -> None:
    references = [[["a", "b", "c", "d", "e"]], [["f"] * 60]]
    figures = scores([["a", "b", "a", "b", "<unk>"], ["f"] * 60], references, [["x"], ["y"]])
    assert figures["repeated_bigrams"] == pytest.approx((1 + 58) / (4 + 59), abs=1e-5)
    assert figures["unknown_words"] == pytest.approx(1 / 65, abs=1e-5)
    assert figures["length_ratio"] == 1.0
    assert figures["bleu_release_filter"]["sentences"] == 1


def test_scores_show_whether_outputs_are_short_wrong_or_all_the_same() -> None:
    """The brevity penalty is sacreBLEU's own; a longer output has none, and an empty one nothing else."""
    references = [[["a", "b", "c", "d", "e"], ["a", "b"]], [["f", "g", "h"]], [["f", "g", "h"]]]
    said = [["a", "b", "c", "d"], ["f"], ["f"]]
    figures = scores(said, references, [["x"]] * 3)
    known = [["a b c d e", "f g h", "f g h"], ["a b", None, None]]
    theirs = sacrebleu.corpus_bleu([" ".join(words) for words in said], known, tokenize="none", force=True)
    assert figures["brevity_penalty"] == pytest.approx(theirs.bp, abs=1e-4)
    assert 0 < figures["brevity_penalty"] < 1
    assert (figures["wrong"], figures["distinct"]) == (100.0, pytest.approx(200 / 3, abs=1e-4))
    longer = scores([["a", "b", "b"]], [[["a", "b"]]], [["x"]])
    assert (longer["brevity_penalty"], longer["distinct"]) == (1.0, 100.0)
    assert scores([["a", "b"]], [[["a"], ["a", "b"]]], [["x"]])["wrong"] == 0.0
    assert scores([[]], [[["a"]]], [["x"]])["brevity_penalty"] == 0.0


def test_peak_memory_is_in_megabytes() -> None:
    assert 50 < resident_memory() <= peak_memory() < 200_000


@pytest.mark.slow
def test_peak_memory_is_that_of_this_process_alone() -> None:
    large = bytearray(b"x") * (800 * 2**20)  # where this one has been, a child must not seem to have been
    code = "from seqcredit.results.evaluate import peak_memory; print(peak_memory())"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(child.stdout) < len(large) / 2**20


@pytest.mark.parametrize(("metric", "chosen"), [(BLEU, 2.0), (EDIT, 0.5)])
def test_validation_chooses_the_weight_of_a_guide(metric, chosen: float, shown: Shown, monkeypatch) -> None:
    """Where the outputs are known: those of one weight are the references, and none is ever as good."""
    split, tried = shown.prepared.split("valid"), []
    right = [group[0] for group in split.reference_texts()]

    def decode(_actor, _prepared, on, search, _device) -> list[list[str]]:
        assert on.name == split.name
        tried.append(search.guide_weight)
        return right if search.guide_weight == chosen else [["nothing"]] * len(right)

    monkeypatch.setattr(evaluate, "decode", decode)
    search = final_search(shown.mle.recipe)._replace(guide=build_actor(shown.mle.recipe, shown.prepared))
    found = best_guided(search.guide, shown.prepared, search, metric, "cpu")
    assert (found.guide_weight, found.width, tuple(tried)) == (chosen, search.width, GUIDE_WEIGHTS)
    named = evaluation_name(shown.mle, "test", found, None, shown.mle.recipe.metric)
    assert named.endswith(f"-guided{chosen:g}")
