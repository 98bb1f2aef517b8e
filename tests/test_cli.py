"""The command line as a user has it: a real process, its output and its exit code."""

import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import pytest

import seqcredit
from seqcredit import named
from seqcredit.cli import main
from seqcredit.commands import GROUPS, recipes
from seqcredit.errors import UserError

ORDER = {
    "data": ["prepare", "features"],
    "train": ["train", "tune", "resume", "sweep", "demo", "recipes"],
    "use": ["translate", "caption", "export"],
    "judge": ["evaluate", "compare", "headroom", "record", "table", "plot", "report", "sheet"],
    "look": ["inspect", "serve", "watch"],
    "check": ["verify", "bench"],
}
# What --help may not wait for: heavy packages, and parts of the standard library that take longer than all else here.
SLOW = ["torch", "numpy", "rich", "importlib.metadata", "inspect", "json", "subprocess", "seqcredit.experiments.recipe"]


MEMORY = "There is not enough memory for this: make the networks, the batches or the beam smaller."
LOOK = "look at the path, who may read and write it, and the room that is left."


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from seqcredit.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"seqcredit {version('seqcredit')}\n")
    assert seqcredit.__version__ == version("seqcredit")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = seqcredit.nothing


def test_help_waits_for_nothing() -> None:
    """Neither that of all commands nor that of each: one process asks for all of them, one after the other."""
    code = (
        "import contextlib, io, sys\n"
        "from seqcredit.cli import main\n"
        "for words in ([], *([name] for name in sys.argv[2:])):\n"
        "    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as said:\n"
        "        main([*words, '--help'])\n"
        "    assert said.getvalue().startswith('usage: seqcredit'), words\n"
        "    loaded = [name for name in sys.argv[1].split() if name in sys.modules]\n"
        "    assert not loaded, (words, loaded)\n"
    )
    names = [name for group in ORDER.values() for name in group]
    command = [sys.executable, "-c", code, " ".join(SLOW), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_help_names_the_commands_in_groups() -> None:
    done = run("--help")
    assert done.returncode == 0
    for title, group in ORDER.items():
        _, _, below = done.stdout.partition(f"\n{title}:\n")
        lines = below.partition("\n\n")[0].splitlines()
        assert [line.split()[0] for line in lines] == group
        assert [line.split(maxsplit=1)[1] for line in lines] == [command.ABOUT for command in GROUPS[title]]
    assert [line for line in done.stdout.splitlines() if line.endswith(":")] == [
        f"{title}:" for title in [*ORDER, "options"]
    ]
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_help_of_a_command() -> None:
    done = run("verify", "--help")
    assert done.stdout.startswith("usage: seqcredit verify [-h] [--json]\n\nCheck each proposition")
    assert "--json" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nonsense"], "There is no command 'nonsense'. See "),
        (["trian", "demo/mle"], "There is no command 'trian'; the nearest is 'train'. See "),
        (["tabel"], "There is no command 'tabel'; the nearest is 'table'. See "),
        (["results"], "There is no command 'results'"),
        ([], "the following arguments are required: COMMAND"),
        (["--jsno"], "the following arguments are required: COMMAND"),
        (["verify", "--jsno"], "unrecognized arguments: --jsno"),
        (["verify", "extra"], "unrecognized arguments: extra"),
        (["plot", "tua"], "argument KIND: invalid choice: 'tua'"),
    ],
)
def test_a_slip_of_the_hand_gets_one_sentence(arguments: list[str], sentence: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"seqcredit: {sentence}")
    assert line.endswith("--help'.")


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (UserError("That is so."), 2, "seqcredit: That is so.\n"),
        (KeyboardInterrupt(), 130, "seqcredit: interrupted.\n"),
        (UserError("a\nb\x00"), 2, "seqcredit: a\\nb\\x00\n"),
        (MemoryError(), 2, f"seqcredit: {MEMORY}\n"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 2, f"seqcredit: {MEMORY}\n"),
        (PermissionError(13, "Permission denied", "a/b"), 2, f"seqcredit: a/b: Permission denied; {LOOK}\n"),
        (OSError(28, "No space left on device"), 2, f"seqcredit: No space left on device; {LOOK}\n"),
    ],
)
def test_what_is_raised_becomes_an_exit_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    raised: BaseException,
    code: int,
    said: str,
) -> None:
    def fail(_: object) -> int:
        raise raised

    monkeypatch.setattr(recipes, "run", fail)
    with pytest.raises(SystemExit) as ended:
        main(["recipes"])
    assert ended.value.code == code
    assert capsys.readouterr() == ("", said)


def failing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, code: int = 70) -> str:
    """What a command says that nobody has foreseen to fail."""

    def fail(_: object) -> int:
        raise ZeroDivisionError("of a kind")

    monkeypatch.setattr(recipes, "run", fail)
    with pytest.raises(SystemExit) as ended:
        main(["recipes"])
    assert ended.value.code == code
    out, err = capsys.readouterr()
    assert out == ""
    return err


def test_the_unforeseen_is_one_sentence_and_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("SEQCREDIT_DEBUG", raising=False)
    err = failing(monkeypatch, capsys)
    (kept,) = tmp_path.iterdir()
    said = f"This should not have happened (ZeroDivisionError); {kept} says where: please send it to the authors."
    assert err == f"seqcredit: {said}\n"
    text = kept.read_text()
    assert "ZeroDivisionError: of a kind" in text
    assert f"seqcredit {version('seqcredit')}, torch " in text
    assert "command: " in text


def test_the_unforeseen_without_a_place_for_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    monkeypatch.delenv("SEQCREDIT_DEBUG", raising=False)
    assert failing(monkeypatch, capsys) == (
        "seqcredit: This should not have happened (ZeroDivisionError); SEQCREDIT_DEBUG=1 shows where.\n"
    )
    monkeypatch.setenv("SEQCREDIT_DEBUG", "1")
    shown = failing(monkeypatch, capsys)
    assert "Traceback (most recent call last)" in shown
    assert shown.endswith("ZeroDivisionError: of a kind\n")


def test_a_sentence_has_an_end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["table", "x" * 90_000])
    _, err = capsys.readouterr()
    assert len(err) < 700
    assert err.startswith("seqcredit: argument RESULTS: 'xxx")
    assert err.endswith("File name too long. See 'seqcredit table --help'.\n")


def test_a_reader_that_has_gone_is_no_error() -> None:
    """As in `seqcredit recipes | head -1`."""
    code = "import sys; from seqcredit.commands import recipes\ndef run(_): raise BrokenPipeError\nrecipes.run = run\n"
    code += "from seqcredit.cli import main; main(['recipes'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_reader_that_went_before_the_end_is_no_error() -> None:
    """What is still kept back when a command ends is not written then either."""
    reads, writes = os.pipe()
    os.close(reads)
    try:
        line = [sys.executable, "-m", "seqcredit", "recipes"]
        done = subprocess.run(line, stdout=writes, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writes)
    assert (done.returncode, done.stderr) == (0, "")


def test_letters_that_the_output_does_not_have_are_said() -> None:
    code = "from seqcredit.commands import recipes\nrecipes.run = lambda _: print('\u03c4')\n"
    code += "from seqcredit.cli import main; main(['recipes'])"
    line, ascii_only = [sys.executable, "-c", code], {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=ascii_only)
    said = "seqcredit: The output is ascii, which has no '\\u03c4': set PYTHONIOENCODING=utf-8.\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_what_fails_in_a_file_of_ones_own_is_not_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "mine_that_fails.py").write_text("def run(_):\n    return 1 / 0\n")
    monkeypatch.setattr(recipes, "run", named.find("mine_that_fails:run", tmp_path))
    with pytest.raises(SystemExit) as ended:
        main(["recipes"])
    assert ended.value.code == 2
    said = "mine_that_fails.py, line 2: ZeroDivisionError: division by zero; this is in a file of your own; "
    assert capsys.readouterr().err == f"seqcredit: {said}SEQCREDIT_DEBUG=1 shows the way there.\n"


@pytest.mark.parametrize(("given", "kept"), [(None, "32"), ("7", "7")])
def test_few_kernels_are_kept_unless_the_user_says_otherwise(
    given: str | None, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", raising=False)
    if given:
        monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", given)
    with pytest.raises(SystemExit):
        main(["--version"])
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == kept
