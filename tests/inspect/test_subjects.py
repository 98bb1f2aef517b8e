"""What is judged: sentences of a split as they were written or decoded, one of them, or one of the reader's own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seqcredit.errors import UserError
from seqcredit.experiments.runs import Run
from seqcredit.inspect.examiners import Examiner, load_examiners
from seqcredit.inspect.subjects import Subject, inspect_one, inspect_split, inspect_typed
from seqcredit.results.evaluate import write_hypotheses


def test_written_hypotheses_are_taken_as_they_are(shown: Any, examiners: list[Examiner], tmp_path: Path) -> None:
    split, words = shown.prepared.split("test"), ["the", "dog", "sleeps", "nonsense", "."]
    run = Run(tmp_path, shown.mle.recipe, shown.mle.about)
    write_hypotheses(run, "test", [words] * len(split))
    found = inspect_split([replace(examiners[0], run=run)], split, 2)
    assert len(found) == 2
    assert found[0].credits[0].text == " ".join(words)
    assert found[0].credits[0].words[3] == "<unk>"
    write_hypotheses(run, "test", [words] * 3)
    with pytest.raises(UserError, match="has 3 lines and test has 30 examples"):
        inspect_split([replace(examiners[0], run=run)], split, 2)


def test_one_sentence_is_that_of_the_page(shown: Any, subjects: list[Subject]) -> None:
    for run, lender, place in ((shown.vaml, None, 2), (shown.mle, shown.erac, 0)):
        found, known = inspect_one(run, shown.prepared, "test", 8, lender), subjects[7]
        assert found[:2] == known[:2]
        assert found.credits[0].words == known.credits[place].words
        assert found.credits[0].advantage == pytest.approx(known.credits[place].advantage, abs=1e-4)
    with pytest.raises(UserError, match="has no trained critic: give --critic RUN"):
        inspect_one(shown.mle, shown.prepared, "test", 8)


def test_a_sentence_of_ones_own(shown: Any, examiners: list[Examiner], tmp_path: Path) -> None:
    """As from the split, where the runs have written nothing yet: both are decoded."""
    fresh = [replace(judge, run=Run(tmp_path, judge.run.recipe, judge.run.about)) for judge in examiners]
    known = inspect_split(fresh, shown.prepared.split("test"), 5)[4]
    typed = inspect_typed(examiners, known.source, known.references)
    for mine, theirs in zip(typed.credits, known.credits, strict=True):
        assert mine.words == theirs.words
        assert mine.q == pytest.approx(theirs.q, abs=1e-4)
        assert mine.bleu == theirs.bleu
    alone = inspect_typed(examiners, known.source, [])
    assert alone.credits[1].logp == pytest.approx(known.credits[1].logp, abs=1e-4)
    assert alone.credits[1].entropy == pytest.approx(known.credits[1].entropy, abs=1e-4)
    assert (alone.credits[1].q, alone.credits[1].rewards, alone.credits[1].bleu) == (None, None, None)


def test_a_run_without_a_critic_shows_what_it_can(shown: Any) -> None:
    (judge,) = load_examiners([shown.mle], shown.prepared)
    found = inspect_split([judge], shown.prepared.split("test"), 1)
    credit = found[0].credits[0]
    assert judge.critic_name is None
    assert credit.rewards is not None
    assert (credit.q, credit.target, credit.td) == (None, None, None)
    assert all(choice.q is None for state in credit.policy for choice in state)
