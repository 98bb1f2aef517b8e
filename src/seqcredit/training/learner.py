"""One phase's networks, their optimizers and one update. It knows nothing of files, epochs or validation."""

import copy
import math
from collections.abc import Mapping, Sequence

import torch
from torch import Generator, nn
from torch.profiler import record_function as part

from seqcredit import config
from seqcredit.draws import Noise
from seqcredit.models.critic import update_target
from seqcredit.training.objectives import OBJECTIVES, Outcome, Payoffs
from seqcredit.training.processes import Processes
from seqcredit.types import Batch

# What each phase trains.
TRAINS: dict[str, tuple[str, ...]] = {
    "mle": ("actor",),
    "raml": ("actor",),
    "soft_q": ("critic",),
    "vaml": ("actor",),
    "critic": ("critic",),
    "actor_critic": ("actor", "critic"),
}

Watched = dict[str, tuple[float, float]]  # sums, and what to divide them by


class DivergedError(Exception):
    """A loss, a gradient, the entropy or the reward says that this run is lost."""


class Learner:
    """Trains `models` ("actor", and "critic" where the phase has one) by one phase of a recipe.

    The actor reads `batch.source`, the critic `batch.references`. A phase that needs a target network makes it.
    """

    def __init__(
        self,
        models: Mapping[str, nn.Module],
        phase: config.Phase,
        payoffs: Payoffs,
        generator: Generator | None = None,
        processes: Processes | None = None,
    ) -> None:
        self.phase, self.payoffs = phase, payoffs
        self.kind = config.OBJECTIVES[type(phase)]
        self.generator = generator or torch.Generator().manual_seed(1)
        self.processes = processes or Processes()
        self.models = {name: model for name, model in models.items() if name != "target"}
        for name, model in self.models.items():
            model.train(name in TRAINS[self.kind] or (name == "actor" and self.kind == "critic"))
        if isinstance(phase, config.Critic) or getattr(phase, "look_ahead", "") == "target":
            self.models["target"] = copy.deepcopy(self.models["critic"]).requires_grad_(False).eval()
        self.optimizers = {name: self._optimizer(name) for name in TRAINS[self.kind]}

    def update(self, batch: Batch, noise: Noise | None = None) -> Watched:
        """Sample or propose, lose, step; returns what is worth watching.

        `noise` says which rows of a larger batch these are, where several processes share it.
        """
        noise = noise or Noise(self.generator, len(batch.references))
        outcome = OBJECTIVES[self.kind](self.models, batch, self.phase, self.payoffs, noise)
        watched = self._step(outcome)
        if "target" in self.models:
            with part("target"):
                update_target(self.models["target"], self.models["critic"], self.phase.target_rate)  # type: ignore[attr-defined]
        return watched

    def slow_down(self, factor: float, names: Sequence[str]) -> None:
        """Lower the learning rate of some networks."""
        for name in names:
            for group in self.optimizers[name].param_groups:
                group["lr"] *= factor

    def _step(self, outcome: Outcome) -> Watched:
        """Backward and clip, network by network; they step when all gradients are known to be finite."""
        watched = self.processes.summed(
            {key: (float(total), float(count)) for key, (total, count) in outcome.sums.items()}
        )
        for name, loss in outcome.losses.items():
            parameters = list(self.models[name].parameters())
            self.optimizers[name].zero_grad(set_to_none=True)
            with part(name):
                loss.backward()
            self.processes.sum_gradients(parameters)
            with part("optimizer"):
                norm = float(nn.utils.clip_grad_norm_(parameters, self._clip(name)))
            watched[f"{name}_gradient"] = (norm, 1.0)
            if not math.isfinite(norm):
                raise DivergedError(f"the gradient of the {name} is not finite")
        with part("optimizer"):
            for name in outcome.losses:
                self.optimizers[name].step()
        return watched

    def _clip(self, name: str) -> float:
        phase = self.phase
        own = phase.critic_clip if name == "critic" and isinstance(phase, config.ActorCritic) else None
        return phase.clip if own is None else own

    def _optimizer(self, name: str) -> torch.optim.Optimizer:
        phase, rate = self.phase, self.phase.learning_rate
        if name == "critic" and isinstance(phase, config.ActorCritic) and phase.critic_learning_rate is not None:
            rate = phase.critic_learning_rate
        parameters = list(self.models[name].parameters())
        if phase.optimizer == "sgd":
            return torch.optim.SGD(parameters, rate, fused=True)
        return torch.optim.Adam(parameters, rate, betas=(phase.beta1, 0.999), fused=True)
