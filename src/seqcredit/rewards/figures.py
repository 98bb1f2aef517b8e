"""Scores in results, with metric and signature. Older results have BLEU and do not name their metric."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from seqcredit.errors import UserError
from seqcredit.rewards.metrics import DEFAULT, METRICS, Metric, Ratio, References, Score, Statistics, Words, label_of
from seqcredit.types import Json

# Figures that a result has kept besides the one that it is judged by.
KEPT = {"bleu": "bleu", "chrf": "chrf", "cider": "cider", "rouge-l": "rouge_l"}


class Figure(NamedTuple):
    """One figure of a result, and the metric that it is of."""

    metric: Metric
    value: float
    signature: str


def figures_of(metric: Metric, score: Score) -> Json:
    """A figure as results keep it."""
    return {
        "metric": metric.name,
        "score": round(score.value, metric.digits + 2),
        "signature": score.signature,
        "metric_label": metric.label,
        "higher_is_better": metric.higher,
    }


def figure(result: Mapping[str, object], name: str | None = None) -> Figure | None:
    """A figure that a result has kept, by default the one that it is judged by; None if it has not."""
    mine = str(result.get("metric", DEFAULT))
    name = name or mine
    key = KEPT.get(name, "")
    value, signature = (result.get(key), result.get(f"{key}_signature", ""))
    if name == mine and "score" in result:
        value, signature = result["score"], result["signature"]
    if not isinstance(value, int | float):
        return None
    return Figure(METRICS.get(name) or _recalled(name, result), float(value), str(signature))


def _recalled(name: str, result: Mapping[str, object]) -> Metric:
    """A metric of which no more is known than what a result says: its sums can be scored, and nothing be counted."""

    def rows(hypotheses: Sequence[Words], references: References) -> Statistics:
        raise UserError(f"The metric {name} is known by its figures alone: it cannot be measured here.")

    label, higher = str(result.get("metric_label", label_of(name))), bool(result.get("higher_is_better", True))
    return Ratio(name, label, rows, str(result.get("signature", name)), higher, 4, 1.0)
