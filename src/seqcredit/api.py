"""The Python API: `train` takes a model, data, a reward and an algorithm, and returns a trained model."""

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from seqcredit.algorithms import Phase
from seqcredit.data.examples import Row, Tokenizer, examples, have_references, plain_examples, read_rows, rows_of
from seqcredit.data.manifest import PrepareOptions
from seqcredit.data.prepare import prepare
from seqcredit.data.prepared import Prepared
from seqcredit.data.text import Example
from seqcredit.data.tokenized import prepare_text
from seqcredit.errors import UserError, require
from seqcredit.experiments.build import mean_reward, task_of
from seqcredit.experiments.presets import MLE, Plan
from seqcredit.experiments.recipe import Recipe, resolved
from seqcredit.experiments.runs import Run, about_of, own_files
from seqcredit.experiments.start import open_data, open_device
from seqcredit.given import (
    AnyCritic,
    Model,
    actor_options,
    check_lengths,
    critic_options,
    first_weights,
    is_own,
    model_tokenizer,
    own_actor,
    without_references,
)
from seqcredit.models.build import HuggingFace, Networks
from seqcredit.named import word_of
from seqcredit.results import evaluate
from seqcredit.rewards.finished import read_by
from seqcredit.rewards.metrics import REWARD, Metric
from seqcredit.rewards.payoff import METRICS, Payoff, instance
from seqcredit.rewards.text import TextReward, wanted_by
from seqcredit.trained import Scorer, Trained, metric_for
from seqcredit.training.boards import ReportTo, check
from seqcredit.training.processes import Processes
from seqcredit.training.status import Reporting
from seqcredit.training.trainer import Trainer
from seqcredit.training.weights import INITIAL
from seqcredit.types import Reward

Data = Iterable[Row] | Path | str  # rows in memory, a .jsonl file, or a folder that `seqcredit prepare` made

HELD_OUT = 20  # every so many examples are for validation, where none are given
MOST_HELD_OUT = 1_000


def train(
    model: Model | Trained,
    data: Data,
    *,
    valid: Data | None = None,
    test: Data | None = None,
    reward: str | Payoff | Reward | Scorer = "bleu",
    algorithm: Plan | Phase | Sequence[Phase] | None = None,
    metric: str | Scorer | None = None,
    critic: AnyCritic = None,
    tokenizer: Tokenizer = str.split,
    min_count: int = 1,
    out: Path | str | None = None,
    seed: int = 1,
    longest_output: int = 100,
    device: torch.device | str = "cpu",
    shard: bool = False,
    report_to: ReportTo | None = None,
    say: Callable[[str], None] | None = print,
) -> Trained:
    """Train a model on examples with an algorithm and a reward, and return it as `Trained`.

    - `model`: `LSTM(...)` or `Transformer(...)`; a Hugging Face model, with its `tokenizer`; what `train` or `load`
      returned, to continue from its weights; or a module of your own whose `forward(source, tokens)` scores the next
      token, as a class or a function of the two vocabulary sizes, or built already.
    - `data`, `valid`, `test`: examples in memory (pairs or dicts), a .jsonl file, or a prepared folder. Without
      `valid`, every 20th example is held out.
    - `reward`: a name ("bleu", "rouge-l", "edit", ...), one of `seqcredit.rewards`, or a function of
      (text, references), (text, source) or (text, references, source). It is called for every prefix.
    - `algorithm`: `ERAC()`, `AC()`, `RAML()`, `VAML()`, ..., or a list of phases; `MLE()` if not given.
    - `metric`: decides which weights are best. If not given, BLEU, or the mean of a reward of your own.
    - `critic`: the options of a network, a Hugging Face model, or "shared": a head on the actor's own body, for half
      the memory. If not given, a network of the actor's kind, or an LSTM.
    - `out`: the run folder. The same call with the same folder resumes the run.
    - `shard`: under torchrun, each process keeps a part of every network instead of a copy.
    - `report_to`: copies the log to "tensorboard", "wandb" or "mlflow".

    >>> from seqcredit import LSTM
    >>> pairs = [("1 2 3", "one two three"), ("3 1", "three one"), ("2", "two")] * 20
    >>> trained = train(LSTM(hidden=16, embedding=16), pairs, algorithm=MLE(epochs=2), say=None)
    >>> isinstance(trained.translate("1 2"), str)
    True
    """
    device = open_device(device)
    check(report_to)
    actor = actor_options(model)
    others = [None if rows is None else _rows(rows) for rows in (valid, test)]
    given = _Given(_rows(data), others[0], others[1], tokenizer, min_count)
    known = not isinstance(actor, HuggingFace) or given.has_references()  # others cannot do without
    payoff = reward if isinstance(reward, Payoff) else Payoff(metric=_word(reward))
    ours = payoff.metric in METRICS
    if metric is None:
        metric = "bleu" if known and ours else REWARD
    if not known:
        none = "and these data have none"
        require(not ours, f"{payoff.metric} compares with references, {none}: give a reward of your own.")
        said = f"The reward is a function of (text, references), {none}: make it one of (text, source)."
        require(not _compares(reward), said)
    phases = _phases(algorithm, actor, isinstance(model, Trained))
    recipe = Recipe(
        "model" if out is None else Path(out).name,
        phases if known else without_references(phases, longest_output),
        seed=seed,
        metric=_word(metric),
        payoff=payoff,
        actor=actor,
        critic=critic_options(actor, critic, known),
        beam=1,
        longest_output=longest_output,
        on_divergence="record",
    )
    for phase in recipe.phase:
        problem = phase.check(recipe.payoff)
        if problem:
            raise UserError(f"{phase.name}: {problem}")
    processes = Processes.join(shard)
    require(out is not None or processes.size == 1, "Several processes share one run folder: give `out`.")
    say = say if say and processes.writes else _silent
    folder = Path(tempfile.mkdtemp(prefix="seqcredit-")) / "run" if out is None else Path(out)
    with processes.in_turn():
        run, prepared = _open(folder, recipe, (reward, metric), model, critic, given, say)
    own_reward = _reward(reward, prepared)
    task = task_of(recipe, prepared, None, own_reward, _judge(metric, own_reward, prepared))
    own = own_actor(model, prepared)
    if own is not None:
        task.networks["actor"] = own
    trainer = Trainer(task, run.folder, Reporting(say, report_to=report_to), device, processes)
    trainer.train()
    trained = task.networks["actor"].eval()
    if processes.writes and "test" in prepared.manifest.splits and run.trains_an_actor():
        say(evaluate.conclude(run, prepared, trained, task.metric, trainer.status.diverged, device))
    return Trained(run, prepared, trained, task.metric, tokenizer)


class _Given(NamedTuple):
    """Data as they came: rows, or a prepared folder."""

    data: list[Row] | Path
    valid: list[Row] | Path | None
    test: list[Row] | Path | None
    tokenizer: Tokenizer
    min_count: int

    def has_references(self) -> bool:
        """Whether there is something to compare with."""
        if isinstance(self.data, Path):
            return any(map(bool, Prepared.open(self.data, check=False).split("train").reference_texts()))
        there = have_references(self.data)
        for name, rows in (("valid", self.valid), ("test", self.test)):
            bare = there and isinstance(rows, list) and not have_references(rows, name)
            require(not bare, f"{name} has no references, and data has some: give {name} references, too.")
        return there


def _rows(data: Data) -> list[Row] | Path:
    """Rows, also those of a file; a prepared folder as it is."""
    if not isinstance(data, Path | str):
        return rows_of(data)
    return read_rows(Path(data)) if Path(data).suffix == ".jsonl" or Path(data).is_file() else Path(data)


def _open(
    folder: Path,
    recipe: Recipe,
    own: Sequence[object],
    model: Model | Trained,
    critic: AnyCritic,
    given: _Given,
    say: Callable[[str], None],
) -> tuple[Run, Prepared]:
    """The run folder with its data: a new one, or the one that is there, if it is of the same recipe."""
    if (folder / "run.json").exists():
        settings = folder / "resolved.toml"
        if not settings.exists() or settings.read_bytes() != resolved(recipe).encode():
            raise UserError(f"{folder} is a run with other settings: choose another `out`, or remove it.")
        run = Run(folder, recipe, about_of(folder))
        return run, open_data(run.data, run.about["vocabularies"])
    if isinstance(given.data, Path):
        prepared = Prepared.open(given.data)
        fits = (prepared.tokenizer is not None) == isinstance(recipe.actor, HuggingFace)
        kind = "by words" if prepared.tokenizer is None else "by a tokenizer of transformers"
        require(fits, f"{given.data} was prepared {kind}, which is not how this model reads: give rows.")
        return _create(folder, recipe, own, model, critic, prepared, prepared.folder), prepared
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".data-") as place:
        _prepare(model, given, Path(place) / "data", say)
        run = _create(folder, recipe, own, model, critic, Prepared.open(Path(place) / "data"), folder / "data")
    return run, Prepared.open(run.data)


def _prepare(model: Model | Trained, given: _Given, out: Path, say: Callable[[str], None]) -> None:
    """Rows as a prepared folder, in words or as a model's own tokenizer cuts them."""
    assert not isinstance(given.data, Path)
    tokenizer = model_tokenizer(model, given.tokenizer, given.data)
    if tokenizer is not None:
        prepare_text(_splits(given, lambda rows, name: plain_examples(rows, tokenizer, name), say), out, tokenizer)
        return
    old = model.prepared if isinstance(model, Trained) else None
    known = (old.source_vocabulary, old.target_vocabulary) if old else None
    options = PrepareOptions(tokenized=True, min_count=given.min_count)
    splits = _splits(given, lambda rows, name: examples(rows, given.tokenizer, name), say)
    prepare(splits, out, options, vocabularies=known)


def _create(
    folder: Path,
    recipe: Recipe,
    own: Sequence[object],
    model: Model | Trained,
    critic: AnyCritic,
    prepared: Prepared,
    data: Path,
) -> Run:
    """A new run folder, with its data if they are its own, files of the user's `own`, and the weights to start from."""

    check_lengths(recipe, prepared)

    def begin(run: Run) -> None:
        if prepared.folder != data:
            shutil.copytree(prepared.folder, run.folder / "data")
        tensors = first_weights(model, critic, recipe, prepared)
        if tensors:
            run.save_weights(INITIAL, tensors)

    text, files = resolved(recipe), own_files(recipe, None, own)
    return Run.create(folder, text, recipe, data, prepared.checksums, files, begin, is_own(model))


def _splits(
    given: _Given, made: Callable[[list[Row], str], Iterable[Example]], say: Callable[[str], None]
) -> Mapping[str, Iterable[Example]]:
    """Examples by split; some of the data are held out where nothing is given for validation."""
    parts = {name: getattr(given, name) for name in ("data", "valid", "test")}
    folders = [name for name, rows in parts.items() if isinstance(rows, Path)]
    require(not folders, f"{', '.join(folders)}: give rows, or a prepared folder for all splits as `data`.")
    found = {name: list(made(rows, name)) for name, rows in parts.items() if rows is not None}
    train = found.pop("data")
    if "valid" not in found:
        found["valid"] = train[::HELD_OUT][:MOST_HELD_OUT]
        kept = len(found["valid"]) * HELD_OUT
        train = [row for number, row in enumerate(train) if number % HELD_OUT or number >= kept]
        say(f"{len(found['valid']):,} of {len(train) + len(found['valid']):,} examples are held out for validation")
    require(train, "There are no examples to train on: give `data` more rows.")
    return {"train": train, **found}


def _phases(algorithm: Plan | Phase | Sequence[Phase] | None, actor: Networks, begun: bool) -> tuple[Phase, ...]:
    """Those of a plan, which goes on gently where a model is pretrained, or those that were given."""
    algorithm = MLE() if algorithm is None else algorithm
    if isinstance(algorithm, Plan):
        pretrained = isinstance(actor, HuggingFace)
        return (algorithm.gentle() if pretrained else algorithm).phases(begun or pretrained)
    phases = (algorithm,) if isinstance(algorithm, Phase) else algorithm if isinstance(algorithm, Sequence) else ()
    if not phases or not all(isinstance(phase, Phase) for phase in phases):
        raise UserError(f"algorithm is {algorithm!r}: give ERAC(), MLE() or another of them, a phase, or some phases.")
    return tuple(phases)


# Rewards and metrics: by name in the recipe where they have one, else as given.


def _reward(reward: str | Payoff | Reward | Scorer, prepared: Prepared) -> Reward | None:
    """The reward itself, where the recipe has no name for it."""
    if isinstance(reward, str | Payoff):
        return None
    made = instance(reward, "reward")
    if isinstance(made, Reward):
        return read_by(made, prepared.spell, prepared.spell_source)
    return TextReward(made, prepared.spell, prepared.spell_source, name="reward")


def _compares(reward: object) -> bool:
    """Whether it is a function that looks at references, and not at the source."""
    if isinstance(reward, str | Payoff | Reward):
        return isinstance(reward, TextReward) and reward.wants == "references"
    return callable(reward) and wanted_by(reward) == "references"


def _judge(metric: str | Scorer, reward: Reward | None, prepared: Prepared) -> Metric | None:
    """The metric itself, where the recipe has no name for it."""
    if metric == REWARD and reward is not None:
        return mean_reward(reward, prepared, "mean reward|python")
    return None if isinstance(metric, str) else metric_for(metric)


def _word(thing: object) -> str:
    """A name as it is, that of a function, or the word for what only Python knows."""
    return thing if isinstance(thing, str) else word_of(thing)


def _silent(_: str) -> None:
    """Nothing is shown."""
