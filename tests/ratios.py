"""What a step of each algorithm costs in MLE steps, at a small size: `test_ratios.py` compares it with what it was.

    python tests/ratios.py    measure, and write tests/ratios.json

Ratios, not times: processor time on one thread, steps taking turns, medians over rounds. They are nearly the same from
machine to machine, while times are not.
"""

import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from seqcredit.inspect.bench import PHASES, Step, make_learner
from seqcredit.inspect.paced import Paced
from seqcredit.training.learner import Learner
from seqcredit.types import Batch

COMMITTED = Path(__file__).parent / "ratios.json"
VOCABULARY, WIDTH, WORDS = 3_000, 64, 10
ROUNDS = 5
MARGIN = 1.4  # a step that is 1.5 times as slow is noticed

Update = Callable[[Learner, Batch], object]


def measure(
    names: Sequence[str] = tuple(PHASES), rounds: int = ROUNDS, update: Update = Learner.update
) -> dict[str, float]:
    """Processor time of each step over that of an MLE step of the same round."""
    steps = {name: Step(name, VOCABULARY, width=WIDTH, words=WORDS) for name in dict.fromkeys(("MLE", *names))}
    with one_thread():
        learners = {name: make_learner(step) for name, step in steps.items()}
        seconds = [
            {name: _seconds(learner, steps[name].batch(number), update) for name, learner in learners.items()}
            for number in range(rounds + 1)
        ][1:]
    return {name: statistics.median(each[name] / each["MLE"] for each in seconds) for name in names}


def _seconds(learner: Learner, batch: Batch, update: Update) -> float:
    actor = learner.models.actor
    assert isinstance(actor, Paced)
    actor.prepare(batch)
    started = time.process_time()
    update(learner, batch)
    return time.process_time() - started


@contextmanager
def one_thread() -> Iterator[None]:
    """Threads that wait for one another use the processor, too."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def changed(found: dict[str, float], known: dict[str, float]) -> dict[str, float]:
    """Steps that have become slower, or faster, than the margin allows; and by what factor."""
    factors = {name: found[name] / known[name] for name in found}
    return {name: round(factor, 2) for name, factor in factors.items() if not 1 / MARGIN < factor < MARGIN}


if __name__ == "__main__":
    runs = [measure() for _ in range(3)]
    ratios = {name: round(statistics.median(run[name] for run in runs), 2) for name in PHASES}
    COMMITTED.write_text(json.dumps(ratios, indent=1) + "\n")
    print(runs, ratios)
