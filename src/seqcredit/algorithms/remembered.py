"""An algorithm that was given in Python and has no file: what its run folder remembers.

Its options, and what others ask of its class. So the run can be opened, evaluated and compared, but not trained.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, make_dataclass

from seqcredit.algorithms.phase import Models, Outcome, Phase, Progress
from seqcredit.draws import Noise
from seqcredit.errors import UserError, require
from seqcredit.types import Batch, Reward

NETWORKS, FLAGS = ("trains", "needs"), ("raw", "soft")  # of its class


@dataclass(frozen=True)
class Remembered(Phase):
    """A phase of which all is known but its loss."""

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        """Only Python knows it."""
        raise _unknown(self)


def traits(phase: Phase) -> dict[str, object]:
    """What a recipe remembers of a phase's class."""
    return {key: getattr(phase, key) for key in (*NETWORKS, *FLAGS)}


def remembered(table: Mapping[str, object], where: str) -> tuple[type[Phase], dict[str, object]]:
    """The class of a phase, from its table in a recipe, and the keys that are its options."""
    own, known = dict(table), {}
    for key in NETWORKS:
        names = own.pop(key, list(getattr(Phase, key)))
        fits = isinstance(names, list) and all(isinstance(name, str) for name in names)
        require(fits, f"{where}: {key} is {names!r}, but it must be a list of networks.")
        known[key] = tuple(names) if isinstance(names, list) else ()
    flags = {key: own.pop(key, False) for key in FLAGS}
    for key in own:
        require(key.isidentifier(), f"{where}: the key {key!r} is no name of an option.")
    ours = Phase.__dataclass_fields__
    options = [(key, type(value)) for key, value in own.items() if key not in ours]
    space = {**known, **{key: value is True for key, value in flags.items()}}
    return make_dataclass("Remembered", options, bases=(Remembered,), namespace=space, frozen=True, kw_only=True), own


def must_be_known(phases: Iterable[Phase]) -> None:
    """Stop where a phase is only remembered."""
    for phase in phases:
        if isinstance(phase, Remembered):
            raise _unknown(phase)


def _unknown(phase: Phase) -> UserError:
    return UserError(
        f"The algorithm of the phase {phase.name} was given in Python, and only Python knows it: put the class into a "
        "file of its own and name it FILE:CLASS, or go on in Python."
    )
