"""A small sweep, and what its cells leave on the disk."""

import json
import shutil
from pathlib import Path

from seqcredit.experiments.plan import Plan

TOP = 'data = "data"\nruns = "runs"\nresults = "results"\nseeds = [1]\n'
NETWORKS = "[actor]\nembedding = 12\nhidden = 12\n[critic]\nembedding = 12\nhidden = 12\n"
MLE = f"""
name = "tiny"
beam = 2
longest_output = 12
{NETWORKS}
[[phase]]
objective = "mle"
optimizer = "adam"
learning_rate = 0.02
batch_size = 20
epochs = 3
"""
ERAC = (
    MLE
    + """
[[phase]]
objective = "critic"
optimizer = "adam"
learning_rate = 0.01
batch_size = 20
epochs = 1
samples = 1
[[phase]]
objective = "actor_critic"
optimizer = "adam"
learning_rate = 0.001
batch_size = 20
epochs = 8
"""
)
CELLS = """
[[cell]]
name = "mle"
recipe = "mle.toml"
[[cell]]
name = "critic"
recipe = "erac.toml"
until = "critic"
init_from = "mle"
[[cell]]
name = "erac"
recipe = "erac.toml"
init_from = "critic-1"
against = ["mle-1"]
seeds = [1, 2]
"""


def setup(place: Path, data: Path | None = None) -> Path:
    place.mkdir(exist_ok=True)
    (place / "mle.toml").write_text(MLE)
    (place / "erac.toml").write_text(ERAC)
    (place / "sweep.toml").write_text(TOP + CELLS)
    if data:
        shutil.copytree(data, place / "data")
    return place


def weights(plan: Plan, name: str, result: bool = True) -> None:
    folder = plan.run(name)
    (folder / "weights").mkdir(parents=True)
    for phase in plan.cells[name].recipe.phase:
        (folder / "weights" / f"{phase.name}.safetensors").touch()
    if result:
        (folder / "result.json").write_text(json.dumps({"bleu": 12.345, "diverged": []}))


def record(plan: Plan, name: str, **more: object) -> None:
    plan.results.mkdir(exist_ok=True)
    plan.record(plan.cells[name]).write_text(json.dumps({"bleu": 12.345, "diverged": [], **more}))


def checkpoint(plan: Plan, name: str) -> None:
    (plan.run(name) / "checkpoints" / "00000001").mkdir(parents=True)
