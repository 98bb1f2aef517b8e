"""Networks of finished phases."""

from pathlib import Path

import pytest
import torch

from seqcredit.data import reading
from seqcredit.training import weights


def test_round_trip(tmp_path: Path) -> None:
    tensors = {"actor.w": torch.arange(6.0).view(2, 3).T, "critic.b": torch.ones(2)}  # not contiguous
    weights.save(tmp_path, "mle", tensors)
    found = weights.load(tmp_path, "mle")
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[key], tensor) for key, tensor in tensors.items())
    assert weights.of_network(found, "critic").keys() == {"b"}
    assert torch.equal(weights.of_network(found, "actor")["w"], tensors["actor.w"])


def test_finished_phases_come_in_the_order_that_is_asked_for(tmp_path: Path) -> None:
    for phase in ("b", "a"):
        weights.save(tmp_path, phase, {"actor.w": torch.ones(1)})
    assert weights.finished(tmp_path, ["c", "b", "a"]) == ["b", "a"]
    assert weights.finished(tmp_path / "nowhere", ["a"]) == []


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights.save(tmp_path, "mle", {"actor.w": torch.ones(1)})

    def half(_: object, path: Path, header: object) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(reading, "save_file", half)
    with pytest.raises(OSError, match="No space left"):
        weights.save(tmp_path, "mle", {"actor.w": torch.zeros(1)})
    assert torch.equal(weights.load(tmp_path, "mle")["actor.w"], torch.ones(1))
    assert weights.finished(tmp_path, [".mle.partial", "mle"]) == ["mle"]
