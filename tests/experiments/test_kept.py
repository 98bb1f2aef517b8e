"""What results keep on disk is read as it was written, or not at all."""

import json
from pathlib import Path

import pytest

from seqcredit.data.reading import signed
from seqcredit.data.storage import checksum
from seqcredit.errors import UserError
from seqcredit.experiments.kept import check_beside, read


def written(path: Path, record: dict[str, object]) -> Path:
    path.write_text(json.dumps(record))
    return path


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = signed({"recipe": "mle", "seed": 1, "bleu": 20.5})
    assert read(written(tmp_path / "cell.json", record)) == record
    older = {"recipe": "mle", "seed": 1}
    assert read(written(tmp_path / "older.json", older)) == older


@pytest.mark.parametrize("change", [{"bleu": 30.0}, {"seed": "1"}, {"files": {".txt.gz": "0"}, "checksum": None}])
def test_an_altered_result_is_noticed(tmp_path: Path, change: dict[str, object]) -> None:
    record = {**signed({"recipe": "mle", "seed": 1, "bleu": 20.5}), **change}
    kept = {key: value for key, value in record.items() if value is not None}
    with pytest.raises(UserError, match=r"cell\.json.*record it again"):
        read(written(tmp_path / "cell.json", kept))


def test_what_lies_beside_a_cell_is_its_own(tmp_path: Path) -> None:
    cell, beside = tmp_path / "cell.json", tmp_path / "cell.txt"
    beside.write_text("one two")
    record = {"files": {".txt": checksum(beside)}}
    check_beside(cell, record, ".txt")
    check_beside(cell, {}, ".txt")
    beside.write_text("one too")
    with pytest.raises(UserError, match=r"cell\.txt"):
        check_beside(cell, record, ".txt")
