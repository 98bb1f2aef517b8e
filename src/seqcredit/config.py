"""Recipes: one TOML file tells one experiment, as frozen dataclasses.

A key that does not exist, is missing or does not apply to its phase is an error that names the nearest valid one; a
value outside its range is an error that says the range.
`fidelity` fills the keys in which the paper and its authors' released code differ; a key in the recipe wins over it.
"""

import difflib
import json
import tomllib
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from math import inf
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from seqcredit.errors import UserError

RECIPES = Path(__file__).parent / "experiments" / "recipes"  # those that come along

Fidelity = Literal["default", "paper", "released"]


@dataclass(frozen=True)
class Payoff:
    """The pay-off R. Which keys count depends on `metric`."""

    metric: Literal["bleu", "linear-bleu", "edit", "hamming", "rouge-l", "chrf", "cider"] = "bleu"
    smoothing: Literal["add-one", "add-one-above-1", "floor", "exponential", "none"] = "add-one"  # bleu
    precision: float = 0.6  # linear-bleu: of unigrams, as the actor has it on validation data
    falling: float = 0.5  # linear-bleu: the precision of n-grams over that of (n-1)-grams
    length: float = 1.0  # linear-bleu: of all outputs over that of the references; below 1, words are worth more
    scaled: bool = True  # bleu: times the reference's length, for the token rewards
    unk_matches: bool = True
    brevity: Literal["closest", "mean"] = "closest"  # bleu: the length to reach; several references let it be short
    unfinished: Literal["score", "without_brevity", "nothing"] = "score"  # what a prefix without eos has
    references: Literal["all", "own"] = "all"  # "own": only the one that is learned from, as in the paper


@dataclass(frozen=True)
class Model:
    """A sequence-to-sequence network: the actor's, or the critic's that reads the reference."""

    embedding: int = 256
    hidden: int = 256
    layers: int = 1
    attention: Literal["dot", "mlp", "none"] = "dot"  # "none" for an actor that looks at pictures
    input_feeding: bool = False
    dropout: float = 0.3
    copy: int = 0  # critics: width of a word's code, by which attention adds to the Q of the reference's words; try 64


@dataclass(frozen=True)
class Phase:
    """What all phases have: optimizer, batches, and when the learning rate falls."""

    name: str
    learning_rate: float
    optimizer: Literal["sgd", "adam"] = "sgd"
    beta1: float = 0.9  # Adam's first decay rate
    batch_size: int = 50  # pairs; pictures, each with all of its captions
    clip: float = 5.0  # global gradient norm, of each network
    epochs: int = 30  # at the most
    updates: int = 0  # at the most; 0 is as many as the epochs have
    decay: float = 0.5  # factor of the learning rate when validation does not improve
    decays: int = 6  # then stop
    anneal: bool = False  # besides, the learning rate falls in a straight line, to 0 after the last epoch
    validate_every: int = 0  # updates, and after the last one; 0 is once an epoch
    fused: bool = True  # the fast path of the losses; the specification is slower and the same

    def lengths(self, batches: int) -> list[int]:
        """Updates of every epoch, the last one cut where `updates` ends it."""
        most = min(self.epochs * batches, self.updates or self.epochs * batches)
        return [min(batches, most - done) for done in range(0, most, batches)]


@dataclass(frozen=True)
class Mle(Phase):
    """Maximum likelihood."""


@dataclass(frozen=True)
class Proposing(Phase):
    """What phases that learn from sequences near the reference have."""

    tau: float = 0.4
    samples: int = 5  # M, the reference included
    proposal: Literal["ngram", "corrupt", "policy", "mixed"] = "ngram"  # "policy": from P_Q; "mixed": half and half
    longest: int = 4  # words of a replaced n-gram
    words: Literal["uniform", "likely"] = "uniform"  # in its place: any, or such as one would confuse with the right
    corruption: float = 0.2  # share of corrupted words
    bound: int = 51  # T: tokens of a sequence at the most, eos included


@dataclass(frozen=True)
class Raml(Proposing):
    """Reward augmented maximum likelihood."""

    weight_scaled: bool = False  # the pay-off of the importance weights: BLEU times length?
    weight_tau: float | None = None  # temperature of the importance weights; tau if not given


@dataclass(frozen=True)
class SoftQ(Proposing):
    """Soft Q-learning: the first phase of VAML."""

    look_ahead: Literal["gradient", "constant", "target"] = "gradient"  # V of the next state
    target_rate: float = 0.001  # speed of the target network, for look_ahead = "target"
    judged_by: Literal["bleu", "td", "exact"] = "bleu"  # of greedy P_Q, its residuals, or KL to the exact token targets
    steps: int = 1  # residuals in a row that are added before squaring; more than a sequence has reach its end
    exact_eos: float = 0.0  # weight of the squared error of Q(eos) at every prefix, where the truth is known
    exact: int = 0  # short validation sentences to compare Q with the exact Q* on, for the plain edit distance


@dataclass(frozen=True)
class Vaml(Raml):
    """Value augmented maximum likelihood: the second phase."""

    kappa: float = 0.2
    kappa_draws: bool = False  # draw the coin of each token instead of taking its expectation


@dataclass(frozen=True)
class Critic(Phase):
    """Policy evaluation of a fixed actor."""

    tau: float = 0.04
    target_rate: float = 0.001
    smoothing: float = 0.001
    smoothing_form: Literal["sum", "mean"] = "sum"  # chosen by validation: a mean of 0.001 lets the actor run wild
    td_form: Literal["squared", "half"] = "squared"
    future_entropy: bool = True
    bound_value: Literal["eos", "free"] = "eos"  # V at the length bound: Q(eos), or over all actions
    samples: int = 2  # sequences drawn for each sentence
    extra_length: int = 5  # a sample's bound, eos included: this much over the longest reference of the batch
    longest_sample: int = 50  # and at the most this
    judged_by: Literal["return_error", "td"] = "return_error"  # of a critic alone: against what really followed, or TD
    exact_eos: float = 0.0  # weight of the squared error of Q(eos) at every prefix, where the truth is known
    exact: int = 0  # short validation sentences to compare Q with rollouts of the actor on


@dataclass(frozen=True)
class ActorCritic(Critic):
    """Actor-Critic with tau = 0, ERAC with tau > 0."""

    samples: int = 1
    extra_length: int = 10
    mle_weight: float = 0.1
    keeps_start: bool = True  # it ends as it began if that validates best; comparisons with what does not say false
    entropy_form: Literal["exact", "normalised"] = "exact"
    critic_learning_rate: float | None = None  # learning_rate if not given; it never decays
    critic_clip: float | None = None  # clip if not given


PHASES: dict[str, type[Phase]] = {
    "mle": Mle,
    "raml": Raml,
    "soft_q": SoftQ,
    "vaml": Vaml,
    "critic": Critic,
    "actor_critic": ActorCritic,
}
OBJECTIVES = {kind: name for name, kind in PHASES.items()}

# The rows in which the paper and the released code differ. "default" is the paper, except where said.
TAU = {"paper": (0.04, 0.05), "released": (0.045, 0.04)}  # of critic and actor_critic: without, with input feeding
DECAYS = {"mle": 6, "raml": 6, "vaml": 6, "soft_q": 4, "critic": 5, "actor_critic": 6}
_PAPER: dict[str, dict[str, Any]] = {
    "raml": {"weight_scaled": True},
    "vaml": {"weight_scaled": True, "kappa_draws": False},
    "soft_q": {"proposal": "ngram"},
    "critic": {"smoothing_form": "sum", "td_form": "squared", "bound_value": "eos"},
    "actor_critic": {
        "smoothing_form": "sum",
        "td_form": "squared",
        "bound_value": "eos",
        "entropy_form": "exact",
    },
}
_RELEASED: dict[str, dict[str, Any]] = {
    "raml": {"weight_scaled": False, "weight_tau": 1.0},
    "vaml": {"weight_scaled": False, "weight_tau": 1.0, "kappa_draws": True},
    "soft_q": {"proposal": "corrupt", "samples": 6},
    "critic": {"smoothing_form": "mean", "td_form": "half", "bound_value": "free", "judged_by": "td"},
    "actor_critic": {
        "smoothing_form": "mean",
        "td_form": "half",
        "bound_value": "free",
        "entropy_form": "normalised",
        "beta1": 0.0,
        "decay": 0.9,
    },
}
FIDELITY: dict[str, dict[str, dict[str, Any]]] = {"default": {}, "paper": _PAPER, "released": _RELEASED}


@dataclass(frozen=True)
class Recipe:
    """One experiment."""

    name: str
    phase: tuple[Phase, ...]
    data: str = ""  # a prepared folder; the command line may give another
    fidelity: Fidelity = "default"
    seed: int = 1
    payoff: Payoff = Payoff()
    actor: Model = Model()
    critic: Model = Model(attention="mlp", dropout=0.0)
    beam: int = 5  # of the final evaluation
    validation_beam: int = 1
    longest_output: int = 100  # steps of the final evaluation
    on_divergence: Literal["rollback", "record"] = "rollback"


class Range(NamedTuple):
    """The numbers that a key may have: in words, and as a test, which nan never passes."""

    said: str
    holds: Callable[[Any], bool]


_ABOVE_0 = Range("above 0 and finite", lambda x: 0 < x < inf)
_NOT_NEGATIVE = Range("0 or more, and finite", lambda x: 0 <= x < inf)
_SHARE = Range("from 0 to 1", lambda x: 0 <= x <= 1)
_BELOW_1 = Range("from 0 up to, but without, 1", lambda x: 0 <= x < 1)
_UP_TO_1 = Range("above 0 and at most 1", lambda x: 0 < x <= 1)
_FROM_0 = Range("0 or more", lambda x: x >= 0)
_FROM_1 = Range("1 or more", lambda x: x >= 1)
_EVEN = Range("an even number from 2 on, because two directions share it", lambda x: x >= 2 and x % 2 == 0)
_SEED = Range("from 0 up to, but without, 2 ** 63", lambda x: 0 <= x < 2**63)

# Every number of a recipe; a phase has the rows of all its classes.
RANGES: dict[type, dict[str, Range]] = {
    Recipe: {"seed": _SEED, "beam": _FROM_1, "validation_beam": _FROM_1, "longest_output": _FROM_1},
    Payoff: {"precision": _UP_TO_1, "falling": _UP_TO_1, "length": _UP_TO_1},
    Model: {"embedding": _FROM_1, "hidden": _EVEN, "layers": _FROM_1, "dropout": _BELOW_1, "copy": _FROM_0},
    Phase: {
        "learning_rate": _ABOVE_0,
        "beta1": _BELOW_1,
        "batch_size": _FROM_1,
        "clip": _ABOVE_0,
        "epochs": _FROM_0,
        "updates": _FROM_0,
        "decay": _UP_TO_1,
        "decays": _FROM_0,
        "validate_every": _FROM_0,
    },
    Proposing: {"tau": _ABOVE_0, "samples": _FROM_1, "longest": _FROM_1, "corruption": _SHARE, "bound": _FROM_1},
    Raml: {"weight_tau": _ABOVE_0},
    SoftQ: {"target_rate": _UP_TO_1, "steps": _FROM_1, "exact_eos": _NOT_NEGATIVE, "exact": _FROM_0},
    Vaml: {"kappa": _SHARE},
    Critic: {
        "tau": _NOT_NEGATIVE,
        "target_rate": _UP_TO_1,
        "smoothing": _NOT_NEGATIVE,
        "samples": _FROM_1,
        "extra_length": _FROM_0,
        "longest_sample": _FROM_1,
        "exact_eos": _NOT_NEGATIVE,
        "exact": _FROM_0,
    },
    ActorCritic: {"mle_weight": _NOT_NEGATIVE, "critic_learning_rate": _NOT_NEGATIVE, "critic_clip": _ABOVE_0},
}


def load(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """A recipe with overrides: `seed=3`, `phase.2.tau=0.02`, `phase.critic.epochs=1`, `phase.*.epochs=1`."""
    table = read_toml(found(path))
    for override in overrides:
        _override(table, override)
    return parse(table, str(path))


def found(path: Path) -> Path:
    """A recipe's file: the path itself, or one that comes along, by its name, such as `iwslt14/erac`."""
    if path.exists():
        return path
    parts = path.with_suffix("").parts
    ours = RECIPES.joinpath(*parts[1 if parts[:1] == ("recipes",) else 0 :]).with_suffix(".toml")
    if path.is_absolute() or ".." in parts or not ours.is_file():
        raise UserError(f"There is no recipe {path}; `seqcredit recipes` lists those that come along.")
    return ours


def parse(table: Mapping[str, Any], where: str) -> Recipe:
    """A recipe from its table."""
    fidelity = table.get("fidelity", "default")
    if fidelity not in [*FIDELITY]:
        raise UserError(f"{where}: fidelity is {fidelity!r}, but it must be one of {', '.join(FIDELITY)}.")
    phases = table.get("phase")
    if not isinstance(phases, list) or not phases or not all(isinstance(phase, Mapping) for phase in phases):
        raise UserError(f"{where}: there is no [[phase]]; a recipe needs at least one.")
    recipe: Recipe = _build(Recipe, {**table, "phase": ()}, where)
    _check_unfinished(recipe.payoff, where)
    if recipe.actor.copy:
        raise UserError(
            f"{where}: actor: copy is {recipe.actor.copy}, but only a critic reads the reference; leave it to [critic]."
        )
    fed = recipe.actor.input_feeding
    built = tuple(_phase(phase, fidelity, fed, f"{where}: phase {i}") for i, phase in enumerate(phases, 1))
    names = [phase.name for phase in built]
    if len(set(names)) < len(names):
        raise UserError(f"{where}: two phases have the same name ({', '.join(names)}); give each its own `name`.")
    for number, phase in enumerate(built, 1):
        place = f"{where}: phase {number} ({OBJECTIVES[type(phase)]})"
        _check_exact(phase, recipe.payoff, place)
        _check_proposal(phase, place)
    return replace(recipe, phase=built)


def until(recipe: Recipe, phase: str) -> Recipe:
    """The recipe up to and with a phase, for what several runs are to share."""
    names = [p.name for p in recipe.phase]
    if phase not in names:
        raise UserError(f"{recipe.name} has no phase {phase!r} to stop after; its phases are {', '.join(names)}.")
    return replace(recipe, phase=recipe.phase[: names.index(phase) + 1])


def _check_unfinished(payoff: Payoff, where: str) -> None:
    if payoff.unfinished == "without_brevity" and payoff.metric != "bleu":
        raise UserError(
            f"{where}: payoff: unfinished is 'without_brevity', but only bleu has a brevity penalty; "
            f"for {payoff.metric} it must be one of score, nothing."
        )


def plain_edit(payoff: Payoff) -> bool:
    """Whether the pay-off is the one whose exact Q is known at a real vocabulary."""
    return (payoff.metric, payoff.unfinished, payoff.scaled) == ("edit", "score", True)


def _check_proposal(phase: Phase, where: str) -> None:
    if not isinstance(phase, Proposing):
        return
    drawn = {SoftQ: ("policy", "mixed"), Vaml: ("policy",)}.get(type(phase), ())
    if phase.proposal in ("policy", "mixed") and phase.proposal not in drawn:
        without = "it has no Q to draw from" if type(phase) is Raml else "its weights are those of one kind of proposal"
        allowed = ", ".join(("ngram", "corrupt", *drawn))
        raise UserError(f"{where}: proposal is {phase.proposal!r}, but {without}; choose one of {allowed}.")
    if phase.words == "likely" and phase.proposal in ("corrupt", "policy"):
        raise UserError(
            f"{where}: words is 'likely', but a proposal of {phase.proposal!r} replaces no n-grams; choose ngram or "
            "leave `words` out."
        )


def _check_exact(phase: Phase, payoff: Payoff, where: str) -> None:
    if isinstance(phase, SoftQ) and phase.judged_by == "exact" and not phase.exact:
        raise UserError(f"{where}: judged_by is 'exact', but exact is 0; give it a number of sentences, such as 24.")
    if isinstance(phase, SoftQ) and phase.exact and not plain_edit(payoff):
        raise UserError(
            f"{where}: exact is {phase.exact}, but the exact Q is known for the plain edit distance alone; set metric "
            'to "edit", unfinished to "score" and scaled to true in [payoff], or exact to 0.'
        )


def _phase(table: Mapping[str, Any], fidelity: str, fed: bool, where: str) -> Phase:
    objective = table.get("objective")
    if objective not in [*PHASES]:
        raise UserError(f"{where}: objective is {objective!r}, but it must be one of {', '.join(PHASES)}.")
    rest = {key: value for key, value in table.items() if key != "objective"}
    kind = PHASES[objective]
    tau = {"tau": TAU[fidelity][fed]} if fidelity in TAU and issubclass(kind, Critic) else {}
    defaults = {"name": objective, "decays": DECAYS[objective], **FIDELITY[fidelity].get(objective, {}), **tau}
    return _build(kind, {**defaults, **rest}, f"{where} ({objective})")


def _build(kind: Any, table: Mapping[str, Any], where: str) -> Any:
    """A dataclass from a table, every key checked."""
    hints, known = get_type_hints(kind), {field.name: field for field in fields(kind)}
    check_keys(table, known, where)
    for name, field in known.items():
        if name not in table and field.default is MISSING and field.default_factory is MISSING:
            raise UserError(f"{where}: the key {name!r} is missing.")
    filled = {key: _filled(value, known[key].default) for key, value in table.items()}
    values = {key: _value(value, hints[key], f"{where}: {key}") for key, value in filled.items()}
    for key, allowed in _ranges(kind).items():
        if values.get(key) is not None and not allowed.holds(values[key]):
            raise UserError(f"{where}: {key} is {filled[key]!r}, but it must be {allowed.said}.")
    return kind(**values)


def _ranges(kind: type) -> dict[str, Range]:
    """The rows of a class and of those that it comes from; its own win."""
    return {key: allowed for base in reversed(kind.__mro__) for key, allowed in RANGES.get(base, {}).items()}


def _filled(value: Any, default: Any) -> Any:
    """A table over the default of its own key: the critic's attention is not the actor's."""
    return {**asdict(default), **value} if isinstance(default, Payoff | Model) and isinstance(value, Mapping) else value


def _value(value: Any, hint: Any, where: str) -> Any:
    """A value checked against its annotation; an integer may stand for a float."""
    if isinstance(hint, type) and hasattr(hint, "__dataclass_fields__"):
        if isinstance(value, hint):
            return value
        if not isinstance(value, Mapping):
            raise UserError(f"{where} must be a table, not {value!r}.")
        return _build(hint, value, where)
    origin = get_origin(hint)
    if origin is Literal:
        if value not in get_args(hint):
            raise UserError(f"{where} is {value!r}, but it must be one of {', '.join(map(str, get_args(hint)))}.")
        return value
    if origin in (Union, types.UnionType):
        return None if value is None else _value(value, get_args(hint)[0], where)
    if origin is tuple:
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not hint:
        raise UserError(f"{where} is {value!r}, but it must be {_article(hint.__name__)}.")
    return value


def _override(table: dict[str, Any], text: str) -> None:
    """Set one key of a nested table from `a.b.c=value`."""
    path, equals, literal = text.partition("=")
    if not equals:
        raise UserError(f"--set {text}: write it as KEY=VALUE, such as phase.2.tau=0.02.")
    *parents, last = path.strip().split(".")
    if parents[:2] == ["phase", "*"]:
        for number in range(1, len(table.get("phase", [])) + 1):
            _override(table, f"phase.{number}.{'.'.join([*parents[2:], last])}={literal}")
        return
    target: Any = table
    for part in parents:
        target = _child(target, part, text)
    if not isinstance(target, dict):
        raise UserError(f"--set {text}: name a key of the phase, such as phase.2.tau=0.02.")
    try:
        target[last] = tomllib.loads(f"value = {literal}")["value"]
    except tomllib.TOMLDecodeError:
        target[last] = literal.strip()


def _child(table: Any, part: str, text: str) -> Any:
    if isinstance(table, list):
        names = [str(phase.get("name", phase.get("objective"))) for phase in table if isinstance(phase, dict)]
        if part in names:
            return table[names.index(part)]
        if part.isdecimal() and 1 <= int(part) <= len(table):
            return table[int(part) - 1]
        raise UserError(f"--set {text}: there is no phase {part!r}; they are 1 to {len(table)}: {', '.join(names)}.")
    child = table.setdefault(part, {})
    if not isinstance(child, dict | list):
        raise UserError(f"--set {text}: {part!r} is not a table.")
    return child


def resolved(recipe: Recipe) -> str:
    """The whole recipe with every default filled in, as TOML that loads to the same recipe."""
    table = asdict(recipe)
    phases = [{"objective": OBJECTIVES[type(phase)], **asdict(phase)} for phase in recipe.phase]
    lines = [_line(key, value) for key, value in table.items() if not isinstance(value, dict | tuple)]
    for key, value in table.items():
        if isinstance(value, dict):
            lines += ["", f"[{key}]", *(_line(k, v) for k, v in value.items())]
    for phase in phases:
        lines += ["", "[[phase]]", *(_line(k, v) for k, v in phase.items() if v is not None)]
    return "\n".join(lines) + "\n"


def _line(key: str, value: Any) -> str:
    text = repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
    return f"{key} = {text}".replace("\x7f", "\\u007f")  # what TOML does not write as JSON does


def check_keys(table: Iterable[str], known: Iterable[str], where: str) -> None:
    """Every key of a table is known."""
    known = [*known]
    for key in table:
        if key not in known:
            raise UserError(f"{where}: there is no key {key!r}{nearest(key, known)}.")


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not TOML: {error}.") from None


def nearest(key: str, known: Iterable[str]) -> str:
    """The end of a sentence about a key that does not exist: the one that was meant, or all there are."""
    known = [*known]
    near = difflib.get_close_matches(key, known, 1)
    return f"; the nearest is {near[0]!r}" if near else f"; the keys are {', '.join(known)}"


def _article(name: str) -> str:
    words = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false"}
    return words.get(name, name)
