"""The figure of a token's credit: what is drawn is what was judged."""

import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from seqcredit.cli import main
from seqcredit.inspect import heat
from seqcredit.inspect.numbers import Credit
from seqcredit.inspect.subjects import Subject, inspect_one


def texts(path: Path) -> list[str]:
    return [" ".join(e.itertext()) for e in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def test_credit_shows_every_token_and_figure(tiny, tmp_path: Path) -> None:
    out = tmp_path / "credit.svg"
    with pytest.raises(SystemExit) as done:
        main(["plot", "credit", str(tiny.done.folder), "--sentence", "2", "--out", str(out)])
    assert not done.value.code
    subject, shown = inspect_one(tiny.done, tiny.prepared, "test", 2), texts(out)
    found = subject.credits[0]
    assert shown.count("</s>") == 1
    assert {*found.words, "reward", "Q", "value", "advantage", "entropy", "probability"} <= {*shown}
    rows = (found.rewards, found.q, found.value, found.advantage, found.entropy, [math.exp(x) for x in found.logp])
    figures = [f"{value:.2f}" for row in rows for value in row]
    assert sorted(text for text in shown if re.fullmatch(r"-?\d+\.\d\d", text)) == sorted(
        "0.00" if figure == "-0.00" else figure for figure in figures
    )
    assert any(f"source: {subject.source}"[:30] in text for text in shown)


def test_words_are_not_formulas(tmp_path: Path) -> None:
    row = [0.5, -0.25]
    names = ("logp", "entropy", "rewards", "q", "value", "advantage")
    shown_credit = Credit("", ["$x_1$", "<&>"], policy=[], **dict.fromkeys(names, row))
    heat.credit(Subject("a <b> & $c", ["d $x_1$"], [shown_credit]), tmp_path / "x.svg")
    shown = texts(tmp_path / "x.svg")
    assert {"$x_1$", "<&>"} <= {*shown}
    assert any("a <b> & $c" in text for text in shown)
