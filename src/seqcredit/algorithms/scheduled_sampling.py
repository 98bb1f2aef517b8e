"""Scheduled sampling: MLE after words of the actor's own. Bengio et al. (2015).

The actor walks along the reference word by word, and hears its own word now and then in the place of the right one.
What is heard is a constant, as in the paper, so that a second pass over it has the gradient of the walk.
"""

import math
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Int
from torch import Tensor, nn
from torch.profiler import record_function as part

from seqcredit.algorithms.along import Along
from seqcredit.algorithms.mle import Mle, reference_loss
from seqcredit.algorithms.phase import Models, Outcome, Progress, count
from seqcredit.draws import Noise
from seqcredit.models.policy import Dropout, M, Policy, S
from seqcredit.options import ABOVE_0, SHARE, option
from seqcredit.search import greedy, sample
from seqcredit.search.sample import Given
from seqcredit.types import Batch, Reward


@dataclass(frozen=True)
class ScheduledSampling(Mle):
    """Scheduled sampling."""

    schedule: Literal["linear", "exponential", "sigmoid"] = "sigmoid"  # how the share of the actor's words rises
    pace: float = option(1000.0, ABOVE_0)  # updates: 1 / c of the line, k of the sigmoid, e^(-1 / pace) is k of k^i
    most: float = option(1.0, SHARE)  # largest share of the actor's words; 0 is MLE
    words: Literal["drawn", "greedy"] = "drawn"  # the actor's own word: sampled, or the most probable

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        """- log pi of the reference's words, after what the actor has heard instead of those before."""
        actor, tokens, rate = models.actor, batch.references[:, 0], self.rate_of(progress.update)
        with part("actor"):
            memory = actor.read(batch)
        dropout = actor.drop(tokens.shape[1], noise)
        heard = self._heard(actor, memory, tokens, dropout, noise, rate) if rate else tokens
        with part("actor"):
            known = batch.own(actor.alphabet.eos)
            scores = actor.score(memory, heard[:, : known.shape[1]], dropout)
        loss, watched = reference_loss(Along.of(actor, scores, self.fused), known, noise)
        own = (heard != tokens).sum(), (tokens != actor.alphabet.eos).sum()
        return Outcome({"actor": loss}, watched | {"own_words": own, "rate": (rate * count(tokens), count(tokens))})

    def rate_of(self, update: int) -> float:
        """The share of the actor's words: 1 - epsilon of the paper."""
        if self.schedule == "linear":
            share = update / self.pace
        elif self.schedule == "exponential":
            share = 1 - math.exp(-update / self.pace)
        else:  # 1 - k / (k + exp(i / k))
            share = (1 + math.tanh((update / self.pace - math.log(self.pace)) / 2)) / 2
        return min(share, self.most)

    def _heard(
        self,
        actor: Policy[M, S],
        memory: M,
        tokens: Int[Tensor, "B L"],
        dropout: Dropout | None,
        noise: Noise,
        rate: float,
    ) -> Int[Tensor, "B L"]:
        """The reference, in which a coin for each word has put the actor's own; eos stays where it is."""
        L, eos, device = tokens.shape[1], actor.alphabet.eos, tokens.device
        right = noise.uniform(L, device=device) >= rate
        given = Given(tokens, right | (tokens == eos), whole=True)
        with part("sampling"):
            if self.words == "greedy":
                heard = greedy(actor, memory, L, dropout, given)
            else:
                heard = sample(actor, memory, L, noise.uniform(L, device=device), dropout, given=given)
        return nn.functional.pad(heard, (0, L - heard.shape[1]), value=eos)
