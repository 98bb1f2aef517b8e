"""Times by hand: what was measured, what is left, what comes after what."""

from pathlib import Path
from typing import Any

import pytest

from seqcredit import algorithms
from seqcredit.experiments.forecast import Pace, Rates, makespan, paces, total

RECIPE = Path("recipe.toml")
PHASES = (
    algorithms.Mle("mle", 0.5, batch_size=10, epochs=4),
    algorithms.Critic("critic", 0.1, batch_size=10, epochs=2),
)


def entry(phase: str, updates: int, time: float, event: str = "train") -> dict[str, Any]:
    return {"event": event, "phase": phase, "updates": updates, "time": time}


# Two seconds an update, and a validation of 10 seconds after each 50.
WHOLE = [
    entry("mle", 50, 1000.0),
    entry("mle", 50, 1010.0, "validation"),
    entry("mle", 100, 1110.0),
    entry("mle", 100, 1120.0, "validation"),
    entry("mle", 100, 1120.0, "phase_end"),
    entry("critic", 20, 1130.0),
]


def test_the_pace_of_each_phase() -> None:
    found = paces(WHOLE)
    assert found["mle"] == Pace(updates=100, measured=50, seconds=120.0, finished=True)
    assert found["critic"] == Pace(updates=20, measured=20, seconds=10.0, finished=False)
    assert paces([]) == {}


def test_pauses_and_steps_back_do_not_count() -> None:
    times = [(10, 0.0), (20, 10.0), (30, 20.0), (40, 5000.0), (20, 5010.0), (30, 5020.0)]
    assert paces([entry("mle", *point) for point in times])["mle"] == Pace(30, 40, 10 + 10 + 100 + 10, False)


def rates(an_epoch: int | None = 50) -> Rates:
    made = Rates(lambda phase: an_epoch)
    made.add(RECIPE, "a", WHOLE)
    return made


def test_rates_are_of_a_recipe_and_a_phase() -> None:
    made = rates()
    assert made.of_update(RECIPE, "mle") == pytest.approx(120 / 50)
    assert made.of_update(RECIPE, "critic") == pytest.approx(0.5)
    assert made.of_update(Path("other.toml"), "mle") is None
    assert made.of_update(RECIPE, "actor_critic") is None
    made.add(RECIPE, "b", [entry("critic", 0, 0.0), entry("critic", 60, 70.0)])
    assert made.of_update(RECIPE, "critic") == pytest.approx(80 / 80)
    made.add(RECIPE, "b", [entry("critic", 0, 0.0), entry("critic", 20, 30.0)])  # again: the newer counts
    assert made.of_update(RECIPE, "critic") == pytest.approx(40 / 40)


def test_as_many_updates_as_like_runs_had_or_can_have() -> None:
    mle, critic = PHASES
    assert rates().expected(RECIPE, mle) == 100
    assert rates(None).expected(RECIPE, mle) == 100
    assert rates(20).expected(RECIPE, mle) == 80  # of 4 epochs there are no more
    assert rates().expected(RECIPE, critic) == 100
    assert rates(None).expected(RECIPE, critic) is None


def test_where_a_run_stands() -> None:
    made = rates()
    fresh = made.standing(RECIPE, PHASES, [])
    assert (fresh.phase, fresh.share) == ("mle", 0.0)
    assert fresh.seconds == pytest.approx(100 * 2.4 + 100 * 0.5)
    half = made.standing(RECIPE, PHASES, WHOLE)
    assert (half.phase, half.share, half.seconds) == ("critic", 0.2, pytest.approx(80 * 0.5))
    assert made.standing(RECIPE, PHASES[1:], []).seconds == pytest.approx(50)
    assert made.standing(RECIPE, PHASES, [*WHOLE, entry("critic", 50, 1145.0, "phase_end")]).seconds == 0
    unknown = made.standing(Path("other.toml"), PHASES, [])
    assert (unknown.phase, unknown.share, unknown.seconds) == ("mle", 0.0, None)
    assert rates(None).standing(RECIPE, PHASES, []).seconds is None


@pytest.mark.parametrize(
    ("jobs", "needs", "expected"),
    [
        (1, {}, 10.0),
        (2, {}, 6.0),  # 1 + 2 | then 3 at 1, 4 at 2
        (4, {}, 4.0),
        (2, {"b": "a", "c": "b", "d": "c"}, 10.0),
        (4, {"c": "d"}, 7.0),
        (2, {"a": "elsewhere"}, 6.0),
    ],
)
def test_the_whole_time(jobs: int, needs: dict[str, str | None], expected: float) -> None:
    assert makespan({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}, needs, jobs) == expected


def test_nothing_takes_no_time() -> None:
    assert makespan({}, {}, 2) == 0
    assert total([]) == (0.0, 0)
    assert total([1.0, None, 2.0]) == (3.0, 1)
