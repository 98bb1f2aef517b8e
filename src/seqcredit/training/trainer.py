"""The only training loop: phases, validation, decay, checkpoints. It knows no algorithm."""

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from seqcredit.algorithms import Phase, Progress
from seqcredit.data.batches import Indices, Loader, check, count_tokens, epoch_batches, padding_ratio
from seqcredit.data.storage import locked
from seqcredit.errors import UserError
from seqcredit.threads import few_threads
from seqcredit.training import checkpoints, precision, watch, weights
from seqcredit.training.boards import Board, board
from seqcredit.training.checkpoints import Checkpoint
from seqcredit.training.learner import DivergedError, Learner
from seqcredit.training.log import Log, log_entries
from seqcredit.training.parallel import Held, hold, whole
from seqcredit.training.processes import Processes
from seqcredit.training.status import Reporting, Status, StoppedError
from seqcredit.training.task import Task
from seqcredit.training.validation import Validator

ROLLBACKS = 3
BLINK = 0.2  # seconds between two states of the live line


class Trainer:
    """Trains the phases of a task in a folder."""

    learner: Learner
    validator: Validator
    log: Log

    def __init__(
        self,
        task: Task,
        folder: Path,
        reporting: Reporting | None = None,
        device: torch.device | str = "cpu",
        processes: Processes | None = None,
    ) -> None:
        precision.check(task.phases, device)
        self.task, self.folder, self.device = task, folder, device
        self.checkpoints = folder / "checkpoints"
        self.reporting, self.processes = reporting or Reporting(), processes or Processes()
        self.say = self.reporting.say
        self.stop = False  # set it to stop after the update that is under way
        self.status = Status()
        self.generator = torch.Generator().manual_seed(task.seed)
        for network in task.networks.values():
            network.to(device)
            self.processes.take(network.state_dict().values())  # a model of the user's own may differ
        # Shards are for all phases, copies for each anew.
        self.held = {name: hold(network, self.processes, trained=False) for name, network in task.networks.items()}
        self.best: dict[str, Tensor] = {}
        self.board: Board | None = None
        self.train_split = task.prepared.split("train")
        for phase in task.phases:
            check(self.train_split, phase.sort_by, phase.batch_tokens)
        self.loader = Loader(self.train_split, device)
        self._saved = self._shown = time.monotonic()

    @property
    def phase(self) -> Phase:
        """The one that is under way."""
        return self.task.phases[self.status.phase]

    # The order of things.

    def train(self) -> None:
        """Run what is left of the task, alone in its folder."""
        busy = f"{self.folder} is being trained by another process: wait for its end, or stop it."
        alone = locked(self.folder, busy) if self.processes.writes else nullcontext()
        with alone, few_threads(self.task.networks.values()):
            self._train()

    def _train(self) -> None:
        found = checkpoints.newest(self.checkpoints, self.say)
        self.processes.wait()  # all have read it before one of them writes the next
        self._open_log(int(found.state["log"]) if found else 0)
        if found:
            self._restore(found)
        else:
            self._begin_run()
        try:
            while not self.status.done:
                try:
                    self._run_phase()
                except DivergedError as reason:
                    self._diverged(str(reason))
        finally:
            if self.board is not None:
                self.board.close()
        for held in self.held.values():
            held.gather()

    def _open_log(self, offset: int) -> None:
        path, writes = self.folder / "log.jsonl", self.processes.writes
        self.log = Log(path, offset, writes)
        if self.reporting.report_to is not None and writes:
            self.board = self.board or board(self.reporting.report_to, self.folder, log_entries(path))
            self.log.copies.append(self.board.tell)

    def _begin_run(self) -> None:
        """From the first phase that has not been taken over from another run."""
        names = [phase.name for phase in self.task.phases]
        done = weights.finished(self.folder, names)
        start = done[-1:] or weights.finished(self.folder, [weights.INITIAL])
        self._load(weights.load(self.folder, start[0]) if start else {})
        self.status.done = len(done) == len(names)
        self.status.phase = min(len(done), len(names) - 1)
        self._begin_phase()
        self.save()

    def _run_phase(self) -> None:
        """One phase to its end, from wherever it stands."""
        status, phase = self.status, self.phase
        if phase.name not in status.skipped:
            if status.updates == 0 and phase.validates_start:
                self._validate()
            lengths = phase.lengths(len(self._batches(phase, 0)))
            while not self._over(lengths):
                self._run_epoch(phase, lengths)
        self._end_phase()

    def _over(self, lengths: Sequence[int]) -> bool:
        """Whether a phase has spent its budget, does not improve any more, or has come as far as it was asked to."""
        status = self.status
        return status.epoch >= len(lengths) or status.decays > self.phase.decays or status.enough

    def _batches(self, phase: Phase, epoch: int) -> list[Indices]:
        given = phase.batch_size, self.task.seed, epoch, phase.sort_by, phase.batch_tokens
        return epoch_batches(self.train_split, *given)

    def _run_epoch(self, phase: Phase, lengths: Sequence[int]) -> None:
        status = self.status
        batches = self._batches(phase, status.epoch)[: lengths[status.epoch]]
        while status.batch < len(batches):
            started, spent = time.monotonic(), time.process_time()
            progress = Progress(status.updates, sum(lengths), status.explained, status.earned, status.last)
            self._update(batches, status.batch, progress)
            status.batch += 1
            status.updates += 1
            self._slow_down(phase.annealing(status.updates, sum(lengths)), phase.trains[:1])
            status.seconds += time.monotonic() - started
            status.cpu += time.process_time() - spent
            self._report(lengths)
            if phase.validate_every and status.updates % phase.validate_every == 0:
                self._validate()
                if self._over(lengths):
                    return
            late = time.monotonic() - self._saved > 60 * self.reporting.checkpoint_minutes
            stop, late = self.processes.any(self.stop, late)
            if stop or late:
                self.save()
            if stop:
                raise StoppedError
        status.epoch += 1
        status.batch = 0
        every = phase.validate_every
        if not every or (status.epoch == len(lengths) and status.updates % every > 0):
            self._validate()
        self.save()

    def _update(self, batches: Sequence[Indices], number: int, progress: Progress) -> None:
        """One update; what was watched is added up."""
        whole = self.loader.get(batches[number], batches[number + 1] if number + 1 < len(batches) else None)
        self.status.add(self.learner.update(whole, progress), count_tokens(self.train_split, batches[number]))

    # Phases.

    def _begin_phase(self) -> None:
        """Optimizers, a target network, a clean slate."""
        task = self.task
        shards = self.held if self.processes.sharded else {}
        self.learner = Learner(
            task.networks, self.phase, task.reward, self.generator, self.processes, shards, task.seed
        )
        self.validator = Validator(task, self.learner, self.device)
        self.best = {}
        if self.phase.name not in self.status.skipped:
            batches = self._batches(self.phase, 0)
            pairs = sum(map(len, batches)) / len(batches)
            self.say(watch.plan(self.phase, len(batches), padding_ratio(self.train_split, batches), pairs))

    def _end_phase(self) -> None:
        """The best networks are the ones that count; then the next phase begins."""
        self._load(self.best)
        tensors = {key: self._holder(key).whole(tensor) for key, tensor in self._networks().items()}
        if self.processes.writes:
            weights.save(self.folder, self.phase.name, tensors)
        old, done = self.status, self.status.phase + 1 == len(self.task.phases)
        entry = {"event": "phase_end", "phase": self.phase.name, "best": old.figure, "updates": old.updates}
        self.log.write({**entry, **old.cost})
        skipped, phase = old.skipped or self._skipped(), old.phase if done else old.phase + 1
        self.status = old.after(phase, skipped, done)
        if not done:
            self._begin_phase()
        self.save()

    def _skipped(self) -> list[str]:
        """The phases that do not begin, because this one has not opened the way to them."""
        status, later = self.status, [phase.name for phase in self.task.phases[self.status.phase + 1 :]]
        if status.closed is None or not later:
            return []
        entry = {"event": "skipped", "phase": self.phase.name, "updates": status.updates, "why": status.closed}
        self.log.write({**entry, "skipped": later})
        self.say(
            f"{self.phase.name}: after {status.updates:,} updates {status.closed}. Skipped: "
            f"{', '.join(later)}; the model stays as it was. Train the critic longer, or lower critic_least."
        )
        return later

    def _networks(self) -> dict[str, Tensor]:
        networks = self.task.networks.items()
        return {f"{name}.{key}": tensor for name, network in networks for key, tensor in network.state_dict().items()}

    def _load(self, tensors: Mapping[str, Tensor]) -> None:
        for name, held in self.held.items():
            mine = weights.of_network(tensors, name)
            if mine:
                held.load(mine)

    def _holder(self, key: str) -> Held:
        """Of the network that a tensor of `_networks` belongs to."""
        return self.held[key.partition(".")[0]]

    # Validation and decay.

    def _validate(self) -> None:
        """Judge the networks; keep the best, lower the rate where there is no progress."""
        status, phase = self.status, self.phase
        with whole(self.learner.held.values()):
            found = self.validator.judge()
        if not math.isfinite(found.value):
            raise DivergedError(f"the {found.name} of validation is not finite")
        improved = status.best is None or found.merit > status.best
        if improved:
            status.best, status.figure = found.merit, found.value
            self.best = {key: tensor.clone() for key, tensor in self._networks().items()}
        elif not phase.stands_still(status.updates):
            status.decays += 1
            self._slow_down(phase.decay, phase.trains[:1])  # a joint critic keeps its rate
        entry = {"event": "validation", "phase": phase.name, "epoch": status.epoch, "updates": status.updates}
        figures = {found.name: round(found.value, 4), **self.validator.measured}
        gate = phase.gate(figures) if improved else None
        if gate is not None:
            status.enough, status.closed = gate.at_once, None if gate.open else gate.said
        self.log.write({**entry, **figures, "improved": improved, "rate": status.rate, **status.cost})
        slower = "" if phase.decay == 1 or phase.stands_still(status.updates) else f", learning rate x {phase.decay:g}"
        mark = "best so far" if improved else f"no better{slower}"
        said = ", ".join(f"{watch.VALIDATED.get(key, key)} {value:.4g}" for key, value in figures.items())
        self.say(f"{phase.name}: after {status.updates:,} updates validation {said}, {mark}")

    def _slow_down(self, factor: float, names: tuple[str, ...]) -> None:
        self.status.rate *= factor
        self.learner.slow_down(factor, names)

    # Log and divergence.

    def _report(self, lengths: Sequence[int]) -> None:
        """The live line a few times a second; now and then a line in the log, and on paper where nothing is live."""
        status, show, every = self.status, self.reporting.show, self.reporting.log_every
        due = status.updates % every == 0
        shown = show is not None and time.monotonic() - self._shown > BLINK
        if shown or (due and not show):
            since = status.updates % every or every
            where = (self.phase.name, status.epoch, lengths, status.batch)
            (show or self.say)(watch.line(*where, status.sums, since, status.seconds))
            self._shown = time.monotonic()
        if due:
            means = watch.means(status.sums)
            entry = {"event": "train", "phase": self.phase.name, "epoch": status.epoch, "updates": status.updates}
            self.log.write({**entry, **{key: float(f"{value:.6g}") for key, value in means.items()}})
            status.sums, status.seconds = {}, 0.0
            if self.phase.guarded:
                watch.guard(means, status.began)

    def _diverged(self, reason: str) -> None:
        """Record it and go on with the best so far, or go back and try with half the rate."""
        where = f"{self.phase.name}, update {self.status.updates:,}"
        self.log.write({"event": "diverged", "phase": self.phase.name, "updates": self.status.updates, "why": reason})
        if self.task.on_divergence == "record":
            self.say(f"{where}: diverged, {reason}; recorded, the best networks so far are kept.")
            self.status.diverged.append(self.phase.name)
            self._end_phase()
            return
        if self.status.rollbacks == ROLLBACKS:
            raise UserError(
                f"{where}: {reason}, for the fourth time; lower the learning rate or tau, raise smoothing, or train "
                "the critic longer, then start again."
            )
        rollbacks, offset = self.status.rollbacks + 1, self.log.offset
        found = checkpoints.newest(self.checkpoints, self.say)
        self.processes.wait()
        assert found is not None  # the first is written before the first update
        self._restore(found)
        self._open_log(offset)
        self.status.rollbacks, self.status.began = rollbacks, {}
        self._slow_down(0.5, self.phase.trains)
        self.say(f"{where}: {reason}; back to update {self.status.updates:,} with half the learning rate.")
        self.save()

    # Checkpoints.

    def save(self) -> None:
        """Everything that the rest of the run depends on."""
        processes, optimizers = self.processes, self.learner.optimizers
        if processes.writes or processes.sharded:
            tensors = {name: dict(network.state_dict()) for name, network in self.learner.networks.items()}
            tensors |= {f"optimizer-{n}": checkpoints.optimizer_tensors(o) for n, o in optimizers.items()}
            tensors |= {"best": self.best, "generator": {"state": self.generator.get_state()}}
            rates = {name: optimizer.param_groups[0]["lr"] for name, optimizer in optimizers.items()}
            state = {"progress": asdict(self.status), "rates": rates, "log": self.log.offset}
            there = checkpoints.names(self.checkpoints)
            name, made = f"{int(there[-1]) + 1 if there else 1:08d}", Checkpoint(tensors, state)
            if processes.sharded:
                checkpoints.save_shards(self.checkpoints, name, made, processes)
            else:
                checkpoints.save(self.checkpoints, name, made)
        self._saved = time.monotonic()

    def _restore(self, found: Checkpoint) -> None:
        """Continue bit for bit where a checkpoint stood."""
        self.status = Status(**found.state["progress"])
        if self.status.done:
            self._load(weights.load(self.folder, self.phase.name))
            return
        self._begin_phase()
        for name, held in self.learner.held.items():
            held.load(found.group(name, held.network.state_dict().get))
        for name, optimizer in self.learner.optimizers.items():
            near, held = partial(checkpoints.weight_of, optimizer), self.learner.held[name]
            tensors = found.group(f"optimizer-{name}", near).items()
            parts = {key: held.part(each, near(key)) if each.dim() else each for key, each in tensors}
            checkpoints.restore_optimizer(optimizer, parts)
            for group in optimizer.param_groups:
                group["lr"] = found.state["rates"][name]
        like = self._networks()
        self.best = {
            key: self._holder(key).part(each, like[key]) for key, each in found.group("best", like.get).items()
        }
        self.generator.set_state(found.group("generator", lambda _: None)["state"])
