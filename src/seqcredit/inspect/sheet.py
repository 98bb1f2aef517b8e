"""`seqcredit sheet`: images with captions by people and networks, on one page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from seqcredit.data.prepared import Prepared, Split
from seqcredit.errors import require
from seqcredit.experiments.runs import Run
from seqcredit.inspect.page import pillow, shrunk
from seqcredit.results.evaluate import read_hypotheses

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont, ImageFont

COLUMNS, WIDTH, HEIGHT, GAP, LINE = 4, 340, 240, 16, 18  # pixels; HEIGHT is that of an image
SIZE = 14  # of the letters
INK, PALE, GROUND = "#1a1a1a", "#666666", "#ffffff"

Shown = tuple[Path, list[tuple[str, str]]]  # one image, and lines about it: who says what


def sheet(runs: Sequence[Run], prepared: Prepared, split_name: str, photographs: Path, count: int, out: Path) -> int:
    """Write a PNG with the first images of a split that are in a folder; how many there are."""
    require(out.suffix == ".png", f"{out}: a sheet is a PNG, so its name ends in .png.")
    require(prepared.pictures, f"{prepared.folder} holds no images: give runs that were trained on captions.")
    shown = _choose(runs, prepared.split(split_name), photographs, count)
    require(shown, f"{photographs} has none of the images of {split_name}: give the folder that they are in.")
    _draw(shown, out)
    return len(shown)


def _choose(runs: Sequence[Run], split: Split, photographs: Path, count: int) -> list[Shown]:
    """Pictures in the split's order, with a reference and what each run says."""
    said: Mapping[str, list[list[str]]] = {run.recipe.name: read_hypotheses(run, split.name) for run in runs}
    shown: list[Shown] = []
    for i, (name, references) in enumerate(zip(split.source_texts(), split.reference_texts(), strict=True)):
        path = photographs / " ".join(name)
        if len(shown) < count and path.is_file():
            lines = [("people", " ".join(references[0]))]
            lines += [(recipe, " ".join(words[i])) for recipe, words in said.items()]
            shown.append((path, lines))
    return shown


def _draw(shown: Sequence[Shown], out: Path) -> None:
    image, draw, fonts = pillow()
    font = fonts.load_default(SIZE)
    texts = [[_wrapped(f"{who}: {what}", font) for who, what in lines] for _, lines in shown]
    below = LINE * max(sum(map(len, lines)) for lines in texts)
    rows = -(-len(shown) // COLUMNS)
    page = image.new("RGB", (COLUMNS * (WIDTH + GAP) + GAP, rows * (HEIGHT + below + 2 * GAP) + GAP), GROUND)
    pen = draw.Draw(page)
    for number, ((path, _), lines) in enumerate(zip(shown, texts, strict=True)):
        x = GAP + number % COLUMNS * (WIDTH + GAP)
        y = GAP + number // COLUMNS * (HEIGHT + below + 2 * GAP)
        small = shrunk(path, (WIDTH, HEIGHT))
        page.paste(small, (x, y + HEIGHT - small.height))
        y += HEIGHT + GAP // 2
        for place, text in enumerate(lines):
            for line in text:
                pen.text((x, y), line, PALE if place == 0 else INK, font)
                y += LINE
    page.save(out)


def _wrapped(text: str, font: "FreeTypeFont | ImageFont") -> list[str]:
    """Cut into lines that fit."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and font.getlength(longer) > WIDTH:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
