"""The networks of one phase, their optimizers and one update. It knows no files, epochs or validation."""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.profiler import record_function as part

from seqcredit.algorithms import Models, Phase, Progress
from seqcredit.algorithms.phase import Sums
from seqcredit.draws import Noise
from seqcredit.errors import require
from seqcredit.models.critic import update_target
from seqcredit.models.policy import Network
from seqcredit.search.sample import device_of
from seqcredit.training.parallel import Held, hold, whole
from seqcredit.training.processes import Processes, share
from seqcredit.types import Batch, Reward

Watched = dict[str, tuple[float, float]]  # sums, and what to divide them by


class DivergedError(Exception):
    """A loss, a gradient, the entropy or the reward says that this run is lost."""


class Part(NamedTuple):
    """Some sentences of a batch, whose gradients are added up."""

    batch: Batch
    noise: Noise
    last: bool  # of those of this process
    counts: bool  # else it is there for others to meet


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
        held: Mapping[str, Held] | None = None,
        seed: int = 1,
    ) -> None:
        self.phase, self.reward = phase, reward
        self.generator = generator or torch.Generator().manual_seed(1)
        self.processes = processes or Processes()
        self.policies = {name: network for name, network in networks.items() if name not in ("target", "start")}
        self.held = {name: (held or {}).get(name) or self._hold(name, each) for name, each in self.policies.items()}
        self._recompute(phase.gradient_checkpointing)
        for name, network in self.policies.items():
            network.train(name in (phase.trains if phase.drops is None else phase.drops))
        if phase.follows(Progress()) is not None:
            self._copy("critic", "target", _precise)
        if phase.remembers_start:
            self._copy("actor", "start", _frozen)
        actor = self.policies["actor"]
        with whole(self.held.values()):
            own = {name: network.to(device_of(actor)) for name, network in phase.brings(actor, seed).items()}
        self.held |= {name: self._hold(name, network) for name, network in own.items()}
        self.networks: dict[str, nn.Module] = {**self.policies, **own}
        critic, target, start = (self.policies.get(name) for name in ("critic", "target", "start"))
        self.models = Models(actor, critic, target, start, own)
        self.optimizers = {name: self._optimizer(name) for name in phase.trains}

    def update(self, batch: Batch, progress: Progress | None = None) -> Watched:
        """Sample or propose, lose, step; returns what is worth watching. Several processes share the batch."""
        progress = progress or Progress()
        for optimizer in self.optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        names, sums, weight = list[str](), Watched(), self.phase.batch_weight(len(batch.references))
        with whole(self.held.values()):
            for some in self._parts(batch):
                with self._precision(batch.references.device):
                    outcome = self.phase.loss(self.models, some.batch, self.reward, some.noise, progress)
                for name, loss in outcome.losses.items():
                    with part(name):
                        self.held[name].backward(loss * weight if some.counts else 0 * loss, some.last)
                names, sums = list(outcome.losses), _added(sums, outcome.sums, some.counts)
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

    def _parts(self, batch: Batch) -> Iterator["Part"]:
        """This process's share of a batch, in parts. Every part draws anew what the whole draws, and takes its rows.

        A process that is left without a sentence goes along with the first one: the others wait for it.
        """
        total, state = len(batch.references), self.generator.get_state()
        mine = self.processes.share(total)
        rows = mine.stop - mine.start
        parts = max(1, min(self.phase.accumulate, rows))
        for number in range(parts):
            self.generator.set_state(state)
            within = share(rows, number, parts)
            some = slice(mine.start + within.start, mine.start + within.stop) if rows else slice(0, 1)
            noise = Noise(self.generator, total, some.start, some.stop - some.start)
            yield Part(Batch(batch.source[some], batch.references[some]), noise, number == parts - 1, rows > 0)

    def _precision(self, device: torch.device) -> AbstractContextManager[object]:
        """Of the products of a loss; what is summed is in float32 at the least."""
        if self.phase.precision == "float32":
            return nullcontext()
        # Its cache would lose gradients in torch before 2.10: what is kept of a weight that samples have used has none.
        return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)

    def _step(self, names: Sequence[str], progress: Progress) -> Watched:
        """Clip, network by network; they step when all gradients are known to be finite."""
        norms = Watched()
        for name in names:
            with part("optimizer"):
                weights = self.networks[name].parameters()
                found = nn.utils.clip_grad_norm_(weights, self.phase.clipping(name))
                norm = float(self.held[name].whole(found))
            norms[f"{name}_gradient"] = (norm, 1.0)
            if not math.isfinite(norm):
                raise DivergedError(f"the gradient of the {name} is not finite")
        with part("optimizer"):
            for name in names:
                _step(self.optimizers[name], self.phase.stride(name, progress) * self.phase.warmth(progress))
        return norms

    def _recompute(self, on: bool) -> None:
        """Gradient checkpointing of the networks that learn."""
        trains = self.phase.trains
        can = {name for name, network in self.policies.items() if network.recompute(on and name in trains)}
        none = "gradient_checkpointing is for the layers of a Transformer or a model of Hugging Face"
        here = not can.isdisjoint(trains)
        require(here or not on, f"{self.phase.name}: {none}, and this phase trains none: leave it out.")

    def _hold(self, name: str, network: nn.Module) -> Held:
        return hold(network, self.processes, name in self.phase.trains)

    def _copy(self, name: str, also: str, made: Callable[[Network], Network]) -> None:
        """Another network, made of one as it is now."""
        with whole([self.held[name]]):
            self.policies[also] = made(self.policies[name])
        self.held[also] = self._hold(also, self.policies[also])

    def _optimizer(self, name: str) -> torch.optim.Optimizer:
        phase, network, rate = self.phase, self.networks[name], self.phase.rate(name)
        if phase.optimizer == "sgd":  # torch has no fused one for shards
            return torch.optim.SGD(list(network.parameters()), rate, fused=not self.processes.sharded)
        betas = phase.beta1, 0.999
        if phase.optimizer == "adam":
            return torch.optim.Adam(list(network.parameters()), rate, betas, fused=True)
        decaying, others = _decaying(network)
        groups = [{"params": decaying, "weight_decay": phase.weight_decay}, {"params": others, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, rate, betas, fused=True)


def _added(sums: Watched, more: Sums, counts: bool) -> Watched:
    """Sums and counts, and those of another part of the batch."""
    before = {key: sums.get(key, (0.0, 0.0)) for key in more}
    return sums | {
        key: (before[key][0] + counts * float(total), before[key][1] + counts * float(count))
        for key, (total, count) in more.items()
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
    """Such a copy in float32 at the least: what follows slowly would not move with fewer digits."""
    halves = {torch.bfloat16, torch.float16} & {weight.dtype for weight in network.parameters()}
    return _frozen(network).float() if halves else _frozen(network)
