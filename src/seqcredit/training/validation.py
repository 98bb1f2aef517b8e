"""What a trainer can measure on validation data."""

import torch

from seqcredit.algorithms.phase import Criterion, Examples, Progress
from seqcredit.data.batches import collate, to_device
from seqcredit.data.prepared import Prepared
from seqcredit.draws import Noise
from seqcredit.errors import UserError
from seqcredit.models.policy import evaluating
from seqcredit.rewards.metrics import corpus
from seqcredit.training import watch
from seqcredit.training.decoding import Search, decode
from seqcredit.training.learner import Learner
from seqcredit.training.task import Task
from seqcredit.types import Alphabet, Batch, Reward

JUDGED = 1_000  # examples of the validation split, for a mean of what a loss watches
AT_ONCE = 100


class Validator:
    """Judges the networks of a learner by what its phase wants to be judged by."""

    def __init__(self, task: Task, learner: Learner, device: torch.device | str) -> None:
        self.task, self.learner, self.device = task, learner, device
        self.split = task.prepared.split("valid")
        examples = examples_of(task.prepared, "valid", task.reward, task.networks["actor"].alphabet)
        self.exact = learner.phase.judge(examples)
        self.measured: dict[str, float] = {}  # what it said last

    def judge(self) -> Criterion:
        """The figure that the phase is judged by, after the exact judge has measured."""
        self.measured = self.exact.figures(self.learner.models) if self.exact else {}
        return self.learner.phase.criterion(self)

    def metric(self, network: str, beam: int | None = None) -> Criterion:
        """The run's metric of what a network says of the validation split."""
        task, metric = self.task, self.task.metric
        width, raw = task.validation_beam if beam is None else beam, self.learner.phase.raw
        search = Search(width, task.longest_output + 1, raw=raw and network == "actor")
        words = decode(task.networks[network], task.prepared, self.split, search, self.device)
        score = corpus(metric, words, list(self.split.reference_texts()))
        return Criterion(metric.name, score.value, metric.higher)

    @torch.no_grad()
    def mean(self, key: str, still: tuple[str, ...] = ()) -> Criterion:
        """The mean of what the loss watches on the first validation examples, always with the same draws."""
        generator, sums = torch.Generator().manual_seed(0), dict[str, list[float]]()
        pairs, learner = self.split.groups[:-1][:JUDGED], self.learner
        with evaluating(*(self.task.networks[name] for name in still)):
            for start in range(0, len(pairs), AT_ONCE):
                batch = to_device(collate(self.split, pairs[start : start + AT_ONCE]), self.device)
                noise = Noise(generator, len(batch.references))
                found = learner.phase.loss(learner.models, batch, learner.reward, noise, Progress()).sums
                for name, pair in found.items():
                    so_far = sums.setdefault(name, [0.0, 0.0])
                    sums[name] = [a + float(b) for a, b in zip(so_far, pair, strict=True)]
        means = watch.means(sums)
        if "explained" in means:
            self.measured["explained"] = round(means["explained"], 4)
        return Criterion(key, means[key], higher=False)

    def credit(self, key: str) -> Criterion:
        """How far learned credit is from the exact one."""
        return Criterion(key, self.measured[key], higher=False)


def examples_of(prepared: Prepared, split: str, reward: Reward, alphabet: Alphabet) -> Examples:
    """The short sentences of a split, for a judge of credit."""
    return Examples(lambda sentences, longest: short(prepared, split, sentences, longest), reward, alphabet)


def short(prepared: Prepared, split: str, sentences: int, longest: int) -> Batch:
    """The first sentences of a split whose reference has at most `longest` words."""
    part = prepared.split(split)
    pairs = part.groups[:-1]
    chosen = pairs[part.reference_lengths[pairs] <= longest][:sentences]
    if not len(chosen):
        raise UserError(
            f"No reference of {split} in {prepared.folder} has {longest} words or fewer, so no credit error can be "
            "measured: set exact to 0."
        )
    return collate(part, chosen)
