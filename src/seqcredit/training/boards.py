"""Copies of a run's log for TensorBoard, Weights & Biases and MLflow."""

import importlib
import json
import os
import shutil
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from seqcredit.errors import in_words, needing, require
from seqcredit.training.log import validated
from seqcredit.types import Json

if TYPE_CHECKING:
    import wandb
    from mlflow.tracking import MlflowClient
    from torch.utils.tensorboard import SummaryWriter

ReportTo = Literal["tensorboard", "wandb", "mlflow"]
REPORTED = "reported.json"  # of a run folder: what a board has been told already
PROJECT = "seqcredit"  # of Weights & Biases, and an experiment of MLflow, where the environment names no other


class Board(ABC):
    """Somebody who is told every number of a log."""

    name: ClassVar[str]  # as a run asks for it; so is its package called, and what installs that
    title: ClassVar[str]
    module: ClassVar[str]  # what it takes

    @classmethod
    def needs(cls) -> None:
        """One sentence where its package is absent."""
        with needing(cls.name, cls.name, cls.title):
            importlib.import_module(cls.module)

    @abstractmethod
    def __init__(self, folder: Path) -> None:
        """Of the run in a folder, which it may have been told of before."""

    @abstractmethod
    def tell(self, entry: Json) -> None:
        """A line of the log."""

    def close(self) -> None:
        """There will be no more."""
        return


class TensorBoard(Board):
    """A folder of the run's, written anew whenever it starts or resumes."""

    name, title, module = "tensorboard", "TensorBoard", "torch.utils.tensorboard"
    writer: "SummaryWriter"

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        place = folder / "tensorboard"
        shutil.rmtree(place, ignore_errors=True)
        self.writer = SummaryWriter(str(place))

    def tell(self, entry: Json) -> None:
        """Over the updates of its phase."""
        for key, value in numbers(entry).items():
            self.writer.add_scalar(key, value, entry["updates"], entry["time"])
        self.writer.flush()

    def close(self) -> None:
        """Nothing is left in memory."""
        self.writer.close()


class Remembering(Board):
    """One that keeps what it was told: a resumed run goes on where it is, and repeats nothing."""

    def __init__(self, folder: Path) -> None:
        self.place, self.lines = folder / REPORTED, 0
        known = self._remembered().get(self.name, {})
        self.told = int(known.get("lines", 0))
        self.run = self.start(folder, known.get("run"))

    @abstractmethod
    def start(self, folder: Path, run: str | None) -> str:
        """Go on with a run by its id, or begin one, and say its id."""

    @abstractmethod
    def put(self, entry: Json) -> None:
        """What it has not been told yet."""

    def tell(self, entry: Json) -> None:
        """The lines of a resumed run are those that it had, until it is further than it was."""
        self.lines += 1
        if self.lines > self.told:
            self.put(entry)
            mine = {"run": self.run, "lines": self.lines}
            self.place.write_text(json.dumps({**self._remembered(), self.name: mine}) + "\n")

    def _remembered(self) -> Json:
        """Of all boards."""
        with suppress(OSError, ValueError):
            return dict(json.loads(self.place.read_text()))
        return {}


class WeightsAndBiases(Remembering):
    """A run of Weights & Biases; WANDB_MODE, WANDB_PROJECT and the others of its variables count as ever."""

    name, title, module = "wandb", "Weights & Biases", "wandb"
    session: "wandb.Run"

    def start(self, folder: Path, run: str | None) -> str:
        """Its settings are the recipe."""
        import wandb

        recipe = folder / "resolved.toml"
        settings = tomllib.loads(recipe.read_text(encoding="utf-8")) if recipe.exists() else {}
        project = os.environ.get("WANDB_PROJECT", PROJECT)
        given = {"project": project, "name": folder.name, "dir": str(folder), "config": settings}
        with in_words(wandb.Error, lambda error: f"Weights & Biases: {_first(error)} Or set WANDB_MODE=offline."):
            self.session = wandb.init(**given, id=run, resume="allow" if run else None, reinit="create_new")
        return str(self.session.id)

    def put(self, entry: Json) -> None:
        """Over the updates of its phase, which stand beside the numbers."""
        phase, found = entry["phase"], numbers(entry)
        for key in found:
            self.session.define_metric(key, step_metric=f"{phase}/updates")
        self.session.log({**found, f"{phase}/updates": entry["updates"]}, step=self.lines)

    def close(self) -> None:
        """All of it is written, or sent."""
        self.session.finish()


class MLflow(Remembering):
    """A run of MLflow; MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME say where."""

    name, title, module = "mlflow", "MLflow", "mlflow"
    client: "MlflowClient"

    def start(self, folder: Path, run: str | None) -> str:
        """In an experiment, which is made where it is not there."""
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient

        wanted = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        with in_words(MlflowException, lambda error: f"MLflow: {_first(error)} Set MLFLOW_TRACKING_URI."):
            self.client = MlflowClient()
            if run is not None:
                self.client.update_run(run, status="RUNNING")
                return run
            known = self.client.get_experiment_by_name(wanted)
            number = self.client.create_experiment(wanted) if known is None else known.experiment_id
            return str(self.client.create_run(number, run_name=folder.name).info.run_id)

    def put(self, entry: Json) -> None:
        """Over the updates of its phase."""
        from mlflow.entities import Metric

        at, step = int(1000 * entry["time"]), int(entry["updates"])
        self.client.log_batch(self.run, [Metric(key, value, at, step) for key, value in numbers(entry).items()])

    def close(self) -> None:
        """It counts as finished until it goes on."""
        self.client.set_terminated(self.run)


BOARDS: dict[str, type[Board]] = {each.name: each for each in (TensorBoard, WeightsAndBiases, MLflow)}


def check(name: str | None) -> None:
    """Whether there is such a board, and what it needs; asked before a run folder is made."""
    if name is not None:
        require(name in [*BOARDS], f"report_to is {name!r}: choose one of {', '.join(BOARDS)}.")
        BOARDS[name].needs()


def board(name: str, folder: Path, entries: Iterable[Json]) -> Board:
    """A board by its name, which has been told of what there is."""
    check(name)
    made = BOARDS[name](folder)
    for entry in entries:
        made.tell(entry)
    return made


def _first(error: Exception) -> str:
    """The first sentence of an error of somebody else's."""
    return f"{str(error).strip().splitlines()[0].partition('. ')[0].rstrip('.')}."


def numbers(entry: Json) -> dict[str, float]:
    """The numbers of a line of the log by phase and name; what validation measures has another name than training."""
    found = {key: value for key, value in entry.items() if key not in ("epoch", "updates", "time", "cpu")}
    named = {(validated(key) if entry["event"] == "validation" else key): value for key, value in found.items()}
    return {f"{entry['phase']}/{key}": float(value) for key, value in named.items() if isinstance(value, int | float)}
