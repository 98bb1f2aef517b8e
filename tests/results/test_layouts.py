"""The paper's tables and others have the figures of their cells, computed once more by numpy or sacreBLEU."""

from pathlib import Path

import numpy as np
import pytest

from cellar import bleu, make_data, references, spoilt, table_command, write_cell
from seqcredit.data.prepared import Prepared
from seqcredit.results import cells, layouts, tables


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return make_data(tmp_path_factory.mktemp("layouts") / "data")


def test_table_1_has_the_papers_figures_and_ours(prepared: Prepared, tmp_path: Path) -> None:
    fed = ["actor.input_feeding=true"]
    said = {(seed, share): spoilt(prepared, share, seed) for seed in (1, 2) for share in (0.1, 0.3)}
    for seed in (1, 2):
        write_cell(tmp_path / f"ac-{seed}.json", prepared, "AC", said[seed, 0.3], seed)
        write_cell(tmp_path / f"erac-{seed}.json", prepared, "ERAC", said[seed, 0.1], seed)
        write_cell(tmp_path / f"f-{seed}.json", prepared, "AC, input feeding", said[seed, 0.1], seed, fed)
    write_cell(tmp_path / "raml-1.json", prepared, "RAML, from MLE", said[1, 0.3], 1)
    pictures = {"source": "pictures of 9 features", "target": "x"}
    write_cell(tmp_path / "c-1.json", prepared, "MLE", said[1, 0.1], 1, vocabularies=pictures, sentences=9)
    table = layouts.table1(cells.read([tmp_path]))
    found = {(row[0], row[1]): row for row in table.rows}
    assert len(table.rows) == 15
    erac = [bleu(said[seed, 0.1], references(prepared)) for seed in (1, 2)]
    mean = f"{np.mean(erac):.2f} ± {np.std(erac, ddof=1):.2f}"
    theirs = ["28.30 ± 0.06", "28.25", "28.42"]
    least, most = f"{min(erac):.2f}", f"{max(erac):.2f}"
    assert found["MT, no input feeding", "ERAC"][2:] == ["2", mean, least, most, *theirs]
    assert found["MT, input feeding", "AC"][2:4] == ["2", mean]
    assert found["MT, no input feeding", "RAML"][3] == f"{bleu(said[1, 0.3], references(prepared)):.2f}"
    assert found["MT, input feeding", "ERAC"][2:] == ["0", "-", "-", "-", "29.31 ± 0.04", "29.26", "29.36"]
    assert found["captioning", "MLE"][2:] == ["1", *[f"{erac[0]:.2f}"] * 3, "29.54 ± 0.21", "29.27", "29.89"]
    assert (table.rows.index(found["MT, no input feeding", "ERAC"]), 3) in table.bold
    assert (table.rows.index(found["MT, no input feeding", "AC"]), 3) not in table.bold
    assert table.rules == {5, 10}


def test_ablation_is_a_grid_of_validation(prepared: Prepared, tmp_path: Path) -> None:
    wanted = {}
    for number, (smoothing, rate) in enumerate([(0, 0.01), (0.001, 0.01), (0.001, 1)]):
        for seed in (1, 2):
            said = spoilt(prepared, 0.1 * (number + 1), seed)
            change = [f"phase.3.smoothing={smoothing}", f"phase.3.target_rate={rate}"]
            lost = ["actor_critic"] if (number, seed) == (0, 2) else []
            path = tmp_path / f"g{number}-{seed}.json"
            wanted[number, seed] = 1 + write_cell(path, prepared, "ERAC", said, seed, change, diverged=lost)
    write_cell(tmp_path / "ac-1.json", prepared, "AC", said, 1, ["phase.3.tau=0"])
    table = layouts.ablation(cells.read([tmp_path]))
    assert table.header == ["lambda_var", "of", "beta 0.001", "beta 0.01", "beta 0.1", "beta 1"]
    both = [[wanted[n, 1], wanted[n, 2]] for n in (1, 2)]
    texts = [f"{np.mean(pair):.2f} ± {np.std(pair, ddof=1):.2f}" for pair in both]
    assert table.rows == [
        ["0", "ours", "-", f"{wanted[0, 1]:.2f}†", "-", "-"],
        ["0", "paper", "27.91", "26.27†", "28.88", "27.38†"],
        ["0.001", "ours", "-", texts[0], "-", texts[1]],
        ["0.001", "paper", "29.41", "29.26", "29.32", "27.44"],
    ]
    assert table.bold == {(0, 3)}
    early = {"diverged": ["actor_critic"], "validation": {"actor_critic": None}}
    write_cell(
        tmp_path / "g3-1.json", prepared, "ERAC", said, 1, ["phase.3.smoothing=0", "phase.3.target_rate=1"], **early
    )
    assert layouts.ablation(cells.read([tmp_path])).rows[0][-1] == "-†"  # before it was ever validated


def test_a_search_shows_validation_alone_and_what_it_chose(prepared: Prepared, tmp_path: Path, capsys) -> None:
    scores = {
        (name, rate): 1 + write_cell(tmp_path / f"{name}-{rate}-1.json", prepared, name.upper(), said, 1, **about)
        for name, rate, share in (("ac", 1, 0.1), ("ac", 2, 0.3), ("mle", 1, 0.2), ("erac", 1, 0.3), ("erac", 2, 0.2))
        for said, about in [(spoilt(prepared, share, rate), {"diverged": ["actor_critic"] if rate > 1 else []})]
    }
    table = layouts.search(cells.read([tmp_path]))
    text = {place: f"{value:.2f}" for place, value in scores.items()}
    assert table.rows == [
        ["AC", "ac-1", "1", text["ac", 1]],
        ["AC", "ac-2", "0", "-†"],
        ["ERAC", "erac-1", "1", text["erac", 1]],
        ["ERAC", "erac-2", "0", "-†"],
        ["MLE", "mle-1", "1", text["mle", 1]],
    ]
    assert (table.bold, table.rules) == (set(), {2, 4})
    write_cell(tmp_path / "ac-3-1.json", prepared, "AC", spoilt(prepared, 0.2, 3), 1)
    assert layouts.search(cells.read([tmp_path])).bold == {(0, 3)}
    out, _ = table_command(capsys, tmp_path, "--layout", "search")
    assert f"| AC | ac-1 | 1 | **{text['ac', 1]}** |" in out


def test_where_lower_is_better_bold_is_lower(prepared: Prepared, tmp_path: Path) -> None:
    """In every table that has bold figures, and their notes say of which metric they are."""
    about = {"metric": "edit", "signature": "token error rate|reference:best"}
    for number, (name, score) in enumerate((("ERAC", 30.0), ("ERAC without future entropy", 10.0), ("AC", 20.0))):
        overrides = ["phase.3.tau=0"] if name == "AC" else [f"phase.3.smoothing={0.001 * number}"]
        more = {**about, "score": score, "validation": {"actor_critic": score + 1}}
        write_cell(tmp_path / f"{number}-1.json", prepared, name, references(prepared), 1, overrides, **more)
    found = cells.read([tmp_path])
    entropy = layouts.entropy(found)
    assert (1, 2) in entropy.bold
    assert entropy.rows[1][2] == "10.00"
    assert entropy.notes[0].startswith("token error rate (lower is better) of phrases, test")
    table = layouts.table1(found)
    places = {row[1]: number for number, row in enumerate(table.rows[:5])}
    assert (places["AC"], 3) in table.bold
    assert (places["ERAC"], 3) not in table.bold
    grid = layouts.ablation(found)
    assert grid.bold == {(2, 3)}
    assert (grid.rows[0][3], grid.rows[2][3]) == ("31.00", "11.00")
    assert grid.notes[0].startswith("Mean validation token error rate of ERAC")
    for number in (1, 2):  # two settings of one recipe
        more = {**about, "score": 1.0, "validation": {"actor_critic": 10.0 - number}}
        path = tmp_path / "tried" / f"rate-{number}-1.json"
        write_cell(path, prepared, "ERAC", references(prepared), 1, **more)
    search = layouts.search(cells.read([tmp_path / "tried"]))
    assert search.bold == {(1, 3)}
    assert search.notes[0].startswith("Validation token error rate of the last phase")
    credit = layouts.credit(found)
    assert credit.header[-1] == "test token error rate"


def test_what_critics_knew_when_their_actors_began_to_move(prepared: Prepared, tmp_path: Path) -> None:
    """The last of each curve, the mean over seeds."""
    for seed, shift in ((1, 0.0), (2, 0.2)):
        curves = {"explained": [[5, 0.1], [9, 0.5 + shift]], "agreement": [[9, 0.25]], "explained_last": [[9, -1.0]]}
        write_cell(tmp_path / f"trace-{seed}.json", prepared, "AC", references(prepared), seed, credit=curves)
    write_cell(tmp_path / "mle-1.json", prepared, "MLE", references(prepared), 1)
    table = layouts.critics(cells.read([tmp_path]))
    rows = {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}
    assert rows["trace"]["explained"].startswith("0.60")
    assert (rows["trace"]["agreement"], rows["trace"]["last third"]) == ("0.25 ± 0.00", "-1.00 ± 0.00")
    assert rows["trace"]["credit error"] == rows["mle"]["explained"] == rows["mle"]["agreement"] == tables.MISSING
    assert rows["mle"]["test BLEU"] == "100.00"


def test_what_outputs_are_like_besides_their_score(prepared: Prepared, tmp_path: Path) -> None:
    """Those figures that a cell has, the mean over seeds; the metric itself stands once, at the end."""
    for seed in (1, 2):
        more = {"brevity_penalty": 0.5 + seed / 4, "distinct": 25.0 * seed}
        write_cell(tmp_path / f"ac-{seed}.json", prepared, "AC", references(prepared), seed, **more)
    write_cell(tmp_path / "mle-1.json", prepared, "MLE", references(prepared), 1, distinct=7.0)
    table = layouts.aspects(cells.read([tmp_path]))
    rows = {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}
    assert table.header == ["way", "n", "brevity penalty", "distinct, %", "test BLEU"]
    assert rows["ac"]["brevity penalty"].startswith("0.88 ± ")
    assert rows["ac"]["distinct, %"].startswith("37.50 ± ")
    assert rows["mle"] == {"way": "mle", "n": "1", "brevity penalty": "-", "distinct, %": "7.00", "test BLEU": "100.00"}


def test_what_training_used(prepared: Prepared, tmp_path: Path) -> None:
    """Of seeds that were measured; a cell that has not kept it stays empty."""
    room = {"payoff": {"sample": 1.5, "beam": 2.25}, "entropy": 0.75}
    for seed in (1, 2):
        more = {"drawn": 12_500 * seed, "cpu": 90.0, "distinct": 40.0} | ({"headroom": room} if seed == 1 else {})
        write_cell(tmp_path / f"ac-{seed}.json", prepared, "AC", references(prepared), seed, **more)
    write_cell(tmp_path / "mle-1.json", prepared, "MLE", references(prepared), 1)
    table = layouts.costs(cells.read([tmp_path]))
    rows = {row[0]: row[1:] for row in table.rows}
    spread = f"18.75 ± {np.std([12.5, 25.0], ddof=1):.2f}"
    assert rows["ac"] == ["2", spread, "1.50 ± 0.00", "1.50", "2.25", "0.75", "40.00 ± 0.00", "100.00 ± 0.00"]
    assert rows["mle"] == ["1", *["-"] * 6, "100.00"]


def test_what_models_were_and_what_came_back(prepared: Prepared, tmp_path: Path) -> None:
    """Seed by seed, and those that have not both are left out."""
    scores: dict[str, list[float]] = {"before": [], "after": []}
    for seed in (1, 2):
        for when, share in (("before", 0.4), ("after", 0.2)):
            said = spoilt(prepared, share, seed)
            scores[when].append(write_cell(tmp_path / f"weak-{when}-{seed}.json", prepared, "x", said, seed))
    write_cell(tmp_path / "weak-before-3.json", prepared, "x", references(prepared), 3)
    write_cell(tmp_path / "strong-before-1.json", prepared, "x", references(prepared), 1)
    (row,) = layouts.starts(cells.read([tmp_path])).rows
    assert row[:3] == ["weak", "BLEU", "2"]
    assert row[4].startswith(f"{sum(scores['after']) / 2:.2f} ± ")
    assert row[5] == ", ".join(f"{b - a:+.2f}" for a, b in zip(scores["before"], scores["after"], strict=True))
    assert row[5].startswith("+")


def test_a_metric_of_ones_own_has_more_digits(prepared: Prepared, tmp_path: Path) -> None:
    for seed, score in ((1, 0.51234), (2, 0.61234)):
        about = {"metric": "mine:f", "score": score, "signature": "mine:f"}
        write_cell(tmp_path / f"a-{seed}.json", prepared, "ERAC", references(prepared), seed, **about)
    rows = layouts.entropy(cells.read([tmp_path])).rows
    assert rows[0][1:4] == ["2", "0.5623 ± 0.0707", "0.6123"]


def test_future_entropy(prepared: Prepared, tmp_path: Path) -> None:
    scores = {
        name: write_cell(tmp_path / f"{n}-1.json", prepared, name, spoilt(prepared, share, 1), 1)
        for n, (name, share) in enumerate((("ERAC", 0.3), ("ERAC without future entropy", 0.1), ("MLE", 0.0)))
    }
    table = layouts.entropy(cells.read([tmp_path]))
    one, two = (f"{scores[name]:.2f}" for name in ("ERAC", "ERAC without future entropy"))
    assert table.rows == [
        ["ERAC", "1", one, one, "28.30 ± 0.06", "28.42"],
        ["ERAC without future entropy", "1", two, two, "28.06 ± 0.05", "28.11"],
        ["AC", "0", "-", "-", "28.04 ± 0.05", "28.10"],
    ]
    assert (1, 2) in table.bold
