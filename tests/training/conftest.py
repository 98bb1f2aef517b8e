"""A few hundred made-up sentences, prepared once."""

from pathlib import Path

import pytest

from seqcredit.data.phrases import phrases
from seqcredit.data.prepare import prepare
from seqcredit.data.prepared import Prepared, PrepareOptions


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "phrases"
    sizes = {"train": 240, "valid": 30, "test": 30}
    prepare({name: phrases(name, size) for name, size in sizes.items()}, folder, PrepareOptions(tokenized=True))
    return folder


@pytest.fixture(scope="session")
def prepared(data: Path) -> Prepared:
    return Prepared.open(data)
