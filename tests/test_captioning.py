"""Captioning through the command line, from lines about photographs to captions of files on disk."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import needs
from seqcredit.data.images import open_features
from starter import Done

DATA = needs.DATA / "flickr8k"
RECIPE = """
name = "tiny"
beam = 2
longest_output = 20
[payoff]
references = "own"
[actor]
embedding = 16
hidden = 16
attention = "none"
[critic]
embedding = 16
hidden = 16
[[phase]]
objective = "mle"
optimizer = "adam"
learning_rate = 0.02
batch_size = 8
epochs = 2
[[phase]]
objective = "critic"
optimizer = "adam"
learning_rate = 0.01
batch_size = 8
epochs = 1
[[phase]]
objective = "actor_critic"
optimizer = "adam"
learning_rate = 0.001
batch_size = 8
epochs = 1
"""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, run: Callable[..., Done]) -> Path:
    """A small part of Flickr8k; its test split is of photographs that are here."""
    needs.real_data("flickr8k")
    place = tmp_path_factory.mktemp("captions")
    photographs = {path.name for path in (DATA / "images").iterdir()}
    for split, count in (("train", 200), ("valid", 50), ("test", 60)):
        lines = (DATA / f"{split}.tsv").read_text().splitlines()
        mine = [line for line in lines if split != "test" or line.split("\t")[0] in photographs][:count]
        (place / f"{split}.tsv").write_text("\n".join(mine) + "\n")
    files = [word for split in ("train", "valid", "test") for word in (f"--{split}", place / f"{split}.tsv")]
    options = ["--task", "captioning", "--features", DATA / "features.npy", "--tokenized", "--min-count", 2]
    done = run("prepare", place / "data", *files, *options)
    assert done.returncode == 0, done.stderr
    assert "train: 40 examples; dropped 0 empty and 0 long (0.0%), 0 pictures without features" in done.stdout
    assert "1,280 features" in done.stdout
    (place / "recipe.toml").write_text(RECIPE)
    done = run("train", place / "recipe.toml", "--data", place / "data", "--out", place / "run")
    assert done.returncode == 0, done.stderr
    return place


def test_figures_of_captions(place: Path) -> None:
    result = json.loads((place / "run" / "result.json").read_text())
    assert result["sentences"] == 12
    assert result["bleu_1"] > result["bleu_2"] >= result["bleu_4"] >= 0
    assert result["bleu_1"] > 5
    assert "nrefs:5" in result["bleu_4_signature"]
    assert {"cider", "rouge_l", "cider_signature"} <= set(result)


def test_photographs_on_disk_get_captions(place: Path, run: Callable[..., Done]) -> None:
    """Through the backbone, and the same as from the features that came with the data."""
    names = [line.split()[0] for line in (place / "data" / "test.source.txt").read_text().splitlines()][:2]
    done = run("caption", place / "run", *(DATA / "images" / name for name in names), "--scores")
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [Path(path).name for path, _, _ in lines] == names
    assert all(float(logp) < 0 for _, logp, _ in lines)
    hypotheses = (place / "run" / "hypotheses" / "test.txt").read_text().splitlines()[:2]
    assert [words for _, _, words in lines] == hypotheses
    best = run("caption", place / "run", DATA / "images" / names[0], "--n-best", 3).stdout.splitlines()
    assert len(best) == len(set(best)) == 3


def test_headroom_of_captions(place: Path, run: Callable[..., Done]) -> None:
    """All captions of a picture count; one sample is judged as the others are."""
    done = run("headroom", place / "run", "--samples", 2, "--split", "test")
    assert done.returncode == 0, done.stderr
    found = json.loads((place / "run" / "headroom.json").read_text())
    assert found["bleu"]["beam"] == json.loads((place / "run" / "result.json").read_text())["bleu"]
    assert found["signature"].startswith("nrefs:5")
    assert found["train"]["bleu"]["greedy"] > 0
    assert "test, 12 sentences, and of as many of train" in done.stdout


def test_a_sheet_of_photographs(place: Path, run: Callable[..., Done]) -> None:
    from PIL import Image

    out = place / "sheet.png"
    done = run("sheet", place / "run", "--images", DATA / "images", "--out", out, "--count", 5)
    assert (done.returncode, done.stdout) == (0, f"5 images, written to {out}\n"), done.stderr
    with Image.open(out) as page:
        pixels = np.asarray(page)
    assert pixels.shape[1] > 1_300
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 5_000  # photographs, not only letters


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["translate", "RUN"], "describes pictures: use `seqcredit caption`"),
        (["caption", "RUN", "absent.jpg"], "There is no file absent.jpg"),
        (["caption", "RUN", "DATA/features.txt"], "cannot be read"),
        (["sheet", "RUN", "--images", "."], "has none of the images"),
        (["sheet", "RUN", "--images", ".", "--out", "sheet.jpg"], "its name ends in .png"),
        (["prepare", "out", "--task", "captioning", "--train", "a.tsv", "--valid", "a.tsv"], "go together"),
        (["evaluate", "RUN", "--raw", "a", "b"], "describes pictures"),
        (["evaluate", "RUN", "--replace-unknown"], "leave out --replace-unknown"),
    ],
)
def test_what_cannot_be_done_is_said(place: Path, run: Callable[..., Done], words: list[str], message: str) -> None:
    done = run(*(word.replace("RUN", str(place / "run")).replace("DATA", str(DATA)) for word in words))
    assert done.returncode != 0
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_features_of_all_pictures_are_there() -> None:
    seen = open_features(needs.real_data("flickr8k") / "features.npy")
    assert seen.array.shape == (8_091, 1_280)
