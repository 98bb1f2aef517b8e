"""Two runs on the same test set: scores, significance, and the sentences that differ most."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqcredit.errors import UserError
from seqcredit.rewards.corpus import corpus_bleu

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU, BLEUScore

Words = Sequence[str]
Scores = NDArray[np.float64]
# A row a sentence: length, length of the nearest reference, n-grams of 1 to 4 words that match, and how many there are.
Counts = NDArray[np.int64]

SEED = 12345  # sacreBLEU's
COUNTED = 10
MIDDLE = (0.025, 0.975)  # 95 % lie between


class Significance(NamedTuple):
    """BLEU of a baseline and of a system, and how often chance alone makes such a difference.

    p is sacreBLEU's, of one side: how often samples differ by so much more than they do on the average.
    """

    baseline: float
    system: float
    p: float
    signature: str
    interval: tuple[float, float]  # of the difference: 95 % of the samples lie in it


class Difference(NamedTuple):
    """A sentence and its sentence-BLEU in both."""

    sentence: int
    baseline: float
    system: float


def bootstrap(
    baselines: Sequence[Sequence[Words]],
    systems: Sequence[Sequence[Words]],
    references: Sequence[Sequence[Words]],
    samples: int = 1000,
    paired: bool = False,
) -> Significance:
    """Paired bootstrap resampling of mean BLEU: sentences are drawn anew, the same for all, and so are runs.

    With one run on either side it is sacreBLEU's. Koehn (2004). Runs that are `paired`, the n-th of both, are drawn
    together: those of one seed, which may have started from the same network.
    """
    for one in (*baselines, *systems):
        _same_size(baselines[0], one, references)
    first, second = ([resampled(counts(one, references), samples) for one in group] for group in (baselines, systems))
    return of_means(first, second, corpus_bleu(baselines[0], references).signature, paired)


def counts(hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]) -> Counts:
    """All that BLEU needs to know of each sentence, by sacreBLEU; their sums are those of the corpus."""
    _same_size(hypotheses, hypotheses, references)
    found = [sentence_bleu(words, group) for words, group in zip(hypotheses, references, strict=True)]
    rows = [[score.sys_len, score.ref_len, *score.counts, *score.totals] for score in found]
    return np.array(rows, np.int64).reshape(-1, COUNTED)


def resampled(counted: Counts, samples: int = 1000) -> Scores:
    """BLEU of the corpus, then of as many sentences drawn from it, again and again; all runs get the same draws."""
    times = _times(len(counted), samples, np.random.default_rng(SEED))
    return np.array([_bleu(row) for row in times @ counted])


def _times(size: int, samples: int, generator: np.random.Generator) -> Scores:
    """How often each of `size` things counts: once, then in every sample as often as it was drawn."""
    drawn = generator.choice(size, size=(samples, size), replace=True)
    return np.stack([np.ones(size), *(np.bincount(row, minlength=size) for row in drawn)])


def _bleu(sums: NDArray[np.float64]) -> float:
    from sacrebleu.metrics.bleu import BLEU

    exact = sums.astype("float32")  # whole numbers, in sacreBLEU's precision
    return BLEU.compute_bleu(exact[2:6], exact[6:], int(exact[0]), int(exact[1]), "exp").score  # type: ignore[arg-type]


def of_means(
    baselines: Sequence[Scores], systems: Sequence[Scores], signature: str, paired: bool = False
) -> Significance:
    """Significance of a difference of means over runs, each of which was resampled in the same way.

    The signature is that of their BLEU; those of the samples are added to it as sacreBLEU does.
    """
    generator, samples = np.random.default_rng(SEED), len(baselines[0]) - 1
    times = _times(len(baselines), samples, generator)
    others = times if paired else _times(len(systems), samples, generator)
    first, second = (np.average(group, 0, weights.T) for group, weights in ((baselines, times), (systems, others)))
    low, high = np.quantile((second - first)[1:], MIDDLE)
    changes = np.abs(second - first)
    chance = int((changes[1:] - changes[1:].mean() > changes[0]).sum())
    p = (chance + 1) / len(changes) if changes.any() else 1.0
    references, _, rest = signature.partition("|")
    test = f"{references}|bs:{len(changes) - 1}|seed:{SEED}|{rest}"
    return Significance(float(first[0]), float(second[0]), p, test, (float(low), float(high)))


def differences(
    baseline: Sequence[Words], system: Sequence[Words], references: Sequence[Sequence[Words]]
) -> list[Difference]:
    """All sentences, the largest change of sentence BLEU first."""
    _same_size(baseline, system, references)
    found = []
    for i, (a, b, group) in enumerate(zip(baseline, system, references, strict=True)):
        found.append(Difference(i, sentence_bleu(a, group).score, sentence_bleu(b, group).score))
    return sorted(found, key=lambda d: -abs(d.system - d.baseline))


def sentence_bleu(words: Words, references: Sequence[Words]) -> "BLEUScore":
    """BLEU of one sentence in percent, and its counts, by sacreBLEU."""
    return _sentence_metric().sentence_score(" ".join(words), [" ".join(reference) for reference in references])


@cache
def _sentence_metric() -> "BLEU":
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize="none", force=True, effective_order=True)


def _same_size(baseline: Sequence[Words], system: Sequence[Words], references: Sequence[Sequence[Words]]) -> None:
    sizes = (len(baseline), len(system), len(references))
    if len(set(sizes)) > 1:
        raise UserError(
            f"The two runs have {sizes[0]} and {sizes[1]} hypotheses for {sizes[2]} references; evaluate both on the "
            "same split first."
        )
