"""The built-in recipes."""

from collections.abc import Iterator

from seqcredit.errors import require
from seqcredit.experiments import recipe as recipes
from seqcredit.experiments.recipe import RECIPES


def listing() -> Iterator[tuple[str, str]]:
    """Name of each recipe and what it is."""
    for path in sorted(RECIPES.rglob("*.toml")):
        recipe = recipes.load(path)
        phases = " -> ".join(phase.name for phase in recipe.phase)
        yield str(path.relative_to(RECIPES).with_suffix("")), f"{recipe.name}: {phases}"


def show(name: str) -> str:
    """The text of a recipe by the name that `listing` gives."""
    path = RECIPES / f"{name.removesuffix('.toml')}.toml"
    require(path.is_file(), f"There is no recipe {name!r}; `seqcredit recipes` lists them.")
    return path.read_text(encoding="utf-8")
