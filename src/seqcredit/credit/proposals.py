"""Sequences near the reference, for RAML, VAML and soft Q-learning: drawn for a whole batch at once.

Sequences from elsewhere may stand beside the reference too.
"""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from seqcredit.draws import Noise
from seqcredit.types import EOS, Alphabet, lengths

Words = Literal["uniform", "likely"]


class Proposals(NamedTuple):
    """M sequences for each reference; sample 0 is the reference itself."""

    tokens: Int[Tensor, "B M L"]
    fork: Int[Tensor, "B M"]  # positions before it are the reference's own; the number of its words for sample 0


def replace_ngrams(
    references: Int[Tensor, "B L"],
    samples: int,
    alphabet: Alphabet,
    noise: Noise,
    longest: int = 4,
    words: Words = "uniform",
) -> Proposals:
    """The reference and samples - 1 copies in which one n-gram, n <= longest, is replaced by random words.

    Appendix B.1, P_ngram: n is uniform among those that fit, then the place, then the words. Lengths stay. Words that
    are "likely" are those that one would confuse: half of them are the reference's own, the others the more frequent
    the lower their id, 1 / rank as in a language whose words are numbered by frequency.
    """
    (B, L), M = references.shape, samples
    size = lengths(references, alphabet.eos).unsqueeze(-1)  # (B, 1)
    n = 1 + _below(size.clamp(min=1, max=longest).expand(B, M), noise)
    start = _below((size - n + 1).clamp(min=1), noise)
    position = torch.arange(L, device=references.device)
    inside = (position >= start.unsqueeze(-1)) & (position < (start + n).unsqueeze(-1))  # (B, M, L)
    draw = _uniform if words == "uniform" else _likely
    return _fill(references, inside, start, draw(references, inside, alphabet, noise), alphabet.eos)


def corrupt_tokens(
    references: Int[Tensor, "B L"], samples: int, alphabet: Alphabet, noise: Noise, rate: float = 0.2
) -> Proposals:
    """The reference and samples - 1 copies in which each word is replaced by a random one with probability `rate`.

    The released code's trajectories for soft Q-learning.
    """
    L, M = references.shape[1], samples
    inside = noise.uniform(M, L, device=references.device) < rate
    first = inside.long().argmax(-1).masked_fill(~inside.any(-1), L)
    return _fill(references, inside, first, _uniform(references, inside, alphabet, noise), alphabet.eos)


def beside(references: Int[Tensor, "B L"], drawn: Int[Tensor, "B n T"], eos: int = EOS) -> Proposals:
    """The reference and sequences from elsewhere, which have its own beginning as far as they agree with it."""
    width = max(references.shape[-1], drawn.shape[-1])
    reference, others = (
        torch.nn.functional.pad(x, (0, width - x.shape[-1]), value=eos) for x in (references.unsqueeze(1), drawn)
    )
    words = lengths(reference, eos)  # (B, 1)
    agreed = (others == reference).long().cumprod(-1).sum(-1)
    return Proposals(torch.cat([reference, others], 1), torch.cat([words, torch.minimum(agreed, words)], 1))


def _fill(
    references: Int[Tensor, "B L"],
    inside: Bool[Tensor, "B M L"],
    fork: Int[Tensor, "B M"],
    drawn: Int[Tensor, "B M L"],
    eos: int,
) -> Proposals:
    """What was drawn where `inside` is true, but for eos, padding and sample 0."""
    words = lengths(references, eos).unsqueeze(-1)  # (B, 1)
    is_word = torch.arange(references.shape[-1], device=references.device) < words  # (B, L)
    inside = inside & is_word.unsqueeze(1)
    inside[:, 0] = False
    tokens = torch.where(inside, drawn, references.unsqueeze(1))
    fork = torch.minimum(fork, words)
    fork[:, 0] = words[:, 0]
    return Proposals(tokens, fork)


def _uniform(
    references: Int[Tensor, "B L"], inside: Bool[Tensor, "B M L"], alphabet: Alphabet, noise: Noise
) -> Int[Tensor, "B M L"]:
    """A word, whichever."""
    words = alphabet.words(references.device)
    return words[_below(torch.full_like(inside, len(words), dtype=torch.long), noise)]


def _likely(
    references: Int[Tensor, "B L"], inside: Bool[Tensor, "B M L"], alphabet: Alphabet, noise: Noise
) -> Int[Tensor, "B M L"]:
    """Words of the reference, and words whose rank has a uniform logarithm: half and half."""
    words = alphabet.words(references.device)
    size = lengths(references, alphabet.eos).clamp(min=1)[:, None, None]  # (B, 1, 1)
    own = references.gather(1, _below(size.expand_as(inside), noise).flatten(1)).view_as(inside)
    uniform = noise.uniform(*inside.shape[1:], device=references.device)
    rank = ((len(words) + 1) ** uniform).long() - 1  # (B, M, L), from 0
    by_rank = words[rank.clamp(max=len(words) - 1)]
    return torch.where(noise.uniform(*inside.shape[1:], device=references.device) < 0.5, own, by_rank)


def _below(limit: Int[Tensor, "B *M"], noise: Noise) -> Int[Tensor, "B *M"]:
    """A uniform integer in [0, limit) for each entry."""
    uniform = noise.uniform(*limit.shape[1:], device=limit.device)
    return torch.minimum((uniform * limit).long(), limit - 1)
