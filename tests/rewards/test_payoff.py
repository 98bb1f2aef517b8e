"""The pay-off of a recipe, and the reward that it makes: ours by name, or a function of the user's own."""

import math
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import torch
from torch import Tensor

from seqcredit.errors import UserError
from seqcredit.options import checked
from seqcredit.rewards import (
    Bleu,
    ChrF,
    CiderD,
    Custom,
    EditDistance,
    Hamming,
    LinearBleu,
    OnlyFinished,
    OwnReference,
    RougeL,
)
from seqcredit.rewards.bleu import BREVITIES, SMOOTHINGS
from seqcredit.rewards.payoff import METRICS, Payoff, Spelling, reward_of
from seqcredit.rewards.scores import prefix_scores
from seqcredit.types import Reward, pad, pad_references

WORDS = ["</s>", "<unk>", "a", "big", "cat", "dog"]


def spell(ids: Sequence[int]) -> str:
    return " ".join(WORDS[number] for number in ids)


SPELLING = Spelling(WORDS, spell, spell)
KINDS: dict[str, type] = {
    "bleu": Bleu,
    "linear-bleu": LinearBleu,
    "edit": EditDistance,
    "hamming": Hamming,
    "rouge-l": RougeL,
    "chrf": ChrF,
    "cider": CiderD,
}
TOKENS, REFERENCES = pad([[2, 3, 4]]), pad_references([[[2, 5], [2, 3, 4]]])


def documents() -> Tensor:
    return pad_references([[[2, 3, 4]], [[5]], [[2, 5], [3]]])


def reward(payoff: Payoff, folder: Path | None = None) -> Reward:
    return reward_of(payoff, SPELLING, documents, folder)


def test_smoothings_are_those_of_bleu() -> None:
    hints = get_type_hints(Payoff)
    assert get_args(hints["smoothing"]) == SMOOTHINGS
    assert get_args(hints["brevity"]) == BREVITIES
    with pytest.raises(UserError) as caught:
        checked(Payoff, {"smoothing": "laplace"}, "Payoff")
    assert str(caught.value) == f"Payoff: smoothing is 'laplace', but it must be one of {', '.join(SMOOTHINGS)}."


@pytest.mark.parametrize("metric", [*METRICS, "my_file:score"])
def test_only_bleu_has_a_brevity_penalty(metric: str) -> None:
    for unfinished in ("score", "nothing"):
        assert Payoff(metric, unfinished=unfinished).unfinished == unfinished  # type: ignore[arg-type]
    if metric == "bleu":
        assert Payoff(metric, unfinished="without_brevity").unfinished == "without_brevity"
        return
    with pytest.raises(UserError) as caught:
        Payoff(metric, unfinished="without_brevity")
    assert str(caught.value) == (
        "Payoff: unfinished is 'without_brevity', but only bleu has a brevity penalty; "
        f"for {metric} it must be one of score, nothing."
    )


def test_no_such_metric() -> None:
    with pytest.raises(UserError) as caught:
        Payoff("blue")
    assert str(caught.value) == (
        f"Payoff: metric is 'blue', but it must be one of {', '.join(METRICS)}, or FILE:FUNCTION of your own."
    )


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_has_a_reward(metric: str) -> None:
    made = reward(Payoff(metric, unk_matches=False))
    assert type(made) is KINDS[metric]
    assert not made.unk_matches
    assert reward(Payoff(metric)).unk_matches
    late = reward(Payoff(metric, unfinished="nothing"))
    assert isinstance(late, OnlyFinished)
    assert type(late.reward) is KINDS[metric]
    scores = made.prefix_scores(TOKENS, REFERENCES)
    assert scores[0, -1] > scores[0, 0]


def test_metrics_of_the_options_and_of_this_test_are_the_same() -> None:
    assert tuple(KINDS) == METRICS


def test_bleu_and_linear_bleu_are_what_the_options_say() -> None:
    given = Payoff(smoothing="floor", scaled=False, brevity="mean", unfinished="without_brevity", unk_matches=False)
    assert reward(given) == Bleu(
        smoothing="floor", scaled=False, brevity="mean", unfinished_brevity=False, unk_matches=False
    )
    assert reward(Payoff()) == Bleu(scaled=True)
    linear = Payoff("linear-bleu", precision=0.5, falling=0.4, length=0.9, scaled=False)
    assert reward(linear) == LinearBleu(precision=0.5, falling=0.4, length=0.9)
    assert reward(Payoff("edit")) == EditDistance()
    assert reward(Payoff("edit", scaled=False)) == EditDistance(by_length=True)


def test_cider_counts_the_documents_of_training_and_nobody_else_does() -> None:
    asked = []

    def counted() -> Tensor:
        asked.append(1)
        return documents()

    for metric in METRICS:
        reward_of(Payoff(metric), SPELLING, counted)
    assert asked == [1]
    made = reward_of(Payoff("cider"), SPELLING, counted)
    expected = CiderD.from_references(documents())
    assert torch.equal(made.prefix_scores(TOKENS, REFERENCES), expected.prefix_scores(TOKENS, REFERENCES))


def test_only_the_own_reference() -> None:
    made = reward(Payoff(references="own", unfinished="nothing"))
    assert made == OnlyFinished(OwnReference(Bleu(scaled=True)))
    assert reward(Payoff(references="own")) == OwnReference(Bleu(scaled=True))


def test_unfinished_prefixes() -> None:
    """A right word of two: e^-1 of what it has without brevity penalty, which comes only with eos; or nothing."""
    tokens, references = torch.tensor([[2, 0]]), torch.tensor([[[2, 3, 0]]])
    penalty = math.exp(-1)
    for unfinished, first in {"score": penalty, "without_brevity": 1.0, "nothing": 0.0}.items():
        made = reward(Payoff(unfinished=unfinished, scaled=False))  # type: ignore[arg-type]
        torch.testing.assert_close(made.prefix_scores(tokens, references), torch.tensor([[0, first, penalty]]))


# A function of the user's own.

SCORE = """
calls = []

def score(text, references):
    calls.append((text, references))
    return len(set(text.split()) & set(" ".join(references).split()))

def fails(text, references):
    return 1 / (3 - len(text.split()))

def says_nothing(text, references):
    pass

number = 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own_payoff_file.py").write_text(SCORE)
    return tmp_path


def test_a_function_of_text_and_references(folder: Path) -> None:
    made = reward(Payoff("own_payoff_file:score"), folder)
    assert isinstance(made, Custom)
    assert made.prefix_scores(TOKENS, REFERENCES).tolist() == [[0, 1, 2, 3, 3]]
    calls = made.score.__globals__["calls"]
    assert calls[:2] == [("", ["a dog", "a big cat"]), ("a", ["a dog", "a big cat"])]
    assert calls[-1] == ("a big cat", ["a dog", "a big cat"])
    late = reward(Payoff("own_payoff_file:score", unfinished="nothing", references="own"), folder)
    assert late.prefix_scores(TOKENS, REFERENCES).tolist() == [[0, 0, 0, 0, 1]]


def test_an_unknown_word_may_count_as_one_that_no_reference_has(folder: Path) -> None:
    tokens, references = pad([[1, 4]]), pad_references([[[1, 4]]])
    ends = {}
    for matches in (True, False):
        made = reward(Payoff("own_payoff_file:score", unk_matches=matches), folder)
        ends[matches] = float(made.prefix_scores(tokens, references)[0, -1])
    assert ends == {True: 2, False: 1}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "number",
            "own_payoff_file:number is not a function: make it one of (text, references) that returns a number.",
        ),
        ("absent", "own_payoff_file.py has no 'absent', which 'own_payoff_file:absent' asks for."),
    ],
)
def test_what_is_no_function(name: str, said: str, folder: Path) -> None:
    with pytest.raises(UserError) as caught:
        reward(Payoff(f"own_payoff_file:{name}"), folder)
    assert str(caught.value).endswith(said)


def test_a_file_that_is_not_there_or_broken(folder: Path) -> None:
    with pytest.raises(
        UserError, match=r"^There is no absent_payoff_file.py beside the recipe in .* on the Python path"
    ):
        reward(Payoff("absent_payoff_file:score"), folder)
    (folder / "broken_payoff_file.py").write_text("def score(text, references)\n    return 0\n")
    with pytest.raises(UserError, match=r"broken_payoff_file.py cannot be imported. SyntaxError: .*line 1\)\.$"):
        reward(Payoff("broken_payoff_file:score"), folder)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fails", "the function failed. ZeroDivisionError: division by zero (own_payoff_file.py, line 9)."),
        ("says_nothing", "the function returned None for the prefix , return a finite float."),
    ],
)
def test_a_function_that_fails_is_one_sentence(name: str, said: str, folder: Path) -> None:
    made = reward(Payoff(f"own_payoff_file:{name}"), folder)
    with pytest.raises(UserError) as caught:
        made.prefix_scores(TOKENS, REFERENCES)
    assert str(caught.value) == f"own_payoff_file:{name}: {said}"


def test_every_option_matters_to_some_metric() -> None:
    """An option that is read nowhere would be a lie."""
    other = {
        "metric": "edit",
        "smoothing": "none",
        "precision": 0.3,
        "falling": 0.3,
        "length": 0.5,
        "scaled": False,
        "unk_matches": False,
        "brevity": "mean",
        "unfinished": "nothing",
        "references": "own",
    }
    assert other.keys() == {each.name for each in fields(Payoff)}
    for key, value in other.items():
        plain = "linear-bleu" if key in ("precision", "falling", "length") else "bleu"
        assert reward(Payoff(**{"metric": plain, key: value})) != reward(Payoff(plain)), key  # type: ignore[arg-type]


def test_a_function_of_the_source_and_pieces_of_words_are_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "sourced.py").write_text("def score(text, source):\n    return float(len(text) - len(source))\n")
    made = reward_of(Payoff("sourced:score"), SPELLING, documents, tmp_path)
    found = prefix_scores(made, TOKENS, REFERENCES, torch.tensor([[4]]))
    assert found.tolist() == [[-3.0, -2.0, 2.0, 6.0, 6.0]]  # of "", "a", "a big" and "a big cat", less "cat"
    whole = Spelling(WORDS, lambda ids: "".join(WORDS[number] for number in ids), spell, pieces=True)
    (tmp_path / "counted.py").write_text("def score(text, references):\n    return float(len(text))\n")
    made = reward_of(Payoff("counted:score"), whole, documents, tmp_path)
    assert made.prefix_scores(TOKENS, REFERENCES).tolist() == [[0.0, 1.0, 4.0, 7.0, 7.0]]
    with pytest.raises(UserError, match="chrf counts the letters of words"):
        reward_of(Payoff("chrf"), whole, documents)


OWN = """
from seqcredit.rewards import TextReward


class Count:
    def __init__(self, worth=1.0):
        self.worth = worth

    def prefix_scores(self, tokens, references):
        import torch
        return torch.arange(tokens.shape[1] + 1).expand(len(tokens), -1) * self.worth


class Needy(Count):
    def __init__(self, worth):
        self.worth = worth


class Narrow(Count):
    def prefix_scores(self, tokens, references):
        return super().prefix_scores(tokens, references)[:, 1:]


double = Count(2.0)
late = TextReward(lambda text, references: len(text), at="end")
"""


def test_a_reward_of_ones_own_may_be_a_class_or_have_been_made(tmp_path: Path) -> None:
    (tmp_path / "own_rewards.py").write_text(OWN)

    def scores(name: str) -> list[float]:
        return prefix_scores(reward(Payoff(f"own_rewards:{name}"), tmp_path), TOKENS, REFERENCES)[0].tolist()

    assert scores("Count") == [0, 1, 2, 3, 4]
    assert scores("double") == [0, 2, 4, 6, 8]
    assert scores("late") == [0, 0, 0, 0, len("a big cat")]
    with pytest.raises(
        UserError, match=r"^own_rewards:Needy is a class, and own_rewards:Needy\(\) failed; name one that"
    ):
        scores("Needy")
    wanted = (
        r"^Narrow: scores of shape \(1, 4\) for tokens of shape \(1, 4\); return \(1, 5\), of the first 0, 1, ..., T"
    )
    with pytest.raises(UserError, match=wanted):
        scores("Narrow")
