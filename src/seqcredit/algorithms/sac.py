"""SAC for words: ERAC with a learned temperature, which keeps the entropy at a target.

Soft Actor-Critic, Haarnoja et al. (2018), with sums over words in the place of drawn actions, as Christodoulou (2019).
Its two critics, of which the lower Q counts, are one network: `twin = true` in `[critic]`.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seqcredit.algorithms.erac import ActorCritic
from seqcredit.algorithms.phase import Models, Outcome, Progress
from seqcredit.draws import Noise
from seqcredit.models.policy import Network
from seqcredit.options import ABOVE_0, NOT_NEGATIVE, option
from seqcredit.types import Batch, Reward


class Temperature(nn.Module):
    """tau, by its logarithm."""

    def __init__(self, tau: float) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.tensor(math.log(tau)))

    def forward(self) -> Float[Tensor, ""]:
        """The temperature."""
        return self.log.exp()


@dataclass(frozen=True)
class Sac(ActorCritic):
    """Soft Actor-Critic: ERAC with a temperature that holds the entropy; `tau` is the first one."""

    trains: ClassVar[tuple[str, ...]] = ("actor", "critic", "temperature")

    tau: float = option(0.04, ABOVE_0)  # the first temperature
    entropy_target: float = option(1.0, NOT_NEGATIVE)  # mean entropy per state to aim at, in nats
    tau_learning_rate: float = option(0.001, ABOVE_0)  # learning rate of log tau; it never decays

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        """ERAC's at the present temperature, and tau (H(pi) - the entropy wanted) for that."""
        temperature = models.brought("temperature", Temperature)
        now = replace(self, tau=float(temperature.log.detach().exp()))
        found = ActorCritic.loss(now, models, batch, reward, noise, progress)
        total, states = found.sums["entropy"]
        too_much = (total - self.entropy_target * states) / noise.total / self.samples
        watched = {**found.sums, "tau": (temperature().detach() * states, states)}
        return Outcome({**found.losses, "temperature": temperature() * too_much}, watched)

    def brings(self, actor: Network, seed: int) -> dict[str, nn.Module]:
        """The temperature."""
        return {"temperature": Temperature(self.tau)}

    def rate(self, network: str) -> float:
        """The temperature has a rate of its own."""
        return self.tau_learning_rate if network == "temperature" else super().rate(network)
