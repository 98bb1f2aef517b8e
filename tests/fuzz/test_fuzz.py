"""The attack, short: bad inputs, kills and full disks, in processes of their own; and whether the judge can see."""

import contextlib
import json
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz import mutators
from fuzz.__main__ import judged
from fuzz.attacks import Case
from fuzz.world import Done

TESTS = Path(__file__).parents[1]


def attack(module: str, *options: str) -> str:
    """The last line, if nothing was found."""
    environment = {**os.environ, "PYTHONPATH": f"{TESTS.parent / 'src'}{os.pathsep}{TESTS}"}
    line = [sys.executable, "-m", module, *options]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_150_bad_inputs_are_refused_in_a_sentence() -> None:
    assert attack("fuzz", "-n", "150", "--seed", "11").startswith("150 cases with seed 11")


@pytest.mark.slow
def test_20_accidents_leave_nothing_half() -> None:
    assert attack("fuzz.accidents", "-n", "20", "--seed", "12").endswith("; bad: 0")


@pytest.mark.parametrize(
    ("done", "refuse", "wrong"),
    [
        (Done(0, "fine", "", 1.0), False, None),
        (Done(0, "fine", "", 1.0), True, "unnoticed"),
        (Done(0, "It is damaged.", "", 1.0), True, None),
        (Done(2, "", "seqcredit: That is wrong.\n", 1.0), True, None),
        (Done(2, "", "seqcredit: That is\nwrong.\n", 1.0), False, "not one sentence"),
        (Done(2, "", "That is wrong.\n", 1.0), False, "not one sentence"),
        (Done(2, "", f"seqcredit: {'x' * 2_000}.\n", 1.0), False, "long"),
        (Done(70, "", "seqcredit: This should not have happened.\n", 1.0), False, "net"),
        (Done(1, "", "Traceback (most recent call last)\n", 1.0), False, "traceback"),
        (Done(None, "", "", 1.0), False, "hung"),
        (Done(-11, "", "", 1.0), False, "signal 11"),
        (Done(0, "", "x.py:1: RuntimeWarning: odd\n", 1.0), False, "warning"),
    ],
)
def test_the_judge(done: Done, refuse: bool, wrong: str | None) -> None:
    assert judged(Case("kind", [], "", refuse), done) == wrong


def test_another_document_is_another_one() -> None:
    """Nobody could notice a null that became null."""
    given = {"a": None, "b": [], "c": True, "d": 0}
    changed = [json.dumps(mutators.change_tree(random.Random(seed), given)) for seed in range(300)]
    assert json.dumps(given) not in changed
    header = {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "__metadata__": {"crc32": "0"}}
    whole = _tensors(header)
    for seed in range(2_000):
        found = mutators.change_tensors(random.Random(seed), whole)
        with contextlib.suppress(ValueError, struct.error):
            (size,) = struct.unpack("<Q", found[:8])
            document = json.dumps(json.loads(found[8 : 8 + size]), sort_keys=True)
            assert (document, found[8 + size :]) != (json.dumps(header, sort_keys=True), bytes(4))


def _tensors(header: object) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(4)


def test_every_mutator_changes_something_and_is_a_function_of_the_seed() -> None:
    given = {
        mutators.change_bytes: b"some bytes",
        mutators.change_json: b'{"a": [1, "x"], "b": null}',
        mutators.change_lines: b'{"a": 1}\n{"b": 2}\n',
        mutators.change_toml: b'name = "x"\n[actor]\nhidden = 3\n',
    }
    for change, before in given.items():
        after = [change(random.Random(seed), before) for seed in range(60)]
        assert after == [change(random.Random(seed), before) for seed in range(60)]
        assert len(set(after)) > 30
        assert after.count(before) < 6
