"""bf16 where it can be computed, and a sentence where it would end the process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from seqcredit.algorithms import Mle
from seqcredit.errors import UserError
from seqcredit.training import precision

PHASES = [Mle("first", 0.1), Mle("second", 0.1, precision="bf16")]
SENTENCE = r"^second: precision is bf16, but this machine stops .* ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environ"


def test_a_machine_that_dies_of_it_gets_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    code = f"import os; os.kill(os.getpid(), {int(signal.SIGILL)})"
    monkeypatch.setattr(precision, "announces_amx", lambda: True)
    monkeypatch.setattr(precision, "PRODUCT", code)
    precision.survives.cache_clear()
    with pytest.raises(UserError, match=SENTENCE):
        precision.check(PHASES, "cpu")
    precision.check(PHASES[:1], "cpu")
    precision.check(PHASES, "cuda")
    monkeypatch.setattr(precision, "PRODUCT", "pass")
    precision.survives.cache_clear()
    precision.check(PHASES, "cpu")
    precision.survives.cache_clear()


@pytest.mark.slow
def test_here_a_run_in_bf16_works_or_says_why_not(data: Path, tmp_path: Path) -> None:
    """Without the variable that the tests set: whatever machine this is, no process dies."""
    recipe = tmp_path / "a.toml"
    networks = "[actor]\nembedding = 64\nhidden = 64\n"
    phase = '[[phase]]\nobjective = "mle"\nlearning_rate = 0.1\nbatch_size = 64\nupdates = 2\nprecision = "bf16"\n'
    recipe.write_text(f'name = "a"\nlongest_output = 3\n{networks}{phase}')
    words = ["train", str(recipe), "--data", str(data), "--out", str(tmp_path / "run")]
    plain = {key: value for key, value in os.environ.items() if key != "ONEDNN_MAX_CPU_ISA"}
    line = [sys.executable, "-m", "seqcredit", *words]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=plain)
    assert done.returncode in (0, 2), done
    assert done.returncode == 0 or "precision is bf16, but this machine stops processes that use AMX" in done.stderr
