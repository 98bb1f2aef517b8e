"""What the live page is answered: translations that grow, credit of what was changed, photographs."""

import base64
import io
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqcredit import algorithms
from seqcredit.data.batches import from_sentences
from seqcredit.data.images import Features, load_backbone
from seqcredit.data.manifest import PrepareOptions
from seqcredit.data.prepare import prepare
from seqcredit.data.prepared import Prepared
from seqcredit.data.shapes import shapes
from seqcredit.errors import UserError
from seqcredit.experiments import recipe as recipes
from seqcredit.experiments.build import build_actor, build_critic, load_actor
from seqcredit.experiments.runs import Run
from seqcredit.inspect import desk
from seqcredit.inspect.desk import Desk, open_picture
from seqcredit.inspect.examiners import Examiner, load_examiners
from seqcredit.inspect.subjects import judge_words, typed_batch
from seqcredit.models.build import LSTM
from seqcredit.rewards.metrics import sentence_bleu
from seqcredit.search import greedy
from serving import REFERENCE, SOURCE, Served, error


@pytest.fixture(scope="module")
def served(shown: Any, examiners: list[Examiner]) -> Iterator[Served]:
    started = Served(Desk(examiners[:2]))
    yield started
    started.close()


def test_a_translation_grows_as_greedy_search_writes_it(served: Served, shown: Any) -> None:
    words = shown.prepared.target_vocabulary.words
    for run, folder in enumerate((shown.mle, shown.erac)):
        actor = load_actor(folder, shown.prepared)
        memory = actor.encode(from_sentences([SOURCE.split()], shown.prepared).source)
        tokens = greedy(actor, memory, 13)[0].tolist()
        lines = [json.loads(line) for line in served.post("/api/grow", source=SOURCE, run=run).text.splitlines()]
        assert [line["word"] for line in lines if not line["end"]] == [words[i] for i in tokens if i]
        with torch.no_grad():
            logp = torch.log_softmax(actor.score(memory, torch.tensor([tokens])).table(), -1)[0]
        assert lines[0]["p"] == pytest.approx(float(logp[0, tokens[0]].exp()), abs=1e-5)
        assert lines[-1]["end"]
        assert len(lines) <= 13


def test_growth_goes_on_from_a_prefix(served: Served, shown: Any) -> None:
    whole = [json.loads(x)["word"] for x in served.post("/api/grow", source=SOURCE, run=1).text.splitlines()]
    rest = served.post("/api/grow", source=SOURCE, run=1, prefix=whole[:2]).text.splitlines()
    assert [json.loads(line)["word"] for line in rest] == whole[2:]


def test_scores_are_those_of_the_page(served: Served, shown: Any, examiners: list[Examiner]) -> None:
    hypotheses = [["the", "dog", "sings"], ["the", "old", "unheard", "dog", "."]]
    answer = served.post("/api/score", source=SOURCE, references=[REFERENCE], hypotheses=hypotheses).json()
    batch, texts = typed_batch(examiners[0], SOURCE, [REFERENCE])
    for judge, words, found in zip(examiners[:2], hypotheses, answer["subject"]["credits"], strict=True):
        (credit,) = judge_words(judge, batch, [words], [texts])
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


def test_a_run_that_is_not_there(served: Served) -> None:
    assert error(served.post("/api/grow", source=SOURCE, run=2)) == "run: there is no run 2, they are 0 to 1."
    assert error(served.post("/api/grow", source=SOURCE, run=-1)).startswith("run: ")


@pytest.fixture(scope="module")
def captions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("captions")
    examples = {split: [example for example, _ in shapes(split, 20)] for split in ("train", "valid")}
    names = [example.source for group in examples.values() for example in group]
    seen = Features(names, np.random.default_rng(0).normal(size=(len(names), 1280)).astype(np.float16))
    prepare(examples, place / "data", PrepareOptions(tokenized=True), False, seen)
    prepared = Prepared.open(place / "data")
    model, judge = LSTM(8, 8, attention="none"), LSTM(8, 8, attention="mlp", dropout=0.0)
    phase = algorithms.ActorCritic("actor_critic", 0.1, tau=0.3)
    recipe = recipes.Recipe("AC", (phase,), actor=model, critic=judge, longest_output=12)
    run = Run.create(place / "run", "", recipe, prepared.folder, prepared.checksums)
    states = {"actor": build_actor(recipe, prepared), "critic": build_critic(recipe, prepared)}
    run.save_weights(phase.name, {f"{n}.{k}": 4 * t for n, net in states.items() for k, t in net.state_dict().items()})
    examiners = load_examiners([run], prepared)
    started = Served(Desk(examiners, load_backbone("efficientnet-lite2")))
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
        open_picture(bomb())
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("1", (6_000, 5_000)).save(buffer, "PNG")
    with pytest.raises(UserError, match="6000 x 5000 pixels are more than 25,000,000"):
        open_picture(buffer.getvalue())


def test_a_picture_may_have_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "PICTURE", 4)
    assert desk._decoded(base64.b64encode(b"four").decode()) == b"four"
    with pytest.raises(UserError, match="picture: at most 4 bytes can be read"):
        desk._decoded(base64.b64encode(b"fiver").decode())
