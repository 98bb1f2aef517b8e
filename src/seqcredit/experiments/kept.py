"""Reading of `result.json` and of cells, with types and checksums."""

from pathlib import Path
from typing import TypedDict

from seqcredit.data.reading import check_signed, read_json
from seqcredit.data.storage import check_file
from seqcredit.errors import require
from seqcredit.types import Json

Number = int | float | None
AGAIN = "record it again, or take a copy that is whole"


class Data(TypedDict, total=False):
    """The data that a cell is of."""

    name: str
    content: str
    examples: dict[str, int]


class Kept(TypedDict, total=False):
    """What is read of a result."""

    recipe: str
    seed: int
    split: str
    metric: str
    score: Number
    bleu: Number
    chrf: Number
    cider: Number
    rouge_l: Number
    signature: str
    metric_label: str
    higher_is_better: bool
    sentences: int
    diverged: list[str]
    validation: dict[str, Number]
    vocabularies: dict[str, str]
    hypotheses_checksum: str
    peak_memory_mb: Number
    command: str
    settings: dict[str, object]
    data: Data
    against: dict[str, dict[str, Number | str]]
    credit: dict[str, list[list[Number]]]
    headroom: dict[str, object]
    files: dict[str, str]  # what lies beside a cell, by its ending, and its SHA-256
    checksum: str  # of all the rest; results from before have neither


def read(path: Path, remedy: str = AGAIN) -> Json:
    """A result, as it was written."""
    record = read_json(path, Kept, remedy)
    check_signed(record, str(path), remedy)
    require("files" not in record or "checksum" in record, f"{path} is damaged: {remedy}.")
    return record


def check_beside(path: Path, record: Json, ending: str) -> None:
    """A file beside a cell is the one that it was written with."""
    expected = record.get("files", {}).get(ending)
    if expected is not None:
        check_file(path.with_suffix(ending), expected, AGAIN)
