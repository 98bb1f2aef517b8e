"""The pages under docs: their code runs and does what they say, and their links lead somewhere."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.slow
def test_your_own_model_learns(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "your-own-model.md").read_text(), re.DOTALL)
    exec(code, {})
    before, after = (float(figure) for figure in re.findall(r"reward ([\d.]+)", capsys.readouterr().out))
    assert before < 0.75
    assert after > 0.9


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert link.startswith("https://") or (page.parent / link).exists(), link


def test_names_in_the_map_exist() -> None:
    """`credit.x.y` and `rewards.X` of paper-to-code are real."""
    import importlib

    text = (DOCS / "paper-to-code.md").read_text()
    names = set(re.findall(r"`((?:credit|rewards|training)\.[\w.]+)[`(]", text))
    assert len(names) > 15
    for name in names:
        module, _, attribute = f"seqcredit.{name}".rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name
