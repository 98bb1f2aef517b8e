"""What training returns: a model with its run folder, to translate with, evaluate and train further."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from seqcredit.data.examples import Row, Tokenizer, examples, is_chat, plain_examples
from seqcredit.data.prepared import Prepared
from seqcredit.data.text import Example
from seqcredit.data.tokenizer import Messages
from seqcredit.errors import UserError
from seqcredit.experiments.build import build_metric, load_actor
from seqcredit.experiments.runs import Run
from seqcredit.experiments.start import open_data, open_device
from seqcredit.models.policy import Network, Policy
from seqcredit.models.wrapped import Wrapped
from seqcredit.named import GIVEN, word_of
from seqcredit.results.evaluate import metric_of, translate_all
from seqcredit.results.export import save_pretrained
from seqcredit.rewards import metrics
from seqcredit.rewards.metrics import REWARD, Metric, corpus
from seqcredit.search.sample import device_of
from seqcredit.training.decoding import Search
from seqcredit.training.weights import of_network
from seqcredit.types import Known

Scorer = Callable[[str, list[str]], float]  # of a text, given its references
Module = nn.Module | Callable[[int, int], nn.Module]  # a callable gets the sizes of both vocabularies


class Evaluation(NamedTuple):
    """A score, how it was measured, and the outputs that were scored.

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
    """A trained model: it can translate, be evaluated, and be trained further by `train`.

    Its run folder is like every other: `seqcredit inspect`, `compare`, `watch` and the other commands take it.

    >>> from seqcredit import LSTM, MLE, train
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

    def translate(self, source: str | Messages | Sequence[str | Messages], beam: int | None = None) -> str | list[str]:
        """The best output for a text or a chat, or for each of several, by greedy search unless a beam is given."""
        one = isinstance(source, str) or is_chat(source)
        given: list[object] = [source] if one else list(source)
        texts = [self._prompt(each) for each in given]
        found = self._outputs(texts, beam)
        return found[0] if one else found

    def evaluate(
        self, data: Iterable[Row] | str = "test", metric: str | Scorer | None = None, beam: int | None = None
    ) -> Evaluation:
        """The score of the outputs for examples in memory, or for a split of the data that the run was trained on."""
        used = self.metric if metric is None else self._judged_by(metric)
        if isinstance(data, str):
            split = self.prepared.split(data)
            sources, references = list(split.plain_sources()), list(split.reference_texts())
        else:
            rows = list(self._examples(data))
            sources = [row.source for row in rows]
            references = [Known([text.split() for text in row.references], row.source) for row in rows]
        outputs = self._outputs(sources, beam, cut=str.split)
        score = corpus(used, [text.split() for text in outputs], references)
        return Evaluation(used.label, score.value, score.signature, outputs)

    def save_pretrained(self, folder: Path | str, merged: bool = False) -> Path:
        """Write a folder that `from_pretrained` of transformers loads: weights, configuration, tokenizer, a model card.

        For a model with adapters it writes only these, for `PeftModel.from_pretrained(base, folder)` of peft; `merged`
        merges them into the weights and writes a whole model.
        """
        return save_pretrained(self.run, self.prepared, self.actor, Path(folder), merge=merged)

    def _judged_by(self, metric: str | Scorer) -> Metric:
        """A metric by its name, or a function; the mean reward is the one that it was trained with."""
        mine = metric == REWARD and self.metric.name == REWARD  # also where only Python knows the reward
        return self.metric if mine else metric_for(metric, self.run, self.prepared)

    def _prompt(self, source: object) -> str:
        """A text, or the messages of a chat, as the model's data have them."""
        tokenizer = self.prepared.tokenizer
        if isinstance(source, str):
            return source if tokenizer is None else tokenizer.prompt(source)
        if tokenizer is None or not is_chat(source):
            raise UserError(f"translate takes a text or a list of texts, not {source!r}.")
        return tokenizer.prompt(source)

    def _examples(self, rows: Iterable[Row]) -> Iterable[Example]:
        known = self.prepared.tokenizer
        return examples(rows, self.tokenizer) if known is None else plain_examples(rows, known)

    def _outputs(self, texts: Sequence[str], beam: int | None, cut: Tokenizer | None = None) -> list[str]:
        """Outputs for texts."""
        recipe = self.run.recipe
        search = Search(beam or 1, recipe.longest_output + 1, raw=recipe.phase[-1].raw)
        used = self.prepared.read_as if self.prepared.tokenizer else cut or self.tokenizer
        words = [[str(word) for word in used(text)] for text in texts]
        found = translate_all(self.actor, self.prepared, words, search, device_of(self.actor))
        return [" ".join(output) for output in found]


def load(
    run: Path | str,
    model: Module | None = None,
    tokenizer: Tokenizer = str.split,
    metric: str | Scorer | None = None,
    device: torch.device | str = "cpu",
) -> Trained:
    """Load the model of a run folder. If it is a module of your own, give its class as `model`.

    If the metric has no file of its own, give it as `metric`; otherwise `evaluate` measures BLEU.

    >>> load("runs/nowhere")
    Traceback (most recent call last):
    seqcredit.errors.UserError: runs/nowhere is not a run folder: it has no readable run.json.
    """
    device, opened = open_device(device), Run.open(Path(run))
    prepared = open_data(opened.data, opened.about["vocabularies"])
    own = load_actor(opened, prepared, device) if model is None else wrapped(model, prepared)
    if model is not None:
        own.load_state_dict(of_network(opened.weights(), "actor"))
    used = _metric_of(opened, prepared) if metric is None else metric_for(metric, opened, prepared)
    return Trained(opened, prepared, own.to(device).eval(), used, tokenizer)


def _metric_of(run: Run, prepared: Prepared) -> Metric:
    """A run's metric; BLEU in the place of one that only Python knows."""
    recipe = run.recipe
    name = recipe.payoff.metric if recipe.metric == REWARD else recipe.metric
    return metrics.BLEU if name == GIVEN else build_metric(recipe, prepared, run.folder)


def wrapped(model: Module, prepared: Prepared) -> Network:
    """A module of the user's own as a policy, or one that a function makes of the sizes of both vocabularies."""
    sizes = (len(prepared.source_vocabulary), len(prepared.target_vocabulary))
    made = model if isinstance(model, nn.Module) else model(*sizes)
    if isinstance(made, Policy):
        return made
    if not isinstance(made, nn.Module):
        raise UserError(f"model made {made!r} of the vocabulary sizes {sizes}, but it must make a torch.nn.Module.")
    return Wrapped(made, sizes[1])


def metric_for(metric: str | Scorer, run: Run | None = None, prepared: Prepared | None = None) -> Metric:
    """A metric by its name, that of a run's things where there is one, or a function of texts."""
    if not isinstance(metric, str):
        return metrics.own(word_of(metric), metric)
    return metrics.metric(metric) if run is None or prepared is None else metric_of(run, prepared, metric)
