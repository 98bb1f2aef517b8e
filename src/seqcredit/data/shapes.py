"""The built-in pictures: coloured shapes on a plain ground, drawn here, with what people might say of them.

As with the phrases there are two registers that nothing in the picture tells apart. The casual one is the more
frequent, but it opens in four ways, so that the likeliest first word of all belongs to the formal one.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqcredit.data.text import Example

SIDE = 48  # pixels
BLOCK = 4  # pixels of a feature, in both directions
CAPTIONS = 3  # of each picture
CASUAL = 0.6  # share of casual captions
OPENERS = ("here is", "that is", "look at", "i see")

COLOURS = {
    "red": (214, 39, 40),
    "green": (44, 160, 44),
    "blue": (31, 119, 180),
    "yellow": (240, 200, 30),
    "purple": (148, 83, 189),
    "black": (20, 20, 20),
}
SHAPES = {"circle": "disc", "square": "box", "triangle": "wedge", "cross": "plus"}  # formal, casual
SIZES = {"small": (7, "little"), "large": (11, "big")}  # formal, half the side in pixels, casual
PLACES = {"above": (0, "over"), "left of": (1, "before"), "below": (2, "under"), "right of": (3, "after")}

Picture = NDArray[np.uint8]  # (SIDE, SIDE, 3)


class Thing(NamedTuple):
    """One shape of a picture."""

    size: str
    colour: str
    shape: str


class Scene(NamedTuple):
    """Two shapes, and where the first is seen from the second."""

    first: Thing
    place: str
    second: Thing


def shapes(split: str, count: int) -> Iterator[tuple[Example, Picture]]:
    """Pictures with their captions, the same at every call; a split has its own."""
    for number in range(count):
        rng = random.Random(f"{split} {number}")
        scene = Scene(_thing(rng), rng.choice(list(PLACES)), _thing(rng))
        yield Example(f"{split}-{number}.png", [caption(scene, rng) for _ in range(CAPTIONS)]), draw(scene, rng)


def caption(scene: Scene, rng: random.Random) -> str:
    """What one person says."""
    casual = rng.random() < CASUAL
    first, second = (_words(thing, casual) for thing in (scene.first, scene.second))
    if casual:
        return f"{rng.choice(OPENERS)} a {first} {PLACES[scene.place][1]} the {second}"
    return f"a {first} is {scene.place} a {second}"


def draw(scene: Scene, rng: random.Random) -> Picture:
    """The scene on a light ground, never twice at quite the same place."""
    ground = np.full((SIDE, SIDE, 3), rng.randint(225, 255), np.uint8)
    middle, off = SIDE // 2, SIDE // 4
    down, right = {0: (-1, 0), 1: (0, -1), 2: (1, 0), 3: (0, 1)}[PLACES[scene.place][0]]
    for thing, side in ((scene.first, 1), (scene.second, -1)):
        jitter = rng.randint(-1, 1), rng.randint(-1, 1)
        y, x = middle + side * down * off + jitter[0], middle + side * right * off + jitter[1]
        ground[_mask(thing, y, x)] = COLOURS[thing.colour]
    return ground


def features(picture: Picture) -> NDArray[np.float16]:
    """The share of each colour in small blocks: what the demo has for a backbone."""
    palette = np.array(list(COLOURS.values()))
    is_colour = (picture[:, :, None] == palette).all(-1)  # (SIDE, SIDE, colours)
    shares = is_colour.reshape(SIDE // BLOCK, BLOCK, SIDE // BLOCK, BLOCK, len(palette)).mean((1, 3))
    return shares.astype(np.float16).reshape(-1)


def _thing(rng: random.Random) -> Thing:
    return Thing(rng.choice(list(SIZES)), rng.choice(list(COLOURS)), rng.choice(list(SHAPES)))


def _words(thing: Thing, casual: bool) -> str:
    if casual:
        return f"{SIZES[thing.size][1]} {thing.colour} {SHAPES[thing.shape]}"
    return f"{thing.size} {thing.colour} {thing.shape}"


def _mask(thing: Thing, y: int, x: int) -> NDArray[np.bool_]:
    """The pixels of a shape around a point."""
    half = SIZES[thing.size][0]
    down, right = np.mgrid[:SIDE, :SIDE] - np.array([y, x])[:, None, None]
    inside = (abs(down) <= half) & (abs(right) <= half)
    match thing.shape:
        case "circle":
            return down**2 + right**2 <= half**2
        case "triangle":
            return inside & (2 * abs(right) <= down + half)
        case "cross":
            return inside & (np.minimum(abs(down), abs(right)) <= half // 3)
        case _:
            return inside
