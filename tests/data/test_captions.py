"""Captions from the files that people have."""

import json
from pathlib import Path
from typing import Any

import pytest

from seqcredit.data.captions import read_captions, read_karpathy
from seqcredit.data.text import Example
from seqcredit.errors import UserError


def written(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def image(name: str, split: str, *captions: str) -> dict[str, Any]:
    """A picture as Karpathy's files have it."""
    sentences = [{"tokens": text.split(), "raw": text.upper() + "."} for text in captions]
    return {"filename": name, "split": split, "sentences": sentences, "imgid": 1}


def test_tsv_gathers_the_captions_of_a_picture(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "1.jpg\ta dog\n2.jpg\ta cat\n1.jpg\tthe dog\tagain\n\n")
    assert list(read_captions(path)) == [Example("1.jpg", ["a dog", "the dog\tagain"]), Example("2.jpg", ["a cat"])]


def test_coco_annotations(tmp_path: Path) -> None:
    images = [{"id": 7, "file_name": "7.jpg"}, {"id": 3, "file_name": "3.jpg"}, {"id": 5, "file_name": "5.jpg"}]
    annotations = [(3, "a cat"), (7, "a dog"), (3, "the cat")]
    record = {"images": images, "annotations": [{"image_id": i, "caption": text} for i, text in annotations]}
    found = list(read_captions(written(tmp_path / "a.json", record)))
    assert found == [Example("7.jpg", ["a dog"]), Example("3.jpg", ["a cat", "the cat"]), Example("5.jpg", [])]


def test_karpathys_splits_and_tokens(tmp_path: Path) -> None:
    pictures = [
        image("1.jpg", "train", "a dog", "the dog"),
        image("2.jpg", "val", "a cat"),
        image("3.jpg", "test", "x"),
    ]
    record = {"dataset": "coco", "images": [*pictures, image("4.jpg", "restval", "a bird")]}
    found = read_karpathy(written(tmp_path / "dataset_coco.json", record))
    assert found == {
        "train": [Example("1.jpg", ["a dog", "the dog"]), Example("4.jpg", ["a bird"])],
        "valid": [Example("2.jpg", ["a cat"])],
        "test": [Example("3.jpg", ["x"])],
    }


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "1.jpg a dog\n", "a.tsv, line 1 has no tab"),
        ("a.tsv", "", "a.tsv is empty"),
        ("a.txt", "1.jpg\ta dog\n", "captions come as .tsv"),
        ("a.json", "[1", "a.json is damaged, it is not JSON"),
        ("a.json", "[1]", "not a JSON object"),
        ("a.json", {"images": []}, "the key annotations is missing"),
        ("a.json", {"images": [{"id": [1], "file_name": "x"}], "annotations": []}, "must be a whole number or text"),
        ("a.json", {"images": [{"id": 1, "file_name": "x"}] * 2, "annotations": []}, "two pictures have the id 1"),
        ("a.json", {"images": [], "annotations": [{"image_id": 1, "caption": ["x"]}]}, r"caption is \['x'\], .* text"),
        (
            "a.json",
            {"images": [], "annotations": [{"image_id": 1, "caption": "x"}]},
            "of picture 1, which is not there",
        ),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        list(read_captions(written(tmp_path / name, content)))


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"pictures": []}, "the key images is missing"),
        ({"images": [image("1.jpg", "dev", "x")]}, "of split 'dev'; there are train, restval, val, test"),
        ({"images": [image("1.jpg", "train", "x")]}, "splits train and val"),
        (
            {"images": [image("1.jpg", "train", "x"), image("1.jpg", "val", "x")]},
            "two pictures have the file name 1.jpg",
        ),
        ({"images": [{**image("1.jpg", "train", "x"), "filename": 3}]}, r"images\[0\].filename is 3, .* must be text"),
        ({"images": [{**image("1.jpg", "train"), "sentences": [{"tokens": "a dog"}]}]}, "must be a list"),
    ],
)
def test_bad_splits(tmp_path: Path, record: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_karpathy(written(tmp_path / "dataset.json", record))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for read in (read_captions, read_karpathy):
        with pytest.raises(UserError, match="no file"):
            read(tmp_path / "absent.json")
