"""The command line as a user has it: a real process, its output and its exit code."""

import subprocess
import sys

import pytest

from seqcredit import __version__


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from seqcredit.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"seqcredit {__version__}\n")


def test_help_and_version_do_not_wait_for_torch() -> None:
    code = "import sys, seqcredit.cli; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_help_names_the_commands() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "verify" in done.stdout
    assert "--json" in run("verify", "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nonsense"], "argument COMMAND: invalid choice: 'nonsense'"),
        ([], "the following arguments are required: COMMAND"),
        (["verify", "--jsno"], "unrecognized arguments: --jsno"),
        (["verify", "extra"], "unrecognized arguments: extra"),
    ],
)
def test_a_slip_of_the_hand_gets_one_sentence(arguments: list[str], sentence: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"seqcredit: {sentence}")
    assert line.endswith("--help'.")
