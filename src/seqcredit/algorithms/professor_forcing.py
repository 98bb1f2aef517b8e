"""Professor forcing: a discriminator tells states along references from states along samples, and the actor fools it.

Lamb et al. (2016). What a network is shown of an actor are the features that its scores are a readout of.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import softplus
from torch.profiler import record_function as part

from seqcredit.algorithms.along import Along
from seqcredit.algorithms.mle import reference_loss
from seqcredit.algorithms.phase import Models, Outcome, Progress
from seqcredit.algorithms.rollout import watch
from seqcredit.algorithms.sampling import Sampling
from seqcredit.draws import Noise
from seqcredit.errors import UserError, require
from seqcredit.models.policy import Network
from seqcredit.options import ABOVE_0, EVEN, NOT_NEGATIVE, SHARE, option
from seqcredit.rewards.payoff import Payoff
from seqcredit.types import Batch, Reward, lengths

SHOWN = "Professor forcing looks at the actor's features, and this model shows none: give it its readout."
INITIAL = 0.1  # every weight of a discriminator starts uniform in [-INITIAL, INITIAL]


class Discriminator(nn.Module):
    """The logit that states come from references: a GRU in both directions, three layers on it, a mean over time."""

    def __init__(self, width: int, hidden: int, seed: int) -> None:
        super().__init__()
        self.reader = nn.GRU(width, hidden // 2, batch_first=True, bidirectional=True)
        layers = [nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)]
        self.layers = nn.Sequential(*layers)
        generator = torch.Generator().manual_seed(seed)
        for weight in self.parameters():
            nn.init.uniform_(weight, -INITIAL, INITIAL, generator=generator)

    def forward(self, features: Float[Tensor, "B T D"], sizes: Int[Tensor, " B"]) -> Float[Tensor, " B"]:
        """Of sequences of these sizes; what follows is padding."""
        packed = nn.utils.rnn.pack_padded_sequence(features, sizes.cpu(), batch_first=True, enforce_sorted=False)
        read, _ = nn.utils.rnn.pad_packed_sequence(self.reader(packed)[0], batch_first=True)
        said = self.layers(read).squeeze(-1)
        real = torch.arange(said.shape[1], device=said.device) < sizes.unsqueeze(-1)
        return said.masked_fill(~real, 0).sum(-1) / sizes


@dataclass(frozen=True)
class ProfessorForcing(Sampling):
    """Professor forcing: likelihood, and states that do not tell samples from references."""

    trains: ClassVar[tuple[str, ...]] = ("actor", "discriminator")
    learns_references: ClassVar[bool] = True

    mle_weight: float = option(1.0, ABOVE_0)  # weight of the references' likelihood
    weight: float = option(1.0, NOT_NEGATIVE)  # weight of fooling the discriminator
    both_ways: bool = False  # also makes states along references look like those along samples
    enough: float = option(0.75, SHARE)  # the actor learns from the discriminator above this accuracy
    too_much: float = option(0.99, SHARE)  # the discriminator does not learn at or above this accuracy
    hidden: int = option(128, EVEN)  # hidden size of the discriminator
    discriminator_learning_rate: float | None = option(None, NOT_NEGATIVE)  # learning_rate if not given

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        """- log pi of the reference - log D(states along samples); the accuracy of the last update opens the gates."""
        eos, judge = models.actor.alphabet.eos, models.brought("discriminator", Discriminator)
        rollout = self.draw(models, batch, reward, noise, reference=True)
        assert rollout.reference is not None
        own = features_of(rollout.actor), lengths(rollout.tokens, eos) + 1
        known = features_of(rollout.reference[0]), lengths(rollout.reference[1], eos) + 1
        with part("critic"):
            right, wrong = judge(known[0].detach(), known[1]), judge(own[0].detach(), own[1])
            caught = (right > 0).sum() / len(right) + (wrong < 0).sum() / len(wrong)
            told = softplus(-right).sum() + softplus(wrong).sum() / self.samples
        likelihood, watched = reference_loss(*rollout.reference, noise)
        cost, seen = self.pull(rollout, own[0].new_ones(len(rollout.tokens)), self.entropy_weight)
        watched |= seen
        loss, accuracy = self.mle_weight * likelihood + cost / noise.total / self.samples, progress.last.get("accuracy")
        if accuracy is not None and accuracy > self.enough:
            with part("actor"):
                fooled = softplus(-judge(*own)).sum() / self.samples
                fooled = fooled + softplus(judge(*known)).sum() if self.both_ways else fooled
            loss = loss + self.weight * fooled / noise.total
        rows = right.new_tensor(len(right))
        watched |= watch(rollout, models.actor.alphabet) | {"accuracy": (caught / 2 * rows, rows)}
        losses = {"actor": loss}
        if accuracy is None or accuracy < self.too_much:
            losses["discriminator"] = told / noise.total
        return Outcome(losses, watched)

    def check(self, payoff: Payoff) -> str | None:
        """It learns from no rewards."""
        return self.unpaid()

    def brings(self, actor: Network, seed: int) -> dict[str, nn.Module]:
        """The discriminator."""
        require(actor.width, SHOWN)
        return {"discriminator": Discriminator(actor.width, self.hidden, seed)}


def features_of(actor: Along) -> Float[Tensor, "B T D"]:
    """What the readout sees."""
    linear = actor.scores.linear()
    if linear is None:
        raise UserError(SHOWN)
    return linear.features
