"""Readers: what is whole comes back, and every change of a single bit is noticed."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Required, TypedDict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from seqcredit.data.reading import (
    check_signed,
    parse_json,
    read_json,
    read_tensors,
    read_toml,
    signed,
    unfit,
    write_tensors,
)
from seqcredit.errors import UserError

TENSORS = {
    "a": torch.arange(6.0).view(2, 3).T,
    "b": torch.tensor(3, dtype=torch.int64),
    "half": torch.ones(3, dtype=torch.bfloat16),
    "none": torch.zeros(0, 4),
    "yes": torch.tensor([True, False]),
}


def test_tensors_come_back(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write_tensors(path, TENSORS)
    found = read_tensors(path, "")
    assert found.keys() == TENSORS.keys()
    for key, tensor in TENSORS.items():
        assert found[key].dtype == tensor.dtype
        assert torch.equal(found[key], tensor)
    assert [each.name for each in tmp_path.iterdir()] == ["w.safetensors"]


def test_every_single_bit_of_a_file_of_tensors_counts(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write_tensors(path, {"a": torch.arange(3.0), "b": torch.ones(1, dtype=torch.int8)})
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in range(8):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            with pytest.raises(UserError, match=r"w\.safetensors is damaged: get another\.$"):
                read_tensors(path, "get another")


def test_a_full_disk_is_an_error_of_the_system(tmp_path: Path) -> None:
    code = f"""
import resource, signal, torch
from pathlib import Path
from seqcredit.data.reading import write_tensors
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
try:
    write_tensors(Path({str(tmp_path)!r}) / "w", {{"a": torch.ones(1000)}})
except OSError as error:
    print(error.strerror)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "File too large" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("header", [None, {"format": "pt"}])
def test_tensors_from_before_there_were_checksums_are_read(header: dict[str, str] | None, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file({"a": torch.ones(2)}, path, header)
    assert torch.equal(read_tensors(path, "")["a"], torch.ones(2))


def test_what_is_no_file_of_tensors(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^There is no file .*w: train it\.$"):
        read_tensors(tmp_path / "w", "train it")
    with pytest.raises(UserError, match=r"cannot be read: Is a directory; train it\.$"):
        read_tensors(tmp_path, "train it")
    (tmp_path / "w").write_bytes(b"")
    with pytest.raises(UserError, match=r"w is damaged: train it\.$"):
        read_tensors(tmp_path / "w", "train it")


class Inner(TypedDict, total=False):
    name: Required[str]
    size: int | None


@dataclass
class Outer:
    inner: list[Inner]
    kind: Literal["a", "b"]
    share: float = 0.0


WHOLE = {"inner": [{"name": "x"}, {"name": "y", "size": 3}], "kind": "a"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, None),
        ({"share": 1}, None),
        ({"inner": [{"name": "x", "more": 1}]}, None),
        ({"share": True}, "share is True, but it must be a number"),
        ({"share": None}, "share is None, but it must be a number"),
        ({"kind": "c"}, "kind is 'c', but it must be a or b"),
        ({"kind": 1}, "kind is 1, but it must be a or b"),
        ({"inner": {}}, "inner is {}, but it must be a list"),
        ({"inner": [{}]}, "the key inner[0].name is missing"),
        ({"inner": [{"name": "x", "size": 1.0}]}, "inner[0].size is 1.0, but it must be a whole number or null"),
        ({"inner": [{"name": "\ud800"}]}, "inner[0].name holds half a surrogate pair, which is no character"),
        ({"inner": [3]}, "inner[0] is 3, but it must be a table"),
        ({"more": 1}, "there is no key more"),
    ],
)
def test_documents_are_what_types_say(changed: dict[str, object], said: str | None) -> None:
    assert unfit(WHOLE | changed, Outer) == said


def test_a_missing_key_of_a_dataclass() -> None:
    assert unfit({"inner": []}, Outer) == "the key kind is missing"
    assert unfit({"a": 1, "b": "x"}, dict[str, int]) == "b is 'x', but it must be a whole number"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_a_signed_record_survives_the_disk_and_no_change(record: dict[str, object]) -> None:
    kept = parse_json(json.dumps(signed(record), indent=1), dict[str, object], "it", "")
    check_signed(kept, "it", "")
    kept["one more"] = 0
    with pytest.raises(UserError, match="it is damaged, or was changed by hand: again"):
        check_signed(kept, "it", "again")


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
def test_whatever_bytes_there_are_json_is_an_object_or_a_sentence(data: bytes) -> None:
    try:
        whole = isinstance(parse_json(data, dict[str, object], "it", "mend it"), dict)
    except UserError as error:
        whole = str(error).startswith("it") and str(error).endswith("mend it.")
    assert whole


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^There is no file .*a\.json: write it\.$"):
        read_json(tmp_path / "a.json", dict[str, object], "write it")
    with pytest.raises(UserError, match=r"cannot be read: Is a directory; write it\.$"):
        read_json(tmp_path, dict[str, object], "write it")
    deep = tmp_path / "deep.toml"
    for text in ("a = " + "[" * 5_000, "a = " + "9" * 5_000, "a = \xff"):
        deep.write_bytes(text.encode("latin-1"))
        with pytest.raises(UserError, match=r"deep\.toml is not TOML"):
            read_toml(deep)
