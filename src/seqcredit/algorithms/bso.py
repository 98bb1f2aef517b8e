"""Beam search optimisation: where the reference would fall off the beam, it has to win by a margin.

Wiseman and Rush (2016), after Daume and Marcu (2005). A hypothesis is ranked by the score of its last word, which is
not normalised: what went before is in the network's state. So the model is searched by scores, too (`raw`).
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.profiler import record_function as part

from seqcredit.algorithms.phase import Models, Outcome, Phase, Progress
from seqcredit.credit.values import chosen, only_actions
from seqcredit.draws import Noise
from seqcredit.errors import require
from seqcredit.models.policy import Dropout, M, Network, Policy, S, Scores, repeat, reshaped
from seqcredit.options import FROM_0, FROM_2, NOT_NEGATIVE, option
from seqcredit.rewards.scaling import rescaled
from seqcredit.rewards.scores import scored
from seqcredit.types import Batch, Reward, token_mask


class Violations(NamedTuple):
    """Where the reference did not win by the margin, and over what."""

    sentence: Int[Tensor, " N"]
    place: Int[Tensor, " N"]  # of the token
    tokens: Int[Tensor, "N T"]  # the hypothesis up to this place; eos follows


@dataclass(frozen=True)
class Bso(Phase):
    """Beam search optimisation. It starts from a trained model."""

    learns_references: ClassVar[bool] = True
    raw: ClassVar[bool] = True

    width: int = option(6, FROM_2)  # beam width with the reference: one more than in testing
    first_width: int = option(0, FROM_0)  # width at the start, from which it grows over the phase; 0: constant
    margin: float = option(1.0, NOT_NEGATIVE)  # how much higher the reference has to score
    cost: Literal["one", "reward"] = "one"  # of a violation: 1, or 1 - R of the hypothesis so far (not scaled)

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = self.first_width == 0 or 2 <= self.first_width <= self.width
        said = f"first_width is {self.first_width}, but it must be 0, or from 2 to width, which is {self.width}."
        require(fits, f"Bso: {said}")

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        """cost (margin - score of the reference + score of the hypothesis), at all violations."""
        actor, tokens = models.actor, batch.references[:, 0]
        real, dropout = token_mask(tokens, actor.alphabet.eos).sum(), actor.drop(tokens.shape[1], noise)
        with part("actor"):
            memory = actor.read(batch)
            wanted = raw_scores(actor.score(memory, tokens, dropout), tokens)
        with part("sampling"):
            found = violations(actor, memory, tokens, wanted.detach(), self.beam(progress), self.margin, dropout)
        with part("actor"):
            gaps = self.margin - wanted[found.sentence, found.place] + last_scores(actor, memory, found, dropout)
        loss = (self._cost(actor, batch, reward, found) * gaps).sum()
        watched = {"loss": (loss.detach(), real), "violations": (real.new_tensor(len(gaps)), real)}
        return Outcome({"actor": loss / noise.total}, watched)

    def beam(self, progress: Progress) -> int:
        """How wide it is by now."""
        if not self.first_width:
            return self.width
        more = self.width + 1 - self.first_width
        return min(self.width, self.first_width + int(more * progress.share))

    def _cost(self, actor: Network, batch: Batch, reward: Reward, found: Violations) -> Float[Tensor, " N"] | float:
        """What a violation costs, by the hypothesis that won."""
        if self.cost == "one" or not len(found.place):
            return 1.0
        rows = Batch(batch.source[found.sentence], batch.references[found.sentence])
        with torch.no_grad(), part("reward"):
            scores = scored(rescaled(reward, False), actor.alphabet, found.tokens, rows)
        return (1 - scores.gather(1, found.place.unsqueeze(1) + 1).squeeze(1)).clamp(min=0)


def raw_scores(scores: Scores, tokens: Int[Tensor, "*S"]) -> Float[Tensor, "*S"]:
    """The score of one token in each state, not normalised; no other is scored."""
    linear = scores.linear()
    return chosen(scores.table(), tokens) if linear is None else linear.of(tokens)


def last_scores(actor: Policy[M, S], memory: M, found: Violations, dropout: Dropout | None) -> Float[Tensor, " N"]:
    """Of the hypotheses that won: the score of each one's last word."""
    sentence, place, tokens = found
    if not len(place):
        return next(actor.parameters()).new_zeros(0)
    rows = torch.arange(len(place), device=place.device)
    dropped = None if dropout is None else dropout.select(sentence)
    scores = actor.score(memory.select(sentence), tokens, dropped)
    return raw_scores(reshaped(scores, lambda of: of[rows, place]), tokens[rows, place])


@torch.no_grad()
def violations(
    actor: Policy[M, S],
    memory: M,
    references: Int[Tensor, "B T"],
    wanted: Float[Tensor, "B T"],
    width: int,
    margin: float,
    dropout: Dropout | None = None,
) -> Violations:
    """Search with a beam, which begins anew with the reference wherever that does not win by the margin.

    It has to win over the (width - 1)th of all others, over those that would end before it, since a search ends with
    the best, and where it ends over all. So it is always on the beam, as its first row, and a beam of width - 1 would
    keep it. A hypothesis that has ended leaves the beam.
    """
    (B, T), K, alphabet = references.shape, width, actor.alphabet
    rows, real = torch.arange(B, device=references.device), token_mask(references, alphabet.eos)
    memory = repeat(memory, K, references.device)
    state, token = actor.start(memory), None
    tokens = torch.full((B, K, T), alphabet.eos, device=references.device)
    alive = (torch.arange(K, device=references.device) == 0).expand(B, K)
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    for t, right in enumerate(references.unbind(1)):
        dropped = None if dropout is None else dropout.at(rows.repeat_interleave(K), t)
        scores, state = actor.step(memory, state, token, dropped)
        table = only_actions(scores.table(), alphabet.actions).view(B, K, -1)
        table = table.masked_fill(~alive.unsqueeze(-1), -torch.inf)
        table[rows, 0, right] = -torch.inf
        best, V = table.flatten(1).topk(K - 1), table.shape[-1]
        which = torch.where(right == alphabet.eos, 0, K - 2)
        rival, index = best.values[rows, which], best.indices[rows, which]
        ending, row = table[..., alphabet.eos].max(1)
        rival, index = torch.maximum(rival, ending), torch.where(ending > rival, row * V + alphabet.eos, index)
        hit = real[:, t] & (wanted[:, t] < margin + rival)
        won = tokens[rows, index // V]
        won[:, t] = index % V
        found.append((rows[hit], torch.full_like(rows[hit], t), won[hit]))
        # The reference goes on; the best others do too, but not after a violation.
        parent = torch.cat([torch.zeros_like(right).unsqueeze(1), best.indices // V], 1)
        word = torch.cat([right.unsqueeze(1), best.indices % V], 1)
        others = (best.values > -torch.inf) & ~hit.unsqueeze(1)
        alive = torch.cat([real[:, t : t + 1], others], 1) & (word != alphabet.eos)
        tokens = tokens.gather(1, parent.unsqueeze(-1).expand(-1, -1, T))
        tokens[..., t] = word
        state, token = state.select((rows.unsqueeze(1) * K + parent).flatten()), word.flatten()
    sentence, place, won = (torch.cat(column) for column in zip(*found, strict=True))
    return Violations(sentence, place, won)
