"""The reward of the study, against sacreBLEU and by hand."""

import pytest

pytest.importorskip("transformers", reason="transformers is not installed")

import sacrebleu
from commongen import bleu, coverage, score

REFERENCES = ["the dog runs to the ball", "a dog is running after a red ball today"]


@pytest.mark.parametrize(
    "text",
    [
        "the dog runs to the ball",
        "a dog runs",
        "dog",
        "ball ball the the dog runs after",
        "a red ball today is running",
    ],
)
def test_bleu_is_that_of_sacrebleu(text: str) -> None:
    wanted = sacrebleu.sentence_bleu(text, REFERENCES, smooth_method="add-k", smooth_value=1, tokenize="none")
    assert 100 * bleu(text, REFERENCES) == pytest.approx(wanted.score, rel=1e-6)


def test_nothing_is_worth_nothing() -> None:
    assert bleu("", REFERENCES) == bleu("dog", []) == 0
    assert score("", REFERENCES, "dog run :") == 0


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("the dog runs .", 2 / 3), ("dogs run, dancing", 1.0), ("", 0.0), ("hotdog prune", 0.0), ("she dances", 1 / 3)],
)
def test_concepts_count_in_any_form(text: str, wanted: float) -> None:
    assert coverage(text, "dog run dance :") == pytest.approx(wanted)
