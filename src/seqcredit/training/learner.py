"""One phase's networks, their optimizers and one update. It knows nothing of files, epochs or validation."""

import copy
import math
from collections.abc import Mapping, Sequence

import torch
from torch import Generator, nn
from torch.profiler import record_function as part

from seqcredit.algorithms import Models, Outcome, Phase, Progress
from seqcredit.draws import Noise
from seqcredit.models.critic import update_target
from seqcredit.models.policy import Network
from seqcredit.training.processes import Processes
from seqcredit.types import Batch, Reward

Watched = dict[str, tuple[float, float]]  # sums, and what to divide them by


class DivergedError(Exception):
    """A loss, a gradient, the entropy or the reward says that this run is lost."""


class Learner:
    """Trains networks, "actor" and "critic" where the phase has one, by one phase of a recipe.

    A phase that needs a target network makes it.
    """

    def __init__(
        self,
        networks: Mapping[str, Network],
        phase: Phase,
        reward: Reward,
        generator: Generator | None = None,
        processes: Processes | None = None,
    ) -> None:
        self.phase, self.reward = phase, reward
        self.generator = generator or torch.Generator().manual_seed(1)
        self.processes = processes or Processes()
        self.networks = {name: network for name, network in networks.items() if name not in ("target", "start")}
        for name, network in self.networks.items():
            network.train(name in (phase.trains if phase.drops is None else phase.drops))
        if phase.follows(Progress()) is not None:
            self.networks["target"] = _frozen(self.networks["critic"])
        if phase.remembers_start:
            self.networks["start"] = _frozen(self.networks["actor"])
        self.models = Models(**self.networks)
        self.optimizers = {name: self._optimizer(name) for name in phase.trains}

    def update(self, batch: Batch, noise: Noise | None = None, progress: Progress | None = None) -> Watched:
        """Sample or propose, lose, step; returns what is worth watching.

        `noise` says which rows of a larger batch these are, where several processes share it.
        """
        noise, phase = noise or Noise(self.generator, len(batch.references)), self.phase
        progress = progress or Progress()
        outcome = phase.loss(self.models, batch, self.reward, noise, progress)
        watched, speed = self._step(outcome, progress), phase.follows(progress)
        if speed is not None:
            with part("target"):
                update_target(self.networks["target"], self.networks["critic"], speed)
        return watched

    def slow_down(self, factor: float, names: Sequence[str]) -> None:
        """Lower the learning rate of some networks."""
        for name in names:
            for group in self.optimizers[name].param_groups:
                group["lr"] *= factor

    def _step(self, outcome: Outcome, progress: Progress) -> Watched:
        """Backward and clip, network by network; they step when all gradients are known to be finite."""
        watched = self.processes.summed(
            {key: (float(total), float(count)) for key, (total, count) in outcome.sums.items()}
        )
        for name, loss in outcome.losses.items():
            parameters = list(self.networks[name].parameters())
            self.optimizers[name].zero_grad(set_to_none=True)
            with part(name):
                loss.backward()
            self.processes.sum_gradients(parameters)
            with part("optimizer"):
                norm = float(nn.utils.clip_grad_norm_(parameters, self.phase.clipping(name)))
            watched[f"{name}_gradient"] = (norm, 1.0)
            if not math.isfinite(norm):
                raise DivergedError(f"the gradient of the {name} is not finite")
        with part("optimizer"):
            for name in outcome.losses:
                _step(self.optimizers[name], self.phase.stride(name, progress))
        return watched

    def _optimizer(self, name: str) -> torch.optim.Optimizer:
        phase, rate = self.phase, self.phase.rate(name)
        parameters = list(self.networks[name].parameters())
        if phase.optimizer == "sgd":
            return torch.optim.SGD(parameters, rate, fused=True)
        return torch.optim.Adam(parameters, rate, betas=(phase.beta1, 0.999), fused=True)


def _step(optimizer: torch.optim.Optimizer, stride: float) -> None:
    """A step of so much of its usual length."""
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] *= stride
    optimizer.step()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate


def _frozen(network: Network) -> Network:
    """A copy that does not learn and drops nothing."""
    return copy.deepcopy(network).requires_grad_(False).eval()
