import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from seqcredit import threads
from seqcredit.threads import ask_threads, few_threads

LARGE = nn.Linear(1_000, 1_000)


def threads_of(*networks: nn.Module) -> int:
    with few_threads(networks):
        return torch.get_num_threads()


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has asked for a number, and torch would take three."""
    monkeypatch.delenv(threads.ASKED, raising=False)
    torch.set_num_threads(3)


@pytest.mark.usefixtures("three")
def test_small_networks_have_one_and_others_what_torch_takes() -> None:
    assert threads_of(nn.Linear(100, 100)) == 1
    assert threads_of(LARGE) == 3
    assert threads_of(nn.Linear(999, 500), nn.Linear(999, 500)) == 3  # a million together, with their biases
    assert threads_of(nn.Linear(999, 500), nn.Linear(998, 500)) == 1
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three")
def test_what_was_asked_for_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(threads.ASKED, "3")
    assert threads_of(nn.Linear(100, 100)) == 3
    ask_threads(2)
    assert threads_of(nn.Linear(100, 100)) == threads_of(LARGE) == 2


@pytest.mark.usefixtures("three")
def test_after_an_error_they_are_as_before() -> None:
    with pytest.raises(KeyError), few_threads([nn.Linear(2, 2)]):
        raise KeyError
    assert torch.get_num_threads() == 3


SCRIPT = """
import os
os.environ.pop("OMP_NUM_THREADS", None)
import torch
torch.set_num_threads(2)
from seqcredit.training import trainer
from seqcredit.results import evaluate
seen = []
for module, name in ((trainer.Trainer, "_train"), (evaluate, "translate")):
    def spy(*given, known=getattr(module, name)):
        seen.append(torch.get_num_threads())
        return known(*given)
    setattr(module, name, spy)
import seqcredit as sc
sc.train(sc.LSTM(hidden=8, embedding=8), [("a b", "b a")] * 40, algorithm=sc.MLE(epochs=1), say=None).translate(["a"])
print(set(seen), torch.get_num_threads())
"""


def test_training_and_search_of_a_small_network_take_one(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("{1} 2\n", 0), done.stderr
