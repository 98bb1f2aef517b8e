"""`python -m fuzz`: bad input for the command line, thousands of cases, a line a finding with what repeats it.

A case is sound if the command works, or refuses in one sentence. Everything else is a finding: a traceback, the net
below the commands (exit code 70), a signal, no end, more than a sentence, or damage that nobody noticed.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from fuzz import world
from fuzz.attacks import ATTACKS, Case, attack, closed
from fuzz.world import Done

LONGEST = 1_000  # characters of a sentence


def judged(case: Case, done: Done) -> str | None:
    """What is wrong with the end of a case; None if nothing is."""
    if done.code is None:
        return "hung"
    if "Traceback (most recent call last)" in done.err:
        return "traceback"
    if done.code == 70:
        return "net"
    if done.code < 0:
        return f"signal {-done.code}"
    if "Warning: " in done.err:
        return "warning"
    if done.code == 130 or "stopped and saved" in done.err:
        return None  # a training that would have taken long, and stopped when it was asked to
    if done.code == 0:
        said = done.out + done.err
        return "unnoticed" if case.refuse and "damaged" not in said else None
    if done.code == 1 and not done.err:  # a sweep with a failed cell, a report that is not up to date
        return None
    # Beside our sentence transformers reports which weights it has not found.
    lines = done.err.removesuffix("\n").split("\n")[-1 if case.kind == "model" else 0 :]
    if (
        done.code not in (1, 2)
        or len(lines) != 1
        or not lines[0].startswith("seqcredit: ")
        or not lines[0].endswith(".")
    ):
        return "not one sentence"
    return "long" if len(lines[0]) > LONGEST else None


def hidden() -> Path | None:
    """A folder that keeps this code from other users: whoever is root lets another one meet what is closed."""
    code = (Path(world.__file__).resolve(), Path(sys.prefix).resolve() / "lib")
    folders = {folder for place in code for folder in place.parents}
    shut = (folder for folder in sorted(folders) if folder.stat().st_mode & 0o005 != 0o005)
    return next(shut, None) if os.getuid() == 0 else None


def main() -> int:
    """The number of findings decides the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("-n", "--cases", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="one of them, with all that it says")
    parser.add_argument("--first", type=int, default=0, help="begin with this one")
    parser.add_argument("--only", nargs="+", default=[], choices=[one.__name__ for one, _ in ATTACKS])
    options = parser.parse_args()
    place, only = hidden(), options.only
    if place and not only:
        only = [one.__name__ for one, _ in ATTACKS if one is not closed]
        print(f"without closed files and folders: other users cannot enter {place}, where this code is", flush=True)
    started, found, kinds, slowest = time.monotonic(), Counter[str](), Counter[str](), 0.0
    world.load()
    stopped: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: stopped.append(number))  # the case at hand is ended first
    with tempfile.TemporaryDirectory(prefix="seqcredit-fuzz-") as folder:
        os.chmod(folder, 0o755)
        whole = Path(folder) / "whole"
        world.make(whole)
        numbers = range(options.first, options.first + options.cases) if options.case is None else [options.case]
        for number in numbers:
            if stopped:
                print(f"stopped before case {number}: --first {number} goes on")
                break
            place = Path(folder) / "place"
            world.copy(whole, place)
            case = attack(options.seed, number, place, only)
            done = world.run(case.words, place, case.nobody)
            kinds[case.kind] += 1
            slowest = max(slowest, done.seconds)
            wrong = judged(case, done)
            if wrong:
                found[wrong] += 1
                chosen = f" --only {' '.join(options.only)}" if options.only else ""
                last = (done.err.strip() or done.out.strip() or "nothing").split("\n")[-1][:160]
                print(
                    f"{wrong}: {case.kind}, {case.spoilt}: seqcredit {' '.join(case.words)[:200]!r}: {last} "
                    f"[PYTHONPATH=tests python -m fuzz --seed {options.seed} --case {number}{chosen}]",
                    flush=True,
                )
            if options.case is not None:
                print(case, done.code, done.out, done.err, sep="\n")
            os.chmod(place, 0o755)
            for path in place.rglob("*"):
                if path.is_dir() and not path.is_symlink():
                    os.chmod(path, 0o755)
            shutil.rmtree(place)
    listed = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    said = ", ".join(f"{count} {wrong}" for wrong, count in found.most_common()) or "none"
    print(
        f"{sum(kinds.values())} cases with seed {options.seed} ({listed}) in {time.monotonic() - started:.0f} s, the "
        f"slowest {slowest:.1f} s; findings: {said}"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
