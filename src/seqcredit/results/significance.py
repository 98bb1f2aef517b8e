"""Significance: paired bootstrap of any metric, over examples and over runs."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqcredit.errors import UserError
from seqcredit.rewards.metrics import BLEU, Metric, References, Statistics, Words

Scores = NDArray[np.float64]

SEED = 12345  # sacreBLEU's
MIDDLE = (0.025, 0.975)  # 95 % lie between


class Significance(NamedTuple):
    """The figures of a baseline and of a system, and how often chance alone makes such a difference.

    p is sacreBLEU's, of one side: how often samples differ by so much more than they do on the average. Which of the
    two is better, the metric's direction tells: a difference is the system's figure less the baseline's.
    """

    baseline: float
    system: float
    p: float
    signature: str
    interval: tuple[float, float]  # of the difference: 95 % of the samples lie in it


class Difference(NamedTuple):
    """An example and its own figure in both."""

    example: int
    baseline: float
    system: float


def bootstrap(
    baselines: Sequence[Sequence[Words]],
    systems: Sequence[Sequence[Words]],
    references: References,
    samples: int = 1000,
    paired: bool = False,
    metric: Metric = BLEU,
) -> Significance:
    """Paired bootstrap resampling of a mean figure: examples are drawn anew, the same for all, and so are runs.

    With one run on either side it is sacreBLEU's. Koehn (2004). Runs that are `paired`, the n-th of both, are drawn
    together: those of one seed, which may have started from the same network.
    """
    for one in (*baselines, *systems):
        _same_size(baselines[0], one, references)
    first, second = (
        [resampled(metric.statistics(one, references), samples, metric) for one in group]
        for group in (baselines, systems)
    )
    return of_means(first, second, metric.signature(references), paired)


def resampled(statistics: Statistics, samples: int = 1000, metric: Metric = BLEU) -> Scores:
    """The figure of all rows, then of as many drawn from them, again and again; all runs get the same draws.

    Sums are in sacreBLEU's precision, float32, where that loses nothing: those of counts.
    """
    sums = _times(len(statistics), samples, np.random.default_rng(SEED)) @ statistics
    short = sums.astype(np.float32)
    return np.array([metric.score(row) for row in (short if np.array_equal(short, sums) else sums)])


def _times(size: int, samples: int, generator: np.random.Generator) -> Scores:
    """How often each of `size` things counts: once, then in every sample as often as it was drawn."""
    drawn = generator.choice(size, size=(samples, size), replace=True)
    return np.stack([np.ones(size), *(np.bincount(row, minlength=size) for row in drawn)])


def of_means(
    baselines: Sequence[Scores], systems: Sequence[Scores], signature: str, paired: bool = False
) -> Significance:
    """Significance of a difference of means over runs, each of which was resampled in the same way.

    The signature is that of their metric; those of the samples are added to it as sacreBLEU does.
    """
    generator, samples = np.random.default_rng(SEED), len(baselines[0]) - 1
    times = _times(len(baselines), samples, generator)
    others = times if paired else _times(len(systems), samples, generator)
    first, second = (np.average(group, 0, weights.T) for group, weights in ((baselines, times), (systems, others)))
    low, high = np.quantile((second - first)[1:], MIDDLE)
    changes = np.abs(second - first)
    chance = int((changes[1:] - changes[1:].mean() > changes[0]).sum())
    p = (chance + 1) / len(changes) if changes.any() else 1.0
    begins, *rest = signature.split("|", 1)
    test = "|".join([begins, f"bs:{len(changes) - 1}", f"seed:{SEED}", *rest])
    return Significance(float(first[0]), float(second[0]), p, test, (float(low), float(high)))


def differences(
    baseline: Sequence[Words], system: Sequence[Words], references: References, metric: Metric = BLEU
) -> list[Difference]:
    """All examples, the largest change of their own figure first."""
    _same_size(baseline, system, references)
    rows = (metric.statistics(said, references) for said in (baseline, system))
    each = zip(*([metric.example(row) for row in some] for some in rows), strict=True)
    found = [Difference(number, *figures) for number, figures in enumerate(each)]
    return sorted(found, key=lambda d: -abs(d.system - d.baseline))


def _same_size(baseline: Sequence[Words], system: Sequence[Words], references: References) -> None:
    sizes = (len(baseline), len(system), len(references))
    if len(set(sizes)) > 1:
        raise UserError(
            f"The two runs have {sizes[0]} and {sizes[1]} hypotheses for {sizes[2]} references; evaluate both on the "
            "same split first."
        )
