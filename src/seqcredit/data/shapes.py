"""The built-in pictures: coloured shapes on a plain background, drawn here, with captions.

As with the phrases there are two registers that nothing in the picture tells apart. The casual one is the more
frequent, but it opens in four ways, so that the likeliest first word of all belongs to the formal one.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqcredit.data.text import Example

SIDE, THIRD, FEW = 72, 24, 25  # pixels: of the picture, of one of its nine regions, that are not a thing
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
SIZES = {"small": (7, "little"), "large": (10, "big")}  # formal, half the side in pixels, casual
PLACES = {"above": (0, "over"), "left of": (1, "before"), "below": (2, "under"), "right of": (3, "after")}

HEIGHTS = np.linspace(0.4, 1.0, 4)  # marks, as shares of a region
FILLED = np.linspace(0.4, 1.0, 7)  # marks, as shares of a frame
FEATURES = len(COLOURS) + len(HEIGHTS) + len(FILLED)  # of a region
_CUTS = [slice(n * THIRD, (n + 1) * THIRD) for n in range(3)]
REGIONS = [(_CUTS[y], _CUTS[x]) for y, x in ((1, 1), (0, 1), (1, 0), (2, 1), (1, 2))]  # the middle, then as in PLACES

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
    """The second thing in the middle of a light ground and the first beside it, never quite at the same place."""
    ground = np.full((SIDE, SIDE, 3), rng.randint(225, 255), np.uint8)
    down, right = {0: (-1, 0), 1: (0, -1), 2: (1, 0), 3: (0, 1)}[PLACES[scene.place][0]]
    for thing, beside in ((scene.first, 1), (scene.second, 0)):
        y, x = (SIDE // 2 + beside * way * THIRD + rng.randint(-1, 1) for way in (down, right))
        ground[_mask(thing, y, x)] = COLOURS[thing.colour]
    return ground


def features(picture: Picture) -> NDArray[np.float16]:
    """What the demo has for a backbone: what is seen in the middle and on each side of it (REGIONS, FEATURES).

    Its colour, its height, and how much of its frame it fills; the latter two are told by how near they are to some
    marks, so that a linear layer can tell shapes apart.
    """
    palette = np.array(list(COLOURS.values()))
    is_colour = (picture[:, :, None] == palette).all(-1)  # (SIDE, SIDE, colours)
    return np.stack([_look(is_colour[region]) for region in REGIONS]).astype(np.float16).reshape(-1)


def _look(is_colour: NDArray[np.bool_]) -> NDArray[np.float64]:
    """What is in one region; nothing if there are but a few pixels of a neighbour."""
    y, x, colour = np.nonzero(is_colour)
    if len(y) < FEW:
        return np.zeros(FEATURES)
    height, width = np.ptp(y) + 1, np.ptp(x) + 1
    is_it = np.bincount(colour, minlength=len(COLOURS)) > FEW
    return np.concatenate([is_it, _near(height / THIRD, HEIGHTS), _near(len(y) / (height * width), FILLED)])


def _near(number: float, marks: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 at a mark, and falling to both sides."""
    return np.exp(-(((number - marks) / (marks[1] - marks[0])) ** 2))


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
