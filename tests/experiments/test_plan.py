"""A sweep file becomes cells, and every mistake in it one sentence."""

import json
import os
import tomllib
from pathlib import Path

import pytest

from seqcredit.errors import UserError
from seqcredit.experiments import plan as planning
from seqcredit.experiments import recipe as recipes
from seqcredit.experiments.plan import Plan, read

ROOT = Path(__file__).parents[2]
WITHOUT = "erac-without-future-entropy"
TOP = 'data = "data"\nruns = "runs"\nresults = "results"\nseeds = [1, 2]\n'
MLE = """
name = "small"
[[phase]]
objective = "mle"
learning_rate = 0.5
epochs = 3
"""
ERAC = (
    MLE
    + """
[[phase]]
objective = "critic"
learning_rate = 0.01
epochs = 2
[[phase]]
objective = "actor_critic"
learning_rate = 0.001
"""
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mle.toml").write_text(MLE)
    (tmp_path / "erac.toml").write_text(ERAC)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def cell(name: str, recipe: str = "mle", rest: str = "", kind: str = "cell") -> str:
    return f'[[{kind}]]\nname = "{name}"\nrecipe = "{recipe}.toml"\n{rest}\n'


def planned(text: str, top: str = TOP) -> Plan:
    Path("sweep.toml").write_text(top + text)
    return read(Path("sweep.toml"))


def test_every_result_is_searched_once_more() -> None:
    erac = 'init_from = "mle"\nagainst = ["mle", "mle-1"]\nset = ["phase.3.epochs=2"]'
    critic = cell("critic", "erac", 'until = "critic"\ninit_from = "mle"')
    again = cell("wide").replace("cell", "again").replace('recipe = "mle.toml"', 'set = ["beam=7"]\nheadroom = 2')
    plan = planned(cell("mle", rest="headroom = 3") + critic + cell("erac", "erac", erac) + again)
    once = {name: each for name, each in plan.cells.items() if "wide" not in name}
    wide = {name: each for name, each in plan.cells.items() if "wide" in name}
    assert [*wide] == ["mle-wide-1", "mle-wide-2", "erac-wide-1", "erac-wide-2"]  # a critic is no result
    assert {(each.recipe.beam, each.headroom) for each in wide.values()} == {(7, 2)}
    for each in wide.values():
        first = once[str(each.init_from)]
        assert (first.name + "-wide", first.seed) == (each.name, each.seed)
        assert (first.recipe.phase, first.recipe.seed) == (each.recipe.phase, each.recipe.seed)
    assert wide["erac-wide-2"].against == ("mle-wide-2", "mle-wide-1")
    with pytest.raises(UserError, match="nothing would be trained"):
        planned(cell("mle") + again.replace("beam=7", "beam=5"))
    with pytest.raises(UserError, match="no key 'recipe'"):
        planned(cell("mle") + again + 'recipe = "mle.toml"')


def test_what_a_file_sets_is_set_in_all_cells() -> None:
    plan = planned(cell("mle") + cell("erac", "erac"), TOP + 'set = ["phase.1.epochs=5", "beam=3"]\n')
    assert {(each.recipe.beam, each.recipe.phase[0].epochs) for each in plan.cells.values()} == {(3, 5)}
    with pytest.raises(UserError, match="the seed does not belong in set"):
        planned(cell("mle"), TOP + 'set = ["seed=5"]\n')
    with pytest.raises(UserError, match="set is 5, but it must be a list of texts"):
        planned(cell("mle"), TOP + "set = 5\n")


def test_a_cell_for_each_seed_with_its_recipe() -> None:
    plan = planned(cell("mle") + cell("other", rest='seeds = [7]\nset = ["phase.1.epochs=5"]\nminutes = 2'))
    assert list(plan.cells) == ["mle-1", "mle-2", "other-7"]
    assert plan.cells["mle-2"].recipe == recipes.load(Path("mle.toml"), ["seed=2"])
    other = plan.cells["other-7"]
    assert (other.recipe.phase[0].epochs, other.recipe.seed, other.minutes) == (5, 7, 2)
    assert (plan.run("other-7"), plan.record(other)) == (Path("runs/other-7"), Path("results/other-7.json"))


def test_the_data_root() -> None:
    Path("sweep.toml").write_text(TOP + cell("mle"))
    assert read(Path("sweep.toml"), Path("elsewhere")).data == Path("elsewhere/data")


def test_names_mean_the_same_seed_or_that_cell() -> None:
    shared = cell("critic", "erac", 'until = "critic"\ninit_from = "mle"')
    erac = cell("erac", "erac", 'init_from = "critic"\nagainst = ["mle", "mle-1"]')
    plan = planned(cell("mle") + shared + erac + cell("fixed", "erac", 'init_from = "critic-1"'))
    assert [plan.cells[f"erac-{seed}"].init_from for seed in (1, 2)] == ["critic-1", "critic-2"]
    assert plan.cells["erac-2"].against == ("mle-2", "mle-1")
    assert plan.cells["fixed-2"].init_from == "critic-1"
    assert [phase.name for phase in plan.cells["critic-1"].recipe.phase] == ["mle", "critic"]
    assert [c.records for c in plan.cells.values()] == [True] * 2 + [False] * 2 + [True] * 4
    assert [phase.name for phase in plan.taken(plan.cells["erac-1"])] == ["mle", "critic"]
    assert plan.taken(plan.cells["mle-1"]) == []


def test_what_is_taken_over_with_other_settings_is_said() -> None:
    shared = cell("critic", "erac", 'until = "critic"\nset = ["phase.2.tau=0.0"]')
    notes = list(planned(shared + cell("erac", "erac", 'init_from = "critic"')).notes())
    assert notes[0] == "erac-1: critic comes from critic-1, trained with tau = 0.0 instead of 0.04."
    assert len(notes) == 2


def test_what_is_trained_may_be_searched_otherwise() -> None:
    plan = planned(cell("erac", "erac") + cell("wide", "erac", 'init_from = "erac"\nset = ["beam=9"]'))
    assert plan.taken(plan.cells["wide-1"]) == [*plan.cells["erac-1"].recipe.phase]


FROM = 'init_from = "{}"'
MISTAKES = {
    "unknown key": ("sed = [1]\n" + cell("a"), "there is no key 'sed'; the nearest is 'seeds'"),
    "unknown key of a cell": (cell("a", rest="seed = 1"), "cell 'a': there is no key 'seed'; the nearest is 'seeds'"),
    "no cells": ("", r"there is no \[\[cell\]\]"),
    "a table": ('[cell]\nname = "a"', r"write each cell as \[\[cell\]\]"),
    "no name": ('[[cell]]\nrecipe = "mle.toml"', "name is missing"),
    "bad name": (cell("../a"), "a name becomes that of a folder"),
    "no recipe": (cell("a", "nothing"), "cell 'a': There is no recipe nothing.toml"),
    "two of one name": (
        cell("a") + cell("a", "erac"),
        "two cells a with seed 1; give each its own name, or other seeds",
    ),
    "empty seeds": (cell("a", rest="seeds = []"), "there are no seeds"),
    "bad seeds": (cell("a", rest="seeds = [true]"), "must be a list of whole numbers"),
    "a seed below 0": (cell("a", rest="seeds = [1, -1]"), "must be a list of whole numbers"),
    "a cell that is no table": ("cell = [1]\n", r"write each cell as \[\[cell\]\]"),
    "against a number": (cell("a", rest="against = [1]"), "must be a list of texts"),
    "against a text": (cell("a", rest='against = "b"'), "must be a list of texts"),
    "too much headroom": (cell("a", rest="headroom = 1025"), "headroom is 1025"),
    "a seed twice": (cell("a", rest="seeds = [1, 1]"), "a seed stands twice"),
    "an override of nothing": (cell("a", rest='set = ["phase.1.tu=1"]'), "there is no key 'tu'"),
    "an override without =": (cell("a", rest='set = ["phase.1.clip"]'), "write it as KEY=VALUE"),
    "a value out of range": (cell("a", rest='set = { "phase.1.clip" = -1 }'), "clip is -1, but it must be above 0"),
    "a seed in set": (cell("a", rest='set = ["seed=3"]'), "write it in seeds"),
    "a seed in a grid": (cell("a", rest="set = { seed = [3, 4] }", kind="grid"), "write it in seeds"),
    "a grid as a cell": (cell("a", rest='set = { "phase.1.clip" = [1, 2] }'), r"write \[\[grid\]\] instead"),
    "no values": (cell("a", rest='set = { "phase.1.clip" = [] }', kind="grid"), "phase.1.clip has no values"),
    "a number for set": (cell("a", rest="set = 3"), "set must be a list"),
    "minutes": (cell("a", rest="minutes = 0"), "minutes is 0"),
    "headroom": (cell("a", rest="headroom = 1"), "headroom is 1, but it must be a number of samples"),
    "no such phase": (cell("a", rest='until = "critic"'), "has no phase 'critic' to stop after; its phases are mle"),
    "no such cell": (cell("mle") + cell("b", "erac", FROM.format("mel")), "no such cell; the nearest is 'mle'"),
    "no such seed": (
        cell("mle", rest="seeds = [1]") + cell("b", "erac", FROM.format("mle")),
        "it has no seed 2; add it, or name one of mle-1",
    ),
    "no run folder": (cell("b", "erac", FROM.format("runs/x")), "that is not a run folder"),
    "starts of a cell": (cell("a", rest='init_from = ["b"]'), "in a .* it may be a list"),
    "a circle": (
        cell("a", "erac", FROM.format("b")) + cell("b", "erac", FROM.format("a")),
        "a-1 starts from b-1 starts from a-1: that is a circle",
    ),
    "itself": (cell("a", "erac", FROM.format("a")), "a-1 starts from a-1: that is a circle"),
    "nothing left": (cell("a", "erac") + cell("b", "erac", FROM.format("a")), "nothing would be trained"),
    "another shape": (
        cell("mle", rest='set = ["actor.hidden=8"]') + cell("b", "erac", FROM.format("mle")),
        "whose actor has hidden = 8 and not 256",
    ),
    "another critic": (
        cell("c", "erac", 'until = "critic"\nset = ["critic.layers=2"]') + cell("b", "erac", FROM.format("c")),
        "whose critic has layers = 2 and not 1",
    ),
    "against itself": (cell("a", rest='against = ["a"]'), "which is itself"),
    "against a critic": (
        cell("c", "erac", 'until = "critic"') + cell("b", rest='against = ["c"]'),
        "ends with a critic and has no test figures",
    ),
    "a critic against": (cell("m") + cell("c", "erac", 'until = "critic"\nagainst = ["m"]'), "take `against` out"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence(name: str) -> None:
    text, sentence = MISTAKES[name]
    with pytest.raises(UserError, match=sentence) as caught:
        planned(text)
    assert str(caught.value).startswith("sweep.toml: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [('data = "d"', "runs is missing"), ("data = 3", "data is 3, but it must be text"), ("data =", "is not TOML")],
)
def test_the_top_is_checked(text: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        planned("", text)


def test_no_file() -> None:
    with pytest.raises(UserError, match=r"nothing.toml cannot be read: No such file"):
        read(Path("nothing.toml"))


def made(plan: Plan, name: str, command: str = "seqcredit train mle.toml --seed 1") -> Path:
    """A run folder with a checkpoint."""
    folder = plan.run(name)
    (folder / "checkpoints" / "00000001").mkdir(parents=True, exist_ok=True)
    (folder / "resolved.toml").write_text(recipes.resolved(plan.cells[name].recipe))
    (folder / "run.json").write_text(json.dumps({"command": command}))
    return folder


def test_a_run_of_other_settings_is_not_continued() -> None:
    made(planned(cell("mle")), "mle-1")
    assert planned(cell("mle"))
    with pytest.raises(UserError, match="runs/mle-1 was made with other settings than mle-1 has now"):
        planned(cell("mle", rest='set = ["phase.1.epochs=4"]'))


OWN = """
from dataclasses import dataclass
from seqcredit.algorithms import Mle


@dataclass(frozen=True)
class Mine(Mle):
    power: float = 1.0
"""


def test_a_run_of_ones_own_algorithm_is_the_cells_though_it_has_its_own_copy_of_the_file() -> None:
    folder = Path("own")
    folder.mkdir()
    (folder / "mine_planned.py").write_text(OWN)
    (folder / "mine.toml").write_text(Path("mle.toml").read_text().replace('"mle"', '"mine_planned:Mine"'))
    text = cell("own", "own/mine")
    plan = planned(text)
    run = made(plan, "own-1", "seqcredit train own/mine.toml --seed 1")
    (run / "mine_planned.py").write_text(OWN)
    plan.results.mkdir(exist_ok=True)
    settings = tomllib.loads(recipes.resolved(plan.cells["own-1"].recipe))
    plan.record(plan.cells["own-1"]).write_text(json.dumps({"bleu": 1.0, "settings": settings}))
    assert list(planned(text).notes()) == []
    after = cell("after", "own/mine", 'init_from = "runs/own-1"\nset = ["beam=1"]')
    assert list(planned(text + after).notes()) == []  # its phase is the same, too
    with pytest.raises(UserError, match="was made with other settings than own-1 has now"):
        planned(cell("own", "own/mine", 'set = ["phase.Mine.power=2"]'))


def test_a_run_that_started_from_another_is_not_continued() -> None:
    text = cell("mle") + cell("erac", "erac", 'init_from = "mle"\nseeds = [1]')
    plan = planned(text)
    made(plan, "erac-1", "seqcredit train erac.toml --init-from runs/mle-1")
    assert planned(text)
    made(plan, "erac-1", "seqcredit train erac.toml")
    with pytest.raises(UserError, match="made with other networks to start from"):
        planned(text)


def test_a_killed_beginning_is_nobodys_run() -> None:
    folder = made(planned(cell("mle")), "mle-1")
    (folder / "checkpoints" / "00000001").rmdir()
    (folder / "run.json").write_text("")
    assert planned(cell("mle", rest='set = ["phase.1.epochs=4"]'))


def test_a_record_without_settings_is_nobodys() -> None:
    Path("results").mkdir()
    record = Path("results/mle-1.json")
    record.write_text(json.dumps({"command": "seqcredit train mle.toml --threads 1", "seed": 1}))
    with pytest.raises(UserError, match="has other settings than mle-1 has now"):
        planned(cell("mle"))
    record.write_text("{")
    with pytest.raises(UserError, match="is damaged, it is not JSON"):
        planned(cell("mle"))


def test_a_record_is_known_by_its_settings_however_it_was_made() -> None:
    Path("results").mkdir()
    recipe = planned(cell("mle")).cells["mle-1"].recipe
    kept = {"command": "seqcredit train elsewhere.toml", "settings": tomllib.loads(recipes.resolved(recipe))}
    Path("results/mle-1.json").write_text(json.dumps(kept))
    assert planned(cell("mle"))
    with pytest.raises(UserError, match="has other settings than mle-1 has now"):
        planned(cell("mle", rest='set = ["phase.1.clip=4.0"]'))


# The sweeps that come along.


@pytest.mark.parametrize("file", sorted((ROOT / "sweeps").glob("*.toml")), ids=lambda file: file.stem)
def test_every_sweep_can_be_planned(file: Path) -> None:
    from seqcredit.experiments.progress import outline

    os.chdir(ROOT)
    plan = read(file)
    lines = list(outline(plan, 2))
    assert [line.split()[0] for line in lines[: len(plan.cells)]] == list(plan.cells)
    assert all(recipes.found(cell.path).exists() and not cell.path.is_absolute() for cell in plan.cells.values())
    same = "trained with tau = 0.0 instead of 0.04, future_entropy = True instead of False."  # one and the same Q
    assert [note for note in plan.notes() if not (note.startswith(WITHOUT) and note.endswith(same))] == []


def test_the_ablation_has_the_papers_cells() -> None:
    os.chdir(ROOT)
    cells = planning.read(Path("sweeps/tatoeba-ablation.toml")).cells.values()
    table = [c.recipe.phase[1:] for c in cells if c.name.startswith("table3")]
    assert all((a.smoothing, a.target_rate) == (b.smoothing, b.target_rate) for a, b in table)
    assert {(a.smoothing, a.target_rate) for a, _ in table} == {
        (smoothing, rate) for smoothing in (0, 0.001) for rate in (0.001, 0.01, 0.1, 1)
    }
    taus = [[phase.tau for phase in c.recipe.phase[1:]] for c in cells if c.name.startswith("temperature")]
    assert taus == [[tau, tau] for tau in (0, 0.01, 0.02, 0.06, 0.12, 0.24)]
    last = {c.name: c.recipe.phase[2] for c in cells if c.name.startswith("vaml")}
    assert {name: (phase.kappa, phase.proposal) for name, phase in last.items()} == {
        "vaml-copying": (0.2, "ngram"),
        "vaml-kappa-1": (1, "ngram"),
        "vaml-policy": (0.2, "policy"),
    }


def test_all_algorithms_have_three_seeds() -> None:
    os.chdir(ROOT)
    plan, more = (planning.read(Path(f"sweeps/tatoeba{which}.toml")) for which in ("", "-more"))
    cells = [*plan.cells.values(), *more.cells.values()]
    stems = {path.stem for path in (recipes.RECIPES / "tatoeba").glob("*.toml")} - {
        "vaml-from-mle"
    }  # the search ended it
    assert {(c.name, c.seed) for c in cells if c.records} == {(stem, seed) for stem in stems for seed in (1, 2, 3)}
    first = {
        "mle-continued": "mle",
        "critic": "mle",
        "erac-critic": "mle",
        "soft-q-copying": "mle",
        "raml-from-mle": "mle",
        "vaml-copying": "soft-q-copying",
        "erac-exact-eos": "mle",
        "ac": "critic",
        "erac": "erac-critic",
        WITHOUT: "critic",
    }
    for cell_ in cells:
        assert cell_.name in (cell_.path.stem, "critic", "erac-critic", "soft-q-copying")
        start = first.get(cell_.name)
        assert cell_.init_from == (f"{start}-{cell_.seed}" if start else None)


STARTED = (
    cell("mle")
    + cell("cont", "erac", 'init_from = "mle"\nagainst = ["mle"]')
    + cell("far", "erac", 'init_from = "mle"\nagainst = ["cont", "mle"]')
)


def test_some_cells_and_what_they_start_from() -> None:
    planned(STARTED)
    plan = read(Path("sweep.toml"), only=["far-2"])
    assert list(plan.cells) == ["mle-2", "far-2"]
    assert plan.cells["far-2"].against == ("mle-2",)  # not with what is left out
    assert list(read(Path("sweep.toml"), only=["mle", "cont-1"]).cells) == ["mle-1", "mle-2", "cont-1"]
    with pytest.raises(UserError, match="there is no cell 'fra-2'; the nearest is 'far-2'"):
        read(Path("sweep.toml"), only=["fra-2"])


def test_settings_for_all_cells_in_another_place() -> None:
    planned(STARTED)
    plan = read(Path("sweep.toml"), into=Path("again"), overrides=["phase.*.epochs=7", "beam=2"])
    assert plan.run("mle-1") == Path("again/runs/mle-1")
    assert plan.record(plan.cells["far-2"]) == Path("again/results/far-2.json")
    assert plan.data == Path("data")
    for one in plan.cells.values():
        assert ([phase.epochs for phase in one.recipe.phase], one.recipe.beam) == ([7] * len(one.recipe.phase), 2)
        assert one.overrides == ("phase.*.epochs=7", "beam=2")
    with pytest.raises(UserError, match="the seed does not belong in set"):
        read(Path("sweep.toml"), overrides=["seed=3"])
