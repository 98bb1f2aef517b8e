"""The only training loop: phases, optimizers, validation, decay, checkpoints. It knows no algorithm."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from seqcredit import config
from seqcredit.data.batches import Loader, collate, epoch_batches, padding_ratio, to_device
from seqcredit.data.prepared import Prepared
from seqcredit.draws import Noise
from seqcredit.errors import UserError
from seqcredit.training import checkpoints, watch
from seqcredit.training.build import build_actor, build_critic, build_payoffs
from seqcredit.training.checkpoints import Checkpoint
from seqcredit.training.decoding import Search, split_bleu
from seqcredit.training.exact import Judge, evaluating, judge_of
from seqcredit.training.learner import TRAINS, DivergedError, Learner
from seqcredit.training.log import Log, log_entries
from seqcredit.training.objectives import OBJECTIVES
from seqcredit.training.processes import Processes
from seqcredit.training.runs import Run, of_network
from seqcredit.types import Batch

JUDGED_SENTENCES = 1_000  # of the validation split, for a critic's error
ROLLBACKS = 3
BLINK = 0.2  # seconds between two states of the live line


@dataclass
class Progress:
    """Where a run stands: all of it goes into a checkpoint."""

    phase: int = 0
    epoch: int = 0
    batch: int = 0  # the next one of the epoch
    updates: int = 0  # of this phase
    rate: float = 1.0  # what decay has left of the learning rate
    decays: int = 0
    best: float | None = None  # validation, higher is better
    rollbacks: int = 0
    diverged: list[str] = field(default_factory=list)  # phases that did
    began: dict[str, float] = field(default_factory=dict)  # first values of what the guard watches
    sums: dict[str, list[float]] = field(default_factory=dict)  # since the last line of the log
    seconds: float = 0.0
    done: bool = False


class StoppedError(Exception):
    """Someone asked the run to stop; it has saved itself between two updates."""


class Trainer:
    """Trains the phases of a recipe in a run folder.

    `say` gets every line that stays; `show`, where there is a terminal, a line that the next one replaces.
    """

    learner: Learner
    log: Log
    exact: Judge | None  # knows the exact Q, where the phase asks for it
    credit: dict[str, float]  # what it said last

    def __init__(
        self,
        run: Run,
        prepared: Prepared,
        say: Callable[[str], None] = print,
        device: torch.device | str = "cpu",
        log_every: int = 100,
        checkpoint_minutes: float = 5.0,
        processes: Processes | None = None,
        show: Callable[[str], None] | None = None,
        tensorboard: bool = False,
    ) -> None:
        self.run, self.recipe, self.prepared = run, run.recipe, prepared
        self.say, self.device, self.log_every, self.checkpoint_minutes = say, device, log_every, checkpoint_minutes
        self.show, self.tensorboard = show, tensorboard
        self.processes = processes or Processes()
        self.stop = False  # set it to stop after the update that is under way
        self.progress = Progress()
        self.generator = torch.Generator().manual_seed(self.recipe.seed)
        self.models: dict[str, nn.Module] = {"actor": build_actor(self.recipe, prepared).to(device)}
        if any("critic" in TRAINS[kind] or kind == "vaml" for kind in map(self.objective, self.recipe.phase)):
            self.models["critic"] = build_critic(self.recipe, prepared).to(device)
        self.best: dict[str, Tensor] = {}
        self.train_split, self.valid_split = prepared.split("train"), prepared.split("valid")
        self.loader = Loader(self.train_split, device)
        self._saved = self._shown = time.monotonic()

    @staticmethod
    def objective(phase: config.Phase) -> str:
        return config.OBJECTIVES[type(phase)]

    @property
    def phase(self) -> config.Phase:
        return self.recipe.phase[self.progress.phase]

    # The order of things.

    def train(self) -> None:
        """Run what is left of the recipe."""
        found = checkpoints.newest(self.run.checkpoints, self.say)
        self.processes.wait()  # all have read it before one of them writes the next
        self._open_log(found.state["log"] if found else 0)
        if found:
            self._restore(found)
        else:
            self._begin_run()
        while not self.progress.done:
            try:
                self._run_phase()
            except DivergedError as reason:
                self._diverged(str(reason))

    def _open_log(self, offset: int) -> None:
        path, writes = self.run.folder / "log.jsonl", self.processes.writes
        self.log = Log(path, offset, writes)
        if self.tensorboard and writes:
            self.log.copies.append(watch.Board(self.run.folder / "tensorboard", log_entries(path)).write)

    def _begin_run(self) -> None:
        """From the first phase that has not been taken over from another run."""
        done = self.run.phases_done()
        weights = self.run.weights(done[-1]) if done else self.run.initial_weights()
        self._load(weights or {})
        self.progress.done = len(done) == len(self.recipe.phase)
        self.progress.phase = min(len(done), len(self.recipe.phase) - 1)
        self._begin_phase()
        self.save()

    def _run_phase(self) -> None:
        """One phase to its end, from wherever it stands."""
        progress, phase = self.progress, self.phase
        if progress.updates == 0 and isinstance(phase, config.ActorCritic) and phase.keeps_start:
            self._validate()
        lengths = self._lengths(phase)
        while progress.epoch < len(lengths) and progress.decays <= phase.decays:
            self._run_epoch(phase, lengths)
        self._end_phase()

    def _lengths(self, phase: config.Phase) -> list[int]:
        return phase.lengths(len(epoch_batches(self.train_split, phase.batch_size, self.recipe.seed, 0)))

    def _run_epoch(self, phase: config.Phase, lengths: Sequence[int]) -> None:
        progress = self.progress
        batches = epoch_batches(self.train_split, phase.batch_size, self.recipe.seed, progress.epoch)
        batches = batches[: lengths[progress.epoch]]
        while progress.batch < len(batches):
            started = time.monotonic()
            self._update(batches, progress.batch)
            progress.batch += 1
            progress.updates += 1
            self._anneal(sum(lengths) - progress.updates)
            progress.seconds += time.monotonic() - started
            self._report(lengths)
            if phase.validate_every and progress.updates % phase.validate_every == 0:
                self._validate()
                if progress.decays > phase.decays:
                    return
            if self.stop:
                self.save()
                raise StoppedError
            self._save_now_and_then()
        progress.epoch += 1
        progress.batch = 0
        every = phase.validate_every
        if not every or (progress.epoch == len(lengths) and progress.updates % every > 0):
            self._validate()
        self.save()

    def _update(self, batches: Sequence[Any], number: int) -> None:
        """One update; what was watched is added up."""
        whole = self.loader.get(batches[number], batches[number + 1] if number + 1 < len(batches) else None)
        size = len(whole.references)
        share = self.processes.share(size)
        batch = Batch(whole.source[share], whole.references[share])
        noise = Noise(self.generator, size, share.start, share.stop - share.start)
        for key, (total, count) in self.learner.update(batch, noise).items():
            entry = self.progress.sums.setdefault(key, [0.0, 0.0])
            entry[0] += total
            entry[1] += count

    # Phases.

    def _begin_phase(self) -> None:
        """Rewards, optimizers, a target network, a clean slate."""
        payoffs = build_payoffs(self.recipe, self.phase, self.prepared)
        self.learner = Learner(self.models, self.phase, payoffs, self.generator, self.processes)
        self.best = {}
        self.exact = judge_of(self.phase, self.recipe.payoff, self.prepared, self.device)
        self.say(self._plan(self.phase))

    def _plan(self, phase: config.Phase) -> str:
        """What is about to happen, in a line."""
        batches = epoch_batches(self.train_split, phase.batch_size, self.recipe.seed, 0)
        padding = padding_ratio(self.train_split, batches)
        kind = "" if phase.name == self.objective(phase) else f"{self.objective(phase)}, "
        most = sum(phase.lengths(len(batches)))
        length = f"{most:,} updates" if phase.updates else f"{phase.epochs} epochs of {len(batches):,} updates"
        return (
            f"{phase.name}: {kind}at most {length}, {phase.optimizer} {phase.learning_rate:g}, "
            f"batches of {phase.batch_size} with {padding:.1%} padding"
        )

    def _end_phase(self) -> None:
        """The best networks are the ones that count; then the next phase begins."""
        self._load(self.best)
        if self.processes.writes:
            self.run.save_weights(self.phase.name, self._networks())
        finished, count = self.progress, self.progress.phase + 1
        self.log.write(
            {"event": "phase_end", "phase": self.phase.name, "best": finished.best, "updates": finished.updates}
        )
        self.progress = Progress(phase=count, diverged=finished.diverged, done=count == len(self.recipe.phase))
        if self.progress.done:
            self.progress.phase = count - 1
        else:
            self._begin_phase()
        self.save()

    def _networks(self) -> dict[str, Tensor]:
        return {
            f"{name}.{key}": tensor for name, model in self.models.items() for key, tensor in model.state_dict().items()
        }

    def _load(self, weights: Mapping[str, Tensor]) -> None:
        for name, model in self.models.items():
            mine = of_network(weights, name)
            if mine:
                model.load_state_dict(mine)

    # Validation and decay.

    def _validate(self) -> None:
        """Judge the networks; keep the best, lower the rate where there is no progress."""
        progress, phase = self.progress, self.phase
        self.credit = self.exact.figures(self.models) if self.exact else {}
        kind, score = self.judge()
        if not math.isfinite(score):
            raise DivergedError(f"the {kind} of validation is not finite")
        improved = progress.best is None or score > progress.best
        if improved:
            progress.best = score
            self.best = {key: tensor.clone() for key, tensor in self._networks().items()}
        else:
            progress.decays += 1
            self._slow_down(phase.decay, TRAINS[self.objective(phase)][:1])  # a joint critic keeps its rate
        entry = {"event": "validation", "phase": phase.name, "epoch": progress.epoch, "updates": progress.updates}
        figures = {kind: round(abs(score), 4), **self.credit}
        self.log.write({**entry, **figures, "improved": improved, "rate": progress.rate})
        slower = "" if phase.decay == 1 else f", learning rate x {phase.decay:g}"
        mark = "best so far" if improved else f"no better{slower}"
        said = ", ".join(f"{watch.VALIDATED.get(key, key)} {value:.4g}" for key, value in figures.items())
        self.say(f"{phase.name}: after {progress.updates:,} updates validation {said}, {mark}")

    def _anneal(self, left: int) -> None:
        """A straight line down to 0, from wherever decay has brought the rate."""
        if self.phase.anneal:
            self._slow_down(left / (left + 1), TRAINS[self.objective(self.phase)][:1])

    def _slow_down(self, factor: float, names: tuple[str, ...]) -> None:
        self.progress.rate *= factor
        self.learner.slow_down(factor, names)

    def judge(self) -> tuple[str, float]:
        """What the phase is validated on, higher being better."""
        kind = self.objective(self.phase)
        if isinstance(self.phase, config.Critic) and kind == "critic":
            return self.phase.judged_by, -self._critic_error(self.phase.judged_by)
        if isinstance(self.phase, config.SoftQ) and self.phase.judged_by == "exact":
            return "credit_kl", -self.credit["credit_kl"]
        if isinstance(self.phase, config.SoftQ) and self.phase.judged_by == "td":
            with evaluating(self.models["critic"]):
                return "td", -self._critic_error("td")
        if kind == "soft_q":  # the best word is the same at every tau; a beam would have to know it
            return "bleu", self._bleu("critic", 1, read_references=True)
        return "bleu", self._bleu("actor", self.recipe.validation_beam)

    def _bleu(self, network: str, width: int, read_references: bool = False) -> float:
        """Of the validation split, as a network says it."""
        search = Search(width, self.recipe.longest_output + 1)
        return split_bleu(self.models[network], self.prepared, self.valid_split, search, self.device, read_references)

    @torch.no_grad()
    def _critic_error(self, kind: str) -> float:
        """Mean square of the critic's error on samples for the first validation sentences, always the same draws."""
        generator, total, count = torch.Generator().manual_seed(0), 0.0, 0.0
        pairs, learner = self.valid_split.groups[:-1][:JUDGED_SENTENCES], self.learner
        for start in range(0, len(pairs), 100):
            batch = to_device(collate(self.valid_split, pairs[start : start + 100]), self.device)
            noise = Noise(generator, len(batch.references))
            sums = OBJECTIVES[learner.kind](learner.models, batch, self.phase, learner.payoffs, noise).sums
            total += float(sums[kind][0])
            count += float(sums[kind][1])
        return total / count

    # Log and divergence.

    def _report(self, lengths: Sequence[int]) -> None:
        """The live line a few times a second; now and then a line in the log, and on paper where nothing is live."""
        progress, due = self.progress, self.progress.updates % self.log_every == 0
        shown = self.show is not None and time.monotonic() - self._shown > BLINK
        if shown or (due and not self.show):
            since = progress.updates % self.log_every or self.log_every
            where = (self.phase.name, progress.epoch, lengths, progress.batch)
            (self.show or self.say)(watch.line(*where, progress.sums, since, progress.seconds))
            self._shown = time.monotonic()
        if due:
            means = watch.means(progress.sums)
            entry = {"event": "train", "phase": self.phase.name, "epoch": progress.epoch, "updates": progress.updates}
            self.log.write({**entry, **{key: float(f"{value:.6g}") for key, value in means.items()}})
            progress.sums, progress.seconds = {}, 0.0
            if self.objective(self.phase) == "actor_critic":
                watch.guard(means, progress.began)

    def _diverged(self, reason: str) -> None:
        """Record it and go on with the best so far, or go back and try with half the rate."""
        where = f"{self.phase.name}, update {self.progress.updates:,}"
        self.log.write({"event": "diverged", "phase": self.phase.name, "updates": self.progress.updates, "why": reason})
        if self.recipe.on_divergence == "record":
            self.say(f"{where}: diverged, {reason}; recorded, the best networks so far are kept.")
            self.progress.diverged.append(self.phase.name)
            self._end_phase()
            return
        if self.progress.rollbacks == ROLLBACKS:
            raise UserError(
                f"{where}: {reason}, for the fourth time; lower the learning rate or tau, raise smoothing, or train "
                "the critic longer, then start again."
            )
        rollbacks, offset = self.progress.rollbacks + 1, self.log.offset
        found = checkpoints.newest(self.run.checkpoints, self.say)
        self.processes.wait()
        assert found is not None  # the first is written before the first update
        self._restore(found)
        self._open_log(offset)
        self.progress.rollbacks, self.progress.began = rollbacks, {}
        self._slow_down(0.5, TRAINS[self.objective(self.phase)])
        self.say(f"{where}: {reason}; back to update {self.progress.updates:,} with half the learning rate.")
        self.save()

    # Checkpoints.

    def _save_now_and_then(self) -> None:
        if time.monotonic() - self._saved > 60 * self.checkpoint_minutes:
            self.save()

    def save(self) -> None:
        """Everything that the rest of the run depends on."""
        if self.processes.writes:
            models, optimizers = self.learner.models, self.learner.optimizers
            tensors = {name: dict(model.state_dict()) for name, model in models.items()}
            tensors |= {f"optimizer-{n}": checkpoints.optimizer_tensors(o) for n, o in optimizers.items()}
            tensors |= {"best": self.best, "generator": {"state": self.generator.get_state()}}
            rates = {name: optimizer.param_groups[0]["lr"] for name, optimizer in optimizers.items()}
            state = {"progress": asdict(self.progress), "rates": rates, "log": self.log.offset}
            there = checkpoints.names(self.run.checkpoints)
            number = int(there[-1]) + 1 if there else 1
            checkpoints.save(self.run.checkpoints, f"{number:08d}", Checkpoint(tensors, state))
        self._saved = time.monotonic()

    def _restore(self, found: Checkpoint) -> None:
        """Continue bit for bit where a checkpoint stood."""
        self.progress = Progress(**found.state["progress"])
        if self.progress.done:
            return
        self._begin_phase()
        for name, model in self.learner.models.items():
            model.load_state_dict(found.tensors[name])
        for name, optimizer in self.learner.optimizers.items():
            checkpoints.restore_optimizer(optimizer, found.tensors[f"optimizer-{name}"])
            for group in optimizer.param_groups:
                group["lr"] = found.state["rates"][name]
        self.best = {key: tensor.to(self.device) for key, tensor in found.tensors["best"].items()}
        self.generator.set_state(found.tensors["generator"]["state"])
