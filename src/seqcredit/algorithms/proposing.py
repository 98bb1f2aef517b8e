"""Learning from sequences near the reference: what RAML, VAML and soft Q-learning share."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.profiler import record_function as part

from seqcredit.algorithms.along import Along
from seqcredit.algorithms.phase import Phase, Sums
from seqcredit.credit.edits import draw_edits
from seqcredit.credit.proposals import Proposals, beside, corrupt_tokens, replace_ngrams
from seqcredit.credit.tables import share
from seqcredit.credit.values import at_bound
from seqcredit.draws import Noise
from seqcredit.errors import require
from seqcredit.models.policy import Branching, Dropout, M, Network, Policy, S, repeat, reshaped
from seqcredit.options import ABOVE_0, FROM_1, SHARE, option
from seqcredit.rewards import scores
from seqcredit.rewards.edit import EditDistance
from seqcredit.rewards.payoff import Payoff
from seqcredit.search import sample
from seqcredit.types import Alphabet, Batch, Reward, lengths

LONGER = 5  # tokens that a sequence drawn from P_Q may have over the longest reference of its batch
Proposal = Literal["ngram", "corrupt", "exact", "policy", "mixed"]


@dataclass(frozen=True)
class Proposing(Phase):
    """What phases that learn from sequences near the reference have."""

    learns_references: ClassVar[bool] = True
    draws: ClassVar[tuple[Proposal, ...]] = ()  # kinds of proposals that it can draw from a Q
    why_not: ClassVar[str] = "its weights are those of one kind of proposal"

    tau: float = option(0.4, ABOVE_0)  # temperature of the targets
    samples: int = option(5, FROM_1)  # M, the reference included
    proposal: Proposal = "ngram"  # "exact": from P_R, of the edit distance; "policy": from P_Q; "mixed": half and half
    longest: int = option(4, FROM_1)  # maximum words of the replaced n-gram
    words: Literal["uniform", "likely"] = "uniform"  # replacement words: any, or likely ones
    corruption: float = option(0.2, SHARE)  # share of corrupted words
    bound: int = option(51, FROM_1)  # T: maximum tokens of a sequence, eos included

    def __post_init__(self) -> None:
        super().__post_init__()
        problem = self._unfit()
        require(problem is None, f"{type(self).__name__}: {problem}")

    def _unfit(self) -> str | None:
        """What does not go together."""
        if self.proposal in ("policy", "mixed") and self.proposal not in self.draws:
            allowed = ", ".join(("ngram", "corrupt", "exact", *self.draws))
            return f"proposal is {self.proposal!r}, but {self.why_not}; choose one of {allowed}."
        if self.proposal == "exact" and self.samples < 2:
            return "proposal is 'exact', which are samples beside the reference: set samples to 2 or more."
        if self.words == "likely" and self.proposal in ("corrupt", "exact", "policy"):
            why_not = f"a proposal of {self.proposal!r} replaces no n-grams"
            return f"words is 'likely', but {why_not}; choose ngram or leave `words` out."
        return None

    def check(self, payoff: Payoff) -> str | None:
        """P_R itself is known for one pay-off."""
        if self.proposal != "exact" or (payoff.metric, payoff.scaled, payoff.references) == ("edit", True, "own"):
            return None
        advice = "set the pay-off's metric to 'edit', references to 'own', and scaled to true."
        return f"proposal is 'exact', but P_R can only be drawn from for the number of edits to one reference: {advice}"

    @property
    def judged_tau(self) -> float | None:
        """The temperature."""
        return self.tau

    def longest_for(self, words: int) -> int:
        """The bound, whatever the reference is."""
        return self.bound

    def propose(self, batch: Batch, noise: Noise, model: Network) -> Proposals:
        """M sequences for each reference; `model` is the critic where some are drawn from its soft policy."""
        references, M, alphabet = batch.references[:, 0], self.samples, model.alphabet
        with part("sampling"):
            if self.proposal == "corrupt":
                return corrupt_tokens(references, M, alphabet, noise, self.corruption)
            if self.proposal == "policy":
                return beside(references, self._drawn(model, batch, M - 1, noise), alphabet.eos)
            if self.proposal == "exact":
                bound = max(self.bound, references.shape[1])
                return beside(references, draw_edits(references, M - 1, alphabet, noise, self.tau, bound), alphabet.eos)
            if self.proposal == "ngram":
                return replace_ngrams(references, M, alphabet, noise, self.longest, self.words)
            near = replace_ngrams(references, M - M // 2, alphabet, noise, self.longest, self.words)
            far = beside(references, self._drawn(model, batch, M // 2, noise), alphabet.eos)
            wide = (0, far.tokens.shape[-1] - near.tokens.shape[-1])
            tokens = nn.functional.pad(near.tokens, wide, value=alphabet.eos)
            return Proposals(torch.cat([tokens, far.tokens[:, 1:]], 1), torch.cat([near.fork, far.fork[:, 1:]], 1))

    @torch.no_grad()
    def _drawn(self, critic: Policy[M, S], batch: Batch, count: int, noise: Noise) -> Int[Tensor, "B n T"]:
        """Sequences from the soft policy P_Q, no longer than a few words over the longest reference of the batch."""
        bound, device = min(self.bound, batch.references.shape[-1] + LONGER), batch.references.device
        uniform = noise.repeated(count).uniform(bound, device=device)
        tokens = sample(critic, repeat(critic.read(batch), count, device), bound, uniform, temperature=self.tau)
        filled = nn.functional.pad(tokens, (0, bound - tokens.shape[1]), value=critic.alphabet.eos)
        return filled.unflatten(0, (-1, count))

    def bounded(self, tokens: Int[Tensor, "B M L"]) -> Bool[Tensor, "B M L"]:
        """States at the length bound; a longer reference moves the bound of its batch."""
        return at_bound(tokens, max(self.bound, tokens.shape[-1]))


def along(
    model: Policy[M, S], memory: M, proposals: Proposals, dropout: Dropout | None, fused: bool, shared: bool = True
) -> Along:
    """Scores along M sequences that share one encoder pass, one dropout and, where possible, their beginnings."""
    tokens, fork = proposals
    if fused and shared and isinstance(model, Branching):
        scores = model.branch(memory, tokens, fork, dropout)
        if scores is not None:
            return Along.of(model, scores, packing=share(tokens, fork, model.alphabet.eos))
    M = tokens.shape[1]
    copies = torch.arange(len(tokens), device=tokens.device).repeat_interleave(M)
    dropped = None if dropout is None else dropout.select(copies)
    scores = model.score(memory.select(copies), tokens.flatten(0, 1), dropped)
    return Along.of(model, reshaped(scores, lambda of: of.unflatten(0, (-1, M))), fused)


def prefix_scores(
    reward: Reward,
    alphabet: Alphabet,
    tokens: Int[Tensor, "B M L"],
    batch: Batch,
    of: scores.Question = scores.prefix_scores,
) -> Float[Tensor, "B M *P"]:
    """Prefix scores of several sequences for each sentence, or what else is asked of the reward."""
    M = tokens.shape[1]
    with part("reward"):
        found = scores.scored(reward, alphabet, tokens.flatten(0, 1), batch.repeated(M), of)
    return found.unflatten(0, (-1, M))


def diversity(tokens: Int[Tensor, "B M L"], alphabet: Alphabet) -> Sums:
    """Sequences that are not there already, and edit distance of neighbours over the longer one's length."""
    tokens = alphabet.as_words(tokens)
    B, M, _ = tokens.shape
    same = (tokens.unsqueeze(1) == tokens.unsqueeze(2)).all(-1)  # (B, M, M)
    one, other = tokens.flatten(0, 1), tokens.roll(1, 1).flatten(0, 1)
    distance = -EditDistance().prefix_scores(one, other.unsqueeze(1))[:, -1]
    longer = torch.maximum(lengths(one), lengths(other)).clamp(min=1)
    count = torch.tensor(B * M, device=tokens.device)
    return {"distinct": ((~same.tril(-1).any(-1)).sum(), count), "diversity": ((distance / longer).sum(), count)}
