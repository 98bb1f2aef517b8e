"""`seqcredit serve`: the credit page, live: type a sentence, watch it being translated, change tokens.

The server is meant for the computer that it runs on. It answers requests for its own address alone, takes JSON of a
bounded size, opens no file that a client names, and says what is wrong in one sentence. docs/serve.md lists the API.
"""

import ipaddress
import json
import socket
from collections.abc import Callable, Mapping

from seqcredit.errors import UserError, in_words
from seqcredit.inspect import page
from seqcredit.inspect.desk import PICTURE, Desk, Grow, Score
from seqcredit.types import Json

with in_words(ImportError, "`seqcredit serve` needs more packages: run `pip install 'seqcredit[serve]'`."):
    import uvicorn
    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
    from starlette.exceptions import HTTPException
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY = 64_000  # bytes of a request, without a photograph


# --- who may ask -----------------------------------------------------------------------------------------------------


class Guard:
    """Before the application: own addresses, JSON, bounded bodies; after it: headers that shut the page in."""

    def __init__(self, app: ASGIApp, host: str, largest: int) -> None:
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

        async def closed(message: Message) -> None:
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

        async def replay() -> Message:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, replay, closed)

    def _refused(self, method: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Why a request is not even read."""
        if not own_host(headers.get("host", ""), self.host):
            return 421, "This server answers to its own address alone."
        elsewhere = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
        if elsewhere or headers.get("origin", f"://{headers['host']}").partition("://")[2] != headers["host"]:
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


class Lines(StreamingResponse):
    """A line of JSON as soon as it is known."""

    media_type = "application/x-ndjson"


# Of every refusal: one sentence.
REFUSAL: Json = {
    "description": "Refused.",
    "content": {
        "application/json": {
            "schema": {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
        }
    },
}


def application(desk: Desk, host: str = "127.0.0.1") -> Guard:
    """Four addresses: the page, the runs, growing, scoring."""
    app = FastAPI(title="seqcredit", docs_url=None, redoc_url=None, openapi_url=None, responses={"4XX": REFUSAL})
    largest = BODY + (PICTURE * 4 // 3 + 4 if desk.prepared.pictures else 0)
    shown = page.html(desk.data(), "'self'")

    @app.get("/", response_class=HTMLResponse)
    def show() -> str:
        return shown

    @app.get("/api/runs")
    def runs() -> Json:
        return desk.about()

    @app.post("/api/grow", response_class=Lines)
    def grow(asked: Grow) -> Lines:
        lines = (json.dumps(step) + "\n" for step in desk.grow(asked))
        return Lines(lines)

    @app.post("/api/score")
    def score(asked: Score) -> Json:
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
        sentence = sentences.get(error.status_code, "The request cannot be read.")
        return JSONResponse({"error": sentence}, error.status_code)

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
        place.listen()  # who reads the line below may ask at once
    except (OSError, OverflowError) as error:
        place.close()
        raise UserError(
            f"Nothing can be served at {host}, port {port} ({error}): choose another --host or --port."
        ) from None
    address = f"[{host}]" if ":" in host else host
    say(f"open http://{address}:{place.getsockname()[1]}/ ; Ctrl-C ends it")
    if not _is_loopback(host):
        say("everybody who can reach this address can use it: there is no password")
    settings = uvicorn.Config(application(desk, host), log_level="warning", server_header=False, limit_concurrency=32)
    uvicorn.Server(settings).run(sockets=[place])
