"""Figures: what is drawn is what was measured, and a figure that cannot be made is refused first."""

import math
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cellar import MLE, bleu, references, spoilt, write_cell
from seqcredit.cli import main
from seqcredit.experiments.history import history
from seqcredit.inspect import bench, heat
from seqcredit.inspect.subjects import inspect_one
from seqcredit.results import cells, plots, tables
from seqcredit.training.log import History


def test_growth_has_a_panel_an_axis_and_a_line_an_algorithm(tmp_path) -> None:
    found = {"vocabulary": {"MLE": [1.0, 2.0], "ERAC": [3.0, 8.0]}, "samples": {"RAML": [2.0, 4.0]}}
    plots.growth(found, {"vocabulary": (10, 1_000), "samples": (2, 5)}, tmp_path / "growth.svg")
    text = (tmp_path / "growth.svg").read_text()
    assert {"MLE", "ERAC", "1,000", "proposals, M", "words of the vocabulary, V"} <= set(
        re.findall(">([^<>]+)</text", text)
    )
    lines = [plots.STYLES[name][0] for name in ("MLE", "ERAC", "RAML")]
    assert all(re.search(f"stroke: {colour}; stroke-width: 1.5", text) for colour in lines[1:])
    again = tmp_path / "again.svg"
    plots.growth(found, {"vocabulary": (10, 1_000), "samples": (2, 5)}, again)
    assert again.read_text() == text


def test_a_figure_is_png_or_svg(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setattr(bench, "growth", lambda rounds, say: pytest.fail("measured before the name was looked at"))
    with pytest.raises(SystemExit, match="2"):
        main(["bench", "--growth", str(tmp_path / "growth.pdf")])
    assert "a figure's name ends in .png or .svg" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["bench", "--growth", str(tmp_path / "nowhere" / "growth.png")])
    assert "there is no folder" in capsys.readouterr().err


def texts(path: Path) -> list[str]:
    return [" ".join(e.itertext()) for e in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def lines(path: Path, colour: str, width: float) -> list[np.ndarray]:
    """Points of the lines of a colour and a width, in the order in which they are drawn."""
    style = f"fill: none; stroke: {colour}; stroke-width: {width:g}"
    found = re.findall(rf'<path d="([^"]+)"[^>]*style="{style}[^"]*stroke-linecap: square"', path.read_text())
    return [np.array([pair.split() for pair in re.findall(r"[ML] ([\d.-]+ [\d.-]+)", d)], float) for d in found]


def assert_drawn(points: np.ndarray, values: list[tuple[float, float]]) -> None:
    """Both axes are straight scales, and BLEU grows upwards."""
    wanted = np.array(values, float)
    assert len(points) == len(wanted)
    for axis in (0, 1):
        slope, start = np.polyfit(wanted[:, axis], points[:, axis], 1)
        assert points[:, axis] == pytest.approx(slope * wanted[:, axis] + start, abs=0.01)
        assert (slope > 0) == (axis == 0)


def command(*words: object) -> int:
    with pytest.raises(SystemExit) as done:
        main(["plot", *map(str, words)])
    return int(done.value.code or 0)


@pytest.fixture(scope="module")
def by_tau(tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tau = 0, 0.02 and 0.04 with two seeds, 0.06 diverged, MLE, and ERAC without future entropy, a thing apart."""
    folder = tmp_path_factory.mktemp("plots") / "cells"
    for number, tau in enumerate((0, 0.02, 0.04, 0.06)):
        for seed in (1, 2):
            said, lost = spoilt(tiny.prepared, 0.05 + 0.1 * number, 10 * number + seed), ["x"] if tau == 0.06 else []
            path = folder / f"tau-{tau}-{seed}.json"
            write_cell(path, tiny.prepared, "ERAC", said, seed, [f"phase.3.tau={tau}"], diverged=lost)
    for seed in (1, 2):
        write_cell(folder / f"mle-{seed}.json", tiny.prepared, "MLE", spoilt(tiny.prepared, 0.5, seed), seed, toml=MLE)
    without = ["phase.3.future_entropy=false"]
    write_cell(folder / "without-1.json", tiny.prepared, "ERAC without future entropy", said, 1, without)
    return folder


def test_tau_shows_the_mean_over_seeds(tiny, by_tau: Path, tmp_path: Path) -> None:
    out = tmp_path / "tau.svg"
    assert command("tau", by_tau, "--out", out) == 0
    wanted = references(tiny.prepared)
    means = [
        (n, np.mean([bleu(spoilt(tiny.prepared, 0.05 + 0.1 * n, 10 * n + seed), wanted) for seed in (1, 2)]))
        for n in range(3)  # however far one tau is from the next
    ]
    assert_drawn(lines(out, plots.COLOURS[0], 1.5)[0], means)
    mle = np.mean([bleu(spoilt(tiny.prepared, 0.5, seed), wanted) for seed in (1, 2)])
    heights = re.findall(r'd="M [\d.]+ ([\d.]+) [^"]*" clip-path[^>]*dasharray[^>]*#000000"', out.read_text())
    scale = np.polyfit([mean for _, mean in means], lines(out, plots.COLOURS[0], 1.5)[0][:, 1], 1)
    assert [float(height) for height in heights] == pytest.approx([np.polyval(scale, mle)], abs=0.05)
    shown = texts(out)
    assert {"diverged", "0", "0.02", "0.04", "0.06", "temperature τ", "test BLEU", "Machine translation", "MLE"} <= {
        *shown
    }


def test_a_forest_has_the_differences_and_intervals_of_the_table(tiny, tmp_path: Path, capsys) -> None:
    for seed in (1, 2):
        for name, share in (("mle", 0.5), ("ac", 0.2), ("raml", 0.7)):
            said = spoilt(tiny.prepared, share, seed)
            write_cell(tmp_path / f"{name}-{seed}.json", tiny.prepared, name.upper(), said, seed)
    out = tmp_path / "forest.svg"
    assert command("forest", tmp_path, "--out", out) == 0
    table = tables.plain(cells.read([tmp_path]))
    rows = {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}
    known = {name: [float(number) for number in rows[name]["95 %"].split(" to ")] for name in ("AC", "RAML")}
    drawn = [line for line in lines(out, plots.COLOURS[0], 1.5) if len(line) == 2]
    places = np.array([line[:, 0] for line in drawn]).flatten()
    wanted = np.array([known[name] for name in ("AC", "RAML")]).flatten()
    scale = np.polyfit(wanted, places, 1)
    assert np.polyval(scale, wanted) == pytest.approx(places, abs=0.5)  # a straight scale, from low to high
    assert scale[0] > 0
    assert drawn[0][0, 1] == drawn[0][1, 1] < drawn[1][0, 1]  # one below the other
    assert {"AC", "RAML", "difference in BLEU to MLE, 95 %"} <= {*texts(out)}
    assert command("forest", tmp_path, "--baseline", "AC", "--out", out) == 0
    assert "difference in BLEU to AC, 95 %" in texts(out)
    assert command("forest", tmp_path, "--baseline", "ERAC", "--out", out) == 2
    assert "There is no row ERAC among" in capsys.readouterr().err


def test_costs_are_means_of_seeds_over_samples_and_over_seconds(tiny, tmp_path: Path) -> None:
    courses = {1: [[100, 2.0, 10.0], [200, 5.0, 14.0]], 2: [[100, 4.0, 12.0], [200, 7.0, 18.0]]}
    for seed, course in courses.items():
        said = spoilt(tiny.prepared, 0.2, seed)
        write_cell(tmp_path / f"ac-{seed}.json", tiny.prepared, "AC", said, seed, course=course)
    write_cell(tmp_path / "mle-1.json", tiny.prepared, "MLE", said, 1)  # has not kept it
    write_cell(tmp_path / "raml-1.json", tiny.prepared, "RAML", said, 1, course=[[0, 1.0, 10.0], [0, 9.0, 20.0]])
    out = tmp_path / "costs.svg"
    assert command("costs", tmp_path, "--out", out) == 0
    over_samples, over_seconds = (line for line in lines(out, plots.COLOURS[0], 1.2) if len(line) == 2)
    same = lines(out, plots.COLOURS[1], 1.2)
    _, raml = (line for line in same if len(line) == 2)
    scale = np.polyfit([1.0, 9.0], raml[:, 0], 1), np.polyfit([10.0, 20.0], raml[:, 1], 1)
    assert over_seconds[:, 0] == pytest.approx(np.polyval(scale[0], [3.0, 6.0]), abs=0.05)
    for line in (over_samples, over_seconds):
        assert line[:, 1] == pytest.approx(np.polyval(scale[1], [11.0, 16.0]), abs=0.05)
    assert {"AC", "RAML", "samples drawn", "CPU time, seconds", "validation BLEU"} <= {*texts(out)}
    assert "MLE" not in texts(out)


def test_curves_have_a_line_a_run(tiny, tmp_path: Path) -> None:
    out = tmp_path / "curves.svg"
    assert command("curves", tiny.done.folder, tiny.stopped.folder, "--out", out) == 0
    assert {"done", "stopped", "validation BLEU", "sample BLEU", "entropy of the policy", "updates"} <= {*texts(out)}
    for number, run in enumerate((tiny.done, tiny.stopped)):
        past = history(run)
        keys = [key for key in ("bleu", "sample_bleu", "reward", "entropy", "nll", "td") if past.curve(key)]
        drawn = lines(out, plots.COLOURS[number], 1.2)
        assert len(drawn) == len(keys) >= 5
        for points, key in zip(drawn, keys, strict=True):
            assert_drawn(points, past.curve(key))


def test_some_curves_alone(tiny, tmp_path: Path) -> None:
    out = tmp_path / "curves.svg"
    assert command("curves", tiny.done.folder, "--only", "entropy", "bleu", "--out", out) == 0
    said = texts(out)
    assert {"entropy of the policy", "validation BLEU"} <= {*said}
    assert "sample BLEU" not in said
    drawn = lines(out, plots.COLOURS[0], 1.2)
    for points, key in zip(drawn, ("entropy", "bleu"), strict=True):
        assert_drawn(points, history(tiny.done).curve(key))


def test_many_runs_are_told_apart() -> None:
    styles = [plots._style(number) for number in range(20)]
    assert len({(style["color"], style["ls"]) for style in styles}) == 20


def test_ablation_is_a_heat_map(tiny, tmp_path: Path) -> None:
    scores = {}
    for number, (smoothing, rate) in enumerate([(0, 0.01), (0.001, 0.01), (0.001, 1)]):
        change = [f"phase.3.smoothing={smoothing}", f"phase.3.target_rate={rate}"]
        said = spoilt(tiny.prepared, 0.1 + 0.1 * number, 1)
        scores[smoothing, rate] = write_cell(tmp_path / f"{number}-1.json", tiny.prepared, "ERAC", said, 1, change)
    out = tmp_path / "ablation.svg"
    assert command("ablation", tmp_path, "--out", out) == 0
    shown = texts(out)
    figures = [f"{scores[0, 0.01] + 1:.2f}", "-", *(f"{scores[0.001, rate] + 1:.2f}" for rate in (0.01, 1))]
    assert [text for text in shown if text == "-" or text in figures] == figures  # row by row, from the top
    assert {"target rate β", "smoothing λ", "0.001", "validation BLEU"} <= {*shown}


def test_figures_can_be_read_on_their_colour() -> None:
    """Black on light, white on dark, by the luminance that people see."""
    from matplotlib import pyplot

    _, panel = pyplot.subplots()
    image = panel.imshow([[0.0, 1.0]], cmap="cividis")  # from dark blue to yellow
    assert [plots.ink(image, value) for value in (0.0, 1.0, math.nan)] == ["white", "black", "black"]
    pyplot.close()


@pytest.mark.parametrize("folder", ["credit", "credit-critic"])
def test_the_legend_of_credit_curves_has_room(folder: str, tmp_path: Path, monkeypatch) -> None:
    """One panel or two: as wide as matplotlib draws it, with the names of the published cells."""
    kept = []
    monkeypatch.setattr(plots, "save", lambda figure, _: kept.append(figure))
    found = cells.read([Path(__file__).parents[2] / "results" / folder])
    plots.credit_curves(found, tmp_path / "x.svg")
    (figure,) = kept
    figure.canvas.draw()
    legend, room = figure.legends[0].get_window_extent(), figure.bbox
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {cell.name for cell in found}
    assert room.x0 <= legend.x0 < legend.x1 <= room.x1
    assert room.y0 <= legend.y0 < legend.y1 <= room.y1


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "kinds"), [("svg", ("tau", "credit")), ("png", ("ablation", "curves"))])
def test_the_same_figure_has_the_same_bytes(ending: str, kinds: tuple, tiny, by_tau: Path, tmp_path: Path) -> None:
    for number, smoothing in enumerate((0, 0.001)):
        said = spoilt(tiny.prepared, 0.1 + 0.1 * number, 1)
        write_cell(tmp_path / f"{number}-1.json", tiny.prepared, "ERAC", said, 1, [f"phase.3.smoothing={smoothing}"])
    figures = {
        "tau": cells.read([by_tau]),
        "curves": {"run": history(tiny.done)},
        "ablation": cells.read([tmp_path]),
        "credit": inspect_one(tiny.done, tiny.prepared, "test", 1),
    }
    for kind in kinds:
        one, two = (tmp_path / f"{kind}-{again}.{ending}" for again in ("a", "b"))
        for path in (one, two):
            (heat.credit if kind == "credit" else getattr(plots, kind))(figures[kind], path)
        assert one.read_bytes() == two.read_bytes()
        if ending == "png":
            with Image.open(one) as image:
                assert min(image.size) > 150
                assert len(image.convert("RGB").getcolors(1 << 24)) > 20


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("curves", "{done}", "--out", "{tmp}/x.pdf"), "ends in .png or .svg"),
        (("curves", "{tmp}", "--out", "{tmp}/x.png"), "is not a run folder"),
        (("curves", "{done}", "--only", "bleu", "joy", "--out", "{tmp}/x.png"), "no curve of joy: choose from bleu, "),
        (("tau", "{cells}/mle-1.json", "--out", "{tmp}/x.png"), "no cell of AC or ERAC"),
        (("costs", "{cells}", "--out", "{tmp}/x.png"), "No cell among them has kept what its validations had cost"),
        (("ablation", "{cells}", "--out", "{tmp}/x.png"), "differ in smoothing and target_rate alone"),
        (("credit", "{done}", "--sentence", "99", "--out", "{tmp}/x.png"), "There is no sentence 99"),
        (("credit", "{done}", "--sentence", "0", "--out", "{tmp}/x.png"), "'0' is not a whole number above 0"),
        (("credit", "{done}", "--sentence", "41", "--out", "{tmp}/x.png"), "it has 1 to 40"),
        (("credit", "{done}", "--out", "{tmp}/x.png"), "--sentence"),
        (("pie", "--out", "{tmp}/x.png"), "invalid choice: 'pie'"),
    ],
)
def test_what_cannot_be_drawn_is_said(words, said: str, tiny, by_tau: Path, tmp_path: Path, capsys) -> None:
    places = {"done": tiny.done.folder, "tmp": tmp_path, "cells": by_tau}
    assert command(*(word.format(**places) for word in words)) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not list(tmp_path.glob("x.*"))


def test_without_matplotlib_or_without_figures(tiny, tmp_path: Path, monkeypatch, capsys) -> None:
    with pytest.raises(plots.UserError, match="nothing to draw yet"):
        plots.curves({"run": History()}, tmp_path / "x.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert command("curves", tiny.done.folder, "--out", tmp_path / "x.png") == 2
    assert "pip install 'seqcredit[plots]'" in capsys.readouterr().err
