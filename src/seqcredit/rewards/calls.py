"""Calls of a user's function: its arguments, its answer, and the process that it runs in."""

import math
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from numbers import Real
from types import ModuleType
from typing import Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqcredit.errors import UserError, in_words
from seqcredit.named import FAILS, said, shown
from seqcredit.rewards.prefixes import is_word, present, real_dtype

CHUNKS = 4  # of calls for each process: one that is done early finds more to do
K = TypeVar("K", bound=Hashable)
Arguments = tuple[object, ...]  # of one call
Ids = tuple[int, ...]

_pools: dict[tuple[bytes, int], ProcessPoolExecutor] = {}  # by what they run and size; Python closes them at its exit


@dataclass(frozen=True)
class Calls:
    """A function of the user's, called here or in processes of its own; every answer is checked."""

    function: Callable[..., object]
    name: str  # for what is said of it
    batched: bool = False  # it takes lists and returns as many floats
    processes: int = 0  # 0: here

    def answers(self, given: Sequence[Arguments]) -> list[float]:
        """A finite float for each call."""
        if not self.processes or not given:
            return self._here(given)
        size = math.ceil(len(given) / (CHUNKS * self.processes))
        return self._elsewhere([given[start : start + size] for start in range(0, len(given), size)])

    @torch.no_grad()
    def _here(self, given: Sequence[Arguments]) -> list[float]:
        if self.batched:
            values = self._call(*map(list, zip(*given, strict=True))) if given else []
            if not isinstance(values, list) or len(values) != len(given):
                got = f"{len(values)} scores" if isinstance(values, list) else f"a {type(values).__name__}"
                wanted = f"{len(given)} prefixes, return one float for each"
                raise UserError(f"{self.name}: the function returned {got} for {wanted}.")
        else:
            values = [self._call(*arguments) for arguments in given]
        return [self._finite(value, prefix) for value, (prefix, *_) in zip(values, given, strict=True)]

    def _call(self, *arguments: object) -> object:
        """The function's answer as plain floats or lists; its errors are shown as what they are."""
        try:  # for every prefix: no context here
            value = self.function(*arguments)
        except FAILS as error:  # whatever the user's function does
            raise UserError(f"{self.name}: the function failed. {said(error)}.") from error
        if isinstance(value, Tensor | np.ndarray | np.generic):
            return value.tolist()
        return list(value) if isinstance(value, tuple) else value

    def _finite(self, value: object, prefix: object) -> float:
        found = finite(value)
        if found is None:
            got = f"the function returned {shown(value)} for the prefix {prefix}"
            advice = ", and set batched for a function of lists" if isinstance(value, list) else ""
            raise UserError(f"{self.name}: {got}, return a finite float{advice}.")
        return found

    def _elsewhere(self, chunks: Sequence[Sequence[Arguments]]) -> list[float]:
        """Answers from processes, which have begun by the second time."""
        packed = self._packed()
        mine = packed, self.processes
        if mine not in _pools:
            _pools[mine] = ProcessPoolExecutor(self.processes, get_context("spawn"))
        try:
            with _hidden_script():  # processes begin as they are needed
                found = [_pools[mine].submit(_answers, packed, chunk) for chunk in chunks]
            return [value for each in found for value in each.result()]
        except BrokenProcessPool as error:
            del _pools[mine]
            stopped = "a process stopped before it answered, perhaps for want of memory"
            raise UserError(f"{self.name}: {stopped}; lower processes, which is {self.processes}.") from error

    def _packed(self) -> bytes:
        """All that a process needs to call the function, which it finds by its name."""
        advice = "put it into a file of its own, and import it from there"
        unfit = f"{self.name}: processes is {self.processes}, but other processes cannot import the function: {advice}."
        with in_words(Exception, unfit):  # whatever pickling it raises
            packed = pickle.dumps(replace(self, processes=0))
        if b"__main__" in packed:
            raise UserError(unfit)
        return packed


def finite(value: object) -> float | None:
    """A number of the user's as a float; None if it is none, or not finite."""
    with suppress(OverflowError):  # of a whole number that no float can hold
        return float(value) if isinstance(value, Real) and math.isfinite(value) else None
    return None


@contextmanager
def _hidden_script() -> Iterator[None]:
    """Processes that begin here do not run the user's script again: all that they call is imported by its name."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _answers(packed: bytes, given: Sequence[Arguments]) -> list[float]:
    return _unpacked(packed).answers(given)


@cache
def _unpacked(packed: bytes) -> Calls:
    with in_words(FAILS, lambda error: f"Another process cannot import a reward's function. {said(error)}."):
        made = pickle.loads(packed)
    assert isinstance(made, Calls)
    return made


def sequences(tokens: Int[Tensor, "N T"]) -> list[Ids]:
    """The ids before the first eos."""
    sizes = is_word(tokens).sum(-1).tolist()
    return [tuple(row[:size]) for row, size in zip(tokens.tolist(), sizes, strict=True)]


def beginnings(ids: Ids) -> list[Ids]:
    """The first 0, 1, ... ids."""
    return [ids[:end] for end in range(len(ids) + 1)]


def groups(references: Int[Tensor, "B R L"]) -> list[tuple[Ids, ...]]:
    """The references that each sentence has."""
    sizes, there = is_word(references).sum(-1).tolist(), present(references).tolist()
    return [
        tuple(tuple(row[:size]) for row, size, kept in zip(*sentence, strict=True) if kept)
        for sentence in zip(references.tolist(), sizes, there, strict=True)
    ]


def table(
    rows: Sequence[Sequence[K]],
    ask: Callable[[list[K]], list[float]],
    width: int,
    dtype: torch.dtype | None,
    device: torch.device,
) -> Float[Tensor, "B P"]:
    """Scores of rows of things, each thing asked about once; a short row repeats its last score."""
    things = list(dict.fromkeys(thing for row in rows for thing in row))
    found = dict(zip(things, ask(things), strict=True))
    values = [[found[thing] for thing in row] + [found[row[-1]]] * (width - len(row)) for row in rows]
    return torch.tensor(values, dtype=real_dtype(dtype), device=device).view(-1, width)


class Memory(Generic[K]):
    """Answers that were given before, as many as fit; the one that nobody asked for longest is forgotten."""

    def __init__(self, size: int) -> None:
        self._size, self._known = size, OrderedDict[K, float]()

    def answers(self, things: list[K], ask: Callable[[list[K]], list[float]]) -> list[float]:
        """Answers about different things; what is not known is asked for."""
        new = [thing for thing in things if thing not in self._known]
        fresh = dict(zip(new, ask(new), strict=True))
        found = [fresh[thing] if thing in fresh else self._known[thing] for thing in things]
        for thing, answer in zip(things, found, strict=True):
            self._known[thing] = answer
            self._known.move_to_end(thing)
        while len(self._known) > self._size:
            self._known.popitem(last=False)
        return found
