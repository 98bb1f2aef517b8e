"""What commands share: numbers, devices, runs with their data, the live line."""

import argparse
import io
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from seqcredit.commands import shared
from seqcredit.errors import UserError
from seqcredit.results.evaluate import final_search
from seqcredit.training.decoding import Search


@pytest.mark.parametrize(
    ("read", "good", "bad"),
    [
        (
            shared.positive,
            {"1": 1, "12": 12, "2147483647": 2**31 - 1},
            ["0", "-1", "1.0", "", "x", "nan", "2147483648"],
        ),
        (shared.natural, {"0": 0, "5": 5}, ["-1", "0.5", "none"]),
        (shared.threads, {"1": 1, "1024": 1024}, ["0", "-1", "1025", "9" * 5000]),
        (shared.port, {"0": 0, "65535": 65535}, ["-1", "65536", "http"]),
        (shared.minutes, {"0": 0.0, "2.5": 2.5, "inf": math.inf}, ["-0.1", "nan", "-inf", "soon"]),
        (shared.seconds, {"0.5": 0.5, "1e3": 1000.0}, ["0", "-1", "nan", "inf", ""]),
        (shared.width, {"1": 1, "10000": 10_000}, ["0", "-1", "10001", "wide"]),
        (shared.penalty, {"0": 0.0, "-10": -10.0, "10": 10.0}, ["nan", "inf", "-inf", "10.1", "-10.1", "1e300", "x"]),
    ],
)
def test_numbers(read: Callable[[str], float], good: dict[str, float], bad: list[str]) -> None:
    assert {text: read(text) for text in good} == good
    for text in bad:
        with pytest.raises(argparse.ArgumentTypeError) as said:
            read(text)
        assert str(said.value).startswith(f"{text!r} is not a")


def test_paths_that_may_not_be_read_or_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    for read in (shared.given, shared.wanted):
        for path in (file, tmp_path, tmp_path / "new", tmp_path / "a" / "new"):
            assert read(str(path)) == path
        for text, said in ((f"{tmp_path}/{'x' * 300}", "File name too long"), (f"{tmp_path}/loop", "symbolic links")):
            with pytest.raises(argparse.ArgumentTypeError, match=said):
                read(text)
    with pytest.raises(argparse.ArgumentTypeError, match="file is not a folder"):
        shared.wanted(f"{file}/new")
    with pytest.raises(argparse.ArgumentTypeError, match="cannot be made"):
        shared.wanted("")


def options(**given: object) -> argparse.Namespace:
    return argparse.Namespace(**given)


def test_a_device_that_is_there() -> None:
    assert shared.use_device(options(device="cpu")) == torch.device("cpu")


@pytest.mark.parametrize("name", ["0", "nan", "", "meta", "cuda:99", "cpu:x", "gpu"])
def test_a_device_that_is_not_there(name: str) -> None:
    with pytest.raises(UserError) as said:
        shared.use_device(options(device=name))
    assert str(said.value).startswith(f"--device {name}: torch finds no such device here; give cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="here cuda is there")
def test_cuda_where_there_is_none() -> None:
    with pytest.raises(UserError, match=r"^--device cuda: torch finds no such device here; give cpu\.$"):
        shared.use_device(options(device="cuda"))


def test_threads_are_taken() -> None:
    before = torch.get_num_threads()
    try:
        shared.use_threads(options(threads=3))
        assert torch.get_num_threads() == 3
        shared.use_threads(options(threads=None))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_run_comes_with_its_data(shown: Any, tmp_path: Path) -> None:
    run, prepared = shared.open_run(shown.erac.folder)
    assert (run.recipe, prepared.folder) == (shown.erac.recipe, shown.prepared.folder)
    assert shared.data_of(run).checksums == prepared.checksums
    run.about["vocabularies"] = {**run.about["vocabularies"], "target": "another"}
    with pytest.raises(UserError, match=r"The target vocabulary of .* is not the one"):
        shared.data_of(run)
    with pytest.raises(UserError, match="is not a run folder"):
        shared.open_run(tmp_path)


def test_the_search_is_the_recipes_but_for_the_options(shown: Any) -> None:
    given = options(beam=None, length_penalty=0.5, replace_unknown=True, phase=None)
    found = shared.search_of(shown.mle, given)
    assert (found.width, found.bound, found.length_penalty, found.replace_unknown) == (2, 13, 0.5, True)
    assert shared.search_of(shown.mle, given, 7).width == 7
    given.beam = 4
    assert [shared.search_of(shown.mle, given, least).width for least in (1, 4, 5)] == [4, 4, 5]
    penalised = replace(shown.mle, recipe=replace(shown.mle.recipe, length_penalty=0.7))
    assert shared.search_of(penalised, given).length_penalty == 0.5
    given.length_penalty = None
    assert shared.search_of(penalised, given) == Search(4, 13, 0.7, True)
    given.length_penalty = 0.0
    assert shared.search_of(penalised, given).length_penalty == 0.0
    assert final_search(penalised.recipe) == Search(2, 13, 0.7)


def test_judges_are_runs_that_are_looked_at_together(shown: Any) -> None:
    folders = [shown.mle.folder, shown.erac.folder]
    given = options(run_folders=folders, critic=shown.erac.folder, device="cpu", threads=None)
    judges = shared.open_examiners(given)
    assert [judge.run.folder for judge in judges] == folders
    assert {judge.prepared.folder for judge in judges} == {shown.prepared.folder}
    assert [judge.critic is None for judge in judges] == [False, False]


def test_lines_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with shared.display() as (say, show):
        say("one [bold]line[/bold]")
    assert show is None
    with shared.display(False) as (say, show):
        say("nothing")
    assert show is None
    assert capsys.readouterr().out == "one [bold]line[/bold]\n"


def test_a_live_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("TERM", "xterm")
    with shared.display() as (say, show):
        assert show is not None
        show("half of it")
        say("a line [that] stays")
    assert "half of it" in screen.getvalue()
    assert "a line [that] stays" in screen.getvalue()
