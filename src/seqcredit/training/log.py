"""The log of a run: everything measured, an object a line."""

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from seqcredit.types import Json


class Log:
    """`log.jsonl`, which a resumed run cuts back to where its checkpoint stood."""

    def __init__(self, path: Path, offset: int = 0, writes: bool = True) -> None:
        self.path, self.offset, self.writes = path, offset, writes
        self.copies: list[Callable[[Mapping[str, object]], None]] = []  # who else wants to know
        if writes:
            path.touch()
            os.truncate(path, offset)

    def write(self, entry: Mapping[str, object]) -> None:
        """Add a line; the time stands last."""
        if self.writes:
            timed = {**entry, "time": round(time.time(), 2)}
            line = json.dumps(timed).encode() + b"\n"
            with self.path.open("ab") as file:
                file.write(line)
            self.offset += len(line)
            for copy in self.copies:
                copy(timed)


def log_entries(path: Path) -> list[Json]:
    """The whole lines of a log, which may be being written."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith(b"}")]
