import json
import os
from pathlib import Path

import pytest
import torch

from seqcredit.errors import UserError
from seqcredit.training import checkpoints
from seqcredit.training.checkpoints import Checkpoint


def some(number: int) -> Checkpoint:
    return Checkpoint({"net": {"w": torch.full((3,), float(number)), "b": torch.arange(2)}}, {"number": number})


def test_round_trip(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, "00000001", some(1))
    found = checkpoints.load(tmp_path, "00000001")
    assert found.state == {"number": 1}
    assert torch.equal(found.tensors["net"]["w"], torch.ones(3))


def test_only_the_newest_stay(tmp_path: Path) -> None:
    for number in range(1, 5):
        checkpoints.save(tmp_path, f"{number:08d}", some(number))
    assert checkpoints.names(tmp_path) == ["00000003", "00000004"]


def test_an_unfinished_one_does_not_count(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, "00000001", some(1))
    (tmp_path / ".00000002.partial").mkdir()
    (tmp_path / ".00000002.partial" / "net.safetensors").write_bytes(b"half")
    assert checkpoints.names(tmp_path) == ["00000001"]
    checkpoints.save(tmp_path, "00000002", some(2))
    assert checkpoints.load(tmp_path, "00000002").state == {"number": 2}


def test_where_none_is_whole_nothing_begins_anew(tmp_path: Path) -> None:
    said: list[str] = []
    assert checkpoints.newest(tmp_path, said.append) is None
    for number in (1, 2):
        checkpoints.save(tmp_path, f"{number:08d}", some(number))
        (tmp_path / f"{number:08d}" / "state.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match=r"00000001 is damaged .* there is no whole one in .*; the log is kept\.$"):
        checkpoints.newest(tmp_path, said.append)
    assert len(said) == 1


@pytest.mark.parametrize("harm", ["cut", "flip", "state", "missing", "nonsense"])
def test_a_damaged_one_is_noticed_and_the_one_before_it_taken(tmp_path: Path, harm: str) -> None:
    for number in (1, 2):
        checkpoints.save(tmp_path, f"{number:08d}", some(number))
    file, state = tmp_path / "00000002" / "net.safetensors", tmp_path / "00000002" / "state.json"
    if harm == "cut":
        file.write_bytes(file.read_bytes()[:-3])
    elif harm == "flip":
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
    elif harm == "state":
        outer = json.loads(state.read_text())
        outer["state"] = outer["state"].replace('"number": 2', '"number": 7')
        state.write_text(json.dumps(outer))
    elif harm == "missing":
        file.unlink()
    else:
        state.write_text("{")
    said: list[str] = []
    found = checkpoints.newest(tmp_path, said.append)
    assert found is not None
    assert found.state == {"number": 1}
    assert len(said) == 1
    assert "00000002 is damaged" in said[0]


def test_none_at_all(tmp_path: Path) -> None:
    assert checkpoints.newest(tmp_path / "nowhere", print) is None


@pytest.mark.skipif(os.geteuid() != 0 and not os.path.exists("/dev/full"), reason="needs a way to make writing fail")
def test_a_failed_write_is_one_sentence_and_leaves_the_last_whole(tmp_path: Path, monkeypatch) -> None:
    checkpoints.save(tmp_path, "00000001", some(1))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left on device") as raised:
        checkpoints.save(tmp_path, "00000002", some(2))
    assert "\n" not in str(raised.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000001"]
    assert checkpoints.load(tmp_path, "00000001").state == {"number": 1}


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.SGD])
def test_an_optimizer_continues_exactly(tmp_path: Path, kind: type[torch.optim.Optimizer]) -> None:
    def fresh() -> tuple[torch.Tensor, torch.optim.Optimizer]:
        weight = torch.ones(4, requires_grad=True)
        return weight, kind([weight], lr=0.1)

    def step(weight: torch.Tensor, optimizer: torch.optim.Optimizer, t: int) -> None:
        optimizer.zero_grad()
        (weight * torch.arange(4.0) * (t + 1)).square().sum().backward()
        optimizer.step()

    weight, optimizer = fresh()
    for t in range(3):
        step(weight, optimizer, t)
    saved = Checkpoint({"o": checkpoints.optimizer_tensors(optimizer), "w": {"w": weight.detach().clone()}}, {})
    checkpoints.save(tmp_path, "00000001", saved)
    found = checkpoints.load(tmp_path, "00000001")
    again, other = fresh()
    again.data.copy_(found.tensors["w"]["w"])
    checkpoints.restore_optimizer(other, found.tensors.get("o", {}))
    for t in range(3, 6):
        step(weight, optimizer, t)
        step(again, other, t)
    assert torch.equal(weight, again)
