"""Pictures and what people said of them: TSV, Karpathy's JSON, annotations of MSCOCO."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from seqcredit.data.text import Example, lines, readable
from seqcredit.errors import UserError, in_words, require
from seqcredit.types import Json

# Karpathy's split of MSCOCO: what is left of its validation pictures is for training.
KARPATHY = {"train": "train", "restval": "train", "val": "valid", "test": "test"}


def read_captions(path: Path) -> Iterator[Example]:
    """One split: a TSV, or annotations of MSCOCO."""
    if path.suffix == ".tsv":
        return read_tsv(path)
    if path.suffix == ".json":
        return read_coco(path)
    raise UserError(f"{path}: captions come as .tsv (picture<tab>caption) or as .json (annotations of MSCOCO).")


def read_tsv(path: Path) -> Iterator[Example]:
    """Lines `picture <tab> caption`; a picture's captions need not stand together."""
    captions: dict[str, list[str]] = {}
    for number, line in enumerate(lines(path), 1):
        name, tab, caption = line.partition("\t")
        if not tab and name.strip():
            raise UserError(f"{path}, line {number} has no tab: write picture<tab>caption.")
        if tab:
            captions.setdefault(name.strip(), []).append(caption)
    return (Example(name, texts) for name, texts in captions.items())


def read_coco(path: Path) -> Iterator[Example]:
    """`{"images": [{"id", "file_name"}], "annotations": [{"image_id", "caption"}]}`."""
    record = _json(path)
    with _lacking(path, "a file of captions as MSCOCO writes them"):
        captions: dict[object, list[str]] = {image["id"]: [] for image in record["images"]}
        for annotation in record["annotations"]:
            captions[annotation["image_id"]].append(annotation["caption"])
        return iter([Example(image["file_name"], captions[image["id"]]) for image in record["images"]])


def read_karpathy(path: Path) -> dict[str, list[Example]]:
    """All splits of `dataset_coco.json` or `dataset_flickr8k.json`, with the tokens that come along."""
    splits: dict[str, list[Example]] = {}
    with _lacking(path, "a dataset_*.json of Karpathy's splits"):
        for image in _json(path)["images"]:
            texts = [" ".join(sentence["tokens"]) for sentence in image["sentences"]]
            splits.setdefault(KARPATHY[image["split"]], []).append(Example(image["filename"], texts))
    if "train" not in splits or "valid" not in splits:
        raise UserError(
            f"{path} has no pictures of the splits train and val: give a dataset_*.json of Karpathy's splits."
        )
    return splits


def _lacking(path: Path, wanted: str) -> AbstractContextManager[None]:
    """A record without a key that is asked for within is not what was wanted."""
    return in_words((KeyError, TypeError), lambda error: f"{path} lacks {error}: give {wanted}.")


def _json(path: Path) -> Json:
    with readable(path), in_words((ValueError, RecursionError), f"{path} is not JSON."):
        record = json.loads(path.read_bytes())
    require(isinstance(record, dict), f"{path} is not a JSON object: give captions of MSCOCO or of Karpathy's splits.")
    return record
