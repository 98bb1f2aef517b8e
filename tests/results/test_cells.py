"""Cells are found wherever they are, and only those that belong together stand together."""

import gzip
import json
from dataclasses import replace
from operator import eq
from pathlib import Path

import numpy as np
import pytest

import seqcredit as sc
from cellar import ROOT, finish, make_data, references, spoilt, write_cell
from seqcredit import algorithms
from seqcredit.cli import main
from seqcredit.data.prepared import Prepared
from seqcredit.errors import UserError
from seqcredit.experiments import recipe as recipes
from seqcredit.experiments.runs import Run
from seqcredit.results import cells
from seqcredit.results.evaluate import metric_of
from seqcredit.rewards.metrics import BLEU, CHRF, corpus


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return make_data(tmp_path_factory.mktemp("cells") / "data")


def make_run(folder: Path, prepared: Prepared, name: str, seed: int) -> Run:
    recipe = recipes.Recipe(name, (algorithms.Mle("mle", 0.1),), seed=seed)
    return Run.create(folder, "", recipe, prepared.folder, prepared.checksums)


def test_files_runs_and_folders_of_both(prepared: Prepared, tmp_path: Path) -> None:
    write_cell(tmp_path / "all" / "erac-tau-0.04-3.json", prepared, "ERAC", spoilt(prepared, 0.1, 1), 3)
    make_run(tmp_path / "all" / "mle-1", prepared, "MLE", 1)
    (tmp_path / "all" / "data").mkdir()
    (tmp_path / "all" / "data" / "manifest.json").write_text("{}")  # of prepared data: no cell
    done = make_run(tmp_path / "all" / "elsewhere", prepared, "MLE", 2)
    finish(done, prepared, references(prepared))
    found = {cell.name + str(cell.seed): cell for cell in cells.read([tmp_path / "all", tmp_path / "all" / "mle-1"])}
    assert set(found) == {"erac-tau-0.043", "mle1", "MLE2"}
    assert (found["mle1"].score, found["MLE2"].score) == (None, 100.0)
    whole = np.array([[n, n, *counts, *counts] for n, counts in _perfect(references(prepared))])
    assert np.array_equal(found["MLE2"].statistics(), whole)
    kept = found["erac-tau-0.043"].statistics()
    assert np.array_equal(kept[:, [0, 1, 6, 7, 8, 9]], whole[:, [0, 1, 6, 7, 8, 9]])
    same = [sum(map(eq, *pair)) for pair in zip(spoilt(prepared, 0.1, 1), references(prepared), strict=True)]
    assert list(kept[:, 2]) == same != list(whole[:, 2])


def _perfect(sentences: list[list[str]]) -> list[tuple[int, list[int]]]:
    """Lengths, and numbers of n-grams of 1 to 4 words."""
    return [(len(words), [max(0, len(words) - n) for n in range(4)]) for words in sentences]


def test_counts_that_are_missing_or_broken(prepared: Prepared, tmp_path: Path) -> None:
    path = tmp_path / "mle-1.json"
    write_cell(path, prepared, "MLE", references(prepared), 1)
    (cell,) = cells.read([path])
    beside, rows = path.with_suffix(".counts.gz"), "1 2 3 4 5 6 7 8 9 10\n"
    beside.write_bytes(gzip.compress((2 * rows).encode()))
    assert np.array_equal(cell.statistics(), [range(1, 11)] * 2)
    good = beside.read_bytes()
    broken = [
        gzip.compress(text.encode())
        for text in ("", rows[:-3], rows.replace("10", "10 11"), rows + "1 2\n", rows.replace("3", "3.5"), "x")
    ]
    for data in (*broken, good[:-9], b"no gzip", good.replace(good[10:14], b"\xff\xff\xff\xff")):
        beside.write_bytes(data)
        with pytest.raises(UserError, match=r"mle-1\.counts\.gz does not hold 10 whole numbers a line"):
            cell.statistics()
    beside.unlink()
    assert cell.statistics() is None


def test_settings_and_validation_are_those_of_the_last_phase() -> None:
    (cell,) = cells.read([ROOT / "results" / "tatoeba-seeds" / "erac-1.json"])
    assert cell.joint is not None
    assert (cell.option("tau"), cell.joint.epochs, cell.future_entropy) == (0.04, 1, True)
    assert cell.validation == cell.figures["validation"]["actor_critic"]
    (cell,) = cells.read([ROOT / "results" / "tatoeba-seeds" / "mle-1.json"])
    assert cell.joint is None
    assert (str(cell.option("tau")), cell.future_entropy) == ("nan", False)


def test_a_cell_without_a_metric_is_judged_by_bleu() -> None:
    """As all of those are that were recorded before there was another one."""
    (cell,) = cells.read([ROOT / "results" / "tatoeba-seeds" / "erac-1.json"])
    assert "metric" not in cell.figures
    assert (cell.metric, cell.score, cell.signature) == (BLEU, cell.figures["bleu"], cell.figures["bleu_signature"])
    rows = cell.statistics()
    assert rows.shape == (4100, 10)
    assert BLEU.score(rows.sum(0)) == pytest.approx(cell.score, abs=1e-4)


def test_a_cell_by_another_metric_that_it_has_kept(prepared: Prepared, tmp_path: Path) -> None:
    write_cell(tmp_path / "a-1.json", prepared, "A", references(prepared), 1, chrf=77.5, chrf_signature="chrF2|x")
    (cell,) = cells.read([tmp_path], "chrf")
    assert (cell.metric, cell.score, cell.signature) == (CHRF, 77.5, "chrF2|x")
    assert cell.judged_by == BLEU
    assert cell.statistics() is None  # those beside it are BLEU's
    with pytest.raises(UserError, match=r"a-1\.json has kept no edit: choose one that it has, bleu, chrf"):
        cells.read([tmp_path], "edit")


def test_a_run_by_any_metric_while_its_data_are_there(prepared: Prepared, tmp_path: Path) -> None:
    run, said = make_run(tmp_path / "mle-1", prepared, "MLE", 1), spoilt(prepared, 0.3, 1)
    finish(run, prepared, said)
    known = [[words] for words in references(prepared)]
    for name in ("edit", "exact", "reward", "bleu"):
        (cell,) = cells.read([run.folder], name)
        judge = metric_of(run, prepared, name)
        assert (cell.metric.name, cell.judged_by) == (name, BLEU)
        assert cell.score == pytest.approx(corpus(judge, said, known).value, abs=1e-4)
        assert np.array_equal(cell.statistics(), judge.statistics(said, known))
    make_run(tmp_path / "half-2", prepared, "MLE", 2)
    assert [cell.score for cell in cells.read([tmp_path / "half-2"], "edit")] == [None]
    gone = replace(run, about={**run.about, "data": str(tmp_path / "nowhere")})
    (run.folder / "run.json").write_text(json.dumps(gone.about))
    with pytest.raises(UserError, match="has kept no edit"):
        cells.read([run.folder], "edit")


def test_metrics_do_not_stand_together(prepared: Prepared, tmp_path: Path) -> None:
    write_cell(tmp_path / "a-1.json", prepared, "A", references(prepared), 1, chrf=1.0, chrf_signature="c")
    about = {"metric": "edit", "score": 30.0, "signature": "e", "chrf": 2.0, "chrf_signature": "c"}
    write_cell(tmp_path / "b-1.json", prepared, "B", references(prepared), 1, **about)
    with pytest.raises(UserError, match=r"their metrics differ; .* or choose one that all have kept with --metric"):
        cells.check_alike(cells.read([tmp_path]))
    found = cells.read([tmp_path], "chrf")
    cells.check_alike(found)
    assert [cell.score for cell in found] == [1.0, 2.0]


def test_rows_of_numbers_that_are_not_whole(prepared: Prepared, tmp_path: Path) -> None:
    path = tmp_path / "a-1.json"
    about = {"metric": "mine:f", "score": 0.5, "signature": "mine", "metric_label": "f", "higher_is_better": False}
    write_cell(path, prepared, "A", references(prepared), 1, **about)
    path.with_suffix(".counts.gz").write_bytes(gzip.compress(b"0.25 1\n0.75 1\n"))
    (cell,) = cells.read([path])
    assert cell.metric.score(cell.statistics().sum(0)) == 0.5
    assert (cell.metric.label, cell.metric.higher) == ("f", False)
    for broken in (b"0.25\n", b"nan 1\n", b"0.25 1 1\n"):
        path.with_suffix(".counts.gz").write_bytes(gzip.compress(broken))
        with pytest.raises(UserError, match="does not hold 2 numbers a line"):
            cell.statistics()


def test_a_row_has_a_seed_once(prepared: Prepared, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("a", 2), ("b", 1)):
        write_cell(tmp_path / f"{name}-{seed}.json", prepared, "MLE", references(prepared), seed)
    found = cells.read([tmp_path])
    cells.check_once(found, lambda cell: cell.name)
    with pytest.raises(UserError, match=r"a-1\.json and .*b-1\.json both are MLE with seed 1"):
        cells.check_once(found, lambda cell: cell.recipe)


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "There is no cell"), ("{", "is damaged, it is not JSON"), ('{"bleu": 3}', "is not a cell")],
)
def test_what_is_not_a_cell(text: str | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "cell.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=said):
        cells.read([path])
    with pytest.raises(UserError):
        cells.read([tmp_path])


def test_settings_that_nobody_knows(prepared: Prepared, tmp_path: Path) -> None:
    path = tmp_path / "erac-1.json"
    write_cell(path, prepared, "ERAC", references(prepared), 1)
    kept = json.loads(path.read_text())
    del kept["settings"]
    path.write_text(json.dumps(kept))
    with pytest.raises(UserError, match=r"erac-1\.json has not kept its settings: record it again"):
        _ = cells.read([path])[0].settings


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"vocabularies": {"source": "a", "target": "b"}}, "vocabularies"),
        ({"bleu_signature": "nrefs:3"}, "metric signatures"),
        ({"split": "valid"}, "splits"),
        ({"data": {"content": "other"}}, "data"),
        ({"data": {"examples": {"test": 7}}}, "numbers of examples"),
        ({"sentences": 3}, "numbers of sentences"),
    ],
)
def test_different_data_are_not_mixed(change: dict, said: str, prepared: Prepared, tmp_path: Path) -> None:
    for seed, figures in ((1, {}), (2, change)):
        write_cell(tmp_path / f"mle-{seed}.json", prepared, "MLE", references(prepared), seed, **figures)
    with pytest.raises(UserError, match=f"mle-1.json and .*mle-2.json do not belong together: their {said} differ"):
        cells.check_alike(cells.read([tmp_path]))


def test_runs_of_other_test_references_are_not_mixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the same training data; a result of before, which says nothing of its data, is read."""
    pairs = [("1 2", "one two"), ("2", "two"), ("1", "one")] * 20
    for name, answer in (("a", "two two"), ("b", "two two"), ("c", "two one")):
        sc.train(
            sc.LSTM(hidden=4, embedding=4), pairs, test=[("2 2", answer)] * 4, algorithm=sc.MLE(epochs=1),
            longest_output=4, out=tmp_path / name, say=None
        )  # fmt: skip
    for folder in (tmp_path / "b", tmp_path / "c"):  # whoever evaluates again keeps it
        with pytest.raises(SystemExit):
            main(["evaluate", str(folder)])
    assert "content" not in capsys.readouterr().out
    first, same, other = (cells.read([tmp_path / name])[0] for name in "abc")
    cells.check_alike([first, same])
    with pytest.raises(UserError, match=r"a and .*c do not belong together: their data differ"):
        cells.check_alike([first, other])
    result = json.loads((tmp_path / "c" / "result.json").read_text())
    del result["data"], result["checksum"]
    (tmp_path / "c" / "result.json").write_text(json.dumps(result))
    cells.check_alike([first, *cells.read([tmp_path / "c"])])


def test_actor_critic_phases_that_differ_in_more_than_they_should(prepared: Prepared, tmp_path: Path) -> None:
    for seed, overrides in ((1, []), (2, ["phase.3.smoothing=0", "phase.3.epochs=2"]), (3, ["phase.3.mle_weight=0.3"])):
        write_cell(tmp_path / f"e-{seed}.json", prepared, "ERAC", references(prepared), seed, overrides)
    one, two, three = cells.read([tmp_path])
    cells.check_settings([one, two], ("smoothing",))
    with pytest.raises(UserError, match=r"smoothing = .* differ in tau alone"):
        cells.check_settings([one, two], ("tau",))
    with pytest.raises(UserError, match=r"mle_weight = 0\.1 .* has 0\.3"):
        cells.check_settings([one, three], ("smoothing",))
