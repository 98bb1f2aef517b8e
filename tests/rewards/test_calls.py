"""A function of the user's: what it is given, where it runs, and what is remembered of it."""

import math
import subprocess
import sys
from functools import partial
from multiprocessing import spawn
from pathlib import Path

import pytest
import torch

from seqcredit.errors import UserError
from seqcredit.named import find
from seqcredit.rewards import calls
from seqcredit.rewards.calls import Calls, Memory, beginnings, groups, sequences, table
from seqcredit.types import ABSENT

FILE = """
import os

def score(text, references):
    return 1 / len(text) + len(references)

def scores(texts, references):
    if "stop" in texts:
        os._exit(1)
    return [100 * len(texts) + score(*pair) for pair in zip(texts, references, strict=True)]

def where(text, references):
    return float(os.getpid())
"""
GIVEN = [("a" * n, ["x"] * (n % 3)) for n in range(1, 30)]


# What is asked.


def test_ids_before_eos() -> None:
    assert sequences(torch.tensor([[2, 3, 0, 4], [0, 2, 2, 2], [5, 1, 1, 2]])) == [(2, 3), (), (5, 1, 1, 2)]
    assert beginnings((4, 5)) == [(), (4,), (4, 5)]
    assert beginnings(()) == [()]


def test_references_that_are_there() -> None:
    references = torch.tensor([[[2, 0], [ABSENT] * 2, [0, 0]], [[ABSENT] * 2] * 3])
    assert groups(references) == [((2,), ()), ()]
    assert groups(torch.zeros(2, 0, 1).long()) == [(), ()]


def test_each_thing_is_asked_about_once() -> None:
    asked = []

    def ask(things: list[str]) -> list[float]:
        asked.append(things)
        return [float(len(thing)) for thing in things]

    found = table([["", "a", "ab"], ["a"], ["", "a"]], ask, 4, torch.float64, torch.device("cpu"))
    assert asked == [["", "a", "ab"]]
    assert found.tolist() == [[0, 1, 2, 2], [1, 1, 1, 1], [0, 1, 1, 1]]
    assert found.dtype == torch.float64
    assert table([], ask, 4, None, torch.device("cpu")).shape == (0, 4)


def test_what_nobody_asked_for_longest_is_forgotten() -> None:
    memory, asked = Memory[str](3), []

    def ask(things: list[str]) -> list[float]:
        asked.append("".join(things))
        return [float(ord(thing)) for thing in things]

    for things in ("abc", "ab", "d", "ab", "c", "bxyzw", "wz"):
        assert memory.answers(list(things), ask) == [float(ord(thing)) for thing in things]
    # d forgets c, c forgets d, and b is still known when four others come
    assert asked == ["abc", "", "d", "", "c", "xyzw", ""]


def test_one_answer_for_each_call() -> None:
    given, asked = [("a", ["b"], "x"), ("c", [], "y")], []

    def score(*arguments: object) -> object:
        asked.append(arguments)
        return torch.ones(2, requires_grad=True) * 2

    assert Calls(score, "mine", batched=True).answers(given) == [2, 2]
    assert Calls(score, "mine", batched=True).answers([]) == []
    assert asked == [(["a", "c"], [["b"], []], ["x", "y"])]
    with pytest.raises(
        UserError, match=r"^mine: the function returned \[2\.0, 2\.0\] for the prefix a, return a finite "
    ):
        Calls(score, "mine").answers(given)
    for answer, got in ((0.5, "a float"), ([0.5], "1 scores"), ((1, 2, 3), "3 scores")):
        wrong = Calls(lambda *_, answer=answer: answer, "mine", batched=True)
        with pytest.raises(
            UserError, match=f"^mine: the function returned {got} for 2 prefixes, return one float for "
        ):
            wrong.answers(given)
    for number in (10**400, 10**5000):  # no float can hold it, and the second has too many digits to be shown
        with pytest.raises(UserError, match=r"^mine: the function returned (10+|a int) for the prefix a, return a"):
            Calls(lambda *_, number=number: number, "mine").answers(given)
    for answer in (math.inf, math.nan, None):
        wrong = Calls(lambda *_, answer=answer: answer, "mine")
        with pytest.raises(
            UserError, match=rf"^mine: the function returned {answer} for the prefix a, return a finite "
        ):
            wrong.answers(given)


def test_a_function_that_leaves_has_failed() -> None:
    def score(*_: object) -> float:
        raise SystemExit(3)

    with pytest.raises(UserError, match=r"^mine: the function failed\. SystemExit: 3 \(test_calls\.py, line"):
        Calls(score, "mine").answers([("a", ["b"])])


def test_no_gradient_is_kept() -> None:
    weight = torch.ones(1, requires_grad=True)
    assert Calls(lambda *_: float((2 * weight).requires_grad), "mine").answers([("a", [])]) == [0.0]


# Where it runs.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own_calls_file.py").write_text(FILE)
    return tmp_path


def made(name: str, folder: Path, **options) -> Calls:
    function = find(f"own_calls_file:{name}", folder)
    assert callable(function)
    return Calls(function, name, **options)


@pytest.fixture
def ended():
    """No process is left over."""
    yield
    while calls._pools:
        calls._pools.popitem()[1].shutdown()


def test_in_processes_as_here(folder: Path, monkeypatch: pytest.MonkeyPatch, ended: None) -> None:
    """In order, by chunks, four for each process; and its errors, too."""
    monkeypatch.delitem(sys.modules, "own_calls_file", raising=False)
    here, there = (made("scores", folder, batched=True, processes=n) for n in (0, 2))
    plain = [1 / n + n % 3 for n in range(1, 30)]
    assert here.answers(GIVEN) == [2900 + one for one in plain]
    assert there.answers(GIVEN) == [400 + one for one in plain[:28]] + [100 + plain[28]]
    assert there.answers([]) == here.answers([]) == []
    with pytest.raises(UserError) as caught:
        there.answers([("", [])])
    assert str(caught.value) == (
        "scores: the function failed. ZeroDivisionError: division by zero (own_calls_file.py, line 5)."
    )
    with pytest.raises(UserError, match=r"^scores: a process stopped before it answered, .* processes, which is 2\.$"):
        there.answers([("stop", [])])
    assert not calls._pools  # which could not be used again


@pytest.mark.slow
def test_one_call_after_the_other_in_processes(folder: Path, monkeypatch: pytest.MonkeyPatch, ended: None) -> None:
    monkeypatch.delitem(sys.modules, "own_calls_file", raising=False)
    assert made("score", folder, processes=2).answers(GIVEN) == made("score", folder).answers(GIVEN)
    others = set(made("where", folder, processes=2).answers(GIVEN))
    assert not others & set(made("where", folder).answers(GIVEN[:1]))


def test_what_other_processes_cannot_import() -> None:
    for function in (lambda text, _: 0.0, partial(lambda text, _: 0.0)):
        with pytest.raises(UserError) as caught:
            Calls(function, "mine", processes=2).answers(GIVEN)
        assert str(caught.value) == (
            "mine: processes is 2, but other processes cannot import the function: put it into a file of its own, and "
            "import it from there."
        )


def test_processes_are_not_told_of_the_script() -> None:
    script = sys.modules["__main__"]
    with calls._hidden_script():
        told = spawn.get_preparation_data("a process")
    assert not [key for key in told if key.startswith("init_main")]
    assert sys.modules["__main__"] is script


SCRIPT = """
import sys
from functools import partial
from seqcredit.errors import UserError
from seqcredit.rewards.calls import Calls
from own_calls_file import score

def mine(text, references):
    return 0.0

print("begins")
print(Calls(score, "score", processes=1).answers([("ab", [])]))
for function in (mine, partial(mine, "x")):
    try:
        Calls(function, "mine", processes=1).answers([("ab", [])])
    except UserError as error:
        print(str(error)[:52])
"""


@pytest.mark.slow
def test_a_script_is_not_run_again_by_its_processes(folder: Path) -> None:
    """Though nothing in it asks whether it is the main one; and it ends, with its processes."""
    (folder / "script.py").write_text(SCRIPT)
    line = [sys.executable, "script.py"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    refused = "mine: processes is 1, but other processes cannot"
    assert done.stdout.splitlines() == ["begins", "[0.5]", *[f"{refused} imp"] * 2], done.stderr
    assert done.stderr == ""
