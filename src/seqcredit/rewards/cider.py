"""CIDEr-D of every prefix."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from seqcredit.errors import require
from seqcredit.rewards.ngrams import counts_in, matched, occurrences
from seqcredit.rewards.prefixes import (
    hypothesis_words,
    is_word,
    ordered_sum,
    prefix_lengths,
    prefix_sums,
    present,
    real_dtype,
    reference_lengths,
    reference_words,
)


@dataclass(frozen=True, eq=False)
class CiderD:
    """CIDEr-D in [0, 10], the mean over n-grams and references; R(empty) = 0. Make it with `from_references`.

    Vedantam et al. (2015), computed as by pycocoevalcap, whose length of a sentence is its number of bigrams.
    """

    keys: tuple[Int[Tensor, "_"], ...]  # for each n the sorted keys of all n-grams; the first, -1, is the unseen one
    idf: tuple[Float[Tensor, "_"], ...]  # for each n the weight of each n-gram
    sigma: float = 6.0
    unk_matches: bool = True
    dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        require(self.sigma > 0, f"CiderD: sigma is {self.sigma}, but it must be above 0.")

    @classmethod
    def from_references(
        cls,
        references: Int[Tensor, "D R L"],
        order: int = 4,
        sigma: float = 6.0,
        unk_matches: bool = True,
        dtype: torch.dtype | None = None,
    ) -> "CiderD":
        """Take the document frequencies from training references, all those of a sentence being one document.

        idf(g) = log D - log max(1, df(g)).
        """
        require(order >= 1, f"CiderD: order is {order}, but it must be 1 or more.")
        require(len(references) > 0, "CiderD: there are no references to count, give those of the training sentences.")
        keys: list[Tensor] = []
        idf: list[Tensor] = []
        words = reference_words(references)
        first = previous = words
        document = torch.arange(len(words), device=words.device)[:, None, None]
        for n in range(order):
            key = _key(previous, first, len(keys[0])) if n > 0 else words
            keys.append(torch.cat([key.new_full((1,), -1), key[key > 0].unique()]))
            previous = _find(keys[-1], key)
            first = first if n > 0 else previous
            pairs = (document * len(keys[-1]) + previous).unique()  # each n-gram once a document
            frequency = (pairs % len(keys[-1])).bincount(minlength=len(keys[-1]))
            frequency[0] = 1
            idf.append((len(words) / frequency.double()).log())
        return cls(tuple(keys), tuple(idf), sigma, unk_matches, dtype)

    def to(self, device: torch.device | str) -> "CiderD":
        """The same, with its tables on another device."""
        return replace(self, keys=tuple(k.to(device) for k in self.keys), idf=tuple(w.to(device) for w in self.idf))

    def prefix_scores(self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"]) -> Float[Tensor, "B T+1"]:
        """CIDEr-D of the first 0, 1, ..., T tokens.

        The k-th occurrence of an n-gram that a reference has c times adds idf^2 c to the product if k <= c, and
        idf^2 (2k - 1) to the squared norm.
        """
        order = len(self.keys)
        words, known = hypothesis_words(tokens, self.unk_matches), reference_words(references)
        counts = counts_in(words, known, order)  # (N, B, R, T)
        clipped = counts * matched(occurrences(words, order).unsqueeze(2), counts)
        product = prefix_sums(self._weights(words).unsqueeze(2) * clipped)  # (N, B, R, T+1)
        norm = self._squared_norms(words, is_word(tokens)).unsqueeze(2)  # (N, B, 1, T+1)
        flat = known.flatten(0, 1)
        known_norm = self._squared_norms(flat, is_word(flat))[..., -1:].unflatten(1, known.shape[:2])  # (N, B, R, 1)
        cosine = (product / (norm.sqrt() * known_norm.sqrt())).masked_fill(product == 0, 0)

        size, known_size = prefix_lengths(tokens).unsqueeze(1), reference_lengths(references).unsqueeze(-1)
        gap = (size - known_size).to(cosine.dtype)  # in bigrams the same; where one side is empty the cosine is 0
        each = ordered_sum(cosine, 0) / order * torch.exp(-(gap**2) / (2 * self.sigma**2))  # (B, R, T+1)
        return 10 * ordered_sum(each, 1) / present(references).sum(1, keepdim=True)  # an absent reference adds 0

    def _weights(self, words: Int[Tensor, "M T"]) -> Float[Tensor, "N M T"]:
        """idf^2 of the n-gram that ends at each position."""
        first = previous = _find(self.keys[0], words)
        found = [first]
        for keys in self.keys[1:]:
            previous = _find(keys, _key(previous, first, len(self.keys[0])))
            found.append(previous)
        idf = torch.stack([table[index] for table, index in zip(self.idf, found, strict=True)])
        return idf.to(real_dtype(self.dtype)) ** 2

    def _squared_norms(self, words: Int[Tensor, "M T"], real: Tensor) -> Float[Tensor, "N M T+1"]:
        """Squared norm of the tf-idf vector of each prefix."""
        nth = occurrences(words, len(self.keys))
        counted = (nth > 0) & real  # neither before the first n-gram nor after the last word
        return prefix_sums(self._weights(words) * (2 * nth - 1) * counted)


def _key(previous: Int[Tensor, "*B T"], first: Int[Tensor, "*B T"], size: int) -> Int[Tensor, "*B T"]:
    """Key of an n-gram from the index of the (n-1)-gram before its last word, and that word's; -1 if one is unseen."""
    before = pad(previous, (1, 0))[..., :-1]
    return (before * size + first).masked_fill((before == 0) | (first == 0), -1)


def _find(keys: Int[Tensor, "K"], wanted: Int[Tensor, "*B T"]) -> Int[Tensor, "*B T"]:
    """Index of each key, 0 for one that is not there."""
    index = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
    return index.masked_fill(keys[index] != wanted, 0)
