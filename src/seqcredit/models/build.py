"""Networks from options: a class of options for each kind of network, which makes actors and critics."""

import json
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

from torch import Generator

from seqcredit.errors import UserError, require
from seqcredit.models.captioner import Captioner
from seqcredit.models.critic import Critic
from seqcredit.models.hub import make_model, policy_of
from seqcredit.models.huggingface import DecoderOnly, EncoderDecoder, positions_of
from seqcredit.models.judge import Borrowed, Judge
from seqcredit.models.lstm import Seq2Seq
from seqcredit.models.policy import AnyBody, Body, Network
from seqcredit.models.transformer import TransformerNetwork
from seqcredit.models.twin import Twin
from seqcredit.options import BELOW_1, EVEN, FROM_0, FROM_1, LAYERS, Options, option
from seqcredit.types import EOS, Alphabet

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NOTHING = -2  # closes no row of references: all of them are read, one after another
CRITICS = 1_000_003  # added to the seed for a critic's first weights
TWINS = 2_000_003  # and for those of a second one beside it


class Architecture(Options, ABC):
    """Options of a network, of whatever kind; `kind` names it in a recipe."""

    reads: Literal["source", "references", "both"]  # critics

    @abstractmethod
    def actor(self, source: int, alphabet: Alphabet, seed: int, pictures: bool = False) -> Network:
        """An actor with its first weights, a function of the seed: it knows `source` words, or sees such features."""

    @abstractmethod
    def critic(
        self, alphabet: Alphabet, seed: int, references: Literal["own", "all"] = "own", actor: Network | None = None
    ) -> Network:
        """A critic with its first weights. It reads the references that the pay-off counts, and may share the actor."""

    @property
    def reads_source(self) -> bool:
        """Whether as a critic it reads what the actor reads, and nothing else."""
        return self.reads == "source"

    def source_critic(self, source: int, alphabet: Alphabet, seed: int, pictures: bool = False) -> Network | None:
        """A critic that is made as an actor is, because it reads what an actor reads; None for all others."""
        return self.actor(source, alphabet, seed + CRITICS, pictures) if self.reads_source else None

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

    @property
    def stands_alone(self) -> bool:
        """Whether a critic can be made without the actor that it judges."""
        return True

    @property
    def compares(self) -> bool:
        """Whether a critic looks at references, as almost all do."""
        return True

    def room(self, source: int) -> int:
        """Tokens that can be written after so many of a source, eos included."""
        return sys.maxsize


@dataclass(frozen=True)
class LSTM(Architecture):
    """The paper's network: the actor's, or the critic's that reads the reference.

    >>> LSTM(hidden=128).dropout
    0.3
    >>> LSTM(dropout=1.5)
    Traceback (most recent call last):
    seqcredit.errors.UserError: LSTM: dropout is 1.5, but it must be from 0 up to, but without, 1.
    """

    embedding: int = option(256, FROM_1)  # size of the word vectors
    hidden: int = option(256, EVEN)  # size of the state
    layers: int = option(1, LAYERS)  # layers of the encoder, and of the decoder
    attention: Literal["dot", "mlp", "none"] = "dot"  # "none" for an actor that looks at images
    input_feeding: bool = False  # the decoder also reads the last attention output
    dropout: float = option(0.3, BELOW_1)  # share of units that are dropped
    copy: int = option(0, FROM_0)  # critics: size of the word vectors of the copying critic; 0: none; try 64
    dueling: bool = False  # critics: adds a value shared by all words; starts at 0
    twin: bool = False  # critics: two critics, of which the lower Q counts
    reads: Literal["references", "source"] = "references"  # critics; one that reads the source can guide a search
    kind = "lstm"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_source(self, bool(self.copy or self.dueling))

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

    def critic(
        self, alphabet: Alphabet, seed: int, references: Literal["own", "all"] = "own", actor: Network | None = None
    ) -> Critic | Twin:
        """The paper's critic, or two of them."""
        if self.attention == "none":
            raise UserError("The critic reads the reference: set attention to 'dot' or 'mlp' in [critic].")
        shape = (self.embedding, self.hidden, self.layers, self.attention, self.input_feeding, self.dropout)

        def one(more: int) -> Critic:
            generator = Generator().manual_seed(seed + more)
            return Critic(alphabet, *shape, generator, self.copy, references, self.dueling)

        return Twin(one(CRITICS), one(TWINS)) if self.twin else one(CRITICS)

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
        if self.reads == "source":
            return "reads is 'source', as an actor always does; leave it to [critic]."
        values = [key for key in ("dueling", "twin") if getattr(self, key)]
        return f"{values[0]} is true, but only a critic gives values; leave it to [critic]." if values else None


@dataclass(frozen=True)
class Transformer(Architecture):
    """A small Transformer, trained from scratch, which writes with a key-value cache.

    >>> Transformer(width=128, heads=4).said()
    'Transformer, 3 x 128, 4 heads'
    >>> Transformer(width=100, heads=8)
    Traceback (most recent call last):
    seqcredit.errors.UserError: Transformer: width is 100, but it must be an even multiple of heads, which is 8.
    """

    width: int = option(256, FROM_1)  # size of the states
    layers: int = option(3, LAYERS)  # layers of the encoder, and of the decoder
    heads: int = option(4, FROM_1)  # attention heads
    dropout: float = option(0.1, BELOW_1)  # share of units that are dropped
    copy: int = option(64, FROM_0)  # critics: size of the word vectors of the copying critic; 0: none
    twin: bool = False  # critics: two critics, of which the lower Q counts
    reads: Literal["references", "source"] = "references"  # critics; one that reads the source can guide a search
    decoder_only: bool = False  # one stack reads and writes; otherwise an encoder reads and a decoder writes
    kind = "transformer"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % (2 * self.heads):
            raise UserError(
                f"Transformer: width is {self.width}, but it must be an even multiple of heads, which is {self.heads}."
            )
        _check_source(self, False)

    def actor(self, source: int, alphabet: Alphabet, seed: int, pictures: bool = False) -> TransformerNetwork:
        """It reads sentences, or sees pictures."""
        return self._network(source, alphabet, seed, pictures)

    def critic(
        self, alphabet: Alphabet, seed: int, references: Literal["own", "all"] = "own", actor: Network | None = None
    ) -> Judge | Twin:
        """It reads the references."""

        def one(more: int) -> Judge:
            generator = Generator().manual_seed(seed + more)
            body = self._network(alphabet.size, alphabet, seed + more, False, NOTHING, self.decoder_only)
            return Judge(body, self.copy, references=references, generator=generator)

        return Twin(one(CRITICS), one(TWINS)) if self.twin else one(CRITICS)

    def _network(
        self,
        source: int,
        alphabet: Alphabet,
        seed: int,
        pictures: bool = False,
        source_eos: int = EOS,
        alike: bool = False,
    ) -> TransformerNetwork:
        shape, generator = (self.width, self.layers, self.heads, self.dropout), Generator().manual_seed(seed)
        how = (pictures, source_eos, self.decoder_only, alike)
        return TransformerNetwork(source, alphabet, *shape, generator, *how)

    def said(self) -> str:
        """Its sizes."""
        stacks = ", decoder only" if self.decoder_only else ""
        return f"Transformer, {self.layers} x {self.width}, {self.heads} heads{stacks}"


@dataclass(frozen=True)
class HuggingFace(Architecture):
    """A model from Hugging Face by its configuration, as `seqcredit.train` and `seqcredit tune` write it down.

    A critic has the actor's body, and its first weights if it is made beside it.
    """

    config: str = ""  # config.json as one line
    generation: str = "{}"  # generation_config.json as one line
    dropout: float = option(0.0, BELOW_1)  # dropout before the readout; none within the model
    copy: int = option(64, FROM_0)  # critics: size of the word vectors of the copying critic; 0: none
    reads: Literal["source", "references", "both"] = "references"  # critics
    shared: bool = False  # critics: a head on the actor's own body, which learns from the actor's loss alone
    lora: str = ""  # peft's LoraConfig as one line of JSON: then only adapters learn, and a critic's head
    kind = "huggingface"

    @classmethod
    def of(
        cls, model: "PreTrainedModel", reads: Literal["source", "references", "both"] = "references"
    ) -> "HuggingFace":
        """The options that make such a model again."""
        plain = {key: value for key, value in model.config.to_dict().items() if key != "quantization_config"}
        config, generation = (json.dumps(each, sort_keys=True) for each in (plain, model.generation_config.to_dict()))
        return cls(config, generation, reads=reads)

    def actor(self, source: int, alphabet: Alphabet, seed: int, pictures: bool = False) -> EncoderDecoder | DecoderOnly:
        """The model with random weights; those that it was trained to come from its run."""
        require(
            not pictures, "These data hold pictures: a model from Hugging Face reads text; take LSTM or Transformer."
        )
        return policy_of(make_model(self.config, self.generation, seed, self.lora), alphabet, self.dropout)

    def critic(
        self, alphabet: Alphabet, seed: int, references: Literal["own", "all"] = "own", actor: Network | None = None
    ) -> Judge:
        """The same body, or the actor's own, with a head that starts at 0."""
        if not self.shared:
            return self.critic_like(self.actor(0, alphabet, seed + CRITICS), seed, references)
        body = self.actor(0, alphabet, seed) if actor is None else actor
        require(isinstance(body, Body), "shared is true in [critic]: the actor must be a model from Hugging Face, too.")
        assert isinstance(body, Body)
        return self.critic_like(Borrowed(body), seed, references)

    def source_critic(self, source: int, alphabet: Alphabet, seed: int, pictures: bool = False) -> Network | None:
        """Its critics are made in one way, whatever they read."""
        return None

    def critic_like(self, body: AnyBody, seed: int, references: Literal["own", "all"] = "own") -> Judge:
        """A critic with a body that knows something already."""
        generator = Generator().manual_seed(seed + CRITICS)
        return Judge(body, self.copy, self.reads, references, generator)

    def said(self) -> str:
        """Which model it is."""
        settings = json.loads(self.config)
        return f"{(settings.get('architectures') or [settings.get('model_type')])[0]} of Hugging Face"

    @property
    def encoder_decoder(self) -> bool:
        """Whether one half reads and the other writes."""
        return bool(json.loads(self.config).get("is_encoder_decoder"))

    @property
    def positions(self) -> int | None:
        """How many tokens it has positions for; None where there is no bound."""
        return positions_of(json.loads(self.config))

    @property
    def shape(self) -> dict[str, object]:
        """What tells two models apart."""
        return {"config": self.config, "copy": self.copy, "lora": self.lora, "shared": self.shared}

    @property
    def stands_alone(self) -> bool:
        """Whether it has a body of its own."""
        return not self.shared

    @property
    def compares(self) -> bool:
        """Where data have no references, it reads the source alone."""
        return self.reads != "source"

    def room(self, source: int) -> int:
        """As many as there are positions; eos needs none."""
        most = sys.maxsize if self.positions is None else self.positions
        return most - 1 if self.encoder_decoder else most - source + 1

    def unfit_actor(self) -> str | None:
        """What only a critic has."""
        return "shared is true, but only a critic has another's body; leave it to [critic]." if self.shared else None


Networks = LSTM | Transformer | HuggingFace  # all kinds


def _check_source(options: LSTM | Transformer, speaks_of_references: bool) -> None:
    """A critic that reads the source is made as an actor is: one, and without what is a matter of references."""
    said = f"{type(options).__name__}: reads is 'source', which goes with neither copy nor dueling nor twin."
    require(not (options.reads_source and (speaks_of_references or options.twin)), said)


def differences(mine: Architecture, theirs: Architecture) -> list[tuple[str, object, object]]:
    """In what two networks differ so that one cannot take over the other's weights: key, and both values."""
    other = theirs.shape
    return [(key, value, other.get(key)) for key, value in mine.shape.items() if value != other.get(key)]
