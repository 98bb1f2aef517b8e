"""The recipes that come along."""

from collections.abc import Iterator
from pathlib import Path

from seqcredit import config
from seqcredit.errors import UserError

FOLDER = Path(__file__).parents[3] / "recipes"


def listing() -> Iterator[tuple[str, str]]:
    """Name of each recipe and what it is."""
    if not FOLDER.exists():
        raise UserError("The recipes are a folder of the repository; clone it, or write a recipe of your own.")
    for path in sorted(FOLDER.rglob("*.toml")):
        recipe = config.load(path)
        phases = " -> ".join(phase.name for phase in recipe.phase)
        yield str(path.relative_to(FOLDER).with_suffix("")), f"{recipe.name}: {phases}"


def show(name: str) -> str:
    """The text of a recipe by the name that `listing` gives."""
    path = FOLDER / f"{name.removesuffix('.toml')}.toml"
    if not path.is_file():
        raise UserError(f"There is no recipe {name!r}; `seqcredit recipes` lists them.")
    return path.read_text(encoding="utf-8")
