"""Two processes train a run, and one of them dies: the other ends in a sentence, and the run can be resumed."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import starter
from sweeping import ERAC


@pytest.mark.slow
@pytest.mark.parametrize("dies", [1])
def test_the_other_process_ends_within_a_minute(dies: int, data: Path, tmp_path: Path) -> None:
    given, out = tmp_path / "recipe.toml", tmp_path / "run"
    given.write_text(ERAC.replace("epochs = 8", "epochs = 60"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    words = ["train", str(given), "--data", str(data), "--out", str(out), "--checkpoint-minutes", "0"]
    line = [sys.executable, "-m", "seqcredit", *words]
    both = [
        subprocess.Popen(
            line,
            env={**os.environ, **group, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    try:
        while not list((out / "checkpoints").glob("0*5")):
            assert all(process.poll() is None for process in both)
            time.sleep(0.05)
        both[dies].send_signal(signal.SIGKILL)
        _, said = both[1 - dies].communicate(timeout=60)
    finally:
        for process in both:
            process.kill()
            process.wait()
            assert process.stderr is not None
            process.stderr.close()
    assert both[1 - dies].returncode == 2
    assert "seqcredit: Another process of this training has ended: look at what it said, then resume the run." in said
    assert "Traceback" not in said
    process = starter.Command("resume", out, "--log-every", 1)
    while process.running and "actor_critic" not in (out / "log.jsonl").read_text():
        time.sleep(0.05)
    process.signal(signal.SIGINT)
    assert "stopped and saved" in process.done().stderr
