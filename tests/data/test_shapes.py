"""The built-in pictures show what their captions say."""

import math
import random

import numpy as np
import pytest

from seqcredit.data.shapes import (
    CAPTIONS,
    COLOURS,
    FEATURES,
    FILLED,
    HEIGHTS,
    OPENERS,
    PLACES,
    REGIONS,
    SHAPES,
    SIDE,
    SIZES,
    THIRD,
    Scene,
    Thing,
    caption,
    draw,
    features,
    shapes,
)

THING = Thing("large", "red", "square")
OTHER = Thing("small", "blue", "circle")


def centre(picture: np.ndarray, colour: str) -> tuple[float, float]:
    y, x = np.nonzero((picture == COLOURS[colour]).all(-1))
    return float(y.mean()), float(x.mean())


@pytest.mark.parametrize(
    ("place", "sign"), [("above", (-1, 0)), ("below", (1, 0)), ("left of", (0, -1)), ("right of", (0, 1))]
)
def test_the_first_is_where_the_caption_says(place: str, sign: tuple[int, int]) -> None:
    picture = draw(Scene(THING, place, OTHER), random.Random(1))
    red, blue = centre(picture, "red"), centre(picture, "blue")
    for mine, other, way in zip(red, blue, sign, strict=True):
        assert (mine - other) * way > 10 if way else abs(mine - other) < 4


def test_shapes_can_be_told_apart_by_their_pixels() -> None:
    pixels = {}
    for shape in SHAPES:
        picture = draw(Scene(Thing("large", "red", shape), "above", OTHER), random.Random(1))
        pixels[shape] = int((picture == COLOURS["red"]).all(-1).sum())
    assert len(set(pixels.values())) == len(SHAPES)
    assert max(pixels, key=pixels.__getitem__) == "square"


def test_sizes_differ() -> None:
    small, large = (
        int(
            (draw(Scene(Thing(size, "red", "circle"), "above", OTHER), random.Random(1)) == COLOURS["red"])
            .all(-1)
            .sum()
        )
        for size in SIZES
    )
    assert large > 2 * small


def test_captions_are_of_two_registers() -> None:
    rng = random.Random(1)
    said = [caption(Scene(THING, "left of", OTHER), rng) for _ in range(400)]
    formal = [text for text in said if text == "a large red square is left of a small blue circle"]
    casual = [text for text in said if text.endswith("a big red box before the little blue disc")]
    assert len(formal) + len(casual) == 400
    assert 0.5 < len(casual) / 400 < 0.7
    assert {text.split(" a ")[0] for text in casual} == set(OPENERS)
    assert len(PLACES) == 4


def test_the_same_pictures_every_time_and_others_in_another_split() -> None:
    first, again, other = (list(shapes(split, 5)) for split in ("train", "train", "test"))
    assert all(len(example.references) == CAPTIONS for example, _ in first)
    for (a, mine), (b, same) in zip(first, again, strict=True):
        assert a == b
        assert (mine == same).all()
    assert [a.references for a, _ in first] != [a.references for a, _ in other]


@pytest.mark.parametrize("place", PLACES)
def test_features_tell_what_is_where(place: str) -> None:
    found = features(draw(Scene(THING, place, OTHER), random.Random(1))).reshape(len(REGIONS), FEATURES)
    colours, beside = list(COLOURS), 1 + PLACES[place][0]
    assert [row for row in range(len(REGIONS)) if found[row].any()] == [0, beside]
    for row, thing in ((0, OTHER), (beside, THING)):
        assert [colours[i] for i in np.nonzero(found[row, : len(COLOURS)])[0]] == [thing.colour]
    heights, filled = found[:, len(COLOURS) :][:, : len(HEIGHTS)], found[:, -len(FILLED) :]
    assert HEIGHTS[heights[beside].argmax()] == pytest.approx(21 / 24, abs=0.11)
    assert HEIGHTS[heights[0].argmax()] == pytest.approx(15 / 24, abs=0.11)
    assert filled[beside].argmax() == len(FILLED) - 1  # a square
    assert FILLED[filled[0].argmax()] == pytest.approx(math.pi / 4, abs=0.1)


def test_a_few_pixels_of_a_neighbour_are_nothing() -> None:
    picture = np.full((SIDE, SIDE, 3), 250, np.uint8)
    picture[THIRD, THIRD : 2 * THIRD] = COLOURS["green"]
    assert not features(picture).any()
    picture[THIRD + 1, THIRD : 2 * THIRD] = COLOURS["green"]
    assert features(picture)[1] == 1
