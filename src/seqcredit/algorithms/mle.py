"""Maximum likelihood."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Int
from torch import Tensor
from torch.profiler import record_function as part

from seqcredit.algorithms.along import Along, likelihood
from seqcredit.algorithms.phase import Models, Outcome, Phase, Progress, Sums
from seqcredit.draws import Noise
from seqcredit.types import Batch, Reward, token_mask


@dataclass(frozen=True)
class Mle(Phase):
    """Maximum likelihood."""

    learns_references: ClassVar[bool] = True

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        """- log pi of the reference."""
        actor, tokens = models.actor, batch.own(models.actor.alphabet.eos)
        with part("actor"):
            scores = actor.score(actor.read(batch), tokens, actor.drop(batch.references.shape[-1], noise))
        loss, watched = reference_loss(Along.of(actor, scores, self.fused), tokens, noise)
        return Outcome({"actor": loss}, watched)


def reference_loss(actor: Along, tokens: Int[Tensor, "B T"], noise: Noise) -> tuple[Tensor, Sums]:
    """- log pi of the references that a model learns from, and what is worth watching of it."""
    with part("actor"):
        loss = likelihood(actor, tokens)
    return loss / noise.total, {"nll": (loss.detach(), token_mask(tokens, actor.alphabet.eos).sum())}
