"""Files on disk: arrays that grow, sequences of different lengths, folders that appear complete or not at all."""

import fcntl
import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from seqcredit.errors import UserError, in_words, require
from seqcredit.types import ABSENT, EOS

MANIFEST = "manifest.json"
IDS = np.dtype("<i4")
OFFSETS = np.dtype("<i8")

Extend = Callable[[Sequence[int]], int]


@contextmanager
def growing_array(path: Path, dtype: np.dtype[np.generic]) -> Iterator[Extend]:
    """Appends values to a one-dimensional `.npy` file, which is not held in memory; how many there are then."""
    length = 0
    with path.open("wb") as file:
        file.write(npy_header(dtype, (0,)))

        def extend(values: Sequence[int]) -> int:
            nonlocal length
            file.write(np.asarray(values, dtype).tobytes())
            length += len(values)
            return length

        yield extend
        file.seek(0)
        file.write(npy_header(dtype, (length,)))


def npy_header(dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> bytes:
    """What a .npy file begins with; numpy leaves room for the first axis to grow, so its length is always the same."""
    buffer = io.BytesIO()
    npy.write_array_header_1_0(buffer, {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape})
    return buffer.getvalue()


@dataclass(frozen=True)
class Sequences:
    """Sequences of ids of unequal length: sequence i is `ids[offsets[i]:offsets[i + 1]]`."""

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]
    fill: int = EOS  # what closes them, and follows them in a batch; ABSENT follows without closing them

    @classmethod
    def open(cls, stem: Path, fill: int = EOS) -> "Sequences":
        """The two files `STEM.ids.npy` and `STEM.offsets.npy`, mapped into memory."""
        return cls(open_array(with_suffix(stem, "ids.npy")), open_array(with_suffix(stem, "offsets.npy")), fill)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Number of words of each."""
        return np.diff(self.offsets)

    def padded(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sequences with these numbers as one array, each closed with eos and filled up with eos; or open."""
        starts, lengths = self.offsets[numbers], self.lengths[numbers]
        column = np.arange(lengths.max(initial=0) + (self.fill != ABSENT))
        if not len(self.ids):  # all of them are empty
            return np.full((*lengths.shape, len(column)), self.fill, np.int64)
        place = np.minimum(starts[..., None] + column, len(self.ids) - 1)  # beyond a sequence: anything that exists
        return np.where(column < lengths[..., None], self.ids[place], self.fill).astype(np.int64)


@dataclass(frozen=True)
class Pictures:
    """Features of pictures: row i is picture i."""

    features: NDArray[np.float16]

    def __len__(self) -> int:
        return len(self.features)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """A picture has no length: all have the same."""
        return np.ones(len(self), np.int64)

    def padded(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """The pictures with these numbers as one array."""
        return self.features[numbers].astype(np.float32)


@contextmanager
def write_sequences(stem: Path) -> Iterator[Extend]:
    """Appends sequences to the files that `Sequences.open` reads."""
    with (
        growing_array(with_suffix(stem, "ids.npy"), IDS) as ids,
        growing_array(with_suffix(stem, "offsets.npy"), OFFSETS) as offsets,
    ):
        offsets([0])
        yield lambda sequence: offsets([ids(sequence)])


def with_suffix(stem: Path, suffix: str) -> Path:
    """`STEM.suffix`; a dot in the stem's own name stays."""
    return stem.with_name(f"{stem.name}.{suffix}")


def open_array(path: Path) -> NDArray[Any]:
    """An array on disk, mapped into memory."""
    # Of a damaged header numpy says almost anything: it reads it as Python.
    with in_words(Exception, f"{path} is missing or damaged: prepare the data again."):
        # A plain view of the map: slicing np.memmap itself is ten times slower.
        return np.asarray(np.load(path, mmap_mode="r"))


def written_lines(path: Path) -> Iterator[str]:
    """Lines of a text of ours, every character as it was written."""
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.removesuffix("\n")


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_file(path: Path, expected: str, remedy: str) -> None:
    """A file has the checksum that it was written with; it is read once, unless it changes."""
    with in_words(OSError, lambda error: f"{path} cannot be read: {error.strerror}; {remedy}."):
        require(path.is_file(), f"{path} is missing: {remedy}.")
        about = path.stat()
        found = _known(path.resolve(), about.st_size, about.st_mtime_ns, about.st_ino)
    require(found == expected, f"{path} has changed since it was written: {remedy}.")


@cache
def _known(path: Path, *_: int) -> str:
    return checksum(path)


@contextmanager
def new_folder(out: Path, overwrite: bool = False) -> Iterator[Path]:
    """A folder to write into, which takes the name `out` at the end, or disappears if anything goes wrong."""
    final = out.resolve()
    _refuse(out, final, overwrite)
    new_parents = [parent for parent in final.parents if not parent.exists()]
    part = final.with_name(f".{final.name}.part-{os.getpid()}")
    try:
        part.mkdir(parents=True)
        yield part
        sync(*part.iterdir(), part)
        _replace(part, final)
        sync(final.parent)
    except BaseException as error:
        shutil.rmtree(part, ignore_errors=True)
        for parent in new_parents:
            with suppress(OSError):
                parent.rmdir()
        if isinstance(error, OSError):
            raise UserError(f"Cannot write {out}: {error.strerror}; nothing was written.") from error
        raise


def _refuse(out: Path, final: Path, overwrite: bool) -> None:
    """Never delete what is not a prepared folder."""
    if final.exists() and not final.is_dir():
        raise UserError(f"{out} is a file: give the name of a new folder.")
    if not final.exists() or not any(final.iterdir()):
        return
    require(overwrite, f"{out} exists and is not empty: give another name, or allow overwriting it.")
    foreign = {path.name for path in final.iterdir()} - _own_files(final)
    if foreign:
        raise UserError(f"{out} holds {min(foreign)}, which no preparation wrote: give another name.")


def _own_files(folder: Path) -> set[str]:
    try:
        files = json.loads((folder / MANIFEST).read_bytes())["files"]
        return {MANIFEST, *(name.partition("/")[0] for name in files)}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def write_whole(path: Path, content: bytes) -> None:
    """A file that appears whole or not at all, also if the process is killed while it writes."""
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def write_json(path: Path, record: object) -> Path:
    """JSON in a file that appears whole or not at all; its path."""
    write_whole(path, (json.dumps(record, indent=1) + "\n").encode())
    return path


@contextmanager
def locked(folder: Path, busy: str) -> Iterator[None]:
    """A folder that is this process's alone; one that has died holds nothing. `busy` is said where it is another's."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        # Some file systems know no locks; there it goes without.
        with suppress(OSError), in_words(BlockingIOError, busy):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def sync(*paths: Path) -> None:
    """Wait until files and folders are on the disk."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _replace(part: Path, final: Path) -> None:
    """Put the new folder in the place of the old one, which comes back if that fails."""
    old = final.with_name(f"{part.name}-old")
    if final.exists():
        final.rename(old)
    try:
        part.rename(final)
    except OSError:
        if old.exists():
            old.rename(final)
        raise
    shutil.rmtree(old, ignore_errors=True)
