"""The Python front door: `train` takes a model, data, a reward and an algorithm, and gives a trained model back."""

import copy
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from seqcredit.algorithms import Phase
from seqcredit.data.batches import from_sentences
from seqcredit.data.examples import Row, Tokenizer, examples
from seqcredit.data.prepare import prepare
from seqcredit.data.prepared import Prepared, PrepareOptions
from seqcredit.data.text import Example
from seqcredit.errors import UserError
from seqcredit.experiments.build import build_metric, load_actor, task_of
from seqcredit.experiments.presets import MLE, Plan
from seqcredit.experiments.recipe import Recipe, resolved
from seqcredit.experiments.runs import Run
from seqcredit.experiments.start import open_data
from seqcredit.models.build import LSTM
from seqcredit.models.policy import Network, Policy
from seqcredit.models.wrapped import Wrapped
from seqcredit.rewards import Custom, metrics
from seqcredit.rewards.metrics import Metric, corpus
from seqcredit.rewards.payoff import GIVEN, Payoff
from seqcredit.training.decoding import Search, translate
from seqcredit.training.trainer import Reporting, Trainer
from seqcredit.training.weights import INITIAL, of_network
from seqcredit.types import Reward

Data = Iterable[Row] | Path | str  # rows in memory, or a folder that `seqcredit prepare` made
Scorer = Callable[[str, list[str]], float]  # of a text, given its references
Model = LSTM | nn.Module | Callable[[int, int], nn.Module]  # a callable gets the sizes of both vocabularies

HELD_OUT = 20  # every so many examples are for validation, where none are given
MOST_HELD_OUT = 1_000


class Evaluation(NamedTuple):
    """A figure, how it was measured, and the outputs that it is of.

    >>> print(Evaluation("BLEU", 54.321, "nrefs:1", ["a text"]))
    BLEU 54.32 (nrefs:1)
    """

    metric: str
    value: float
    signature: str
    outputs: list[str]

    def __str__(self) -> str:
        return f"{self.metric} {self.value:.2f} ({self.signature})"


@dataclass(frozen=True)
class Trained:
    """A trained model: it translates, it can be evaluated, and `train` goes on from it.

    Its run folder is like every other: `seqcredit inspect`, `compare`, `watch` and the other commands take it.

    >>> trained = train(LSTM(hidden=8, embedding=8), [("a b", "b a")] * 40, algorithm=MLE(epochs=1), say=None)
    >>> len(trained.translate(["a", "b"]))
    2
    >>> trained.evaluate([("a b", "b a")], metric="exact").metric
    'exact match'
    """

    run: Run
    prepared: Prepared
    actor: Network
    metric: Metric
    tokenizer: Tokenizer = str.split

    @property
    def folder(self) -> Path:
        """Where the run is."""
        return self.run.folder

    def translate(self, source: str | Sequence[str], beam: int | None = None) -> str | list[str]:
        """The best output for a text, or for each of several; greedily unless a beam is given."""
        texts = [source] if isinstance(source, str) else list(source)
        if not all(isinstance(text, str) for text in texts):
            raise UserError(f"translate takes a text or a list of texts, not {source!r}.")
        found = self._outputs(texts, beam)
        return found[0] if isinstance(source, str) else found

    def evaluate(
        self, data: Iterable[Row] | str = "test", metric: str | Scorer | None = None, beam: int | None = None
    ) -> Evaluation:
        """A metric of outputs for rows in memory, or for a split of the data that the run was trained on."""
        judge = self.metric if metric is None else _judge(metric)
        if isinstance(data, str):
            split = self.prepared.split(data)
            sources, references = list(split.source_texts()), list(split.reference_texts())
        else:
            rows = list(examples(data, self.tokenizer))
            sources = [row.source.split() for row in rows]
            references = [[text.split() for text in row.references] for row in rows]
        outputs = self._outputs([" ".join(words) for words in sources], beam, cut=str.split)
        score = corpus(judge, [text.split() for text in outputs], references, sources)
        return Evaluation(judge.label, score.value, score.signature, outputs)

    @torch.no_grad()
    def _outputs(self, texts: Sequence[str], beam: int | None, cut: Tokenizer | None = None) -> list[str]:
        """Outputs for texts, a few at a time."""
        search = Search(beam or 1, self.run.recipe.longest_output + 1)
        words = [[str(word) for word in (cut or self.tokenizer)(text)] for text in texts]
        device, found = next(self.actor.parameters()).device, []
        for start in range(0, len(words), search.batch_size):
            batch = from_sentences(words[start : start + search.batch_size], self.prepared.source_vocabulary)
            found += translate(self.actor, self.prepared, batch.source.to(device), search)
        return [" ".join(output) for output in found]


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
    recipe = Recipe(
        "model" if out is None else Path(out).name,
        phases,
        seed=seed,
        metric=metric if isinstance(metric, str) else _word(metric),
        payoff=_payoff(reward),
        actor=model.run.recipe.actor if isinstance(model, Trained) else model if isinstance(model, LSTM) else LSTM(),
        critic=critic or _critic_like(model),
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
    task = task_of(
        recipe, prepared, None, _reward(reward, prepared), None if isinstance(metric, str) else _judge(metric)
    )
    own = _own_actor(model, prepared)
    if own is not None:
        task.networks["actor"] = own
    Trainer(task, run.folder, Reporting(say or _silent), device).train()
    return Trained(run, prepared, task.networks["actor"].eval(), task.metric, tokenizer)


def load(
    run: Path | str,
    model: nn.Module | Callable[[int, int], nn.Module] | None = None,
    tokenizer: Tokenizer = str.split,
    metric: str | Scorer | None = None,
    device: torch.device | str = "cpu",
) -> Trained:
    """The model of a run folder, however it was trained. One that was given to `train` as a module is given again.

    >>> load("runs/nowhere")
    Traceback (most recent call last):
    seqcredit.errors.UserError: runs/nowhere is not a run folder: it has no readable run.json.
    """
    opened = Run.open(Path(run))
    prepared = open_data(opened.data, opened.about["vocabularies"])
    own = None if model is None else _own_actor(model, prepared)
    if own is None:
        own = load_actor(opened, prepared, device)
    else:
        own.load_state_dict(of_network(opened.weights(), "actor"))
    judge = build_metric(opened.recipe, prepared, opened.folder) if metric is None else _judge(metric)
    return Trained(opened, prepared, own.to(device).eval(), judge, tokenizer)


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
        if (folder / "resolved.toml").read_text(encoding="utf-8") != resolved(recipe):
            raise UserError(f"{folder} is a run with other settings: choose another `out`, or remove it.")
        run = Run(folder, recipe, json.loads((folder / "run.json").read_text()))
        return run, open_data(run.data, run.about["vocabularies"])
    if isinstance(given.data, Path | str):
        prepared = Prepared.open(Path(given.data))
        return _create(folder, recipe, model, prepared, prepared.folder), prepared
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".data-") as place:
        known = (
            (model.prepared.source_vocabulary, model.prepared.target_vocabulary) if isinstance(model, Trained) else None
        )
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
    return Run.create(folder, text, recipe, data, prepared.checksums, _beside(recipe), begin)


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
    if not train:
        raise UserError("There are no examples to train on: give `data` more rows.")
    tests = {} if given.test is None else {"test": list(examples(given.test, given.tokenizer, "test"))}
    return {"train": train, "valid": valid, **tests}


def _listed(algorithm: Phase | Sequence[Phase]) -> tuple[Phase, ...]:
    phases = (algorithm,) if isinstance(algorithm, Phase) else tuple(algorithm)
    if not phases or not all(isinstance(phase, Phase) for phase in phases):
        raise UserError(f"algorithm is {algorithm!r}: give ERAC(), MLE() or another of them, a phase, or some phases.")
    return phases


def _critic_like(model: Model | Trained) -> LSTM:
    """A critic as wide as the actor, if that is an LSTM."""
    options = model.run.recipe.actor if isinstance(model, Trained) else model if isinstance(model, LSTM) else LSTM()
    return LSTM(options.embedding, options.hidden, attention="mlp", dropout=0.0)


def _own_actor(model: Model | Trained, prepared: Prepared) -> Network | None:
    """The actor that was given as a module; None where it is made from options."""
    if isinstance(model, Trained):
        plain = isinstance(model.actor, Wrapped) or "model" in model.run.about
        return copy.deepcopy(model.actor) if plain else None
    if isinstance(model, LSTM):
        return None
    sizes = (len(prepared.source_vocabulary), len(prepared.target_vocabulary))
    made = model if isinstance(model, nn.Module) else model(*sizes)
    if isinstance(made, Policy):
        return made
    if not isinstance(made, nn.Module):
        raise UserError(f"model made {made!r} of the vocabulary sizes {sizes}, but it must make a torch.nn.Module.")
    return Wrapped(made, sizes[1])


# Rewards and metrics: by name in the recipe where they have one, else as given.


def _payoff(reward: str | Payoff | Reward | Scorer) -> Payoff:
    if isinstance(reward, Payoff):
        return reward
    return Payoff(metric=reward if isinstance(reward, str) else _word(reward))


def _reward(reward: str | Payoff | Reward | Scorer, prepared: Prepared) -> Reward | None:
    """The reward itself, where the recipe has no name for it."""
    if isinstance(reward, str | Payoff):
        return None
    if isinstance(reward, Reward):
        return reward
    return Custom(reward, prepared.target_vocabulary.words, text=True, name="reward")


def _judge(metric: str | Scorer) -> Metric:
    return metrics.metric(metric) if isinstance(metric, str) else metrics.own(_word(metric), metric)


def _word(thing: object) -> str:
    """`module:name` of a function in a file of its own, else the word for what only Python knows."""
    module, name = getattr(thing, "__module__", "__main__"), getattr(thing, "__qualname__", "")
    known = module != "__main__" and name.isidentifier()
    return f"{module}:{name}" if known and getattr(sys.modules.get(module), name, None) is thing else GIVEN


def _beside(recipe: Recipe) -> Path | None:
    """The folder of the file that a recipe's reward or metric is in."""
    words = [word for word in (recipe.payoff.metric, recipe.metric) if ":" in word]
    file = getattr(sys.modules.get(words[0].partition(":")[0]), "__file__", None) if words else None
    return Path(file).parent if file else None


def _silent(_: str) -> None:
    """Nothing is shown."""
