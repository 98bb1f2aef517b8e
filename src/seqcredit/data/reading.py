"""One reader for each kind of file (JSON, TOML, tensors): checks it, and says in one sentence what is wrong.

What a document must hold is said by types: `dict[str, int]`, a TypedDict, a dataclass. Tensors carry a checksum in the
header of their own file, so that one flipped bit is noticed; files from before there was one are read as they are.
"""

import errno
import json
import tomllib
import types
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints, is_typeddict

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from seqcredit.data.storage import sync
from seqcredit.errors import UserError, in_words, require
from seqcredit.types import Json

KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", type(None): "null"}
CHECKSUM = "crc32"  # of the tensors of a file, in its header
SHOWN = 60  # characters of a value in a sentence
Kind: TypeAlias = Any  # a type, or what `typing` makes of types


@contextmanager
def readable(path: Path, remedy: str) -> Iterator[None]:
    """What the system refuses within is said of a file, with what to do."""
    with (
        in_words(OSError, lambda error: f"{path} cannot be read: {error.strerror or error}; {remedy}."),
        in_words(FileNotFoundError, f"There is no file {path}: {remedy}."),
    ):
        yield


def read_json(path: Path, kind: Kind, remedy: str) -> Json:
    """A JSON object that is as a type says; `remedy` is what to do if it is not."""
    with readable(path, remedy):
        data = path.read_bytes()
    return parse_json(data, kind, str(path), remedy)


def parse_json(data: bytes | str, kind: Kind, where: str, remedy: str) -> Json:
    """The same of a text that was read; `where` is what a sentence calls it."""
    with in_words((ValueError, RecursionError), f"{where} is damaged, it is not JSON: {remedy}."):
        record = json.loads(data)
    require(isinstance(record, dict), f"{where} is damaged, it is not a JSON object: {remedy}.")
    check_fit(record, kind, where, remedy)
    return record


def read_toml(path: Path) -> Json:
    """The tables of a file."""
    wrong = in_words((ValueError, RecursionError), lambda error: f"{path} is not TOML: {error or 'too deep'}.")
    with wrong, in_words(OSError, lambda error: f"{path} cannot be read: {error.strerror or error}."):
        return tomllib.loads(path.read_text(encoding="utf-8"))


# What a document must be.


def check_fit(record: Json, kind: Kind, where: str, remedy: str) -> None:
    """A document is as a type says."""
    wrong = unfit(record, kind)
    require(wrong is None, f"{where}: {wrong}; {remedy}.")


def unfit(value: object, kind: Kind, at: str = "") -> str | None:
    """The first value of a document that is not as a type says, in words; None if all are."""
    origin, inner = _origin(kind), get_args(kind)
    if kind is object:
        return None
    if origin in (Union, types.UnionType):
        found = [unfit(value, each, at) for each in inner]
        return None if None in found else _expected(value, at, " or ".join(map(_named, inner)))
    if origin is Literal:
        return None if value in inner and isinstance(value, str) else _expected(value, at, " or ".join(map(str, inner)))
    if origin is list:
        if not isinstance(value, list):
            return _expected(value, at, "a list")
        return _first(unfit(each, inner[0], f"{at}[{number}]") for number, each in enumerate(value))
    if origin is dict or is_typeddict(kind) or is_dataclass(kind):
        return _unfit_table(value, kind, at)
    fits = type(value) is kind or (kind is float and type(value) is int)
    if not fits:
        return _expected(value, at, _named(kind))
    whole = not isinstance(value, str) or not any("\ud800" <= letter <= "\udfff" for letter in value)
    return None if whole else f"{at} holds half a surrogate pair, which is no character"


def _unfit_table(value: object, kind: Kind, at: str) -> str | None:
    if not isinstance(value, dict):
        return _expected(value, at, "a table")
    if _origin(kind) is dict:
        known = dict.fromkeys(value, get_args(kind)[1])
        needed: set[str] = set()
    else:
        known = get_type_hints(kind)
        needed = set(kind.__required_keys__) if is_typeddict(kind) else _needed(kind)
        stranger = next((key for key in value if key not in known), None) if is_dataclass(kind) else None
        if stranger is not None:
            return f"there is no key {_below(at, stranger)}"
    missing = sorted(needed - set(value))
    if missing:
        return f"the key {_below(at, missing[0])} is missing"
    return _first(unfit(value[key], hint, _below(at, key)) for key, hint in known.items() if key in value)


def _origin(kind: Kind) -> object:
    return get_origin(kind)


def _needed(kind: Kind) -> set[str]:
    each = fields(kind)
    return {one.name for one in each if one.default is MISSING and one.default_factory is MISSING}


def _first(found: Iterable[str | None]) -> str | None:
    return next((wrong for wrong in found if wrong is not None), None)


def _below(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key


def _named(kind: Kind) -> str:
    return KINDS.get(kind, "a list" if _origin(kind) is list else "a table")


def _expected(value: object, at: str, said: str) -> str:
    shown = repr(value) if len(repr(value)) <= SHOWN else f"{repr(value)[:SHOWN]}..."
    return f"{at or 'it'} is {shown}, but it must be {said}"


# Checksums of records, which stand in them.


def checksum_of(record: Mapping[str, object]) -> str:
    """CRC-32 of a record without its own checksum."""
    rest = {key: value for key, value in record.items() if key != "checksum"}
    return f"{zlib.crc32(json.dumps(rest, sort_keys=True).encode()):08x}"


def signed(record: Mapping[str, object]) -> Json:
    """A record with its checksum."""
    return {**record, "checksum": checksum_of(record)}


def check_signed(record: Mapping[str, object], where: str, remedy: str) -> None:
    """A record is as it was written; one from before there were checksums has none."""
    if "checksum" in record and record["checksum"] != checksum_of(record):
        raise UserError(f"{where} is damaged, or was changed by hand: {remedy}.")


# Tensors.


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """A safetensors file with its checksum, which appears whole or not at all."""
    kept = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
    partial = path.with_name(f".{path.name}.partial")
    save_tensors(kept, partial, {CHECKSUM: _digest(kept)})
    sync(partial)
    partial.replace(path)


def save_tensors(tensors: Mapping[str, Tensor], path: Path, header: dict[str, str] | None = None) -> None:
    """What safetensors writes; that the system refuses it is an error of the system."""
    try:
        save_file({key: tensor.detach().contiguous() for key, tensor in tensors.items()}, path, header)
    except SafetensorError as error:
        path.unlink(missing_ok=True)
        raise OSError(errno.EIO, str(error), str(path)) from error


def read_tensors(path: Path, remedy: str) -> dict[str, Tensor]:
    """All tensors of a safetensors file, compared with its checksum if it has one."""
    damaged = f"{path} is damaged: {remedy}."
    with readable(path, remedy), path.open("rb"):
        pass
    with in_words(Exception, damaged), safe_open(path, "pt") as file:
        found = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        header: dict[str, str] | None = file.metadata()
    # Older files have no header of their own, or one that others wrote: a damaged one has lost its key.
    require(header is None or header.get(CHECKSUM) == _digest(found) or header == {"format": "pt"}, damaged)
    return found


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """CRC-32 of names, types, shapes and numbers."""
    found = 0
    for key in sorted(tensors):
        tensor = tensors[key]
        found = zlib.crc32(f"{key} {tensor.dtype} {tuple(tensor.shape)}\n".encode(), found)
        found = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data, found)
    return f"{found:08x}"
