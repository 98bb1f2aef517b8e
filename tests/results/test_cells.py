"""Cells are found wherever they are, and only those that belong together stand together."""

import gzip
import json
from operator import eq
from pathlib import Path

import numpy as np
import pytest

from cellar import ROOT, make_data, references, spoilt, write_cell
from seqcredit import config
from seqcredit.data.prepared import Prepared
from seqcredit.errors import UserError
from seqcredit.experiments.runs import Run
from seqcredit.results import cells
from seqcredit.results.evaluate import write_hypotheses


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return make_data(tmp_path_factory.mktemp("cells") / "data")


def make_run(folder: Path, prepared: Prepared, name: str, seed: int) -> Run:
    recipe = config.Recipe(name, (config.Mle("mle", 0.1),), seed=seed)
    return Run.create(folder, "", recipe, prepared.folder, prepared.checksums)


def test_files_runs_and_folders_of_both(prepared: Prepared, tmp_path: Path) -> None:
    write_cell(tmp_path / "all" / "erac-tau-0.04-3.json", prepared, "ERAC", spoilt(prepared, 0.1, 1), 3)
    make_run(tmp_path / "all" / "mle-1", prepared, "MLE", 1)
    (tmp_path / "all" / "data").mkdir()
    (tmp_path / "all" / "data" / "manifest.json").write_text("{}")  # of prepared data: no cell
    done = make_run(tmp_path / "all" / "elsewhere", prepared, "MLE", 2)
    write_hypotheses(done, "test", references(prepared))
    (done.folder / "result.json").write_text(json.dumps({"recipe": "MLE", "seed": 2, "bleu": 100.0}))
    found = {cell.name + str(cell.seed): cell for cell in cells.read([tmp_path / "all", tmp_path / "all" / "mle-1"])}
    assert set(found) == {"erac-tau-0.043", "mle1", "MLE2"}
    assert (found["mle1"].bleu, found["MLE2"].bleu) == (None, 100.0)
    whole = np.array([[n, n, *counts, *counts] for n, counts in _perfect(references(prepared))])
    assert np.array_equal(found["MLE2"].counts(), whole)
    kept = found["erac-tau-0.043"].counts()
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
    assert np.array_equal(cell.counts(), [range(1, 11)] * 2)
    good = beside.read_bytes()
    broken = [
        gzip.compress(text.encode())
        for text in ("", rows[:-3], rows.replace("10", "10 11"), rows + "1 2\n", rows.replace("3", "3.5"), "x")
    ]
    for data in (*broken, good[:-9], b"no gzip", good.replace(good[10:14], b"\xff\xff\xff\xff")):
        beside.write_bytes(data)
        with pytest.raises(UserError, match=r"mle-1\.counts\.gz does not hold 10 whole numbers a line"):
            cell.counts()
    beside.unlink()
    assert cell.counts() is None


def test_settings_come_from_the_command_of_an_older_cell() -> None:
    (cell,) = cells.read([ROOT / "results" / "tatoeba" / "erac-1.json"])
    assert cell.actor_critic is not None
    assert (cell.actor_critic.tau, cell.actor_critic.epochs) == (0.02, 4)
    assert cell.validation == pytest.approx(49.7784, abs=1e-4)
    (cell,) = cells.read([ROOT / "results" / "tatoeba" / "mle-1.json"])
    assert cell.actor_critic is None


def test_overrides_of_a_command_are_written_in_two_ways(prepared: Prepared, tmp_path: Path) -> None:
    path = tmp_path / "erac-1.json"
    write_cell(path, prepared, "ERAC", references(prepared), 1)
    kept = json.loads(path.read_text())
    del kept["settings"]
    words = "seqcredit train recipes/tatoeba/erac.toml --set phase.3.tau=0.5 --seed 1 --set=phase.3.epochs=7"
    path.write_text(json.dumps({**kept, "command": words}))
    (cell,) = cells.read([path])
    assert (cell.actor_critic.tau, cell.actor_critic.epochs, cell.command) == (0.5, 7, words)


def test_a_row_has_a_seed_once(prepared: Prepared, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("a", 2), ("b", 1)):
        write_cell(tmp_path / f"{name}-{seed}.json", prepared, "MLE", references(prepared), seed)
    found = cells.read([tmp_path])
    cells.check_once(found, lambda cell: cell.name)
    with pytest.raises(UserError, match=r"a-1\.json and .*b-1\.json both are MLE with seed 1"):
        cells.check_once(found, lambda cell: cell.recipe)


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "There is no cell"), ("{", "cannot be read as JSON"), ('{"bleu": 3}', "is not a cell")],
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
    path.write_text(json.dumps({**kept, "command": "seqcredit train gone/recipe.toml"}))
    with pytest.raises(UserError, match=r"there is no recipe gone/recipe\.toml"):
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


def test_actor_critic_phases_that_differ_in_more_than_they_should(prepared: Prepared, tmp_path: Path) -> None:
    for seed, overrides in ((1, []), (2, ["phase.3.smoothing=0", "phase.3.epochs=2"]), (3, ["phase.3.mle_weight=0.3"])):
        write_cell(tmp_path / f"e-{seed}.json", prepared, "ERAC", references(prepared), seed, overrides)
    one, two, three = cells.read([tmp_path])
    cells.check_settings([one, two], ("smoothing",))
    with pytest.raises(UserError, match=r"smoothing = .* differ in tau alone"):
        cells.check_settings([one, two], ("tau",))
    with pytest.raises(UserError, match=r"mle_weight = 0\.1 .* has 0\.3"):
        cells.check_settings([one, three], ("smoothing",))
