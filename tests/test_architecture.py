"""The import arrows of the project, read off the source."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "seqcredit"
LEAVES = {"errors", "types", "draws", "named"}
ARROWS: dict[str, set[str]] = {
    "errors": set(),
    "types": set(),
    "draws": set(),
    "named": {"errors"},
    "config": {"errors"},
    "credit": LEAVES,
    "rewards": LEAVES,
    "models": LEAVES,
    "data": LEAVES | {"rewards"},
    "training": LEAVES | {"credit", "models", "data", "config", "rewards"},
    "experiments": LEAVES | {"models", "data", "training", "credit", "rewards", "config"},
    "results": LEAVES | {"models", "data", "training", "credit", "rewards", "config", "experiments"},
    "inspect": LEAVES | {"models", "data", "training", "credit", "rewards", "config", "experiments", "results"},
}
# What the mathematics may import from outside.
OUTSIDE = {"credit": {"torch", "jaxtyping"}}
STANDARD = {"collections", "dataclasses", "typing", "math", "threading", "warnings"}


def modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if part(path) in ARROWS)


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: import by its full name"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def part(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_arrows(path: Path) -> None:
    mine = part(path)
    inside = {name.split(".")[1] for name in imports(path) if name.startswith("seqcredit.")} - {"__version__"}
    assert inside <= ARROWS[mine] | {mine}
    if mine in OUTSIDE:
        roots = {name.split(".")[0] for name in imports(path)} - {"seqcredit"}
        assert roots <= OUTSIDE[mine] | STANDARD


def test_every_part_is_known() -> None:
    parts = {part(path) for path in SOURCE.rglob("*.py")}
    assert parts <= set(ARROWS) | {"cli", "commands", "__init__"}
    assert {"credit", "rewards", "types"} <= parts


def test_tests_mirror_the_source() -> None:
    tests = SOURCE.parents[1] / "tests"
    for path in SOURCE.rglob("*.py"):
        if path.name not in {"__init__.py", "errors.py"}:
            relative = path.relative_to(SOURCE)
            mirror = tests / relative.parent / f"test_{relative.name}"
            assert mirror.exists(), f"{relative} has no test file {mirror.relative_to(tests)}"
