"""A corpus, a recipe and two trained runs, made once through the command line; runs to look at; a browser."""

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import pytest

import needs
import starter
from cellar import make_data, train
from seqcredit.algorithms import ActorCritic, Mle, SoftQ
from seqcredit.data.manifest import PrepareOptions
from seqcredit.data.phrases import phrases
from seqcredit.data.prepare import prepare
from seqcredit.data.prepared import Prepared
from seqcredit.experiments.build import build_actor, build_critic
from seqcredit.experiments.recipe import Recipe
from seqcredit.experiments.runs import Run
from seqcredit.inspect.examiners import Examiner, load_examiners
from seqcredit.inspect.subjects import Subject, inspect_split
from seqcredit.models.build import LSTM
from seqcredit.results.evaluate import write_hypotheses
from seqcredit.rewards.payoff import Payoff
from starter import Done

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

RECIPE = """
name = "tiny"
beam = 2
longest_output = 20
[actor]
embedding = 16
hidden = 16
[[phase]]
objective = "mle"
optimizer = "adam"
learning_rate = 0.02
epochs = 2
"""
Scheme = Literal["light", "dark"]


@pytest.fixture(scope="session")
def run() -> Callable[..., Done]:
    return starter.run


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few hundred made-up sentences, prepared once."""
    folder = tmp_path_factory.mktemp("data") / "phrases"
    sizes = {"train": 240, "valid": 30, "test": 30}
    prepare({name: phrases(name, size) for name, size in sizes.items()}, folder, PrepareOptions(tokenized=True))
    return folder


@pytest.fixture(scope="session")
def prepared(data: Path) -> Prepared:
    return Prepared.open(data)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, run: Callable[..., Done]) -> Path:
    place = tmp_path_factory.mktemp("whole")
    for split, size in (("train", 300), ("valid", 20), ("test", 25)):
        examples = list(phrases(split, size))
        (place / f"{split}.de").write_text("".join(e.source + "\n" for e in examples))
        (place / f"{split}.en").write_text("".join(e.references[0] + "\n" for e in examples))
    files = [word for s in ("train", "valid", "test") for word in (f"--{s}", place / f"{s}.de", place / f"{s}.en")]
    done = run("prepare", place / "data", *files, "--tokenized")
    assert done.returncode == 0, done.stderr
    assert "train: 300 examples; dropped 0 empty and 0 long (0.0%)" in done.stdout
    (place / "recipe.toml").write_text(RECIPE)
    for seed in (1, 2):
        out = place / f"run{seed}"
        done = run("train", place / "recipe.toml", "--data", place / "data", "--out", out, "--seed", seed)
        assert done.returncode == 0, done.stderr
        assert "test BLEU" in done.stdout
    return place


class Tiny(NamedTuple):
    """Made-up data, a run of MLE, critic and ERAC that is done, and one that was stopped in its third phase."""

    prepared: Prepared
    done: Run
    stopped: Run


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    place = tmp_path_factory.mktemp("tiny")
    prepared = make_data(place / "data")
    return Tiny(prepared, train(place / "done", prepared), train(place / "stopped", prepared, 2, 47))


class Shown(NamedTuple):
    """Prepared phrases, and runs on them whose networks are made, not trained: every number is as good as another."""

    prepared: Prepared
    mle: Run
    erac: Run
    vaml: Run


def make_run(folder: Path, prepared: Prepared, recipe: Recipe, networks: tuple[str, ...]) -> Run:
    """A run with the weights of its first draw, enlarged so that the networks have opinions."""
    run = Run.create(folder, "", recipe, prepared.folder, prepared.checksums)
    build = {"actor": build_actor, "critic": build_critic}
    states = {name: build[name](recipe, prepared).state_dict() for name in networks}
    tensors = {f"{name}.{key}": 4 * tensor for name, state in states.items() for key, tensor in state.items()}
    run.save_weights(recipe.phase[-1].name, tensors)
    write_hypotheses(run, "test", [_changed(group[0], recipe) for group in prepared.split("test").reference_texts()])
    return run


def _changed(reference: list[str], recipe: Recipe) -> list[str]:
    """A reference with some words left out and some doubled, as long as the recipe allows at the most."""
    rng = random.Random(f"{recipe.name} {' '.join(reference)}")
    return [word for word in reference for _ in range(rng.choice((0, 1, 1, 1, 2)))][: recipe.longest_output]


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    place = tmp_path_factory.mktemp("shown")
    sizes = {"train": 300, "valid": 20, "test": 30}
    prepare({name: phrases(name, size) for name, size in sizes.items()}, place / "data", PrepareOptions(tokenized=True))
    prepared = Prepared.open(place / "data")
    small, judge = LSTM(8, 8), LSTM(8, 8, attention="mlp", dropout=0.0)
    made = partial(Recipe, actor=small, critic=judge, beam=2, longest_output=12)
    mle = made("MLE", (Mle("mle", 0.1),), seed=1)
    erac = made("ERAC", (ActorCritic("actor_critic", 0.1, tau=0.3),), seed=2)
    edit = Payoff(metric="edit")
    vaml = made("VAML", (SoftQ("soft_q", 0.1, tau=0.2, bound=20),), seed=3, payoff=edit)
    both = ("actor", "critic")
    return Shown(
        prepared,
        make_run(place / "mle", prepared, mle, ("actor",)),
        make_run(place / "erac", prepared, erac, both),
        make_run(place / "vaml", prepared, vaml, both),
    )


@pytest.fixture(scope="session")
def examiners(shown: Shown) -> list[Examiner]:
    return load_examiners([shown.mle, shown.erac, shown.vaml], shown.prepared, shown.erac)


@pytest.fixture(scope="session")
def subjects(shown: Shown, examiners: list[Examiner]) -> list[Subject]:
    return inspect_split(examiners, shown.prepared.split("test"))


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """Chromium without a window."""
    from playwright.sync_api import sync_playwright

    chromium = needs.chromium()
    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


class Tab(NamedTuple):
    """A page of the browser, and what its console has said."""

    page: "Page"
    complaints: list[str]


@pytest.fixture
def tab(browser: "Browser") -> Iterator[Callable[..., Tab]]:
    """Opens an address; at the end nothing may have been said on the console, and nothing may have crashed."""
    opened: list[Tab] = []

    def show(address: str, width: int = 1280, color_scheme: Scheme = "light") -> Tab:
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=color_scheme)
        complaints: list[str] = []
        page.set_default_timeout(60_000)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        page.wait_for_selector("html[data-ready]")
        opened.append(Tab(page, complaints))
        return opened[-1]

    yield show
    for one in opened:
        one.page.close()
        assert one.complaints == []
