"""What seqcredit needs from a model: a policy reads a source, then scores the next token, all at once or step by step.

Actors and critics are policies alike: an actor's scores are logits, a critic's are Q. What a model remembers of its
source and what it carries from token to token is its own affair, as long as rows of it can be selected: tensors, a
key-value cache, anything.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from seqcredit.draws import Noise
from seqcredit.products import laid_out
from seqcredit.types import Alphabet, Batch

Same = TypeVar("Same")  # the class that a method belongs to


@runtime_checkable
class Rows(Protocol):
    """Something with a row for each sequence."""

    @property
    def rows(self) -> int:
        """How many there are."""

    def select(self: Same, index: Int[Tensor, " N"]) -> Same:
        """The rows at `index`, in its order."""

    def join(self: Same, other: Same) -> Same:
        """These rows, then others."""


Some = TypeVar("Some", bound="Tensors")


@dataclass(frozen=True)
class Tensors:
    """Rows that are tensors: a dataclass of tensors whose first axis is the batch."""

    @property
    def rows(self) -> int:
        """How many sequences there are."""
        return len(getattr(self, fields(self)[0].name))

    def select(self: Some, index: Int[Tensor, " N"]) -> Some:
        """The sequences at `index`, in its order."""
        return type(self)(*(tensor.index_select(0, index) for tensor in tensors_of(self)))

    def join(self: Some, other: Some) -> Some:
        """These sequences, then others."""
        return type(self)(*(torch.cat(pair) for pair in zip(tensors_of(self), tensors_of(other), strict=True)))


def tensors_of(rows: Tensors) -> list[Tensor]:
    """The tensors of a dataclass, in the order of its fields."""
    return [getattr(rows, field.name) for field in fields(rows)]


R = TypeVar("R", bound=Rows)
T = TypeVar("T")


def repeat(rows: R, times: int, device: torch.device) -> R:
    """Every sequence `times` over, its copies side by side: M proposals that share one reading of the source."""
    return rows.select(torch.arange(rows.rows, device=device).repeat_interleave(times))


@runtime_checkable
class Attends(Protocol):
    """A state that tells where the model looked at the last step."""

    @property
    def attention(self) -> Float[Tensor, "B S"]:
        """Weights of the source positions."""


@runtime_checkable
class Scores(Protocol):
    """Logits or Q of some states, not yet written down."""

    def table(self) -> Float[Tensor, "*S V"]:
        """Scores of all ids, written down."""

    def linear(self) -> "Linear | None":
        """Features and readout, if that is how they are made: then the fused path can serve."""


class Linear(NamedTuple):
    """Scores by a linear readout of features."""

    features: Float[Tensor, "*S D"]
    weight: Float[Tensor, "V D"]
    bias: Float[Tensor, " V"] | None = None

    def table(self) -> Float[Tensor, "*S V"]:
        """Scores of all ids, written down."""
        return nn.functional.linear(self.features, self.weight, self.bias)

    def linear(self) -> "Linear":
        """Itself."""
        return self

    def of(self, ids: Int[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        """The score of one id in each state; no other is scored."""
        found = (self.features * self.weight[ids]).sum(-1)
        return found if self.bias is None else found + self.bias[ids]


class Written(NamedTuple):
    """Scores that are written down already."""

    scores: Float[Tensor, "*S V"]

    def table(self) -> Float[Tensor, "*S V"]:
        """The scores."""
        return self.scores

    def linear(self) -> None:
        """Nothing is known of how they were made."""
        return


def reshaped(scores: Scores, change: Callable[[Tensor], Tensor]) -> Scores:
    """Scores of the states that are left when the axes before the last are changed: cut, folded."""
    linear = scores.linear()
    return Written(change(scores.table())) if linear is None else linear._replace(features=change(linear.features))


@dataclass(frozen=True)
class Dropout(Tensors):
    """What a model drops along some sequences, drawn once, so that sampling and the gradient see the same network."""

    kept: Float[Tensor, "B T D"]  # 0 where something is dropped, else above 1

    @classmethod
    def drawn(cls, share: float, noise: Noise, length: int, width: int, like: Tensor) -> "Dropout":
        """Inverted dropout of a share of what is so wide, along sequences."""
        kept = noise.uniform(length, width, device=like.device) >= share
        return cls(kept.to(like.dtype).div_(1 - share))

    def at(self, rows: Int[Tensor, " N"], step: int) -> Float[Tensor, "N D"]:
        """Of some sequences at one step."""
        return self.kept[rows, step]

    def along(self, length: int) -> Float[Tensor, "B T D"]:
        """For sequences of another length; what is longer is padding, and sees zeros."""
        kept = self.kept[:, :length]
        return nn.functional.pad(kept, (0, 0, 0, length - kept.shape[1]))

    def fit(self, length: int) -> "Dropout":
        """The same for sequences of another length."""
        return Dropout(self.along(length))


M = TypeVar("M", bound=Rows)
S = TypeVar("S", bound=Rows)


class Policy(nn.Module, ABC, Generic[M, S]):
    """A model that scores every id after every prefix. M is its memory of a source, S its state between two tokens."""

    alphabet: Alphabet
    reads: Literal["source", "references"] = "source"  # which half of a batch `encode` gets
    recomputes: bool | None = None  # whether backward computes what is within layers anew; None: it has no way to

    @abstractmethod
    def encode(self, source: Tensor, /) -> M:
        """Read the source: (B, S) ids, (B, F) features of pictures, or (B, R, L) references."""

    @abstractmethod
    def score(self, memory: M, tokens: Int[Tensor, "B T"], dropout: Dropout | None = None) -> Scores:
        """Scores at every position from the tokens before it: those of T calls of `step`, all at once."""

    @abstractmethod
    def start(self, memory: M) -> S:
        """The state before the first token."""

    @abstractmethod
    def step(
        self, memory: M, state: S, token: Int[Tensor, " B"] | None, dropout: Float[Tensor, "B D"] | None = None
    ) -> tuple[Scores, S]:
        """Scores of the next token after `token`, and the state then; None stands for bos."""

    @property
    def width(self) -> int:
        """Of the features that its scores are a linear readout of; 0 where nothing is known of them."""
        return 0

    def drop(self, length: int, noise: Noise) -> Dropout | None:
        """Draw what is dropped along sequences; None where nothing is, or where the model drops on its own."""
        return None

    def recompute(self, on: bool) -> bool:
        """Gradient checkpointing, on or off: what is within layers is not kept for backward. Whether it can."""
        if self.recomputes is not None:
            self.recomputes = on
        return self.recomputes is not None

    def through(self, layer: Callable[..., T], *given: object) -> T:
        """What one of its layers gives."""
        return recomputed(layer, *given) if self.recomputes else layer(*given)

    def _apply(self: Same, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Same:
        """Whatever moves the weights moves the mask of the actions, too."""
        moved = super()._apply(fn, recurse)  # type: ignore[misc]
        actions = moved.alphabet.actions
        moved.alphabet = moved.alphabet._replace(actions=None if actions is None else fn(actions))
        return moved

    def read(self, batch: Batch) -> M:
        """Its memory of the half of a batch that it reads."""
        return self.encode(batch.references if self.reads == "references" else batch.source)


Network = Policy[Any, Any]  # of whatever memory and state


class Reading(Rows, Protocol):
    """A memory that tells what was read, place by place."""

    @property
    def states(self) -> Float[Tensor, "B S D"]:
        """What the model makes of each place."""

    @property
    def mask(self) -> Bool[Tensor, "B S"]:
        """False on padding."""

    @property
    def ids(self) -> Int[Tensor, "B S"]:
        """What stands there."""


N = TypeVar("N", bound=Reading)


class Body(Policy[N, S]):
    """A policy whose scores are a readout of features, so that a critic can have a readout of its own for them."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Of features."""

    @abstractmethod
    def hidden(self, memory: N, tokens: Int[Tensor, "B T"], dropout: Dropout | None = None) -> Float[Tensor, "B T D"]:
        """Features before each token."""

    @abstractmethod
    def advance(
        self, memory: N, state: S, token: Int[Tensor, " B"] | None, dropout: Float[Tensor, "B D"] | None = None
    ) -> tuple[Float[Tensor, "B D"], S]:
        """Features after `token`, and the state then; None stands for bos."""

    @abstractmethod
    def scored(self, features: Float[Tensor, "*B D"]) -> Scores:
        """Scores of features."""

    def score(self, memory: N, tokens: Int[Tensor, "B T"], dropout: Dropout | None = None) -> Scores:
        """Scores of each token from those before it."""
        return self.scored(self.hidden(memory, tokens, dropout))

    def step(
        self, memory: N, state: S, token: Int[Tensor, " B"] | None, dropout: Float[Tensor, "B D"] | None = None
    ) -> tuple[Scores, S]:
        """Scores of the next token after `token`, and the state then."""
        features, after = self.advance(memory, state, token, dropout)
        return self.scored(features), after


AnyBody = Body[Any, Any]


class Branching(ABC):
    """A policy that scores several sequences of a source without scoring twice what they have in common."""

    @abstractmethod
    def branch(
        self, memory: Any, tokens: Int[Tensor, "B M T"], fork: Int[Tensor, "B M"], dropout: Dropout | None = None
    ) -> Scores | None:
        """Scores of M sequences for each source; before its fork a sequence is the first one of its source.

        The rows are those of `credit.tables.share`: all states of the first sequence, and of the others the states
        after their fork, in the order of (B, M, T). None if this policy cannot share them.
        """


def recomputed(layer: Callable[..., T], *given: object, **named: object) -> T:
    """What a layer gives; what is within it is computed anew in backward instead of being kept."""
    if not torch.is_grad_enabled():
        return layer(*given, **named)
    result: T = checkpoint(partial(layer, **named), *given, use_reentrant=False, preserve_rng_state=False)
    return result


class Readout:
    """Scores of a step, written down, with the weight laid out once for many products with a few states."""

    def __init__(self, states: int) -> None:
        self.states = states
        self._of: Tensor | None = None
        self._product: Callable[[Tensor], Tensor] | None = None

    def __call__(self, scores: Scores) -> Float[Tensor, "B V"]:
        """The table of some scores; of one weight after another, only the last is kept."""
        linear = scores.linear()
        if linear is None:
            return scores.table()
        if self._product is None or self._of is not linear.weight:
            self._of, self._product = linear.weight, laid_out(linear.weight, linear.bias, self.states)
        return self._product(linear.features)


@contextmanager
def evaluating(*models: nn.Module) -> Iterator[None]:
    """Without dropout; afterwards as before."""
    were_training = [model.training for model in models]
    for model in models:
        model.eval()
    try:
        yield
    finally:
        for model, was in zip(models, were_training, strict=True):
            model.train(was)
