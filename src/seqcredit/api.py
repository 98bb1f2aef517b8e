"""The Python front door: `train` takes a model, data, a reward and an algorithm, and gives a trained model back."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from seqcredit.algorithms import Phase
from seqcredit.data.examples import Row, Tokenizer, examples
from seqcredit.data.prepare import prepare
from seqcredit.data.prepared import Prepared, PrepareOptions
from seqcredit.data.text import Example
from seqcredit.errors import UserError, require
from seqcredit.experiments.build import task_of
from seqcredit.experiments.presets import MLE, Plan
from seqcredit.experiments.recipe import Recipe, resolved
from seqcredit.experiments.runs import Run, about_of
from seqcredit.experiments.start import open_data
from seqcredit.models.build import LSTM
from seqcredit.results import evaluate
from seqcredit.rewards import Custom
from seqcredit.rewards.payoff import Payoff
from seqcredit.trained import Model, Scorer, Trained, is_own, judge, own_actor, word_for
from seqcredit.training.status import Reporting
from seqcredit.training.trainer import Trainer
from seqcredit.training.weights import INITIAL
from seqcredit.types import Reward

Data = Iterable[Row] | Path | str  # rows in memory, or a folder that `seqcredit prepare` made

HELD_OUT = 20  # every so many examples are for validation, where none are given
MOST_HELD_OUT = 1_000
COPY = 64  # width of a word's code in a critic


def train(
    model: Model | Trained,
    data: Data,
    *,
    valid: Iterable[Row] | None = None,
    test: Iterable[Row] | None = None,
    reward: str | Payoff | Reward | Scorer = "bleu",
    algorithm: Plan | Phase | Sequence[Phase] | None = None,
    metric: str | Scorer = "bleu",
    critic: LSTM | None = None,
    tokenizer: Tokenizer = str.split,
    min_count: int = 1,
    out: Path | str | None = None,
    seed: int = 1,
    longest_output: int = 100,
    device: torch.device | str = "cpu",
    say: Callable[[str], None] | None = print,
) -> Trained:
    """Train a model on examples, by an algorithm that follows a reward.

    `model`: `LSTM(...)`, or what `train` or `load` gave: then training starts from its weights; or a module of your own
    whose `forward(source, tokens)` scores the next token, or a function of two vocabulary sizes that makes one.
    `data`, `valid`, `test`: rows in memory, see `Row`, or a prepared folder. Without `valid` every 20th example is held
    out. `reward`: a name ("bleu", "rouge-l", "edit", ...), one of `seqcredit.rewards`, or a function of a text and its
    references; it is asked about every prefix. `algorithm`: `ERAC()`, `AC()`, `RAML()`, `VAML()`, `MLE()` (default), or
    phases. `metric`: what the best weights are kept by. `out`: the run folder; given again, the run is resumed.

    >>> pairs = [("1 2 3", "one two three"), ("3 1", "three one"), ("2", "two")] * 20
    >>> trained = train(LSTM(hidden=16, embedding=16), pairs, algorithm=MLE(epochs=2), say=None)
    >>> isinstance(trained.translate("1 2"), str)
    True
    """
    plan = MLE() if algorithm is None else algorithm
    phases = plan.phases(isinstance(model, Trained)) if isinstance(plan, Plan) else _listed(plan)
    options = model.run.recipe.actor if isinstance(model, Trained) else model if isinstance(model, LSTM) else LSTM()
    like_it = LSTM(options.embedding, options.hidden, attention="mlp", dropout=0.0, copy=COPY, dueling=True)
    recipe = Recipe(
        "model" if out is None else Path(out).name,
        phases,
        seed=seed,
        metric=word_for(metric),
        payoff=reward if isinstance(reward, Payoff) else Payoff(metric=word_for(reward)),
        actor=options,
        critic=critic or like_it,  # as wide as the actor, if that is an LSTM: it copies, and starts at 0
        beam=1,
        longest_output=longest_output,
        on_divergence="record",
    )
    for phase in phases:
        problem = phase.check(recipe.payoff)
        if problem:
            raise UserError(f"{phase.name}: {problem}")
    folder = Path(tempfile.mkdtemp(prefix="seqcredit-")) / "run" if out is None else Path(out)
    run, prepared = _open(folder, recipe, model, _Given(data, valid, test, tokenizer, min_count), say)
    judged = None if isinstance(metric, str) else judge(metric)
    task = task_of(recipe, prepared, None, _reward(reward, prepared), judged)
    own = own_actor(model, prepared)
    if own is not None:
        task.networks["actor"] = own
    trainer = Trainer(task, run.folder, Reporting(say or _silent), device)
    trainer.train()
    actor = task.networks["actor"].eval()
    if "test" in prepared.manifest.splits and run.trains_an_actor():
        (say or _silent)(evaluate.conclude(run, prepared, actor, task.metric, trainer.status.diverged, device))
    return Trained(run, prepared, actor, task.metric, tokenizer)


class _Given(NamedTuple):
    """Data as they came."""

    data: Data
    valid: Iterable[Row] | None
    test: Iterable[Row] | None
    tokenizer: Tokenizer
    min_count: int


def _open(
    folder: Path, recipe: Recipe, model: Model | Trained, given: _Given, say: Callable[[str], None] | None
) -> tuple[Run, Prepared]:
    """The run folder with its data: a new one, or the one that is there, if it is of the same recipe."""
    if (folder / "run.json").exists():
        settings = folder / "resolved.toml"
        if not settings.exists() or settings.read_bytes() != resolved(recipe).encode():
            raise UserError(f"{folder} is a run with other settings: choose another `out`, or remove it.")
        run = Run(folder, recipe, about_of(folder))
        return run, open_data(run.data, run.about["vocabularies"])
    if isinstance(given.data, Path | str):
        prepared = Prepared.open(Path(given.data))
        return _create(folder, recipe, model, prepared, prepared.folder), prepared
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".data-") as place:
        old = model.prepared if isinstance(model, Trained) else None
        known = (old.source_vocabulary, old.target_vocabulary) if old else None
        options = PrepareOptions(tokenized=True, min_count=given.min_count)
        prepare(_splits(given, say), Path(place) / "data", options, vocabularies=known)
        run = _create(folder, recipe, model, Prepared.open(Path(place) / "data"), folder / "data")
    return run, Prepared.open(run.data)


def _create(folder: Path, recipe: Recipe, model: Model | Trained, prepared: Prepared, data: Path) -> Run:
    """A new run folder, with its data if they are its own, and the weights to start from."""

    def begin(run: Run) -> None:
        if prepared.folder != data:
            shutil.copytree(prepared.folder, run.folder / "data")
        if isinstance(model, Trained):
            tensors = {f"actor.{key}": tensor for key, tensor in model.actor.state_dict().items()}
            run.save_weights(INITIAL, tensors)

    text = resolved(recipe)
    return Run.create(folder, text, recipe, data, prepared.checksums, _beside(recipe), begin, is_own(model))


def _splits(given: _Given, say: Callable[[str], None] | None) -> Mapping[str, Iterable[Example]]:
    """Examples by split; some of the data are held out where nothing is given for validation."""
    assert not isinstance(given.data, Path | str)
    train = list(examples(given.data, given.tokenizer))
    if given.valid is not None:
        valid = list(examples(given.valid, given.tokenizer, "valid"))
    else:
        valid = train[::HELD_OUT][:MOST_HELD_OUT]
        kept = len(valid) * HELD_OUT
        train = [row for number, row in enumerate(train) if number % HELD_OUT or number >= kept]
        (say or _silent)(f"{len(valid):,} of {len(train) + len(valid):,} examples are held out for validation")
    require(train, "There are no examples to train on: give `data` more rows.")
    tests = {} if given.test is None else {"test": list(examples(given.test, given.tokenizer, "test"))}
    return {"train": train, "valid": valid, **tests}


def _listed(algorithm: Phase | Sequence[Phase]) -> tuple[Phase, ...]:
    phases = (algorithm,) if isinstance(algorithm, Phase) else tuple(algorithm)
    if not phases or not all(isinstance(phase, Phase) for phase in phases):
        raise UserError(f"algorithm is {algorithm!r}: give ERAC(), MLE() or another of them, a phase, or some phases.")
    return phases


# Rewards and metrics: by name in the recipe where they have one, else as given.


def _reward(reward: str | Payoff | Reward | Scorer, prepared: Prepared) -> Reward | None:
    """The reward itself, where the recipe has no name for it."""
    if isinstance(reward, str | Payoff):
        return None
    if isinstance(reward, Reward):
        return reward
    return Custom(reward, prepared.target_vocabulary.words, text=True, name="reward")


def _beside(recipe: Recipe) -> Path | None:
    """The folder of the file that a recipe's reward or metric is in."""
    words = [word for word in (recipe.payoff.metric, recipe.metric) if ":" in word]
    file = getattr(sys.modules.get(words[0].partition(":")[0]), "__file__", None) if words else None
    return Path(file).parent if file else None


def _silent(_: str) -> None:
    """Nothing is shown."""
