"""Several processes that train a network are one: real ones, by torchrun and gloo, with copies and with shards."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

# Prints nothing: what a process finds is written to `found-RANK.pt`.
UPDATES = """
import sys
from dataclasses import replace
from pathlib import Path

import torch

from seqcredit.algorithms import ActorCritic, Critic, Mle, Outcome, Raml
from seqcredit.models import critic as judges
from seqcredit.models.lstm import Seq2Seq
from seqcredit.models.transformer import TransformerNetwork
from seqcredit.rewards import Bleu
from seqcredit.training.learner import Learner
from seqcredit.training.processes import Processes
from seqcredit.types import Batch, pad, pad_references

BATCHES = [
    Batch(
        pad([[2, 3], [4], [5, 6, 2], [3, 3, 4, 2], [6]]),
        pad_references([[[3, 2]], [[4]], [[2, 6, 5]], [[5, 5, 4, 3, 2]], [[6, 2]]]),
    ),
    Batch(pad([[3, 5], [6, 2, 2]]), pad_references([[[2, 2]], [[4, 5]]])),
    Batch(pad([[4, 5]]), pad_references([[[6, 2, 3]]])),  # fewer sentences than processes
]


class Selfish(ActorCritic):
    "Each loss depends on the weights of both networks."

    def loss(self, models, *given):
        losses, sums = super().loss(models, *given)
        weights = [weight for model in models[:2] for weight in model.parameters() if weight.requires_grad]
        both = sum(weight.square().sum() for weight in weights)
        return Outcome({name: loss + both * len(given[0].source) for name, loss in losses.items()}, sums)


class Picky(Mle):
    "One weight is used only for sources that begin with 2, of which some processes and some batches have none."

    def loss(self, models, batch, *given):
        losses, sums = super().loss(models, batch, *given)
        sources = batch.source[:, 0].tolist()
        picked = models.actor.extra.square().sum() * sources.count(2) if 2 in sources else 0
        return Outcome({"actor": losses["actor"] + picked}, sums)


def networks(kind):
    made = torch.Generator().manual_seed(0)
    sizes, actor = (8, 8), Seq2Seq
    if kind == "transformer":
        sizes, actor = (8, 1, 2), TransformerNetwork
    both = {"actor": actor(7, 7, *sizes, generator=made), "critic": judges.Critic(7, 8, 8, generator=made)}
    both = {name: network.double() for name, network in both.items()}
    both["actor"].extra = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    both["actor"].embedding.requires_grad_(kind != "frozen")
    return both


CASES = {
    "mle": (Mle("mle", 0.3), "lstm"),
    "raml": (Raml("raml", 0.3), "lstm"),
    "critic": (Critic("critic", 0.3), "lstm"),
    "erac": (ActorCritic("erac", 0.01, "adam", leash=0.1), "transformer"),
    "selfish": (Selfish("selfish", 0.01), "lstm"),
    "picky": (Picky("picky", 0.01, "sgd"), "lstm"),
    "frozen": (ActorCritic("frozen", 0.01, "adamw", weight_decay=0.1, critic_learning_rate=0.02), "frozen"),
}


def update(learner):
    for batch in BATCHES:
        watched = learner.update(batch)
    return {key: torch.tensor(pair, dtype=torch.float64) for key, pair in watched.items()}


found = {}
joined = Processes.join()
ways = {"alone": Processes(), "copies": joined, "shards": replace(joined, sharded=True)}
for name, (phase, kind) in CASES.items():
    also = [("copies", 1), ("shards", 1)] if name == "erac" else []
    for way, parts in [("alone", 1), ("copies", 2), ("shards", 2), *also]:
        phase = replace(phase, accumulate=parts, clip=1e9)
        learner = Learner(networks(kind), phase, Bleu(scaled=True), processes=ways[way])
        watched, held = update(learner), learner.held.items()
        found[name, way, parts] = watched, {
            each: {key: has.whole(weight) for key, weight in has.network.state_dict().items()} for each, has in held
        }
torch.save(found, Path(sys.argv[1]) / f"found-{joined.rank}.pt")
joined.leave()
"""


def run(script: str, folder: Path, processes: int) -> list[dict]:
    """What each of some processes finds."""
    folder.mkdir()
    (folder / "script.py").write_text(script)
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    start = [sys.executable, *(torchrun if processes > 1 else []), str(folder / "script.py"), str(folder)]
    done = subprocess.run(
        start, capture_output=True, text=True, check=False, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    return [torch.load(folder / f"found-{rank}.pt") for rank in range(processes)]


@pytest.mark.slow
def test_two_processes_are_one_with_copies_and_with_shards(tmp_path: Path) -> None:
    """Weights and all that is watched after three updates in float64."""
    for found in run(UPDATES, tmp_path / "two", 2):
        assert len(found) == 23
        for (name, way, parts), result in found.items():
            torch.testing.assert_close(
                result,
                found[name, "alone", 1],
                rtol=1e-7,
                atol=1e-11,
                msg=lambda text, case=(name, way, parts): f"{case}: {text}",
            )
