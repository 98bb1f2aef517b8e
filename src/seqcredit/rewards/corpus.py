"""Scores of a whole test set, each with its signature: BLEU and chrF are sacreBLEU's, those of captions our own."""

from collections.abc import Sequence
from typing import NamedTuple

from seqcredit.rewards.cider import CiderD
from seqcredit.rewards.rouge import RougeL
from seqcredit.types import FIRST_WORD, Reward, pad, pad_references

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


def corpus_bleus(hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]) -> list[Score]:
    """BLEU-1 to BLEU-4, in percent, as captions are judged: not smoothed."""
    from sacrebleu.metrics.bleu import BLEU

    metrics = (BLEU(tokenize="none", force=True, max_ngram_order=n, smooth_method="none") for n in range(1, 5))
    return [_score(metric, hypotheses, references) for metric in metrics]


def corpus_cider(hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]) -> Score:
    """CIDEr-D in percent, the document frequencies being those of these references. Vedantam et al. (2015)."""
    known = _ids(hypotheses, references)[1]
    metric = CiderD.from_references(pad_references(known))
    return Score(100 * _mean(metric, hypotheses, references), "CIDEr-D|n:4|sigma:6|df:references")


def corpus_rouge_l(hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]) -> Score:
    """ROUGE-L in percent, F of the best precision and the best recall. Lin (2004)."""
    return Score(100 * _mean(RougeL(pool="coco"), hypotheses, references), "ROUGE-L|beta:1.2|pool:coco")


def _mean(metric: Reward, hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]) -> float:
    """The mean score of whole sentences."""
    words, known = _ids(hypotheses, references)
    return float(metric.prefix_scores(pad(words), pad_references(known))[:, -1].double().mean())


def _ids(
    hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]
) -> tuple[list[list[int]], list[list[list[int]]]]:
    """Numbers for words, the same ones every time."""
    number: dict[str, int] = {}

    def encode(words: Words) -> list[int]:
        return [number.setdefault(word, len(number) + FIRST_WORD) for word in words]

    known = [[encode(words) for words in group] for group in references]
    return [encode(words) for words in hypotheses], known


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
