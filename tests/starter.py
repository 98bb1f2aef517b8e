"""Commands in processes of their own, which start at once: each is forked from one process that has loaded torch."""

import contextlib
import io
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

Done = CompletedProcess[str]
LOADED = [
    "torch",
    "torch._dynamo",
    "rich.console",
    "sacrebleu",
    "seqcredit.training.trainer",
    "seqcredit.results.record",
]
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(LOADED)
ADD = os.O_WRONLY | os.O_CREAT | os.O_APPEND
STREAMS = (("in", os.O_RDONLY), ("out", ADD), ("err", ADD))


class Command:
    """`seqcredit` with some words, which runs, in a folder if one is given; what it says is there when it is done."""

    def __init__(self, *words: object, stdin: str = "", cwd: Path | None = None, log: Path | None = None) -> None:
        self._place = tempfile.TemporaryDirectory()
        for name, _ in STREAMS:
            if log and name != "in":
                self._file(name).symlink_to(log.resolve())
            else:
                self._file(name).write_text(stdin if name == "in" else "")
        self.words = [*map(str, words)]
        self._process = CONTEXT.Process(target=_run, args=(self.words, self._place.name, str(cwd or Path.cwd())))
        self._process.start()

    def _file(self, name: str) -> Path:
        return Path(self._place.name) / name

    def signal(self, number: int) -> None:
        """Send a signal, unless it is done already."""
        if self._process.exitcode is None and self._process.pid is not None:
            os.kill(self._process.pid, number)

    @property
    def running(self) -> bool:
        """Whether it is not done yet."""
        return self._process.exitcode is None

    def said(self) -> str:
        """All that it has printed so far."""
        return self._file("out").read_text() + self._file("err").read_text()

    def done(self, seconds: float = 600) -> Done:
        """Wait for its end; the exit code is below 0 where a signal ended it."""
        self._process.join(seconds)
        code = self._process.exitcode
        assert code is not None, f"{self.words} has not ended within {seconds:g} s: {self.said()}"
        self._process.close()
        out, err = (self._file(name).read_text() for name in ("out", "err"))
        self._place.cleanup()
        return Done(self.words, code, out, err)


class Begun(Command):
    """The same for a sweep, which asks it as it asks a Popen."""

    def poll(self) -> int | None:
        if not self.running:
            self._place.cleanup()
        return self._process.exitcode

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        self.signal(number)


def begin(command: Sequence[str], log: Path, locks: Sequence[int]) -> Begun:
    """In place of `sweep.begin`; it does not hold the locks, so nothing that is killed may be started so."""
    return Begun(*command, log=log)


def sweep_in(place: Path, *options: str) -> tuple[int, str]:
    """`seqcredit sweep sweep.toml` in a folder, within this process; its cells are processes that start at once."""
    from seqcredit.cli import main
    from seqcredit.experiments import sweep

    said, slow = io.StringIO(), sweep.begin
    sweep.begin = begin
    try:
        with contextlib.chdir(place), contextlib.redirect_stdout(said):
            main(["sweep", "sweep.toml", *options])
    except SystemExit as left:
        return int(left.code or 0), said.getvalue()
    finally:
        sweep.begin = slow
    raise AssertionError("a command leaves by SystemExit")


def run(*words: object, stdin: str = "", cwd: Path | None = None) -> Done:
    """A command from beginning to end."""
    return Command(*words, stdin=stdin, cwd=cwd).done()


def _run(words: list[str], streams: str, cwd: str) -> None:
    """The process itself."""
    for number, (name, mode) in enumerate(STREAMS):
        os.dup2(os.open(Path(streams) / name, mode), number)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
    sys.argv = ["seqcredit", *words]
    os.chdir(cwd)
    from seqcredit.cli import main

    main()
