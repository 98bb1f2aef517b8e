"""The report says what the cells say: every figure is read off the JSON once more, and nothing is left out."""

import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from cellar import MLE, ROOT, bleu, make_data, references, spoilt, write_cell
from seqcredit.cli import main
from seqcredit.data.prepared import Prepared
from seqcredit.results import report
from seqcredit.results.headroom import WAYS
from seqcredit.results.significance import bootstrap

RESULTS = ROOT / "results"
PAGES = ROOT / "docs" / "results"
SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:2.6.0"
TEST = "nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:none|smooth:exp|version:2.6.0"


SHARES = {"mle": 0.2, "ac": 0.19, "erac": 0.1}  # of words that are wrong


def command(*words: object) -> int:
    with pytest.raises(SystemExit) as done:
        main(["report", *map(str, words)])
    return int(done.value.code or 0)


def sections(text: str) -> dict[str, str]:
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in text.split("\n## ")[1:]}


def tables(text: str) -> Iterator[list[dict[str, str]]]:
    """Every table of a text in Markdown, as rows by their heads."""
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        lines = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in block.splitlines()]
        yield [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]


def table(text: str, head: str) -> dict[str, dict[str, str]]:
    """The one that has this head first, by its first column."""
    return {row[head]: row for row in every_row(text, head)}


def every_row(text: str, head: str) -> list[dict[str, str]]:
    (found,) = [rows for rows in tables(text) if next(iter(rows[0])) == head]
    return found


# The committed one


def test_the_committed_report_is_current_and_nothing_is_left_over(monkeypatch) -> None:
    """Every page and every figure is one that the report makes, and is linked to from the short one."""
    monkeypatch.chdir(ROOT)
    made = report.make(Path("results/report.toml"), Path("RESULTS.md"))
    assert not made.stale()
    assert {path.resolve() for path in made.pages} == set(PAGES.glob("*.md"))
    assert {path.resolve() for path in made.figures} == set((PAGES / "figures").iterdir())
    assert made.text.count("\n") <= 150
    assert all(f"](docs/results/{path.name})" in made.text for path in made.pages)


def published() -> Iterator[tuple[str, dict[str, Any], list[tuple[Path, dict[str, Any]]]]]:
    """Sections of the committed pages with their cells: text, TOML, and path and JSON of each."""
    for page in tomllib.loads((RESULTS / "report.toml").read_text())["page"]:
        found = sections((PAGES / f"{page['name']}.md").read_text().replace("\\_", "_"))
        for section in page["section"]:
            paths = [path for pattern in section.get("cells", []) for path in sorted(RESULTS.glob(pattern))]
            if paths:
                yield found[section["title"]], section, [(path, json.loads(path.read_text())) for path in paths]


def named(path: Path, cell: dict[str, Any]) -> str:
    """The name of a cell, without its seed."""
    return path.stem.removesuffix(f"-{cell['seed']}")


def figure(cell: dict[str, Any]) -> float:
    """Of its metric, which is BLEU where nothing else is said."""
    return float(cell.get("score", cell["bleu"]))


def test_figures_of_the_committed_report_are_those_of_the_cells() -> None:
    """BLEU of every seed and differences of means, in both tables; p where sacreBLEU's was kept."""
    seen, judged = set(), 0
    for text, section, cells in published():
        if section.get("layout", "plain") != "plain":
            COMMITTED[section["layout"]](text, cells)
            seen |= {path for path, _ in cells}
            continue
        rows, names = table(text, "recipe"), {}
        means: dict[str, float] = {}
        for path, cell in cells:
            seen.add(path)
            name = named(path, cell)
            names[name] = next(key for key in (f"{cell['recipe']} ({name})", cell["recipe"]) if key in rows)
            assert rows[names[name]][f"seed {cell['seed']}"] == f"{figure(cell):.2f}" + "†" * bool(cell.get("diverged"))
        assert set(rows) == set(names.values())
        for name in names:
            means[name] = fmean(figure(c) for p, c in cells if p.stem == f"{name}-{c['seed']}")
        base = section["baseline"]
        compared = table(text, "compared") if "rivals" in section else {}
        pairs = [(name, base, rows[names[name]], f"to {names[base]}") for name in names if name != base]
        for one, other in section.get("rivals", []):
            pairs.append((one, other, compared[f"{names[one]} against {names[other]}"], "difference"))
        assert len(compared) == len(section.get("rivals", []))
        lost = {named(p, c) for p, c in cells if c.get("diverged")}  # one seed each
        for one, other, row, head in pairs:
            if one in lost:
                assert (row[head], row["p"]) == ("-", "")
                continue
            assert row[head] == f"{means[one] - means[other]:+.2f}"
            kept = [c["against"] for p, c in cells if p.stem == f"{one}-{c['seed']}"]
            others = {f"{name}-1" for name in names} - {f"{other}-1"}  # two rows may have the same BLEU
            judges = {name: k for name, k in kept[0].items() if name not in others}
            key = cells[0][1].get("metric", "bleu")
            known = [k["p"] for k in judges.values() if abs(k[key] - means[other]) < 1e-3]
            if known and len(kept) == 1:
                judged += 1
                assert row["p"] == f"{known[0]:.3f}"
    assert judged >= 12
    assert seen == {path for path in RESULTS.rglob("*.json") if "recipe" in json.loads(path.read_text())}


Found = list[tuple[Path, dict[str, Any]]]


def committed_credit(text: str, found: Found) -> None:
    """One seed each: the least of every curve, and BLEU."""
    rows = table(text, "way")
    assert set(rows) == {named(path, cell) for path, cell in found}
    for path, cell in found:
        row, credit = rows[named(path, cell)], cell.get("credit", {})
        least = [min(v for _, v in credit[key]) if key in credit else None for key in ("credit_error", "credit_kl")]
        said = ["-" if value is None else f"{value:.2f}" for value in least]
        assert [row["n"], row["credit error"], row["KL of token targets"]] == ["1", *said]
        assert row["test BLEU"] == f"{cell['bleu']:.2f}"


def committed_critics(text: str, found: Found) -> None:
    """One seed each: the last of every curve, and BLEU."""
    rows = table(text, "way")
    assert set(rows) == {named(path, cell) for path, cell in found}
    columns = {"explained": "explained", "first third": "explained_first", "agreement": "agreement"}
    for path, cell in found:
        row, credit = rows[named(path, cell)], cell.get("credit", {})
        for column, key in {**columns, "credit error": "credit_error"}.items():
            assert row[column] == (f"{credit[key][-1][1]:.2f}" if key in credit else "-")
        assert (row["n"], row["test BLEU"]) == ("1", f"{cell['bleu']:.2f}")


def committed_aspects(text: str, found: Found) -> None:
    """Means over seeds of the figures that the cells have."""
    rows, groups = table(text, "way"), {}
    for path, cell in found:
        groups.setdefault(named(path, cell), []).append(cell)
    assert rows.keys() == groups.keys()
    columns = {"BLEU": "bleu", "length ratio": "length_ratio", "wrong, %": "wrong", "distinct, %": "distinct"}
    for name, group in groups.items():
        row, label = rows[name], group[0]["metric_label"]
        for column, key in {**columns, "CIDEr-D": "cider"}.items():
            if column == label:
                assert column not in row  # it stands at the end
            elif column in row:
                assert_mean(row[column], [cell[key] for cell in group if key in cell])
        assert row["n"] == str(len(group))
        assert_mean(row[f"test {label}"], [cell["score"] for cell in group])


def committed_costs(text: str, found: Found) -> None:
    """Means over seeds of what the cells have kept."""
    rows, groups = table(text, "way"), {}
    for path, cell in found:
        groups.setdefault(named(path, cell), []).append(cell)
    assert rows.keys() == groups.keys()
    for name, group in groups.items():
        assert rows[name]["n"] == str(len(group))
        assert_mean(rows[name]["samples, thousands"], [cell["drawn"] / 1000 for cell in group])
        assert_mean(rows[name]["CPU time, minutes"], [cell["cpu"] / 60 for cell in group])
        assert_mean(rows[name]["entropy"], [cell["headroom"]["entropy"] for cell in group if "headroom" in cell])


def committed_search(text: str, found: Found) -> None:
    """One seed each: validation, and the best of every recipe in bold."""
    rows = {row["tried"]: row for row in every_row(text, "recipe")}
    last = {path.stem.removesuffix("-1"): [*cell["validation"].values()][-1] for path, cell in found}
    recipes = {path.stem.removesuffix("-1"): cell["recipe"] for path, cell in found}
    for name, best in last.items():
        rivals = [value for other, value in last.items() if recipes[other] == recipes[name]]
        bold = "**" if len(rivals) > 1 and best == max(rivals) else ""
        assert rows[name] == {"recipe": recipes[name], "tried": name, "n": "1", "validation": f"{bold}{best:.2f}{bold}"}
    assert rows.keys() == last.keys()


def committed_ablation(text: str, found: Found) -> None:
    """One seed each: validation at its place; those that diverged are not there, but a mark is."""
    rows = {row["lambda_var"]: row for row in every_row(text, "lambda_var") if row["of"] == "ours"}
    for path, cell in found:
        phase = cell["settings"]["phase"][-1]
        said = rows[f"{phase['smoothing']:g}"][f"beta {phase['target_rate']:g}"].strip("*")
        assert said == ("-†" if cell.get("diverged") else f"{cell['validation'][phase['objective']]:.2f}"), path


def committed_table1(text: str, found: Found) -> None:
    """The mean of all seeds, of the five algorithms in their settings."""
    rows = {(row["task"], row["algorithm"]): row for row in every_row(text, "task")}
    groups: dict[tuple[str, str], list[float]] = {}
    for _, cell in found:
        fed = "MT, input feeding" if cell["settings"]["actor"]["input_feeding"] else "MT, no input feeding"
        task = "captioning" if cell["vocabularies"]["source"].startswith("pictures") else fed
        groups.setdefault((task, cell["recipe"].removesuffix(", from MLE")), []).append(cell["bleu"])
    assert groups.keys() <= rows.keys()
    for place, values in groups.items():
        assert rows[place]["n"] == str(len(values))
        assert rows[place]["mean"].strip("*").split(" ± ")[0] == f"{fmean(values):.2f}"


def committed_entropy(text: str, found: Found) -> None:
    """The mean of all seeds."""
    rows = table(text, "algorithm")
    for name in {cell["recipe"] for _, cell in found}:
        values = [cell["bleu"] for _, cell in found if cell["recipe"] == name]
        assert rows[name]["n"] == str(len(values))
        assert rows[name]["mean"].strip("*").split(" ± ")[0] == f"{fmean(values):.2f}"
        assert rows[name]["max"] == f"{max(values):.2f}"


def committed_headroom(text: str, found: Found) -> None:
    """Every way of every row, of sentences that are new and of some that are not: the mean of its seeds."""
    rows = {(row["recipe"], row["of"]): row for row in every_row(text, "recipe")}
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, cell in found:
        recipe, name = cell["recipe"], named(path, cell)
        shown = f"{recipe} ({name})" if (f"{recipe} ({name})", "BLEU") in rows else recipe
        groups.setdefault(shown, []).append(cell["headroom"])
    assert {recipe for recipe, _ in rows} == groups.keys()
    assert len(rows) == 2 * len(groups)
    for shown, rooms in groups.items():
        for figure, said in (("bleu", "BLEU"), ("payoff", "pay-off")):
            row = rows[shown, said]
            assert row["n"] == str(len(rooms))
            for way, column in WAYS.items():
                assert_mean(row[column], [room[figure][way] for room in rooms])
            for way in ("sample", "greedy"):
                assert_mean(row[f"train: {WAYS[way]}"], [room["train"][figure][way] for room in rooms])
        assert_mean(rows[shown, "BLEU"]["nats"], [room["nll"] for room in rooms])
        assert_mean(rows[shown, "BLEU"]["train: nats"], [room["train"]["nll"] for room in rooms])


def assert_mean(shown: str, values: list[float]) -> None:
    """A figure, and behind it the deviation of several."""
    mean, _, deviation = shown.partition(" ± ")
    assert mean == f"{fmean(values):.2f}"
    assert deviation == (f"{stdev(values):.2f}" if len(values) > 1 else "")


COMMITTED = {
    "headroom": committed_headroom,
    "credit": committed_credit,
    "critics": committed_critics,
    "aspects": committed_aspects,
    "costs": committed_costs,
    "search": committed_search,
    "ablation": committed_ablation,
    "entropy": committed_entropy,
    "table1": committed_table1,
}


def test_commands_of_the_committed_report_are_those_of_the_cells() -> None:
    seen = set()
    for text, section, cells in published():
        if not section.get("commands", True):
            continue
        block = text.split("<details>")[1].split("</details>")[0].split("```")[1].strip().splitlines()
        said = dict(zip(block[1::2], block[::2], strict=True))
        assert len(said) == len(cells)
        for path, cell in cells:
            about = said[cell["command"]]
            assert about.endswith(
                f"seed {cell['seed']}, commit {cell['commit']}, {cell.get('signature', cell['bleu_signature'])}"
            )
            assert f"results/{path.relative_to(RESULTS)}:" in about
            seen.add(path)
    assert seen == {path for path in RESULTS.rglob("*.json") if "recipe" in json.loads(path.read_text())}


# One that is made here


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return make_data(tmp_path_factory.mktemp("report") / "data")


@pytest.fixture(scope="module")
def stored(prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MLE and AC with two seeds, ERAC with two and a diverged third."""
    place = tmp_path_factory.mktemp("report") / "kept"
    for name, share in SHARES.items():
        recipe = {"toml": MLE} if name == "mle" else {"overrides": ["phase.3.tau=0"] if name == "ac" else []}
        for seed in (1, 2, 3) if name == "erac" else (1, 2):
            said, lost = spoilt(prepared, share, 10 * seed + len(name)), ["actor_critic"] if seed == 3 else []
            about = {"diverged": lost, "command": f"seqcredit train {name} --seed {seed}", "commit": f"c0ffee{seed}"}
            write_cell(place / "cells" / f"{name}-{seed}.json", prepared, name.upper(), said, seed, **recipe, **about)
    write_cell(place / "counts" / "y-1.json", prepared, "Y", references(prepared), 1)
    (place / "counts" / "y-1.counts.gz").write_bytes(b"?")
    (place / "broken").mkdir()
    (place / "broken" / "x-1.json").write_text("{")
    return place


@pytest.fixture
def home(stored: Path, tmp_path: Path) -> Path:
    return shutil.copytree(stored, tmp_path / "project" / "kept")


def scores(prepared: Prepared, name: str) -> list[list[list[str]]]:
    """The hypotheses of both seeds that count."""
    return [spoilt(prepared, SHARES[name], 10 * seed + len(name)) for seed in (1, 2)]


def write(home: Path, toml: str) -> Path:
    (home / "report.toml").write_text(toml)
    return home / "report.toml"


SECTION = """
text = '''
  Hello *you*.
'''
[[section]]
title = "All of them"
text = "What was found."
cells = ["cells/mle-*.json", "cells/raml-*.json", "cells/*", "none"]
rivals = [["erac", "AC"], ["vaml", "raml"], ["ac", "mle"]]
figure = "tau"
[[section]]
title = "Nothing"
text = "Only *words*."
commands = false
cells = ["iwslt14"]
baseline = "mle"
layout = "plain"
figure = "ablation"
[[section]]
title = "Words"
"""


def test_a_report_of_several_seeds(home: Path, prepared: Prepared) -> None:
    made = report.make(write(home, SECTION), home.parent / "PAGE.md")
    assert made.text.startswith(
        "# Results\n\nHello *you*.\n\nMade by `seqcredit report` from [report.toml](kept/report"
    )
    assert "\n\n\n" not in made.text
    found = sections(made.text)
    assert list(found) == ["All of them", "Nothing", "Words"]
    first, wanted = found["All of them"], references(prepared)
    groups = {name: scores(prepared, name) for name in SHARES}
    figures = {name: [bleu(said, wanted) for said in group] for name, group in groups.items()}
    rows, pairs = table(first, "recipe"), table(first, "compared")
    assert list(rows) == ["MLE", "AC", "ERAC"]
    for name, values in figures.items():
        row = rows[name.upper()]
        assert (row["seed 1"], row["n"], row["mean"]) == (f"{values[0]:.2f}", "2", f"{fmean(values):.2f}")
        assert row["sd"] == f"{stdev(values):.2f}"
    assert rows["ERAC"]["diverged"] == "1"
    assert "diverged and left out: kept/cells/erac-3.json, actor\\_critic." in first
    everyone = [[words] for words in wanted]
    for one, other in (("erac", "ac"), ("ac", "mle")):
        row = pairs[f"{one.upper()} against {other.upper()}"]
        expected = bootstrap(groups[other], groups[one], everyone, paired=True)
        assert row["difference"] == f"{fmean(figures[one]) - fmean(figures[other]):+.2f}"
        assert (row["seeds"], row["p"]) == ("2 and 2", f"{expected.p:.3f}")
    assert float(pairs["AC against MLE"]["p"]) > 0.002
    assert pairs["vaml against raml"] == {
        "compared": "vaml against raml", "seeds": "0 and 0", "difference": "-", "95 %": "", "p": ""
    }  # fmt: skip
    assert first.count(TEST) == 1
    assert "Not run yet, or not finished: `kept/cells/raml-*.json`, `kept/none`." in first
    lines = first.split("<details>")[1].splitlines()
    at = lines.index(f"# erac, kept/cells/erac-2.json: seed 2, commit c0ffee2, {SIGNATURE}")
    assert lines[at + 1] == "seqcredit train erac --seed 2"
    assert found["Nothing"].strip() == "Only *words*.\n\nNot run yet, or not finished: `kept/iwslt14`."
    assert found["Words"].strip() == ""


def test_a_section_of_another_metric(home: Path, prepared: Prepared) -> None:
    for name, figure in (("ac", 50.0), ("erac", 60.0)):
        about = {"chrf": figure, "chrf_signature": "chrF2|s", "command": "x"}
        change = ["phase.3.tau=0"] if name == "ac" else []
        write_cell(home / "chrf" / f"{name}-1.json", prepared, name.upper(), references(prepared), 1, change, **about)
    toml = """
    [[section]]
    title = "chrF"
    cells = ["chrf"]
    metric = "chrf"
    figure = "tau"
    baseline = "ac"
    """
    made = report.make(write(home, toml), home.parent / "PAGE.md")
    rows = table(made.text, "recipe")
    assert (rows["ERAC"]["seed 1"], rows["ERAC"]["to AC"], rows["ERAC"]["p"]) == ("60.00", "+10.00", "")
    assert "chrF of phrases, test, 40 sentences, chrF2|s." in made.text
    assert "seed 1, commit unknown, chrF2|s" in made.text
    assert "![Test chrF over the temperature](kept/figures/chrf-tau.svg)" in made.text
    assert b">test chrF<" in made.figures[home / "figures" / "chrf-tau.svg"]


def test_it_is_the_same_from_everywhere_and_whenever(home: Path, monkeypatch) -> None:
    write(home, SECTION)
    monkeypatch.chdir(home.parent)
    assert command("kept/report.toml", "--out", "PAGE.md") == 0
    page, figure = home.parent / "PAGE.md", home / "figures" / "all-of-them-tau.svg"
    assert [path.name for path in figure.parent.iterdir()] == [figure.name]
    assert f"![Test BLEU over the temperature]({figure.relative_to(home.parent)})" in page.read_text()
    assert str(home) not in page.read_text()
    kept = page.read_bytes(), figure.read_bytes()
    monkeypatch.chdir(home)
    assert command(home / "report.toml", "--out", page) == 0
    assert (page.read_bytes(), figure.read_bytes()) == kept


PAGED = """
text = "In short."
pages = "../out"
[[page]]
name = "one"
title = "Page one"
about = "Some data."
text = "What was learned."
shows = ["Heat"]
[[page.section]]
title = "Heat"
cells = ["cells/mle-*.json", "cells/ac-*.json", "cells/erac-*.json"]
figure = "tau"
[[page.section]]
title = "Words"
text = "See [the other](two.md)."
[[page]]
title = "Two"
[[page.section]]
title = "Heat"
cells = ["cells/mle-*.json", "cells/none-*.json"]
"""


def test_a_page_for_each_data_set(home: Path, monkeypatch) -> None:
    """The short page tells what was learned and leads to the pages, which hold tables, figures and commands."""
    monkeypatch.chdir(home.parent)
    write(home, PAGED)
    made = report.make(Path("kept/report.toml"), Path("PAGE.md"))
    figure = Path("out/figures/one-heat-tau.svg")
    assert [*made.figures] == [figure]
    assert [*made.pages] == [Path("out/one.md"), Path("out/two.md")]
    first, second = made.pages.values()
    assert made.text.split("\n\n")[3:] == [
        "## Page one",
        f"![Test BLEU over the temperature]({figure})",
        "What was learned.",
        "[Tables, figures and commands](out/one.md)",
        "## Two",
        "[Tables, figures and commands](out/two.md)\n",
    ]
    assert first.startswith("# Page one\n\nSome data.\n\nMade by `seqcredit report` from [report.toml](../kept/report")
    assert [*sections(first)] == ["Heat", "Words"]
    assert "![Test BLEU over the temperature](figures/one-heat-tau.svg)" in first
    assert "# mle, kept/cells/mle-1.json: seed 1" in first
    assert "Not run yet, or not finished: `kept/cells/none-*.json`." in second
    assert [path.name for path in made.stale()] == ["one-heat-tau.svg", "one.md", "two.md", "PAGE.md"]
    made.write()
    assert made.stale() == []
    Path("out/two.md").write_text("mine")
    assert made.stale() == [Path("out/two.md")]


def test_check_says_what_is_not_current(home: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(home.parent)
    write(home, SECTION)
    made = report.make(Path("kept/report.toml"), Path("PAGE.md"))
    page, figure = Path("PAGE.md"), Path("kept/figures/all-of-them-tau.svg")
    assert made.stale() == [figure, page]
    made.write()
    assert made.stale() == []
    drawn = figure.read_bytes()
    figure.write_bytes(drawn + b" ")
    assert made.stale() == [figure]
    figure.write_bytes(drawn)
    cell = home / "cells" / "mle-1.json"
    cell.write_text(cell.read_text().replace("c0ffee1", "c0ffee7"))
    assert command("kept/report.toml", "--out", "PAGE.md", "--check") == 1
    said = "seqcredit: PAGE.md is not what kept/report.toml gives: run `seqcredit report`.\n"
    assert capsys.readouterr().err == said
    assert page.read_text() == made.text


def test_what_waits_for_cells_is_left_out(home: Path) -> None:
    text = """
    [[section]]
    title = "Table"
    cells = ["cells/ac-*.json", "cells/x*.json"]
    baseline = "x"
    [[section]]
    title = "Grid"
    cells = ["cells/mle-*.json", "cells/ac-*.json", "cells/x*.json"]
    layout = "ablation"
    figure = "tau"
    """
    found = sections(report.make(write(home, text), home / "x.md").text)
    assert table(found["Table"], "recipe")["AC"]["n"] == "2"
    assert "No baseline is among the cells." in found["Table"]
    assert "|" not in found["Grid"].split("<details>")[0]
    assert "![" not in found["Grid"]
    assert "seqcredit train mle --seed 2" in found["Grid"]


def test_credit_errors(home: Path, prepared: Prepared) -> None:
    """The least of every curve, over seeds; a way that measured none has none; the figure has every way."""
    for name, share, points in (("today", 0.2, [3.0, 2.0, 2.5]), ("mixed", 0.1, [2.0, 1.0, 0.5]), ("blind", 0.3, [])):
        for seed in (1, 2):
            error = [[100 * (n + 1), point + seed] for n, point in enumerate(points)]
            credit = {"credit": {"credit_error": error, "credit_kl": [[u, v / 10] for u, v in error]}} if points else {}
            said = spoilt(prepared, share, 7 * seed)
            write_cell(home / "credit" / f"{name}-{seed}.json", prepared, "VAML", said, seed, **credit)
    toml = """
    [[section]]
    title = "Credit"
    cells = ["credit/*.json"]
    layout = "credit"
    figure = "credit"
    """
    made = report.make(write(home, toml), home.parent / "PAGE.md")
    rows = table(made.text, "way")
    assert [(row["credit error"], row["KL of token targets"]) for row in rows.values()] == [
        ("-", "-"), ("2.00 ± 0.71", "0.20 ± 0.07"), ("3.50 ± 0.71", "0.35 ± 0.07")
    ]  # fmt: skip
    wanted = references(prepared)
    today = fmean(bleu(spoilt(prepared, 0.2, 7 * seed), wanted) for seed in (1, 2))
    assert rows["today"]["test BLEU"].startswith(f"{today:.2f} ± ")
    drawn = made.figures[home / "figures" / "credit-credit.svg"].decode()
    assert all(f">{name}<" in drawn for name in ("today", "mixed", "blind", "credit error", "KL of token targets"))


def test_the_papers_layouts(home: Path, prepared: Prepared) -> None:
    """Ours beside the paper's; rivals are compared within each data set."""
    pictures = {"vocabularies": {"source": "pictures of 9 features", "target": "x"}, "sentences": 9}
    for name, share in (("ac", 0.3), ("erac", 0.1)):
        path, said = home / "captions" / f"{name}-1.json", spoilt(prepared, share, 1)
        data = {"name": "coco", "checksum": "x", "examples": {}}
        write_cell(path, prepared, name.upper(), said, 1, data=data, **pictures)
    text = """
    [[section]]
    title = "One"
    cells = ["cells", "captions"]
    layout = "table1"
    rivals = [["erac", "ac"]]
    commands = false
    [[section]]
    title = "Grid"
    cells = ["cells/erac-*.json"]
    layout = "ablation"
    figure = "ablation"
    [[section]]
    title = "Entropy"
    cells = ["cells"]
    layout = "entropy"
    """
    made = report.make(write(home, text), home / "x.md")
    found, wanted = sections(made.text), references(prepared)
    (ours, theirs), *_ = [(row["mean"], row["paper: mean"]) for rows in tables(found["One"]) for row in rows
                          if row.get("algorithm") == "ERAC"]  # fmt: skip
    values = [bleu(said, wanted) for said in scores(prepared, "erac")]
    assert ours == f"**{fmean(values):.2f} ± {stdev(values):.2f}†**"
    assert theirs == "**28.30 ± 0.06**"
    pairs = table(found["One"], "compared")
    captions = [bleu(spoilt(prepared, share, 1), wanted) for share in (0.1, 0.3)]
    assert pairs["ERAC against AC, coco"]["difference"] == f"{captions[0] - captions[1]:+.2f}"
    assert pairs["ERAC against AC, phrases"]["seeds"] == "2 and 2"
    assert TEST in found["One"]
    assert "<details>" not in found["One"]
    assert "28.06 ± 0.05" in found["Entropy"]
    assert "26.27†" in found["Grid"]
    assert [path.name for path in made.figures] == ["grid-ablation.svg"]
    assert b"smoothing" in next(iter(made.figures.values()))


def test_a_command_with_backticks_stays_in_its_block(home: Path) -> None:
    cell = home / "cells" / "mle-1.json"
    cell.write_text(cell.read_text().replace("seqcredit train mle --seed 1", "x ```` </details>"))
    made = report.make(write(home, '[[section]]\ntitle = "T"\ncells = ["cells/mle-1.json"]'), home / "x.md")
    assert made.text.count("\n`````\n") == 2
    assert "\nx ```` </details>\n`````\n" in made.text


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("text = 3", "text is 3, but it must be text"),
        ("txt = ''", "there is no key 'txt'; the nearest is 'text'"),
        ("section = 3", "write each section as [[section]]"),
        ("[[section]]\ntext = ''", "section 1 has no title"),
        ("[[section]]\ntitle = 'A b'\n[[section]]\ntitle = 'a B'", "two sections 'a B'"),
        ("[[section]]\ntitle = 'A'\nlayout = 'plain'", "section 'A': there is no key 'layout'"),
        ("[[section]]\ntitle = 'A'\ncells = 'cells'", "section 'A': cells is 'cells', but it must be a list"),
        ("[[section]]\ntitle = 'A'\ncells = ['/cells']", "paths relative to the file"),
        ("[[section]]\ntitle = 'A'\ncells = ['']", "paths relative to the file"),
        ("[[section]]\ntitle = 'A'\ncells = ['cells']\nlayout = 'fancy'", "must be one of plain, table1, ablation"),
        ("[[section]]\ntitle = 'A'\ncells = ['cells']\nfigure = 'pie'", "figure is 'pie', but it must be one of tau"),
        ("[[section]]\ntitle = 'A'\ncells = ['cells']\nbaselin = 'ac'", "the nearest is 'baseline'"),
        ("[[section]]\ntitle = 'A'\ncells = ['cells']\nbaseline = 'x'", "'x' there is none among the rows"),
        ("[[section]]\ntitle = 'A'\ncells = ['cells']\nlayout = 'table1'\nbaseline = 'ac'", "for the layout plain"),
        ("[[section]]\ntitle = 'A'\ncells = ['cells']\nrivals = [['ac']]", "it must be pairs of rows"),
        ("[[section]]\ntitle = 'A'\ncells = ['cells']\ncommands = 1", "commands is 1, but it must be true or false"),
        (
            "[[section]]\ntitle = 'A'\ncells = ['cells']\nmetric = 'edit'",
            "section 'A': {home}/cells/ac-1.json has kept no",
        ),
        (
            "[[section]]\ntitle = 'A'\ncells = ['cells', 'broken']",
            "section 'A': {home}/broken/x-1.json is damaged, it is not JSON",
        ),
        ("[[section]]\ntitle = 'A'\ncells = ['cells', 'counts']", "section 'A': {home}/counts/y-1.counts.gz does not"),
        ("[[page]]\ntext = ''", "page 1 has no title"),
        ("[[page]]\ntitle = 'A'\n[[page]]\ntitle = 'a'", "two pages 'a'"),
        ("[[page]]\ntitle = 'A'\nshow = []", "page 'A': there is no key 'show'; the nearest is 'shows'"),
        ("[[page]]\ntitle = 'A'\nshows = ['B']", "page 'A': shows is ['B'], but it must be titles of sections with"),
        ("[[page]]\ntitle = 'A'\n[[page.section]]\ntitle = 'B'\nlayout = 'x'", "page 'A': section 'B': there is no"),
        ("[[section", "is not TOML"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_be_reported_is_said(toml: str | None, said: str, home: Path, capsys) -> None:
    if toml is not None:
        write(home, toml)
    assert command(home / "report.toml", "--out", home / "PAGE.md") == 2
    err = capsys.readouterr().err
    assert said.format(home=home) in err
    assert err.count("\n") == 1
    assert err.count("section 'A'") <= 1
    assert not (home / "PAGE.md").exists()


def test_a_page_that_cannot_be_written(home: Path, capsys) -> None:
    (home / "file").write_text("")
    assert command(write(home, "text = 'x'"), "--out", home / "file" / "PAGE.md") == 2
    assert f"{home / 'file'} is not a folder" in capsys.readouterr().err
