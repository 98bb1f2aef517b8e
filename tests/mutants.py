"""Does the suite notice? A mutant is the package with one deliberate error; some test of the file it is in must fail.

    python tests/mutants.py                         all of them
    python tests/mutants.py losses rewards/         those of files whose name contains one of the words
    python tests/mutants.py --sample 20 --seed TEXT as many as that, chosen by the text

`mutants_operators.py` makes errors from the syntax tree of a file, `mutants_special.py` holds those that no rule makes
and those that change nothing. A mutant stands in a copy of the package and is tested in a forked process, so that torch
is loaded only once. The tests of a file are those in its mirror image below tests/.
"""

import argparse
import compileall
import gc
import hashlib
import importlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import Phase, settings

import needs
from mutants_operators import mutations
from mutants_special import SPECIAL, equivalent

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "seqcredit"
AT_ONCE = 2
SECONDS = 3.0  # that a mutant takes, about
CPU_SECONDS, WALL_SECONDS = 150, 600  # an endless loop is noticed
# What takes its time to import, before the fork.
LOADED = ("torch", "hypothesis", "jaxtyping", "numpy", "sacrebleu", "safetensors.torch", "rich", "fastapi.testclient",
          "matplotlib.figure", "PIL.Image", "transformers.models.gpt2.modeling_gpt2")  # fmt: skip
UNLOADED = ("cacheprovider", "anyio", "xdist", "unraisableexception")  # plugins that take time and do nothing here

FOLDERS = ("credit", "rewards", "models", "search", "algorithms", "training")
FILES = (
    "draws.py", "types.py", "named.py", "products.py",
    "experiments/plan.py", "experiments/entries.py", "experiments/forecast.py", "experiments/progress.py",
    "experiments/sweep.py", "experiments/recipe.py",
    "results/significance.py", "results/tables.py", "results/layouts.py", "results/cells.py",
    "results/record.py", "results/report.py", "results/plots.py", "results/headroom.py",
    "inspect/numbers.py", "inspect/examiners.py", "inspect/subjects.py", "inspect/page.py", "inspect/app.py",
    "inspect/desk.py", "inspect/watch.py",
)  # fmt: skip
# Files of which not every error is caught yet. What survives of theirs, the special ones apart, is listed, and is a
# failure only where it is more than half. In all other files every survivor is a failure.
OPEN = (
    "algorithms/a2c.py", "algorithms/along.py", "algorithms/bso.py", "algorithms/erac.py", "algorithms/exact.py",
    "algorithms/grpo.py", "algorithms/leash.py", "algorithms/mixer.py", "algorithms/mle.py", "algorithms/mrt.py",
    "algorithms/ocd.py", "algorithms/pcl.py", "algorithms/phase.py", "algorithms/professor_forcing.py",
    "algorithms/proposing.py", "algorithms/reinforce.py", "algorithms/rollout.py", "algorithms/sac.py",
    "algorithms/sampling.py", "algorithms/scheduled_sampling.py", "algorithms/soft_q.py", "algorithms/vaml.py",
    "credit/drawn.py", "credit/fused.py", "credit/losses.py", "experiments/plan.py", "experiments/progress.py",
    "experiments/recipe.py", "experiments/sweep.py", "inspect/app.py", "inspect/desk.py", "inspect/examiners.py",
    "inspect/numbers.py", "inspect/page.py", "inspect/subjects.py", "inspect/watch.py", "models/build.py",
    "models/cache.py", "models/hub.py", "models/huggingface.py", "models/judge.py", "models/policy.py",
    "models/transformer.py", "models/twin.py", "models/wrapped.py", "models/writer.py", "results/cells.py",
    "results/headroom.py", "results/layouts.py", "results/plots.py", "results/record.py", "results/report.py",
    "rewards/metrics.py", "search/beam.py", "search/guided.py", "search/sample.py", "training/boards.py",
    "training/checkpoints.py", "training/decoding.py", "training/learner.py", "training/log.py",
    "training/parallel.py", "training/precision.py", "training/processes.py", "training/shards.py",
    "training/status.py", "training/trainer.py", "training/validation.py", "training/watch.py",
    "training/weights.py",
)  # fmt: skip
# Files whose tests fail in a forked process, with nothing changed too: no sample has them.
UNFORKED = ("training/parallel.py", "training/processes.py", "training/shards.py")
# Tests that stand elsewhere than in the mirror image, of files whose name begins so.
ALSO = {
    "algorithms/__init__.py": "algorithms/test_own.py",
    "credit/tables.py": "credit/test_fused.py",
    "credit/values.py": "credit/test_traces.py",
    "credit/pieces.py": "credit/test_fused.py",
    "experiments/entries.py": "experiments/test_plan.py",
    "experiments/progress.py": "experiments/test_sweep.py",
    "inspect/desk.py": "inspect/test_app.py",
    "inspect/examiners.py": "inspect/test_numbers.py",
    "inspect/subjects.py": "inspect/test_numbers.py",
    "rewards/": "rewards/test_prefixes.py",  # what holds of every reward
}


class Mutant(NamedTuple):
    """An error: where it is, what made it, the expression before and after, and the file with it."""

    file: str  # below the package
    line: int
    column: int
    operator: str
    before: str
    after: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column} {self.change}"

    @property
    def change(self) -> str:
        """Which operator, what it found, what it made."""
        return f"{self.operator}: {self.before} -> {self.after}"


class Verdict(NamedTuple):
    """pytest's exit code, 1 being a failed test, or minus the signal that ended it; and which test failed first."""

    code: int
    failed: str

    @property
    def word(self) -> str:
        stopped = -self.code in (signal.SIGXCPU, signal.SIGKILL)
        words = {0: "SURVIVED"} | dict.fromkeys((1, 2, 3, 4), "caught")  # 2 to 4: nothing could be imported
        return "endless" if stopped else words.get(self.code, f"BROKEN {self.code}")


class Job(NamedTuple):
    """A file of the package, what stands in it, and the tests to run."""

    file: str
    text: str
    tests: list[str]


# --- which -----------------------------------------------------------------------------------------------------------


def files() -> list[str]:
    """The files that have mutants."""
    missing = [file for file in (*FILES, *OPEN) if not (SOURCE / file).is_file()]
    if missing:
        raise FileNotFoundError(f"{', '.join(missing)}: FILES and OPEN name what src/seqcredit has not.")
    inside = [path for folder in FOLDERS for path in sorted((SOURCE / folder).rglob("*.py"))]
    paths = [*inside, *(SOURCE / file for file in FILES)]
    return [str(path.relative_to(SOURCE)) for path in paths]


def mutants(words: Sequence[str] = ()) -> list[Mutant]:
    """All of them, or those of files whose name contains one of the words; what changes nothing is left out."""
    found = []
    for file in files():
        if not words or any(word in file for word in words):
            lines = (SOURCE / file).read_text().splitlines()
            made = [Mutant(file, *one) for one in mutations("\n".join(lines) + "\n")]
            found += [one for one in made if not equivalent(file, lines[one.line - 1], one.change)]
    special = [Mutant(one.file, *one.applied((SOURCE / one.file).read_text())) for one in SPECIAL]
    return found + [m for m in special if not words or any(word in m.file for word in words)]


def sample(found: Sequence[Mutant], size: int, seed: str) -> list[Mutant]:
    """Some of them, chosen by the seed alone: the same on every machine."""
    return sorted(found, key=lambda one: hashlib.sha256(f"{seed} {one}".encode()).digest())[:size]


def is_ready(mutant: Mutant) -> bool:
    """Whether it may be in a sample. Without a browser nobody can look at a script."""
    return mutant.file not in UNFORKED and (not mutant.file.endswith(".js") or needs.browser() is not None)


def is_open(mutant: Mutant) -> bool:
    """Whether it may survive."""
    return mutant.file in OPEN and mutant.operator != "special"


def is_enough(wanted: Sequence[Mutant], survivors: Sequence[Mutant]) -> bool:
    """Whether the tests catch what they must: all errors outside of the open files, half of those within."""
    return all(map(is_open, survivors)) and 2 * len(survivors) <= sum(map(is_open, wanted))


def tests_of(file: str) -> list[Path]:
    """The tests in the mirror image of a file, and those elsewhere that are its own too."""
    mirror = Path(file).with_name(f"test_{Path(file).stem}.py")
    names = [str(mirror), *(also for start, also in ALSO.items() if file.startswith(start))]
    return [ROOT / "tests" / name for name in dict.fromkeys(names) if not name.endswith("test___init__.py")]


# --- tried -----------------------------------------------------------------------------------------------------------


class _Note:
    """Writes down the first test that fails."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.path.exists():
            self.path.write_text(report.nodeid)


def run_tests(folder: Path, tests: list[str]) -> int:
    """pytest's exit code for `tests` with the package of that folder; the process ends with it."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 10))
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), str(ROOT / "tests")])  # for commands that tests start
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    os.chdir(ROOT)
    plugins = [word for name in UNLOADED for word in ("-p", f"no:{name}")]
    options = ["-x", "-q", *plugins, "-m", "not slow", "-W", "ignore:Module already imported"]
    return int(
        pytest.main([*options, f"--basetemp={folder / 'temporary'}", *tests], plugins=[_Note(folder / "failed")])
    )


def start(job: Job, package: Path, folder: Path) -> int:
    """Copy the package, which is compiled, with another text for one file, and fork a process that tests it."""
    shutil.copytree(package, folder / "seqcredit", copy_function=os.link)
    (folder / "seqcredit" / job.file).unlink()
    (folder / "seqcredit" / job.file).write_text(job.text)
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.setsid()  # so that what the tests start ends with them
            code = run_tests(folder, job.tests)
        finally:
            os._exit(code)
    return child


def verdicts(jobs: Sequence[Job]) -> Iterator[tuple[int, Verdict]]:
    """The number of each job and what pytest says of it, in the order in which they end."""
    waiting, running = list(enumerate(jobs))[::-1], dict[int, tuple[int, float]]()
    with tempfile.TemporaryDirectory() as scratch:
        package = Path(scratch) / "seqcredit"
        shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(package, quiet=1)
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                number, job = waiting.pop()
                running[start(job, package, Path(scratch) / str(number))] = number, time.monotonic() + WALL_SECONDS
            child, status = os.waitpid(-1, os.WNOHANG)
            if child not in running:
                for late in [pid for pid, (_, deadline) in running.items() if time.monotonic() > deadline]:
                    os.killpg(late, signal.SIGKILL)
                time.sleep(0.02)
                continue
            number, _ = running.pop(child)
            folder = Path(scratch) / str(number)
            note = folder / "failed"
            yield number, Verdict(os.waitstatus_to_exitcode(status), note.read_text() if note.exists() else "")
            shutil.rmtree(folder, ignore_errors=True)


def load() -> None:
    """What the tests import, once and for all of them."""
    os.environ["SEQCREDIT_UNCHECKED"] = "1"  # a mutant must fail by its numbers, not by its shapes; and it is faster
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in LOADED:
            importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)
    phases = [Phase.explicit, Phase.generate]  # an example that fails is enough, it need not be the smallest
    settings.register_profile("mutants", derandomize=True, database=None, deadline=None, phases=phases)
    settings.load_profile("mutants")
    gc.freeze()  # what is loaded stays: no process looks through it again


def tried(wanted: Sequence[Mutant]) -> list[Verdict]:
    """What pytest says of each, printed as it comes."""
    found = [Verdict(99, "")] * len(wanted)
    jobs = [Job(m.file, m.text, [str(path) for path in tests_of(m.file)]) for m in wanted]
    for done, (number, verdict) in enumerate(verdicts(jobs), 1):
        found[number] = verdict
        by = f" by {verdict.failed.split('::')[-1]}" if verdict.failed else ""
        print(f"{done}/{len(wanted)} {verdict.word} {wanted[number]}{by}", flush=True)
    return found


def healthy(wanted: Sequence[Mutant], found: Sequence[Verdict]) -> bool:
    """Whether the tests that caught something pass with nothing changed; else they have proved nothing."""
    catchers: dict[str, set[str]] = {}
    for mutant, verdict in zip(wanted, found, strict=True):
        whole = {str(path) for path in tests_of(mutant.file)}  # where nothing could be imported, or nothing ended
        catchers.setdefault(mutant.file, set()).update([verdict.failed] if verdict.failed else whole)
    jobs = [Job(file, (SOURCE / file).read_text(), sorted(tests)) for file, tests in catchers.items()]
    broken = [jobs[number].file for number, verdict in verdicts(jobs) if verdict.code != 0]
    if broken:
        print(f"The tests of {', '.join(broken)} fail with nothing changed: mend them first.")
    return not broken


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Deliberate errors that the tests must notice.")
    parser.add_argument("words", nargs="*", help="parts of file names")
    parser.add_argument("--sample", type=int, metavar="N", help="only so many")
    parser.add_argument("--seed", default="0", metavar="TEXT", help="what chooses the sample, as the commit")
    parser.add_argument("--list", action="store_true", help="print them and do nothing")
    asked = parser.parse_args(words)
    wanted = mutants(asked.words)
    if asked.sample is not None:
        wanted = sample([m for m in wanted if is_ready(m)], asked.sample, asked.seed)
    print(f"{len(wanted)} mutants, about {len(wanted) * SECONDS / AT_ONCE / 60:.0f} minutes", flush=True)
    if asked.list:
        print(*wanted, sep="\n")
        return 0
    load()
    found = tried(wanted)
    bad = [(m, v) for m, v in zip(wanted, found, strict=True) if v.word not in ("caught", "endless")]
    for mutant, verdict in bad:
        line = (SOURCE / mutant.file).read_text().splitlines()[mutant.line - 1].strip()
        print(f"\n{verdict.word} {mutant.file}:{mutant.line}: {line}\n    {mutant.change}")
    print(f"{len(wanted) - len(bad)} of {len(wanted)} mutants caught")
    return 0 if wanted and is_enough(wanted, [m for m, _ in bad]) and healthy(wanted, found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
