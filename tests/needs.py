"""What some tests need and a bare machine does not have: a browser, the real data, the paper, a GPU, TRL.

Without it they are skipped, and the last sentence of a run counts them. Where the environment says CI=true it has to be
there, all but the GPU and TRL, which brings 270 MB of packages that nothing else here needs.
"""

import importlib.util
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest
import torch

SHARED = Path(__file__).parents[2] / "shared"
DATA = Path(os.environ.get("SEQCREDIT_DATA") or SHARED / "data")
PAPER = Path(os.environ.get("SEQCREDIT_PAPER") or SHARED / "paper" / "paper.tex")
NO_GPU = "there is no GPU here"
NO_CHROMIUM = "Chromium is not installed"
NO_TRL = "trl is not installed"
TOLD = "told"  # a property of a test: what the last lines of a run are to say of it

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_GPU)
trl = pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason=NO_TRL)


def real_data(*parts: str) -> Path:
    """A folder of the real corpora, which are in SEQCREDIT_DATA, or in ../shared/data beside the repository."""
    return _existing(_existing(DATA).joinpath(*parts))


def paper() -> Path:
    """The paper's source: SEQCREDIT_PAPER, or ../shared/paper/paper.tex beside the repository."""
    return _existing(PAPER)


def browser() -> str | None:
    """The browser that looks at pages, if there is one."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for path in map(shutil.which, names) if path), None)


def chromium() -> str:
    """The browser that looks at pages; without it the test is skipped."""
    return browser() or _missing(NO_CHROMIUM)


def package(*names: str) -> None:
    """Packages that not everybody installs."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            _missing(f"{name} is not installed")


def _existing(path: Path) -> Path:
    return path if path.exists() else _missing(f"{_beside(path)} is not there")


def _beside(path: Path) -> str:
    """The path as seen from the repository."""
    return f"../{path.relative_to(SHARED.parent)}" if path.is_relative_to(SHARED) else str(path)


def _missing(reason: str) -> NoReturn:
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"{reason}: where CI is set this test has to run.", pytrace=False)
    pytest.skip(reason)


def told(reasons: Sequence[str]) -> str:
    """One sentence about what was skipped and why, the most frequent reason first."""
    counts = Counter(reason.removeprefix("Skipped: ") for reason in reasons).most_common()
    if not counts:
        return ""
    (reason, first), *others = counts
    start = f"{first} test was skipped" if first == 1 else f"{first} tests were skipped"
    return ", ".join([f"{start} because {reason}", *(f"{count} because {why}" for why, count in others)]) + "."
