"""Small corpora on disk, and the place of the large ones."""

import os
from pathlib import Path

import pytest

import needs
from seqcredit.data.manifest import PrepareOptions
from seqcredit.data.prepare import prepare
from seqcredit.data.prepared import Prepared
from seqcredit.data.text import Example


@pytest.fixture(autouse=True)
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Waiting for the disk is most of the time of a small preparation: only note the inodes that were waited for."""
    inodes: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: inodes.append(os.fstat(descriptor).st_ino))
    return inodes


@pytest.fixture
def real_data() -> Path:
    """The folder of real corpora: SEQCREDIT_DATA, or ../shared/data beside the repository."""
    return needs.real_data()


@pytest.fixture
def several(tmp_path: Path) -> Prepared:
    """200 examples with 1 to 3 references of 1 to 9 words."""
    words = [f"w{i}" for i in range(40)]

    def sentence(i: int) -> str:
        return " ".join(words[(i * 7 + j) % 40] for j in range(1 + i * i % 9))

    examples = [Example(sentence(i), [sentence(i * 3 + r) for r in range(1 + i % 3)]) for i in range(200)]
    prepare({"train": examples, "valid": examples[:7]}, tmp_path / "several", PrepareOptions())
    return Prepared.open(tmp_path / "several")
