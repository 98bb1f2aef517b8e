"""Every claim holds, and the command says so; broken on purpose, it says that too."""

import json
import subprocess
import sys

import pytest

from seqcredit.commands import verify
from seqcredit.credit.oracle import score
from seqcredit.credit.theorems import CLAIMS
from seqcredit.types import pad_references

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cells() -> list[verify.Check]:
    return list(verify.checks())


def test_every_claim_holds_everywhere(cells: list[verify.Check]) -> None:
    assert [cell for cell in cells if not cell.passed] == []
    assert len(cells) == verify.count()


def test_the_scope_is_wide_enough(cells: list[verify.Check]) -> None:
    assert len({cell.reward for cell in cells}) >= 5
    assert len({cell.tau for cell in cells}) >= 3
    assert min(cell.sequences for cell in cells) >= 1_000
    assert {cell.claim for cell in cells} == {claim.text for claim in CLAIMS}


def test_rewards_tell_sequences_apart() -> None:
    """A constant reward would pass every check and show nothing."""
    references = pad_references([[[1, 2, 3, 2], [3, 1]]])[0]
    space = verify.spaces()[0]
    for reward in verify.rewards(space).values():
        assert len(score(space, reward, references).finished.unique()) >= 5


def test_the_summary_names_what_failed(cells: list[verify.Check]) -> None:
    broken = [cells[0]._replace(error=float("nan"), passed=False), *cells[1:]]
    results = list(verify.summary(broken).columns[-1].cells)
    assert results[0].startswith("FAIL in 1")
    assert set(results[1:]) == {"pass"}
    assert "1,365 (5 actions, length <= 6)" in verify.scope(cells)


def test_verify_prints_a_table_and_passes(run) -> None:
    done = run("verify")
    assert done.returncode == 0
    assert "marginal match" in done.stdout
    assert done.stdout.count("pass") == 9
    assert done.stderr == ""


def test_verify_as_json(run) -> None:
    done = run("verify", "--json")
    cells = json.loads(done.stdout)
    assert done.returncode == 0
    assert all(cell["passed"] and cell["error"] < 1e-9 for cell in cells)


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
