"""Recipes: one TOML file defines one experiment, as frozen dataclasses.

`fidelity` fills the keys in which the paper and its authors' released code differ; a key in the recipe wins over it.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from seqcredit.algorithms import Phase, algorithm, objective_of, remembered, traits
from seqcredit.data.reading import read_toml
from seqcredit.errors import UserError, in_words, require
from seqcredit.models.build import LSTM, Networks
from seqcredit.named import GIVEN
from seqcredit.options import FIDELITIES, FROM_1, NOT_NEGATIVE, SEED, Fidelity, Options, build, option, presets
from seqcredit.rewards import metrics
from seqcredit.rewards.payoff import Payoff, one_or_own
from seqcredit.types import Json

RECIPES = Path(__file__).parent / "recipes"  # the built-in ones
METRICS = (*metrics.METRICS, metrics.REWARD)
# What the first edition wrote otherwise: objective, key, value -> value.
OLD_VALUES = {("soft_q", "judged_by", "bleu"): "metric"}


@dataclass(frozen=True)
class Recipe(Options):
    """One experiment."""

    name: str  # in tables and messages
    phase: tuple[Phase, ...]  # one [[phase]] each, in this order
    data: str = ""  # a prepared folder; the command line may give another
    fidelity: Fidelity = "default"  # fills the keys in which paper and released code differ; keys in the recipe win
    seed: int = option(1, SEED)  # seed of weights, batches and samples
    metric: str = option("bleu", one_or_own(METRICS))  # what runs are judged by, everywhere; or "my_file:function"
    payoff: Payoff = Payoff()  # what is optimised: [payoff]
    actor: Networks = LSTM()  # the network that writes: [actor]
    critic: Networks = LSTM(attention="mlp", dropout=0.0)  # the network that learns Q: [critic]
    beam: int = option(5, FROM_1)  # beam width of the final evaluation
    length_penalty: float = option(0.0, NOT_NEGATIVE)  # final evaluation: ranks by logp / length ** this
    validation_beam: int = option(1, FROM_1)  # beam width of validations; 1 is greedy search
    longest_output: int = option(100, FROM_1)  # maximum tokens of an output in the final evaluation
    on_divergence: Literal["rollback", "record"] = "rollback"  # halve the rate and go back, or stop and record it


def load(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """A recipe with overrides: `seed=3`, `phase.2.tau=0.02`, `phase.critic.epochs=1`, `phase.*.epochs=1`."""
    file = found(path)
    table = read_toml(file)
    for override in overrides:
        _override(table, override)
    return parse(table, str(path), file.parent)


def found(path: Path) -> Path:
    """A recipe's file: the path itself, or one that comes along, by its name, such as `iwslt14/erac`."""
    if path.exists():
        return path
    parts = path.with_suffix("").parts
    ours = RECIPES.joinpath(*parts[1 if parts[:1] == ("recipes",) else 0 :]).with_suffix(".toml")
    if path.is_absolute() or ".." in parts or not ours.is_file():
        raise UserError(f"There is no recipe {path}; `seqcredit recipes` lists the built-in ones.")
    return ours


def parse(table: Mapping[str, object], where: str, folder: Path | None = None) -> Recipe:
    """A recipe from its table; algorithms of the user's own are looked for in `folder` first."""
    fidelity = table.get("fidelity", "default")
    if fidelity not in FIDELITIES:
        raise UserError(f"{where}: fidelity is {fidelity!r}, but it must be one of {', '.join(FIDELITIES)}.")
    phases = table.get("phase")
    if not isinstance(phases, list) or not phases or not all(isinstance(phase, Mapping) for phase in phases):
        raise UserError(f"{where}: there is no [[phase]]; a recipe needs at least one.")
    recipe = build(Recipe, {**table, "phase": ()}, where)
    unfit = recipe.actor.unfit_actor()
    require(unfit is None, f"{where}: actor: {unfit}")
    places = [f"{where}: phase {number}" for number in range(1, len(phases) + 1)]
    built = [_phase(phase, recipe, place, folder) for phase, place in zip(phases, places, strict=True)]
    names = [phase.name for phase in built]
    if len(set(names)) < len(names):
        raise UserError(f"{where}: two phases have the same name ({', '.join(names)}); give each its own `name`.")
    for phase, place in zip(built, places, strict=True):
        problem = phase.check(recipe.payoff)
        if problem:
            raise UserError(f"{place} ({objective_of(phase)}): {problem}")
    return replace(recipe, phase=tuple(built))


def same(one: Recipe, other: Recipe) -> bool:
    """Whether two recipes ask for the same; an algorithm of the user's own may come from two copies of its file."""
    if replace(one, phase=()) != replace(other, phase=()) or len(one.phase) != len(other.phase):
        return False
    return all(map(same_phase, one.phase, other.phase))


def same_phase(one: Phase, other: Phase) -> bool:
    """The same of two phases."""
    return table_of(one) == table_of(other)


def until(recipe: Recipe, phase: str) -> Recipe:
    """The recipe up to and with a phase, for what several runs are to share."""
    names = [p.name for p in recipe.phase]
    require(phase in names, f"{recipe.name} has no phase {phase!r} to stop after; its phases are {', '.join(names)}.")
    return replace(recipe, phase=recipe.phase[: names.index(phase) + 1])


def _phase(table: Mapping[str, object], recipe: Recipe, where: str, folder: Path | None) -> Phase:
    objective = table.get("objective")
    rest = {key: OLD_VALUES.get((str(objective), key, str(value)), value) for key, value in table.items()}
    rest.pop("objective", None)
    if objective == GIVEN:
        kind, rest = remembered(rest, where)
    else:
        with in_words(UserError, lambda error: f"{where}: {error}"):
            kind = algorithm(objective, folder)
    defaults = {"name": _named(objective), **presets(kind, recipe.fidelity, recipe.actor.fed)}
    return build(kind, {**defaults, **rest}, f"{where} ({objective})")


def _named(objective: object) -> str:
    """What a phase is called that has no name: its algorithm, without the file of one of the user's own."""
    return str(objective).rpartition(":")[2]


def _override(table: Json, text: str) -> None:
    """Set one key of a nested table from `a.b.c=value`."""
    path, equals, literal = text.partition("=")
    require(equals, f"--set {text}: write it as KEY=VALUE, such as phase.2.tau=0.02.")
    *parents, last = path.strip().split(".")
    if parents == ["phase", "*"]:
        for number in range(1, len(table.get("phase", [])) + 1):
            _override(table, f"phase.{number}.{last}={literal}")
        return
    target: object = table
    for part in parents:
        target = _child(target, part, text)
    if not isinstance(target, dict):
        raise UserError(f"--set {text}: name a key of the phase, such as phase.2.tau=0.02.")
    try:
        target[last] = tomllib.loads(f"value = {literal}")["value"]
    except (ValueError, RecursionError, KeyError):
        target[last] = literal.strip()


def _child(table: object, part: str, text: str) -> object:
    if isinstance(table, list):
        names = [str(phase.get("name", _named(phase.get("objective")))) for phase in table if isinstance(phase, dict)]
        if part in names:
            return table[names.index(part)]
        if part.isdecimal() and 1 <= int(part) <= len(table):
            return table[int(part) - 1]
        raise UserError(f"--set {text}: there is no phase {part!r}; they are 1 to {len(table)}: {', '.join(names)}.")
    assert isinstance(table, dict)
    child: object = table.setdefault(part, {})
    if not isinstance(child, dict | list):
        raise UserError(f"--set {text}: {part!r} is not a table.")
    return child


def resolved(recipe: Recipe) -> str:
    """The whole recipe with every default filled in, as TOML that loads to the same recipe."""
    table = asdict(recipe)
    phases = [table_of(phase) for phase in recipe.phase]
    lines = [_line(key, value) for key, value in table.items() if not isinstance(value, dict | tuple)]
    for key, value in table.items():
        if isinstance(value, dict):
            kind: str = getattr(recipe, key).kind
            named = [_line("kind", kind)] if kind not in ("", LSTM.kind) else []
            lines += ["", f"[{key}]", *named, *(_line(k, v) for k, v in value.items())]
    for phase in phases:
        lines += ["", "[[phase]]", *(_line(k, v) for k, v in phase.items() if v is not None)]
    return "\n".join(lines) + "\n"


def table_of(phase: Phase) -> Json:
    """A phase as a recipe has it; of one that only Python knows, what its class says too."""
    objective = objective_of(phase)
    return {"objective": objective, **(traits(phase) if objective == GIVEN else {}), **asdict(phase)}


def _line(key: str, value: object) -> str:
    text = repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
    return f"{key} = {text}".replace("\x7f", "\\u007f")  # what TOML does not write as JSON does
