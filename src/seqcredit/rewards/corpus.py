"""Scores of a whole test set, by sacreBLEU, each with its signature."""

from collections.abc import Sequence
from typing import NamedTuple

Words = Sequence[str]


class Score(NamedTuple):
    """A figure that can be published: without its signature it says nothing."""

    value: float
    signature: str


def corpus_bleu(hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]) -> Score:
    """BLEU of tokenized text, in percent.

    Papineni et al. (2002). References are words as they were before unknown ones were replaced, so an unknown word of
    the hypothesis matches nothing.
    """
    from sacrebleu.metrics.bleu import BLEU

    return _score(BLEU(tokenize="none", force=True), hypotheses, references)


def corpus_chrf(hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]) -> Score:
    """chrF of tokenized text, in percent. Popovic (2015)."""
    from sacrebleu.metrics.chrf import CHRF

    return _score(CHRF(), hypotheses, references)


def streams(references: Sequence[Sequence[Words]]) -> list[list[str | None]]:
    """References by number, as sacreBLEU takes them: None where a sentence has fewer."""
    most = max(map(len, references), default=0)
    return [[" ".join(group[n]) if n < len(group) else None for group in references] for n in range(most)]


def _score(metric: object, hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]) -> Score:
    result = metric.corpus_score([" ".join(words) for words in hypotheses], streams(references))  # type: ignore[attr-defined]
    return Score(float(result.score), str(metric.get_signature()))  # type: ignore[attr-defined]
