from pathlib import Path

import pytest
import torch

from seqcredit import config
from seqcredit.errors import UserError
from seqcredit.training.runs import Run

RECIPE = config.Recipe("r", (config.Mle("mle", 0.1), config.Mle("more", 0.2)))


def test_a_folder_is_made_and_opened_again(tmp_path: Path) -> None:
    made = Run.create(tmp_path / "run", "text", RECIPE, tmp_path, {"source": "abc"})
    opened = Run.open(tmp_path / "run")
    assert opened.recipe == RECIPE
    assert opened.about == made.about
    assert (tmp_path / "run" / "recipe.toml").read_text() == "text"
    assert set(opened.about) >= {"seed", "commit", "data", "torch", "vocabularies"}


def test_an_existing_run_is_never_written_over(tmp_path: Path) -> None:
    Run.create(tmp_path / "run", "", RECIPE, tmp_path, {})
    with pytest.raises(UserError, match="is there already; resume it"):
        Run.create(tmp_path / "run", "", RECIPE, tmp_path, {})


def test_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run folder"):
        Run.open(tmp_path)


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot be written \(Not a directory\)"):
        Run.create(tmp_path / "file" / "run", "", RECIPE, tmp_path, {})


def test_weights_by_phase(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", "", RECIPE, tmp_path, {})
    with pytest.raises(UserError, match="finished phases: none"):
        run.weights()
    run.save_weights("mle", {"actor.w": torch.ones(2)})
    run.save_weights("more", {"actor.w": torch.zeros(2)})
    assert run.phases_done() == ["mle", "more"]
    assert torch.equal(run.weights()["actor.w"], torch.zeros(2))
    assert torch.equal(run.weights("mle")["actor.w"], torch.ones(2))
    with pytest.raises(UserError, match="no weights of phase 'x'; finished phases: mle, more"):
        run.weights("x")


def test_whether_there_is_an_actor_to_evaluate() -> None:
    def run(*phases: config.Phase) -> Run:
        return Run(Path(), config.Recipe("r", phases), {})

    assert run(config.SoftQ("q", 0.1), config.Vaml("v", 0.1)).trains_an_actor()
    assert run(config.ActorCritic("a", 0.1)).trains_an_actor()
    assert not run(config.SoftQ("q", 0.1)).trains_an_actor()
    assert not run(config.Critic("c", 0.1)).trains_an_actor()
