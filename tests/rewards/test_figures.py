"""What results keep of a metric, and what older ones have kept."""

import numpy as np
import pytest

from seqcredit.errors import UserError
from seqcredit.rewards.figures import figure, figures_of
from seqcredit.rewards.metrics import BLEU, CHRF, CIDER, EDIT, ROUGE_L, Score, own

OLD = {"bleu": 39.5, "bleu_signature": "b", "chrf": 55.5, "chrf_signature": "c", "rouge_l": 45.0, "cider": 48}


def test_an_older_result_is_judged_by_bleu() -> None:
    assert figure(OLD) == figure(OLD, "bleu") == (BLEU, 39.5, "b")
    assert figure(OLD, "chrf") == (CHRF, 55.5, "c")
    assert figure(OLD, "rouge-l") == (ROUGE_L, 45.0, "")
    assert figure(OLD, "cider") == (CIDER, 48.0, "")
    assert figure(OLD, "edit") is None
    assert figure({"recipe": "MLE"}) is None


def test_a_result_has_its_metric_and_others() -> None:
    kept = {**OLD, **figures_of(EDIT, Score(12.345678, "e|x"))}
    assert kept["score"] == 12.3457
    assert figure(kept) == figure(kept, "edit") == (EDIT, 12.3457, "e|x")
    assert figure(kept, "bleu") == (BLEU, 39.5, "b")


def test_a_metric_of_ones_own_is_recalled_without_its_file() -> None:
    def off(text: str, references: list[str]) -> float:
        return 0.0

    off.higher_is_better, off.label = False, "letters off"
    kept = figures_of(own("gone:off", off), Score(0.12345678, "gone:off"))
    found = figure(kept)
    assert (found.value, found.signature) == (0.123457, "gone:off")
    assert (found.metric.name, found.metric.label, found.metric.higher) == ("gone:off", "letters off", False)
    assert found.metric.score(np.array([3.0, 4.0])) == 0.75
    with pytest.raises(UserError, match="gone:off is known by its figures alone"):
        found.metric.statistics([["a"]], [[["a"]]])
