"""Images and their captions: TSV, Karpathy's JSON, MSCOCO annotations."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from seqcredit.data.reading import read_json
from seqcredit.data.text import Example, lines
from seqcredit.errors import UserError, require

# Karpathy's split of MSCOCO: what is left of its validation pictures is for training.
KARPATHY = {"train": "train", "restval": "train", "val": "valid", "test": "test"}


class CocoImage(TypedDict):
    """A picture of MSCOCO."""

    id: int | str
    file_name: str


class Annotation(TypedDict):
    """A caption of MSCOCO."""

    image_id: int | str
    caption: str


class Coco(TypedDict):
    """What is read of MSCOCO's annotations."""

    images: list[CocoImage]
    annotations: list[Annotation]


class Sentence(TypedDict):
    """A caption of Karpathy's."""

    tokens: list[str]


class KarpathyImage(TypedDict):
    """A picture of Karpathy's splits."""

    filename: str
    split: str
    sentences: list[Sentence]


class Karpathy(TypedDict):
    """What is read of Karpathy's splits."""

    images: list[KarpathyImage]


def read_captions(path: Path) -> Iterator[Example]:
    """One split: a TSV, or annotations of MSCOCO."""
    if path.suffix == ".tsv":
        return read_tsv(path)
    if path.suffix == ".json":
        return read_coco(path)
    raise UserError(f"{path}: captions come as .tsv (image<tab>caption) or as .json (annotations of MSCOCO).")


def read_tsv(path: Path) -> Iterator[Example]:
    """Lines `picture <tab> caption`; a picture's captions need not stand together."""
    captions: dict[str, list[str]] = {}
    for number, line in enumerate(lines(path), 1):
        name, tab, caption = line.partition("\t")
        if not tab and name.strip():
            raise UserError(f"{path}, line {number} has no tab: write image<tab>caption.")
        if tab:
            captions.setdefault(name.strip(), []).append(caption)
    return (Example(name, texts) for name, texts in captions.items())


def read_coco(path: Path) -> Iterator[Example]:
    """`{"images": [{"id", "file_name"}], "annotations": [{"image_id", "caption"}]}`."""
    record = read_json(path, Coco, "give a file of captions as MSCOCO writes them")
    _once(path, "id", [image["id"] for image in record["images"]])
    _once(path, "file name", [image["file_name"] for image in record["images"]])
    captions: dict[int | str, list[str]] = {image["id"]: [] for image in record["images"]}
    for number, annotation in enumerate(record["annotations"]):
        known = annotation["image_id"] in captions
        require(known, f"{path}: annotations[{number}] is of picture {annotation['image_id']}, which is not there.")
        captions[annotation["image_id"]].append(annotation["caption"])
    return iter([Example(image["file_name"], captions[image["id"]]) for image in record["images"]])


def read_karpathy(path: Path) -> dict[str, list[Example]]:
    """All splits of `dataset_coco.json` or `dataset_flickr8k.json`, with the tokens that come along."""
    splits: dict[str, list[Example]] = {}
    images = read_json(path, Karpathy, "give a dataset_*.json of Karpathy's splits")["images"]
    _once(path, "file name", [image["filename"] for image in images])
    for number, image in enumerate(images):
        known = image["split"] in KARPATHY
        require(known, f"{path}: images[{number}] is of split {image['split']!r}; there are {', '.join(KARPATHY)}.")
        texts = [" ".join(sentence["tokens"]) for sentence in image["sentences"]]
        splits.setdefault(KARPATHY[image["split"]], []).append(Example(image["filename"], texts))
    if "train" not in splits or "valid" not in splits:
        raise UserError(
            f"{path} has no pictures of the splits train and val: give a dataset_*.json of Karpathy's splits."
        )
    return splits


def _once(path: Path, what: str, found: list[int | str]) -> None:
    """No two pictures have the same name or number."""
    twice = next((one for one, count in Counter(found).items() if count > 1), None)
    require(twice is None, f"{path}: two pictures have the {what} {twice}; give each its own.")
