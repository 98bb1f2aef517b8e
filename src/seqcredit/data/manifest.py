"""The manifest of a prepared folder: how its data were made, what there is, and the checksums of all files."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path

from seqcredit.data.reading import check_fit, check_signed, read_json, signed
from seqcredit.data.storage import MANIFEST
from seqcredit.data.text import TextOptions
from seqcredit.errors import UserError, require
from seqcredit.types import FIRST_WORD

FORMAT = 1
AGAIN = "prepare the data again"


@dataclass(frozen=True)
class PrepareOptions:
    """How a corpus is prepared. Lengths are in words, before these are cut into pieces."""

    text: TextOptions = field(default_factory=TextOptions)
    tokenized: bool = False  # the text is already what `text` would make of it: cut it at spaces
    min_count: int = 1  # a word seen less often in training is unknown
    max_vocabulary: int | None = None  # bounds each side, the two symbols included
    max_length: int | None = None  # training pairs with more words on either side are dropped
    filter_all_splits: int | None = None  # pairs with more words on either side are dropped in every split

    def __post_init__(self) -> None:
        least = {"min_count": 1, "max_vocabulary": FIRST_WORD + 1, "max_length": 1, "filter_all_splits": 1}
        for name, bound in least.items():
            value = getattr(self, name)
            if value is not None and value < bound:
                raise UserError(f"{name} is {value}: set it to {bound} or more.")


@dataclass(frozen=True)
class SplitCounts:
    """What is in a split and what was left out of it. A pair is a source with one reference."""

    examples: int
    references: int
    source_words: int
    reference_words: int
    unknown_source: float  # share of the source words that the vocabulary does not have
    unknown_references: float
    dropped_empty: int  # pairs
    dropped_long: int
    dropped_unseen: int = 0  # pictures without features

    @property
    def dropped_long_share(self) -> float:
        """Share of the non-empty pairs that were too long."""
        return self.dropped_long / (self.references + self.dropped_long)


@dataclass(frozen=True)
class Manifest:
    """What is in a prepared folder."""

    format: int
    task: str
    options: PrepareOptions
    source_vocabulary: int  # sizes
    target_vocabulary: int
    splits: dict[str, SplitCounts]
    files: dict[str, str]  # SHA-256
    picture_width: int = 0  # features of a picture, where sources are pictures
    checksum: str = field(default="", compare=False)  # of all this; manifests from before have none

    def text(self) -> str:
        """As JSON."""
        return json.dumps(signed(dataclasses.asdict(self)), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def load(cls, folder: Path) -> "Manifest":
        """The manifest of a prepared folder."""
        path = folder / MANIFEST
        require(path.exists(), f"{folder} is not a prepared folder: it has no {MANIFEST}; run the preparation.")
        record = read_json(path, dict[str, object], AGAIN)
        require(record.get("format") == FORMAT, f"{path} is not of format {FORMAT}: {AGAIN}.")
        check_fit(record, Manifest, str(path), AGAIN)
        check_signed(record, str(path), AGAIN)
        options = {**record.pop("options")}
        text = TextOptions(**options.pop("text"))
        splits = {name: SplitCounts(**counts) for name, counts in record.pop("splits").items()}
        return cls(**record, options=PrepareOptions(**options, text=text), splits=splits)
