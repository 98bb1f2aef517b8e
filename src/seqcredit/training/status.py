"""The state of a run between two updates, and how it is shown."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from seqcredit.training import watch
from seqcredit.training.boards import ReportTo
from seqcredit.training.learner import Watched

FADING = 0.98  # of the sums for a critic's present share and for a moving baseline, an update


@dataclass
class Status:
    """Where a run stands: all of it goes into a checkpoint."""

    phase: int = 0
    epoch: int = 0
    batch: int = 0  # the next one of the epoch
    updates: int = 0  # of this phase
    rate: float = 1.0  # what decay has left of the learning rate
    decays: int = 0
    best: float | None = None  # merit of the best validation, higher is better
    figure: float | None = None  # that validation, as the log says it
    rollbacks: int = 0
    diverged: list[str] = field(default_factory=list)  # phases that did
    began: dict[str, float] = field(default_factory=dict)  # first values of what the guard watches
    sums: dict[str, list[float]] = field(default_factory=dict)  # since the last line of the log
    recent: dict[str, list[float]] = field(default_factory=dict)  # for `explained`, `earned`; the older the lighter
    last: dict[str, float] = field(default_factory=dict)  # means of the last update
    enough: bool = False  # by the best validation there is no need to go on with this phase
    closed: str | None = None  # and why the next phase may not begin
    skipped: list[str] = field(default_factory=list)  # phases that did not begin
    seconds: float = 0.0  # of the updates since the last line of the log
    cpu: float = 0.0  # seconds of CPU time, of all updates of the run
    tokens: int = 0  # of the references in all batches of the run, padding left out
    drawn: int = 0  # samples that were drawn and scored, in all updates of the run
    done: bool = False

    def add(self, watched: Watched, tokens: int = 0) -> None:
        """What was watched of an update, whose references have so many tokens."""
        self.tokens += tokens
        self.drawn += int(watched.get("reward", (0, 0))[1])
        self.last = watch.means({key: list(pair) for key, pair in watched.items()})
        for key, (total, count) in watched.items():
            entry = self.sums.setdefault(key, [0.0, 0.0])
            entry[0] += total
            entry[1] += count
            if key in (*watch.EXPLAINING, watch.EARNED):
                before = self.recent.get(key, [0.0, 0.0])
                self.recent[key] = [FADING * before[0] + total, FADING * before[1] + count]

    def after(self, phase: int, skipped: list[str], done: bool) -> "Status":
        """At the start of the next phase, or the end of the run: what belongs to a phase is forgotten."""
        used = Status(phase, cpu=self.cpu, tokens=self.tokens, drawn=self.drawn, done=done)
        return replace(used, diverged=self.diverged, recent=self.recent, skipped=skipped)

    @property
    def cost(self) -> dict[str, int | float]:
        """What the run has used so far, as the log has it."""
        return {"drawn": self.drawn, "tokens": self.tokens, "cpu": round(self.cpu, 2)}

    @property
    def explained(self) -> float:
        """The share of the returns' variance that the critic has explained of late; 1 where nothing is known."""
        return watch.means(self.recent).get("explained", 1.0)

    @property
    def earned(self) -> float:
        """The mean of what samples have earned of late; 0 where nothing is known."""
        return watch.means(self.recent).get(watch.EARNED, 0.0)


class StoppedError(Exception):
    """Someone asked the run to stop; it has saved itself between two updates."""


@dataclass(frozen=True)
class Reporting:
    """How a run is shown and saved: `say` gets lines that stay, `show`, on a terminal, one that the next replaces."""

    say: Callable[[str], None] = print
    show: Callable[[str], None] | None = None
    log_every: int = 100  # updates
    checkpoint_minutes: float = 5.0
    report_to: ReportTo | None = None  # a copy of the log goes there
