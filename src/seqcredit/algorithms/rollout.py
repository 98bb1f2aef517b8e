"""Sequences sampled from the actor, with their rewards and the actor's scores along them."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.profiler import record_function as part

from seqcredit.algorithms.along import Along, Side
from seqcredit.algorithms.phase import Phase, Sums, count
from seqcredit.credit.values import at_bound
from seqcredit.draws import Noise
from seqcredit.models.policy import Dropout, M, Network, Policy, S, Scores, repeat, reshaped
from seqcredit.options import changed
from seqcredit.rewards.bleu import corpus_counts
from seqcredit.rewards.finished import finished_scores
from seqcredit.rewards.prefixes import present
from seqcredit.rewards.scores import scored
from seqcredit.search import sample
from seqcredit.search.sample import Given
from seqcredit.types import EOS, Alphabet, Batch, Reward, lengths, token_mask


class Rollout(NamedTuple):
    """Samples of the actor, several for each sentence of a batch."""

    tokens: Int[Tensor, "B T"]
    batch: Batch  # whose rows they belong to
    forced: Bool[Tensor, "B T"]
    scores: Float[Tensor, "B T+1"]  # R of every prefix
    ends: Float[Tensor, "B T"] | None  # what eos would add to it, if anybody asks
    actor: Along
    reference: Side | None  # the actor's, along the first references, if anybody asks
    start: Along | None = None  # what the actor was when the phase began, for a leash
    costs: Float[Tensor, "B T"] | None = None  # what a leash takes off the tokens' rewards

    @property
    def worth(self) -> Float[Tensor, "B scores"]:
        """R of every prefix, less what a leash has cost on the way."""
        return self.scores if self.costs is None else self.scores - nn.functional.pad(self.costs.cumsum(1), (1, 0))

    @property
    def free(self) -> Bool[Tensor, "B T"]:
        """Tokens that were chosen: no padding, and no eos at the bound."""
        return token_mask(self.tokens, self.actor.alphabet.eos) & ~self.forced

    def total(self, numbers: Float[Tensor, "B T"]) -> tuple[Tensor, Tensor]:
        """The sum of numbers over the tokens that were chosen, and how many these are."""
        free = self.free
        return numbers.masked_fill(~free, 0).sum(), free.sum()


class Bounded(Phase):
    """What phases share whose samples are a little longer than the references, at the most."""

    extra_length: int  # options, whose defaults differ
    longest_sample: int

    def without_references(self, longest: int) -> Phase:
        """No likelihood of references, and samples whose length none bounds."""
        return changed(self, {"mle_weight": 0.0, "extra_length": longest, "longest_sample": longest})

    def longest_for(self, words: int) -> int:
        """Some tokens over the longest reference of a batch."""
        return min(words + self.extra_length, self.longest_sample)

    def bound(self, batch: Batch) -> int:
        """Tokens of a sample at the most."""
        return self.longest_for(batch.references.shape[-1] - 1)


class Asked(NamedTuple):
    """What a rollout is to hold."""

    samples: int
    bound: int
    fused: bool
    ends: bool
    reference: bool
    given: Given | None = None  # tokens of the samples that are not drawn


def roll_out(actor: Network, batch: Batch, reward: Reward, noise: Noise, asked: Asked) -> Rollout:
    """Draw sequences from the actor; the same dropout gives the samples, pi in the targets and the actor's gradient."""
    alphabet = actor.alphabet
    several, whole = noise.repeated(asked.samples), batch.repeated(asked.samples)
    device = batch.references.device
    dropout = actor.drop(asked.bound, several)
    with part("actor"):
        memory = actor.read(batch)
    with part("sampling"):
        uniform = several.uniform(asked.bound, device=device)
        several_memories = repeat(memory, asked.samples, device)
        tokens = sample(actor, several_memories, asked.bound, uniform, dropout, 1.0, asked.given)
    also = batch.own(alphabet.eos) if asked.reference else None
    dropped_too = None if also is None else actor.drop(batch.references.shape[-1], noise)
    with part("actor"):
        drawn, known = _score(actor, memory, (tokens, also), (dropout, dropped_too), asked.samples)
    with torch.no_grad(), part("reward"):
        scores = scored(reward, alphabet, tokens, whole)
        ends = (scored(reward, alphabet, tokens, whole, finished_scores) - scores)[:, :-1] if asked.ends else None
    reference = None if known is None or also is None else (Along.of(actor, known, asked.fused), also)
    forced, says = at_bound(tokens, asked.bound), Along.of(actor, drawn, asked.fused)
    return Rollout(tokens, whole, forced, scores, ends, says, reference)


def _score(
    actor: Policy[M, S],
    memory: M,
    tokens: tuple[Tensor, Tensor | None],
    dropout: tuple[Dropout | None, Dropout | None],
    samples: int,
) -> tuple[Scores, Scores | None]:
    """Scores along samples and along references, if there are any, in one pass of the decoder."""
    drawn, known = tokens
    several = repeat(memory, samples, drawn.device)
    if known is None:
        return actor.score(several, drawn, dropout[0]), None
    longer, eos = max(drawn.shape[1], known.shape[1]), actor.alphabet.eos
    both = torch.cat([nn.functional.pad(side, (0, longer - side.shape[1]), value=eos) for side in (drawn, known)])
    first, second = dropout
    dropped = None if first is None or second is None else first.fit(longer).join(second.fit(longer))
    scores = actor.score(several.join(memory), both, dropped)
    of_drawn = reshaped(scores, lambda of: of[: len(drawn), : drawn.shape[1]])
    return of_drawn, reshaped(scores, lambda of: of[len(drawn) :, : known.shape[1]])


def spread(returns: Float[Tensor, "B T"], real: Bool[Tensor, "B T"]) -> Sums:
    """What the variance of the returns is made of, so that one can tell how much of it a critic explains."""
    known = returns.masked_fill(~real, 0)
    return {"return": (known.sum(), real.sum()), "return_square": (known.square().sum(), real.sum())}


def watch(rollout: Rollout, alphabet: Alphabet) -> Sums:
    """What is worth watching of samples."""
    tokens, references = rollout.tokens, rollout.batch.references
    words = lengths(tokens, alphabet.eos)
    unknown = torch.zeros_like(words) if alphabet.unk is None else tokens == alphabet.unk
    return {
        "reward": (rollout.scores[:, -1].sum(), count(tokens)),
        "length_ratio": _length_ratio(words, references[:, :1], alphabet.eos),
        "repeated": (repeated_bigrams(tokens, alphabet.eos), (words - 1).clamp(min=0).sum()),
        "unknown": (unknown.sum(), words.sum()),
        **_bleu_counts(alphabet.as_words(tokens), alphabet.as_words(references)),
    }


def _length_ratio(words: Int[Tensor, " B"], own: Int[Tensor, "B r L"], eos: int) -> tuple[Tensor, Tensor]:
    """Words of samples, and of their own references, where they have one."""
    there = present(own)
    return (words.unsqueeze(1) * there).sum(), (lengths(own, eos) * there).sum()


def _bleu_counts(tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"]) -> Sums:
    """What the corpus BLEU of the samples is made of; a sentence without references has no part in it."""
    if not references.shape[1]:
        return {}
    without = ~present(references).any(1, keepdim=True)
    tokens, references = tokens.masked_fill(without, EOS), references.masked_fill(without.unsqueeze(-1), EOS)
    matches, totals, closest = corpus_counts(tokens, references)
    precisions = {f"precision_{n}": pair for n, pair in enumerate(zip(matches, totals, strict=True), 1)}
    return {**precisions, "closeness": (totals[0], closest)}


def repeated_bigrams(tokens: Int[Tensor, "B T"], eos: int) -> Tensor:
    """Number of bigrams that stand earlier in the same sequence: a gamed reward shows here."""
    words = token_mask(tokens, eos) & (tokens != eos)
    pair = torch.stack([tokens[:, :-1], tokens[:, 1:]], -1)  # (B, T - 1, 2)
    real = words[:, 1:]
    same = (pair.unsqueeze(1) == pair.unsqueeze(2)).all(-1) & real.unsqueeze(1) & real.unsqueeze(2)
    return same.tril(-1).any(-1).sum()
