"""Every recipe loads, and those of the paper's experiments say what its appendix says."""

import re
import shlex
import subprocess
import tomllib
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import needs
from seqcredit.algorithms import ActorCritic, Critic, Mle, Phase, objective_of
from seqcredit.algorithms.erac import Judging
from seqcredit.algorithms.proposing import Proposing
from seqcredit.cli import parser
from seqcredit.experiments.recipe import RECIPES, Recipe, load, resolved
from seqcredit.models.build import LSTM
from seqcredit.models.lstm import Seq2Seq
from seqcredit.rewards.payoff import Payoff

ROOT = Path(__file__).parents[1]
FILES = sorted(RECIPES.rglob("*.toml"))

# The appendix's two tables of hyper-parameters, machine translation, as they stand there. "" is "not applicable".
RAML_VAML = {  # VAML-1, VAML-2, RAML
    "optimizer": ("Adam", "SGD", "SGD"),
    "learning_rate": ("0.001", "0.6", "0.6"),
    "batch_size": ("50", "42", "42"),
    "samples": ("5", "5", "5"),
    "tau": ("0.4", "0.4", "0.4"),
    "kappa": ("", "0.2", ""),
}
ERAC = {  # with, without input feeding
    "Pre-train Actor": {
        "optimizer": ("SGD", "SGD"),
        "learning_rate": ("0.6", "0.6"),
        "batch_size": ("50", "50"),
    },
    "Pre-train Critic": {
        "optimizer": ("Adam", "Adam"),
        "learning_rate": ("0.001", "0.001"),
        "batch_size": ("50", "50"),
        "tau": ("0.05", "0.04"),
        "target_rate": ("0.001", "0.001"),
        "smoothing": ("0.001", "0.001"),
    },
    "Joint Training": {
        "optimizer": ("Adam", "Adam"),
        "learning_rate": ("0.0001", "0.0001"),
        "batch_size": ("50", "50"),
        "tau": ("0.05", "0.04"),
        "target_rate": ("0.001", "0.001"),
        "smoothing": ("0.001", "0.001"),
        "mle_weight": ("0.1", "0.1"),
    },
}
# The captioning columns of the same two tables.
CAPTION_RAML_VAML = {  # VAML-1, VAML-2, RAML
    "optimizer": ("Adam", "SGD", "SGD"),
    "learning_rate": ("0.001", "0.5", "0.5"),
    "batch_size": ("32 x 5", "32 x 5", "32 x 5"),
    "samples": ("2", "6", "6"),
    "tau": ("0.7", "0.7", "0.7"),
    "kappa": ("", "0.1", ""),
}
CAPTION_ERAC = {
    "Pre-train Actor": {"optimizer": "SGD", "learning_rate": "0.5", "batch_size": "32 x 5"},
    "Pre-train Critic": {
        "optimizer": "Adam",
        "learning_rate": "0.001",
        "batch_size": "32 x 5",
        "tau": "0.01",
        "target_rate": "0.001",
        "smoothing": "0.001",
    },
    "Joint Training": {
        "optimizer": "Adam",
        "learning_rate": "0.0001",
        "batch_size": "32 x 5",
        "tau": "0.01",
        "target_rate": "0.001",
        "smoothing": "0.001",
        "mle_weight": "0.1",
    },
}
# Its table of architectures: encoder layers, size of a direction; decoder layers, size; attention; input feeding.
ARCHITECTURES = {
    "VAML, 1 layer": (1, 128, 1, 256, "Dot-Prod", "Y"),
    "ERAC, 1 layer": (1, 128, 1, 256, "Dot-Prod", "Y"),
    "ERAC, 2 layers": (2, 256, 2, 512, "Dot-Prod", "Y"),
}
# The numbers by which the comments in the recipes call the paper's tables.
TABLES = {
    "tab:result": 1,
    "tab:comparison": 2,
    "tab:ab_tgtnet_smooth": 3,
    "tab:future_ent": 4,
    "tab:raml_vaml": 5,
    "tab:hyperparam-erac": 6,
    "tab:comparison_detailed": 7,
}


class Folder(NamedTuple):
    """What the recipes of a folder share."""

    stems: set[str]
    fidelity: str
    width: int  # of the LSTM and the embedding, with one layer
    only_short: int | None = None
    dropout: float = 0.3
    epochs: int = 20  # of MLE


FIVE = {"mle", "raml", "vaml", "ac", "erac"}
FEEDING = {f"{stem}-feeding" for stem in FIVE}
FROM_MLE = {"mle-continued", "raml-from-mle", "vaml-from-mle", "vaml-copying"}
FOLDERS = {
    "iwslt14": Folder(FIVE | FEEDING | {"erac-without-future-entropy", "erac-2x512"}, "paper", 256),
    "europarl": Folder(
        (FIVE | FROM_MLE | {"erac-without-future-entropy", "erac-released", "ac-copying", "erac-copying"})
        - {"raml", "vaml", "vaml-copying"},
        "paper",
        256,
    ),
    "multi30k": Folder(FIVE | FROM_MLE - {"vaml-from-mle"}, "default", 256, dropout=0.5, epochs=24),
    "multi30k-small": Folder({"mle", "raml", "vaml", "ac", "mle-continued"}, "default", 128, 12),
    "tatoeba": Folder(FIVE | FROM_MLE | {"erac-exact-eos", "erac-without-future-entropy"}, "default", 128, 8),
}
SYSTEMS = {"reinforce", "scst", "mixer", "mrt", "grpo", "scheduled-sampling", "ocd"}  # that the paper compares with
CELLS = [(folder, stem) for folder, about in FOLDERS.items() for stem in sorted(about.stems)]
PHASES = {
    "mle": ["mle"],
    "raml": ["raml"],
    "vaml": ["soft_q", "vaml"],
    "ac": ["mle", "critic", "actor_critic"],
    "erac": ["mle", "critic", "actor_critic"],
    "mle-continued": ["mle", "mle"],
    "raml-from-mle": ["mle", "raml"],
    "vaml-from-mle": ["mle", "soft_q", "vaml"],
    "vaml-copying": ["mle", "soft_q", "vaml"],
}


KEYS = [each.name for each in fields(Phase)]  # of every phase


def recipe(folder: str, stem: str) -> Recipe:
    return load(RECIPES / folder / f"{stem}.toml")


def table(folder: str, stem: str) -> dict[str, Any]:
    return tomllib.loads((RECIPES / folder / f"{stem}.toml").read_text())


def algorithm(stem: str) -> str:
    return stem.split("-")[0]


def of_table(text: str) -> Any:
    """A cell of the paper's tables as the value of a key; of 32 x 5 captions the number of pictures."""
    return float(text.removesuffix(" x 5")) if text[0].isdigit() else text.lower()


# Any recipe.


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(RECIPES)))
def test_every_recipe_loads_and_its_resolved_text_to_the_same(path: Path, tmp_path: Path) -> None:
    loaded = load(path)
    written = tmp_path / "resolved.toml"
    written.write_text(resolved(loaded), encoding="utf-8")
    assert load(written) == loaded


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_has_its_recipes_and_no_two_of_one_name(folder: str) -> None:
    assert {path.stem for path in (RECIPES / folder).glob("*.toml")} == FOLDERS[folder].stems
    names = [recipe(folder, stem).name for stem in FOLDERS[folder].stems]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("folder", "stem"), CELLS)
def test_a_recipe_is_of_its_folder(folder: str, stem: str) -> None:
    about, loaded = FOLDERS[folder], recipe(folder, stem)
    width, layers = (512, 2) if stem.endswith("2x512") else (about.width, 1)
    fidelity = "released" if stem.endswith("released") else about.fidelity
    assert (loaded.fidelity, loaded.data, loaded.seed) == (fidelity, "", 1)
    assert (loaded.actor.embedding, loaded.actor.hidden, loaded.actor.layers) == (about.width, width, layers)
    assert loaded.actor.input_feeding == stem.endswith(("feeding", "2x512"))
    assert (loaded.actor.attention, loaded.actor.dropout) == ("dot", about.dropout)
    kinds = [objective_of(phase) for phase in loaded.phase]
    assert kinds == PHASES.get(stem, PHASES[algorithm(stem)])
    warm = stem in FROM_MLE or algorithm(stem) in ("ac", "erac")
    for phase in loaded.phase:
        assert phase.clip == 5.0
        last = stem == "erac-released" and phase.name == "actor_critic"
        assert phase.decay == (1.0 if phase.anneal else 0.9 if last else 0.5)
        assert phase.anneal == (folder in ("tatoeba", "multi30k", "multi30k-small") and warm and phase.name != "mle")


@pytest.mark.parametrize(("folder", "stem"), CELLS)
def test_the_first_line_prepares_the_data(folder: str, stem: str) -> None:
    first = (RECIPES / folder / f"{stem}.toml").read_text().splitlines()[0]
    about, command = first.removeprefix("# ").split(": seqcredit ")
    assert first.startswith("# ")
    assert about
    options = parser().parse_args(shlex.split(command))
    if folder == "iwslt14":
        assert options.iwslt14 is not None
        return
    assert (options.tokenized, options.min_count) == (True, 3)
    assert options.only_short == FOLDERS[folder].only_short
    for split in ("train", "valid", "test"):
        assert getattr(options, split) == [Path(f"{split}.de"), Path(f"{split}.en")]


@pytest.mark.parametrize(("folder", "stem"), [cell for cell in CELLS if algorithm(cell[1]) in {"vaml", "ac", "erac"}])
def test_the_critic_is_a_network_like_the_actor(folder: str, stem: str) -> None:
    loaded = recipe(folder, stem)
    attention, dropout = ("dot", 0.1) if algorithm(stem) == "vaml" else ("mlp", 0.0)
    width = 256 if folder == "tatoeba" and attention == "mlp" else FOLDERS[folder].width
    copies = stem.endswith("-copying")
    expected = replace(loaded.actor, attention=attention, dropout=dropout, copy=64 if copies else 0)
    expected = replace(expected, dueling=copies and folder == "europarl")
    if not stem.endswith("2x512"):
        expected = replace(expected, embedding=width, hidden=width)
    assert loaded.critic == expected


@pytest.mark.parametrize(
    ("folder", "feeding"),
    [("iwslt14", ""), ("iwslt14", "-feeding"), ("multi30k", ""), ("tatoeba", ""), ("europarl", "")],
)
def test_ac_is_erac_without_entropy(folder: str, feeding: str) -> None:
    ac, erac = recipe(folder, f"ac{feeding}"), recipe(folder, f"erac{feeding}")
    assert all(phase.tau > 0 for phase in critics(erac))
    same = changed(erac, tau=0.0)
    if folder == "tatoeba":  # each has the learning rate that its search chose
        same = (*same[:-1], replace(same[-1], learning_rate=ac.phase[-1].learning_rate))
    assert replace(erac, name=ac.name, phase=same) == ac
    assert (ac.name, erac.name) == (f"AC{', input feeding' * bool(feeding)}", ac.name.replace("AC", "ERAC"))


@pytest.mark.parametrize("folder", ["iwslt14", "tatoeba", "europarl"])
def test_without_future_entropy_is_erac_but_for_that(folder: str) -> None:
    without, erac = recipe(folder, "erac-without-future-entropy"), recipe(folder, "erac")
    assert replace(erac, name=without.name, phase=changed(erac, future_entropy=False)) == without
    assert all(phase.future_entropy for phase in critics(erac))


def test_exact_eos_is_erac_but_for_that() -> None:
    exact, erac = recipe("tatoeba", "erac-exact-eos"), recipe("tatoeba", "erac")
    assert replace(erac, name="ERAC, exact eos", phase=changed(erac, exact_eos=1.0)) == exact


def test_vaml_with_a_copying_critic_is_vaml_but_for_the_critic_and_the_temperature() -> None:
    copying, vaml = recipe("tatoeba", "vaml-copying"), recipe("tatoeba", "vaml-from-mle")
    pretrained, soft_q, last = vaml.phase
    soft_q = replace(soft_q, tau=0.08, exact_eos=1.0, epochs=1, words="likely")
    last = replace(last, tau=0.08, weight_tau=vaml.phase[2].tau)
    critic = replace(vaml.critic, copy=64)
    assert replace(vaml, name=copying.name, critic=critic, phase=(pretrained, soft_q, last)) == copying


def critics(loaded: Recipe) -> list[Judging]:
    return [phase for phase in loaded.phase if isinstance(phase, Judging)]


def changed(loaded: Recipe, **keys: Any) -> tuple[Phase, ...]:
    return tuple(replace(phase, **keys) if isinstance(phase, Judging) else phase for phase in loaded.phase)


@pytest.mark.parametrize(("folder", "stem"), [cell for cell in CELLS if "mle" in PHASES[algorithm(cell[1])]])
def test_the_actor_is_pretrained_as_in_mle(folder: str, stem: str) -> None:
    baseline = recipe(folder, f"mle{'-feeding' if stem.endswith('-feeding') else ''}")
    assert recipe(folder, stem).phase[0] == baseline.phase[0]


def test_two_layers_are_the_only_difference_to_erac_with_feeding() -> None:
    small, large = recipe("iwslt14", "erac-feeding"), recipe("iwslt14", "erac-2x512")
    size = {"hidden": 512, "layers": 2}
    assert large == replace(
        small, name=large.name, actor=replace(small.actor, **size), critic=replace(small.critic, **size)
    )


# The paper's tables.


@pytest.mark.parametrize("feeding", ["", "-feeding"])
@pytest.mark.parametrize(("column", "stem", "number"), [(0, "vaml", 0), (1, "vaml", 1), (2, "raml", 0)])
def test_raml_and_vaml_are_the_papers(column: int, stem: str, number: int, feeding: str) -> None:
    phase = recipe("iwslt14", f"{stem}{feeding}").phase[number]
    said = table("iwslt14", f"{stem}{feeding}")["phase"][number]
    for key, row in RAML_VAML.items():
        if row[column]:
            assert getattr(phase, key) == said[key] == of_table(row[column]), key
        else:
            assert not hasattr(phase, key), key


@pytest.mark.parametrize(
    "stem", ["ac", "ac-feeding", "erac", "erac-feeding", "erac-without-future-entropy", "erac-2x512"]
)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_ac_and_erac_are_the_papers(stem: str, number: int) -> None:
    phase, said = recipe("iwslt14", stem).phase[number], table("iwslt14", stem)["phase"][number]
    for key, (fed, plain) in list(ERAC.values())[number].items():
        value = of_table(fed if stem.endswith(("feeding", "2x512")) else plain)
        if key == "tau" and algorithm(stem) == "ac":
            value = 0
        assert getattr(phase, key) == said[key] == value, key


@pytest.mark.parametrize("stem", ["mle", "mle-feeding"])
def test_mle_is_the_papers(stem: str) -> None:
    (phase,), (said,) = recipe("iwslt14", stem).phase, table("iwslt14", stem)["phase"]
    for key, row in ERAC["Pre-train Actor"].items():
        assert getattr(phase, key) == said[key] == of_table(row[stem == "mle"]), key


@pytest.mark.parametrize(
    ("row", "stem"),
    [("VAML, 1 layer", "vaml-feeding"), ("ERAC, 1 layer", "erac-feeding"), ("ERAC, 2 layers", "erac-2x512")],
)
def test_architectures_are_the_papers(row: str, stem: str) -> None:
    m = recipe("iwslt14", stem).actor
    network = Seq2Seq(5, 5, m.embedding, m.hidden, m.layers, m.attention, m.input_feeding, m.dropout)
    encoder, decoder = network.encoder, network.decoder
    assert all(lstm.bidirectional for lstm in encoder)
    sizes = (len(encoder), encoder[0].hidden_size, decoder.num_layers, decoder.hidden_size)
    words = ({"dot": "Dot-Prod", "mlp": "MLP"}[m.attention], "Y" if m.input_feeding else "N")
    assert sizes + words == ARCHITECTURES[row]


@pytest.mark.parametrize("stem", sorted(FOLDERS["iwslt14"].stems))
def test_what_the_paper_leaves_open_is_the_released_codes(stem: str) -> None:
    loaded = recipe("iwslt14", stem)
    assert (loaded.beam, loaded.longest_output) == (5, 100)
    pay = loaded.payoff
    assert (pay.metric, pay.smoothing, pay.scaled, pay.unk_matches) == ("bleu", "add-one", True, True)
    decays = {"mle": 6, "raml": 6, "vaml": 6, "soft_q": 4, "critic": 5, "actor_critic": 6}
    for phase, said in zip(loaded.phase, table("iwslt14", stem)["phase"], strict=True):
        assert phase.decays == said["decays"] == decays[said["objective"]]
        if isinstance(phase, Proposing):
            assert (phase.proposal, phase.longest) == ("ngram", 4)
        elif isinstance(phase, ActorCritic):
            assert (phase.samples, phase.extra_length, phase.longest_sample, phase.beta1) == (1, 10, 50, 0.0)
        elif isinstance(phase, Critic):
            assert (phase.samples, phase.extra_length, phase.longest_sample, phase.judged_by) == (2, 5, 50, "td")


# The paper's captions.

# The systems that the paper compares itself with: the last phase of each, and the networks that it has.
COMPARED = {
    "a2c": "a2c",
    "bso": "bso",
    "guide": "critic",
    "pcl": "pcl",
    "professor-forcing": "professor_forcing",
    "sac": "sac",
}
CAPTIONING = {
    "coco": ("paper", FIVE | {"erac-without-future-entropy"}),
    "flickr8k": ("default", FIVE | SYSTEMS | {"mle-continued", "raml-from-mle", "vaml-copying"} | COMPARED.keys()),
}
CAPTION_CELLS = [(folder, stem) for folder, (_, stems) in CAPTIONING.items() for stem in sorted(stems)]


@pytest.mark.parametrize(("folder", "stem"), CAPTION_CELLS)
def test_a_captioning_recipe_is_of_its_folder(folder: str, stem: str) -> None:
    fidelity, stems = CAPTIONING[folder]
    loaded = recipe(folder, stem)
    assert {path.stem for path in (RECIPES / folder).glob("*.toml")} == stems
    paper = folder == "coco"
    payoff = {"metric": "edit"} if stem == "ocd" else {}
    payoff |= {"scaled": False, "unfinished": "nothing"} if stem == "guide" else {}
    assert (loaded.fidelity, loaded.data, loaded.payoff) == (fidelity, "", Payoff(references="own", **payoff))
    assert loaded.actor == LSTM(512, 512, 1, "none", False, 0.3 if paper else 0.5)
    if algorithm(stem) in {"vaml", "ac", "erac"}:
        width, attention = 512 if paper else 256, "mlp" if paper and stem != "vaml" else "dot"
        expected = LSTM(width, width, 1, attention, False, 0.1 if algorithm(stem) == "vaml" else 0.0)
        assert loaded.critic == replace(expected, copy=64 if stem == "vaml-copying" else 0)
    warm = {"raml", "vaml", "soft_q"} if stem in FROM_MLE else set()
    for phase in loaded.phase:
        actor = objective_of(phase) not in {"soft_q", "critic"}
        assert (phase.clip, phase.decay) == (1.0 if actor else 5.0, 1.0 if phase.anneal else 0.5)
        systems = {name.replace("-", "_") for name in SYSTEMS} | set(COMPARED.values()) - {"critic"}
        assert phase.anneal == (not paper and phase.name in {"actor_critic", "continued", *systems, *warm})
        assert getattr(phase, "critic_clip", 5.0) == 5.0
    words = shlex.split((RECIPES / folder / f"{stem}.toml").read_text().splitlines()[0].split(": seqcredit ")[1])
    options = parser().parse_args(words)
    assert (options.task, options.min_count, options.tokenized) == ("captioning", 5, True)


@pytest.mark.parametrize(("column", "stem", "number"), [(0, "vaml", 0), (1, "vaml", 1), (2, "raml", 0)])
def test_raml_and_vaml_for_captions_are_the_papers(column: int, stem: str, number: int) -> None:
    phase, said = recipe("coco", stem).phase[number], table("coco", stem)["phase"][number]
    for key, row in CAPTION_RAML_VAML.items():
        if row[column]:
            assert getattr(phase, key) == said[key] == of_table(row[column]), key
        else:
            assert not hasattr(phase, key), key


@pytest.mark.parametrize("stem", ["ac", "erac", "erac-without-future-entropy"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_ac_and_erac_for_captions_are_the_papers(stem: str, number: int) -> None:
    phase, said = recipe("coco", stem).phase[number], table("coco", stem)["phase"][number]
    for key, cell in list(CAPTION_ERAC.values())[number].items():
        value = 0 if key == "tau" and stem == "ac" else of_table(cell)
        assert getattr(phase, key) == said[key] == value, key
    assert getattr(phase, "future_entropy", True) == (not stem.startswith("erac-") or number == 0)


@pytest.mark.parametrize("folder", CAPTIONING)
def test_ac_for_captions_is_erac_without_entropy(folder: str) -> None:
    ac, erac = recipe(folder, "ac"), recipe(folder, "erac")
    assert all(phase.tau == {"coco": 0.01, "flickr8k": 0.002}[folder] for phase in critics(erac))
    assert replace(erac, name="AC", phase=changed(erac, tau=0.0)) == ac
    assert recipe(folder, "mle").phase == erac.phase[:1]


def test_mle_for_captions_continues_with_the_joint_phases_optimizer() -> None:
    _, second = recipe("flickr8k", "mle-continued").phase
    joint = recipe("flickr8k", "erac").phase[2]
    assert second == Mle(**{key: getattr(joint, key) for key in KEYS} | {"name": "continued"})


@pytest.mark.parametrize("stem", ["raml-from-mle", "vaml-copying"])
def test_raml_and_vaml_from_mle_have_the_optimizer_and_the_updates_of_continued_mle(stem: str) -> None:
    loaded, continued = recipe("flickr8k", stem), recipe("flickr8k", "mle-continued")
    assert (loaded.actor, loaded.phase[0]) == (continued.actor, continued.phase[0])
    last, theirs = loaded.phase[-1], continued.phase[-1]
    assert all(getattr(last, key) == getattr(theirs, key) for key in KEYS if key != "name")
    assert objective_of(last) == algorithm(stem)


# The systems that the paper compares itself with.


@pytest.mark.parametrize("stem", sorted(SYSTEMS))
@pytest.mark.parametrize("folder", ["demo", "flickr8k", "multi30k-task2"])
def test_every_system_starts_from_one_mle_and_has_the_updates_of_continued_mle(folder: str, stem: str) -> None:
    loaded, continued = recipe(folder, stem), recipe(folder, "mle-continued")
    assert (loaded.actor, loaded.phase[0]) == (continued.actor, continued.phase[0])
    assert recipe(folder, "mle").phase == continued.phase[:1]
    _, last = loaded.phase
    assert objective_of(last) == last.name == stem.replace("-", "_")
    assert last.check(loaded.payoff) is None
    assert all(getattr(last, key) == getattr(continued.phase[1], key) for key in KEYS if key != "name")
    assert not last.validates_start  # continued MLE has no such choice
    edit = stem == "ocd"
    assert loaded.payoff.metric == ("edit" if edit else "bleu")
    if folder == "multi30k-task2":
        assert loaded.payoff.references == ("own" if edit else "all")


def test_the_systems_of_one_folder_are_those_of_another() -> None:
    found = {path.stem for path in (RECIPES / "multi30k-task2").glob("*.toml")}
    assert found >= SYSTEMS | {"mle", "mle-continued"}
    assert {path.stem for path in (RECIPES / "demo").glob("*.toml")} >= SYSTEMS
    assert len({recipe("multi30k-task2", stem).name for stem in found}) == len(found)


@pytest.mark.parametrize("path", sorted((RECIPES / "multi30k-task2").glob("*.toml")), ids=lambda path: path.stem)
def test_the_first_lines_prepare_descriptions_with_five_references(path: Path) -> None:
    first, _, third, *_ = path.read_text().splitlines()
    options = parser().parse_args(shlex.split(first.split(": seqcredit ")[1]))
    assert (options.moses, options.lowercase, options.languages, options.min_count) == (True, True, ["de", "en"], 10)
    assert [options.train, options.valid, options.test] == [
        [Path(f"{name}.tsv")] for name in ("train", "val", "test_2016")
    ]
    assert third == (RECIPES / "multi30k-task2" / "mle.toml").read_text().splitlines()[2]


def test_lines_of_task_2_have_their_own_reference_first(tmp_path: Path) -> None:
    """What the third line of a recipe does to ten files of each split."""
    for split, k, language in product(("train", "val", "test_2016"), range(1, 6), ("de", "en")):
        (tmp_path / f"{split}.{k}.{language}").write_text("".join(f"{language} {k} {n}\n" for n in range(2)))
    line = (RECIPES / "multi30k-task2" / "mle.toml").read_text().splitlines()[2].removeprefix("# ")
    subprocess.run(["bash", "-c", line], cwd=tmp_path, check=True)
    rows = [row.split("\t") for row in (tmp_path / "train.tsv").read_text().splitlines()]
    assert len(rows) == 10
    assert rows[3] == ["de 2 1", "en 2 1", "en 3 1", "en 4 1", "en 5 1", "en 1 1"]
    assert all(row[0].removeprefix("de") == row[1].removeprefix("en") and len({*row[1:]}) == 5 for row in rows)


# The other folders.


EUROPARL = {"epochs": 2, "validate_every": 1600}  # 3,200 updates an epoch


@pytest.mark.parametrize("stem", ["ac", "erac", "erac-without-future-entropy"])
def test_europarl_differs_from_the_paper_in_pace_alone(stem: str) -> None:
    """And is judged by what really followed, and may end worse than it began, as what it is compared with."""
    mle, critic, joint = recipe("iwslt14", stem).phase
    expected = mle, replace(critic, judged_by="return_error", **EUROPARL), replace(joint, keeps_start=False, **EUROPARL)
    assert recipe("europarl", stem).phase == expected


@pytest.mark.parametrize("stem", ["ac", "erac"])
def test_europarl_with_a_critic_that_copies_and_looks_ahead(stem: str) -> None:
    plain, copying = recipe("europarl", stem), recipe("europarl", f"{stem}-copying")
    critic = replace(plain.critic, copy=64, dueling=True)
    assert replace(plain, name=copying.name, critic=critic, phase=changed(plain, trace=0.9, target_rate=0.1)) == copying


def test_europarl_in_the_released_form() -> None:
    """All that the paper and its code do differently, and nothing else."""
    critic, joint = critics(recipe("europarl", "erac-released"))
    forms = {"smoothing_form": "mean", "td_form": "half", "bound_value": "free", "tau": 0.045}
    mine = critics(recipe("europarl", "erac"))
    assert (critic, joint) == (
        replace(mine[0], judged_by="td", **forms),
        replace(mine[1], judged_by="td", entropy_form="normalised", decay=0.9, **forms),
    )


@pytest.mark.parametrize("stem", ["mle-continued", "raml-from-mle", "vaml-from-mle"])
def test_europarl_from_mle_has_the_joint_phases_updates_and_optimizer(stem: str) -> None:
    last, joint = recipe("europarl", stem).phase[-1], recipe("europarl", "ac").phase[-1]
    own = ("name", "guarded")
    assert all(getattr(last, key) == getattr(joint, key) for key in KEYS if key not in own)
    if isinstance(last, Proposing):
        scratch = recipe("iwslt14", algorithm(stem)).phase[-1]
        assert replace(scratch, **{key: getattr(last, key) for key in KEYS}) == last


@pytest.mark.parametrize("stem", ["ac", "erac"])
@pytest.mark.parametrize(
    ("folder", "pace", "rates", "tau"),
    [
        ("tatoeba", {"epochs": 1, "validate_every": 629}, {"ac": 0.00015, "erac": 0.0003}, 0.04),  # rates of the search
        ("multi30k", {"epochs": 3}, {"ac": 0.0002, "erac": 0.0002}, 0.01),
    ],
)
def test_small_data_differ_from_the_paper_in_pace_and_temperature_alone(
    folder: str, pace: dict[str, int], rates: dict[str, float], tau: float, stem: str
) -> None:
    """Fewer updates ask for faster rates."""
    mle, critic, joint = recipe("iwslt14", stem).phase
    same = {**pace, "target_rate": 0.01, "anneal": True, "decay": 1.0, "tau": 0.0 if stem == "ac" else tau}
    joint = replace(joint, beta1=0.9, learning_rate=rates[stem], critic_learning_rate=0.0003, keeps_start=False)
    assert recipe(folder, stem).phase == (
        replace(mle, epochs=FOLDERS[folder].epochs),
        replace(critic, judged_by="return_error", samples=1, **same),
        replace(joint, **same),
    )


@pytest.mark.parametrize(("folder", "critic_epochs"), [("multi30k", 8), ("multi30k-small", 8), ("tatoeba", 3)])
def test_small_mle_raml_and_vaml_differ_from_the_paper_in_epochs_and_weights_alone(
    folder: str, critic_epochs: int
) -> None:
    small = {"epochs": 20, "weight_scaled": False}  # of fidelity "default"
    (mle,), (raml,) = recipe("iwslt14", "mle").phase, recipe("iwslt14", "raml").phase
    soft_q, vaml = recipe("iwslt14", "vaml").phase
    assert recipe(folder, "mle").phase == (replace(mle, epochs=FOLDERS[folder].epochs),)
    assert recipe(folder, "raml").phase == (replace(raml, **small),)
    assert recipe(folder, "vaml").phase == (replace(soft_q, epochs=critic_epochs), replace(vaml, **small))


@pytest.mark.parametrize(("folder", "epochs", "joint_epochs"), [("tatoeba", 3, 1), ("multi30k", 6, 3)])
def test_mle_continued_has_the_joint_phases_optimizer(folder: str, epochs: int, joint_epochs: int) -> None:
    first, second = recipe(folder, "mle-continued").phase
    joint = recipe(folder, "erac").phase[2]
    own = ("name", "epochs", "learning_rate")
    shared = {key: getattr(joint, key) for key in KEYS if key not in own}
    assert second == Mle(name="continued", epochs=epochs, learning_rate=0.00015, **shared)
    assert (first.name, joint.optimizer, joint.epochs) == ("mle", "adam", joint_epochs)


@pytest.mark.parametrize(
    ("folder", "stem"), [("tatoeba", "raml-from-mle"), ("tatoeba", "vaml-from-mle"), ("multi30k", "raml-from-mle")]
)
def test_from_mle_they_have_the_budget_of_mle_continued(folder: str, stem: str) -> None:
    mle, second = recipe(folder, "mle-continued").phase
    first, *_, last = recipe(folder, stem).phase
    scratch = recipe(folder, algorithm(stem)).phase[-1]
    budget = {key: getattr(second, key) for key in KEYS if key not in ("name", "learning_rate")}
    assert (first, last) == (mle, replace(scratch, samples=2, learning_rate=0.0006, **budget))


@pytest.mark.parametrize("stem", ["ac", "mle-continued"])
def test_short_sentences_have_the_pace_of_all(stem: str) -> None:
    assert recipe("multi30k-small", stem).phase[1:] == recipe("multi30k", stem).phase[1:]


def test_a_copying_critic_is_the_same_on_both_data_sets() -> None:
    small, large = recipe("tatoeba", "vaml-copying"), recipe("multi30k", "vaml-copying")
    size = {"embedding": 256, "hidden": 256}
    pace = {"validate_every": recipe("multi30k", "raml-from-mle").phase[-1].validate_every}
    _, soft_q, last = small.phase
    assert large == replace(
        small,
        actor=replace(small.actor, **size, dropout=0.5),
        critic=replace(small.critic, **size),
        phase=(*recipe("multi30k", "mle").phase, replace(soft_q, epochs=3, **pace), replace(last, epochs=6, **pace)),
    )


# The transcription above against the paper itself.

LABELS = {
    "optimizer": "optimizer",
    "learning rate": "learning_rate",
    "batch size": "batch_size",
    "$M$": "samples",
    r"$\tau$": "tau",
    r"$\kappa$": "kappa",
    r"$\tau$ (entropy regularization)": "tau",
    r"$\beta$ (target net speed)": "target_rate",
    r"$\lambda_\text{var}$ (smoothness)": "smoothing",
    r"$\lambda_\text{MLE}$": "mle_weight",
}


@pytest.fixture
def tex() -> str:
    return needs.paper().read_text(encoding="utf-8")


def rows(tex: str, label: str) -> list[list[str]]:
    """The cells of a table's rows, heading included, without LaTeX's rules."""
    before = tex[: tex.index(rf"\label{{{label}}}")]
    body = before[before.rindex(r"\begin{tabular}") : before.rindex(r"\end{tabular}")]
    body = re.sub(r"\\(toprule|midrule|bottomrule)", "", body)
    return [[cell.strip() for cell in row.split("&")] for row in body.split(r"\\")]


def test_transcription_of_raml_and_vaml(tex: str) -> None:
    found = {LABELS[name]: cells[:3] for name, *cells in rows(tex, "tab:raml_vaml") if name in LABELS}
    assert found == {key: [cell or "N.A." for cell in row] for key, row in RAML_VAML.items()}
    (head,) = [row for row in rows(tex, "tab:raml_vaml") if row[0].endswith("Hyper-parameters")]
    assert head[1:4] == ["VAML-1", "VAML-2", "RAML"]


def test_transcription_of_erac(tex: str) -> None:
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for name, *cells in rows(tex, "tab:hyperparam-erac"):
        part = re.search(r"\\multicolumn\{4\}\{c\}\{\\bf (.*?)\}", name)
        if part:
            found[part[1]] = {}
        elif name in LABELS:
            list(found.values())[-1][LABELS[name]] = tuple(cells[:2])
    assert found == ERAC
    head = rows(tex, "tab:hyperparam-erac")[0]
    assert [cell.removeprefix(r"\bf ") for cell in head[1:3]] == ["MT w/ input feeding", "MT w/o input feeding"]


def test_transcription_of_the_captioning_columns(tex: str) -> None:
    def cell(text: str) -> str:
        return text.replace(r"$\times$", "x")

    found = {LABELS[name]: [*map(cell, cells[3:6])] for name, *cells in rows(tex, "tab:raml_vaml") if name in LABELS}
    assert found == {key: [text or "N.A." for text in row] for key, row in CAPTION_RAML_VAML.items()}
    parts: dict[str, dict[str, str]] = {}
    for name, *cells in rows(tex, "tab:hyperparam-erac"):
        part = re.search(r"\\multicolumn\{4\}\{c\}\{\\bf (.*?)\}", name)
        if part:
            parts[part[1]] = {}
        elif name in LABELS:
            list(parts.values())[-1][LABELS[name]] = cell(cells[2])
    assert parts == CAPTION_ERAC


def test_transcription_of_architectures(tex: str) -> None:
    found = [row[1:7] for row in rows(tex, "tab:comparison_detailed") if row[0] in {"VAML", "ERAC"}]
    assert found == [
        [f"{m}-layer BiLSTM", rf"{half} $\times$ 2", f"{n}-layer LSTM", str(size), attention, fed]
        for m, half, n, size, attention, fed in ARCHITECTURES.values()
    ]


def test_numbers_of_the_tables(tex: str) -> None:
    labels = re.findall(r"\\label\{(tab:\w[\w-]*)\}", tex)
    assert {label: number for number, label in enumerate(labels, 1)} == TABLES
    cited = {int(number) for path in FILES for number in re.findall(r"table (\d)", path.read_text())}
    assert cited >= {1, 4, 5, 6, 7}
    assert cited <= set(TABLES.values())


# Letters to phonemes.


@pytest.mark.parametrize("path", sorted((RECIPES / "cmudict").glob("*.toml")), ids=lambda path: path.stem)
def test_phonemes_are_learned_by_edit_distance_from_one_start(path: Path) -> None:
    """What comes after MLE has the same updates, batches and rate in every row."""
    loaded, start = load(path), recipe("cmudict", "mle")
    assert (loaded.metric, loaded.payoff) == ("edit", Payoff(metric="edit", references="own"))
    assert (loaded.actor, loaded.phase[0], loaded.fidelity) == (start.actor, start.phase[0], "default")
    assert all(phase.check(loaded.payoff) is None for phase in loaded.phase)
    if len(loaded.phase) > 1:
        second = recipe("cmudict", "mle-continued").phase[1]
        assert all(getattr(loaded.phase[-1], key) == getattr(second, key) for key in KEYS if key != "name")
    words = shlex.split(path.read_text().splitlines()[0].split(": seqcredit ")[1])
    assert parser().parse_args(words).tokenized


# The systems that the paper compares itself with.


@pytest.mark.parametrize("folder", ["demo", "flickr8k", "multi30k-task2"])
@pytest.mark.parametrize("stem", COMPARED)
def test_a_system_to_compare_with_starts_from_the_same_mle(folder: str, stem: str) -> None:
    loaded, others = recipe(folder, stem), [recipe(folder, other) for other in COMPARED]
    assert objective_of(loaded.phase[-1]) == COMPARED[stem]
    assert all(other.phase[0] == loaded.phase[0] and other.actor == loaded.actor for other in others)
    if (RECIPES / folder / "mle.toml").exists():
        assert (loaded.phase[0], loaded.actor) == (recipe(folder, "mle").phase[0], recipe(folder, "mle").actor)
    assert len({other.name for other in others}) == len(COMPARED)
    assert (loaded.critic.twin, loaded.critic.reads_source) == (stem == "sac", stem == "guide")
    assert (loaded.payoff.unfinished == "nothing") == (stem == "guide")
    if folder == "multi30k-task2":
        assert loaded.payoff.references == "all"
    if stem == "bso":
        assert loaded.phase[-1].width == loaded.beam + 1
    command = (RECIPES / folder / f"{stem}.toml").read_text().splitlines()[0].split(": seqcredit ")[1]
    assert parser().parse_args(shlex.split(command)) is not None
