"""One phase's networks, their optimizers and one update. It knows nothing of files, epochs or validation."""

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Generator, Tensor, nn
from torch.profiler import record_function as part

from seqcredit.algorithms import Models, Phase, Progress
from seqcredit.algorithms.phase import Sums
from seqcredit.draws import Noise
from seqcredit.models.critic import update_target
from seqcredit.models.policy import Network
from seqcredit.search.sample import device_of
from seqcredit.training.processes import Processes, share
from seqcredit.types import Batch, Reward

Watched = dict[str, tuple[float, float]]  # sums, and what to divide them by


class DivergedError(Exception):
    """A loss, a gradient, the entropy or the reward says that this run is lost."""


class Learner:
    """Trains networks, "actor" and "critic" where the phase has one, by one phase of a recipe.

    A target network is made for a phase that needs one, and a phase may bring networks of its own.
    """

    def __init__(
        self,
        networks: Mapping[str, Network],
        phase: Phase,
        reward: Reward,
        generator: Generator | None = None,
        processes: Processes | None = None,
        seed: int = 1,
    ) -> None:
        self.phase, self.reward = phase, reward
        self.generator = generator or torch.Generator().manual_seed(1)
        self.processes = processes or Processes()
        policies = {name: network for name, network in networks.items() if name not in ("target", "start")}
        for name, network in policies.items():
            network.train(name in (phase.trains if phase.drops is None else phase.drops))
        if phase.follows(Progress()) is not None:
            policies["target"] = _precise(_frozen(policies["critic"]))
        if phase.remembers_start:
            policies["start"] = _frozen(policies["actor"])
        actor = policies["actor"]
        own = {name: network.to(device_of(actor)) for name, network in phase.brings(actor, seed).items()}
        critic, target, start = (policies.get(name) for name in ("critic", "target", "start"))
        self.models = Models(actor, critic, target, start, own)
        self.networks: dict[str, nn.Module] = {**policies, **own}
        self.optimizers = {name: self._optimizer(name) for name in phase.trains}

    def update(self, batch: Batch, noise: Noise | None = None, progress: Progress | None = None) -> Watched:
        """Sample or propose, lose, step; returns what is worth watching.

        `noise` says which rows of a larger batch these are, where several processes share it.
        """
        noise, progress = noise or Noise(self.generator, len(batch.references)), progress or Progress()
        for optimizer in self.optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        names, sums = list[str](), Watched()
        for some, its_noise in _parts(batch, noise, self.phase.accumulate):
            with self._precision(some.references.device):
                outcome = self.phase.loss(self.models, some, self.reward, its_noise, progress)
            self._backward(outcome.losses)
            names, sums = list(outcome.losses), _added(sums, outcome.sums)
        watched = self.processes.summed(sums) | self._step(names, progress)
        speed = self.phase.follows(progress)
        if speed is not None:
            with part("target"):
                update_target(self.networks["target"], self.networks["critic"], speed)
        return watched

    def slow_down(self, factor: float, names: Sequence[str]) -> None:
        """Lower the learning rate of some networks."""
        for name in names:
            for group in self.optimizers[name].param_groups:
                group["lr"] *= factor

    def _precision(self, device: torch.device) -> AbstractContextManager[object]:
        """Of the products of a loss; what is summed is in float32 at the least."""
        if self.phase.precision == "float32":
            return nullcontext()
        # Its cache would lose gradients in torch before 2.10: what is kept of a weight that samples have used has none.
        return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)

    def _backward(self, losses: Mapping[str, Tensor]) -> None:
        """Add the gradients of each loss to those of its network, and of no other."""
        for name, loss in losses.items():
            with part(name):
                loss.backward(inputs=[weight for weight in self.networks[name].parameters() if weight.requires_grad])

    def _step(self, names: Sequence[str], progress: Progress) -> Watched:
        """Clip, network by network; they step when all gradients are known to be finite."""
        norms = Watched()
        for name in names:
            parameters = list(self.networks[name].parameters())
            self.processes.sum_gradients(parameters)
            with part("optimizer"):
                norm = float(nn.utils.clip_grad_norm_(parameters, self.phase.clipping(name)))
            norms[f"{name}_gradient"] = (norm, 1.0)
            if not math.isfinite(norm):
                raise DivergedError(f"the gradient of the {name} is not finite")
        with part("optimizer"):
            for name in names:
                _step(self.optimizers[name], self.phase.stride(name, progress) * self.phase.warmth(progress))
        return norms

    def _optimizer(self, name: str) -> torch.optim.Optimizer:
        phase, network, rate = self.phase, self.networks[name], self.phase.rate(name)
        if phase.optimizer == "sgd":
            return torch.optim.SGD(list(network.parameters()), rate, fused=True)
        betas = phase.beta1, 0.999
        if phase.optimizer == "adam":
            return torch.optim.Adam(list(network.parameters()), rate, betas, fused=True)
        decaying, others = _decaying(network)
        groups = [{"params": decaying, "weight_decay": phase.weight_decay}, {"params": others, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, rate, betas, fused=True)


def _parts(batch: Batch, noise: Noise, parts: int) -> Iterator[tuple[Batch, Noise]]:
    """A batch in so many parts, as processes share one: each draws anew what the whole draws, and takes its rows."""
    rows, state = len(batch.references), noise.generator.get_state()
    parts = max(1, min(parts, rows))
    for number in range(parts):
        noise.generator.set_state(state)
        some = share(rows, number, parts)
        its_noise = Noise(noise.generator, noise.total, noise.first + some.start, some.stop - some.start)
        yield Batch(batch.source[some], batch.references[some]), its_noise


def _added(sums: Watched, more: Sums) -> Watched:
    """Sums and counts, and those of another part of the batch."""
    before = {key: sums.get(key, (0.0, 0.0)) for key in more}
    return sums | {
        key: (before[key][0] + float(total), before[key][1] + float(count)) for key, (total, count) in more.items()
    }


def _decaying(network: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """Weights that decay, and those that do not: vectors, as biases and norms are, and embeddings, tied or not."""
    embeddings = [module for module in network.modules() if isinstance(module, nn.Embedding)]
    kept = {id(weight) for module in embeddings for weight in module.parameters()}
    kept |= {id(weight) for weight in network.parameters() if weight.dim() < 2}
    weights = list(network.parameters())
    return [w for w in weights if id(w) not in kept], [w for w in weights if id(w) in kept]


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


def _precise(network: Network) -> Network:
    """In float32 at the least: what follows slowly would not move with fewer digits."""
    halves = {torch.bfloat16, torch.float16} & {weight.dtype for weight in network.parameters()}
    return network.float() if halves else network
