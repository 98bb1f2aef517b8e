"""Watching runs: every figure that is shown stands in their logs."""

import json
import os
import shutil
import time
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest

from seqcredit.cli import main
from seqcredit.experiments.history import history
from seqcredit.experiments.runs import Run
from seqcredit.inspect import watch as watching


def copy(run: Run, folder: Path) -> Run:
    shutil.copytree(run.folder, folder, ignore=shutil.ignore_patterns("checkpoints"))
    return Run.open(folder)


def rewrite(run: Run, change) -> None:
    """Every line of a log through a function; None leaves it out."""
    path = run.folder / "log.jsonl"
    kept = [new for line in path.read_text().splitlines() if (new := change(json.loads(line))) is not None]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in kept))


def command(*words: object) -> int:
    with pytest.raises(SystemExit) as done:
        main(["watch", *map(str, words)])
    return int(done.value.code or 0)


def dots(rows: list[str]) -> set[tuple[int, int]]:
    """Places of the dots of Braille letters, by the numbers that Unicode gives them; the top left is 0, 0."""
    numbers = {1: (0, 0), 2: (0, 1), 3: (0, 2), 4: (1, 0), 5: (1, 1), 6: (1, 2), 7: (0, 3), 8: (1, 3)}
    return {
        (2 * c + x, 4 * r + y)
        for r, row in enumerate(rows)
        for c, letter in enumerate(row)
        for number, (x, y) in numbers.items()
        if (ord(letter) - 0x2800) >> (number - 1) & 1
    }


def test_a_chart_is_a_line_from_point_to_point() -> None:
    assert dots(watching.chart([(0, 0.0), (3, 1.0)], 0.0, 1.0, columns=2, rows=1)) == {(0, 3), (1, 2), (2, 1), (3, 0)}
    flat = dots(watching.chart([(0, 1.0), (5, 1.0), (10, 2.0)], 0.0, 2.0, columns=3, rows=2))
    assert {(0, 4), (1, 4), (2, 4)} <= flat
    assert (5, 0) in flat
    assert len(dots(watching.chart([(7, 3.0)], 3.0, 3.0, columns=3, rows=2))) == 1


def test_the_line_says_where_a_run_stands(tiny, tmp_path: Path) -> None:
    run = copy(tiny.stopped, tmp_path / "run")
    place = {"mle": 0, "critic": 100, "actor_critic": 200}
    rewrite(run, lambda e: {**e, "time": place[e["phase"]] + e["updates"] / 2 + 0.001 * (e["event"] == "train")})
    (state,) = watching.states([run.folder], now=260.0)
    assert not state.done
    last = history(run).entries[-1]
    assert (last["phase"], last["updates"]) == ("actor_critic", 4)
    # 12 updates are 2 epochs of 60 sentences in tens; 2 updates a second, and 4 of them are done
    assert state.line == (
        "actor_critic: epoch 1/2, 4 updates, 2 updates/s, learning rate 0.001, phase at most 4 s left, "
        "last line 58 s ago"
    )
    resolved = run.folder / "resolved.toml"
    before, actor_critic = resolved.read_text().rsplit("updates = 0", 1)
    resolved.write_text(f"{before}updates = 5{actor_critic}")
    (state,) = watching.states([run.folder], now=260.0)
    assert state.line.startswith("actor_critic: epoch 1/1, 4 updates, 2 updates/s")
    shutil.rmtree(tmp_path / "run")
    run = copy(tiny.done, tmp_path / "run")
    (state,) = watching.states([run.folder])
    assert (state.done, state.line) == (True, "done, 54 updates")


def test_a_pause_does_not_change_the_speed(tiny, tmp_path: Path) -> None:
    run = copy(tiny.stopped, tmp_path / "run")
    mle = [e for e in history(run).entries if e["phase"] == "mle" and e["event"] == "train"]
    last = mle[-1]["updates"]
    timed = [{**e, "time": e["updates"] / 4 + (1000 if e["updates"] > last - 4 else 0)} for e in mle]
    assert watching._speed(timed) == pytest.approx(4.0)
    assert watching._speed(timed[:1]) is None


def test_rate_divergence_and_data_that_are_gone(tiny, tmp_path: Path) -> None:
    run = copy(tiny.stopped, tmp_path / "run")
    rewrite(run, lambda e: {**e, "rate": 0.5} if "rate" in e else e)
    lost = {"event": "diverged", "phase": "actor_critic", "updates": 5, "why": "x", "time": time.time()}
    with (run.folder / "log.jsonl").open("a") as file:
        file.write(json.dumps(lost) + "\n")
    about = json.loads((run.folder / "run.json").read_text())
    (run.folder / "run.json").write_text(json.dumps({**about, "data": str(tmp_path / "gone")}))
    (state,) = watching.states([run.folder])
    assert "learning rate 0.0005" in state.line
    assert "divergences: 1" in state.line
    assert "left" not in state.line


def test_in_the_terminal(tiny, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert command(tiny.done.folder, tiny.stopped.folder, "--once") == 0
    out = capsys.readouterr().out
    for run in (tiny.done, tiny.stopped):
        past = history(run)
        for name, key in (("valid. BLEU", "bleu"), ("reward", "reward"), ("entropy", "entropy"), ("nll", "nll")):
            assert f"{name} {past.curve(key)[-1][1]:.4g}" in out
        assert f"{max(value for _, value in past.curve('nll')):.3g} " in out
    assert "done\n" in out
    assert "actor_critic: epoch 1/2" in out
    assert max(map(len, out.splitlines())) <= 100
    assert any(0x2800 < ord(letter) < 0x2900 for letter in out)


def test_runs_that_have_little_to_show(tiny, tmp_path: Path, capsys) -> None:
    young, empty = copy(tiny.stopped, tmp_path / "young"), copy(tiny.stopped, tmp_path / "empty")
    shutil.rmtree(young.folder / "weights")
    shutil.rmtree(empty.folder / "weights")
    rewrite(young, lambda e: e if e["phase"] == "mle" and e["updates"] <= 4 and e["event"] == "train" else None)
    with (young.folder / "log.jsonl").open("a") as file:
        file.write('{"event": "train", "phase": "ml')
    (empty.folder / "log.jsonl").unlink()
    page = tmp_path / "page.html"
    assert command(young.folder, empty.folder, "--once", "--html", page) == 0
    out = capsys.readouterr().out
    assert "nll" in out
    assert "valid. BLEU" not in out
    assert "mle: epoch 1/6, 4 updates" in out
    assert "no line in the log yet" in out
    assert "no line in the log yet" in page.read_text()
    assert command(empty.folder, "--once", "--html", page) == 0
    assert "<svg" not in page.read_text()


class Page(HTMLParser):
    """Texts of the table, points of the lines, and what a browser is told."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.meta: dict[str, str] = {}
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes) -> None:
        self.open.append(tag)
        found = dict(attributes)
        if tag == "meta" and "http-equiv" in found:
            self.meta[found["http-equiv"]] = found["content"]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data) -> None:
        if {"td", "th"} & {*self.open}:
            self.rows[-1][-1] += data


def test_the_page_holds_the_last_figures_and_a_line_a_run(tiny, tmp_path: Path) -> None:
    odd = copy(tiny.stopped, tmp_path / "a<b>&'c")
    path = tmp_path / "page.html"
    assert command(tiny.done.folder, odd.folder, "--once", "--html", path, "--every", "7") == 0
    text = path.read_text()
    page = Page(text)
    assert page.meta == {"refresh": "7"}
    head, *rows = page.rows
    for run, row in zip((tiny.done, odd), rows, strict=True):
        found = dict(zip(head, row, strict=True))
        assert found["run"] == run.folder.name
        past = history(run)
        for name, key in (("validation BLEU", "bleu"), ("sample BLEU", "sample_bleu"), ("squared TD error", "td")):
            wanted = past.curve(key)
            assert found[name] == (f"{wanted[-1][1]:.4g}" if wanted else "-")
    assert "<b>" not in text
    assert "http://" not in text.replace("http-equiv", "")
    assert "https://" not in text
    assert "<script" not in text
    assert "prefers-color-scheme: dark" in text
    charts = [ElementTree.fromstring("<svg" + part.split("</svg>")[0] + "</svg>") for part in text.split("<svg")[1:]]
    names = [svg.get("aria-label") for svg in charts]
    assert names[:3] == ["validation BLEU", "sample BLEU", "reward of samples"]
    for svg, key in zip(charts, ("bleu", "sample_bleu", "reward"), strict=False):
        assert [len(line.get("points", "").split()) for line in svg.findall("polyline")] == [
            len(history(run).curve(key)) for run in (tiny.done, odd) if history(run).curve(key)
        ]
    reward = history(tiny.done).curve("reward")
    points = charts[names.index("reward of samples")].findall("polyline")[0].get("points", "").split()
    places = [tuple(map(float, point.split(","))) for point in points]
    assert [x for x, _ in places] == pytest.approx([52 + at / 54 * (450 - 52) for at, _ in reward], abs=0.06)
    assert (places[0][1] > places[-1][1]) == (reward[0][1] < reward[-1][1])


def test_the_page_of_runs_that_are_done_stays(tiny) -> None:
    assert Page(watching.page(watching.states([tiny.done.folder]), 5.0)).meta == {}


def test_it_goes_on_until_all_are_done(tiny, tmp_path: Path, monkeypatch) -> None:
    run, page, waited = copy(tiny.stopped, tmp_path / "run"), tmp_path / "page.html", []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            shutil.copy(tiny.done.folder / "weights" / "actor_critic.safetensors", run.folder / "weights")

    monkeypatch.setattr(time, "sleep", sleep)
    assert command(run.folder, tiny.done.folder, "--every", "0.5", "--html", page) == 0
    assert waited == [0.5] * 3
    assert Page(page.read_text()).meta == {}
    assert sorted(os.listdir(tmp_path)) == ["page.html", "run"]


def test_ctrl_c_is_an_end_like_any_other(tiny, monkeypatch) -> None:
    def sleep(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    assert command(tiny.stopped.folder) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("{tmp}/nowhere", "--once"), "is not a run folder"),
        (("{done}", "--once", "--every", "0"), "is not a number of seconds above 0"),
        (("{done}", "--once", "--html", "{tmp}/no/page.html"), "cannot be written"),
    ],
)
def test_what_cannot_be_watched_is_said(words, said: str, tiny, tmp_path: Path, capsys) -> None:
    assert command(*(word.format(tmp=tmp_path, done=tiny.done.folder) for word in words)) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
