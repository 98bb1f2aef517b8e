"""Networks from options."""

from dataclasses import dataclass
from typing import Literal

from torch import Generator

from seqcredit.errors import UserError
from seqcredit.models.captioner import Captioner
from seqcredit.models.critic import Critic
from seqcredit.models.lstm import Seq2Seq
from seqcredit.options import BELOW_1, EVEN, FROM_0, FROM_1, Options, option
from seqcredit.types import Alphabet

CRITICS = 1_000_003  # added to the seed for a critic's first weights


@dataclass(frozen=True)
class LSTM(Options):
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


# What networks share to be taken over.
SHAPE = ("embedding", "hidden", "layers", "attention", "input_feeding", "copy", "dueling")


def build_actor(
    options: LSTM, source: int, alphabet: Alphabet, seed: int, pictures: bool = False
) -> Seq2Seq | Captioner:
    """An actor with its first weights, a function of the seed: it knows `source` words, or sees as many features."""
    m, generator = options, Generator().manual_seed(seed)
    if pictures:
        if m.attention != "none" or m.input_feeding:
            raise UserError(
                "These data hold pictures, which the actor looks at once: set attention to 'none' and input_feeding to "
                "false in [actor], as in the recipe flickr8k/mle."
            )
        return Captioner(source, alphabet, m.embedding, m.hidden, m.layers, m.dropout, generator)
    if m.attention == "none":
        raise UserError("These data hold sentences: set attention to 'dot' or 'mlp' in [actor].")
    shape = (m.embedding, m.hidden, m.layers)
    return Seq2Seq(source, alphabet, *shape, m.attention, m.input_feeding, m.dropout, generator)


def build_critic(options: LSTM, alphabet: Alphabet, seed: int, references: Literal["own", "all"] = "own") -> Critic:
    """A critic with its first weights. It reads the references that the pay-off counts."""
    m = options
    if m.attention == "none":
        raise UserError("The critic reads the reference: set attention to 'dot' or 'mlp' in [critic].")
    generator = Generator().manual_seed(seed + CRITICS)
    shape = (m.embedding, m.hidden, m.layers)
    return Critic(alphabet, *shape, m.attention, m.input_feeding, m.dropout, generator, m.copy, references, m.dueling)
