"""Who judges a run: which critic, which pay-off, which temperature."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sample_runs import make_run
from seqcredit import algorithms
from seqcredit.errors import UserError
from seqcredit.experiments.runs import Run
from seqcredit.inspect.examiners import distinct_names, load_examiners


def test_the_phase_that_gives_the_temperature(shown: Any, tmp_path: Path) -> None:
    """The one that trained the critic; without a critic the last one that proposes; else none."""
    recipe = shown.vaml.recipe
    twice = replace(recipe, phase=(*recipe.phase, algorithms.Vaml("vaml", 0.1, tau=0.9)))
    run = make_run(tmp_path / "vaml", shown.prepared, twice, ("actor", "critic"))
    run.save_weights("soft_q", run.weights("vaml"))
    (judge,) = load_examiners([run], shown.prepared)
    assert (judge.soft, judge.tau) == (True, 0.2)
    raml = replace(recipe, phase=(algorithms.Raml("raml", 0.1, tau=0.7), algorithms.Mle("mle", 0.1)))
    (judge,) = load_examiners([make_run(tmp_path / "raml", shown.prepared, raml, ("actor",))], shown.prepared)
    assert (judge.soft, judge.tau, judge.critic) == (False, 0.7, None)
    (judge,) = load_examiners([shown.mle], shown.prepared)
    assert judge.phase is None


def test_what_does_not_fit_is_said(shown: Any, tmp_path: Path) -> None:
    other = Run(tmp_path, shown.erac.recipe, {**shown.erac.about, "vocabularies": {"target": "another"}})
    with pytest.raises(UserError, match="another target vocabulary"):
        load_examiners([shown.mle], shown.prepared, other)
    with pytest.raises(UserError, match="has no critic to lend"):
        load_examiners([shown.mle], shown.prepared, shown.mle)
    assert distinct_names([shown.mle, shown.mle]) == ["MLE (mle)", "MLE (mle)"]
    assert distinct_names([shown.mle, shown.erac]) == ["MLE", "ERAC"]
