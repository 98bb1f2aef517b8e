"""Two runs on the same test set: scores, significance, and the sentences that differ most."""

from collections.abc import Sequence
from typing import NamedTuple

from seqcredit.errors import UserError
from seqcredit.rewards.corpus import streams

Words = Sequence[str]


class Significance(NamedTuple):
    """BLEU of a baseline and of a system, and how often chance alone makes such a difference."""

    baseline: float
    system: float
    p: float
    signature: str


class Difference(NamedTuple):
    """A sentence and its sentence-BLEU in both."""

    sentence: int
    baseline: float
    system: float


def paired_bootstrap(
    baseline: Sequence[Words], system: Sequence[Words], references: Sequence[Sequence[Words]], samples: int = 1000
) -> Significance:
    """Paired bootstrap resampling by sacreBLEU. Koehn (2004)."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.significance import PairedTest

    _same_size(baseline, system, references)
    named: list[tuple[str, Sequence[str]]] = [("baseline", _lines(baseline)), ("system", _lines(system))]
    metric = BLEU(tokenize="none", force=True, references=streams(references))  # type: ignore[arg-type]
    test = PairedTest(named, {"BLEU": metric}, references=None, test_type="bs", n_samples=samples)
    signatures, scores = test()
    first, second = (result for result in scores["BLEU"] if not isinstance(result, str))
    p = 1.0 if named[0][1] == named[1][1] else second.p_value or 0.0  # sacreBLEU calls equal systems significant
    return Significance(first.score, second.score, p, str(signatures["BLEU"]))


def differences(
    baseline: Sequence[Words], system: Sequence[Words], references: Sequence[Sequence[Words]]
) -> list[Difference]:
    """All sentences, the largest change of sentence BLEU first."""
    from sacrebleu.metrics.bleu import BLEU

    _same_size(baseline, system, references)
    metric = BLEU(tokenize="none", force=True, effective_order=True)
    found = []
    for i, (a, b, group) in enumerate(zip(baseline, system, references, strict=True)):
        texts = [" ".join(words) for words in group]
        scores = (metric.sentence_score(" ".join(words), texts).score for words in (a, b))
        found.append(Difference(i, *scores))
    return sorted(found, key=lambda d: -abs(d.system - d.baseline))


def _lines(hypotheses: Sequence[Words]) -> list[str]:
    return [" ".join(words) for words in hypotheses]


def _same_size(baseline: Sequence[Words], system: Sequence[Words], references: Sequence[Sequence[Words]]) -> None:
    sizes = (len(baseline), len(system), len(references))
    if len(set(sizes)) > 1:
        raise UserError(
            f"The two runs have {sizes[0]} and {sizes[1]} hypotheses for {sizes[2]} references; evaluate both on the "
            "same split first."
        )
