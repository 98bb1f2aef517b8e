"""`seqcredit serve`: the credit page, live. A sentence in, a translation that grows, tokens that can be changed.

The server is meant for the computer that it runs on. It answers requests for its own address alone, takes JSON of a
bounded size, opens no file that a client names, and says what is wrong in one sentence. docs/serve.md lists the API.
"""

import base64
import binascii
import io
import ipaddress
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from functools import lru_cache
from typing import Annotated, Any

import torch

from seqcredit.data.batches import from_sentences
from seqcredit.data.images import Backbone
from seqcredit.data.prepared import Prepared
from seqcredit.data.vocabulary import UNK_SYMBOL
from seqcredit.errors import UserError
from seqcredit.inspect import page
from seqcredit.inspect.numbers import Examiner, Subject, judge_tokens, reference_ids
from seqcredit.rewards.metrics import sentence_bleu
from seqcredit.types import EOS, UNK, Batch, pad

try:
    import uvicorn
    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
    from pydantic import BaseModel, ConfigDict, Field
    from pydantic.functional_validators import AfterValidator
    from starlette.exceptions import HTTPException
except ImportError:
    raise UserError("`seqcredit serve` needs more packages: run `pip install 'seqcredit[serve]'`.") from None

CHARACTERS = 2_000  # of a text
WORDS = 200  # of a text, and of a hypothesis
REFERENCES = 5
BODY = 64_000  # bytes of a request
PICTURE = 6_000_000  # bytes of a photograph
PIXELS = 25_000_000  # of a photograph, unpacked
SIDE = 240  # pixels of what is shown of it

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


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

    def __init__(self, examiners: Sequence[Examiner], prepared: Prepared, backbone: Backbone | None = None) -> None:
        self.examiners, self.prepared, self.backbone = list(examiners), prepared, backbone
        self.lock = threading.Lock()
        self.seen = lru_cache(maxsize=8)(self._see)
        if backbone and backbone.width != prepared.manifest.picture_width:
            raise UserError(
                f"The runs were trained on {prepared.manifest.picture_width} features of a picture, and "
                f"{backbone.name} gives {backbone.width}: choose another --backbone."
            )

    def data(self) -> dict[str, Any]:
        """What the page begins with."""
        names = " and ".join(examiner.name for examiner in self.examiners)
        found = page.payload(self.examiners, [], f"{names}, live", self.prepared.pictures)
        return {**found, "live": True}

    def about(self) -> dict[str, Any]:
        """The runs and the limits."""
        limits = {"characters": CHARACTERS, "words": WORDS, "references": REFERENCES}
        limits |= {"picture_bytes": PICTURE, "picture_pixels": PIXELS} if self.prepared.pictures else {}
        return {
            "runs": [page.about(examiner) for examiner in self.examiners],
            "pictures": self.prepared.pictures,
            "limits": limits,
        }

    def grow(self, asked: Grow) -> Iterator[dict[str, Any]]:
        """The likeliest word after each other, with its probability, until the end."""
        if asked.run >= len(self.examiners):
            raise UserError(f"run: there is no run {asked.run}, they are 0 to {len(self.examiners) - 1}.")
        source, prefix = self._source(asked), self._ids(asked.prefix)
        return self._steps(self.examiners[asked.run], source, prefix)

    def _steps(self, examiner: Examiner, source: torch.Tensor, prefix: Sequence[int]) -> Iterator[dict[str, Any]]:
        actor, words = examiner.actor, self.prepared.target_vocabulary.words
        with self.lock, torch.no_grad():  # never across a yield: the next step may run in another thread
            memory = actor.encode(source)
            state, token = actor.start(memory), None
        for t in range(min(examiner.search.bound, WORDS + 1)):
            with self.lock, torch.no_grad():
                scores, state = actor.step(memory, state, token)
                logp = torch.log_softmax(scores.table()[0], -1)
            if t < len(prefix):
                token = torch.tensor([prefix[t]], device=source.device)
                continue
            last = t == min(examiner.search.bound, WORDS + 1) - 1
            best = EOS if last else int(logp.argmax())
            token = torch.tensor([best], device=source.device)
            yield {"word": words[best], "p": round(1.0 if last else float(logp[best].exp()), 6), "end": best == EOS}
            if best == EOS:
                return

    def score(self, asked: Score) -> dict[str, Any]:
        """Credit of each hypothesis, as the page reads it."""
        if len(asked.hypotheses) != len(self.examiners):
            raise UserError(
                f"hypotheses: give one for each of the {len(self.examiners)} runs, {len(asked.hypotheses)} came."
            )
        source = self._source(asked)
        references = [text for text in asked.references if text.strip()]
        ids, texts = reference_ids(self.prepared, references)
        if any(not words for words in texts):
            raise UserError("references: one of them has no word.")
        batch, words = Batch(source, ids.to(source.device)), self.prepared.target_vocabulary.words
        judged = []
        for examiner, hypothesis in zip(self.examiners, asked.hypotheses, strict=True):
            tokens = pad([self._ids(hypothesis)]).to(source.device)
            said = self.prepared.words(tokens[0].tolist())
            bleu = sentence_bleu(said, texts) if texts else None
            with self.lock:
                judged += judge_tokens(examiner, words, batch, tokens, [" ".join(said)], [bleu])
        table = page.Words()
        subject = page.packed(Subject(asked.source or "photograph", references, judged), table)
        if asked.picture is not None:
            subject["picture"] = page.thumbnail(io.BytesIO(_decoded(asked.picture)), SIDE)
        return {"subject": subject, "words": table.table, "scales": page.scales(judged)}

    def _ids(self, words: Sequence[str]) -> list[int]:
        """Ids of words of the vocabulary; others are cut into pieces where the corpus was, or unknown."""
        vocabulary, found = self.prepared.target_vocabulary, []
        for word in words:
            known = vocabulary.encode([word])
            found += known if known != [UNK] or word == UNK_SYMBOL else self.prepared.target_ids([word])
        if len(found) > WORDS:
            raise UserError(f"A hypothesis has at most {WORDS} tokens, {len(found)} came.")
        return found

    def _source(self, asked: Asked) -> torch.Tensor:
        device = next(self.examiners[0].actor.parameters()).device
        if self.prepared.pictures:
            if asked.picture is None or asked.source is not None:
                raise UserError(
                    "These runs describe pictures: send `picture`, a JPEG or PNG in base64, and no `source`."
                )
            return self.seen(asked.picture).to(device)
        if asked.source is None or asked.picture is not None:
            raise UserError("These runs translate: send `source`, a text, and no `picture`.")
        words = self.prepared.cut(asked.source)
        if not words:
            raise UserError("source: there is no word in it.")
        return from_sentences([words], self.prepared.source_vocabulary).source.to(device)

    def _see(self, picture: str) -> torch.Tensor:
        """Features of a photograph."""
        assert self.backbone is not None
        pixels = self.backbone.pixels(open_picture(_decoded(picture)))
        with self.lock:
            return self.backbone.features(pixels.unsqueeze(0))


def _decoded(picture: str) -> bytes:
    try:
        raw = base64.b64decode(picture, validate=True)
    except (binascii.Error, ValueError):
        raise UserError("picture: this is not base64.") from None
    if len(raw) > PICTURE:
        raise UserError(f"picture: at most {PICTURE:,} bytes can be read.")
    return raw


def open_picture(raw: bytes) -> Any:
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


# --- who may ask -----------------------------------------------------------------------------------------------------


class Guard:
    """Before the application: own addresses, JSON, bounded bodies; after it: headers that shut the page in."""

    def __init__(self, app: Any, host: str, largest: int) -> None:
        self.app, self.host, self.largest = app, host, largest
        self.headers = {
            "content-security-policy": page.policy("'self'") + "; frame-ancestors 'none'",
            "x-content-type-options": "nosniff",
            "x-frame-options": "DENY",
            "referrer-policy": "no-referrer",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
            "cache-control": "no-store",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def closed(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                extra = [(key.encode(), value.encode()) for key, value in self.headers.items()]
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        refused = self._refused(scope["method"], headers)
        body = b""
        if refused is None:
            body, refused = await self._body(receive)
        if refused is not None:
            code, sentence = refused
            await JSONResponse({"error": sentence}, code)(scope, receive, closed)
            return
        sent = False

        async def replay() -> MutableMapping[str, Any]:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, replay, closed)

    def _refused(self, method: str, headers: MutableMapping[str, str]) -> tuple[int, str] | None:
        """Why a request is not even read."""
        if not own_host(headers.get("host", ""), self.host):
            return 421, "This server answers to its own address alone."
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return 403, "Another site may not ask this server."
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != headers["host"]:
            return 403, "Another site may not ask this server."
        if method == "POST" and headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return 415, "Send the request as application/json."
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or len(length) > 12 or int(length) > self.largest:
            return 413, f"A request has at most {self.largest:,} bytes."
        return None

    async def _body(self, receive: Receive) -> tuple[bytes, tuple[int, str] | None]:
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return b"", (400, "The request ended too early.")
            parts.append(message.get("body", b""))
            size, more = size + len(parts[-1]), message.get("more_body", False)
            if size > self.largest:
                return b"", (413, f"A request has at most {self.largest:,} bytes.")
        return b"".join(parts), None


def own_host(header: str, host: str) -> bool:
    """Whether a Host header names this server: a name that someone else's DNS points here does not."""
    name = header.rpartition(":")[0] if header.rpartition(":")[2].isdigit() else header
    name = name.strip("[]").lower()
    if name in ("localhost", "127.0.0.1", "::1", host.lower()):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return not _is_loopback(host)  # a bare number needs no DNS


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "127.0.0.1", "::1")


# --- the application -------------------------------------------------------------------------------------------------


def application(desk: Desk, host: str = "127.0.0.1") -> Guard:
    """Four addresses: the page, the runs, growing, scoring."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    largest = BODY + (PICTURE * 4 // 3 + 4 if desk.prepared.pictures else 0)
    shown = page.html(desk.data(), "'self'")

    @app.get("/")
    def show() -> HTMLResponse:
        return HTMLResponse(shown)

    @app.get("/api/runs")
    def runs() -> dict[str, Any]:
        return desk.about()

    @app.post("/api/grow")
    def grow(asked: Grow) -> StreamingResponse:
        lines = (json.dumps(step) + "\n" for step in desk.grow(asked))
        return StreamingResponse(lines, media_type="application/x-ndjson")

    @app.post("/api/score")
    def score(asked: Score) -> dict[str, Any]:
        return desk.score(asked)

    @app.exception_handler(UserError)
    def user_error(_: Request, error: UserError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 422)

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:])
        if first["type"] == "json_invalid":
            return JSONResponse({"error": "The request is not JSON."}, 400)
        said = first["msg"].removeprefix("Value error, ")
        return JSONResponse({"error": f"{place or 'The request'}: {said[0].lower()}{said[1:]}."}, 422)

    @app.exception_handler(HTTPException)
    def refused(_: Request, error: HTTPException) -> JSONResponse:
        sentences = {404: "There is nothing at this address.", 405: "This address takes another method."}
        return JSONResponse(
            {"error": sentences.get(error.status_code, "The request cannot be read.")}, error.status_code
        )

    @app.exception_handler(Exception)
    def broken(_: Request, __: Exception) -> JSONResponse:
        return JSONResponse({"error": "The server failed; its terminal says why."}, 500)

    return Guard(app, host, largest)


def serve(desk: Desk, host: str, port: int, say: Callable[[str], None]) -> None:
    """Answer until interrupted."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    place = socket.socket(family, socket.SOCK_STREAM)
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        place.bind((host, port))
    except (OSError, OverflowError) as error:
        place.close()
        raise UserError(
            f"Nothing can be served at {host}, port {port} ({error}): choose another --host or --port."
        ) from None
    address = f"[{host}]" if ":" in host else host
    say(f"open http://{address}:{place.getsockname()[1]}/ ; Ctrl-C ends it")
    if not _is_loopback(host):
        say("whoever reaches this address can use it: there is no password")
    settings = uvicorn.Config(application(desk, host), log_level="warning", server_header=False, limit_concurrency=32)
    uvicorn.Server(settings).run(sockets=[place])
