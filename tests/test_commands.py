"""What commands print and how they exit; those with files of their own are tested beside what they call."""

import json
import subprocess
import sys

import pytest


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from seqcredit.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_verify_prints_a_table_and_passes() -> None:
    done = run("verify")
    assert done.returncode == 0
    assert "marginal match" in done.stdout
    assert done.stdout.count("pass") == 9
    assert done.stderr == ""


@pytest.mark.slow
def test_verify_as_json() -> None:
    done = run("verify", "--json")
    cells = json.loads(done.stdout)
    assert done.returncode == 0
    assert all(cell["passed"] and cell["error"] < 1e-9 for cell in cells)


@pytest.mark.slow
def test_verify_fails_loudly() -> None:
    """With the entropy taken out of the soft value, the process itself must say FAIL and exit with 1."""
    broken = (
        "import torch; from seqcredit.credit.oracle import enumeration;"
        "enumeration.soft_value = lambda q, tau, forced: torch.where(forced, q[..., 0], q.amax(-1));"
        "from seqcredit.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", broken, "verify"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "FAIL" in done.stdout
