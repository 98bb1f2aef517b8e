"""Parts of networks and how they are kept, by a group of one process; by two, in test_parallel and test_trainer."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from seqcredit.errors import UserError
from seqcredit.models.lstm import Seq2Seq
from seqcredit.training import checkpoints
from seqcredit.training.checkpoints import Checkpoint
from seqcredit.training.processes import Processes
from seqcredit.training.shards import Shards, read, write

ALONE = Processes(0, 1, sharded=True)


@pytest.fixture(autouse=True)
def group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def network() -> Seq2Seq:
    return Seq2Seq(7, 7, 8, 8, generator=torch.Generator().manual_seed(0))


def test_a_network_is_whole_only_where_it_is_gathered() -> None:
    plain, held = network(), Shards(network(), ALONE)
    weights = held.network.state_dict()
    assert all(type(weight) is not torch.Tensor for weight in weights.values())
    held.gather()
    assert all(type(weight) is nn.Parameter for weight in held.network.parameters())
    held.release()
    for key, weight in plain.state_dict().items():
        assert torch.equal(held.whole(weights[key]), weight)
        assert torch.equal(held.whole(held.part(weight + 1, weights[key])), weight + 1)
    held.load({key: weight + 2 for key, weight in plain.state_dict().items()})
    held.gather()
    assert torch.equal(held.network.readout.bias, plain.readout.bias + 2)


def test_what_cannot_be_sharded_is_refused_in_a_sentence() -> None:
    mixed, number = network(), network()
    mixed.readout.double()
    with pytest.raises(UserError, match=r"^Weights of torch.float32 and torch.float64 cannot be sharded together: "):
        Shards(mixed, ALONE)
    number.scale = nn.Parameter(torch.tensor(1.0))
    with pytest.raises(UserError, match=r"^scale: a single number cannot be sharded; make it a vector"):
        Shards(number, ALONE)


def test_what_was_sharded_is_read_whole_or_as_it_is_needed(tmp_path: Path) -> None:
    held = Shards(network(), ALONE)
    state = held.network.state_dict()
    write(tmp_path, {"actor": state, "optimizer": {"0.step": torch.tensor(3.0), "0.exp_avg": state["bos"] * 2}})
    whole = read(tmp_path, "actor", lambda _: None)
    assert whole.keys() == state.keys()
    for key, weight in network().state_dict().items():
        assert torch.equal(whole[key], weight)
    sharded = read(tmp_path, "optimizer", lambda key: state["bos"])
    assert type(sharded["0.exp_avg"]) is type(state["bos"])
    assert torch.equal(held.whole(sharded["0.exp_avg"]), 2 * whole["bos"])
    assert float(sharded["0.step"]) == 3.0  # of no weight's shape


@pytest.mark.parametrize("file", [".metadata", "__0_0.distcp", "state.json"])
def test_a_damaged_one_is_noticed_and_the_one_before_it_taken(tmp_path: Path, file: str) -> None:
    for number in (1, 2):
        some = Checkpoint({"net": {"w": torch.full((3,), float(number))}}, {"number": number})
        checkpoints.save_shards(tmp_path, f"{number:08d}", some, ALONE)
    harmed = tmp_path / "00000002" / file
    harmed.write_bytes(harmed.read_bytes()[:-1] + b"?")
    said: list[str] = []
    found = checkpoints.newest(tmp_path, said.append)
    assert found is not None
    assert found.state == {"number": 1}
    assert torch.equal(found.group("net", lambda _: None)["w"], torch.ones(3))
    assert len(said) == 1
    assert "00000002 is damaged" in said[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000001", "00000002"]


def test_a_failed_write_is_one_sentence_and_leaves_the_last_whole(tmp_path: Path, monkeypatch) -> None:
    some = Checkpoint({"net": {"w": torch.ones(3)}}, {})
    checkpoints.save_shards(tmp_path, "00000001", some, ALONE)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match="No space left on device") as raised:
        checkpoints.save_shards(tmp_path, "00000002", some, ALONE)
    assert "\n" not in str(raised.value)
    assert checkpoints.names(tmp_path) == ["00000001"]
    assert checkpoints.load(tmp_path, "00000001").shards == tmp_path / "00000001"
