"""The README's code runs and does what it says, and its commands exist."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_the_first_block_does_what_the_readme_says(tmp_path: Path) -> None:
    """Twelve lines and a few blank ones; the formal answer, then a casual one that is right more often."""
    code = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
    assert code.startswith("import random\nimport seqcredit as sc\n")
    assert len([line for line in code.splitlines() if line]) <= 12
    (tmp_path / "block.py").write_text(code)
    one = {**os.environ, "OMP_NUM_THREADS": "1"}  # threads of small networks only wait for each other
    done = subprocess.run(
        [sys.executable, "block.py"], cwd=tmp_path, capture_output=True, text=True, env=one, check=False
    )
    assert done.returncode == 0, done.stderr
    first, formal, second, casual = done.stdout.splitlines()[-4:]
    before, after = (float(line.split()[1]) for line in (first, second))
    assert after > before + 5
    assert re.fullmatch(r"it is ten o'clock|\w+ , that would be ten", formal)
    assert re.fullmatch(r"(well|so|look|oh) , that would be ten", casual)


def test_commands_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`?make (\w+)", README):
        assert f"\n{target}:" in makefile


def test_every_command_of_the_readme_is_one() -> None:
    from seqcredit.cli import _named

    for word in re.findall(
        r"seqcredit ([a-z]+)\b", "\n".join(re.findall(r"```\n(.*?)```|`(seqcredit [^`]+)`", README, re.DOTALL)[0])
    ):
        assert word in _named(), word
