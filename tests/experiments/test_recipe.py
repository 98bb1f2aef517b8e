"""Recipes: what is wrong is said in one sentence, and `fidelity` fills what the paper and the released code settle."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from seqcredit.algorithms import ALGORITHMS, ActorCritic, Critic, Mle, Raml, Vaml
from seqcredit.errors import UserError
from seqcredit.experiments.recipe import RECIPES, Recipe, found, load, parse, resolved, until
from seqcredit.models.build import LSTM, Transformer
from seqcredit.options import FIDELITIES, presets
from seqcredit.rewards.bleu import SMOOTHINGS
from seqcredit.rewards.payoff import Payoff

SHORT = """
name = "short"

[[phase]]
objective = "mle"
learning_rate = 0.6

[[phase]]
objective = "critic"
learning_rate = 0.001

[[phase]]
objective = "actor_critic"
name = "joint"
learning_rate = 0.0001
"""


def read(text: str) -> Recipe:
    return parse(tomllib.loads(text), "a.toml")


def phase_text(objective: str, *lines: str, top: str = "") -> str:
    return "\n".join(
        ['name = "one"', top, "[[phase]]", f'objective = "{objective}"', "learning_rate = 0.1", *lines, ""]
    )


def complaint(text: str) -> str:
    """The error of a recipe: one sentence that begins with the file."""
    with pytest.raises(UserError) as caught:
        read(text)
    return sentence(caught.value)


def sentence(error: UserError) -> str:
    said = str(error)
    assert "\n" not in said
    assert said.endswith(".")
    assert said[-2].isalnum() or said[-2] in "'`})]_"  # and no other mark before the full stop
    return said


@pytest.fixture
def short(tmp_path: Path) -> Path:
    path = tmp_path / "short.toml"
    path.write_text(SHORT)
    return path


def complaint_of_load(path: Path, *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        load(path, overrides)
    return sentence(caught.value)


# What is read.


def test_what_is_not_said_is_the_default(short: Path) -> None:
    recipe = load(short)
    assert (recipe.name, recipe.data, recipe.seed, recipe.fidelity) == ("short", "", 1, "default")
    assert [phase.name for phase in recipe.phase] == ["mle", "critic", "joint"]
    assert [type(phase) for phase in recipe.phase] == [Mle, Critic, ActorCritic]
    assert [phase.learning_rate for phase in recipe.phase] == [0.6, 0.001, 0.0001]
    assert recipe.actor == LSTM(attention="dot", dropout=0.3)
    assert recipe.critic == LSTM(attention="mlp", dropout=0.0)
    assert recipe.payoff == Payoff(metric="bleu", scaled=True)


def test_what_is_said_is_read() -> None:
    top = 'seed = 7\ndata = "there"\n[payoff]\nmetric = "edit"\n[actor]\nhidden = 64\n[critic]\nlayers = 2\n'
    recipe = read(phase_text("vaml", "kappa = 0.5", "kappa_draws = true", "samples = 3", top=top))
    assert (recipe.seed, recipe.data, recipe.payoff.metric, recipe.actor.hidden) == (7, "there", "edit", 64)
    (phase,) = recipe.phase
    assert isinstance(phase, Vaml)
    assert (phase.kappa, phase.kappa_draws, phase.samples) == (0.5, True, 3)


def test_a_table_keeps_the_defaults_of_its_own_key() -> None:
    recipe = read(phase_text("mle", top="[actor]\nhidden = 64\n[critic]\nhidden = 32\n"))
    assert recipe.actor == LSTM(hidden=64, attention="dot", dropout=0.3)
    assert recipe.critic == LSTM(hidden=32, attention="mlp", dropout=0.0)


def test_a_whole_number_may_stand_for_a_number() -> None:
    (phase,) = read(phase_text("raml", "tau = 1", "weight_tau = 2")).phase
    assert isinstance(phase, Raml)
    assert (phase.tau, phase.weight_tau) == (1.0, 2.0)
    assert type(phase.tau) is float
    assert type(phase.weight_tau) is float


# What is wrong.


@pytest.mark.parametrize(
    ("text", "where", "wrong", "nearest"),
    [
        (phase_text("raml", "tua = 0.4"), "phase 1 (raml)", "tua", "tau"),
        (phase_text("critic", "smothing = 0.1"), "phase 1 (critic)", "smothing", "smoothing"),
        (phase_text("mle", top="sede = 3"), "a.toml", "sede", "seed"),
        (phase_text("mle", top="[actor]\nlayer = 2"), "a.toml: actor", "layer", "layers"),
        (phase_text("mle", top='[payoff]\nmetrics = "bleu"'), "a.toml: payoff", "metrics", "metric"),
    ],
)
def test_an_unknown_key_names_the_nearest(text: str, where: str, wrong: str, nearest: str) -> None:
    said = complaint(text)
    assert where in said
    assert f"there is no key '{wrong}'; the nearest is '{nearest}'." in said


def test_a_key_like_no_other_lists_them_all() -> None:
    assert "no key 'zzz'; the keys are embedding, hidden, layers, " in complaint(
        phase_text("mle", top="[actor]\nzzz = 1")
    )


@pytest.mark.parametrize(
    ("objective", "key"),
    [
        ("mle", "kappa = 0.2"),
        ("mle", "tau = 0.4"),
        ("raml", "kappa = 0.2"),
        ("soft_q", "kappa = 0.2"),
        ("soft_q", "weight_tau = 1.0"),
        ("vaml", "look_ahead = 'target'"),
        ("vaml", "smoothing = 0.001"),
        ("critic", "mle_weight = 0.1"),
        ("critic", "entropy_form = 'exact'"),
        ("actor_critic", "proposal = 'ngram'"),
        ("actor_critic", "bound = 51"),
    ],
)
def test_a_key_of_another_phase_does_not_apply(objective: str, key: str) -> None:
    name = key.split()[0]
    said = complaint(phase_text(objective, key))
    assert f"phase 1 ({objective}): there is no key '{name}';" in said
    assert any(
        name in {each.name for each in fields(kind)} for kind in ALGORITHMS.values()
    )  # it is one of some other phase


def test_a_missing_key_is_named() -> None:
    assert complaint(SHORT.replace('name = "short"', "")) == "a.toml: the key 'name' is missing."
    said = complaint(SHORT.replace("learning_rate = 0.001", ""))
    assert said == "a.toml: phase 2 (critic): the key 'learning_rate' is missing."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (phase_text("mle", top="seed = true"), "a.toml: seed is True, but it must be a whole number."),
        (phase_text("mle", top="seed = 1.0"), "a.toml: seed is 1.0, but it must be a whole number."),
        (phase_text("mle", top="data = 3"), "a.toml: data is 3, but it must be text."),
        (phase_text("mle", top="actor = 3"), "a.toml: actor must be a table, not 3."),
        (phase_text("mle", "clip = true"), "a.toml: phase 1 (mle): clip is True, but it must be a number."),
        (phase_text("mle", "clip = 'x'"), "a.toml: phase 1 (mle): clip is 'x', but it must be a number."),
        (phase_text("mle", "epochs = 2.5"), "a.toml: phase 1 (mle): epochs is 2.5, but it must be a whole number."),
        (phase_text("mle", "name = 1"), "a.toml: phase 1 (mle): name is 1, but it must be text."),
        (
            phase_text("vaml", "kappa_draws = 1"),
            "a.toml: phase 1 (vaml): kappa_draws is 1, but it must be true or false.",
        ),
        (
            phase_text("raml", "weight_tau = 'x'"),
            "a.toml: phase 1 (raml): weight_tau is 'x', but it must be a number.",
        ),
        (
            phase_text("mle", top="[critic]\ninput_feeding = 'no'"),
            "a.toml: critic: input_feeding is 'no', but it must be true or false.",
        ),
    ],
)
def test_a_wrong_type(text: str, said: str) -> None:
    assert complaint(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (phase_text("mle", "optimizer = 'adagrad'"), "phase 1 (mle): optimizer is 'adagrad', but it must be one of"),
        (
            phase_text("mle", "optimizer = ['sgd']"),
            "phase 1 (mle): optimizer is ['sgd'], but it must be one of sgd, adam, adamw.",
        ),
        (
            phase_text("mle", top="[actor]\nattention = 'MLP'"),
            "actor: attention is 'MLP', but it must be one of dot, mlp, none.",
        ),
        (
            phase_text("mle", top="fidelity = 'exact'"),
            "fidelity is 'exact', but it must be one of default, paper, released.",
        ),
        (phase_text("mle", top="fidelity = []"), "fidelity is [], but it must be one of default, paper, released."),
        (
            phase_text("erac"),
            "phase 1: objective is 'erac', but it must be one of mle, raml, soft_q, vaml, vaml_exact, crit",
        ),
        (
            'name = "x"\n[[phase]]\nobjective = ["mle"]',
            "phase 1: objective is ['mle'], but it must be one of mle, raml,",
        ),
        ('name = "x"\n[[phase]]\nlearning_rate = 0.6', "phase 1: objective is None, but it must be one of mle, raml,"),
    ],
)
def test_a_wrong_choice(text: str, said: str) -> None:
    assert said in complaint(text)


# Each range: keys that have it, what it lets through and what not.
ABOVE_0 = ("above 0 and finite", ["1e-9", "1", "3.5"], ["0", "-1", "0.0", "-1e-9", "nan", "inf", "-inf"])
NOT_NEGATIVE = ("0 or more, and finite", ["0", "0.0", "7.5"], ["-1", "-1e-9", "nan", "inf", "-inf"])
SHARE = ("from 0 to 1", ["0", "0.5", "1.0"], ["2", "-0.1", "1.5", "nan", "inf"])
BELOW_1 = ("from 0 up to, but without, 1", ["0", "0.999"], ["1.0", "1.5", "-0.1", "nan", "inf"])
UP_TO_1 = ("above 0 and at most 1", ["1e-9", "1"], ["0", "1.5", "-1", "nan", "inf"])
FROM_0 = ("0 or more", ["0", "1"], ["-1"])
FROM_1 = ("1 or more", ["1", "2"], ["0", "-1"])
FROM_2 = ("2 or more", ["2", "3"], ["1", "0", "-1"])
EPOCHS = ("0 or more, and at most 1,000,000", ["0", "1000000"], ["-1", "1000001", "9" * 19])
LAYERS = ("1 or more, and at most 1,000", ["1", "1000"], ["0", "1001", "0x7fffffff"])
EVEN = ("an even number from 2 on, because two directions share it", ["2", "12"], ["0", "-2", "7"])
SEED = ("from 0 up to, but without, 2 ** 63", ["0", str(2**63 - 1)], ["-1", str(2**63)])
Interval = tuple[str, list[str], list[str]]
SIZES = {"embedding": FROM_1, "hidden": EVEN, "layers": LAYERS, "dropout": BELOW_1, "copy": FROM_0}
ONLY_0 = ("0 or more", ["0"], ["-1"])  # and no more where something else forbids it
EVERY_PHASE = {
    "learning_rate": ABOVE_0,
    "beta1": BELOW_1,
    "batch_size": FROM_1,
    "batch_tokens": ONLY_0,
    "clip": ABOVE_0,
    "epochs": EPOCHS,
    "decay": UP_TO_1,
    "decays": FROM_0,
    "validate_every": FROM_0,
    "updates": FROM_0,
    "weight_decay": (NOT_NEGATIVE[0], ["0", "0.0"], NOT_NEGATIVE[2]),  # more is for adamw alone
    "accumulate": FROM_1,
    "warmup": FROM_0,
}
PROPOSING = {"tau": ABOVE_0, "samples": FROM_1, "longest": FROM_1, "corruption": SHARE, "bound": FROM_1}
CRITIC = {
    "tau": NOT_NEGATIVE,
    "target_rate": UP_TO_1,
    "target_rate_end": UP_TO_1,
    "smoothing": NOT_NEGATIVE,
    "trace": SHARE,
    "trace_end": SHARE,
    "trace_steps": FROM_0,
    "samples": FROM_1,
    "extra_length": FROM_0,
    "longest_sample": FROM_1,
    "exact_eos": NOT_NEGATIVE,
    "exact": FROM_0,
}
SOFT_Q = {"steps": FROM_1, "exact_eos": NOT_NEGATIVE, "exact": ONLY_0}
INTERVALS: dict[str, dict[str, Interval]] = {
    "": {
        "seed": SEED,
        "beam": FROM_1,
        "validation_beam": FROM_1,
        "longest_output": FROM_1,
        "length_penalty": NOT_NEGATIVE,
    },
    "actor": {**SIZES, "copy": ONLY_0},
    "critic": SIZES,
    "payoff": {"precision": UP_TO_1, "falling": UP_TO_1, "length": UP_TO_1},
    "phase.mle": EVERY_PHASE,
    "phase.raml": {**EVERY_PHASE, **PROPOSING, "weight_tau": ABOVE_0},
    "phase.soft_q": {**EVERY_PHASE, **PROPOSING, "target_rate": UP_TO_1, **SOFT_Q},
    "phase.vaml": {**EVERY_PHASE, **PROPOSING, "weight_tau": ABOVE_0, "kappa": SHARE},
    "phase.vaml_exact": {**EVERY_PHASE, **PROPOSING, "weight_tau": ABOVE_0, "kappa": SHARE},
    "phase.critic": {**EVERY_PHASE, **CRITIC, "critic_until": SHARE, "critic_least": SHARE},
    "phase.actor_critic": {
        **EVERY_PHASE,
        **CRITIC,
        "mle_weight": NOT_NEGATIVE,
        "leash": NOT_NEGATIVE,
        "critic_learning_rate": NOT_NEGATIVE,
        "critic_clip": ABOVE_0,
    },
}
INTERVALS["phase.reinforce"] = {
    **EVERY_PHASE,
    "samples": FROM_1,
    "extra_length": FROM_0,
    "longest_sample": FROM_1,
    "mle_weight": NOT_NEGATIVE,
    "entropy_weight": NOT_NEGATIVE,
    "leash": NOT_NEGATIVE,
}
INTERVALS["phase.scst"] = INTERVALS["phase.reinforce"]
INTERVALS["phase.mixer"] = {
    **INTERVALS["phase.reinforce"],
    "delta_start": FROM_0,
    "delta": FROM_0,
    "delta_every": FROM_1,
}
INTERVALS["phase.mrt"] = {**INTERVALS["phase.reinforce"], "sharpness": ABOVE_0}
INTERVALS["phase.grpo"] = {
    **INTERVALS["phase.reinforce"],
    "samples": FROM_2,
    "ratio_low": SHARE,
    "ratio_high": NOT_NEGATIVE,
}
INTERVALS["phase.scheduled_sampling"] = {**EVERY_PHASE, "pace": ABOVE_0, "most": SHARE}
INTERVALS["phase.ocd"] = {**INTERVALS["phase.reinforce"], "tau": NOT_NEGATIVE, "weight": NOT_NEGATIVE}
LEARNED_CRITIC = {"critic_learning_rate": NOT_NEGATIVE, "critic_clip": ABOVE_0}
INTERVALS["phase.a2c"] = {
    **INTERVALS["phase.reinforce"],
    **LEARNED_CRITIC,
    "trace": SHARE,
    "steps": FROM_0,
    "critic_first": FROM_0,
}
INTERVALS["phase.sac"] = {
    **INTERVALS["phase.actor_critic"],
    "tau": ABOVE_0,
    "entropy_target": NOT_NEGATIVE,
    "tau_learning_rate": ABOVE_0,
}
INTERVALS["phase.pcl"] = {
    **INTERVALS["phase.reinforce"],
    "tau": ABOVE_0,
    "steps": FROM_0,
    "off_policy": FROM_0,
    "longest": FROM_1,
    "value_learning_rate": NOT_NEGATIVE,
}
GROWING = ("0 or more", ["0", "2"], ["-1"])  # 1 is refused too, by what goes together
INTERVALS["phase.bso"] = {**EVERY_PHASE, "width": FROM_2, "first_width": GROWING, "margin": NOT_NEGATIVE}
INTERVALS["phase.professor_forcing"] = {
    **INTERVALS["phase.reinforce"],
    "mle_weight": ABOVE_0,
    "weight": NOT_NEGATIVE,
    "enough": SHARE,
    "too_much": SHARE,
    "hidden": EVEN,
    "discriminator_learning_rate": NOT_NEGATIVE,
}
KINDS: dict[str, type] = {"": Recipe, "payoff": Payoff, "actor": LSTM, "critic": LSTM} | {
    f"phase.{k}": v for k, v in ALGORITHMS.items()
}


def test_every_number_has_a_range() -> None:
    for place, kind in KINDS.items():
        hints = get_type_hints(kind)
        numbers = {key for key, hint in hints.items() if {int, float} & {hint, *get_args(hint)}}
        assert numbers == INTERVALS[place].keys()


@pytest.mark.parametrize("place", INTERVALS)
def test_a_number_outside_its_range(place: str, tmp_path: Path) -> None:
    path = tmp_path / "all.toml"
    phases = "".join(phase_text(objective).split("\n\n")[1] for objective in ALGORITHMS)
    path.write_text(f'name = "all"\npayoff.metric = "edit"\n{phases}')
    table, number = place.removeprefix("phase."), [*ALGORITHMS].index(place[6:]) + 1 if "." in place else 0
    where = f"{path}: phase {number} ({table})" if number else ": ".join(filter(None, [str(path), place]))
    for key, (said, inside, outside) in INTERVALS[place].items():
        override = f"{place}.{key}".removeprefix(".")
        for value in inside:
            load(path, [f"{override}={value}"])
        for value in outside:
            shown = tomllib.loads(f"x = {value}")["x"]
            refused = complaint_of_load(path, f"{override}={value}")
            assert refused == f"{where}: {key} is {shown!r}, but it must be {said}."


def test_another_smoothing() -> None:
    said = complaint(phase_text("mle", top="[payoff]\nsmoothing = 'laplace'"))
    assert said == f"a.toml: payoff: smoothing is 'laplace', but it must be one of {', '.join(SMOOTHINGS)}."


@pytest.mark.parametrize("metric", ["bleu", "linear-bleu", "edit", "hamming", "rouge-l", "chrf", "cider"])
def test_only_bleu_has_a_brevity_penalty(metric: str) -> None:
    def text(unfinished: str) -> str:
        return phase_text("mle", top=f"[payoff]\nmetric = '{metric}'\nunfinished = '{unfinished}'")

    for unfinished in ("score", "nothing"):
        assert read(text(unfinished)).payoff.unfinished == unfinished
    if metric == "bleu":
        assert read(text("without_brevity")).payoff.unfinished == "without_brevity"
    else:
        assert complaint(text("without_brevity")) == (
            "a.toml: payoff: unfinished is 'without_brevity', but only bleu has a brevity penalty; "
            f"for {metric} it must be one of score, nothing."
        )


def test_only_a_critic_copies() -> None:
    assert read(phase_text("mle", top="[critic]\ncopy = 64\n")).critic.copy == 64
    said = complaint(phase_text("mle", top="[actor]\ncopy = 64\n"))
    assert said.endswith("actor: copy is 64, but only a critic reads the reference; leave it to [critic].")
    said = complaint(phase_text("mle", top="[actor]\ndueling = true\n"))
    assert said.endswith("actor: dueling is true, but only a critic gives values; leave it to [critic].")


@pytest.mark.parametrize("keys", ['metric = "bleu"', 'metric = "edit"\nunfinished = "nothing"', "scaled = false"])
def test_the_exact_q_is_that_of_the_plain_edit_distance(keys: str) -> None:
    top = f"[payoff]\n{keys}\n"
    assert "phase 1 (soft_q): exact is 4, but " in complaint(phase_text("soft_q", "exact = 4", top=top))
    read(phase_text("soft_q", top=top))
    read(phase_text("critic", "exact = 4", top=top))
    read(phase_text("soft_q", "exact = 4", top='[payoff]\nmetric = "edit"\n'))


@pytest.mark.parametrize(
    ("objective", "kind", "why"),
    [
        ("raml", "policy", "it has no Q to draw from; choose one of ngram, corrupt, exact."),
        ("raml", "mixed", "it has no Q to draw from; choose one of ngram, corrupt, exact."),
        (
            "vaml",
            "mixed",
            "its weights are those of one kind of proposal; choose one of ngram, corrupt, exact, policy.",
        ),
    ],
)
def test_proposals_that_a_phase_cannot_draw(objective: str, kind: str, why: str) -> None:
    said = complaint(phase_text(objective, f'proposal = "{kind}"'))
    assert said.endswith(f"phase 1 ({objective}): proposal is '{kind}', but {why}")


@pytest.mark.parametrize(("objective", "kind"), [("soft_q", "policy"), ("soft_q", "mixed"), ("vaml", "policy")])
def test_proposals_that_a_phase_can_draw(objective: str, kind: str) -> None:
    assert read(phase_text(objective, f'proposal = "{kind}"')).phase[0].proposal == kind


@pytest.mark.parametrize("kind", ["corrupt", "policy"])
def test_only_replaced_ngrams_have_likely_words(kind: str) -> None:
    said = complaint(phase_text("soft_q", f'proposal = "{kind}"', 'words = "likely"'))
    assert said.endswith(
        f"phase 1 (soft_q): words is 'likely', but a proposal of '{kind}' replaces no n-grams; choose ngram or leave "
        "`words` out."
    )
    assert read(phase_text("soft_q", 'proposal = "mixed"', 'words = "likely"')).phase[0].words == "likely"


def test_to_be_judged_by_the_exact_q_it_must_be_there() -> None:
    top = '[payoff]\nmetric = "edit"\n'
    read(phase_text("soft_q", 'judged_by = "exact"', "exact = 4", top=top))
    assert "judged_by is 'exact', but exact is 0" in complaint(phase_text("soft_q", 'judged_by = "exact"', top=top))


@pytest.mark.parametrize(
    "phases",
    [
        "",
        "phase = []",
        "phase = 3",
        "phase = [3]",
        "[phase]\nobjective = 'mle'",
        "phase = [{objective = 'mle', learning_rate = 0.1}, 3]",
    ],
)
def test_no_phase(phases: str) -> None:
    said = complaint(f'name = "x"\n{phases}')
    assert said == "a.toml: there is no [[phase]]; a recipe needs at least one."


def test_two_phases_of_the_same_name() -> None:
    twice = SHORT.replace('objective = "critic"', 'objective = "mle"')
    assert "two phases have the same name (mle, mle, joint)" in complaint(twice)
    assert "the same name (mle, critic, mle)" in complaint(SHORT.replace('"joint"', '"mle"'))
    assert len(read(twice.replace("learning_rate = 0.001", 'learning_rate = 0.001\nname = "continued"')).phase) == 3


# Files.


def test_a_missing_file(tmp_path: Path) -> None:
    assert complaint_of_load(tmp_path / "erac.toml").startswith(f"There is no recipe {tmp_path / 'erac.toml'};")


def test_recipes_that_come_along_are_found_by_their_names(short: Path) -> None:
    ours = RECIPES / "demo" / "mle.toml"
    assert {found(Path(name)) for name in ("demo/mle", "demo/mle.toml", "recipes/demo/mle.toml")} == {ours}
    assert found(short) == short
    for path in (Path("demo/../demo/mle"), Path("demo"), Path("recipes/demo"), short.with_suffix(""), Path("mle")):
        assert complaint_of_load(path) == f"There is no recipe {path}; `seqcredit recipes` lists the built-in ones."


def test_a_folder_is_no_recipe(tmp_path: Path) -> None:
    assert complaint_of_load(tmp_path).startswith(f"{tmp_path} cannot be read: ")


@pytest.mark.parametrize(
    "bytes_", [b"name = ", b'name = "a"\nname = "b"', 'name = "grün"'.encode("latin-1"), b"\xff\xfe"]
)
def test_a_file_that_is_not_toml(tmp_path: Path, bytes_: bytes) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(bytes_)
    assert complaint_of_load(path).startswith(f"{path} is not TOML: ")


def test_an_error_names_the_file(short: Path) -> None:
    short.write_text(SHORT + "tua = 0.1\n")
    assert complaint_of_load(short).startswith(f"{short}: phase 3 (actor_critic): there is no key 'tua'")


# Overrides.


def test_overrides(short: Path) -> None:
    recipe = load(short, ["seed=3", "phase.2.tau=0.02", "phase.critic.epochs=1", "phase.joint.samples = 4"])
    plain = load(short)
    mle, critic, joint = plain.phase
    assert isinstance(critic, Critic)
    assert isinstance(joint, ActorCritic)
    changed = (mle, replace(critic, tau=0.02, epochs=1), replace(joint, samples=4))
    assert recipe == replace(plain, seed=3, phase=changed)


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("data=corpora/de-en", "corpora/de-en"),
        ("data= a b ", "a b"),
        ('data="quoted"', "quoted"),
        ("data=x=y", "x=y"),
        ("data=", ""),
    ],
)
def test_text_needs_no_quotes(short: Path, override: str, value: str) -> None:
    assert load(short, [override]).data == value


def test_an_override_makes_the_table_that_it_needs(short: Path) -> None:
    recipe = load(short, ["critic.hidden=64", "payoff.scaled=false", "actor.attention=mlp"])
    assert recipe.critic == LSTM(hidden=64, attention="mlp", dropout=0.0)
    assert recipe.payoff == Payoff(scaled=False)
    assert recipe.actor == LSTM(attention="mlp")


def test_an_override_of_all_phases(short: Path) -> None:
    plain = load(short)
    changed = tuple(replace(phase, epochs=7) for phase in plain.phase)
    assert load(short, ["phase.*.epochs=7"]) == replace(plain, phase=changed)
    assert "there is no phase '*'" in complaint_of_load(short, "phase.*.tau.more=1")


def test_the_last_override_wins(short: Path) -> None:
    assert load(short, ["seed=3", "seed=4"]).seed == 4


def test_an_override_comes_before_fidelity(short: Path) -> None:
    recipe = load(short, ["fidelity=released", "phase.joint.decay=0.7"])
    assert (recipe.phase[2].decay, recipe.phase[2].beta1) == (0.7, 0.0)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("seed", "--set seed: write it as KEY=VALUE, such as phase.2.tau=0.02."),
        ("phase.4.tau=1", "--set phase.4.tau=1: there is no phase '4'; they are 1 to 3: mle, critic, joint."),
        ("phase.0.tau=1", "there is no phase '0'; they are 1 to 3: mle, critic, joint."),
        ("phase.².tau=1", "there is no phase '²'; they are 1 to 3: mle, critic, joint."),
        ("phase.actor_critic.tau=1", "there is no phase 'actor_critic'; they are 1 to 3: mle, critic, joint."),
        ("phase.2=1", "--set phase.2=1: name a key of the phase, such as phase.2.tau=0.02."),
        ("name.x=1", "--set name.x=1: 'name' is not a table."),
        ("sede=1", "short.toml: there is no key 'sede'; the nearest is 'seed'."),
        ("phase.2.tua=1", "short.toml: phase 2 (critic): there is no key 'tua'; the nearest is 'tau'."),
        ("actor.hiden=1", "short.toml: actor: there is no key 'hiden'; the nearest is 'hidden'."),
        ("seed=many", "short.toml: seed is 'many', but it must be a whole number."),
        ("phase.1.kappa=0.2", "short.toml: phase 1 (mle): there is no key 'kappa'"),
        ("=3", "short.toml: there is no key ''"),
    ],
)
def test_a_wrong_override(short: Path, override: str, said: str) -> None:
    assert said in complaint_of_load(short, override)


def test_an_override_of_a_phase_without_objective(short: Path) -> None:
    short.write_text('name = "x"\n[[phase]]\nlearning_rate = 1.0\n')
    assert "there is no phase 'joint'" in complaint_of_load(short, "phase.joint.tau=1")


# Fidelity: the points in which the paper and the released code differ, and what each of the three says.

ROWS: list[tuple[str, str, Any, Any, Any]] = [
    # objective, key, default, paper, released
    ("actor_critic", "entropy_form", "exact", "exact", "normalised"),
    ("critic", "smoothing_form", "sum", "sum", "mean"),
    ("actor_critic", "smoothing_form", "sum", "sum", "mean"),
    ("critic", "td_form", "squared", "squared", "half"),
    ("actor_critic", "td_form", "squared", "squared", "half"),
    ("critic", "bound_value", "eos", "eos", "free"),
    ("actor_critic", "bound_value", "eos", "eos", "free"),
    ("soft_q", "proposal", "ngram", "ngram", "corrupt"),
    ("soft_q", "samples", 5, 5, 6),
    ("soft_q", "corruption", 0.2, 0.2, 0.2),
    ("raml", "weight_scaled", False, True, False),
    ("vaml", "weight_scaled", False, True, False),
    ("raml", "weight_tau", None, None, 1.0),
    ("vaml", "weight_tau", None, None, 1.0),
    ("vaml", "kappa_draws", False, False, True),
    ("vaml", "proposal", "ngram", "ngram", "ngram"),
    ("mle", "decay", 0.5, 0.5, 0.5),
    ("raml", "decay", 0.5, 0.5, 0.5),
    ("vaml", "decay", 0.5, 0.5, 0.5),
    ("soft_q", "decay", 0.5, 0.5, 0.5),
    ("critic", "decay", 0.5, 0.5, 0.5),
    ("actor_critic", "decay", 0.5, 0.5, 0.9),
    ("mle", "decays", 6, 6, 6),
    ("raml", "decays", 6, 6, 6),
    ("vaml", "decays", 6, 6, 6),
    ("soft_q", "decays", 4, 4, 4),
    ("critic", "decays", 5, 5, 5),
    ("actor_critic", "decays", 6, 6, 6),
    ("critic", "beta1", 0.9, 0.9, 0.9),
    ("actor_critic", "beta1", 0.9, 0.9, 0.0),
    ("critic", "tau", 0.04, 0.04, 0.045),
    ("actor_critic", "tau", 0.04, 0.04, 0.045),
    ("raml", "tau", 0.4, 0.4, 0.4),
    ("soft_q", "tau", 0.4, 0.4, 0.4),
    ("vaml", "tau", 0.4, 0.4, 0.4),
    ("critic", "judged_by", "return_error", "return_error", "td"),
    ("actor_critic", "judged_by", "return_error", "return_error", "td"),
    ("critic", "samples", 2, 2, 2),
    ("actor_critic", "samples", 1, 1, 1),
    ("critic", "extra_length", 5, 5, 5),
    ("actor_critic", "extra_length", 10, 10, 10),
    ("actor_critic", "longest_sample", 50, 50, 50),
]


@pytest.mark.parametrize("fidelity", FIDELITIES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}.{row[1]}")
def test_fidelity_fills(row: tuple[str, str, Any, Any, Any], fidelity: str) -> None:
    objective, key, *values = row
    (phase,) = read(phase_text(objective, top=f'fidelity = "{fidelity}"')).phase
    assert getattr(phase, key) == values[FIDELITIES.index(fidelity)]


@pytest.mark.parametrize("objective", ["critic", "actor_critic"])
@pytest.mark.parametrize(("fidelity", "tau"), [("default", 0.04), ("paper", 0.05), ("released", 0.04)])
def test_tau_with_input_feeding(objective: str, fidelity: str, tau: float) -> None:
    """It is the actor's that counts."""

    def text(*lines: str, of: str = "actor", fed: str = "true") -> str:
        return phase_text(objective, *lines, top=f"fidelity = '{fidelity}'\n[{of}]\ninput_feeding = {fed}")

    plain = read(text(fed="false")).phase
    assert read(text()).phase == (replace(plain[0], tau=tau),)
    assert read(text(of="critic")).phase == plain
    assert read(text("tau = 0.0")).phase == (replace(plain[0], tau=0.0),)


def test_every_key_that_fidelity_fills_is_in_the_rows() -> None:
    tested = {(objective, key) for objective, key, *_ in ROWS}
    filled = {(o, k) for o, kind in ALGORITHMS.items() for fidelity in FIDELITIES for k in presets(kind, fidelity)}
    like = {"vaml_exact": "vaml", "sac": "actor_critic"}  # is filled as
    assert {(like.get(o, o), k) for o, k in filled} <= tested
    assert len(filled) > 15
    assert FIDELITIES == ("default", "paper", "released")


@pytest.mark.parametrize("fidelity", ["paper", "released"])
def test_a_key_in_the_recipe_wins_over_fidelity(fidelity: str) -> None:
    column = 2 + FIDELITIES.index(fidelity)
    other = 2 + FIDELITIES.index("released" if fidelity == "paper" else "paper")
    for row in ROWS:
        objective, key, value, wanted = row[0], row[1], row[column], row[other]
        if value != wanted and wanted is not None:
            (phase,) = read(
                phase_text(objective, f"{key} = {json.dumps(wanted)}", top=f'fidelity = "{fidelity}"')
            ).phase
            assert getattr(phase, key) == wanted


# What an older edition wrote.


def test_a_soft_q_that_was_judged_by_bleu_is_judged_by_the_metric() -> None:
    (phase,) = read(phase_text("soft_q", 'judged_by = "bleu"')).phase
    assert phase == read(phase_text("soft_q", 'judged_by = "metric"')).phase[0]
    assert "judged_by is 'bleu', but it must be one of return_error, td." in complaint(
        phase_text("critic", 'judged_by = "bleu"')
    )


def test_a_metric_is_one_of_ours_or_ones_own() -> None:
    for name in ("bleu", "chrf", "rouge-l", "cider", "edit", "wrong", "exact", "my_file:score"):
        assert read(phase_text("mle", top=f'metric = "{name}"')).metric == name
    said = complaint(phase_text("mle", top='metric = "blue"'))
    assert said.startswith("a.toml: metric is 'blue', but it must be one of bleu, chrf, ")
    assert said.endswith(", or FILE:FUNCTION of your own.")


# An algorithm of the user's own.

OWN = """
from dataclasses import dataclass
from seqcredit.algorithms import Mle
from seqcredit.options import SHARE, option

@dataclass(frozen=True)
class Softer(Mle):
    share: float = option(0.1, SHARE, released=0.2)

class NoPhase:
    pass
"""


def own(folder: Path, objective: str, *lines: str, top: str = "") -> Path:
    (folder / "own_recipe_file.py").write_text(OWN)
    path = folder / "own.toml"
    path.write_text(phase_text(objective, *lines, top=top))
    return path


def test_an_algorithm_beside_the_recipe_has_options_as_ours_have(tmp_path: Path) -> None:
    objective = "own_recipe_file:Softer"
    recipe = load(own(tmp_path, objective, "epochs = 3"))
    (phase,) = recipe.phase
    assert (type(phase).__name__, phase.name, phase.epochs, phase.share) == ("Softer", "Softer", 3, 0.1)
    (tmp_path / "resolved.toml").write_text(resolved(recipe))
    assert f'objective = "{objective}"' in resolved(recipe)
    assert load(tmp_path / "resolved.toml") == recipe
    assert load(own(tmp_path, objective, top='fidelity = "released"')).phase[0].share == 0.2
    assert load(tmp_path / "own.toml", ["phase.1.share=1"]).phase[0].share == 1.0
    where = f"{tmp_path / 'own.toml'}: phase 1 ({objective}): "
    assert complaint_of_load(tmp_path / "own.toml", "phase.1.share=2") == (
        f"{where}share is 2, but it must be from 0 to 1."
    )
    assert complaint_of_load(tmp_path / "own.toml", "phase.1.shaer=1") == (
        f"{where}there is no key 'shaer'; the nearest is 'share'."
    )


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        (
            "own_recipe_file:NoPhase",
            "own_recipe_file:NoPhase is no algorithm: make it a frozen dataclass, a subclass of ",
        ),
        (
            "own_recipe_file:option",
            "own_recipe_file:option is no algorithm: make it a frozen dataclass, a subclass of ",
        ),
        ("own_recipe_file:Absent", "has no 'Absent', which 'own_recipe_file:Absent' asks for."),
        ("absent_recipe_file:Softer", "There is no absent_recipe_file.py beside the recipe in "),
    ],
)
def test_what_is_no_algorithm(objective: str, said: str, tmp_path: Path) -> None:
    refused = complaint_of_load(own(tmp_path, objective))
    assert refused.startswith(f"{tmp_path / 'own.toml'}: phase 1: ")
    assert said in refused


# The whole recipe written out.


def everything() -> list[Mapping[str, Any]]:
    return [
        {
            "name": f"all of {fidelity}",
            "fidelity": fidelity,
            "payoff": {"metric": "edit"},
            "phase": [{"objective": objective, "learning_rate": 0.1} for objective in ALGORITHMS],
        }
        for fidelity in FIDELITIES
    ]


@pytest.mark.parametrize("table", everything(), ids=lambda table: table["fidelity"])
def test_resolved_loads_to_the_same_recipe(table: Mapping[str, Any], tmp_path: Path) -> None:
    recipe = parse(table, "a.toml")
    path = tmp_path / "resolved.toml"
    path.write_text(resolved(recipe), encoding="utf-8")
    assert load(path) == recipe


def test_resolved_says_everything() -> None:
    recipe = parse(everything()[2], "a.toml")
    table = tomllib.loads(resolved(recipe))
    assert table.keys() == Recipe.__dataclass_fields__.keys()
    assert table["critic"].keys() == LSTM.__dataclass_fields__.keys()
    for phase, said in zip(recipe.phase, table["phase"], strict=True):
        keys = {each.name for each in fields(phase)}
        assert said.keys() == {"objective", *keys} - {key for key in keys if getattr(phase, key) is None}
    # and so it does not depend on what fidelity fills
    assert parse({**table, "fidelity": "default"}, "a.toml") == replace(recipe, fidelity="default")


def test_resolved_names_the_kind_of_a_network() -> None:
    """That of the paper has none, as in runs of the first edition."""
    recipe = replace(read(SHORT), critic=Transformer(width=16))
    table = tomllib.loads(resolved(recipe))
    assert (table["critic"]["kind"], "kind" in table["actor"]) == ("transformer", False)
    assert parse(table, "a.toml") == recipe


@pytest.mark.parametrize("name", ['a "quoted" \\ name', "grün", "𝒬 is a letter", "two\nlines\tand a tab", "\x7f"])
def test_resolved_keeps_every_letter(name: str) -> None:
    recipe = replace(read(SHORT), name=name)
    assert read(resolved(recipe)) == recipe


@pytest.mark.parametrize("value", [1e-5, 1e-320, 1e22, 0.1 + 0.2, 5.0])
def test_resolved_keeps_every_digit(value: float) -> None:
    recipe = read(SHORT)
    changed = replace(recipe, phase=(replace(recipe.phase[0], clip=value), *recipe.phase[1:]))
    assert read(resolved(changed)) == changed


def test_a_recipe_may_stop_after_a_phase() -> None:
    table = {
        "name": "two",
        "phase": [{"objective": o, "learning_rate": 0.1} for o in ("mle", "critic", "actor_critic")],
    }
    whole = parse(table, "here")
    assert until(whole, "critic") == replace(whole, phase=whole.phase[:2])
    assert until(whole, "actor_critic") == whole
    with pytest.raises(
        UserError, match="two has no phase 'raml' to stop after; its phases are mle, critic, actor_critic"
    ):
        until(whole, "raml")
