"""Figures: what is drawn is what was measured, and a figure that cannot be made is refused first."""

import re

import pytest

from seqcredit.cli import main
from seqcredit.reporting import bench, plots


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
