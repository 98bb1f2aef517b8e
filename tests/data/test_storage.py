import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stored
from seqcredit.data.storage import (
    Sequences,
    check_file,
    checksum,
    growing_array,
    locked,
    new_folder,
    write_sequences,
    write_whole,
)
from seqcredit.errors import UserError
from seqcredit.types import pad


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("length", [0, 1, 9, 10, 100_001])
def test_growing_array_is_a_plain_npy_file(tmp_path: Path, length: int) -> None:
    with growing_array(tmp_path / "a.npy", np.dtype("<i4")) as extend:
        for start in range(0, length, 1000):
            assert extend(range(start, min(start + 1000, length))) == min(start + 1000, length)
    loaded = np.load(tmp_path / "a.npy")
    assert loaded.dtype == np.int32
    assert loaded.tolist() == list(range(length))


@given(st.lists(st.lists(st.integers(1, 2**31 - 1), max_size=5), min_size=1, max_size=6), st.data())
def test_sequences(tmp_path_factory: pytest.TempPathFactory, sequences: list[list[int]], data: st.DataObject) -> None:
    if not any(sequences):
        sequences.append([7])
    stem = tmp_path_factory.getbasetemp() / "some.split"
    with write_sequences(stem) as append:
        for sequence in sequences:
            append(sequence)
    opened = Sequences.open(stem)
    assert [stored.sequence(opened, i) for i in range(len(opened))] == sequences
    assert opened.lengths.tolist() == [len(sequence) for sequence in sequences]
    chosen = data.draw(st.lists(st.integers(0, len(sequences) - 1), min_size=1))
    assert opened.padded(np.array(chosen)).tolist() == pad([sequences[i] for i in chosen]).tolist()


def test_sequences_are_mapped(tmp_path: Path) -> None:
    with write_sequences(tmp_path / "s") as append:
        append([5, 6])
    opened = Sequences.open(tmp_path / "s")
    assert isinstance(opened.ids.base, np.memmap)
    assert not opened.ids.flags.writeable


def test_damaged_array_is_named(tmp_path: Path) -> None:
    with write_sequences(tmp_path / "s") as append:
        append([5, 6])
    path = tmp_path / "s.ids.npy"
    for content in (path.read_bytes()[:-1], b"", b"hello"):
        path.write_bytes(content)
        with pytest.raises(UserError, match=f"^{path} is missing or damaged: "):
            Sequences.open(tmp_path / "s")


def test_folder_appears_at_the_end(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    with new_folder(out) as folder:
        (folder / "x").write_text("1")
        assert not out.exists()
    assert tree(tmp_path) == ["a", "a/b", "a/b/x"]


def test_everything_reaches_the_disk_before_the_folder_appears(tmp_path: Path, synced: list[int]) -> None:
    with new_folder(tmp_path / "out") as folder:
        (folder / "x").write_text("1")
        (folder / "y").write_text("2")
        assert synced == []
    out = tmp_path / "out"
    assert set(synced) == {path.stat().st_ino for path in (tmp_path, out, out / "x", out / "y")}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, UserError])
def test_after_a_failure_nothing_is_left(tmp_path: Path, error: type[BaseException]) -> None:
    def fail() -> None:
        with new_folder(tmp_path / "a" / "b") as folder:
            (folder / "x").write_text("1")
            raise error

    with pytest.raises(error):
        fail()
    assert tree(tmp_path) == []


def test_full_disk_is_one_sentence(tmp_path: Path) -> None:
    def fail() -> None:
        with new_folder(tmp_path / "b"):
            raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match=f"^Cannot write {tmp_path}/b: No space left on device; nothing was written.$"):
        fail()
    assert tree(tmp_path) == []


def write(out: Path, content: str, overwrite: bool = False) -> None:
    with new_folder(out, overwrite) as folder:
        (folder / "x").write_text(content)
        (folder / "manifest.json").write_text('{"files": {"x": ""}}')


def test_existing_folders(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    write(out, "into an empty folder")
    with pytest.raises(UserError, match=f"^{out} exists and is not empty: "):
        write(out, "again")
    assert (out / "x").read_text() == "into an empty folder"
    write(out, "over it", overwrite=True)
    assert (out / "x").read_text() == "over it"
    assert tree(tmp_path) == ["out", "out/manifest.json", "out/x"]
    with pytest.raises(UserError, match=f"^{out}/x is a file: "):
        write(out / "x", "a file", overwrite=True)


def test_failed_overwriting_leaves_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    write(out, "old")
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if target == out and (self / "x").read_text() == "new":
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(UserError, match="Input/output error"):
        write(out, "new", overwrite=True)
    assert (out / "x").read_text() == "old"
    assert tree(tmp_path) == ["out", "out/manifest.json", "out/x"]


@pytest.mark.parametrize("manifest", [None, "", "[]", '{"files": {}}'])
def test_what_is_not_ours_is_never_overwritten(tmp_path: Path, manifest: str | None) -> None:
    out = tmp_path / "home"
    out.mkdir()
    (out / "a thesis").write_text("dear")
    if manifest is not None:
        (out / "manifest.json").write_text(manifest)
    with pytest.raises(UserError, match=f"^{out} holds a thesis, which no preparation wrote: "):
        write(out, "new", overwrite=True)
    assert (out / "a thesis").read_text() == "dear"


def test_a_file_appears_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "result.json"
    write_whole(path, b"first")

    def killed(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, b"second, half of")
    assert path.read_bytes() == b"first"
    monkeypatch.undo()
    write_whole(path, b"third")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("result.json", b"third")]


def test_a_folder_is_held_by_one_process_and_by_no_dead_one(tmp_path: Path) -> None:
    code = f"""
import sys, time
from pathlib import Path
from seqcredit.data.storage import locked
with locked(Path({str(tmp_path)!r}), "busy"):
    print("mine", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"mine\n"
        with pytest.raises(UserError, match=r"^busy$"), locked(tmp_path, "busy"):
            raise AssertionError("it is not ours")
        process.kill()
    with locked(tmp_path, "busy"), pytest.raises(UserError, match=r"^busy$"), locked(tmp_path, "busy"):
        raise AssertionError("it is not free")
    with locked(tmp_path, "busy"):
        assert list(tmp_path.iterdir()) == []


def test_a_file_is_compared_with_its_checksum_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    expected = checksum(path)
    check_file(path, expected, "mend it")
    path.write_bytes(b"two")
    with pytest.raises(UserError, match=r"a has changed since it was written: mend it\.$"):
        check_file(path, expected, "mend it")
    path.unlink()
    with pytest.raises(UserError, match=r"a is missing: mend it\.$"):
        check_file(path, expected, "mend it")
