"""Soft Q-learning: the first phase of VAML."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch.profiler import record_function as part

from seqcredit.algorithms.along import Along, soft_residual, terminal_error
from seqcredit.algorithms.exact import EditJudge, plain_edit
from seqcredit.algorithms.phase import Criterion, Examples, Models, Outcome, Progress, Validation
from seqcredit.algorithms.proposing import Proposal, Proposing, along, diversity, prefix_scores
from seqcredit.credit.proposals import Proposals
from seqcredit.credit.values import token_rewards
from seqcredit.draws import Noise
from seqcredit.options import FROM_0, FROM_1, NOT_NEGATIVE, UP_TO_1, option
from seqcredit.rewards.finished import finished_scores
from seqcredit.rewards.payoff import Payoff
from seqcredit.types import Batch, Reward, token_mask


@dataclass(frozen=True)
class SoftQ(Proposing):
    """Soft Q-learning: the first phase of VAML."""

    trains: ClassVar[tuple[str, ...]] = ("critic",)
    draws: ClassVar[tuple[Proposal, ...]] = ("policy", "mixed")
    soft: ClassVar[bool] = True

    decays: int = option(4, FROM_0)  # decays before the phase stops
    samples: int = option(5, FROM_1, released=6)  # M, the reference included
    proposal: Proposal = option("ngram", paper="ngram", released="corrupt")  # "policy": from P_Q; "mixed": both
    look_ahead: Literal["gradient", "constant", "target"] = "gradient"  # V of the next state
    target_rate: float = option(0.001, UP_TO_1)  # speed of the target network, for look_ahead = "target"
    judged_by: Literal["metric", "td", "exact"] = "metric"  # of greedy P_Q, residuals, or KL to the exact targets
    steps: int = option(1, FROM_1)  # residuals in a row that are added before squaring; a large number reaches the end
    exact_eos: float = option(0.0, NOT_NEGATIVE)  # weight of the squared error of Q(eos) at every prefix, known exactly
    exact: int = option(0, FROM_0)  # short validation sentences to compare Q with the exact Q* on, for edit distance

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        """Squared soft Bellman residual along sequences near the reference. Algorithm 1."""
        critic, alphabet = models.judge, models.judge.alphabet
        proposals = self.propose(batch, noise, critic)
        tokens = proposals.tokens
        scores = prefix_scores(reward, alphabet, tokens, batch)
        dropout = critic.drop(tokens.shape[-1], noise)
        later = self._later(models, batch, proposals)
        real = token_mask(tokens, alphabet.eos).sum()
        with part("critic"):
            q = along(critic, critic.read(batch), proposals, dropout, self.fused)
            later = q if self.look_ahead == "constant" else later
            loss = soft_residual(q, later, tokens, token_rewards(scores), self.tau, self.steps, self.bounded(tokens))
            watched = {"td": (loss.detach(), real)}
            if self.exact_eos:
                gains = prefix_scores(reward, alphabet, tokens, batch, finished_scores) - scores
                error = terminal_error(q, tokens, gains[..., :-1])
                watched["eos_error"] = (error.detach(), real)
                loss = loss + self.exact_eos * error
        return Outcome({"critic": loss / noise.total / tokens.shape[1]}, watched | diversity(tokens, alphabet))

    def _later(self, models: Models, batch: Batch, proposals: Proposals) -> Along | None:
        """What the target network says."""
        if self.look_ahead != "target":
            return None
        with torch.no_grad(), part("target"):
            return along(models.slow_judge, models.slow_judge.read(batch), proposals, None, self.fused)

    def follows(self, progress: Progress) -> float | None:
        """The speed of the target network."""
        return self.target_rate if self.look_ahead == "target" else None

    def criterion(self, validation: Validation) -> Criterion:
        """The best word is the same at every tau; a beam would have to know it, so search is greedy."""
        if self.judged_by == "exact":
            return validation.credit("credit_kl")
        if self.judged_by == "td":
            return validation.mean("td", still=("critic",))
        return validation.metric("critic", beam=1)

    def check(self, payoff: Payoff) -> str | None:
        """The exact Q* is known for the plain edit distance alone."""
        if self.judged_by == "exact" and not self.exact:
            return "judged_by is 'exact', but exact is 0; give it a number of sentences, such as 24."
        if self.exact and not plain_edit(payoff):
            advice = 'set metric to "edit", unfinished to "score" and scaled to true in [payoff], or exact to 0.'
            return f"exact is {self.exact}, but the exact Q is known for the plain edit distance alone; {advice}"
        return super().check(payoff)

    def judge(self, examples: Examples) -> EditJudge | None:
        """Q* of short validation sentences."""
        return EditJudge(examples, self.tau, self.bound, self.exact) if self.exact else None
