"""Networks small and exact enough for every test, and their sentences."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import Tensor

from seqcredit.models.lstm import Seq2Seq
from seqcredit.models.memory import Memory
from seqcredit.models.policy import Dropout, Tensors
from seqcredit.types import Alphabet, pad

ACTIONS, WORDS = 6, 9
SOURCE = pad([[2, 3, 4, 5], [6], [], [7, 8, 2]])  # (4, 5)
TOKENS = pad([[3, 2], [5, 4, 3, 2], [2], []])  # (4, 5)
KINDS = [
    {"attention": attention, "input_feeding": feeding, "layers": layers}
    for attention in ("dot", "mlp")
    for feeding in (False, True)
    for layers in (1, 2)
]
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(str(value) for value in kind.values()))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def model(seed: int = 0, scale: float = 6.0, alphabet: Alphabet | int = ACTIONS, **kind: Any) -> Seq2Seq:
    """Small, exact, and with weights large enough for every part to matter."""
    net = Seq2Seq(WORDS, alphabet, embedding=3, hidden=4, generator=generator(seed), **kind).double()
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(scale)
    return net


def by_steps(net: Seq2Seq, memory: Memory, tokens: Tensor, dropout: Dropout | None = None) -> Tensor:
    """Features of a call of `step` for each token."""
    state, token, out = net.start(memory), None, []
    for t in range(tokens.shape[1]):
        scores, state = net.step(memory, state, token, None if dropout is None else dropout.kept[:, t])
        out.append(scores.features)
        token = tokens[:, t]
    return torch.stack(out, 1)


def parts(rows: Tensors) -> list[Tensor]:
    """The tensors of a memory or a state."""
    return [getattr(rows, field.name) for field in fields(rows)]


def assert_near(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


def differ(a: Tensor, b: Tensor) -> bool:
    return bool((a - b).abs().max() > 1e-4)


@contextmanager
def measured() -> Iterator[list[int]]:
    """Bytes that are kept for backward, each tensor once. What was seen is held, so that no place is used twice."""
    kept, seen = [0], dict[int, torch.UntypedStorage]()

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[0] += tensor.nbytes * (storage.data_ptr() not in seen)
        seen[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield kept
