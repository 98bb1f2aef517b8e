"""A critic with any body, its own or the actor's: a model, and a head that starts at 0 and gives Q."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor, nn

from seqcredit.models.critic import codes
from seqcredit.models.policy import AnyBody, Dropout, Linear, Policy, Reading, Rows, Scores
from seqcredit.types import ABSENT, Batch, token_mask

Reads = Literal["source", "references", "both"]


@dataclass(frozen=True)
class Judged:
    """What a critic has read, with the states of its words in a scale of their own, their codes, and the readout."""

    inner: Reading
    states: Float[Tensor, "B S D"]
    codes: Float[Tensor, "B S C"]
    weight: Float[Tensor, "V F"]  # of the readout, with what all words have in common
    bias: Float[Tensor, " V"]

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.codes)

    def select(self, index: Int[Tensor, " N"]) -> "Judged":
        """The rows at `index`, in its order."""
        states, codes = (each.index_select(0, index) for each in (self.states, self.codes))
        return replace(self, inner=self.inner.select(index), states=states, codes=codes)

    def join(self, other: "Judged") -> "Judged":
        """These rows, then others."""
        states, codes = torch.cat([self.states, other.states]), torch.cat([self.codes, other.codes])
        return replace(self, inner=self.inner.join(other.inner), states=states, codes=codes)


class Judge(Policy[Judged, Rows]):
    """Q by features h of a body: Q(s, w) = (a + b_w) . h + e(w) . sum_j u(s, j) e(x_j), where x is what was read.

    a is one readout for all words, so that what a state is worth is learned from every word that is taken. By the codes
    e it speaks of the very words that it has read: u(s, j) compares the state with the place j. All but the codes
    starts at 0, and so does Q.
    """

    def __init__(
        self,
        body: AnyBody,
        copy: int = 64,
        read: Reads = "references",
        references: Literal["own", "all"] = "own",
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        self.alphabet, self.body, self.copy = body.alphabet, body, copy
        self.looks_at, self.references = read, references
        self.common = nn.Linear(body.width, 1)
        self.pointer = nn.Linear(body.width, body.width, bias=False)
        self.readout = nn.Linear(body.width + copy, self.alphabet.size)
        with torch.no_grad():
            for layer in (self.common, self.pointer, self.readout):
                for weight in layer.parameters():
                    weight.zero_()
            self.readout.weight[:, body.width :] = codes(self.alphabet.size, copy, generator)

    reads: Literal["source", "references"] = "references"

    def encode(self, source: Int[Tensor, "B S"] | Int[Tensor, "B R L"]) -> Judged:
        """Read references, or one row of ids each."""
        ids = _together(self._in_a_row(source) if source.dim() == 3 else source)
        inner = self.body.encode(ids)
        known = nn.functional.embedding(inner.ids.clamp(min=0), self.readout.weight[:, self.body.width :])
        common = nn.functional.pad(self.common.weight, (0, self.copy))
        weight, bias = self.readout.weight + common, self.readout.bias + self.common.bias
        return Judged(inner, _normed(inner.states), known * inner.mask.unsqueeze(-1), weight, bias)

    def read(self, batch: Batch) -> Judged:
        """Read what it is to read: where there is no reference, the source alone."""
        there = batch.references.shape[1] > 0 and self.looks_at != "source"
        rows = [self._in_a_row(batch.references)] if there else []
        if self.looks_at != "references" or not there:
            rows.insert(0, batch.source)
        return self.encode(torch.cat(rows, 1))

    def recompute(self, on: bool) -> bool:
        """Within the layers of its body."""
        return self.body.recompute(on)

    def score(self, memory: Judged, tokens: Int[Tensor, "B T"], dropout: Dropout | None = None) -> Linear:
        """Q of every action before each token."""
        return self._valued(memory, self.body.hidden(memory.inner, tokens))

    def start(self, memory: Judged) -> Rows:
        """Before the first token."""
        return self.body.start(memory.inner)

    def step(
        self, memory: Judged, state: Rows, token: Int[Tensor, " B"] | None, dropout: Float[Tensor, "B D"] | None = None
    ) -> tuple[Linear, Rows]:
        """Q of every action after `token`; None stands for bos."""
        features, after = self.body.advance(memory.inner, state, token)
        found = self._valued(memory, features.unsqueeze(1))
        return found._replace(features=found.features.squeeze(1)), after

    def _in_a_row(self, references: Int[Tensor, "B R L"]) -> Int[Tensor, "B S"]:
        """The references to read one after another, each with its eos; ABSENT is padding wherever it stands."""
        chosen = references[:, :1] if self.references == "own" else references
        return chosen.masked_fill(~token_mask(chosen, self.alphabet.eos), ABSENT).flatten(1)

    def _valued(self, memory: Judged, features: Float[Tensor, "B T D"]) -> Linear:
        """Of features in a scale of their own: a body's may be anything."""
        features = _normed(features)
        places = torch.bmm(self.pointer(features), memory.states.transpose(1, 2)) / self.body.width**0.5  # (B, T, S)
        copied = torch.bmm(places, memory.codes)
        return Linear(torch.cat([features, copied], -1), memory.weight, memory.bias)


class Borrowed(AnyBody):
    """The body of an actor, for a critic that has a head of its own and no other weights.

    The body learns from the actor's loss alone, and the head from states that it takes as they are: were both losses to
    move it, errors of Q would move the policy, whatever the actor's own rate and bounds are. The weights stay the
    actor's: they are not counted, saved or copied here, and a target network is a copy of the head on the same body.
    """

    def __init__(self, owner: AnyBody) -> None:
        super().__init__()
        self.alphabet, self._owner = owner.alphabet, (owner,)  # torch does not look into a tuple

    def __deepcopy__(self, _: object) -> "Borrowed":
        return Borrowed(self._owner[0])

    @property
    def width(self) -> int:
        """Of features."""
        return self._owner[0].width

    @torch.no_grad()
    def encode(self, source: Tensor) -> Reading:
        """As the owner reads."""
        return self._owner[0].encode(source)

    @torch.no_grad()
    def hidden(
        self, memory: Reading, tokens: Int[Tensor, "B T"], dropout: Dropout | None = None
    ) -> Float[Tensor, "B T D"]:
        """The owner's features, of which nothing is dropped."""
        return self._owner[0].hidden(memory, tokens)

    def start(self, memory: Reading) -> Rows:
        """Before the first token."""
        return self._owner[0].start(memory)

    @torch.no_grad()
    def advance(
        self, memory: Reading, state: Rows, token: Int[Tensor, " B"] | None, dropout: Tensor | None = None
    ) -> tuple[Float[Tensor, "B D"], Rows]:
        """The owner's features after a token."""
        return self._owner[0].advance(memory, state, token)

    def scored(self, features: Float[Tensor, "*B D"]) -> Scores:
        """What the owner would say."""
        return self._owner[0].scored(features)


def _together(ids: Int[Tensor, "B S"]) -> Int[Tensor, "B L"]:
    """Ids with all padding behind them, and no more of it than the longest row asks for: none takes a position."""
    order = (ids == ABSENT).long().argsort(dim=1, stable=True)
    return ids.gather(1, order[:, : max(1, int((ids != ABSENT).sum(1).max()))])


def _normed(features: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
    """With mean 0 and variance 1."""
    return nn.functional.layer_norm(features, features.shape[-1:])
