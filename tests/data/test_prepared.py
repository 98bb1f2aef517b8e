import json
from pathlib import Path

import pytest

import stored
from seqcredit.data.manifest import PrepareOptions
from seqcredit.data.prepare import prepare
from seqcredit.data.prepared import Prepared
from seqcredit.data.text import Example
from seqcredit.errors import UserError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    examples = [Example(f"a b{i} ü", [f"x y{i}", "ö z"][: 1 + i % 2]) for i in range(6)]
    prepare({"train": examples, "valid": examples[:2]}, tmp_path / "out", PrepareOptions())
    return tmp_path / "out"


def test_splits(folder: Path) -> None:
    prepared = Prepared.open(folder)
    train = prepared.split("train")
    assert len(train) == 6
    assert len(prepared.split("valid")) == 2
    assert train.source_lengths.tolist() == [3] * 6
    assert train.reference_lengths.tolist() == [2] * 9
    assert train.groups.tolist() == [0, 1, 3, 4, 6, 7, 9]
    assert prepared.words(stored.references(train, 3)[0]) == ["x", "y3"]


def test_words_by_number_are_those_of_the_iterator(folder: Path) -> None:
    train = Prepared.open(folder).split("train")
    assert [train.reference_text(i) for i in (5, 0, 1)] == [
        [["x", "y5"], ["ö", "z"]],
        [["x", "y0"]],
        [["x", "y1"], ["ö", "z"]],
    ]
    assert list(train.reference_texts()) == [train.reference_text(i) for i in range(6)]
    assert list(train.source_texts())[4] == ["a", "b4", "ü"]


def test_content_is_that_of_the_files_however_they_were_asked_for(folder: Path, tmp_path: Path) -> None:
    def made(name: str, last: str, options: PrepareOptions) -> Prepared:
        examples = [Example(f"a b{i} ü", [f"x y{i}", last][: 1 + i % 2]) for i in range(6)]
        prepare({"train": examples, "valid": examples[:2]}, tmp_path / name, options)
        return Prepared.open(tmp_path / name)

    first, same = Prepared.open(folder), made("same", "ö z", PrepareOptions(max_length=50))
    assert (same.content == first.content, same.checksum == first.checksum) == (True, False)
    assert made("other", "ö w", PrepareOptions()).content != first.content


def test_unknown_split(folder: Path) -> None:
    with pytest.raises(UserError, match=f"^{folder} has no split 'tset': choose one of train, valid.$"):
        Prepared.open(folder).split("tset")


def test_not_a_prepared_folder(tmp_path: Path) -> None:
    for wrong in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UserError, match=f"^{wrong} is not a prepared folder: "):
            Prepared.open(wrong)


def _manifest(**other: object) -> str:
    whole = {"format": 1, "task": "x", "options": {}, "source_vocabulary": 2, "target_vocabulary": 2}
    return json.dumps({**whole, "splits": {}, "files": {}, **other})


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", " is damaged, it is not JSON"),
        ("[" * 100_000, " is damaged, it is not JSON"),
        ("[]", " is damaged, it is not a JSON object"),
        ('{"format": 2}', " is not of format 1"),
        ('{"format": 1}', ": the key files is missing"),
        (_manifest(splits=[]), ": splits is \\[\\], but it must be a table"),
        (_manifest(options={"text": {"loud": True}}), ": there is no key options.text.loud"),
        (_manifest(picture_width=True), ": picture_width is True, but it must be a whole number"),
        (_manifest(checksum="00000000"), " is damaged, or was changed by hand: prepare the data again"),
    ],
)
def test_bad_manifest(folder: Path, content: str, says: str) -> None:
    path = folder / "manifest.json"
    path.write_text(content)
    with pytest.raises(UserError, match=f"^{path}{says}"):
        Prepared.open(folder)


def names() -> list[str]:
    halves = ("source.ids.npy", "source.offsets.npy", "source.txt", "references.ids.npy", "references.offsets.npy")
    more = ("references.groups.npy", "references.txt")
    return [
        "source.vocab",
        "target.vocab",
        *(f"{split}.{end}" for split in ("train", "valid") for end in halves + more),
    ]


def test_these_are_all_the_files(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == sorted([*names(), "manifest.json"])


@pytest.mark.parametrize("name", names())
def test_every_change_is_noticed(folder: Path, name: str) -> None:
    path = folder / name
    content = path.read_bytes()
    flipped = content[:-2] + bytes([content[-2] ^ 1]) + content[-1:]
    for changed in (content[:-1], flipped, content + b"\0"):
        path.write_bytes(changed)
        with pytest.raises(UserError, match=f"^{path} has changed since it was written: "):
            Prepared.open(folder)
    path.unlink()
    with pytest.raises(UserError, match=f"^{path} is missing: "):
        Prepared.open(folder)
    path.write_bytes(content)
    Prepared.open(folder)


def test_unchecked_opening_trusts_the_files(folder: Path) -> None:
    (folder / "valid.source.txt").write_text("other\n")
    assert len(Prepared.open(folder, check=False).split("train")) == 6
    (folder / "train.source.ids.npy").write_bytes(b"")
    with pytest.raises(UserError, match=r"train\.source\.ids\.npy is missing or damaged"):
        Prepared.open(folder, check=False).split("train")


def test_manifest_has_no_path_or_date(folder: Path, tmp_path: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    assert set(manifest) == {
        "format", "task", "options", "source_vocabulary", "target_vocabulary", "splits", "files", "picture_width",
        "checksum",
    }  # fmt: skip
    assert str(tmp_path) not in (folder / "manifest.json").read_text()
