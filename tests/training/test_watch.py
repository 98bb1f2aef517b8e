"""What a run shows of itself."""

import math

import pytest

from seqcredit.training import watch
from seqcredit.training.learner import DivergedError

SUMS = {"td": [30.0, 200.0], "reward": [40.0, 80.0], "actor_gradient": [5.0, 10.0], "nothing": [0.0, 0.0]}


def test_a_line_says_where_how_fast_how_long_and_how_well() -> None:
    text = watch.line("joint", 1, [100, 100, 80], 25, SUMS, updates=5, seconds=10.0)
    assert text == (
        "joint: epoch 2/3, update 25/100, 20 tokens/s, epoch ends in 2 min, phase in 5 min at most  TD 0.15  reward 0.5"
    )  # 75 updates of 2 seconds in this epoch, 80 in the one after


def test_without_tokens_the_speed_counts_updates() -> None:
    assert ", 0.5 updates/s, epoch ends in 20 s" in watch.line("raml", 0, [100], 90, {"loss": [1.0, 1.0]}, 5, 10.0)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (89.0, "89 s"), (91.0, "2 min"), (5_300.0, "88 min"), (7_500.0, "2 h 5 min")]
)
def test_durations(seconds: float, words: str) -> None:
    assert watch.duration(seconds) == words


def test_sums_over_nothing_have_no_mean() -> None:
    assert watch.means(SUMS) == {"td": 0.15, "reward": 0.5, "actor_gradient": 0.5}


def test_the_share_of_the_returns_variance_that_a_critic_explains() -> None:
    """Returns 1, 2, 6: their mean is 3, their variance 14 / 3."""
    sums = {"return_error": [7.0, 3.0], "return": [9.0, 3.0], "return_square": [41.0, 3.0]}
    assert watch.means(sums) == {"return_error": pytest.approx(7 / 3), "explained": pytest.approx(0.5)}
    same = {"return_error": [7.0, 2.0], "return": [6.0, 2.0], "return_square": [18.0, 2.0]}  # nothing to explain
    assert watch.means(same) == {"return_error": 3.5}


def test_precisions_make_the_corpus_bleu_of_the_samples() -> None:
    precisions = {f"precision_{n}": [m, 10.0] for n, m in zip((1, 2, 3, 4), (8.0, 6.0, 4.0, 2.0), strict=True)}
    mean = (0.8 * 0.6 * 0.4 * 0.2) ** 0.25
    long = watch.means({**precisions, "closeness": [12.0, 10.0]})
    short = watch.means({**precisions, "closeness": [8.0, 10.0]})
    assert long["sample_bleu"] == pytest.approx(100 * mean)
    assert short["sample_bleu"] == pytest.approx(100 * mean * math.exp(1 - 10 / 8))
    assert "sample_bleu" not in watch.means({**precisions, "precision_4": [0.0, 10.0], "closeness": [8.0, 10.0]})


def test_a_collapsed_policy_or_a_lost_reward_is_a_divergence() -> None:
    began: dict[str, float] = {}
    watch.guard({"entropy": 2.0, "reward": 0.4}, began)
    watch.guard({"entropy": 0.2, "reward": 0.3}, began)
    with pytest.raises(DivergedError, match=r"entropy fell from 2 to 0\.09"):
        watch.guard({"entropy": 0.09, "reward": 0.3}, began)
    with pytest.raises(DivergedError, match=r"reward fell from 0\.4 to 0\.1"):
        watch.guard({"entropy": 1.0, "reward": 0.1}, began)
