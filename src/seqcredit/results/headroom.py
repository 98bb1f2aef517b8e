"""`seqcredit headroom`: how much a model could still gain by better decisions.

A pay-off teaches an actor to choose the output that scores best on average, given what the actor believes. Search comes
near to that without being taught. How near, samples of the actor tell before anything is trained.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor, nn

from seqcredit.algorithms.along import Along, likelihood
from seqcredit.credit.values import entropy
from seqcredit.data.batches import Indices, chunks, collate, examples, to_device
from seqcredit.data.prepared import Prepared, Split
from seqcredit.data.reading import read_json
from seqcredit.data.storage import write_json
from seqcredit.errors import UserError, in_words
from seqcredit.experiments.build import build_reward, load_actor
from seqcredit.experiments.runs import Run
from seqcredit.models.policy import Network, Rows, repeat
from seqcredit.results.evaluate import metric_of
from seqcredit.rewards.metrics import Metric, corpus
from seqcredit.rewards.scores import final_scores, scored
from seqcredit.search import beam, greedy, sample
from seqcredit.search.sample import device_of
from seqcredit.training.watch import duration
from seqcredit.types import Batch, Json, Reward, token_mask

FILE = "headroom.json"  # in the run folder
BATCH = 50
# How a sentence is chosen, and what that is called.
WAYS = {
    "sample": "one sample",
    "greedy": "greedy",
    "beam": "beam",
    "believed": "by its beliefs",
    "known": "by the reference",
}
OFFHAND = ("sample", "greedy")  # without looking ahead

Said = dict[str, Int[Tensor, "B T"]]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Speaker:
    """An actor, and what it takes to hear it in several ways."""

    actor: Network
    reward: Reward
    width: int  # of the beam
    bound: int
    samples: int
    generator: Generator

    def offhand(self, memory: Rows, batch: Batch) -> Said:
        """What it says by `OFFHAND` of encoded sources."""
        return {"sample": self._drawn(memory, 1)[:, 0], "greedy": greedy(self.actor, memory, self.bound)}

    def at_length(self, memory: Rows, batch: Batch) -> Said:
        """All of `WAYS`: by search, by what samples expect of it, and by what the reference knows to be best."""
        found = beam(self.actor, memory, self.bound, self.width, self.width)
        few, judges = self._drawn(memory, self.samples).chunk(2, 1)  # no sample is its own judge
        candidates = _side_by_side(found.tokens, few, self.actor.alphabet.eos)
        known = self.earned(found.tokens.flatten(0, 1), batch.repeated(self.width)).view_as(found.logp)
        in_words = self.actor.alphabet.as_words
        believed = expected_payoffs(self.reward, in_words(candidates), in_words(judges), batch.source)
        return {
            **self.offhand(memory, batch),
            "beam": found.tokens[:, 0],
            "believed": _best(candidates, believed),
            "known": _best(found.tokens, known.masked_fill(found.logp == -torch.inf, -torch.inf)),
        }

    def earned(self, said: Int[Tensor, "B T"], batch: Batch) -> Float[Tensor, " B"]:
        """The pay-off of what it says."""
        return scored(self.reward, self.actor.alphabet, said, batch, final_scores)

    def surprise(self, memory: Rows, batch: Batch) -> tuple[float, int]:
        """- log pi of the first references, and the number of their tokens."""
        tokens = batch.references[:, 0]
        scores = Along.of(self.actor, self.actor.score(memory, tokens))
        return float(likelihood(scores, tokens)), int(token_mask(tokens, self.actor.alphabet.eos).sum())

    def undecided(self, memory: Rows, said: Int[Tensor, "B T"]) -> tuple[float, int]:
        """Entropy of the actor in the states of what it says, in nats, and the number of these states."""
        real = token_mask(said, self.actor.alphabet.eos)
        logp = Along.of(self.actor, self.actor.score(memory, said)).logp
        return float(entropy(logp).masked_fill(~real, 0).sum()), int(real.sum())

    def _drawn(self, memory: Rows, count: int) -> Int[Tensor, "B n T"]:
        device = device_of(self.actor)
        uniform = torch.rand(memory.rows * count, self.bound, generator=self.generator).to(device)
        return sample(self.actor, repeat(memory, count, device), self.bound, uniform).unflatten(0, (-1, count))


def expected_payoffs(
    reward: Reward, candidates: Int[Tensor, "B K T"], samples: Int[Tensor, "B n L"], source: Tensor | None = None
) -> Float[Tensor, "B K"]:
    """What each candidate is worth on the average, with each of the samples as its reference in turn."""
    K, words = candidates.shape[1], candidates.flatten(0, 1)
    read = None if source is None else source.repeat_interleave(K, 0)
    scores = [
        final_scores(reward, words, one.unsqueeze(1).repeat_interleave(K, 0), read).unflatten(0, (-1, K))
        for one in samples.unbind(1)
    ]
    return torch.stack(scores).mean(0)


def _side_by_side(found: Int[Tensor, "B n T"], more: Int[Tensor, "B m L"], eos: int) -> Int[Tensor, "B K M"]:
    """Both, with eos after the shorter ones, whichever id a model has for it."""
    longest = max(found.shape[-1], more.shape[-1])
    return torch.cat([nn.functional.pad(some, (0, longest - some.shape[-1]), value=eos) for some in (found, more)], 1)


def _best(candidates: Int[Tensor, "B K T"], worth: Float[Tensor, "B K"]) -> Int[Tensor, "B T"]:
    """That of the greatest worth; of equals the first, which search holds the likeliest."""
    best = (worth == worth.max(1, keepdim=True).values).int().argmax(1)
    return candidates[torch.arange(len(best), device=best.device), best]


def measure(
    run: Run, prepared: Prepared, split: str, samples: int, device: str, say: Say, metric: str | None = None
) -> Json:
    """Metric, pay-off and likelihood of a split in all of `WAYS`, and of as many training sentences offhand."""
    if samples < 2:
        raise UserError(
            f"A headroom of {samples} samples cannot be told: ask for 2 or more, half of which judge the others."
        )
    recipe = run.recipe
    reward = build_reward(recipe, prepared, run.folder)
    generator = torch.Generator().manual_seed(recipe.seed)
    actor = load_actor(run, prepared, device)
    speaker = Speaker(actor, reward, recipe.beam, recipe.longest_output + 1, samples, generator)
    mine, seen = prepared.split(split), prepared.split("train")
    judge = metric_of(run, prepared, metric)
    about = {"split": split, "sentences": len(mine), "samples": samples, "width": recipe.beam}
    about |= {"metric": judge.name, "metric_label": judge.label}
    heard = partial(_heard, speaker, most=len(mine), prepared=prepared, metric=judge, say=say)
    return {**about, **heard(speaker.at_length, mine), "train": heard(speaker.offhand, seen)}


@torch.no_grad()
def _heard(
    speaker: Speaker,
    ask: Callable[[Rows, Batch], Said],
    split: Split,
    most: int,
    prepared: Prepared,
    metric: Metric,
    say: Say,
) -> Json:
    """Metric and mean pay-off of every way that is asked for, the nats that a token of the references costs, and the
    entropy of a state of its samples."""
    device, began = device_of(speaker.actor), time.perf_counter()
    words: dict[str, list[list[str]]] = {}
    references: list[list[list[str]]] = []
    earned: dict[str, float] = {}
    nats, tokens, doubt, states = 0.0, 0, 0.0, 0
    batches = _spread(split, most)
    for number, pairs in enumerate(batches, 1):
        batch = to_device(collate(split, pairs), device)
        memory = speaker.actor.encode(batch.source)
        chosen = ask(memory, batch)
        for way, said in chosen.items():
            words.setdefault(way, []).extend(prepared.words(ids) for ids in said.tolist())
            payoff = float(speaker.earned(said, batch).sum())
            earned[way] = earned.get(way, 0.0) + payoff
        references += [split.reference_text(int(example)) for example in examples(split, pairs)]
        surprise, count = speaker.surprise(memory, batch)
        nats, tokens = nats + surprise, tokens + count
        more, count = speaker.undecided(memory, chosen["sample"])
        doubt, states = doubt + more, states + count
        left = (time.perf_counter() - began) * (len(batches) / number - 1)
        say(f"{split.name}: {number:,}/{len(batches):,} batches, {duration(left)} left")
    scores = {way: corpus(metric, texts, references) for way, texts in words.items()}
    return {
        metric.name: {way: round(score.value, metric.digits + 2) for way, score in scores.items()},
        "payoff": {way: round(total / len(references), 4) for way, total in earned.items()},
        "nll": round(nats / tokens, 4),
        "entropy": round(doubt / states, 4),
        "signature": scores["greedy"].signature,
    }


def _spread(split: Split, most: int) -> list[Indices]:
    """Batches of as many examples, evenly spread over a split, the longest sources first."""
    chosen = np.unique(np.linspace(0, len(split) - 1, min(most, len(split))).astype(np.int64))
    chosen = chosen[np.argsort(-split.source_lengths[chosen], kind="stable")]
    return chunks(np.asarray(split.groups[:-1])[chosen], BATCH)


def write(run: Run, found: Json) -> None:
    """Keep it in the run folder, from where `seqcredit record` takes it."""
    with in_words(OSError, lambda error: f"{run.folder / FILE} cannot be written ({error.strerror})."):
        write_json(run.folder / FILE, found)


def read(run: Run) -> Json | None:
    """What was kept, if anything was."""
    path = run.folder / FILE
    return read_json(path, dict[str, object], "measure it again") if path.exists() else None
