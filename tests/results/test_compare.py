"""Two runs are compared by one metric on the same sentences, or not at all."""

import json
from pathlib import Path

import pytest

from cellar import finish, make_data, references, spoilt
from seqcredit import algorithms
from seqcredit.data.manifest import PrepareOptions
from seqcredit.data.phrases import phrases
from seqcredit.data.prepare import prepare
from seqcredit.data.prepared import Prepared
from seqcredit.data.text import Example
from seqcredit.errors import UserError
from seqcredit.experiments import recipe as recipes
from seqcredit.experiments.runs import Run
from seqcredit.results.compare import compare
from seqcredit.results.record import cell
from seqcredit.results.significance import bootstrap, differences
from seqcredit.rewards.metrics import BLEU, EDIT, Metric
from seqcredit.rewards.payoff import Payoff


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return make_data(tmp_path_factory.mktemp("compare") / "data")


def make_run(folder: Path, prepared: Prepared, share: float, payoff: Payoff | None = None, seed: int = 1) -> Run:
    recipe = recipes.Recipe(folder.name, (algorithms.Mle("mle", 0.1),), payoff=payoff or Payoff())
    run = Run.create(folder, "", recipe, prepared.folder, prepared.checksums)
    finish(run, prepared, spoilt(prepared, share, seed))
    return run


@pytest.mark.parametrize(("name", "metric", "digits"), [(None, BLEU, 1), ("edit", EDIT, 1)])
def test_figures_significance_and_sentences(
    name: str | None, metric: Metric, digits: int, prepared: Prepared, tmp_path: Path
) -> None:
    one, two = make_run(tmp_path / "a", prepared, 0.3), make_run(tmp_path / "best", prepared, 0.2, seed=2)
    said = [spoilt(prepared, share, seed) for share, seed in ((0.3, 1), (0.2, 2))]
    known = [[words] for words in references(prepared)]
    found = bootstrap([said[0]], [said[1]], known, metric=metric)
    lines = list(compare(one, two, "test", 2, name))
    assert lines[0] == f"{one.folder}  {metric.label} {found.baseline:.2f}"
    lower = "" if metric.higher else ", lower is better"
    change = f"({found.system - found.baseline:+.2f}{lower}, p = {found.p:.4f})"
    assert lines[1] == f"{two.folder}  {metric.label} {found.system:.2f}  {change}"
    assert lines[2].endswith(f"(paired bootstrap, {found.signature})")
    each = differences(*said, known, metric)
    ups, downs = [one for one in each if one.system > one.baseline], [one for one in each if one.system < one.baseline]
    gains, losses = (ups, downs) if metric.higher else (downs, ups)
    same = len(known) - len(ups) - len(downs)
    assert min(len(ups), len(downs)) > 2
    assert lines[3] == f"{len(gains)} sentences are better, {len(losses)} worse, {same} the same"
    assert (lines[4], lines[15]) == ("\nThe largest gains:", "\nThe largest losses:")
    for place, some in ((5, gains), (16, losses)):
        first = max(some, key=lambda d: (abs(d.system - d.baseline), -d.example))
        figures = f"{first.baseline:.{digits}f} -> {first.system:.{digits}f}"
        assert lines[place] == f"\n{first.example + 1}: sentence {metric.label} {figures}"
        assert lines[place + 2 : place + 5] == [
            f"  {name:9}  {' '.join(words)}"
            for name, words in (
                ("reference", references(prepared)[first.example]),
                ("a", said[0][first.example]),
                ("best", said[1][first.example]),
            )
        ]
    assert len(lines) == 4 + 2 * (1 + 2 * 5)


def test_folders_of_one_name_are_told_apart(prepared: Prepared, tmp_path: Path) -> None:
    one, two = (make_run(tmp_path / str(seed) / "run", prepared, 0.3, seed=seed) for seed in (1, 2))
    lines = list(compare(one, two, "test", 1))
    assert any(line.startswith(f"  {one.folder}  ") for line in lines)
    assert any(line.startswith(f"  {two.folder}  ") for line in lines)


def test_rewards_of_two_kinds_are_not_compared(prepared: Prepared, tmp_path: Path) -> None:
    one = make_run(tmp_path / "a", prepared, 0.3)
    two = make_run(tmp_path / "b", prepared, 0.2, Payoff(metric="edit"))
    assert len(list(compare(one, one, "test", 0, "reward"))) == 4
    with pytest.raises(UserError, match=r"a is judged by reward \(mean reward\|bleu\) and .*\|edit.*with --metric"):
        list(compare(one, two, "test", 0, "reward"))


@pytest.mark.parametrize("side", ["references", "sources"])
def test_other_sentences_are_refused(side: str, prepared: Prepared, tmp_path: Path) -> None:
    """As many of them, in the same vocabulary, and yet not the same; the baseline's data alone would not tell."""
    one = make_run(tmp_path / "a", prepared, 0.3)
    sizes = {"train": 60, "valid": 20, "test": 40}
    made = {name: list(phrases(name, size)) for name, size in sizes.items()}
    first, second = made["test"][:2]
    made["test"][:2] = (
        [Example(first.source, second.references), Example(second.source, first.references)]
        if side == "references"
        else [Example(second.source, first.references), Example(first.source, second.references)]
    )
    prepare(made, tmp_path / "other", PrepareOptions(tokenized=True))
    other = Prepared.open(tmp_path / "other")
    two = make_run(tmp_path / "b", other, 0.3)
    with pytest.raises(UserError, match=rf"a and .*b cannot be compared: the {side} of test in .*data and in .*other"):
        list(compare(one, two, "test", 0))
    with pytest.raises(UserError, match="cannot be compared"):
        cell(one, prepared, [two])
    assert cell(two, other, [two])["against"]["b"]["p"] == 1


def test_data_that_are_gone_are_said(prepared: Prepared, tmp_path: Path) -> None:
    one, two = (make_run(tmp_path / name, prepared, 0.3) for name in "ab")
    (two.folder / "run.json").write_text(json.dumps({**two.about, "data": str(tmp_path / "gone")}))
    with pytest.raises(UserError, match="gone is not a prepared folder"):
        list(compare(one, Run.open(two.folder), "test", 0))
