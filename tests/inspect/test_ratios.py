"""No step may become 1.5 times as slow, in MLE steps, unnoticed; `ratios.py` says how it is measured."""

import json

import pytest

import ratios
from seqcredit.algorithms import Mle
from seqcredit.inspect.bench import PHASES
from seqcredit.training.learner import Learner
from seqcredit.types import Batch

KNOWN = json.loads(ratios.COMMITTED.read_text())
TRIES = 3  # a busy machine may spoil one


def suspects(names: tuple[str, ...], update: ratios.Update = Learner.update) -> dict[str, float]:
    """Steps that cost more, or less, than they did, however often one looks."""
    wrong: dict[str, float] = {}
    for _ in range(TRIES):
        wrong = ratios.changed(ratios.measure(names, update=update), KNOWN)
        names = tuple(wrong)
        if not wrong:
            break
    return wrong


@pytest.mark.slow
def test_a_step_costs_as_many_mle_steps_as_it_did() -> None:
    assert set(KNOWN) == set(PHASES)
    wrong = suspects(tuple(PHASES))
    assert not wrong, f"factors of change: {wrong}; if they are meant, run python tests/ratios.py"


@pytest.mark.slow
@pytest.mark.parametrize("twice", ["ERAC", "MLE"])
def test_a_step_that_does_its_work_twice_is_noticed(twice: str) -> None:
    """That of ERAC itself; that of MLE by what all others seem to gain."""

    def update(learner: Learner, batch: Batch) -> None:
        for _ in range(1 + (isinstance(learner.phase, Mle) == (twice == "MLE"))):
            learner.update(batch)

    (factor,) = ratios.changed(ratios.measure(("ERAC",), rounds=3, update=update), KNOWN).values()
    assert (factor > 1.4) == (twice == "ERAC")


def test_changes_by_hand() -> None:
    assert ratios.changed({"a": 3.0, "b": 2.2, "c": 1.0}, {"a": 2.0, "b": 2.0, "c": 2.0}) == {"a": 1.5, "c": 0.5}
