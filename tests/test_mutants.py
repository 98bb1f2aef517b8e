"""Every deliberate error in the mathematics is noticed by the tests of its own file."""

import ast
import subprocess
import sys

import pytest

import mutants


@pytest.mark.slow
def test_mutants_are_caught() -> None:
    """Every twentieth; `make mutants` tries them all."""
    done = subprocess.run(
        [sys.executable, mutants.__file__, "--every", "20"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, "\n".join(line for line in done.stdout.splitlines() if not line.startswith("caught"))


@pytest.mark.parametrize("file", [mutants.VALUES, mutants.LOSSES])
def test_every_function_has_a_mutant(file: str) -> None:
    text = (mutants.SOURCE / file).read_text()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            body = ast.get_source_segment(text, node) or ""
            mine = [m for m in mutants.MUTANTS if m.file == file and m.before.strip("\n") in body]
            shared = node.name in {"critic_td"}  # one line that is also in soft_q
            assert mine or shared, f"{node.name} has no mutant"


def test_mutants_are_current() -> None:
    for mutant in mutants.MUTANTS:
        assert (mutants.SOURCE / mutant.file).read_text().count(mutant.before) == 1, str(mutant)
        assert all(path.exists() for path in mutants.tests_of(mutant.file))
