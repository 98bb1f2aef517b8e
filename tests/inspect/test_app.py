"""The live page: what it answers, what it refuses, and what a reader does with it in a browser."""

import base64
import io
import json
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
import uvicorn
from playwright.sync_api import expect

from seqcredit import config
from seqcredit.data.batches import from_sentences
from seqcredit.data.images import Features, load_backbone
from seqcredit.data.prepare import prepare
from seqcredit.data.prepared import Prepared, PrepareOptions
from seqcredit.data.shapes import shapes
from seqcredit.errors import UserError
from seqcredit.experiments.build import build_actor, build_critic
from seqcredit.experiments.runs import Run
from seqcredit.inspect import app as server
from seqcredit.inspect import numbers as inspection
from seqcredit.results.evaluate import load_actor
from seqcredit.rewards.metrics import sentence_bleu
from seqcredit.search import greedy

SOURCE, REFERENCE = "heute singt der alte hund .", "the old dog sings today ."
HOSTILE = "<img src=x onerror=window.hacked=1> </script><script>window.hacked=1</script>"


class Served:
    """A server in a thread, at a free port."""

    def __init__(self, desk: server.Desk) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self.socket.getsockname()[1]}"
        settings = uvicorn.Config(server.application(desk), log_level="critical", server_header=False)
        self.server = uvicorn.Server(settings)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]})
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        self.client = httpx.Client(base_url=f"http://{self.host}", timeout=30)

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self.client.post(path, json=body)

    def close(self) -> None:
        self.client.close()
        self.server.should_exit = True
        self.thread.join()
        self.socket.close()


@pytest.fixture(scope="module")
def examiners(shown: Any) -> list[inspection.Examiner]:
    return inspection.load_examiners([shown.mle, shown.erac], shown.prepared, shown.erac)


@pytest.fixture(scope="module")
def served(shown: Any, examiners: list[inspection.Examiner]) -> Iterator[Served]:
    started = Served(server.Desk(examiners, shown.prepared))
    yield started
    started.close()


def error(answer: httpx.Response) -> str:
    """The one sentence of an answer that refuses."""
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error"}
    sentence = answer.json()["error"]
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert "Traceback" not in sentence
    assert "/tmp" not in sentence
    return sentence


# --- answers ---------------------------------------------------------------------------------------------------------


def test_a_translation_grows_as_greedy_search_writes_it(served: Served, shown: Any) -> None:
    words = shown.prepared.target_vocabulary.words
    for run, folder in enumerate((shown.mle, shown.erac)):
        actor = load_actor(folder, shown.prepared)
        memory = actor.encode(from_sentences([SOURCE.split()], shown.prepared.source_vocabulary).source)
        tokens = greedy(actor, memory, 13)[0].tolist()
        lines = [json.loads(line) for line in served.post("/api/grow", source=SOURCE, run=run).text.splitlines()]
        assert [line["word"] for line in lines if not line["end"]] == [words[i] for i in tokens if i]
        with torch.no_grad():
            logp = torch.log_softmax(actor.readout(actor.features(memory, torch.tensor([tokens]))), -1)[0]
        assert lines[0]["p"] == pytest.approx(float(logp[0, tokens[0]].exp()), abs=1e-5)
        assert lines[-1]["end"]
        assert len(lines) <= 13


def test_growth_goes_on_from_a_prefix(served: Served, shown: Any) -> None:
    whole = [json.loads(x)["word"] for x in served.post("/api/grow", source=SOURCE, run=1).text.splitlines()]
    rest = served.post("/api/grow", source=SOURCE, run=1, prefix=whole[:2]).text.splitlines()
    assert [json.loads(line)["word"] for line in rest] == whole[2:]


def test_scores_are_those_of_the_page(served: Served, shown: Any, examiners: list[inspection.Examiner]) -> None:
    hypotheses = [["the", "dog", "sings"], ["the", "old", "unheard", "dog", "."]]
    answer = served.post("/api/score", source=SOURCE, references=[REFERENCE], hypotheses=hypotheses).json()
    batch, texts = inspection.typed_batch(examiners[0], shown.prepared, SOURCE, [REFERENCE])
    for judge, words, found in zip(examiners, hypotheses, answer["subject"]["credits"], strict=True):
        (credit,) = inspection.judge_words(judge, shown.prepared, batch, [words], [texts])
        assert [answer["words"][i] for i in found["words"]] == credit.words
        for name in ("q", "value", "advantage", "td", "rewards", "logp", "entropy"):
            assert found[name] == pytest.approx([1000 * x for x in getattr(credit, name)], abs=0.6)
    assert answer["subject"]["credits"][1]["bleu"] == pytest.approx(
        sentence_bleu(["the", "old", "<unk>", "dog", "."], [REFERENCE.split()]), abs=0.06
    )
    alone = served.post("/api/score", source=SOURCE, hypotheses=[["dog"], []]).json()
    assert "q" not in alone["subject"]["credits"][0]
    assert len(alone["subject"]["credits"][1]["words"]) == 1


def test_the_runs_are_told(served: Served) -> None:
    told = served.client.get("/api/runs").json()
    assert [run["name"] for run in told["runs"]] == ["MLE", "ERAC"]
    assert told["limits"] == {"characters": 2000, "words": 200, "references": 5}


# --- refusals --------------------------------------------------------------------------------------------------------

GOOD = {"source": SOURCE, "hypotheses": [["dog"], ["dog"]]}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"source": 7}, "source: input should be a valid string"),
        ({"source": None}, "These runs translate: send `source`"),
        ({"source": " "}, "source: there is no word in it"),
        ({"source": "a" * 2001}, "source: string should have at most 2000 characters"),
        ({"source": "a " * 300}, "source: at most 200 words can be read"),
        ({"picture": "abcd"}, "These runs translate"),
        ({"file": "/etc/passwd"}, "file: extra inputs are not permitted"),
        ({"references": ["a"] * 6}, "references: list should have at most 5 items"),
        ({"references": "a"}, "references: input should be a valid list"),
        ({"references": [{}]}, "references.0: input should be a valid string"),
        ({"hypotheses": [["dog"]]}, "hypotheses: give one for each of the 2 runs, 1 came"),
        ({"hypotheses": [["dog"], [3]]}, "hypotheses.1.0: input should be a valid string"),
        ({"hypotheses": [["dog"], [""]]}, "hypotheses.1.0: string should have at least 1 character"),
        ({"hypotheses": [["dog"], ["dog"] * 201]}, "hypotheses.1: list should have at most 200 items"),
        ({"hypotheses": None}, "hypotheses: input should be a valid list"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(served: Served, change: dict[str, Any], sentence: str) -> None:
    answer = served.post("/api/score", **{**GOOD, **change})
    assert answer.status_code == 422
    assert error(answer).startswith(sentence)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b'{"source": "\xff\xfe", "hypotheses": []}', 400),
        (b'{"source": "half \\ud800", "hypotheses": [["a"], ["a"]]}', 422),
        (b'{"source": "a', 400),
        (b"[" * 50_000, 400),
        (b"", 422),
        (b"[]", 422),
        (b'{"source": "' + b"a" * 70_000 + b'"}', 413),
    ],
)
def test_broken_bodies_are_refused(served: Served, raw: bytes, code: int) -> None:
    answer = served.client.post("/api/score", content=raw, headers={"content-type": "application/json"})
    assert answer.status_code == code
    error(answer)


def test_a_body_that_hides_its_size_is_refused(served: Served) -> None:
    stream = (b"a" * 10_000 for _ in range(50))
    answer = served.client.post("/api/score", content=stream, headers={"content-type": "application/json"})
    assert answer.status_code == 413
    error(answer)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example:80"}, 421),
        ({"host": "192.168.0.9"}, 421),
        ({"host": ""}, 421),
        ({"host": "localhost"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({}, 200),
    ],
)
def test_strangers_are_refused(served: Served, headers: dict[str, str], code: int) -> None:
    sent = {"content-type": "application/json", **headers}
    answer = served.client.post("/api/score", content=json.dumps(GOOD), headers=sent)
    assert answer.status_code == code
    if code != 200:
        error(answer)


def test_an_address_of_ones_choice_lets_numbers_in_but_no_foreign_names() -> None:
    assert server.own_host("192.168.0.9:8765", "0.0.0.0")
    assert server.own_host("box.lan:8765", "box.lan")
    assert server.own_host("[::1]:8765", "127.0.0.1")
    assert not server.own_host("evil.example", "0.0.0.0")
    assert not server.own_host("192.168.0.9", "127.0.0.1")


@pytest.mark.parametrize(("method", "path", "code"), [("GET", "/nothing", 404), ("GET", "/api/score", 405)])
def test_other_addresses(served: Served, method: str, path: str, code: int) -> None:
    for place in (path, path + "/../../etc/passwd"):
        answer = served.client.request(method, place)
        assert answer.status_code in (code, 404)
        error(answer)


def test_every_answer_shuts_the_page_in(served: Served) -> None:
    for answer in (served.client.get("/"), served.client.get("/nothing"), served.post("/api/grow", source="", run=0)):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'sha256-")
        assert "frame-ancestors 'none'" in policy
        assert "connect-src 'self'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "server" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers


def test_a_run_that_is_not_there(served: Served) -> None:
    assert error(served.post("/api/grow", source=SOURCE, run=2)) == "run: there is no run 2, they are 0 to 1."
    assert error(served.post("/api/grow", source=SOURCE, run=-1)).startswith("run: ")


def test_a_failure_of_our_own_tells_nothing(shown: Any, examiners: list[inspection.Examiner]) -> None:
    desk = server.Desk(examiners, shown.prepared)
    desk.about = lambda: 1 / 0  # type: ignore[assignment, return-value]
    broken = Served(desk)
    answer = broken.client.get("/api/runs")
    broken.close()
    assert answer.status_code == 500
    assert error(answer) == "The server failed; its terminal says why."
    assert "content-security-policy" in answer.headers


def test_a_port_that_is_taken_is_said(shown: Any, examiners: list[inspection.Examiner]) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(UserError, match="choose another --host or --port"),
    ):
        server.serve(server.Desk(examiners, shown.prepared), "127.0.0.1", taken.getsockname()[1], print)


# --- the browser -----------------------------------------------------------------------------------------------------


def test_a_sentence_is_typed_and_a_token_changed(
    served: Served, shown: Any, examiners: Any, tab: Callable[..., Any]
) -> None:
    seen = tab(f"http://{served.host}/").page
    assert "Type a sentence" in seen.inner_text("#subject")
    seen.fill("#source", SOURCE)
    seen.fill("#reference", REFERENCE)
    seen.click("#go")
    seen.wait_for_selector("#curve svg")
    grown = [json.loads(x)["word"] for x in served.post("/api/grow", source=SOURCE, run=0).text.splitlines()][:-1]
    assert seen.locator("[data-run='0']").all_text_contents() == [*grown, "end"]
    seen.locator("[data-run='0'][data-token='1']").click()
    seen.fill("#word", "dog")
    seen.keyboard.press("Enter")
    seen.wait_for_selector("text=edited")
    changed = [grown[0], "dog", *grown[2:]]
    assert seen.locator("[data-run='0']").all_text_contents() == [*changed, "end"]
    batch, texts = inspection.typed_batch(examiners[0], shown.prepared, SOURCE, [REFERENCE])
    (credit,) = inspection.judge_words(examiners[0], shown.prepared, batch, [changed], [texts])
    for name in ("q", "td", "rewards", "advantage"):
        number = float(seen.locator(f"[data-fact='{name}'] dd").inner_text().replace("−", "-"))
        assert number == pytest.approx(getattr(credit, name)[1], abs=6e-3)
    assert seen.locator("#curve .before").count() == 1
    listed = seen.locator("[data-list='policy'] button.word").nth(1)
    wanted = listed.inner_text()
    listed.click()
    expect(seen.locator("[data-run='0'][data-token='1']")).to_have_text(wanted)
    seen.get_by_text("Remove", exact=True).click()
    expect(seen.locator("[data-run='0']")).to_have_count(len(changed))
    rest = served.post("/api/grow", source=SOURCE, run=0, prefix=[grown[0], *grown[2:3]]).text.splitlines()
    seen.get_by_text("Go on from here").click()
    expect(seen.locator("[data-run='0']")).to_have_count(len(rest) + 2)


def test_the_live_page_shows_errors_and_hostile_text_as_text(served: Served, tab: Callable[..., Any]) -> None:
    opened = tab(f"http://{served.host}/", 400)
    seen = opened.page
    seen.click("#go")
    assert seen.inner_text("#progress") == "Type a sentence first."
    seen.fill("#source", HOSTILE)
    seen.fill("#reference", HOSTILE)
    seen.click("#go")
    seen.wait_for_selector("#curve svg")
    assert seen.inner_text("dd.source") == HOSTILE
    seen.locator("[data-run='1'][data-token='0']").click()
    seen.fill("#word", HOSTILE.split()[0])
    seen.keyboard.press("Enter")
    seen.wait_for_selector("text=edited")
    assert seen.evaluate("window.hacked") is None
    assert seen.evaluate("document.documentElement.scrollWidth") <= 400
    seen.fill("#source", "a " * 250)
    seen.click("#go")
    expect(seen.locator("#progress")).to_contain_text("at most 200 words")
    assert any("422" in said for said in opened.complaints)  # the browser's own note about the status
    opened.complaints.clear()


# --- photographs -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def captions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("captions")
    examples = {split: [example for example, _ in shapes(split, 20)] for split in ("train", "valid")}
    names = [example.source for group in examples.values() for example in group]
    seen = Features(names, np.random.default_rng(0).normal(size=(len(names), 1280)).astype(np.float16))
    prepare(examples, place / "data", PrepareOptions(tokenized=True), False, seen)
    prepared = Prepared.open(place / "data")
    model, judge = config.Model(8, 8, attention="none"), config.Model(8, 8, attention="mlp", dropout=0.0)
    phase = config.ActorCritic("actor_critic", 0.1, tau=0.3)
    recipe = config.Recipe("AC", (phase,), actor=model, critic=judge, longest_output=12)
    run = Run.create(place / "run", "", recipe, prepared.folder, prepared.checksums)
    states = {"actor": build_actor(recipe, prepared), "critic": build_critic(recipe, prepared)}
    run.save_weights(phase.name, {f"{n}.{k}": 4 * t for n, net in states.items() for k, t in net.state_dict().items()})
    examiners = inspection.load_examiners([run], prepared)
    started = Served(server.Desk(examiners, prepared, load_backbone("efficientnet-lite2")))
    yield started
    started.close()


def photograph() -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(1).integers(0, 255, (60, 80, 3)).astype(np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def bomb() -> bytes:
    """A PNG of a few bytes that says it has 60,000 x 60,000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 1000))
        + chunk(b"IEND", b"")
    )


@pytest.mark.slow
def test_a_photograph_is_described_and_judged(captions: Served, tab: Callable[..., Any], tmp_path: Path) -> None:
    picture = base64.b64encode(photograph()).decode()
    lines = captions.post("/api/grow", picture=picture, run=0).text.splitlines()
    said = [json.loads(line)["word"] for line in lines][:-1]
    (tmp_path / "photo.png").write_bytes(photograph())
    seen = tab(f"http://{captions.host}/").page
    seen.set_input_files("#file", tmp_path / "photo.png")
    seen.wait_for_selector("#drop img")
    references = ["a small red circle is above a large blue square", "a red circle"]
    seen.fill("#reference", "\n".join(references))
    seen.click("#go")
    seen.wait_for_selector("#curve svg")
    assert seen.locator("#subject dd").all_text_contents()[1:] == references
    assert seen.locator("[data-run='0']").all_text_contents() == [*said, "end"]
    assert seen.locator("dd.source img").evaluate("i => i.naturalWidth") == 80
    seen.locator("[data-run='0'][data-token='0']").click()
    seen.get_by_text("Remove", exact=True).click()
    seen.wait_for_selector("text=edited")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("picture", "sentence"),
    [
        ("/etc/passwd", "picture: this is no"),
        ("../../secret.png", "picture: this is not base64."),
        ("http://localhost/a.png", "picture: this is not base64."),
        (base64.b64encode(b"no picture").decode(), "picture: this is no JPEG or PNG"),
        (base64.b64encode(b"GIF89a" + bytes(50)).decode(), "picture: this is no JPEG or PNG"),
        (base64.b64encode(photograph()[:200]).decode(), "picture: this is no JPEG or PNG"),
        (base64.b64encode(bomb()).decode(), "picture: "),
        (7, "picture: input should be a valid string"),
        (None, "These runs describe pictures"),
        ("A" * 8_000_008, "picture: string should have at most"),
    ],
)
def test_bad_photographs_are_refused(captions: Served, picture: Any, sentence: str) -> None:
    answer = captions.post("/api/grow", picture=picture, run=0)
    assert answer.status_code == 422
    assert error(answer).startswith(sentence)


def test_a_photograph_is_measured_before_it_is_unpacked() -> None:
    with pytest.raises(UserError, match=r"^picture: "):
        server.open_picture(bomb())
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("1", (6_000, 5_000)).save(buffer, "PNG")
    with pytest.raises(UserError, match="6000 x 5000 pixels are more than 25,000,000"):
        server.open_picture(buffer.getvalue())
