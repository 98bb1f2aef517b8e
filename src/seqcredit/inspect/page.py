"""The credit page as one HTML file that needs nothing else, or as the data that its script reads.

All that comes from data travels as compressed JSON in base64, which no markup can break out of, and is shown as text.
The page's Content-Security-Policy allows this very script and this very style, and nothing from elsewhere.
"""

import base64
import gzip
import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from seqcredit.errors import UserError, in_words, require
from seqcredit.inspect.examiners import Examiner
from seqcredit.inspect.numbers import LONGEST_EXACT, Choice, Credit, Summary, has_oracle, summarise
from seqcredit.inspect.subjects import Subject
from seqcredit.rewards.metrics import corpus_bleu, label_of
from seqcredit.types import Json

if TYPE_CHECKING:
    from PIL.Image import Image

THOUSAND = 1_000  # numbers are whole thousandths, probabilities of words whole ten-thousandths
NUMBERS = ("logp", "entropy", "scores", "rewards", "returns", "q", "value", "advantage", "td")
COLOURED = ("entropy", "rewards", "q", "value", "advantage", "td")
FULL = 0.98  # share of the tokens that are within the scale of colours
LISTS = ("policy", "target", "oracle")
PAYOFFS = {"linear-bleu": "linear BLEU", "edit": "edit distance", "hamming": "Hamming distance"}  # as no metric
AT_ONCE = 40  # subjects that the page shows before it has read the others
FEW, LARGE, SMALL = 300, 240, 120  # up to so many images are of so many pixels, more of them of fewer

Words = dict[str, int]  # of a page, each with its number: it is written once


def about(examiner: Examiner) -> Json:
    """What the page says of a run."""
    payoff = examiner.payoff
    scaled = " times the reference's length" if payoff.metric == "bleu" and payoff.scaled else ""
    return {
        "name": examiner.name,
        "critic": examiner.critic_name,
        "payoff": PAYOFFS.get(payoff.metric, label_of(payoff.metric)) + scaled,
        "tau": examiner.tau,
        "soft": examiner.soft,
        "exact": has_oracle(examiner),
    }


def payload(examiners: Sequence[Examiner], subjects: Sequence[Subject], title: str, pictures: bool = False) -> Json:
    """Everything that the page shows."""
    words: Words = {}
    by_run = list(zip(*(subject.credits for subject in subjects), strict=True))
    known = [[text.split() for text in subject.references] for subject in subjects]
    bleus = [corpus_bleu([c.text.split() for c in each], known) for each in by_run if all(known)]
    return {
        "title": title,
        "pictures": pictures,
        "signature": bleus[0].signature if bleus else None,
        "runs": [about(examiner) | {"bleu": bleus[i].value if bleus else None} for i, examiner in enumerate(examiners)],
        "longest_exact": LONGEST_EXACT,
        "scales": scales([credit for each in by_run for credit in each]),
        "subjects": [packed(subject, words) for subject in subjects],
        "summaries": [_summary(summarise(each)) for each in by_run],
        "words": list(words),
    }


def scales(hypotheses: Sequence[Credit]) -> dict[str, int]:
    """The size at which each colour is full: hardly a token is beyond it."""
    found = {}
    for name in COLOURED:
        sizes = sorted(abs(x) for credit in hypotheses for x in getattr(credit, name) or [])
        if sizes:
            found[name] = max(1, _whole(sizes[int(FULL * (len(sizes) - 1))]))
    return found


def packed(subject: Subject, words: Words) -> Json:
    """One subject in small numbers."""
    return {
        "source": subject.source,
        "references": subject.references,
        "credits": [_credit(credit, words) for credit in subject.credits],
    }


def _credit(credit: Credit, words: Words) -> Json:
    found: Json = {"words": [words.setdefault(word, len(words)) for word in credit.words]}
    if credit.bleu is not None:
        found["bleu"] = round(credit.bleu, 1)
    known = {name: value for name in (*NUMBERS, *LISTS) if (value := getattr(credit, name)) is not None}
    for name, value in known.items():
        found[name] = [_whole(one) if name in NUMBERS else _choices(one, words) for one in value]
    return found


def _choices(state: Iterable[Choice], words: Words) -> list[int]:
    """Word, probability, Q; and again for the next one. Without a critic Q is left out: pairs instead of triples."""
    flat: list[int] = []
    for choice in state:
        flat += [words.setdefault(choice.word, len(words)), round(choice.p * 10 * THOUSAND)]
        if choice.q is not None:
            flat.append(_whole(choice.q))
    return flat


def _whole(number: float) -> int:
    return round(number * THOUSAND)


def _summary(summary: Summary) -> Json:
    """Numbers in thousandths, and how many tokens they are of, which stands last."""
    return {
        name: [[*map(_whole, numbers), tokens] for *numbers, tokens in rows] for name, rows in summary._asdict().items()
    }


def html(data: Json, connect: str = "'none'") -> str:
    """The page: the first subjects stand before the script, so that they are shown while the others are still read."""
    subjects = data["subjects"]
    parts = {
        "POLICY": policy(connect),
        "STYLE": part("page.css"),
        "FIRST": _packed_json({**data, "subjects": subjects[:AT_ONCE], "more": max(0, len(subjects) - AT_ONCE)}),
        "SCRIPT": part("page.js"),
        "REST": _packed_json(subjects[AT_ONCE:]),
    }
    page = part("page.html")
    for name, text in parts.items():
        page = page.replace(f"{{{{{name}}}}}", text, 1)
    return page


def _packed_json(data: object) -> str:
    return base64.b64encode(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), mtime=0)).decode()


def policy(connect: str = "'none'") -> str:
    """The Content-Security-Policy: our script and style by their hashes, pictures within the page."""
    style, script = (_hash(part(name)) for name in ("page.css", "page.js"))
    return (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data:; connect-src {connect}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def part(name: str) -> str:
    """A file that pages are made of, beside this one."""
    return (files("seqcredit.inspect") / name).read_text(encoding="utf-8")


def write(data: Json, out: Path) -> int:
    """Write the page; how many bytes it has."""
    text = html(data).encode()
    with in_words(OSError, lambda error: f"{out} cannot be written ({error.strerror}): choose another --out."):
        out.write_bytes(text)
    return len(text)


def add_images(data: Json, folder: Path) -> None:
    """Small copies of the images that a folder has, by their names."""
    require(folder.is_dir(), f"{folder} is no folder: give --images the folder that they are in.")
    there = {path.name: path for path in folder.iterdir()}
    side = LARGE if len(data["subjects"]) <= FEW else SMALL
    for subject in data["subjects"]:
        if path := there.get(subject["source"]):
            subject["picture"] = thumbnail(path, side)
    if not any("picture" in subject for subject in data["subjects"]):
        raise UserError(f"{folder} has none of the images: give the folder that they are in.")


def thumbnail(picture: Path | io.BytesIO, side: int) -> str:
    """A small JPEG of a picture, in base64."""
    buffer = io.BytesIO()
    shrunk(picture, (side, side)).save(buffer, "JPEG", quality=70)
    return base64.b64encode(buffer.getvalue()).decode()


def shrunk(picture: Path | io.BytesIO, size: tuple[int, int]) -> "Image":
    """A picture in RGB that fits into a size."""
    name = picture.name if isinstance(picture, Path) else "it"
    # Damaged files make Pillow raise almost anything.
    with in_words(Exception, lambda error: f"{name} cannot be read as an image: {type(error).__name__}."):
        with pillow()[0].open(picture) as image:
            small: Image = image.convert("RGB")
        small.thumbnail(size)
        return small


def pillow() -> tuple[ModuleType, ModuleType, ModuleType]:
    """Pictures, what draws on them, and letters."""
    with in_words(ImportError, "Images need Pillow: pip install 'seqcredit[images]'."):
        from PIL import Image, ImageDraw, ImageFont
    return Image, ImageDraw, ImageFont
