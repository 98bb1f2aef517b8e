"""The README's code runs, and its tree is the tree."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_code_runs(code: str) -> None:
    scope: dict[str, object] = {}
    exec(code, scope)
    if "actor_loss" in code:
        assert scope["actor_loss"].isfinite()
        assert float(scope["rewards"][0, 0]) > 0
    else:
        assert scope["reward"].score([2, 3], [[2]]) == -1


def test_every_module_is_in_the_tree() -> None:
    tree = README.split("## The tree")[1]
    for path in (ROOT / "src" / "seqcredit").rglob("*.py"):
        if path.name != "__init__.py":
            assert path.name in tree, f"{path.name} is not in the README's tree"


def test_commands_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`?make (\w+)", README):
        assert f"\n{target}:" in makefile
