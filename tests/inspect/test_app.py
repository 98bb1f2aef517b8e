"""The live page: what it answers, what it refuses, and what a reader does with it in a browser."""

import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.sync_api import expect
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from seqcredit.errors import UserError
from seqcredit.inspect import app as server
from seqcredit.inspect.desk import Desk
from seqcredit.inspect.examiners import Examiner
from seqcredit.inspect.subjects import judge_words, typed_batch
from serving import REFERENCE, SOURCE, Served, error

FIELDS = st.sampled_from(["source", "picture", "references", "hypotheses", "run", "prefix", "more"])
WORD = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(["dog", "hund", ".", SOURCE])
VALUES = (
    st.none() | st.integers(-1, 2**70) | st.booleans() | WORD | st.lists(WORD | st.lists(WORD, max_size=3), max_size=3)
)
HOSTILE = "<img src=x onerror=window.hacked=1> </script><script>window.hacked=1</script>"


@pytest.fixture(scope="module")
def served(shown: Any, examiners: list[Examiner]) -> Iterator[Served]:
    started = Served(Desk(examiners[:2]))
    yield started
    started.close()


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


def test_a_failure_of_our_own_tells_nothing(shown: Any, examiners: list[Examiner]) -> None:
    desk = Desk(examiners)
    desk.about = lambda: 1 / 0  # type: ignore[assignment, return-value]
    broken = Served(desk)
    answer = broken.client.get("/api/runs")
    broken.close()
    assert answer.status_code == 500
    assert error(answer) == "The server failed; its terminal says why."
    assert "content-security-policy" in answer.headers


def test_a_port_that_is_taken_is_said(shown: Any, examiners: list[Examiner]) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(UserError, match="choose another --host or --port"),
    ):
        server.serve(Desk(examiners), "127.0.0.1", taken.getsockname()[1], print)


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
    batch, texts = typed_batch(examiners[0], SOURCE, [REFERENCE])
    (credit,) = judge_words(examiners[0], batch, [changed], [texts])
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


# --- many, large, slow -----------------------------------------------------------------------------------------------


def test_twenty_megabytes_are_refused_before_they_are_read(served: Served) -> None:
    headers = {"content-type": "application/json"}
    answer = served.client.post("/api/score", content=b'"' + b"a" * 20_000_000 + b'"', headers=headers)
    assert answer.status_code == 413
    assert error(answer) == "A request has at most 64,000 bytes."


def test_slow_clients_keep_nobody_waiting(served: Served) -> None:
    """Ten that have sent half a request, and one that asks."""
    host, port = served.host.split(":")
    lines = [
        "POST /api/score HTTP/1.1",
        f"Host: {served.host}",
        "Content-Type: application/json",
        "Content-Length: 900",
    ]
    half = "\r\n".join([*lines, "", "{"])
    slow = [socket.create_connection((host, int(port))) for _ in range(10)]
    for one in slow:
        one.sendall(half.encode())
    assert served.post("/api/score", **GOOD).status_code == 200
    for one in slow:
        one.close()
    assert served.client.get("/api/runs").status_code == 200


def test_two_hundred_at_once_are_all_answered(served: Served) -> None:
    def ask(number: int) -> int:
        path = "/api/runs" if number % 2 else "/nothing"
        return httpx.get(f"http://{served.host}{path}", timeout=60).status_code

    with ThreadPoolExecutor(200) as asking:
        codes = list(asking.map(ask, range(200)))
    assert codes == [404, 200] * 100


def test_whatever_the_schema_allows_there_is_an_answer_of_its_kind(served: Served) -> None:
    """Bodies of known words and of anything: schemathesis hardly ever makes up one that can be scored."""

    @settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(["/api/score", "/api/grow"]), st.dictionaries(FIELDS, VALUES, max_size=5))
    def ask(path: str, body: dict[str, object]) -> None:
        answer = served.client.post(path, json=body)
        assert answer.status_code in (200, 422)
        if answer.status_code == 422:
            error(answer)

    ask()


def test_the_api_keeps_to_its_own_document(served: Served) -> None:
    """Bodies that the OpenAPI document allows and forbids: the status, type and fields of every answer are in it.

    A body that it allows may still be refused: it cannot say how many runs there are.
    """
    document = schemathesis.openapi.from_dict(served.app.openapi())
    asking = [document[path]["POST"] for path in ("/api/grow", "/api/score")]
    cases = [one.as_strategy(generation_mode=mode) for one in asking for mode in GenerationMode]
    cases += [document[path]["GET"].as_strategy() for path in ("/", "/api/runs")]

    @settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.one_of(cases))
    def ask(case: schemathesis.Case) -> None:
        answer = case.call(base_url=f"http://{served.host}")
        case.validate_response(answer, excluded_checks=[positive_data_acceptance])
        if answer.status_code >= 400:
            kind = answer.headers["content-type"][0]
            error(httpx.Response(answer.status_code, headers={"content-type": kind}, content=answer.content))

    ask()
