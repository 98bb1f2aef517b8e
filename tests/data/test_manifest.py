"""The manifest of a prepared folder: every change is noticed, and one from before it had a checksum is read."""

import json
from pathlib import Path

import pytest

from seqcredit.data.manifest import FORMAT, Manifest, PrepareOptions, SplitCounts
from seqcredit.errors import UserError

WHOLE = Manifest(FORMAT, "text", PrepareOptions(), 3, 4, {"train": SplitCounts(1, 1, 2, 2, 0.0, 0.5, 0, 0)}, {"a": "b"})


def test_every_single_bit_counts(tmp_path: Path) -> None:
    path, text = tmp_path / "manifest.json", WHOLE.text().encode()
    path.write_bytes(text)
    assert Manifest.load(tmp_path) == WHOLE
    for place in range(len(text) - 1):  # but for the end of the last line
        path.write_bytes(text[:place] + bytes([text[place] ^ 1]) + text[place + 1 :])
        with pytest.raises(UserError, match=r"manifest\.json"):
            Manifest.load(tmp_path)


def test_one_from_before_is_read(tmp_path: Path) -> None:
    record = json.loads(WHOLE.text())
    del record["checksum"]
    (tmp_path / "manifest.json").write_text(json.dumps(record))
    assert Manifest.load(tmp_path) == WHOLE
