"""The run folder: settings, log and results.

recipe.toml      as given            resolved.toml   with every default
run.json         command, seed, commit, data, versions
log.jsonl        everything measured, an object a line
checkpoints/     to resume from      weights/        the best of each finished phase
result.json      after evaluation    hypotheses/     of the splits that were evaluated

Files of the user's own that the recipe names, an algorithm or a function, are copied beside `recipe.toml`.
"""

import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Required, TypedDict

import torch
from torch import Tensor

from seqcredit import __version__
from seqcredit.data.reading import check_signed, read_json
from seqcredit.data.storage import MANIFEST, check_file, new_folder
from seqcredit.errors import UserError, in_words, require
from seqcredit.experiments.recipe import Recipe, load, resolved
from seqcredit.named import is_named, place_of, source_of, word_of
from seqcredit.training import weights
from seqcredit.types import Json

OWN_MODEL = "given in Python"


class About(TypedDict, total=False):
    """What is read of `run.json`."""

    seqcredit: str
    torch: str
    commit: str
    data: Required[str]
    vocabularies: Required[dict[str, str]]
    command: str  # an export has none
    model: str


@dataclass(frozen=True)
class Run:
    """A run folder and its recipe."""

    folder: Path
    recipe: Recipe
    about: Json

    @classmethod
    def create(
        cls,
        folder: Path,
        recipe_text: str,
        recipe: Recipe,
        data: Path,
        vocabularies: Mapping[str, str],
        files: Mapping[str, Path] | None = None,
        begin: Callable[["Run"], None] | None = None,
        own_model: bool = False,
    ) -> "Run":
        """A new run folder, which appears whole or not at all; an existing one is never written over.

        `files` go along, see `own_files`; `begin` adds what the run is to start from; `own_model` says that the actor
        was given in Python, so that no recipe can make it again.
        """
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UserError(f"{folder} is there already; resume it with `seqcredit resume {folder}`, or choose --out.")
        with new_folder(folder) as part:
            about = _about(recipe, data, vocabularies, folder) | ({"model": OWN_MODEL} if own_model else {})
            (part / "recipe.toml").write_text(recipe_text, encoding="utf-8")
            (part / "resolved.toml").write_text(resolved(recipe), encoding="utf-8")
            (part / "run.json").write_text(json.dumps(about, indent=1) + "\n")
            for place, file in (files or {}).items():
                (part / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, part / place)
            if begin is not None:
                begin(cls(part, recipe, about))
        return cls(folder, recipe, about)

    @classmethod
    def open(cls, folder: Path) -> "Run":
        """A run that exists."""
        about = about_of(folder)
        _check_export(folder)
        old = " seqcredit 0.1.0 reads it." if about["seqcredit"].startswith("0.1.") else ""
        with in_words(UserError, lambda error: f"{error}{old}"):
            recipe = load(folder / "resolved.toml")
        return cls(folder, recipe, about)

    @property
    def data(self) -> Path:
        """The prepared folder; a run that carries its data has them within."""
        return self.folder / self.about["data"]

    def save_weights(self, phase: str, tensors: Mapping[str, Tensor]) -> None:
        """The best networks of a finished phase."""
        weights.save(self.folder, phase, tensors)

    def phases_done(self) -> list[str]:
        """Names of the finished phases, in the recipe's order."""
        return weights.finished(self.folder, [phase.name for phase in self.recipe.phase])

    def must_be_ours(self) -> None:
        """Stop where the actor was given in Python: only Python can make it again."""
        if "model" in self.about:
            raise UserError(
                f"The model of {self.folder} was given in Python: open it there, by seqcredit.load(run, model=...)."
            )

    def trains_an_actor(self) -> bool:
        """Whether there is an actor worth evaluating at the end."""
        return any("actor" in phase.trains for phase in self.recipe.phase)

    def weights(self, phase: str | None = None) -> dict[str, Tensor]:
        """Weights of a phase, the last finished one by default; keys begin with `actor.` or `critic.`."""
        done = self.phases_done()
        name = phase or (done[-1] if done else "")
        if name not in done:
            listed = ", ".join(done) or "none"
            raise UserError(f"{self.folder} has no weights of phase {name!r}; finished phases: {listed}.")
        return weights.load(self.folder, name)


def about_of(folder: Path) -> Json:
    """What `run.json` says."""
    path = folder / "run.json"
    with in_words(OSError, lambda error: f"{path} cannot be read: {error.strerror}; give a run folder of yours."):
        require(path.is_file(), f"{folder} is not a run folder: it has no readable run.json.")
    known = {"seqcredit": "unknown", "torch": "unknown", "commit": ""}  # older ones may not have said
    return known | read_json(path, About, "give a run folder that is whole")


class Sealed(TypedDict):
    """The manifest of an export."""

    files: dict[str, str]
    checksum: str


def _check_export(folder: Path) -> None:
    """An export is as it was written; a run, and an export from before, have no manifest."""
    path, again = folder / MANIFEST, "export the run again"
    if os.path.lexists(path):
        record = read_json(path, Sealed, again)
        check_signed(record, str(path), again)
        for name, expected in record["files"].items():
            check_file(folder / name, expected, again)


def own_files(recipe: Recipe, folder: Path | None, given: Iterable[object] = ()) -> dict[str, Path]:
    """The files of algorithms, a pay-off and a metric that a recipe names, by where they are to stand beside it.

    They are looked for where the recipe's words are; those of things that were `given` in Python, where these are from.
    """
    things: dict[str, object] = {word_of(type(phase)): type(phase) for phase in recipe.phase}
    things |= {word: word for word in (recipe.payoff.metric, recipe.metric)}
    things |= {word_of(thing): thing for thing in given}
    found: dict[str, Path] = {}
    for word in filter(is_named, things):
        file = source_of(things[word], folder)
        other = found.setdefault(place_of(word), file) if file else file
        same = file is None or other is None or file.read_bytes() == other.read_bytes()
        require(same, f"{other} and {file}: a run keeps one file of a name, rename one of them.")
    return found


def _about(recipe: Recipe, data: Path, vocabularies: Mapping[str, str], folder: Path) -> Json:
    inside = data.resolve().is_relative_to(folder.resolve())
    return {
        "seqcredit": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "commit": commit(),
        "seed": recipe.seed,
        "command": shlex.join([*_program(Path(sys.argv[0])), *sys.argv[1:]]),
        "data": os.path.relpath(data.resolve(), folder.resolve()) if inside else str(data.resolve()),
        "vocabularies": dict(vocabularies),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def _program(file: Path) -> tuple[str, ...]:
    """What was called: seqcredit, or a user's script by its path from here."""
    if file.name.startswith("seqcredit") or file.parent.name == "seqcredit":
        return ("seqcredit",)
    inside = file.is_file() and file.resolve().is_relative_to(Path.cwd())
    return ("python", str(file.resolve().relative_to(Path.cwd())) if inside else file.name)


def commit() -> str:
    """The commit of the code that runs, with `+` if it was changed since; empty outside a checkout."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        try:
            done = subprocess.run(
                ["git", "--no-optional-locks", *words],
                cwd=here,
                capture_output=True,
                text=True,
                check=False,
                timeout=10,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    revision = git("rev-parse", "--short=12", "HEAD")
    return revision + ("+" if revision and git("status", "--porcelain", "--", str(here.parent)) else "")
