"""The pages under docs: their code runs and does what they say, and their links lead somewhere."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from seqcredit.algorithms import ALGORITHMS
from seqcredit.experiments.recipe import Recipe
from seqcredit.models.build import LSTM
from seqcredit.rewards.payoff import Payoff

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [
    *sorted(DOCS.glob("*.md")),
    *(DOCS.parent / name for name in ("README.md", "RESULTS.md", "CHANGELOG.md", "results/README.md")),
]


@pytest.mark.slow
def test_the_page_about_your_own_runs(tmp_path: Path) -> None:
    """Every block, one after another, as a reader would paste them; the first says that nothing got worse."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "your-own-model.md").read_text(), re.DOTALL)
    checks = "\nassert ShortFirst('s', 0.1).power == 0.5\nassert actor_loss.isfinite() and float(rewards[0, 0]) > 0\n"
    (tmp_path / "page.py").write_text("\n".join(blocks) + checks)
    done = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """To a file that is there, and to a heading of it where one is named."""
    for link, _, heading in re.findall(r"\]\(([^)#]*)(#([^)]+))?\)", page.read_text()):
        target = page.parent / link if link else page
        assert link.startswith("https://") or target.exists(), link
        if heading and target.suffix == ".md":
            titles = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, heading


def test_pages_from_the_code_are_current() -> None:
    done = subprocess.run([sys.executable, DOCS / "make.py", "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "docs are what the code gives\n"), done.stdout


def test_every_recipe_key_is_explained_once() -> None:
    text = (DOCS / "recipe-keys.md").read_text()
    for kind in (Recipe, Payoff, LSTM, *ALGORITHMS.values()):
        for field in fields(kind):
            assert f"| `{field.name}` |" in text, field.name


def test_names_in_the_map_exist() -> None:
    """`credit.x.y` and `rewards.X` of paper-to-code are real."""
    import importlib.util

    text = (DOCS / "paper-to-code.md").read_text()
    names = set(re.findall(r"`((?:credit|rewards|training|algorithms)\.[\w.]+)[`(]", text))
    assert len(names) > 15
    for name in names:
        module, _, attribute = f"seqcredit.{name}".rpartition(".")
        found = importlib.import_module(module)
        assert hasattr(found, attribute) or importlib.util.find_spec(f"seqcredit.{name}"), name
