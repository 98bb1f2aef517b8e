"""Things of the user's own, by name."""

import json
import sys
from pathlib import Path

import pytest

from seqcredit import named
from seqcredit.errors import UserError


def test_a_function_beside_the_recipe_is_imported_once(tmp_path: Path) -> None:
    (tmp_path / "mine_once.py").write_text(
        "import helper_of_mine\ncount = helper_of_mine.add()\ndef score(): return 7\n"
    )
    (tmp_path / "helper_of_mine.py").write_text("calls = []\ndef add():\n    calls.append(1)\n    return len(calls)\n")
    score = named.find("mine_once:score", tmp_path)
    assert callable(score)
    assert score() == 7
    assert named.find("mine_once:score", tmp_path) is score
    assert named.find("mine_once:count", tmp_path) == 1
    assert score.__module__ == "mine_once"


def test_files_of_one_name_in_two_folders_are_two(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same_name.py").write_text(f"where = {folder!r}\n")
    assert [named.find("same_name:where", tmp_path / folder) for folder in ("a", "b", "a")] == ["a", "b", "a"]


def test_the_python_path_is_asked_where_no_file_is(tmp_path: Path) -> None:
    assert named.find("math:floor", tmp_path) is __import__("math").floor
    assert named.find("collections.abc:Mapping") is __import__("collections").abc.Mapping


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "1 / 0\n",
            r"broken_file.py cannot be imported. ZeroDivisionError: division by zero \(broken_file.py, line 1\).",
        ),
        (
            "def score(:\n",
            r"broken_file.py cannot be imported. SyntaxError: invalid syntax \(broken_file.py, line 1\).",
        ),
        ("import not_there_at_all\n", "ModuleNotFoundError: No module named 'not_there_at_all'"),
        ("raise SystemExit(3)\n", r"broken_file.py cannot be imported. SystemExit: 3 \(broken_file.py, line 1\)."),
        ("x = '\0'\n", "cannot be imported. SyntaxError: source code string cannot contain null bytes.$"),
        (
            "class E(Exception):\n    __str__ = None\nraise E\n",
            r"cannot be imported. E: \(its message cannot be made\) \(broken_file.py, line 3\).",
        ),
        ("x = 1\n", "broken_file.py has no 'score', which 'broken_file:score' asks for."),
    ],
)
def test_errors_are_shown_as_what_they_are(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "broken_file.py").write_text(text)
    try:
        with pytest.raises(UserError, match=said):
            named.find("broken_file:score", tmp_path)
    finally:
        sys.modules.pop("broken_file", None)


def test_what_a_module_on_the_path_lacks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lacking_module.py").write_text("import not_there_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"lacking_module cannot be imported\. ModuleNotFoundError"):
        named.find("lacking_module:score")


def test_a_link_to_itself_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "turning_round.py").symlink_to("turning_round.py")
    with pytest.raises(UserError, match=r"There is no turning_round\.py beside the recipe"):
        named.find("turning_round:score", tmp_path)


def test_where_an_error_left_a_file_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "failing_file.py").write_text("import json\ndef score():\n    return json.loads('x')\n")
    score = named.find("failing_file:score", tmp_path)
    assert callable(score)
    with pytest.raises(json.JSONDecodeError) as found:
        score()
    assert named.own_place(found.value) == "failing_file.py, line 3"
    with pytest.raises(ZeroDivisionError) as other:
        1 / 0  # noqa: B018
    assert named.own_place(other.value) is None


def test_what_is_nowhere_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"There is no nowhere_to_be.py beside the recipe in .*, nor here, and no module"
    ):
        named.find("nowhere_to_be:score", tmp_path)
    with pytest.raises(UserError, match="names nothing: write it as FILE:NAME"):
        named.find("score", tmp_path)
    assert named.is_named("my_file:score")
    assert not any(map(named.is_named, ("bleu", "C:\\x", "a:b:c", ":x", "x:")))
