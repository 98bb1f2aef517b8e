"""Results on disk: every change of a single bit is noticed, and those from before there were checksums are read."""

import json
from pathlib import Path

import pytest

from seqcredit.data.reading import signed
from seqcredit.data.storage import checksum
from seqcredit.errors import UserError
from seqcredit.experiments import kept

ROOT = Path(__file__).parents[2]
CELL = {"recipe": "tiny", "seed": 1, "bleu": 12.5, "diverged": [], "files": {".txt.gz": "0"}}


def test_every_single_bit_of_a_cell_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    whole = json.dumps(signed(CELL)).encode()
    path.write_bytes(whole)
    assert kept.read(path)["bleu"] == 12.5
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(UserError, match=r"a\.json"):
            kept.read(path)


def test_a_cell_from_before_is_read_and_a_wrong_type_is_not(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"recipe": "r", "seed": 1, "bleu": 3}')
    assert kept.read(path) == {"recipe": "r", "seed": 1, "bleu": 3}
    path.write_text('{"recipe": "r", "seed": 1, "bleu": "3"}')
    with pytest.raises(UserError, match=r"bleu is '3', but it must be a whole number or a number or null"):
        kept.read(path)


def test_what_lies_beside_a_cell(tmp_path: Path) -> None:
    path, beside = tmp_path / "a.json", tmp_path / "a.txt.gz"
    beside.write_bytes(b"one")
    record = {"files": {".txt.gz": checksum(beside)}}
    kept.check_beside(path, record, ".txt.gz")
    kept.check_beside(path, {}, ".txt.gz")
    beside.write_bytes(b"two")
    with pytest.raises(UserError, match="has changed since it was written"):
        kept.check_beside(path, record, ".txt.gz")


def test_every_cell_that_is_kept_here_is_read() -> None:
    cells = list((ROOT / "results").rglob("*.json"))
    assert len(cells) > 100
    for path in cells:
        assert kept.read(path)["seed"] >= 0
