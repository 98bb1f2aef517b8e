"""Cells to make tables and figures from: real files as `seqcredit record` writes them, of made-up hypotheses."""

import contextlib
import gzip
import json
import random
import tomllib
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import pytest
import sacrebleu
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest, Result

from seqcredit.cli import main
from seqcredit.data.manifest import PrepareOptions
from seqcredit.data.phrases import phrases
from seqcredit.data.prepare import prepare
from seqcredit.data.prepared import Prepared
from seqcredit.experiments.build import task_of
from seqcredit.experiments.recipe import RECIPES, load, parse, resolved
from seqcredit.experiments.runs import Run
from seqcredit.results import evaluate
from seqcredit.training.status import Reporting, StoppedError
from seqcredit.training.trainer import Trainer

TINY = """
name = "tiny"
beam = 2
longest_output = 15
[actor]
embedding = 32
hidden = 32
[critic]
embedding = 32
hidden = 32
[[phase]]
objective = "mle"
optimizer = "adam"
learning_rate = 0.03
batch_size = 10
epochs = 6
[[phase]]
objective = "critic"
optimizer = "adam"
learning_rate = 0.01
batch_size = 10
epochs = 1
tau = 0.05
[[phase]]
objective = "actor_critic"
optimizer = "adam"
learning_rate = 0.001
batch_size = 10
epochs = 2
tau = 0.05
"""
Texts = Sequence[Sequence[Sequence[str]]]  # references by sentence
ROOT = Path(__file__).parents[1]
ERAC, MLE = (RECIPES / "tatoeba" / f"{name}.toml" for name in ("erac", "mle"))


def by_sacrebleu(
    baseline: Sequence[Sequence[str]], system: Sequence[Sequence[str]], wanted: Texts
) -> tuple[float, str]:
    """p and signature of sacreBLEU's own paired bootstrap, of references by sentence."""
    lines: list[tuple[str, Sequence[str]]] = [
        (name, [" ".join(words) for words in said]) for name, said in (("one", baseline), ("other", system))
    ]
    streams = list(zip_longest(*([" ".join(words) for words in group] for group in wanted)))
    metric = BLEU(tokenize="none", force=True, references=streams)
    signatures, scores = PairedTest(lines, {"BLEU": metric}, None, test_type="bs", n_samples=1000)()
    found = scores["BLEU"][1]
    assert isinstance(found, Result)
    assert found.p_value is not None
    return found.p_value, str(signatures["BLEU"])


def make_data(folder: Path, test: int = 40) -> Prepared:
    sizes = {"train": 60, "valid": 20, "test": test}
    prepare({name: phrases(name, size) for name, size in sizes.items()}, folder, PrepareOptions(tokenized=True))
    return Prepared.open(folder)


def references(prepared: Prepared) -> list[list[str]]:
    return [group[0] for group in prepared.split("test").reference_texts()]


def spoilt(prepared: Prepared, share: float, seed: int) -> list[list[str]]:
    """The references with some of their words replaced."""
    chance = random.Random(seed)
    return [["xx" if chance.random() < share else word for word in words] for words in references(prepared)]


def bleu(hypotheses: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> float:
    """By sacreBLEU itself."""
    lines, streams = ([" ".join(words) for words in side] for side in (hypotheses, wanted))
    return sacrebleu.corpus_bleu(lines, [streams], tokenize="none", force=True).score


def write_counts(path: Path, hypotheses: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> None:
    """The counts beside a cell, by sacreBLEU: it has them in the same order."""
    lines, streams = ([" ".join(words) for words in side] for side in (hypotheses, wanted))
    metric = BLEU(tokenize="none", force=True, references=[streams])
    rows = metric._extract_corpus_statistics(lines, None)
    text = "".join(" ".join(str(int(number)) for number in row) + "\n" for row in rows)
    path.with_suffix(".counts.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def write_cell(
    path: Path,
    prepared: Prepared,
    recipe: str,
    hypotheses: Sequence[Sequence[str]],
    seed: int,
    overrides: Sequence[str] = (),
    toml: Path = ERAC,
    **figures: object,
) -> float:
    """A cell, its hypotheses and their counts; its BLEU."""
    settings = tomllib.loads(resolved(load(toml, overrides)))
    score = bleu(hypotheses, references(prepared))
    cell = {
        "recipe": recipe,
        "seed": seed,
        "split": "test",
        "bleu": round(score, 4),
        "bleu_signature": "nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:2.6.0",
        "sentences": len(hypotheses),
        "diverged": [],
        "validation": {"actor_critic": score + 1},
        "vocabularies": prepared.checksums,
        "settings": settings,
        "data": {"name": "phrases", "content": prepared.content, "examples": {"test": len(hypotheses)}},
        "against": {},
        **figures,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(cell))
    text = "".join(" ".join(words) + "\n" for words in hypotheses)
    path.with_suffix(".txt.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    write_counts(path, hypotheses, references(prepared))
    return score


def finish(run: Run, prepared: Prepared, hypotheses: Sequence[Sequence[str]], metric: str | None = None) -> Path:
    """As after training: figures and hypotheses of the test set, together."""
    known, sources = [[words] for words in references(prepared)], list(prepared.split("test").source_texts())
    figures = evaluate.scores(hypotheses, known, sources, evaluate.metric_of(run, prepared, metric))
    return evaluate.write_result(run, "test", {**figures, "search": {}}, hypotheses, [])


def train(folder: Path, prepared: Prepared, seed: int = 1, updates: int | None = None) -> Run:
    """A real run of three phases, 54 updates in all; it may be stopped before it is done."""
    recipe = parse({**tomllib.loads(TINY), "seed": seed}, "tiny")
    run = Run.create(folder, TINY, recipe, prepared.folder, prepared.checksums)
    trainer = Trainer(task_of(recipe, prepared), run.folder, Reporting(lambda _: None, log_every=2))
    if updates is not None:
        report, count = trainer._report, iter(range(1, updates + 1))

        def counted(lengths: Sequence[int]) -> None:
            report(lengths)
            trainer.stop = next(count) == updates

        trainer._report = counted  # type: ignore[method-assign]
    with contextlib.suppress(StoppedError):
        trainer.train()
    return run


def table_command(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[str, str]:
    """What `seqcredit table` prints, and what it complains of."""
    with pytest.raises(SystemExit) as done:
        main(["table", *map(str, words)])
    out, err = capsys.readouterr()
    assert (done.value.code == 0) == (not err.startswith("seqcredit: ")), err
    return out, err
