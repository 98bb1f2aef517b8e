"""Networks from options: a class of options for each kind of network, which makes actors and critics."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Literal

from torch import Generator

from seqcredit.errors import UserError
from seqcredit.models.captioner import Captioner
from seqcredit.models.critic import Critic
from seqcredit.models.lstm import Seq2Seq
from seqcredit.models.policy import Network
from seqcredit.options import BELOW_1, EVEN, FROM_0, FROM_1, Options, option
from seqcredit.types import Alphabet

CRITICS = 1_000_003  # added to the seed for a critic's first weights


class Architecture(Options, ABC):
    """Options of a network, of whatever kind; `kind` names it in a recipe."""

    @abstractmethod
    def actor(self, source: int, alphabet: Alphabet, seed: int, pictures: bool = False) -> Network:
        """An actor with its first weights, a function of the seed: it knows `source` words, or sees such features."""

    @abstractmethod
    def critic(self, alphabet: Alphabet, seed: int, references: Literal["own", "all"] = "own") -> Network:
        """A critic with its first weights. It reads the references that the pay-off counts."""

    @abstractmethod
    def said(self) -> str:
        """What it is, for a model card."""

    @property
    def shape(self) -> dict[str, object]:
        """What two networks must have in common for one to take over the other's weights: all but dropout."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "dropout"}

    @property
    def fed(self) -> bool:
        """Whether there is input feeding, on which some of the paper's settings depend."""
        return False

    def unfit_actor(self) -> str | None:
        """What only a critic has."""
        return None


@dataclass(frozen=True)
class LSTM(Architecture):
    """The paper's network: the actor's, or the critic's that reads the reference.

    >>> LSTM(hidden=128).dropout
    0.3
    >>> LSTM(dropout=1.5)
    Traceback (most recent call last):
    seqcredit.errors.UserError: LSTM: dropout is 1.5, but it must be from 0 up to, but without, 1.
    """

    embedding: int = option(256, FROM_1)
    hidden: int = option(256, EVEN)
    layers: int = option(1, FROM_1)
    attention: Literal["dot", "mlp", "none"] = "dot"  # "none" for an actor that looks at pictures
    input_feeding: bool = False
    dropout: float = option(0.3, BELOW_1)
    copy: int = option(0, FROM_0)  # critics: width of a word's code, by which attention adds to Q; try 64
    dueling: bool = False  # critics: a readout in common for all words beside their own, both of 0 at first
    kind = "lstm"

    def actor(self, source: int, alphabet: Alphabet, seed: int, pictures: bool = False) -> Seq2Seq | Captioner:
        """The paper's translator, or its captioner."""
        generator = Generator().manual_seed(seed)
        if pictures:
            if self.attention != "none" or self.input_feeding:
                raise UserError(
                    "These data hold pictures, which the actor looks at once: set attention to 'none' and "
                    "input_feeding to false in [actor], as in the recipe flickr8k/mle."
                )
            return Captioner(source, alphabet, self.embedding, self.hidden, self.layers, self.dropout, generator)
        if self.attention == "none":
            raise UserError("These data hold sentences: set attention to 'dot' or 'mlp' in [actor].")
        shape = (self.embedding, self.hidden, self.layers)
        return Seq2Seq(source, alphabet, *shape, self.attention, self.input_feeding, self.dropout, generator)

    def critic(self, alphabet: Alphabet, seed: int, references: Literal["own", "all"] = "own") -> Critic:
        """The paper's critic."""
        if self.attention == "none":
            raise UserError("The critic reads the reference: set attention to 'dot' or 'mlp' in [critic].")
        shape = (self.embedding, self.hidden, self.layers, self.attention, self.input_feeding, self.dropout)
        generator = Generator().manual_seed(seed + CRITICS)
        return Critic(alphabet, *shape, generator, self.copy, references, self.dueling)

    def said(self) -> str:
        """Its sizes."""
        feeding = ", input feeding" if self.input_feeding else ""
        return f"LSTM, {self.layers} x {self.hidden}, embeddings {self.embedding}, {self.attention} attention{feeding}"

    @property
    def fed(self) -> bool:
        """Whether there is input feeding."""
        return self.input_feeding

    def unfit_actor(self) -> str | None:
        """What only a critic has."""
        if self.copy:
            return f"copy is {self.copy}, but only a critic reads the reference; leave it to [critic]."
        return "dueling is true, but only a critic gives values; leave it to [critic]." if self.dueling else None


Networks = LSTM  # all kinds


def differences(mine: Architecture, theirs: Architecture) -> list[tuple[str, object, object]]:
    """In what two networks differ so that one cannot take over the other's weights: key, and both values."""
    other = theirs.shape
    return [(key, value, other.get(key)) for key, value in mine.shape.items() if value != other.get(key)]
