"""How a file is spoilt: byte by byte, or in a way that knows what kind of file it is. All is a function of a seed.

Every mutator takes a `random.Random` and what there was, and gives something else.
"""

import json
import random
import struct
from collections.abc import Callable, Iterator

Mutator = Callable[[random.Random, bytes], bytes]
Place = tuple[str | int, ...]  # the way to a value of a JSON document

WORDS = ("", " ", "\x00", "\n", "a\tb", "é", "\u2028", "nan", "null", "x" * 70_000, "../..", "/", "%s", "{}", "[" * 9)
NUMBERS = (0, -1, 1, 2**31, 2**63, 10**30, 1e308, 1e-320, -0.0, 0.5, float("nan"), float("inf"), float("-inf"))
VALUES: tuple[object, ...] = (*WORDS, *NUMBERS, None, True, False, [], {}, [[]], [None], {"": None}, ["a", 1], "\ud800")


def change_bytes(rng: random.Random, data: bytes) -> bytes:
    """One thing that disks, transfers and editors do to a file."""
    ways = (_flip, _flip, _cut, _empty, _insert, _remove, _zero, _double, _swap, _replace)
    for _ in range(20):
        found = rng.choice(ways)(rng, data)
        if found != data:
            return found
    return data + b"\x00"


def _flip(rng: random.Random, data: bytes) -> bytes:
    """One bit."""
    if not data:
        return b"\x01"
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _empty(rng: random.Random, data: bytes) -> bytes:
    return b""


def _insert(rng: random.Random, data: bytes) -> bytes:
    place, what = (
        rng.randrange(len(data) + 1),
        rng.choice((b"\xff", b"\x00", b"\n", b"\r", b"\xef\xbb\xbf", b'"', b"\t")),
    )
    return data[:place] + what * rng.choice((1, 1, 3, 5_000)) + data[place:]


def _remove(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[:start] + data[start + rng.choice((1, 4, 64, 1_000)) :]


def _zero(rng: random.Random, data: bytes) -> bytes:
    start, size = rng.randrange(len(data) + 1), rng.choice((1, 16, 512))
    return data[:start] + b"\x00" * len(data[start : start + size]) + data[start + size :]


def _double(rng: random.Random, data: bytes) -> bytes:
    return data + data[rng.randrange(len(data) + 1) :]


def _swap(rng: random.Random, data: bytes) -> bytes:
    one, other = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    return data[other:] + data[one:other] + data[:one]


def _replace(rng: random.Random, data: bytes) -> bytes:
    return rng.randbytes(rng.choice((1, 8, 300)))


# JSON.


def places(value: object, at: Place = ()) -> Iterator[Place]:
    """The way to every value of a document, the whole of it first."""
    yield at
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*at, key))


def lookup(value: object, place: Place) -> object:
    """What stands at a place."""
    for key in place:
        value = value[key]  # type: ignore[index]
    return value


def put(value: object, place: Place, new: object) -> object:
    """The document with another value at a place."""
    if not place:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)  # type: ignore[call-overload]
    copy[place[0]] = put(copy[place[0]], place[1:], new)
    return copy


def change_tree(rng: random.Random, value: object) -> object:
    """One value of a document replaced, removed, renamed, wrapped or nested, so that it is another document."""
    before = json.dumps(value, sort_keys=True)
    while True:
        found = _changed(rng, value)
        if json.dumps(found, sort_keys=True) != before:
            return found


def _changed(rng: random.Random, value: object) -> object:
    place = rng.choice(list(places(value)))
    old = lookup(value, place)
    way = rng.randrange(10)
    if way < 6:
        return put(value, place, rng.choice(VALUES))
    if way == 6:
        return put(value, place, [old])
    if way == 7:
        return put(value, place, rng.choice(({"a": old}, [old, old], str(old))))
    if not place:
        return [value]
    parent, key = lookup(value, place[:-1]), place[-1]
    if isinstance(parent, dict):
        rest = {name: child for name, child in parent.items() if name != key}
        return put(value, place[:-1], rest if way == 8 else {**rest, f"{key}x": old})
    assert isinstance(parent, list)
    assert isinstance(key, int)
    return put(value, place[:-1], parent[:key] + parent[key + 1 :] if way == 8 else [*parent, old])


def change_type(rng: random.Random, value: object) -> tuple[object, Place]:
    """One value that is no table becomes one of another type: whoever reads it must refuse."""
    leaves = [place for place in places(value) if not isinstance(lookup(value, place), dict | list)]
    place = rng.choice(leaves)
    others = [new for new in (None, 7, "seven", [1], {"a": 1}, True) if type(new) is not type(lookup(value, place))]
    return put(value, place, rng.choice(others)), place


def change_json(rng: random.Random, data: bytes) -> bytes:
    """A document of JSON, half of the time byte by byte."""
    if rng.random() < 0.4:
        return change_bytes(rng, data)
    if rng.random() < 0.05:
        return b"[" * 100_000
    return json.dumps(change_tree(rng, json.loads(data))).encode()


def change_lines(rng: random.Random, data: bytes) -> bytes:
    """Lines of JSON: one of them, or their order."""
    lines = data.splitlines(keepends=True)
    if rng.random() < 0.4 or not lines:
        return change_bytes(rng, data)
    number = rng.randrange(len(lines))
    if rng.random() < 0.2:
        return b"".join(lines[:number] + lines[number + 1 :])
    changed = json.dumps(change_tree(rng, json.loads(lines[number]))).encode() + b"\n"
    return b"".join([*lines[:number], changed, *lines[number + 1 :]])


# TOML.

LITERALS = (
    *('""', "0", "-1", "1", "nan", "inf", "-inf", "1e400", "1e-320", "2147483648", "9" * 19, "9" * 400, "9" * 5_000),
    *("0x7fffffffffffffff", "true", "false", "[]", "[1]", "{}", "{a=1}", "[[[[1]]]]", "[" * 5_000, "1979-05-27"),
    *(
        '"x"',
        "'" + "x" * 3_000 + "'",
        '"\\u0000"',
        '"../x"',
        '"a:b"',
        '"os:system"',
        '"no_such:f"',
        '"é"',
        "''",
        "=",
        "1_0",
    ),
    *('"mle"', '"edit"', '"float16"', "1e-6", "1000.0", "1e30", "0.5", "3", "300", '"/"', '"\\n"', "[[]]"),
)


def change_toml(rng: random.Random, data: bytes) -> bytes:
    """A line of TOML gets another value or key, goes, or comes twice; sometimes byte by byte."""
    if rng.random() < 0.25:
        return change_bytes(rng, data)
    lines = data.decode().splitlines()
    keyed = [number for number, line in enumerate(lines) if " = " in line]
    number = rng.choice(keyed) if keyed and rng.random() < 0.8 else rng.randrange(len(lines))
    key, _, value = lines[number].partition(" = ")
    changed = {
        0: [],
        1: [lines[number]] * 2,
        2: [f"{rng.choice(('', 'é', 'phase', 'name', key[:-1], key + '.x', '[' + key))} = {value}"],
        3: [f"[{rng.choice(('actor', 'phase', 'x', '', '[phase'))}]", lines[number]],
    }
    new = changed.get(rng.randrange(12), [f"{key} = {rng.choice(LITERALS)}"])
    return "\n".join([*lines[:number], *new, *lines[number + 1 :], ""]).encode()


# Tensors.


def change_tensors(rng: random.Random, data: bytes) -> bytes:
    """A safetensors file: its bytes, its header, or the length of that."""
    if rng.random() < 0.5 or len(data) < 8:
        return change_bytes(rng, data)
    (size,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    if rng.random() < 0.2:
        wrong = rng.choice((0, 1, size - 1, size + 1, 2**31, 2**63, 2**64 - 1))
        return struct.pack("<Q", wrong) + data[8:]
    names = [name for name in header if name != "__metadata__"]
    if names and rng.random() < 0.3:  # the same shapes and another name, dtype or place
        key = rng.choice(names)
        entry = header.pop(key)
        kept = entry["dtype"]
        entry["dtype"] = rng.choice(("F16", "I32", "F64", "X", kept))
        others = (f"{key}x", "actor.x", "")
        header[rng.choice((key, *others) if entry["dtype"] != kept else others)] = entry
    else:
        header = change_tree(rng, header)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body
