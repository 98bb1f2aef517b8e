"""Tables say what was measured: every figure is computed once more by numpy or sacreBLEU."""

import csv
import io
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from cellar import ROOT, bleu, by_sacrebleu, finish, make_data, references, spoilt, table_command, write_cell
from seqcredit import algorithms
from seqcredit.data.prepared import Prepared
from seqcredit.errors import UserError
from seqcredit.experiments import recipe as recipes
from seqcredit.experiments.runs import Run
from seqcredit.results import cells, tables
from seqcredit.results.significance import bootstrap
from seqcredit.results.tables import Table
from seqcredit.rewards.metrics import BLEU, EDIT, corpus


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return make_data(tmp_path_factory.mktemp("tables") / "data")


@pytest.fixture(scope="module")
def folder(prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MLE with seeds 1 to 3, ERAC with 1 and 2 and a diverged 4, nothing else."""
    place = tmp_path_factory.mktemp("tables") / "results"
    for seed in (1, 2, 3):
        write_cell(place / f"mle-{seed}.json", prepared, "MLE", spoilt(prepared, 0.2, seed), seed)
    for seed, lost in ((1, []), (2, []), (4, ["actor_critic"])):
        said = spoilt(prepared, 0.9 if lost else 0.1, 10 + seed)
        write_cell(place / f"erac-{seed}.json", prepared, "ERAC", said, seed, diverged=lost)
    return place


def rows(text: str) -> dict[str, dict[str, str]]:
    return {row["recipe"]: row for row in csv.DictReader(io.StringIO(text))}


def test_recipes_by_seeds(folder: Path, prepared: Prepared, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = table_command(capsys, folder, "--format", "csv")
    found, wanted = rows(out), references(prepared)
    mle = [bleu(spoilt(prepared, 0.2, seed), wanted) for seed in (1, 2, 3)]
    erac = [bleu(spoilt(prepared, 0.1, 10 + seed), wanted) for seed in (1, 2)]
    assert list(found) == ["MLE", "ERAC"]
    for row, scores in ((found["MLE"], mle), (found["ERAC"], erac)):
        figures = [np.mean(scores), np.std(scores, ddof=1), np.min(scores), np.max(scores)]
        assert row["n"] == str(len(scores))
        assert [float(row[key]) for key in ("mean", "sd", "min", "max")] == pytest.approx(figures, abs=0.0051)
    assert (found["MLE"]["seed 4"], found["ERAC"]["seed 3"]) == ("-", "-")
    lost = bleu(spoilt(prepared, 0.9, 14), wanted)
    assert found["ERAC"]["seed 4"] == f"{lost:.2f}†"
    assert (found["MLE"]["diverged"], found["ERAC"]["diverged"]) == ("0", "1")
    assert float(found["ERAC"]["to MLE"]) == pytest.approx(np.mean(erac) - np.mean(mle), abs=0.0051)
    assert found["ERAC"]["to MLE"].startswith("+")
    assert (found["ERAC"]["p"], found["MLE"]["to MLE"], found["MLE"]["p"]) == ("0.001", "", "")
    assert "† diverged and left out" in err
    assert "erac-4.json, actor_critic" in err


def test_one_seed_is_judged_as_by_sacrebleu(folder: Path, prepared: Prepared, capsys, tmp_path: Path) -> None:
    near = spoilt(prepared, 0.19, 1)
    write_cell(tmp_path / "near-1.json", prepared, "near", near, 1)
    out, err = table_command(capsys, folder / "mle-1.json", tmp_path, "--format", "csv")
    p, signature = by_sacrebleu(spoilt(prepared, 0.2, 1), near, [[words] for words in references(prepared)])
    assert 0.002 < p < 1
    assert rows(out)["near"]["p"] == f"{p:.3f}"
    assert signature in err


def test_several_seeds_are_judged_together(folder: Path, prepared: Prepared, tmp_path: Path, capsys) -> None:
    near = [spoilt(prepared, 0.19, seed) for seed in (7, 8)]
    for seed, said in enumerate(near, 1):
        write_cell(tmp_path / f"near-{seed}.json", prepared, "near", said, seed)
    out, _ = table_command(capsys, folder, tmp_path, "--format", "csv")
    mle = [spoilt(prepared, 0.2, seed) for seed in (1, 2, 3)]
    expected = bootstrap(mle, near, [[words] for words in references(prepared)])
    assert 0.002 < expected.p < 1
    assert rows(out)["near"]["p"] == f"{expected.p:.3f}"
    low, high = expected.interval
    assert low < high
    assert rows(out)["near"]["95 %"] == f"{low:+.2f} to {high:+.2f}"
    (tmp_path / "near-2.counts.gz").unlink()
    out, _ = table_command(capsys, folder, tmp_path, "--format", "csv")
    assert (rows(out)["near"]["p"], rows(out)["ERAC"]["p"]) == ("", "0.001")


def test_a_run_is_counted_by_its_own_data(prepared: Prepared, tmp_path: Path, capsys) -> None:
    said = {name: spoilt(prepared, share, 1) for name, share in (("MLE", 0.2), ("near", 0.19))}
    wanted = references(prepared)
    moved = tmp_path / "data"
    shutil.copytree(prepared.folder, moved)
    for name, hypotheses in said.items():
        recipe = recipes.Recipe(name, (algorithms.Mle("mle", 0.1),), seed=1)
        run = Run.create(tmp_path / "runs" / name, "", recipe, moved, prepared.checksums)
        finish(run, prepared, hypotheses)
    out, _ = table_command(capsys, tmp_path / "runs", "--format", "csv")
    p, _ = by_sacrebleu(said["MLE"], said["near"], [[words] for words in wanted])
    assert rows(out)["near"]["p"] == f"{p:.3f}"
    shutil.rmtree(moved)
    out, err = table_command(capsys, tmp_path / "runs", "--format", "csv")
    assert (rows(out)["near"]["p"], rows(out)["near"]["n"]) == ("", "1")
    assert "p is blank where a cell has no counts of its sentences beside it" in err


def test_published_cells_are_judged_as_sacrebleu_judged_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Their p was kept when they were recorded, by sacreBLEU from hypotheses and references."""
    folder = ROOT / "results" / "multi30k-five"
    out, _ = table_command(capsys, folder, "--format", "csv")
    for name, file in (("AC", "ac-1"), ("ERAC", "erac-1"), ("RAML, from MLE", "raml-from-mle-1")):
        cell = json.loads((folder / f"{file}.json").read_text())
        other = cell["against"]["mle-1"]
        assert rows(out)[name]["p"] == f"{other['p']:.3f}"
        assert rows(out)[name]["to MLE"] == f"{cell['bleu'] - other['bleu']:+.2f}"
    kept = json.loads((folder / "erac-1.json").read_text())["against"]["mle-continued-1"]
    out, _ = table_command(capsys, folder, "--format", "csv", "--baseline", "mle-continued")
    assert rows(out)["ERAC"]["p"] == f"{kept['p']:.3f}"


def test_lower_may_be_better(prepared: Prepared, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Any metric from a run's own data: differences keep their sign, and the note says which way is good."""
    known, said = [[words] for words in references(prepared)], {}
    for name, share in (("MLE", 0.3), ("near", 0.28)):
        recipe = recipes.Recipe(name, (algorithms.Mle("mle", 0.1),), seed=1)
        run = Run.create(tmp_path / name, "", recipe, prepared.folder, prepared.checksums)
        said[name] = spoilt(prepared, share, 1)
        finish(run, prepared, said[name], "edit")
    out, err = table_command(capsys, tmp_path, "--format", "csv")
    expected = bootstrap([said["MLE"]], [said["near"]], known, metric=EDIT)
    mle, near = (corpus(EDIT, said[name], known).value for name in ("MLE", "near"))
    assert near < mle
    row = rows(out)["near"]
    assert (row["seed 1"], row["to MLE"], row["p"]) == (f"{near:.2f}", f"{near - mle:+.2f}", f"{expected.p:.3f}")
    assert row["to MLE"].startswith("-")
    assert "token error rate (lower is better), test, 40 sentences, token error rate|reference:best." in err
    assert expected.signature in err
    out, err = table_command(capsys, tmp_path, "--format", "csv", "--metric", "bleu")
    assert rows(out)["near"]["seed 1"] == f"{bleu(said['near'], references(prepared)):.2f}"
    _, err = table_command(capsys, tmp_path, "--metric", "blue")
    assert "There is no metric 'blue'; the nearest is 'bleu'" in err


def test_a_run_that_diverged_before_it_was_ever_validated_counts_as_such(prepared: Prepared, tmp_path: Path) -> None:
    lost = {"diverged": ["actor_critic"], "validation": {"actor_critic": None}}
    write_cell(tmp_path / "a-1.json", prepared, "A", references(prepared), 1, **lost)
    write_cell(tmp_path / "a-2.json", prepared, "A", references(prepared), 2, validation={"actor_critic": 3.0})
    summary = tables.Summary.of(cells.read([tmp_path]), lambda cell: cell.validation)
    assert (summary.values, summary.diverged, summary.spread()) == ([3.0], 1, "3.00†")


def test_the_best_is_so_by_direction() -> None:
    found = {name: tables.Summary([mean], 0) for name, mean in {"a": 1.0, "b": 3.0, "c": 2.0}.items()}
    found["lost"] = tables.Summary([], 1)
    assert (tables.better(BLEU, found), tables.better(EDIT, found)) == ({"b"}, {"a"})
    assert tables.better(BLEU, {name: found[name] for name in ("a", "lost")}) == set()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([ROOT / "results"], "do not belong together"),
        ([ROOT / "results" / "tatoeba-seeds", "--baseline", "none"], "there is none among the rows"),
        ([ROOT / "results" / "tatoeba-ablation", "--layout", "entropy"], "both are ERAC with seed 1"),
        ([ROOT / "results" / "tatoeba-search", "--layout", "ablation"], "has learning_rate = 0.00015 and"),
        ([ROOT / "results" / "tatoeba-seeds" / "mle-1.json", "--layout", "ablation"], "no cell of ERAC"),
        ([ROOT / "results" / "tatoeba-seeds", "--layout", "table1", "--baseline", "AC"], "is for --layout plain"),
        ([ROOT / "results" / "tatoeba-seeds", "--metric", "cider"], "has kept no cider: choose one that it has, bleu"),
        ([ROOT / "nowhere"], "There is no cell"),
    ],
)
def test_what_cannot_be_made_is_said_in_a_sentence(words: list[object], said: str, capsys) -> None:
    _, err = table_command(capsys, *words)
    assert said in err
    assert err.count("\n") == 1


def test_counts_of_something_else_are_refused(folder: Path, prepared: Prepared, tmp_path: Path, capsys) -> None:
    path = tmp_path / "mle-1.json"
    score = write_cell(path, prepared, "MLE", spoilt(prepared, 0.2, 1), 1)
    path.write_text(path.read_text().replace('"bleu": ', '"bleu": 9'))
    _, err = table_command(capsys, path, folder / "erac-1.json")
    assert f"The counts of {path} give BLEU {score:.2f}, but the cell says 9{score:.2f}: record it again." in err


def test_an_unfinished_run_is_missing(folder: Path, prepared: Prepared, tmp_path: Path, capsys) -> None:
    recipe = recipes.Recipe("AC", (algorithms.Mle("mle", 0.1),), seed=2)
    Run.create(tmp_path / "ac-2", "", recipe, prepared.folder, prepared.checksums)
    out, err = table_command(capsys, folder, tmp_path / "ac-2", "--format", "csv")
    row = rows(out)["AC"]
    assert {key: row[key] for key in ("seed 2", "n", "mean", "sd", "min", "to MLE", "p")} == {
        "seed 2": "-", "n": "0", "mean": "-", "sd": "-", "min": "-", "to MLE": "-", "p": ""
    }  # fmt: skip
    assert f"Not finished: {tmp_path / 'ac-2'}." in err


# Formats

NASTY = [r"50 % & a_b #1 {x} \y ~^$", 'comma, "quote"', "a|b\nc", "*x* `y` <z>"]
TABLE = Table(["name", "b"], [[text, "1.00 ± 0.20†"] for text in NASTY], ["5 % | of_it"], {(1, 1)}, {2})


def test_csv_reads_back() -> None:
    assert list(csv.reader(io.StringIO(tables.csv_text(TABLE)))) == [TABLE.header, *TABLE.rows]


def test_latex_reads_back() -> None:
    text = tables.latex(TABLE)
    body = text.split("\\midrule\n", 1)[1].split("\\bottomrule")[0].replace("\\midrule\n", "")
    found = [re.split(r"(?<!\\) & ", line.removesuffix(r" \\")) for line in body.splitlines()]
    words = {"textbackslash": "\\", "textasciitilde": "~", "textasciicircum": "^", "textless": "<"}
    words |= {"textgreater": ">", "textbar": "|"}

    def plain(latex: str) -> str:
        latex = re.sub(r"\\textbf\{(.*)\}", r"\1", latex).replace(r"$^\dagger$", "†").replace(r"$\pm$", "±")
        return re.sub(r"\\(\w+)\{\}|\\([&%$#_{}])", lambda m: words[m[1]] if m[1] else m[2], latex)

    assert [[plain(cell) for cell in row] for row in found] == [[c.replace("\n", " ") for c in r] for r in TABLE.rows]
    assert found[1][1].startswith(r"\textbf{")
    assert text.count(r"\midrule") == 2
    assert r"\caption{5 \% \textbar{} of\_it}" in text
    assert text.count("{") == text.count("}")


def test_markdown_reads_back() -> None:
    head, rule, *lines = tables.markdown(TABLE).split("\n\n")[0].splitlines()
    assert (head, rule) == ("| name | b |", "|---|---|")
    found = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    plain = [[re.sub(r"\\(.)", r"\1", re.sub(r"^\*\*(.*)\*\*$", r"\1", cell)) for cell in row] for row in found]
    assert plain == [[c.replace("\n", " ") for c in r] for r in TABLE.rows]
    assert found[1][1] == "**1.00 ± 0.20†**"
    assert tables.markdown(TABLE).endswith("\n5 % | of\\_it\n")


def test_a_baseline_that_two_rows_could_be(prepared: Prepared, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_cell(tmp_path / f"{name}-1.json", prepared, "MLE", references(prepared), 1)
    with pytest.raises(UserError, match="there are 2 among the rows a, b"):
        tables.plain(cells.read([tmp_path]))
    assert tables.plain(cells.read([tmp_path]), "b").rows[0][0] == "MLE (b)"


def test_a_slim_table_says_nothing_twice(folder: Path) -> None:
    whole = tables.plain(cells.read([folder]))
    assert tables.slim(whole) == whole  # several seeds, and one that diverged
    few = tables.plain(cells.read([folder / name for name in ("mle-1.json", "erac-1.json", "erac-2.json")]))
    assert tables.slim(few).header == [*few.header[:-1]]
    assert tables.slim(few).rows == [row[:-1] for row in few.rows]
    one = tables.plain(cells.read([folder / "mle-1.json", folder / "erac-1.json"]))
    found = tables.slim(one)
    assert found.header == ["recipe", "seed 1", "to MLE", "95 %", "p"]
    assert found.rows == [[row[0], row[1], *row[7:10]] for row in one.rows]
    assert found.notes == one.notes


def test_a_spread_has_a_deviation_from_two_runs_on_and_a_mark_where_one_is_lost() -> None:
    assert tables.Summary([2.0, 4.0], 0).spread() == f"3.00 ± {np.std([2, 4], ddof=1):.2f}"
    assert tables.Summary([2.0], 0).spread() == "2.00"
    assert tables.Summary([2.0], 1).spread() == "2.00†"


def test_a_row_has_a_seed_once(folder: Path) -> None:
    twice = [cell for _ in range(2) for cell in cells.read([folder / "mle-1.json"])]
    with pytest.raises(UserError, match=r"both are .* with seed 1"):
        tables.plain(twice)


def test_notes_say_what_cells_do_not_share(folder: Path, prepared: Prepared, tmp_path: Path) -> None:
    assert tables.measured([]) == "No run is finished."
    alike = cells.read([folder / "mle-1.json"])
    assert tables.measured(alike).startswith("BLEU of phrases, test, 40 sentences, nrefs:1|")
    assert tables.of_data([]) == ""
    assert tables.footnotes(alike, {"MLE": alike}) == []
    for seed, beam in ((1, 1), (2, 5)):
        said = references(prepared)
        write_cell(tmp_path / f"x-{seed}.json", prepared, "ABC"[seed], said, seed, search={"beam": beam})
    mixed = cells.read([tmp_path])
    notes = tables.footnotes(mixed, {"x": mixed})
    assert notes == ["The cells were not all decoded in the same way.", notes[-1]]
    assert notes[-1] == "Cells of different recipes stand in one row: x."


def test_a_note_says_where_an_actor_did_not_move(prepared: Prepared, tmp_path: Path) -> None:
    why = {"phases": ["actor_critic"], "why": "the critic explains 0.01"}
    write_cell(tmp_path / "erac-1.json", prepared, "ERAC", references(prepared), 1, skipped=why)
    stayed = cells.read([tmp_path])
    (note,) = tables.footnotes(stayed, {"ERAC": stayed})
    assert note.startswith("The actor did not move: ")
    assert note.endswith("erac-1.json, the critic explains 0.01.")


def test_nothing_is_not_set_in_bold_and_a_column_is_as_many_letters() -> None:
    table = Table(["name", "a", "b"], [["x", "", tables.MISSING], ["y", "1", "2"]], bold={(0, 1), (0, 2), (1, 1)})
    assert tables.markdown(table).splitlines()[2:] == ["| x |  | - |", "| y | **1** | 2 |"]
    assert r"\begin{tabular}{lrr}" in tables.latex(table)


def test_counts_may_differ_from_the_cell_by_its_rounding_alone(prepared: Prepared, tmp_path: Path) -> None:
    said = spoilt(prepared, 0.2, 1)
    for name, off in (("exact", 0.0), ("rounded", 0.0004), ("other", 0.05)):
        path = tmp_path / f"{name}-1.json"
        write_cell(path, prepared, "MLE", said, 1)
        cell = json.loads(path.read_text())
        path.write_text(json.dumps({**cell, "bleu": cell["bleu"] + off}))
        (read,) = cells.read([path])
        if name == "other":
            with pytest.raises(UserError, match="record it again"):
                tables.Significances()._scores(read)
        else:
            assert tables.Significances()._scores(read) is not None
