"""Draws the pictures of these pages anew from the runs of `make demo`: `make pictures`.

python docs/pictures.py              train what the demo leaves out, all from its MLE; then all pictures
python docs/pictures.py --trained    of the algorithms' pages alone, from what is trained already

Writes the table of scores in docs/algorithms/index.md. A system without a run here keeps its picture and its row, which
gets a †: it was trained on another machine. One that was never trained has a dash.
"""

import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import sync_playwright

from seqcredit.results import plots

DOCS = Path(__file__).parent
DEMO = Path("runs/demo")
# What usually goes wrong, provoked: the joint phase of a demo recipe with one or two keys set wrongly.
FAILURES = {
    "tau 0.5": ("erac", "erac", ("phase.3.tau=0.5",)),
    "no critic training": ("ac", "mle", ("phase.2.epochs=0",)),
    "learning rate x 30": ("ac", "ac", ("phase.3.learning_rate=0.03", "phase.3.mle_weight=0")),
}
# Systems with a page of their own, and what their picture shows. Each starts from the demo's MLE.
SYSTEMS = {
    "reinforce": ("bleu", "reward"),
    "scst": ("bleu", "reward"),
    "mixer": ("bleu", "reward"),
    "mrt": ("bleu", "reward"),
    "grpo": ("bleu", "reward"),
    "scheduled-sampling": ("bleu", "nll"),
    "professor-forcing": ("bleu", "reward"),
    "ocd": ("bleu", "reward"),
    "bso": ("bleu", "loss"),
    "pcl": ("bleu", "reward"),
    "a2c": ("bleu", "reward"),
    "sac": ("bleu", "entropy"),
}
ROWS = ("mle", "mle-continued", "raml", "vaml", "ac", "erac", *SYSTEMS)
GUIDE, WEIGHTS = "guide", (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
TABLE = re.compile(r"(?<=<!-- demo -->\n).*?(?=<!-- end -->)", re.DOTALL)
MISSING = "*Not trained on the demo yet; `make pictures` does it and draws the curve here.*"
NAMES = {"grpo": "GRPO", "scst": "SCST", "mixer": "MIXER", "mrt": "MRT", "ocd": "OCD", "bso": "BSO", "pcl": "PCL"}
NAMES |= {"raml": "RAML", "a2c": "A2C", "sac": "SAC", "reinforce": "REINFORCE"}
NAMES |= {"mle": "MLE", "mle-continued": "continued MLE", "vaml": "VAML", "ac": "AC", "erac": "ERAC"}


class Row(NamedTuple):
    """A system's scores on the demo."""

    name: str
    validation: float
    test: float
    to: tuple[str, str] | None = None  # above MLE and continued MLE of its own machine, if that is another one


def seqcredit(*words: object) -> str:
    """A command, as a user gives it; what it prints."""
    command = [Path(sys.executable).parent / "seqcredit", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def train(recipe: str, start: str, out: Path, *more: object) -> Path:
    """Train a recipe of the demo from one of its runs, unless that is done."""
    if not done(out):
        given = ("--data", DEMO / "data", "--init-from", DEMO / start, "--out", out, "--threads", 1)
        shutil.rmtree(out, ignore_errors=True)
        seqcredit("train", f"demo/{recipe}", *given, *more)
    return out


def fail(name: str) -> Path:
    """Train one of the failures."""
    recipe, start, changes = FAILURES[name]
    keys = [word for change in (*changes, "phase.3.name=joint", "phase.3.epochs=4") for word in ("--set", change)]
    return train(recipe, start, DEMO / name.replace(" ", "-"), "--log-every", 20, *keys)


def kept(page: str) -> dict[str, Row]:
    """Rows of the table as it is, by the name of their system."""
    lines = TABLE.findall(page)[0].replace("**", "").splitlines()[2:]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    found = {name.removesuffix(" †"): rest for name, *rest in cells if rest[0] != "-"}
    return {name: Row(f"{name} †", float(one), float(two), (to, more)) for name, (one, two, to, more) in found.items()}


def row(name: str, old: dict[str, Row]) -> Row:
    """What a run has measured; without one, what the table has, or nothing."""
    if not done(DEMO / name):
        return old.get(title(name), Row(title(name), math.nan, math.nan))
    result = json.loads((DEMO / name / "result.json").read_text())
    return Row(result["recipe"], [*result["validation"].values()][-1], result["bleu"])


def done(run: Path) -> bool:
    """Whether a run has come to its end."""
    return (run / "result.json").exists()


def title(name: str) -> str:
    """What a page calls a system."""
    return NAMES.get(name, name.replace("-", " "))


def show(name: str, picture: str | None) -> None:
    """Put a picture into the place that a page has for it, or say that there is none yet."""
    for page in (DOCS / "algorithms").glob("*.md"):
        place = re.compile(rf"(?<=<!-- curve {name} -->\n).*?(?=<!-- end -->)", re.DOTALL)
        page.write_text(place.sub(lambda _: (picture or MISSING) + "\n", page.read_text()))


def judge(split: str, weight: float) -> float:
    """BLEU of MLE, searched with the guide."""
    words = ("--guide", DEMO / GUIDE, "--guide-weight", weight, "--split", split, "--json")
    return json.loads(seqcredit("evaluate", DEMO / "mle", *words))["score"]


def guided(picture: Path) -> Row:
    """Draw validation BLEU over the guide's weight; the scores with the best one."""
    found = {weight: judge("valid", weight) for weight in WEIGHTS}
    figure, panel = plots.load_pyplot().subplots(figsize=(4.4, 2.8))
    panel.plot(range(len(found)), [*found.values()], color=plots.COLOURS[0], marker="o", ms=3, lw=1.2)
    panel.set_xticks(range(len(found)), [f"{weight:g}" for weight in found])
    panel.set(xlabel="weight of the guide, λ", title="validation BLEU")
    panel.grid(alpha=0.3)
    plots.save(figure, picture)
    best = max(found, key=lambda weight: found[weight])
    return Row(f"MLE, guided search (weight {best:g})", found[best], judge("test", best))


def table(rows: list[Row]) -> str:
    """Markdown, with the best scores in bold."""
    best = [max(row[column] for row in rows if not math.isnan(row[column])) for column in (1, 2)]
    mle, continued = rows[0].test, rows[1].test
    lines = ["| system | validation BLEU | test BLEU | to MLE | to continued MLE |", "|---|---|---|---|---|"]
    for each in rows:
        if math.isnan(each.test):
            lines.append(f"| {each.name} | - | - | | |")
            continue
        scores = (f"**{x:.2f}**" if x == top else f"{x:.2f}" for x, top in zip(each[1:3], best, strict=True))
        differences = each.to or (
            f"{each.test - base:+.2f}" if each is not rows[n] else "" for n, base in enumerate((mle, continued))
        )
        lines.append(f"| {' | '.join((each.name, *scores, *differences))} |")
    return "\n".join(lines) + "\n"


def photograph(page: Path, picture: Path) -> None:
    """The credit page as it is seen with its first sentence and a token chosen."""
    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        seen = browser.new_page(viewport={"width": 1280, "height": 860})
        seen.goto(page.resolve().as_uri())
        seen.keyboard.press("ArrowRight")
        seen.screenshot(path=picture)
        browser.close()


def systems(trained: bool = False) -> None:
    """The pictures of the algorithms' pages, and the table that they share."""
    folder = DOCS / "algorithms"
    for name in () if trained else (*SYSTEMS, GUIDE):
        train(name, "mle", DEMO / name)
    for name, keys in SYSTEMS.items():
        runs = (DEMO / "mle-continued", DEMO / name)
        about = f"Validation BLEU of {title(name)} on the demo, next to continued MLE; both start from the same MLE"
        if done(DEMO / name):
            seqcredit("plot", "curves", *runs, "--only", *keys, "--out", folder / f"{name}.svg")
        show(name, f"![{about}]({name}.svg)" if (folder / f"{name}.svg").exists() else None)
    index = folder / "index.md"
    old = kept(index.read_text())
    rows = [row(name, old) for name in ROWS]
    about = "Validation BLEU of MLE on the demo, for several weights of the guide"
    best = guided(folder / "guided-search.svg") if done(DEMO / GUIDE) else None
    rows.append(best or Row("MLE, guided search", math.nan, math.nan))
    show(GUIDE, f"![{about}](guided-search.svg)" if best else None)
    index.write_text(TABLE.sub(lambda _: table(rows), index.read_text()))


def main() -> None:
    """All of them."""
    if "--trained" in sys.argv:
        systems(trained=True)
        return
    seqcredit("plot", "curves", *(DEMO / name for name in ("mle", "ac", "erac")), "--out", DOCS / "curves.svg")
    for name in ("raml", "vaml"):
        seqcredit("plot", "curves", DEMO / "mle", DEMO / name, "--out", DOCS / "algorithms" / f"{name}.svg")
    systems()
    failures = [fail(name) for name in FAILURES]
    seqcredit("plot", "curves", DEMO / "erac", *failures, "--out", DOCS / "failures.svg")
    seqcredit("plot", "credit", DEMO / "erac", "--sentence", 5, "--out", DOCS / "credit.svg")
    seqcredit("inspect", DEMO / "mle", DEMO / "erac", "--critic", DEMO / "erac", "--out", DEMO / "credit.html")
    photograph(DEMO / "credit.html", DOCS / "credit-page.png")


if __name__ == "__main__":
    main()
