"""Cells of results/ say what was measured and how to measure it again."""

import gzip
import json
import math
import shlex
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pytest

from cellar import finish, make_data, references, spoilt, write_counts
from seqcredit import algorithms
from seqcredit.cli import parser
from seqcredit.data.prepared import Prepared
from seqcredit.data.storage import checksum
from seqcredit.errors import UserError
from seqcredit.experiments import recipe as recipes
from seqcredit.experiments.runs import Run
from seqcredit.results import cells, headroom
from seqcredit.results.evaluate import hypotheses_file, metric_of, write_hypotheses
from seqcredit.results.record import record
from seqcredit.results.significance import bootstrap

RESULTS = Path(__file__).parents[2] / "results"
CELLS = sorted(RESULTS.rglob("*.json"))


@pytest.mark.slow
def test_a_cell_has_the_figures_the_command_and_the_significance(folder: Path, run, tmp_path: Path) -> None:
    file = tmp_path / "results" / "tiny-2.json"
    done = run("record", folder / "run2", file, "--against", folder / "run1")
    assert done.returncode == 0, done.stderr
    cell, result = json.loads(file.read_text()), json.loads((folder / "run2" / "result.json").read_text())
    del result["checksum"]  # each has its own
    assert {key: cell[key] for key in result} == result
    words = shlex.split(cell["command"])
    assert words[:2] == ["seqcredit", "train"]
    assert words[words.index("--seed") + 1] == "2"
    assert recipes.parse(cell["settings"], "cell") == recipes.load(folder / "recipe.toml", ["seed=2"])
    assert cell["data"]["checksum"] == checksum(folder / "data" / "manifest.json")
    assert cell["data"]["content"] == Prepared.open(folder / "data").content
    assert cell["data"]["examples"] == {"train": 300, "valid": 20, "test": 25}
    other = json.loads((folder / "run1" / "result.json").read_text())
    assert cell["against"]["run1"]["bleu"] == pytest.approx(other["bleu"], abs=1e-3)
    assert 0 < cell["against"]["run1"]["p"] <= 1
    kept = gzip.decompress(file.with_suffix(".txt.gz").read_bytes())
    assert kept == (folder / "run2" / "hypotheses" / "test.txt").read_bytes()


@pytest.mark.slow
def test_an_unfinished_run_has_no_cell(folder: Path, run, tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    for name in ("run.json", "resolved.toml"):
        (tmp_path / "half" / name).write_bytes((folder / "run1" / name).read_bytes())
    done = run("record", tmp_path / "half", tmp_path / "cell.json")
    assert done.returncode == 2
    assert "has no result.json" in done.stderr
    assert not (tmp_path / "cell.json").exists()


@pytest.mark.parametrize("path", CELLS, ids=lambda path: str(path.relative_to(RESULTS)))
def test_published_cells_are_whole(path: Path) -> None:
    """Recipe, seed, commit and signature, a command that parses with a recipe that exists, and no machine's paths."""
    cell = json.loads(path.read_text())
    assert len(cell["commit"]) == 12
    assert cell["bleu_signature"].split("|", 1)[1].startswith("case:mixed|eff:no|tok:none|smooth:exp|version:")
    options = parser().parse_args(shlex.split(cell["command"])[1:])
    assert recipes.found(options.recipe).exists()
    assert not options.recipe.is_absolute()
    assert not options.data.is_absolute()
    hypotheses = gzip.decompress(path.with_suffix(".txt.gz").read_bytes()).decode()
    assert hypotheses.count("\n") == cell["sentences"] == cell["data"]["examples"]["test"]
    assert path.stem.endswith(f"-{cell['seed']}") or options.set


@pytest.mark.parametrize("path", CELLS, ids=lambda path: str(path.relative_to(RESULTS)))
def test_published_counts_give_the_published_bleu(path: Path) -> None:
    """Without the references: from the sums of what stands beside the cell, by the formula of Papineni et al."""
    cell = json.loads(path.read_text())
    lines = gzip.decompress(path.with_suffix(".counts.gz").read_bytes()).decode().splitlines()
    assert len(lines) == cell["sentences"]
    if cell.get("metric", "bleu") != "bleu":
        above, below = (sum(column) for column in zip(*(map(float, line.split(" ")) for line in lines), strict=True))
        assert 100 * above / below == pytest.approx(cell["score"], abs=1e-3)
        return
    length, wanted, *ngrams = (
        sum(column) for column in zip(*(map(int, line.split(" ")) for line in lines), strict=True)
    )
    precisions = [right / of for right, of in zip(ngrams[:4], ngrams[4:], strict=True)]
    brevity = min(0.0, 1 - wanted / length)
    assert 100 * math.exp(brevity + sum(map(math.log, precisions)) / 4) == pytest.approx(cell["bleu"], abs=1e-3)
    hypotheses = gzip.decompress(path.with_suffix(".txt.gz").read_bytes()).decode().splitlines()
    assert [int(line.split()[0]) for line in lines] == [len(words.split()) for words in hypotheses]


README = (RESULTS.parent / "README.md").read_text()
# README's table: the folder of the cells, the page of the data set, and the system that stands in the row.
GAINS = (("tatoeba-seeds", "tatoeba", "raml-from-mle"), ("flickr8k-seeds", "flickr8k", "ac"))
GAINS += (("every-system-captions", "every-system", "scst"),)
# What README says below it: of which page, the row there, and the sentence.
GAINED = (
    ("tatoeba", "AC against continued MLE", "AC gains {}"),
    ("tatoeba", "ERAC against continued MLE", "ERAC {}"),
    ("flickr8k", "ERAC against continued MLE", "ERAC gains {}"),
)


def bleus(folder: str, cell: str) -> list[float]:
    """Of all seeds."""
    return [json.loads(path.read_text())["bleu"] for path in sorted((RESULTS / folder).glob(f"{cell}-[0-9].json"))]


def said_of(page: str, row: str) -> tuple[str, str]:
    """Difference and interval of a row, in the first section of a page."""
    text = (RESULTS.parent / "docs" / "results" / f"{page}.md").read_text().split("<details>")[0]
    (found,) = (line.split(" | ")[-3:-1] for line in text.splitlines() if line.startswith(f"| {row} | "))
    return found[0], found[1]


@pytest.mark.parametrize(("folder", "page", "cell"), GAINS)
def test_the_readmes_table_says_what_was_measured(folder: str, page: str, cell: str) -> None:
    """Means and deviations from the cells; the difference from them too, and the interval from the page."""
    mle, continued, best = (bleus(folder, name) for name in ("mle", "mle-continued", cell))
    assert len(mle) == len(continued) == len(best) == 3
    system = {"raml-from-mle": "RAML, from MLE", "ac": "AC", "scst": "SCST"}[cell]
    rival = system if page == "every-system" else f"{system} against continued MLE"
    scores = [f"{fmean(each):.2f} ± {stdev(each):.2f}" for each in (mle, continued, best)]
    gain = f"**{fmean(best) - fmean(continued):+.2f}** ({said_of(page, rival)[1]})"
    assert f" | {scores[0]} | {scores[1]} | {system.partition(',')[0]} {scores[2]} | {gain} |\n" in README


@pytest.mark.parametrize(("page", "row", "sentence"), GAINED)
def test_the_readme_says_what_else_was_gained(page: str, row: str, sentence: str) -> None:
    difference, interval = said_of(page, row)
    assert sentence.format(f"{difference} ({interval})") in README


def test_the_readme_says_what_the_small_model_gains() -> None:
    """Over continued MLE, from the cells."""
    folder = "every-system-captions"
    names = ("a2c", "ac-returns", "reinforce", "mixer")
    gains = [f"{fmean(bleus(folder, name)) - fmean(bleus(folder, 'mle-continued')):+.2f}" for name in names]
    assert f"A2C, AC and REINFORCE gain more ({', '.join(gains[:3])})" in README
    assert f"SCST and MIXER ({gains[3]})" in README


def test_the_readme_says_what_captions_gain_with_a_beam() -> None:
    mle, *others = (fmean(bleus("flickr8k-seeds", f"{cell}-beam-5")) for cell in ("mle", "ac", "erac"))
    ac, erac = (f"{other - mle:.2f}" for other in others)
    assert f"{ac} and {erac} above MLE" in README


def test_the_readme_says_what_one_seed_showed() -> None:
    """Scores of the cells, or their differences, sentence by sentence."""

    def of(cell: str) -> float:
        figures = json.loads((RESULTS / f"{cell}-1.json").read_text())
        return float(figures.get("score", figures["bleu"]))

    readme = " ".join(README.split())
    short = f"AC from {of('critics/paper'):.2f} to {of('critics/copying'):.2f} BLEU"
    assert f"{short}, where continued MLE has {of('critics/mle-continued'):.2f}" in readme
    exact = f"{of('cmudict/ocd-tenth'):.2f} % errors, continued MLE {of('cmudict/mle-continued'):.2f} %"
    assert exact in readme
    ends = [(row, end) for end in ("-greedy", "") for row in ("ac-copying", "erac-copying")]
    gains = [of(f"europarl/{row}{end}") - of(f"europarl/mle-continued{end}") for row, end in ends]
    said = "AC and ERAC are {:.2f} and {:.2f} BLEU above continued MLE greedily, {:.2f} and {:.2f} with beam 5"
    assert said.format(*gains) in readme
    rows = ("raml-from-mle", "vaml-copying", "ac", "erac")
    gains = [of(f"multi30k-five/{row}") - of("multi30k-five/mle-continued") for row in rows]
    assert f"are {min(gains):.1f} to {max(gains):.1f} BLEU above continued MLE" in readme


def test_a_cell_has_the_counts_of_its_sentences(tmp_path: Path) -> None:
    prepared, recipe = make_data(tmp_path / "data"), recipes.Recipe("tiny", (algorithms.Mle("mle", 0.1),), seed=1)
    said = [[], *spoilt(prepared, 0.3, 1)[1:]]
    run = Run.create(tmp_path / "run", "", recipe, prepared.folder, prepared.checksums)
    finish(run, prepared, said)
    file, expected = tmp_path / "cells" / "tiny-1.json", tmp_path / "expected.json"
    record(run, prepared, file)
    write_counts(expected, said, references(prepared))
    kept = file.with_suffix(".counts.gz").read_bytes()
    assert gzip.decompress(kept) == gzip.decompress(expected.with_suffix(".counts.gz").read_bytes())
    assert gzip.decompress(kept).count(b"\n") == 40
    record(run, prepared, file)
    assert file.with_suffix(".counts.gz").read_bytes() == kept
    assert kept[4:8] == bytes(4)  # no time in it
    assert gzip.decompress(file.with_suffix(".txt.gz").read_bytes()) == hypotheses_file(run, "test").read_bytes()
    assert not {"credit", "headroom"} & json.loads(file.read_text()).keys()
    (run.folder / headroom.FILE).write_text('{"greedy": 12.5}')
    record(run, prepared, file)
    assert json.loads(file.read_text())["headroom"] == {"greedy": 12.5}


def test_only_runs_on_the_same_sentences_are_compared(tmp_path: Path) -> None:
    recipe, runs = recipes.Recipe("tiny", (algorithms.Mle("mle", 0.1),), seed=1), []
    several = [make_data(tmp_path / name, size) for name, size in (("data", 40), ("other", 41))]
    for prepared in several:
        runs.append(Run.create(tmp_path / f"{prepared.folder.name}-run", "", recipe, prepared.folder, {}))
        finish(runs[-1], prepared, spoilt(prepared, 0.3, 1))
    with pytest.raises(UserError, match=r"cannot be compared: the references of test in .*data and in .*other differ"):
        record(runs[0], several[0], tmp_path / "cell.json", [runs[1]])
    assert not (tmp_path / "cell.json").exists()


def test_a_cell_of_any_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are kept, whole numbers as such, and give its figure again; so is the comparison with other runs."""
    prepared, known = make_data(tmp_path / "data"), []
    (tmp_path / "of_mine.py").write_text(
        "def share(text, references):\n    right = references[0].split()\n"
        "    return sum(a == b for a, b in zip(text.split(), right)) / len(right)\n"
    )
    monkeypatch.chdir(tmp_path)
    known = [[words] for words in references(prepared)]
    said = {share: spoilt(prepared, share, 1) for share in (0.3, 0.1)}
    for name, whole in (("of_mine:share", False), ("edit", True), ("rouge-l", False), ("chrf", True)):
        runs = []
        for share, lines in said.items():
            recipe = recipes.Recipe("tiny", (algorithms.Mle("mle", 0.1),), seed=1)
            folder = tmp_path / name.replace(":", "-") / str(share)
            runs.append(Run.create(folder, "", recipe, prepared.folder, prepared.checksums))
            finish(runs[-1], prepared, lines, name)
        path = tmp_path / "cells" / name.replace(":", "-") / "tiny-1.json"
        record(runs[1], prepared, path, [runs[0]])
        kept, judge = json.loads(path.read_text()), metric_of(runs[1], prepared, name)
        assert (kept["metric"], kept["metric_label"]) == (name, judge.label)
        text = gzip.decompress(path.with_suffix(".counts.gz").read_bytes()).decode()
        assert ("." in text) != whole
        (cell,) = cells.read([path])
        rows = judge.statistics(said[0.1], known)
        assert np.array_equal(cell.statistics(), rows)
        assert cell.metric.score(rows.sum(0)) == pytest.approx(cell.score, abs=1e-4)
        found = bootstrap([said[0.3]], [said[0.1]], known, metric=judge)
        assert kept["against"]["0.3"][name] == round(found.baseline, judge.digits + 2)
        assert (kept["against"]["0.3"]["p"], kept["against"]["0.3"]["test"]) == (round(found.p, 4), found.signature)


def test_figures_of_another_evaluation_are_refused(tmp_path: Path) -> None:
    prepared, recipe = make_data(tmp_path / "data"), recipes.Recipe("tiny", (algorithms.Mle("mle", 0.1),), seed=1)
    run = Run.create(tmp_path / "run", "", recipe, prepared.folder, prepared.checksums)
    finish(run, prepared, spoilt(prepared, 0.3, 1))
    write_hypotheses(run, "test", spoilt(prepared, 0.1, 1))
    with pytest.raises(UserError, match=r"result\.json and .*test\.txt are not of one evaluation: `seqcredit evaluate"):
        record(run, prepared, tmp_path / "cell.json")
    assert not (tmp_path / "cell.json").exists()


def test_a_cell_keeps_the_curve_of_its_credit_error(tmp_path: Path) -> None:
    """Over the updates of all phases, and without what a rollback undid."""
    prepared, recipe = make_data(tmp_path / "data"), recipes.Recipe("tiny", (algorithms.Mle("mle", 0.1),), seed=1)
    run = Run.create(tmp_path / "run", "", recipe, prepared.folder, prepared.checksums)
    finish(run, prepared, spoilt(prepared, 0.3, 1))
    log = [("validation", "a", 5, 2.0), ("phase_end", "a", 5, None), ("validation", "b", 5, 1.5)]
    log += [("validation", "b", 10, 9.0), ("validation", "b", 10, 1.0)]
    entries = [
        {"event": event, "phase": phase, "updates": n, "epoch": 0} | ({"credit_error": v} if v is not None else {})
        for event, phase, n, v in log
    ]
    (run.folder / "log.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    record(run, prepared, tmp_path / "tiny-1.json")
    found = json.loads((tmp_path / "tiny-1.json").read_text())["credit"]
    assert found == {"credit_error": [[5, 2.0], [10, 1.5], [15, 1.0]]}
    kept, live = cells.read([tmp_path / "tiny-1.json"])[0], cells.read([run.folder])[0]
    assert kept.curve("credit_error") == live.curve("credit_error") == [(5, 2.0), (10, 1.5), (15, 1.0)]
    assert (kept.least("credit_error"), kept.least("credit_kl")) == (1.0, None)
