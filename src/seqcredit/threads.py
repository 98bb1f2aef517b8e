"""How many CPU threads a network uses."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

SMALL = 10**6  # weights
ASKED = "OMP_NUM_THREADS"  # where it is set, it holds


@contextmanager
def few_threads(networks: Iterable[nn.Module]) -> Iterator[None]:
    """One for small networks: a second gains nothing, and where other programs keep it waiting the first waits too."""
    weights = sum(weight.numel() for network in networks for weight in network.parameters())
    before = torch.get_num_threads()
    if weights < SMALL and ASKED not in os.environ:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def ask_threads(number: int) -> None:
    """So many, whatever the network is; other processes that this one starts do the same."""
    os.environ[ASKED] = str(number)
    torch.set_num_threads(number)
