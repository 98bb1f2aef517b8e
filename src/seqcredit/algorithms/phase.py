"""What an algorithm is: options, the networks that it trains and needs, a loss, and a criterion.

An algorithm is a frozen dataclass: a phase of a recipe, and an argument of `seqcredit.train`. The trainer knows nothing
else of it. A new one is a class below `Phase`, in this folder or in a file of the user's own.

Every loss is a sum over time and a mean over the sentences of the whole batch, of which this process may hold a part.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from seqcredit.draws import Noise
from seqcredit.errors import require
from seqcredit.models.policy import Network
from seqcredit.options import ABOVE_0, BELOW_1, EPOCHS, FROM_0, FROM_1, NOT_NEGATIVE, UP_TO_1, Options, option, required
from seqcredit.rewards.payoff import Payoff
from seqcredit.types import Alphabet, Batch, Reward

Sums = dict[str, tuple[Tensor, Tensor]]  # what is worth watching: sums over tokens or sentences, and their counts
Own = TypeVar("Own", bound=nn.Module)


class Models(NamedTuple):
    """The networks of a run."""

    actor: Network
    critic: Network | None = None
    target: Network | None = None  # follows the critic slowly
    start: Network | None = None  # the actor as it was when the phase began
    own: Mapping[str, nn.Module] = MappingProxyType({})  # what the phase brought, by name

    @property
    def judge(self) -> Network:
        """The critic of a phase that needs one."""
        assert self.critic is not None
        return self.critic

    @property
    def slow_judge(self) -> Network:
        """The target network of a phase that needs one."""
        assert self.target is not None
        return self.target

    @property
    def origin(self) -> Network:
        """The first actor of a phase that remembers it."""
        assert self.start is not None
        return self.start

    def brought(self, name: str, kind: type[Own]) -> Own:
        """A network that the phase brought."""
        found = self.own[name]
        assert isinstance(found, kind)
        return found


class Progress(NamedTuple):
    """How far a phase has come, for schedules."""

    update: int = 0  # those that are done
    updates: int = 1  # at the most
    explained: float = 1.0  # share of the returns' variance that the critic has explained of late
    earned: float = 0.0  # the mean of what samples have `earned` of late, 0 before there were any
    last: Mapping[str, float] = MappingProxyType({})  # means of what the last update watched, of the whole batch

    @property
    def share(self) -> float:
        """How much of it is done, from 0 to 1."""
        return min(1.0, self.update / self.updates)


class Outcome(NamedTuple):
    """Losses of the networks to train, and what is worth watching."""

    losses: dict[str, Tensor]
    sums: Sums


class Criterion(NamedTuple):
    """A figure by which the best weights are kept."""

    name: str  # as the log has it
    value: float
    higher: bool = True  # is better

    @property
    def merit(self) -> float:
        """Higher is better."""
        return self.value if self.higher else -self.value


class Gate(NamedTuple):
    """Between a phase and the next one, after a validation."""

    open: bool  # the next one may begin
    at_once: bool  # there is no need to go on with this one
    said: str  # why


@runtime_checkable
class Validation(Protocol):
    """What a trainer can find out about its networks on validation data."""

    def metric(self, network: str, beam: int | None = None) -> Criterion:
        """The run's metric of what a network says; a critic is asked for its best words."""

    def mean(self, key: str, still: tuple[str, ...] = ()) -> Criterion:
        """The mean of what `loss` watches, always with the same draws; networks that are `still` drop nothing."""

    def credit(self, key: str) -> Criterion:
        """How far learned credit is from the exact one: `credit_error` or `credit_kl`."""


@runtime_checkable
class CreditJudge(Protocol):
    """Knows the exact Q of some sentences."""

    def figures(self, models: Models) -> dict[str, float]:
        """How far the critic is from it: `credit_error`, and `credit_kl` where it is known."""


class Examples(NamedTuple):
    """Validation sentences for a judge of credit."""

    short: Callable[[int, int], Batch]  # so many sentences whose reference has at most so many words
    reward: Reward
    alphabet: Alphabet


@dataclass(frozen=True)
class Phase(Options, ABC):
    """What all phases have: optimizer, batches, and when the learning rate falls."""

    trains: ClassVar[tuple[str, ...]] = ("actor",)  # networks; the first one's learning rate decays
    needs: ClassVar[tuple[str, ...]] = ()  # others that must be there
    drops: ClassVar[tuple[str, ...] | None] = None  # networks with dropout; None: those that it trains
    guarded: ClassVar[bool] = False  # a fall of reward or entropy is a divergence
    learns_references: ClassVar[bool] = False  # or what is near them: there must be some
    raw: ClassVar[bool] = False  # what it trains is searched by scores of the last word, without a softmax
    soft: ClassVar[bool] = False  # its critic looks ahead by the soft value, not by what the actor does

    name: str  # in logs and --set; the objective if not given
    learning_rate: float = required(ABOVE_0)  # learning rate at the start
    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"  # torch's
    beta1: float = option(0.9, BELOW_1)  # Adam's first decay rate
    weight_decay: float = option(0.0, NOT_NEGATIVE)  # for adamw; not on embeddings, biases and norms
    batch_size: int = option(50, FROM_1)  # pairs; images, each with all of its captions
    sort_by: Literal["source", "both"] = (
        "source"  # whose lengths are alike in a batch: of sources, or of references too
    )
    batch_tokens: int = option(0, FROM_0)  # maximum tokens in a batch, padding included; 0: batch_size pairs
    accumulate: int = option(1, FROM_1)  # parts of a batch, one after the other: less memory for the same update
    gradient_checkpointing: bool = False  # backward recomputes activations inside layers: less memory, more time
    precision: Literal["float32", "bf16"] = "float32"  # of matrix products; weights and sums stay in float32
    clip: float = option(5.0, ABOVE_0)  # global gradient norm, of each network
    epochs: int = option(30, EPOCHS)  # maximum epochs
    updates: int = option(0, FROM_0)  # maximum updates; 0: only epochs count
    decay: float = option(0.5, UP_TO_1)  # factor of the learning rate when validation does not improve
    decays: int = option(6, FROM_0)  # decays before the phase stops
    anneal: bool = False  # also lowers the learning rate in a straight line to 0 at the last epoch
    anneal_form: Literal["line", "cosine"] = "line"  # a straight line, or half a cosine wave
    warmup: int = option(0, FROM_0)  # updates at the start in which all learning rates rise in a straight line
    validate_every: int = option(0, FROM_0)  # updates between validations; 0: one per epoch
    fused: bool = True  # the fast path; false: the reference implementation, slower with the same result

    def __post_init__(self) -> None:
        super().__post_init__()
        name, decay, form = type(self).__name__, self.weight_decay, self.anneal_form
        only = f"{name}: weight_decay is {decay}, but {self.optimizer} has none; set optimizer to 'adamw'."
        require(self.optimizer == "adamw" or not decay, only)
        mixed = (
            f"{name}: batch_tokens is {self.batch_tokens}, which needs sentences of like length; set sort_by to 'both'."
        )
        require(not self.batch_tokens or self.sort_by == "both", mixed)
        off = f"{name}: anneal_form is {form!r}, but nothing is annealed; set anneal to true."
        require(self.anneal or form == "line", off)

    @abstractmethod
    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        """Losses of the networks that it trains on a batch, and what is worth watching."""

    def criterion(self, validation: Validation) -> Criterion:
        """What the best weights are kept by: the metric of what the actor says."""
        return validation.metric("actor")

    def check(self, payoff: Payoff) -> str | None:
        """A sentence about what does not go together with a pay-off, None if all does."""
        return None

    def without_references(self, longest: int) -> "Phase":
        """The same for data that have no references: none is learned from, and samples have at most so many tokens."""
        return self

    def judge(self, examples: Examples) -> CreditJudge | None:
        """Who compares learned credit with the exact one at every validation, if that is asked for."""
        return None

    def rate(self, network: str) -> float:
        """The learning rate of a network: its own, the option `NETWORK_learning_rate`, where that is given."""
        return self._of(network, "learning_rate")

    def stride(self, network: str, progress: Progress) -> float:
        """What a network's next step is multiplied by."""
        return 1.0

    def stands_still(self, updates: int) -> bool:
        """Whether what is validated has not moved yet after so many updates; then no progress is no reason to slow."""
        return False

    def warmth(self, progress: Progress) -> float:
        """What every network's next step is multiplied by besides, while the phase warms up."""
        return min(1.0, (progress.update + 1) / self.warmup) if self.warmup else 1.0

    def annealing(self, done: int, updates: int) -> float:
        """The factor of the learning rate after an update, the `done`th of so many: it ends at 0."""
        left, falling = updates - done, updates - self.warmup
        if not self.anneal or done <= self.warmup:
            return 1.0
        if self.anneal_form == "line":
            return left / (left + 1)
        now, before = (1 - math.cos(math.pi * n / falling) for n in (left, left + 1))
        return now / before

    def clipping(self, network: str) -> float:
        """The largest gradient norm of a network: its own, the option `NETWORK_clip`, where that is given."""
        return self._of(network, "clip")

    def _of(self, network: str, key: str) -> float:
        own: float | None = getattr(self, f"{network}_{key}", None)
        return float(getattr(self, key)) if own is None else own

    def follows(self, progress: Progress) -> float | None:
        """The speed of the target network, None if there is none."""
        return None

    def brings(self, actor: Network, seed: int) -> dict[str, nn.Module]:
        """Networks of its own by the names in `trains`, with their first weights, a function of the seed.

        They are checkpointed as all are, and last as long as the phase.
        """
        return {}

    @property
    def remembers_start(self) -> bool:
        """Whether its loss asks for the actor as it was when the phase began."""
        return False

    def gate(self, figures: Mapping[str, float]) -> Gate | None:
        """Whether, by the figures of a validation, the next phase may begin; None if it always may.

        Where it may not when the phase's budget is spent, the next phases are skipped.
        """
        return None

    @property
    def validates_start(self) -> bool:
        """Whether it may end as it began, if that validates best."""
        return False

    @property
    def judged_tau(self) -> float | None:
        """The temperature at which its states are judged, None if it has none."""
        return None

    @property
    def later_tau(self) -> float:
        """What the entropy of later states counts for."""
        return self.judged_tau or 0.0

    def longest_for(self, words: int) -> int:
        """Tokens of a sequence at the most, eos included, beside a reference of so many words; 0 if nothing is said."""
        return 0

    def batch_weight(self, pairs: int) -> float:
        """What a batch of so many pairs counts for: by tokens its size varies, and no pair is to count for more."""
        return pairs / self.batch_size if self.batch_tokens else 1.0

    def lengths(self, batches: int) -> list[int]:
        """Updates of every epoch, the last one cut where `updates` ends it."""
        most = min(self.epochs * batches, self.updates or self.epochs * batches)
        return [min(batches, most - done) for done in range(0, most, batches)]


def unless_edit(payoff: Payoff) -> str | None:
    """What to say of another pay-off than the one whose best completions are known."""
    if payoff.metric == "edit":
        return None
    return f"its credit is that of the edit distance, and the pay-off is {payoff.metric}: set metric to 'edit'."


def count(rows: Tensor) -> Tensor:
    """How many there are along the first axis."""
    return torch.tensor(len(rows), device=rows.device)


@dataclass(frozen=True)
class Paired(Phase):
    """What phases share in which an actor and a critic learn together: the critic may have steps of its own."""

    critic_learning_rate: float | None = option(None, NOT_NEGATIVE)  # learning_rate if not given; it never decays
    critic_clip: float | None = option(None, ABOVE_0)  # clip if not given
