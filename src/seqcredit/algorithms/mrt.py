"""Minimum risk training: raises the expected reward within a set of sequences. Shen et al. (2016)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.profiler import record_function as part

from seqcredit.algorithms.along import through
from seqcredit.algorithms.phase import Models, Outcome, Phase, Progress
from seqcredit.algorithms.rollout import watch
from seqcredit.algorithms.sampling import Sampling
from seqcredit.credit.drawn import first_of_its_kind, risk
from seqcredit.credit.values import at_bound
from seqcredit.draws import Noise
from seqcredit.options import ABOVE_0, FROM_1, changed, option
from seqcredit.rewards.payoff import Payoff
from seqcredit.rewards.scores import final_scores, scored
from seqcredit.types import Batch, Reward


@dataclass(frozen=True)
class Mrt(Sampling):
    """Minimum risk training."""

    samples: int = option(20, FROM_1)  # sequences drawn for each sentence; duplicates count once
    sharpness: float = option(0.005, ABOVE_0)  # alpha, the power that probabilities are raised to
    with_reference: bool = True  # adds the reference to the sequences

    def without_references(self, longest: int) -> Phase:
        """Samples alone."""
        return changed(super().without_references(longest), {"with_reference": False})

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        """- the mean reward of different sequences, by pi to the power alpha, made to sum to 1 among them."""
        rollout = self.draw(models, batch, reward, noise, reference=self.with_reference)
        alphabet, bound = models.actor.alphabet, self.bound(batch)
        sides, earned = [(rollout.actor, rollout.tokens)], [rollout.worth[:, -1]]
        if self.with_reference and rollout.reference is not None:
            sides.append(rollout.reference)
            with part("reward"):
                earned.append(scored(reward, alphabet, rollout.reference[1], batch, final_scores))
        rows = len(batch.references)
        scores = _beside(earned, rows)
        counts = first_of_its_kind(_together([tokens for _, tokens in sides], rows, alphabet.eos))

        def risks(logp: Sequence[Tensor]) -> Tensor:
            """Of all sentences; eos at the bound is no choice."""
            pairs = zip(logp, (tokens for _, tokens in sides), strict=True)
            chosen = [of.masked_fill(at_bound(tokens, bound), 0).sum(1) for of, tokens in pairs]
            return risk(_beside(chosen, rows), scores, self.sharpness, counts).sum()

        with part("actor"):
            loss = through(sides, risks)
        number = torch.tensor([rows, counts.numel()], device=counts.device)
        watched = watch(rollout, alphabet) | {
            "loss": (loss.detach(), number[0]),
            "distinct": (counts.sum(), number[1]),
        }
        return self.outcome(self.samples * loss, watched, rollout, batch, noise)  # a sentence has one risk

    def bound(self, batch: Batch) -> int:
        """Tokens of a sample at the most; not fewer than those of the reference beside it."""
        own = super().bound(batch)
        return max(own, batch.references.shape[-1]) if self.with_reference else own

    def check(self, payoff: Payoff) -> str | None:
        """One sequence alone has no other to lose to, and what a reference costs a leash is not asked."""
        if self.samples + self.with_reference < 2:
            return "samples is 1, and there must be 2 sequences: set samples to 2 or more, or with_reference to true."
        if self.leash and self.leash_form == "reward" and self.with_reference:
            return "leash_form is 'reward', which the reference does not pay: set with_reference to false."
        return None


def _beside(parts: Sequence[Tensor], rows: int) -> Float[Tensor, "B n"]:
    """Numbers of sequences, those of a sentence in a row."""
    return torch.cat([part.unflatten(0, (rows, -1)) for part in parts], 1)


def _together(parts: Sequence[Tensor], rows: int, eos: int) -> Int[Tensor, "B n T"]:
    """Sequences of any length, those of a sentence in a row."""
    longest = max(tokens.shape[1] for tokens in parts)
    wide = [nn.functional.pad(tokens, (0, longest - tokens.shape[1]), value=eos) for tokens in parts]
    return torch.cat([tokens.unflatten(0, (rows, -1)) for tokens in wide], 1)
