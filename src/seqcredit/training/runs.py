"""The run folder: what was asked for, what happened, and what came out.

recipe.toml      as given            resolved.toml   with every default
run.json         command, seed, commit, data, versions
log.jsonl        everything measured, an object a line
checkpoints/     to resume from      weights/        the best of each finished phase
result.json      the run's figures   hypotheses/     what they are of, in words
evaluations/     figures and hypotheses of other splits, phases and ways to search
"""

import json
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from seqcredit import __version__, config
from seqcredit.errors import UserError

INITIAL = "initial"  # weights to begin with, where a run starts from another one's


@dataclass(frozen=True)
class Run:
    """A run folder and its recipe."""

    folder: Path
    recipe: config.Recipe
    about: dict[str, Any]

    @classmethod
    def create(
        cls, folder: Path, recipe_text: str, recipe: config.Recipe, data: Path, vocabularies: Mapping[str, str]
    ) -> "Run":
        """A new run folder; an existing one is never written over."""
        if folder.exists() and any(folder.iterdir()):
            raise UserError(f"{folder} is there already; resume it with `seqcredit resume {folder}`, or choose --out.")
        about = {
            "seqcredit": __version__,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
            "commit": commit(),
            "seed": recipe.seed,
            "command": shlex.join(["seqcredit", *sys.argv[1:]]),
            "data": str(data.resolve()),
            "vocabularies": dict(vocabularies),
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "recipe.toml").write_text(recipe_text, encoding="utf-8")
            (folder / "resolved.toml").write_text(config.resolved(recipe), encoding="utf-8")
            (folder / "run.json").write_text(json.dumps(about, indent=1) + "\n")
        except OSError as error:
            raise UserError(f"The run folder {folder} cannot be written ({error.strerror}); choose --out.") from None
        return cls(folder, recipe, about)

    @classmethod
    def open(cls, folder: Path) -> "Run":
        """A run that exists."""
        try:
            about = json.loads((folder / "run.json").read_text())
        except (OSError, ValueError):
            raise UserError(f"{folder} is not a run folder: it has no readable run.json.") from None
        return cls(folder, config.load(folder / "resolved.toml"), about)

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def data(self) -> Path:
        """The prepared folder; an exported run carries its vocabularies within."""
        return self.folder / self.about["data"]

    def save_weights(self, phase: str, tensors: Mapping[str, Tensor]) -> None:
        """The best networks of a finished phase, for search and for warm starts."""
        folder = self.folder / "weights"
        folder.mkdir(exist_ok=True)
        partial = folder / f".{phase}.partial"
        save_file({key: tensor.detach().contiguous() for key, tensor in tensors.items()}, partial)
        partial.replace(folder / f"{phase}.safetensors")

    def phases_done(self) -> list[str]:
        """Names of the finished phases, in the recipe's order."""
        return [p.name for p in self.recipe.phase if (self.folder / "weights" / f"{p.name}.safetensors").exists()]

    def initial_weights(self) -> dict[str, Tensor] | None:
        """What to begin with, if the run starts from another one's networks."""
        path = self.folder / "weights" / f"{INITIAL}.safetensors"
        return load_file(path) if path.exists() else None

    def trains_an_actor(self) -> bool:
        """Whether there is an actor worth evaluating at the end."""
        kinds = (config.SoftQ, config.Critic)
        return any(not isinstance(p, kinds) or isinstance(p, config.ActorCritic) for p in self.recipe.phase)

    def weights(self, phase: str | None = None) -> dict[str, Tensor]:
        """Weights of a phase, the last finished one by default; keys begin with `actor.` or `critic.`."""
        done = self.phases_done()
        name = phase or (done[-1] if done else "")
        if name not in done:
            listed = ", ".join(done) or "none"
            raise UserError(f"{self.folder} has no weights of phase {name!r}; finished phases: {listed}.")
        return load_file(self.folder / "weights" / f"{name}.safetensors")


def of_network(weights: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The state of one network, "actor" or "critic", from weights whose keys begin with its name."""
    return {key.removeprefix(f"{name}."): tensor for key, tensor in weights.items() if key.startswith(f"{name}.")}


def commit() -> str:
    """The commit of the code that runs, with `+` if it was changed since; empty outside a checkout."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        try:
            done = subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=False, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    revision = git("rev-parse", "--short=12", "HEAD")
    return revision + ("+" if revision and git("status", "--porcelain", "--", str(here)) else "")
