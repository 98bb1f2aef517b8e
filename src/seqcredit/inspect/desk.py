"""Requests of the live page and their answers: translations word by word, and the credit of changed tokens."""

import base64
import io
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated

import torch

from seqcredit.credit.values import only_actions
from seqcredit.data.batches import from_sentences
from seqcredit.data.images import Backbone
from seqcredit.data.vocabulary import UNK_SYMBOL
from seqcredit.errors import UserError, in_words, require
from seqcredit.inspect import page
from seqcredit.inspect.examiners import Examiner
from seqcredit.inspect.numbers import judge_tokens
from seqcredit.inspect.subjects import Subject, reference_ids
from seqcredit.models.policy import Rows
from seqcredit.rewards.metrics import sentence_bleu
from seqcredit.types import UNK, Batch, Json, pad

with in_words(ImportError, "`seqcredit serve` needs more packages: run `pip install 'seqcredit[serve]'`."):
    from pydantic import BaseModel, ConfigDict, Field
    from pydantic.functional_validators import AfterValidator

if TYPE_CHECKING:
    from PIL.Image import Image

CHARACTERS = 2_000  # of a text
WORDS = 200  # of a text, and of a hypothesis
REFERENCES = 5
PICTURE = 6_000_000  # bytes of a photograph
PIXELS = 25_000_000  # of a photograph, unpacked
SIDE = 240  # pixels of what is shown of it


# --- what may be asked -----------------------------------------------------------------------------------------------


def _sound(text: str) -> str:
    """A text that UTF-8 can write and that is not too long in words."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair is no character") from None
    if len(text.split()) > WORDS:
        raise ValueError(f"at most {WORDS} words can be read")
    return text


Text = Annotated[str, Field(max_length=CHARACTERS), AfterValidator(_sound)]
Word = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_sound)]
Hypothesis = Annotated[list[Word], Field(max_length=WORDS)]


class Asked(BaseModel):
    """What all requests have: a sentence, or a photograph in base64."""

    model_config = ConfigDict(strict=True, extra="forbid")
    source: Text | None = None
    picture: Annotated[str, Field(max_length=PICTURE * 4 // 3 + 4)] | None = None


class Grow(Asked):
    """What the run says next, word after word."""

    run: Annotated[int, Field(ge=0)]
    prefix: Hypothesis = []


class Score(Asked):
    """Credit of given hypotheses, one for each run."""

    references: Annotated[list[Text], Field(max_length=REFERENCES)] = []
    hypotheses: list[Hypothesis]


# --- what is answered ------------------------------------------------------------------------------------------------


class Desk:
    """The networks, and everything that they are asked. One question at a time."""

    def __init__(self, examiners: Sequence[Examiner], backbone: Backbone | None = None) -> None:
        self.examiners, self.prepared, self.backbone = list(examiners), examiners[0].prepared, backbone
        self.lock = threading.Lock()
        self.seen = lru_cache(maxsize=8)(self._see)
        width = self.prepared.manifest.picture_width
        if backbone and backbone.width != width:
            raise UserError(
                f"The runs were trained on {width} features of a picture, and {backbone.name} gives {backbone.width}: "
                "choose another --backbone."
            )

    def data(self) -> Json:
        """What the page begins with."""
        names = " and ".join(examiner.name for examiner in self.examiners)
        found = page.payload(self.examiners, [], f"{names}, live", self.prepared.pictures)
        return {**found, "live": True}

    def about(self) -> Json:
        """The runs and the limits."""
        limits = {"characters": CHARACTERS, "words": WORDS, "references": REFERENCES}
        limits |= {"picture_bytes": PICTURE, "picture_pixels": PIXELS} if self.prepared.pictures else {}
        return {
            "runs": [page.about(examiner) for examiner in self.examiners],
            "pictures": self.prepared.pictures,
            "limits": limits,
        }

    def grow(self, asked: Grow) -> Iterator[Json]:
        """The likeliest word after each other, with its probability, until the end."""
        if asked.run >= len(self.examiners):
            raise UserError(f"run: there is no run {asked.run}, they are 0 to {len(self.examiners) - 1}.")
        source, prefix, examiner = self._source(asked), self._ids(asked.prefix), self.examiners[asked.run]
        with self.lock, torch.no_grad():  # now: what cannot be read is said before the answer begins
            memory = examiner.actor.encode(source)
        return self._steps(examiner, source, memory, prefix)

    def _steps(self, examiner: Examiner, source: torch.Tensor, memory: Rows, prefix: Sequence[int]) -> Iterator[Json]:
        actor, words, eos = examiner.actor, self.prepared.target_vocabulary.words, self.prepared.alphabet.eos
        with self.lock, torch.no_grad():  # never across a yield: the next step may run in another thread
            state, token = actor.start(memory), None
        bound = min(examiner.search.bound, WORDS + 1, examiner.run.recipe.actor.room(source.shape[1]))
        for t in range(bound):
            with self.lock, torch.no_grad():
                scores, state = actor.step(memory, state, token)
                logp = torch.log_softmax(only_actions(scores.table()[0], actor.alphabet.actions), -1)
            if t < len(prefix):
                token = torch.tensor([prefix[t]], device=source.device)
                continue
            last = t == bound - 1
            best = eos if last else int(logp.argmax())
            token = torch.tensor([best], device=source.device)
            yield {"word": words[best], "p": round(1.0 if last else float(logp[best].exp()), 6), "end": best == eos}
            if best == eos:
                return

    def score(self, asked: Score) -> Json:
        """Credit of each hypothesis, as the page reads it."""
        if len(asked.hypotheses) != len(self.examiners):
            raise UserError(
                f"hypotheses: give one for each of the {len(self.examiners)} runs, {len(asked.hypotheses)} came."
            )
        source = self._source(asked)
        references = [text for text in asked.references if text.strip()]
        ids, texts = reference_ids(self.prepared, references)
        require(all(texts), "references: one of them has no word.")
        batch, judged = Batch(source, ids.to(source.device)), []
        for examiner, hypothesis in zip(self.examiners, asked.hypotheses, strict=True):
            tokens = pad([self._ids(hypothesis)], eos=self.prepared.alphabet.eos).to(source.device)
            said = self.prepared.words(tokens[0].tolist())
            bleu = sentence_bleu(said, texts) if texts else None
            with self.lock:
                judged += judge_tokens(examiner, batch, tokens, [" ".join(said)], [bleu])
        words: page.Words = {}
        subject = page.packed(
            Subject("photograph" if asked.source is None else asked.source, references, judged), words
        )
        if asked.picture is not None:
            subject["picture"] = page.thumbnail(io.BytesIO(_decoded(asked.picture)), SIDE)
        return {"subject": subject, "words": list(words), "scales": page.scales(judged)}

    def _ids(self, words: Sequence[str]) -> list[int]:
        """Ids of words of the vocabulary; others are cut into pieces where the corpus was, or unknown."""
        vocabulary, found = self.prepared.target_vocabulary, list[int]()
        for word in words:
            if self.prepared.tokenizer is not None:
                found += vocabulary.encode([word]) if word in vocabulary.words else self.prepared.target_ids([word])
                continue
            known = vocabulary.encode([word])
            found += known if known != [UNK] or word == UNK_SYMBOL else self.prepared.target_ids([word])
        require(len(found) <= WORDS, f"A hypothesis has at most {WORDS} tokens, {len(found)} came.")
        return found

    def _source(self, asked: Asked) -> torch.Tensor:
        device = self.examiners[0].device
        if self.prepared.pictures:
            if asked.picture is None or asked.source is not None:
                raise UserError(
                    "These runs describe pictures: send `picture`, a JPEG or PNG in base64, and no `source`."
                )
            return self.seen(asked.picture).to(device)
        if asked.source is None or asked.picture is not None:
            raise UserError("These runs translate: send `source`, a text, and no `picture`.")
        words = self.prepared.cut(asked.source)
        require(words, "source: there is no word in it.")
        return from_sentences([words], self.prepared).source.to(device)

    def _see(self, picture: str) -> torch.Tensor:
        """Features of a photograph."""
        assert self.backbone is not None
        pixels = self.backbone.pixels(open_picture(_decoded(picture)))
        with self.lock:
            return self.backbone.features(pixels.unsqueeze(0))


def _decoded(picture: str) -> bytes:
    with in_words(ValueError, "picture: this is not base64."):
        raw = base64.b64decode(picture, validate=True)
    require(len(raw) <= PICTURE, f"picture: at most {PICTURE:,} bytes can be read.")
    return raw


def open_picture(raw: bytes) -> "Image":
    """A JPEG or PNG in RGB; its size is looked at before it is unpacked."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(raw), formats=("JPEG", "PNG")) as image:
            width, height = image.size
            if width * height > PIXELS:
                raise UserError(f"picture: {width} x {height} pixels are more than {PIXELS:,}.")
            return image.convert("RGB")
    except UserError:
        raise
    except Exception:  # damaged files make Pillow raise almost anything
        raise UserError("picture: this is no JPEG or PNG that can be read.") from None
