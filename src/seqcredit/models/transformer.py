"""A small Transformer: an encoder reads and a decoder writes, or one stack does both. Vaswani et al. (2017).

Every part of a layer sees normalised states, positions are rotations of queries and keys (Su et al., 2021), there are
no biases, and the readout is the embedding itself.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn

from seqcredit.draws import Noise
from seqcredit.errors import require
from seqcredit.models.policy import Body, Dropout, Linear, Tensors
from seqcredit.types import ABSENT, EOS, Alphabet, token_mask

INITIAL = 0.02  # standard deviation of the first weights
PREFIX = 4  # states that a picture is projected into
SLOWEST = 1e-4  # rotary positions: angles a position, from 1 down to nearly this

Turn = tuple[Tensor, Tensor]  # cosines and sines of positions


@dataclass(frozen=True)
class Source(Tensors):
    """A source that has been read."""

    states: Float[Tensor, "B S D"]
    mask: Bool[Tensor, "B S"]  # False on padding
    ids: Int[Tensor, "B S"]  # what stands there; ABSENT in a picture
    places: Float[Tensor, "B layers 2 H S d"]  # what each layer of the decoder looks at: keys and values


@dataclass(frozen=True)
class Past(Tensors):
    """A decoder between two tokens."""

    places: Float[Tensor, "B layers 2 H t d"]  # of the tokens before; in a single stack the source's come first
    attention: Float[Tensor, "B S"]  # weights of the source in the last layer at the last step, the mean of the heads


class TransformerNetwork(Body[Source, Past]):
    """Scores every action after every prefix, given a source of ids or the features of a picture.

    `source` is the number of source ids, or the width of the features. Ids after the first `source_eos` are padding,
    and so is ABSENT. A picture is projected into a few states, without an encoder. With `decoder_only` the source
    stands before the tokens in one stack, where its places see each other. With `alike` it has the tokens' embedding.

    Dropout is in the caller's hands: `drop` draws it, `score` and `step` take it, so that sampling and the gradient see
    the same network. It falls on the words and on every part of the decoder's layers; there is none in reading.
    """

    def __init__(
        self,
        source: int,
        alphabet: Alphabet | int,
        width: int = 256,
        layers: int = 3,
        heads: int = 4,
        dropout: float = 0.1,
        generator: Generator | None = None,
        pictures: bool = False,
        source_eos: int = EOS,
        decoder_only: bool = False,
        alike: bool = False,
    ) -> None:
        super().__init__()
        self.alphabet = Alphabet.of(alphabet)
        size = self.alphabet.size
        require(width % (2 * heads) == 0, f"width = {width}, heads = {heads}: choose a width that 2 x heads divides")
        require(not alike or source == size, f"source = {source}: what reads the {size} ids that it writes has {size}")
        self.head, self.dropout, self.source_eos, self.decoder_only = width // heads, dropout, source_eos, decoder_only
        self.drops, self.recomputes = 1 + layers * (2 if decoder_only else 3), False  # parts that have dropout
        apart = not (pictures or decoder_only)
        self.picture = nn.Linear(source, PREFIX * width, bias=False) if pictures else None
        self.source_embedding = None if pictures or alike else nn.Embedding(source, width)
        self.encoder = nn.ModuleList(Layer(width, heads) for _ in range(layers if apart else 0))
        self.source_norm = None if decoder_only else nn.LayerNorm(width, bias=False)
        self.embedding = nn.Embedding(size, width)
        self.bos = nn.Parameter(torch.empty(width))
        self.decoder = nn.ModuleList(Layer(width, heads, cross=not decoder_only) for _ in range(layers))
        self.norm = nn.LayerNorm(width, bias=False)
        _initialise(self, INITIAL / math.sqrt(2 * layers), generator)

    @property
    def width(self) -> int:
        """Of features."""
        return len(self.bos)

    def encode(self, source: Int[Tensor, "B S"] | Float[Tensor, "B F"]) -> Source:
        """Read the source. Padding leaves no trace."""
        if self.picture is not None:
            x = self.picture(source.to(self.bos.dtype)).unflatten(-1, (PREFIX, -1))
            ids, mask = (torch.full(x.shape[:2], value, device=x.device) for value in (ABSENT, True))
        else:
            ids, mask = source, token_mask(source, self.source_eos) & (source != ABSENT)
            mask[:, 0] |= ~mask.any(1)  # attention needs a place, though there is no source
            x = (self.source_embedding or self.embedding)(source.clamp(min=0))
        position = mask.cumsum(1) - mask.sum(1, keepdim=True) - 1  # backwards from bos, which is at 0
        turn, places = rotation(position, self.head, x.dtype), []
        for layer in self.decoder if self.decoder_only else self.encoder:
            x, own, _ = self.through(layer, x, turn, mask[:, None, None])
            places.append(own)
        x = (self.source_norm or self.norm)(x)
        crossed = [layer.cross.places(x) for layer in cast(Iterable[Layer], self.decoder) if layer.cross is not None]
        return Source(x, mask, ids, torch.stack(crossed or places, 1))

    def start(self, memory: Source) -> Past:
        """Before the first token."""
        before = memory.mask.shape[1] if self.decoder_only else 0
        return Past(memory.places[..., :before, :], memory.states.new_zeros(memory.mask.shape))

    def advance(
        self, memory: Source, state: Past, token: Int[Tensor, " B"] | None, dropout: Float[Tensor, "B KD"] | None = None
    ) -> tuple[Float[Tensor, "B D"], Past]:
        """What the readout sees after `token`, and the state then."""
        word = self.bos.expand(memory.rows, -1) if token is None else self.embedding(token)
        kept = None if dropout is None else dropout.unsqueeze(1)
        x, places, queries = self._write(memory, state, word.unsqueeze(1), kept)
        energies = (queries @ memory.places[:, -1, 0].mT).squeeze(2) / math.sqrt(self.head)  # (B, H, S)
        attention = energies.masked_fill(~memory.mask.unsqueeze(1), -torch.inf).softmax(-1).mean(1)
        return x.squeeze(1), Past(torch.stack(places, 1), attention)

    def hidden(
        self, memory: Source, tokens: Int[Tensor, "B T"], dropout: Dropout | None = None
    ) -> Float[Tensor, "B T D"]:
        """What the readout sees at every position."""
        words = torch.cat([self.bos.expand(len(tokens), 1, -1), self.embedding(tokens[:, :-1])], 1)
        kept = None if dropout is None else dropout.along(tokens.shape[1])
        return self._write(memory, self.start(memory), words, kept)[0]

    def scored(self, features: Float[Tensor, "*B D"]) -> Linear:
        """By the embedding."""
        return Linear(features, self.embedding.weight)

    def drop(self, length: int, noise: Noise) -> Dropout | None:
        """Inverted dropout for all places in the decoder, side by side; None where there is none to do."""
        if not self.training or self.dropout == 0:
            return None
        return Dropout.drawn(self.dropout, noise, length, self.drops * self.width, self.bos)

    def _write(
        self, memory: Source, state: Past, words: Float[Tensor, "B T D"], kept: Tensor | None
    ) -> tuple[Float[Tensor, "B T D"], list[Tensor], Float[Tensor, "B H T d"]]:
        """The decoder over words after a state, several after the first alone: features, all places, last queries."""
        t, new = state.places.shape[4] - (memory.mask.shape[1] if self.decoder_only else 0), words.shape[1]
        turn, seen = rotation(torch.arange(t, t + new, device=words.device), self.head, words.dtype), None
        if self.decoder_only:
            earlier = memory.mask.new_ones(len(words), new, t + new).tril(t)
            seen = torch.cat([memory.mask.unsqueeze(1).expand(-1, new, -1), earlier], 2).unsqueeze(1)
        masks = [] if kept is None else [*kept.chunk(self.drops, -1)]
        x, queries, places, each = _dropped(words, iter(masks[:1])), words, [], self.drops // len(self.decoder)
        for i, layer in enumerate(self.decoder):
            past, source = state.places[:, i], (memory.places[:, i], memory.mask[:, None, None])
            x, own, queries = self.through(layer, x, turn, seen, past, source, masks[1 + i * each :][:each])
            places.append(own)
        return self.norm(x), places, queries


class Layer(nn.Module):
    """Attention to the places of this stack, to the source if that has another stack, and an MLP."""

    def __init__(self, width: int, heads: int, cross: bool = False) -> None:
        super().__init__()
        self.own_norm, self.own = nn.LayerNorm(width, bias=False), Attention(width, heads)
        self.cross_norm = nn.LayerNorm(width, bias=False) if cross else nn.Identity()
        self.cross = Attention(width, heads) if cross else None
        self.norm = nn.LayerNorm(width, bias=False)
        self.inner, self.out = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        turn: Turn,
        seen: Bool[Tensor, "B 1 #T P"] | None,
        past: Float[Tensor, "B 2 H t d"] | None = None,
        source: tuple[Tensor, Tensor] | None = None,
        masks: Iterable[Tensor] = (),
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B 2 H P d"], Float[Tensor, "B H T d"]]:
        """The states after this layer, all places of this stack, and the last queries."""
        normed, kept = self.own_norm(x), iter(masks)
        queries, places = self.own.queries(normed, turn), self.own.places(normed, turn)
        places = places if past is None else torch.cat([past, places], 3)
        x = x + _dropped(self.own(queries, places, seen), kept)
        if self.cross is not None and source is not None:
            queries = self.cross.queries(self.cross_norm(x))
            x = x + _dropped(self.cross(queries, *source), kept)
        mlp = self.out(nn.functional.gelu(self.inner(self.norm(x))))
        return x + _dropped(mlp, kept), places, queries


class Attention(nn.Module):
    """softmax(Q K^T / sqrt(d)) V of each head, and a linear layer over all heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.place = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def queries(self, x: Float[Tensor, "B T D"], turn: Turn | None = None) -> Float[Tensor, "B H T d"]:
        """What states look for."""
        queries = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return queries if turn is None else rotate(queries, turn)

    def places(self, x: Float[Tensor, "B S D"], turn: Turn | None = None) -> Float[Tensor, "B 2 H S d"]:
        """Keys and values of states."""
        places = self.place(x).unflatten(-1, (2, self.heads, -1)).permute(0, 2, 3, 1, 4)
        return places if turn is None else torch.stack([rotate(places[:, 0], turn), places[:, 1]], 1)

    def forward(
        self, queries: Float[Tensor, "B H T d"], places: Float[Tensor, "B 2 H P d"], seen: Tensor | None
    ) -> Float[Tensor, "B T D"]:
        """What each query finds at the places that it sees; None: at its own and all before."""
        causal = seen is None and queries.shape[2] > 1  # a single one stands at the last place
        found = nn.functional.scaled_dot_product_attention(queries, places[:, 0], places[:, 1], seen, is_causal=causal)
        return self.out(found.transpose(1, 2).flatten(2))


def rotation(positions: Int[Tensor, "*B T"], width: int, dtype: torch.dtype) -> Turn:
    """By how much vectors of some width are turned at each position, their pairs of numbers at different speeds."""
    pairs = torch.arange(0, width, 2, dtype=torch.promote_types(dtype, torch.float32), device=positions.device)
    angles = positions[..., None, :, None] * SLOWEST ** (pairs / width)  # (*B, 1, T, width / 2)
    return angles.cos(), angles.sin()


def rotate(x: Float[Tensor, "B H T d"], turn: Turn) -> Float[Tensor, "B H T d"]:
    """Turned vectors, whose products depend on the difference of their positions alone."""
    (cos, sin), (a, b) = turn, x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x.dtype)


def _dropped(part: Tensor, masks: Iterator[Tensor]) -> Tensor:
    """What is left of a part; each takes the next mask, if there are any."""
    return part if (mask := next(masks, None)) is None else part * mask


@torch.no_grad()
def _initialise(module: nn.Module, last: float, generator: Generator | None) -> None:
    """Weights of matrices and bos normal; the `last` standard deviation is that of what is added to the states."""
    for name, weight in module.named_parameters():
        if "norm" not in name:
            device = weight.device if generator is None else generator.device
            fresh = torch.empty(weight.shape, dtype=weight.dtype, device=device)
            weight.copy_(fresh.normal_(0, last if name.endswith("out.weight") else INITIAL, generator=generator))
