"""Draws the pictures of these pages anew from the runs of `make demo`: `make pictures`."""

import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parent
DEMO = Path("runs/demo")
# What usually goes wrong, provoked: the joint phase of a demo recipe with one or two keys set wrongly.
FAILURES = {
    "tau 0.5": ("erac", "erac", ("phase.3.tau=0.5",)),
    "no critic training": ("ac", "mle", ("phase.2.epochs=0",)),
    "learning rate x 30": ("ac", "ac", ("phase.3.learning_rate=0.03", "phase.3.mle_weight=0")),
}


def seqcredit(*words: object) -> None:
    """A command, as a user gives it."""
    subprocess.run([Path(sys.executable).parent / "seqcredit", *map(str, words)], check=True)


def fail(name: str) -> Path:
    """Train one of the failures, unless it is there."""
    recipe, start, changes = FAILURES[name]
    out = DEMO / name.replace(" ", "-")
    if not (out / "result.json").exists():
        keys = [word for change in (*changes, "phase.3.name=joint", "phase.3.epochs=4") for word in ("--set", change)]
        given = ("--data", DEMO / "data", "--init-from", DEMO / start, "--out", out, "--log-every", 20)
        shutil.rmtree(out, ignore_errors=True)
        seqcredit("train", f"demo/{recipe}", *given, *keys)
    return out


def photograph(page: Path, picture: Path) -> None:
    """The credit page as it is seen with its first sentence and a token chosen."""
    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        seen = browser.new_page(viewport={"width": 1280, "height": 860})
        seen.goto(page.resolve().as_uri())
        seen.keyboard.press("ArrowRight")
        seen.screenshot(path=picture)
        browser.close()


def main() -> None:
    """All of them."""
    seqcredit("plot", "curves", *(DEMO / name for name in ("mle", "ac", "erac")), "--out", DOCS / "curves.svg")
    for name in ("raml", "vaml"):
        seqcredit("plot", "curves", DEMO / "mle", DEMO / name, "--out", DOCS / "algorithms" / f"{name}.svg")
    failures = [fail(name) for name in FAILURES]
    seqcredit("plot", "curves", DEMO / "erac", *failures, "--out", DOCS / "failures.svg")
    seqcredit("plot", "credit", DEMO / "erac", "--sentence", 5, "--out", DOCS / "credit.svg")
    seqcredit("inspect", DEMO / "mle", DEMO / "erac", "--critic", DEMO / "erac", "--out", DEMO / "credit.html")
    photograph(DEMO / "credit.html", DOCS / "credit-page.png")


if __name__ == "__main__":
    main()
