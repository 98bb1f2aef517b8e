"""Options as frozen dataclasses: every value is checked, in a recipe and in Python.

A key that does not exist or is missing is an error that names the nearest valid one; a value outside its range is an
error that says the range. An option may have presets, for the points in which the paper and its authors' code differ.
"""

import difflib
import re
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
from math import inf
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from seqcredit.errors import UserError, in_words

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Fidelity = Literal["default", "paper", "released"]
FIDELITIES: tuple[Fidelity, ...] = ("default", "paper", "released")
LARGEST = 2**31  # and more, whole numbers are not, but for seeds
KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
T = TypeVar("T")


class Range(NamedTuple):
    """The values that an option may have: in words, and as a test, which nan never passes."""

    said: str
    holds: Callable[[Any], bool]


ABOVE_0 = Range("above 0 and finite", lambda x: 0 < x < inf)
NOT_NEGATIVE = Range("0 or more, and finite", lambda x: 0 <= x < inf)
SHARE = Range("from 0 to 1", lambda x: 0 <= x <= 1)
BELOW_1 = Range("from 0 up to, but without, 1", lambda x: 0 <= x < 1)
UP_TO_1 = Range("above 0 and at most 1", lambda x: 0 < x <= 1)
FROM_0 = Range("0 or more", lambda x: x >= 0)
FROM_1 = Range("1 or more", lambda x: x >= 1)
FROM_2 = Range("2 or more", lambda x: x >= 2)
EVEN = Range("an even number from 2 on, because two directions share it", lambda x: x >= 2 and x % 2 == 0)
EPOCHS = Range("0 or more, and at most 1,000,000", lambda x: 0 <= x <= 1_000_000)
LAYERS = Range("1 or more, and at most 1,000", lambda x: 1 <= x <= 1_000)
SEED = Range("from 0 up to, but without, 2 ** 63", lambda x: 0 <= x < 2**63)


class Feeding(NamedTuple):
    """A preset that depends on input feeding."""

    without: float
    fed: float


def option(default: T, within: Range | None = None, paper: object = MISSING, released: object = MISSING) -> T:
    """A field of an option class: its default, its range, and what the paper and the released code have."""
    return field(default=default, metadata={"within": within, "paper": paper, "released": released})


def required(within: Range) -> Any:  # as `dataclasses.field` does, so that any annotation fits
    """A field that must be given, and its range."""
    return field(metadata={"within": within})


@dataclass(frozen=True)
class Options:
    """A class of options. A whole number may stand for a float."""

    kind = ""  # its name, where a key may have options of several classes

    def __post_init__(self) -> None:
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        for key, value in checked(type(self), given, type(self).__name__).items():
            object.__setattr__(self, key, value)


O = TypeVar("O", bound=Options)  # noqa: E741


def build(kind: type[O], table: Mapping[str, object], where: str) -> O:
    """Options from a table, every key checked."""
    known = {each.name: each for each in fields(kind)}
    table = {key: value for key, value in table.items() if (key, value) != ("kind", kind.kind)}
    check_keys(table, known, where)
    for name, each in known.items():
        if name not in table and each.default is MISSING and each.default_factory is MISSING:
            raise UserError(f"{where}: the key {name!r} is missing.")
    filled = {key: _filled(value, known[key]) for key, value in table.items()}
    # What does not go together is said of the place, not of the class.
    with in_words(UserError, lambda error: re.sub(rf"^{kind.__name__}: ", f"{where}: ", str(error))):
        return kind(**checked(kind, filled, where))


def checked(kind: type[Options], values: Mapping[str, object], where: str) -> dict[str, Any]:
    """Values of options, each of its kind and within its range."""
    hints, found = get_type_hints(kind), {}
    for each in fields(kind):
        if each.name in values:
            value = _value(values[each.name], hints[each.name], f"{where}: {each.name}")
            within: Range | None = each.metadata.get("within")
            if value is not None and within is not None and not within.holds(value):
                raise UserError(f"{where}: {each.name} is {values[each.name]!r}, but it must be {within.said}.")
            if type(value) is int and value >= LARGEST and within is not SEED:
                raise UserError(f"{where}: {each.name} is {value}, but whole numbers are below 2 ** 31.")
            found[each.name] = value
    return found


def presets(kind: type[Options], fidelity: Fidelity, fed: bool = False) -> dict[str, object]:
    """What a fidelity sets of a class of options; `fed` is whether there is input feeding."""
    values = {each.name: each.metadata.get(fidelity, MISSING) for each in fields(kind)}
    known = {name: value for name, value in values.items() if value is not MISSING}
    return {name: value[fed] if isinstance(value, Feeding) else value for name, value in known.items()}


def in_common(options: Options, kind: "type[DataclassInstance]") -> dict[str, Any]:
    """The values of options that another class has too."""
    known = {each.name for each in fields(kind)}
    return {each.name: getattr(options, each.name) for each in fields(options) if each.name in known}


def changed(options: O, values: Mapping[str, object]) -> O:
    """Options with other values of the keys that they have; other keys do not matter."""
    known = {each.name for each in fields(options)}
    return replace(options, **{key: value for key, value in values.items() if key in known})


def check_keys(table: Iterable[str], known: Iterable[str], where: str) -> None:
    """Every key of a table is known."""
    known = [*known]
    for key in table:
        if key not in known:
            raise UserError(f"{where}: there is no key {key!r}{nearest(key, known)}.")


def nearest(key: str, known: Iterable[str], there: str = "the keys are") -> str:
    """The end of a sentence about a key that does not exist: the one that was meant, or all there are."""
    known = [*known]
    near = difflib.get_close_matches(key, known, 1)
    return f"; the nearest is {near[0]!r}" if near else f"; {there} {', '.join(known)}"


def _filled(value: object, known: "Field[Any]") -> object:
    """A table over the default of its own key: the critic's attention is not the actor's."""
    default = known.default
    if not isinstance(default, Options) or not isinstance(value, Mapping):
        return value
    return {**asdict(default), **value} if value.get("kind", default.kind) == default.kind else value


def _of_a_kind(value: object, hint: Any, where: str) -> Any:
    """Of several classes of options, the one that a table names by its key `kind`; without it, the first."""
    classes = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else ()
    kinds = {each.kind: each for each in classes if issubclass(each, Options)}
    if not kinds:
        return hint
    if not isinstance(value, Mapping | Options):
        raise UserError(f"{where} must be a table, not {value!r}.")
    wanted = value.get("kind", next(iter(kinds))) if isinstance(value, Mapping) else getattr(value, "kind", None)
    if not isinstance(wanted, str) or wanted not in kinds:
        raise UserError(f"{where}: kind is {wanted!r}, but it must be one of {', '.join(kinds)}.")
    return kinds[wanted]


def _value(value: object, hint: Any, where: str) -> object:
    """A value checked against its annotation; an integer may stand for a float."""
    hint = _of_a_kind(value, hint, where)
    if isinstance(hint, type) and issubclass(hint, Options):
        if isinstance(value, hint):
            return value
        if not isinstance(value, Mapping):
            raise UserError(f"{where} must be a table, not {value!r}.")
        return build(hint, value, where)
    origin = get_origin(hint)
    if origin is Literal:
        if not isinstance(value, str) or value not in get_args(hint):
            raise UserError(f"{where} is {value!r}, but it must be one of {', '.join(map(str, get_args(hint)))}.")
        return value
    if origin in (Union, types.UnionType):
        return None if value is None else _value(value, get_args(hint)[0], where)
    if origin is tuple:
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not hint:
        raise UserError(f"{where} is {value!r}, but it must be {KINDS.get(hint, hint.__name__)}.")
    return value
