"""Copies of a log: TensorBoard, and Weights & Biases and MLflow where they are installed."""

import json
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seqcredit.api import train
from seqcredit.errors import UserError
from seqcredit.experiments.presets import MLE
from seqcredit.models.build import LSTM
from seqcredit.training.boards import BOARDS, REPORTED, board, check, numbers


def entry(updates: int, td: float, event: str = "train") -> dict[str, object]:
    return {"event": event, "phase": "critic", "epoch": 0, "updates": updates, "td": td, "time": 100.0 + updates}


def records(data: bytes, block: int = 32_768) -> Iterator[bytes]:
    """The records of a log in LevelDB's format, which may go over several blocks; the file has a header of its own."""
    place, part = 7, b""
    while place + 7 <= len(data):
        if block - place % block < 7:
            place += block - place % block
            continue
        length, kind = struct.unpack("<HB", data[place + 4 : place + 7])
        part += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield part
            part = b""


def finished(file: Path) -> list[bytes]:
    """The records of a session whose last one, of its end, has been written: another process does that."""
    from wandb.proto.wandb_internal_pb2 import Record

    for _ in range(200):
        found = list(records(file.read_bytes()))
        if found and Record.FromString(found[-1]).WhichOneof("record_type") == "exit":
            return found
        time.sleep(0.1)
    raise AssertionError(f"{file} does not end")


class Curves:
    """What a board of some kind holds of a run folder: steps and values by name."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder

    def read(self) -> dict[str, list[tuple[int, float]]]:
        return dict(sorted(getattr(self, self.kind)()))

    def tensorboard(self) -> Iterator[Any]:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator(str(self.folder / "tensorboard"))
        events.Reload()
        for key in events.Tags()["scalars"]:
            yield key, [(point.step, point.value) for point in events.Scalars(key)]

    def mlflow(self) -> Iterator[Any]:
        from mlflow.tracking import MlflowClient

        client, run = MlflowClient(), json.loads((self.folder / REPORTED).read_text())["mlflow"]["run"]
        for key in client.get_run(run).data.metrics:
            yield key, [(point.step, point.value) for point in client.get_metric_history(run, key)]

    def wandb(self) -> Iterator[Any]:
        """From the files of all offline sessions, as `wandb sync` sends them."""
        from wandb.proto.wandb_internal_pb2 import Record

        found: dict[str, list[tuple[int, float]]] = {}
        for file in sorted(self.folder.glob("wandb/offline-run-*/*.wandb")):
            for record in map(Record.FromString, finished(file)):
                items = record.history.item
                row = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}
                for key, value in row.items():
                    if not key.startswith("_") and not key.endswith("/updates"):
                        found.setdefault(key, []).append((row[key.split("/")[0] + "/updates"], value))
        yield from found.items()


@pytest.fixture(params=sorted(BOARDS))
def kind(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kind of board, which writes here and nowhere else."""
    package = {"tensorboard": "tensorboard", "wandb": "wandb", "mlflow": "mlflow"}[request.param]
    pytest.importorskip(package, reason=f"the package {package} is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}/mlruns")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return str(request.param)


@pytest.mark.filterwarnings("ignore")  # of the packages
def test_a_board_has_every_number_once_also_after_a_resume(kind: str, tmp_path: Path) -> None:
    first = board(kind, tmp_path, [])
    for line in (entry(100, 0.5), entry(100, 7.0, "validation"), entry(200, 0.25)):
        first.tell(line)  # the last one is lost with the run, which is killed before its checkpoint
    first.close()
    again = board(kind, tmp_path, [entry(100, 0.5), entry(100, 7.0, "validation")])
    for line in (entry(200, 0.25), entry(300, 0.125)):
        again.tell(line)
    again.close()
    expected = {"critic/td": [(100, 0.5), (200, 0.25), (300, 0.125)], "critic/validation_td": [(100, 7.0)]}
    assert Curves(kind, tmp_path).read() == expected


@pytest.mark.filterwarnings("ignore")
def test_a_run_reports_what_its_log_says(kind: str, tmp_path: Path) -> None:
    """`train`, killed after its first phase and gone on with."""
    rows, small = [("1 2 3", "one two three"), ("3 1", "three one")] * 30, LSTM(hidden=8, embedding=8)
    given = {"algorithm": MLE(epochs=2), "out": tmp_path / "run", "say": None, "report_to": kind}
    for _ in range(2):  # the second time there is nothing left to do, and nothing is said twice
        train(small, rows, **given)  # type: ignore[arg-type]
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    expected: dict[str, list[tuple[int, float]]] = {}
    for line in lines:
        for key, value in numbers(line).items():
            expected.setdefault(key, []).append((line["updates"], pytest.approx(value, rel=1e-6)))
    assert expected
    assert Curves(kind, tmp_path / "run").read() == dict(sorted(expected.items()))


def test_numbers_of_training_and_of_validation_have_names_of_their_own() -> None:
    assert numbers(entry(1, 0.5)) == {"critic/td": 0.5}
    assert numbers({**entry(1, 0.5, "validation"), "bleu": 3, "improved": True}) == {
        "critic/validation_td": 0.5,
        "critic/bleu": 3.0,
        "critic/improved": 1.0,
    }


def test_what_is_absent_or_unknown_is_said_before_there_is_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = {"tensorboard": "torch.utils.tensorboard", "wandb": "wandb", "mlflow": "mlflow"}
    for name, module in modules.items():
        with monkeypatch.context() as patch:
            patch.setitem(__import__("sys").modules, module, None)
            with pytest.raises(UserError, match=rf"needs the package {name}: run `pip install 'seqcredit\[{name}\]'`"):
                train(LSTM(), [("a", "b")] * 40, out=tmp_path / "run", report_to=name, say=None)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="report_to is 'paper': choose one of tensorboard, wandb, mlflow"):
        check("paper")
    assert not (tmp_path / "run").exists()
