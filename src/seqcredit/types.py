"""The words that every part of seqcredit shares: token ids, padding, references, batches, and what a reward is.

Ids are chosen so that the action set of the paper, W = words + unk + eos, is exactly `0 .. V-1`:

    0           eos
    1           unk
    2 .. V-1    words

There is no id for padding: whatever follows the first eos is padding, and it is filled with eos. A model keeps its own
vector for bos, which is never an id. So neither padding nor bos can enter a softmax, a soft value, a mean over words or
an entropy.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

EOS = 0
UNK = 1
FIRST_WORD = 2
ABSENT = -1  # fills a reference that a sentence does not have, where another sentence of the batch has more references
Json = dict[str, Any]  # a table of JSON or TOML, whose values are checked where they are read


@runtime_checkable
class Reward(Protocol):
    """How good is every prefix?"""

    def prefix_scores(self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"]) -> Float[Tensor, "B T+1"]:
        """R of the first 0, 1, ..., T tokens; column 0 is R(empty), and after eos the last score repeats."""
        ...


class Batch(NamedTuple):
    """Sentences to learn from. Only a model's `encode` looks inside `source`: ids (B, S), or features of images."""

    source: Tensor
    references: Int[Tensor, "B R L"]  # the first is the one that a model learns from, the others serve the reward


def lengths(tokens: Int[Tensor, "*B T"]) -> Int[Tensor, "*B"]:
    """Number of words before the first eos; T where there is none."""
    return (tokens == EOS).cumsum(-1).eq(0).sum(-1)


def token_mask(tokens: Int[Tensor, "*B T"]) -> Bool[Tensor, "*B T"]:
    """True up to the first eos, which is included; False on padding."""
    ended = (tokens == EOS).cumsum(-1)
    return (ended - (tokens == EOS).long()) == 0


def pad(sequences: Sequence[Sequence[int]], width: int | None = None) -> Int[Tensor, "B T"]:
    """Word ids as one tensor, each closed with eos and filled up with eos."""
    width = max((len(s) for s in sequences), default=0) + 1 if width is None else width
    tokens = torch.full((len(sequences), width), EOS)
    for row, sequence in zip(tokens, sequences, strict=True):
        row[: len(sequence)] = torch.tensor(sequence, dtype=torch.long)
    return tokens


def pad_references(references: Sequence[Sequence[Sequence[int]]]) -> Int[Tensor, "B R L"]:
    """References of each sentence as one tensor; a missing one is filled with ABSENT."""
    width = max((len(r) for group in references for r in group), default=0) + 1
    out = torch.full((len(references), max((len(group) for group in references), default=0), width), ABSENT)
    for b, group in enumerate(references):
        out[b, : len(group)] = pad(group, width)
    return out
