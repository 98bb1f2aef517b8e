"""IWSLT14 German-English from its original archive, prepared as MIXER did (Ranzato et al. 2016).

The archive's own quirks stay as MIXER left them, so that the sentences are those of the published tables: entities of
the XML are not resolved, and ’ becomes ' in the test set alone.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from seqcredit.data.manifest import PrepareOptions
from seqcredit.data.text import Cut, Example, TextOptions, lines, tokenizer
from seqcredit.errors import UserError

TEST_SETS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
DROPPED = ("<url>", "<talkid>", "<keywords>")
STRIPPED = re.compile("</?(?:title|description)>")
SEGMENT = re.compile(r'<seg id="\d*">\s*(.*?)\s*</seg>')
LONGEST = 50  # words
RATIO = 1.5  # of the lengths of the two sides
VALID_EVERY = 23

# Of the paper: words seen at least 3 times. `read` has cut the text already.
OPTIONS = PrepareOptions(
    text=TextOptions(lowercase=True, moses=True, source_language="de", target_language="en"),
    tokenized=True,
    min_count=3,
)


def read(folder: Path) -> dict[str, list[Example]]:
    """The splits of the unpacked archive in words, without training pairs that are too long or too unequal.

    Of the pairs left for training every 23rd is for validation.
    """
    missing = [name for name in files() if not (folder / name).is_file()]
    if missing:
        raise UserError(
            f"{folder} is not the unpacked IWSLT14 archive de-en: it has no file {missing[0]}; "
            "unpack de-en.tgz and give the folder de-en."
        )
    cuts = tokenizer(OPTIONS.text, "de"), tokenizer(OPTIONS.text, "en")
    clean = [pair for pair in _cut(_training_lines, folder, "train.tags.de-en.{}", cuts) if _is_clean(pair)]
    test = [pair for name in TEST_SETS for pair in _cut(_segments, folder, f"IWSLT14.{name}.de-en.{{}}.xml", cuts)]
    return {
        "train": [pair for number, pair in enumerate(clean, 1) if number % VALID_EVERY],
        "valid": clean[VALID_EVERY - 1 :: VALID_EVERY],
        "test": test,
    }


def files() -> list[str]:
    """Names of the files of the archive that are read."""
    names = ["train.tags.de-en.{}", *(f"IWSLT14.{name}.de-en.{{}}.xml" for name in TEST_SETS)]
    return [name.format(language) for name in names for language in ("de", "en")]


def _training_lines(path: Path) -> Iterator[str]:
    for line in lines(path):
        if not any(tag in line for tag in DROPPED):
            yield STRIPPED.sub("", line)


def _segments(path: Path) -> Iterator[str]:
    for line in lines(path):
        match = SEGMENT.search(line)
        if match:
            yield match[1].replace("’", "'")


def _cut(reader: Callable[[Path], Iterator[str]], folder: Path, name: str, cuts: tuple[Cut, Cut]) -> list[Example]:
    paths = [folder / name.format(language) for language in ("de", "en")]
    sides = [[" ".join(cut(text)) for text in reader(path)] for path, cut in zip(paths, cuts, strict=True)]
    if len(sides[0]) != len(sides[1]):
        raise UserError(
            f"{paths[0]} has {len(sides[0])} sentences and {paths[1]} has {len(sides[1])}: unpack the archive again."
        )
    return [Example(source, [reference]) for source, reference in zip(*sides, strict=True)]


def _is_clean(pair: Example) -> bool:
    source, reference = (len(text.split()) for text in (pair.source, pair.references[0]))
    inside = 1 <= source <= LONGEST and 1 <= reference <= LONGEST
    return inside and source <= RATIO * reference and reference <= RATIO * source
