"""The import arrows of the project, read off the source."""

import ast
import re
from pathlib import Path

import pytest

from seqcredit.algorithms import ALGORITHMS
from seqcredit.algorithms.proposing import Proposing

SOURCE = Path(__file__).parents[1] / "src" / "seqcredit"
LEAVES = {"errors", "types", "draws", "named", "options", "products", "threads"}
BELOW = LEAVES | {"credit", "rewards", "models"}
# types <- credit, rewards, models <- search <- algorithms <- training <- experiments <- results <- inspect <- the rest
ARROWS: dict[str, set[str]] = {
    "errors": set(),
    "types": set(),
    "draws": set(),
    "products": set(),
    "threads": set(),
    "named": {"errors"},
    "options": {"errors"},
    "credit": LEAVES,
    "rewards": LEAVES,
    "models": LEAVES,
    "search": BELOW,
    "algorithms": BELOW | {"search"},
    "data": LEAVES | {"rewards"},
    "training": BELOW | {"search", "algorithms", "data"},
    "experiments": BELOW | {"search", "algorithms", "data", "training"},
    "results": BELOW | {"search", "algorithms", "data", "training", "experiments"},
    "inspect": BELOW | {"search", "algorithms", "data", "training", "experiments", "results"},
}
PARTS = set(ARROWS) - LEAVES
ARROWS["commands"] = LEAVES | PARTS | {"api"}
ARROWS["trained"] = LEAVES | PARTS
ARROWS["given"] = LEAVES | PARTS | {"trained"}
ARROWS["api"] = LEAVES | PARTS | {"trained", "given"}
ARROWS["cli"] = {"commands", "errors", "named"}
ARROWS["__main__"] = {"cli"}
# What the mathematics may import from outside.
OUTSIDE = {"credit": {"torch", "jaxtyping"}}
STANDARD = {"collections", "contextlib", "dataclasses", "typing", "math", "threading", "warnings"}


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
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # code that another process is to run
            found |= {f"{module}.x" for module in re.findall(r"(?:import|from) (seqcredit\.\w+)", node.value)}
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
    assert parts == set(ARROWS) | {"__init__"}
    assert {"credit", "rewards", "types"} <= parts


def test_tests_mirror_the_source() -> None:
    """A file a file; of the commands, those without a file of their own are rows of one table, which misses none."""
    tests = SOURCE.parents[1] / "tests"
    table = ast.parse((tests / "commands" / "test_commands.py").read_text())
    (cases,) = (
        node.value
        for node in table.body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "CASES" and isinstance(node.value, ast.Dict)
    )
    in_the_table = {f"{ast.literal_eval(key)}.py" for key in cases.keys if key is not None}
    for path in SOURCE.rglob("*.py"):
        relative = path.relative_to(SOURCE)
        listed = part(path) == "commands" and path.name in in_the_table
        if path.name not in {"__init__.py", "__main__.py", "errors.py"} and not listed:
            mirror = tests / relative.parent / f"test_{relative.name}"
            assert mirror.exists(), f"{relative} has no test file {mirror.relative_to(tests)}"


def test_no_part_but_algorithms_asks_which_algorithm_it_has() -> None:
    names = "|".join(kind.__name__ for kind in (*ALGORITHMS.values(), Proposing))
    for path in SOURCE.rglob("*.py"):
        if part(path) != "algorithms":
            assert not re.search(rf"isinstance\([^)]*\b({names})\b", path.read_text()), path


def test_no_model_is_asked_for_what_it_has() -> None:
    for path in SOURCE.rglob("*.py"):
        assert "hasattr(model" not in path.read_text(), path


def test_files_fit_one_question() -> None:
    long = {
        str(path.relative_to(SOURCE)): n
        for path in SOURCE.rglob("*.py")
        if (n := len(path.read_text().splitlines())) > 350
    }
    assert long == {}


def test_types_are_precise() -> None:
    """The word for anything is for tables of JSON and for torch's own contexts."""
    found = [len(re.findall(r"\bAny\b", path.read_text())) for path in SOURCE.rglob("*.py")]
    assert sum(found) <= 30
