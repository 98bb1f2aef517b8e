"""The run folder: made whole or not at all, never written over, with all that it needs within."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from seqcredit.algorithms import ActorCritic, Critic, Mle, Phase, SoftQ, Vaml
from seqcredit.errors import UserError
from seqcredit.experiments.recipe import RECIPES, Recipe, load
from seqcredit.experiments.runs import Run, own_files
from seqcredit.rewards.payoff import Payoff

RECIPE = Recipe("r", (Mle("mle", 0.1), Mle("more", 0.2)))


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


@pytest.mark.parametrize(("name", "recipe"), [("erac", "iwslt14/erac"), ("vaml-copying", "tatoeba/vaml-copying")])
def test_a_run_of_the_first_edition_is_read(name: str, recipe: str, tmp_path: Path) -> None:
    """`first_edition/` holds what seqcredit 0.1.0 wrote as resolved.toml."""
    old = Path(__file__).parent / "first_edition" / f"{name}.toml"
    shutil.copy(old, tmp_path / "resolved.toml")
    about = {"seqcredit": "0.1.0", "data": "/data", "vocabularies": {}}
    (tmp_path / "run.json").write_text(json.dumps(about))
    assert Run.open(tmp_path).recipe == load(RECIPES / f"{recipe}.toml")


@pytest.mark.parametrize(
    ("version", "end"), [("0.1.0", r" seqcredit 0\.1\.0 reads it\."), ("0.2.0", ""), ("0.10.0", "")]
)
def test_a_run_of_the_first_edition_that_is_not_read(version: str, end: str, tmp_path: Path) -> None:
    """It says who reads it."""
    phase = '[[phase]]\nobjective = "mle"\nlearning_rate = 0.1\nhead_of_long_ago = 3\n'
    (tmp_path / "resolved.toml").write_text(f'name = "r"\n{phase}')
    about = {"seqcredit": version, "data": "/data", "vocabularies": {}}
    (tmp_path / "run.json").write_text(json.dumps(about))
    with pytest.raises(UserError, match=rf"there is no key 'head_of_long_ago'.* fused\.{end}$"):
        Run.open(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "[]", "3", '{"seed": 1}', '{"data": 1, "vocabularies": {}}', '{"data": "x"}', "\0"]
)
def test_a_damaged_run_json_is_one_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(
        UserError, match=r"run\.json( is damaged, it is not|: (data is 1|the key)).*give a run folder that is whole\.$"
    ):
        Run.open(tmp_path)


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"(cannot be written|Cannot write) .*Not a directory"):
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
    def run(*phases: Phase) -> Run:
        return Run(Path(), Recipe("r", phases), {})

    assert run(SoftQ("q", 0.1), Vaml("v", 0.1)).trains_an_actor()
    assert run(ActorCritic("a", 0.1)).trains_an_actor()
    assert not run(SoftQ("q", 0.1)).trains_an_actor()
    assert not run(Critic("c", 0.1)).trains_an_actor()


# Whole or not at all.


def everything_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


class OwnError(Exception):
    pass


@pytest.mark.parametrize("error", [OwnError(), UserError("no."), KeyboardInterrupt(), MemoryError()], ids=repr)
def test_what_goes_wrong_at_the_beginning_leaves_nothing(error: BaseException, tmp_path: Path) -> None:
    """No folder, no temporary, no parents that were made for it."""
    (tmp_path / "there").mkdir()
    seen = []

    def begin(run: Run) -> None:
        run.save_weights("mle", {"actor.w": torch.ones(2)})
        seen.append(everything_below(run.folder))
        raise error

    for out in (tmp_path / "run", tmp_path / "a" / "b" / "run", tmp_path / "there" / "run"):
        with pytest.raises(type(error)):
            Run.create(out, "text", RECIPE, tmp_path, {}, begin=begin)
    assert everything_below(tmp_path) == ["there"]
    assert len(seen) == 3
    assert {"recipe.toml", "resolved.toml", "run.json", "weights/mle.safetensors"} <= set(seen[0])


def test_a_disk_that_is_full_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    def begin(run: Run) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match="No space left on device") as caught:
        Run.create(tmp_path / "run", "text", RECIPE, tmp_path, {}, begin=begin)
    assert "\n" not in str(caught.value)
    assert everything_below(tmp_path) == []


def test_before_it_is_whole_it_has_another_name(tmp_path: Path) -> None:
    out = tmp_path / "run"

    def begin(run: Run) -> None:
        assert not out.exists()
        assert run.folder.parent == tmp_path
        assert run.folder.name.startswith(".")
        run.save_weights("mle", {"actor.w": torch.ones(2)})

    run = Run.create(out, "text", RECIPE, tmp_path, {}, begin=begin)
    assert run.folder == out
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert Run.open(out).phases_done() == ["mle"]
    assert torch.equal(run.weights()["actor.w"], torch.ones(2))


def test_an_empty_folder_may_become_a_run(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert Run.create(tmp_path / "run", "text", RECIPE, tmp_path, {}).folder == tmp_path / "run"
    assert Run.open(tmp_path / "run").recipe == RECIPE
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError):
        Run.create(tmp_path / "file", "text", RECIPE, tmp_path, {})
    assert (tmp_path / "file").read_text() == "mine"


def test_a_run_that_carries_its_data_may_be_moved(tmp_path: Path) -> None:
    outside = Run.create(tmp_path / "one", "", RECIPE, tmp_path / "data", {})
    assert outside.data == (tmp_path / "data").resolve()
    inside = Run.create(tmp_path / "two", "", RECIPE, tmp_path / "two" / "data", {})
    (tmp_path / "two").rename(tmp_path / "moved")
    assert inside.about["data"] == "data"
    assert Run.open(tmp_path / "moved").data == tmp_path / "moved" / "data"


# Files of the user's own.

OWN = """
from dataclasses import dataclass
from seqcredit.algorithms import Mle

@dataclass(frozen=True)
class Mine(Mle):
    pass
"""


def test_files_that_the_recipe_names_go_along(tmp_path: Path) -> None:
    beside = tmp_path / "recipes"
    beside.mkdir()
    for name in ("own_run_algorithm", "own_run_payoff", "own_run_metric", "own_run_other"):
        (beside / f"{name}.py").write_text(OWN)
    (beside / "recipe.toml").write_text(
        'name = "r"\nmetric = "own_run_metric:f"\n[payoff]\nmetric = "own_run_payoff:f"\n'
        '[[phase]]\nobjective = "own_run_algorithm:Mine"\nlearning_rate = 0.1\n'
    )
    recipe = load(beside / "recipe.toml")
    files = [beside.resolve() / f"own_run_{name}.py" for name in ("algorithm", "payoff", "metric")]
    assert own_files(recipe, beside) == {file.name: file for file in files}
    run = Run.create(tmp_path / "run", "text", recipe, tmp_path, {}, own_files(recipe, beside))
    assert {path.name for path in run.folder.glob("*.py")} == {path.name for path in files}
    for file in files:
        assert (run.folder / file.name).read_text() == OWN
    again = replace(recipe, payoff=Payoff("own_run_metric:other"))
    assert len(own_files(again, beside)) == 2  # each file once
    assert own_files(recipe, None) == own_files(recipe, beside)  # they have been imported: Python knows their files
    assert own_files(replace(RECIPE, metric="math:floor"), beside) == {}  # it is no file


def test_a_run_is_opened_with_the_algorithm_that_went_along(tmp_path: Path) -> None:
    beside = tmp_path / "recipes"
    beside.mkdir()
    (beside / "own_run_moved.py").write_text(OWN)
    (beside / "recipe.toml").write_text(
        'name = "r"\n[[phase]]\nobjective = "own_run_moved:Mine"\nlearning_rate = 0.1\n'
    )
    recipe = load(beside / "recipe.toml")
    run = Run.create(tmp_path / "run", "text", recipe, tmp_path, {}, own_files(recipe, beside))
    (beside / "own_run_moved.py").unlink()
    opened = Run.open(run.folder)
    (mine,), (theirs,) = opened.recipe.phase, recipe.phase
    assert (type(mine).__name__, mine.name, mine.learning_rate) == ("Mine", "Mine", 0.1)
    assert type(mine) is not type(theirs)  # it is the copy's


SCRIPT = """
import seqcredit as sc
sc.train(sc.LSTM(hidden=8, embedding=8), [("a b", "b a")] * 40, algorithm=sc.MLE(epochs=1), out="run", say=None)
"""


@pytest.mark.parametrize(
    ("place", "told"), [("mine.py", "python mine.py 1"), ("inside/mine.py", "python inside/mine.py 1")]
)
def test_a_script_is_named_as_the_command(place: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / place
    file.parent.mkdir(exist_ok=True)
    file.write_text(SCRIPT)
    subprocess.run([sys.executable, file, "1"], cwd=tmp_path, check=True)
    assert Run.open(tmp_path / "run").about["command"] == told


def test_a_script_elsewhere_is_named_without_its_path(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "mine.py").write_text(SCRIPT)
    subprocess.run([sys.executable, tmp_path / "mine.py"], cwd=tmp_path / "here", check=True)
    assert Run.open(tmp_path / "here" / "run").about["command"] == "python mine.py"
