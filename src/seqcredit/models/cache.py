"""Memory and state of Hugging Face models: encoded sources, and key-value caches as rows that a search selects."""

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seqcredit.errors import UserError
from seqcredit.models.policy import Tensors

if TYPE_CHECKING:
    from transformers import Cache
    from transformers.cache_utils import DynamicLayer


@dataclass(frozen=True)
class Cached:
    """A key-value cache of transformers as rows; `t` tokens were written after what had been read."""

    cache: "Cache"
    rows: int
    t: int = 0

    def select(self, index: Int[Tensor, " N"]) -> "Cached":
        """The rows at `index`; those that were there stay as they are."""
        chosen = _copied(self.cache)
        chosen.batch_select_indices(index)
        return Cached(chosen, len(index), self.t)

    def join(self, other: "Cached") -> "Cached":
        """These rows, then others."""
        joined = _copied(self.cache)
        for mine, theirs in zip(_layers(joined), _layers(other.cache), strict=True):
            if mine.keys is not None and theirs.keys is not None:
                mine.keys = torch.cat([mine.keys, theirs.keys])
            if mine.values is not None and theirs.values is not None:
                mine.values = torch.cat([mine.values, theirs.values])
        return Cached(joined, self.rows + other.rows, self.t)

    def after(self, tokens: int) -> "Cached":
        """A copy to go on with, which will be so many tokens longer."""
        return Cached(_copied(self.cache), self.rows, self.t + tokens)


@dataclass(frozen=True)
class Encoded(Tensors):
    """A source that an encoder has read."""

    states: Float[Tensor, "B S D"]
    mask: Bool[Tensor, "B S"]  # False on padding
    ids: Int[Tensor, "B S"]


@dataclass(frozen=True)
class Prompt:
    """A source that a decoder has read, padded on the left, so that what follows comes right after it."""

    source: Encoded
    cached: Cached

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.source.rows

    @property
    def states(self) -> Float[Tensor, "B S D"]:
        """Of all places."""
        return self.source.states

    @property
    def mask(self) -> Bool[Tensor, "B S"]:
        """False on padding."""
        return self.source.mask

    @property
    def ids(self) -> Int[Tensor, "B S"]:
        """What was read."""
        return self.source.ids

    def select(self, index: Int[Tensor, " N"]) -> "Prompt":
        """The rows at `index`, in its order."""
        return Prompt(self.source.select(index), self.cached.select(index))

    def join(self, other: "Prompt") -> "Prompt":
        """These rows, then others."""
        return Prompt(self.source.join(other.source), self.cached.join(other.cached))


def _copied(cache: "Cache") -> "Cache":
    """A cache of its own with the same tensors: to go on from one leaves the other as it is."""
    from transformers import DynamicCache, EncoderDecoderCache

    if isinstance(cache, EncoderDecoderCache):
        both = EncoderDecoderCache(_copied(cache.self_attention_cache), _copied(cache.cross_attention_cache))
        both.is_updated = dict(cache.is_updated)
        return both
    if type(cache) is not DynamicCache:
        raise UserError(f"A cache of the kind {type(cache).__name__} cannot be shared: write a Policy for this model.")
    other = copy.copy(cache)
    other.layers = [copy.copy(layer) for layer in cache.layers]
    return other


def _layers(cache: "Cache") -> list["DynamicLayer"]:
    from transformers import EncoderDecoderCache
    from transformers.cache_utils import DynamicLayer

    if isinstance(cache, EncoderDecoderCache):
        return [*_layers(cache.self_attention_cache), *_layers(cache.cross_attention_cache)]
    return [layer for layer in cache.layers if isinstance(layer, DynamicLayer)]
