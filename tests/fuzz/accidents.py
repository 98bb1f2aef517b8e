"""`python -m fuzz.accidents`: commands that are killed, or whose disk is full or closed, at random moments.

SIGKILL comes at a random one of the moments at which Python asks the system to open, rename, make or remove something,
so that most of them are in the middle of writing; or after a random time. A disk is full when no file may grow beyond a
random size (the system refuses the write itself), and closed when the system refuses from a random moment on. Then the
command is given again: the end is the same, byte for byte, as without an accident.
"""

import argparse
import errno
import json
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fuzz import world

OFTEN = ["--checkpoint-minutes", "0", "--log-every", "1"]
MOMENTS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "shutil.rmtree")
TIMES = {
    "time",
    "cpu",
    "seconds",
    "seconds_of_search",
    "peak_memory_mb",
    "started",
    "command",
    "checksum",
    "data",
}


class Work(NamedTuple):
    """A command, what it makes, and what is given when it is there after an accident."""

    words: list[str]
    out: str
    again: list[str]


def train(name: str, *more: str) -> Work:
    """A training, which is resumed."""
    words = ["train", f"{name}.toml", "--data", "data", "--out", "new", *more, *OFTEN]
    return Work(words, "new", ["resume", "new", *OFTEN])


FILES = [word for s in ("train", "valid", "test") for word in (f"--{s}", f"raw/{s}.de", f"raw/{s}.en")]
RECORD = ["record", "runs/erac-1", "new/cell.json", "--against", "runs/mle-1"]
REPORT = ["report", "report.toml", "--out", "new/R.md"]
WORKS = (
    train("erac"),
    train("vaml"),
    train("mle"),
    train("erac", "--init-from", "runs/mle-1"),
    Work(["prepare", "new", *FILES], "new", ["prepare", "new", *FILES, "--overwrite"]),
    Work(["export", "runs/mle-1", "new"], "new", []),
    Work(RECORD, "new", RECORD),
    Work(REPORT, "new", REPORT),
    Work(["evaluate", "runs/mle-1"], "runs/mle-1", ["evaluate", "runs/mle-1"]),
)


def harvest(place: Path) -> dict[str, object]:
    """What a command has made, without times; what only helps to resume does not count."""
    found: dict[str, object] = {}
    for path in sorted(place.rglob("*")):
        name = str(path.relative_to(place))
        if path.is_dir() or "checkpoints" in name or path.name == "log.cut.jsonl":
            continue
        if path.suffix == ".json":
            found[name] = _timeless(json.loads(path.read_text()))
        elif path.name == "log.jsonl":
            found[name] = [_timeless(json.loads(line)) for line in path.read_text().splitlines()]
        else:
            found[name] = path.read_bytes()
    return found


def _timeless(record: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in record.items() if key not in TIMES}


# Accidents, which begin in the process that is to have them.


def killed_at(moment: int) -> Callable[[], None]:
    """By its own hand, where the system is asked for the so-manieth time."""
    return lambda: _at(moment, lambda: os.kill(os.getpid(), signal.SIGKILL))


def killed_after(seconds: float) -> Callable[[], None]:
    """By a clock."""

    def begin() -> None:
        threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()

    return begin


def full_at(size: int) -> Callable[[], None]:
    """No file grows beyond a size: the system refuses the write."""

    def begin() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return begin


def closed_at(moment: int) -> Callable[[], None]:
    """From a moment on nothing may be written."""

    def refuse() -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    return lambda: _at(moment, refuse, forever=True)


def _at(moment: int, happens: Callable[[], None], forever: bool = False) -> None:
    count = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event in MOMENTS and _writes(event, arguments):
            count += 1
            if count == moment or (forever and count > moment):
                happens()

    sys.addaudithook(hook)


def _writes(event: str, arguments: tuple[object, ...]) -> bool:
    if event != "open":
        return True
    path, _, flags = (*arguments, None, None)[:3]
    writes = isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    return writes and not str(path).startswith("/dev/")


def accident(rng: random.Random) -> tuple[str, Callable[[], None]]:
    """One of them, and its name."""
    chance = rng.random()
    if chance < 0.45:
        moment = rng.randrange(1, 60)
        return f"killed at moment {moment}", killed_at(moment)
    if chance < 0.65:
        seconds = rng.uniform(0.02, 0.6)
        return f"killed after {seconds:.2f} s", killed_after(seconds)
    if chance < 0.85:
        size = rng.choice((700, 1_500, 3_000, 9_000))
        return f"full at {size} bytes a file", full_at(size)
    moment = rng.randrange(1, 60)
    return f"closed at moment {moment}", closed_at(moment)


def wrong(work: Work, place: Path, whole: dict[str, object], name: str, begin: Callable[[], None]) -> str | None:
    """What is wrong after an accident and another attempt; None if nothing is."""
    done = world.run(work.words, place, before=begin)
    if name.startswith("killed"):
        if done.code not in (0, -signal.SIGKILL):
            return f"ended with {done.code}: {done.err}"
    elif done.code not in (0, 2) or (done.code == 2 and len(done.err.splitlines()) != 1):
        return f"ended with {done.code}: {done.err}"
    there = (place / work.out).exists()
    words = work.again if there else work.words
    if words:
        done = world.run(words, place)
        if done.code != 0:
            return f"{' '.join(words)} ended with {done.code}: {done.err}"
    found = harvest(place / work.out)
    differ = [key for key in found.keys() | whole.keys() if found.get(key) != whole.get(key)]
    left = [key for key in differ if not Path(key).name.startswith(".")]  # half a file of its own name is nobody's
    return f"other than without it: {', '.join(sorted(left))}" if left else None


def main() -> int:
    """A line for each that did not end well."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.accidents", description=__doc__)
    parser.add_argument("-n", "--cases", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int)
    options = parser.parse_args()
    world.load()
    started, kinds, bad, whole = time.monotonic(), Counter[str](), 0, dict[int, dict[str, object]]()
    with tempfile.TemporaryDirectory(prefix="seqcredit-accidents-") as folder:
        os.chmod(folder, 0o755)
        world.make(Path(folder) / "world")
        for number in range(options.cases) if options.case is None else [options.case]:
            rng = random.Random(f"{options.seed} {number}")
            which = number % len(WORKS)
            place = Path(folder) / f"case-{number}"
            if which not in whole:
                world.copy(Path(folder) / "world", Path(folder) / f"whole-{which}")
                done = world.run(WORKS[which].words, Path(folder) / f"whole-{which}")
                assert done.code == 0, done
                whole[which] = harvest(Path(folder) / f"whole-{which}" / WORKS[which].out)
            world.copy(Path(folder) / "world", place)
            name, begin = accident(rng)
            kinds[name.split()[0]] += 1
            found = wrong(WORKS[which], place, whole[which], name, begin)
            if found:
                bad += 1
                again = f"PYTHONPATH=tests python -m fuzz.accidents --seed {options.seed} --case {number}"
                print(f"{' '.join(WORKS[which].words)}: {name}: {found} [{again}]", flush=True)
    listed = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    said = f"{sum(kinds.values())} accidents with seed {options.seed} ({listed})"
    print(f"{said} in {time.monotonic() - started:.0f} s; bad: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
