"""Where a run stands: what was watched is added up, and the present share of a critic forgets the past."""

import pytest

from seqcredit.training.learner import Watched
from seqcredit.training.status import FADING, Status


def of(returns: list[float], errors: list[float], **more: tuple[float, float]) -> Watched:
    count = float(len(returns))
    return {
        "return": (sum(returns), count),
        "return_square": (sum(r * r for r in returns), count),
        "return_error": (sum(e * e for e in errors), count),
        **more,
    }


def test_sums_and_counts_are_added_up() -> None:
    status = Status()
    for _ in range(2):
        status.add(of([1.0, 3.0], [1.0, 0.0], nll=(5.0, 2.0)))
    assert status.sums == {"return": [8, 4], "return_square": [20, 4], "return_error": [2, 4], "nll": [10, 4]}
    assert status.recent.keys() == {"return", "return_square", "return_error"}


def test_samples_are_counted_by_their_rewards() -> None:
    status = Status(cpu=1.234, drawn=10)
    status.add({"nll": (5.0, 2.0)})
    assert status.drawn == 10
    status.add({"nll": (5.0, 2.0), "reward": (7.5, 4.0)})
    assert status.cost == {"drawn": 14, "tokens": 0, "cpu": 1.23}


def test_the_share_that_is_explained_of_late() -> None:
    """After one update it is that one's; then the older counts for less."""
    status = Status()
    assert status.explained == 1.0  # nobody has said anything to the contrary
    status.add(of([1.0, 3.0], [1.0, 0.0]))
    assert status.explained == pytest.approx(1 - 0.5 / 1.0)
    status.add(of([1.0, 3.0, 1.0, 3.0], [0.0, 0.0, 0.0, 0.0]))
    error, count = FADING * 1.0, FADING * 2 + 4
    assert status.explained == pytest.approx(1 - (error / count) / 1.0)
    for _ in range(2_000):
        status.add(of([1.0, 3.0], [1.0, 1.0]))
    assert status.explained == pytest.approx(0.0, abs=1e-6)
