"""An entry of a sweep file becomes cells: one for each combination of settings, starts and seeds."""

import tomllib
from pathlib import Path

import pytest

from seqcredit.algorithms import ActorCritic, Critic, Mle, Phase, SoftQ, Vaml
from seqcredit.errors import UserError
from seqcredit.experiments.entries import Planned, cells_of, check_no_seed, tables_of, text_of
from seqcredit.experiments.recipe import Recipe
from sweeping import setup


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(setup(tmp_path))


def cells(
    text: str, kind: str = "cell", name: str = "a", more: tuple[str, ...] = (), common: tuple[str, ...] = ()
) -> dict[str, Planned]:
    entry = {"name": name, "recipe": "erac.toml", **tomllib.loads(text)}
    return {cell.id: cell for cell in cells_of(kind, entry, [1, 2], common, more, "here")}


def test_a_cell_for_each_seed() -> None:
    assert list(cells("")) == ["a-1", "a-2"]
    (only,) = cells("seeds = [7]\nminutes = 2", more=("beam=9",)).values()
    assert (only.id, only.recipe.seed, only.minutes, only.overrides) == ("a-7", 7, 2.0, ("beam=9",))
    assert only.recipe.beam == 9
    assert [cell.records for cell in cells('until = "critic"').values()] == [False, False]


def test_a_cells_own_settings_win_over_those_of_all_and_the_command_line_over_both() -> None:
    (only,) = cells(
        'seeds = [1]\nset = ["beam=3", "longest_output=30"]',
        more=("longest_output=40",),
        common=("beam=2", "phase.*.epochs=5"),
    ).values()
    assert only.overrides == ("beam=2", "phase.*.epochs=5", "beam=3", "longest_output=30", "longest_output=40")
    assert (only.recipe.beam, only.recipe.longest_output) == (3, 40)
    assert {phase.epochs for phase in only.recipe.phase} == {5}


@pytest.mark.parametrize("samples", [0, 2, 1024])
def test_headroom_by_as_many_samples_as_are_allowed(samples: int) -> None:
    assert cells(f"headroom = {samples}")["a-1"].headroom == samples


@pytest.mark.parametrize("samples", [-1, 1, 1025])
def test_other_numbers_of_samples_are_refused(samples: int) -> None:
    with pytest.raises(UserError, match=f"here: headroom is {samples}"):
        cells(f"headroom = {samples}")


def test_a_grid_is_a_product() -> None:
    rest = """seeds = [1]
set = { "fidelity" = "paper", "phase.2.tau, phase.3.tau" = [0.0, 0.02], "phase.3.clip" = [1, 2, 3] }"""
    found = cells(rest, "grid")
    assert len(found) == 6
    one = found["a-tau-0.02-clip-3-1"]
    assert one.overrides == ('fidelity="paper"', "phase.2.tau=0.02", "phase.3.tau=0.02", "phase.3.clip=3")
    assert [phase.tau for phase in one.recipe.phase[1:]] == [0.02, 0.02]
    assert (one.recipe.fidelity, one.recipe.phase[2].clip) == ("paper", 3)


def test_keys_that_end_alike_are_told_apart() -> None:
    rest = 'seeds = [1]\nset = { "phase.2.tau" = [0.0, 0.1], "phase.3.tau" = [0.0, 0.1] }'
    assert "a-phase.2.tau-0.0-phase.3.tau-0.1-1" in cells(rest, "grid")


def test_three_actors_for_each_of_three_critics() -> None:
    found = cells('init_from = ["critic-1", "critic-2", "critic-3"]\nseeds = [1, 2, 3]', "grid")
    assert len(found) == 9
    assert (found["a-critic-2-3"].init_from, found["a-critic-2-3"].seed) == ("critic-2", 3)


def test_values_of_the_top() -> None:
    assert text_of({"data": "here/data"}, "data", "x") == "here/data"
    assert tables_of({"cell": [{"name": "a"}]}, "cell", "x") == [{"name": "a"}]
    assert tables_of({}, "grid", "x") == []
    check_no_seed(["beam"], "--set")
    with pytest.raises(UserError, match="--set: the seed does not belong in set"):
        check_no_seed(["beam", " seed "], "--set")


def test_a_result_ends_with_an_actor() -> None:
    def records(*phases: Phase) -> bool:
        return Planned("cell", 1, Path("r.toml"), Recipe("r", phases)).records

    assert records(SoftQ("q", 0.1), Vaml("v", 0.1))
    assert records(Critic("c", 0.1), ActorCritic("a", 0.1))
    assert not records(Mle("m", 0.1), Critic("c", 0.1))
    assert not records(SoftQ("q", 0.1))
