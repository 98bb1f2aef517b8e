"""A few updates of every algorithm give what they always gave; `golden.py` says how the file is made."""

import json
from pathlib import Path

import pytest

import golden

KNOWN = json.loads(golden.COMMITTED.read_text())
SIX_DIGITS = 1.1e-5  # a log has six, and another processor rounds the last one otherwise
LATER = 1e-4


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return golden.make_data(tmp_path_factory.mktemp("golden"))


@pytest.mark.slow
@pytest.mark.parametrize("name", golden.PART)
def test_losses_are_what_they_were(name: str, data: dict[str, Path], tmp_path: Path) -> None:
    found = golden.measure(name, golden.CASES[name], data, tmp_path, golden.RECIPES)["losses"]
    assert found.keys() == KNOWN[name].keys()
    for phase, lines in found.items():
        thinned = golden.thinned(lines)
        assert thinned.keys() == KNOWN[name][phase].keys()
        for number, line in thinned.items():
            near, known = SIX_DIGITS if int(number) < 2 else LATER, KNOWN[name][phase][number]
            same = {key: line.get(key) for key in known}  # what is watched besides may be new
            assert same == pytest.approx(known, rel=near, abs=1e-9), f"{phase}, line {number}"


def test_the_file_is_small_and_full() -> None:
    assert golden.COMMITTED.stat().st_size < 60_000
    assert set(KNOWN) == set(golden.PART)
    assert all(len(lines) >= 5 for phases in KNOWN.values() for lines in phases.values())


def test_thinned_keeps_the_first_two_and_every_fifth() -> None:
    lines = [{"loss": float(number)} for number in range(12)]
    assert golden.thinned(lines) == {key: {"loss": float(key)} for key in ("0", "1", "5", "10")}
