"""Sheets of pictures that are drawn here. Real photographs are in test_captioning."""

from pathlib import Path

import numpy as np
import pytest

from seqcredit.data.shapes import shapes
from seqcredit.errors import UserError
from seqcredit.inspect import sheet

Image = pytest.importorskip("PIL.Image")
ImageFont = pytest.importorskip("PIL.ImageFont")
LONG = "a small red circle is above a large blue square and what is said of it goes on for some lines " * 2


@pytest.fixture
def shown(tmp_path: Path) -> list[sheet.Shown]:
    found = []
    for number, (example, picture) in enumerate(shapes("test", 6)):
        path = tmp_path / example.source
        Image.fromarray(picture).save(path)
        found.append((path, [("people", example.references[0]), ("MLE", LONG if number == 5 else "a")]))
    return found


def test_every_picture_stands_in_its_place_above_its_words(shown: list[sheet.Shown], tmp_path: Path) -> None:
    sheet._draw(shown, tmp_path / "out.png")
    with Image.open(tmp_path / "out.png") as page:
        pixels = np.asarray(page).astype(int)
    tall = (pixels.shape[0] - sheet.GAP) // 2  # two rows
    for number, one in enumerate(shown):
        x = sheet.GAP + number % sheet.COLUMNS * (sheet.WIDTH + sheet.GAP)
        y = sheet.GAP + number // sheet.COLUMNS * tall + sheet.HEIGHT
        with Image.open(one[0]) as picture:
            drawn = np.asarray(picture).astype(int)
        assert (pixels[y - len(drawn) : y, x : x + len(drawn[0])] == drawn).all()
        assert pixels[y : y + 2 * sheet.LINE, x : x + sheet.WIDTH].min() < 150  # letters


def test_a_damaged_photograph_is_named(shown: list[sheet.Shown], tmp_path: Path) -> None:
    shown[1][0].write_bytes(shown[1][0].read_bytes()[:60])
    said = rf"^{shown[1][0].name} cannot be read as an image: \w+\.$"
    with pytest.raises(UserError, match=said):
        sheet._draw(shown, tmp_path / "out.png")
    assert not (tmp_path / "out.png").exists()


def test_lines_fit_and_no_word_is_lost() -> None:
    font = ImageFont.load_default(sheet.SIZE)
    lines = sheet._wrapped(LONG.strip(), font)
    assert len(lines) > 2
    assert " ".join(lines) == LONG.strip()
    assert all(font.getlength(line) <= sheet.WIDTH for line in lines)
    assert sheet._wrapped("x" * 200, font) == ["x" * 200]
