"""Whether this processor can compute products in bf16.

Some virtual machines announce AMX and stop every process that uses it; oneDNN believes them. Nobody can ask but a
process that may die of it.
"""

import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch

from seqcredit.algorithms import Phase
from seqcredit.errors import UserError

PRODUCT = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a"


def check(phases: Sequence[Phase], device: torch.device | str) -> None:
    """No phase asks for products that would end the process."""
    wanted = [phase.name for phase in phases if phase.precision == "bf16"]
    if wanted and torch.device(device).type == "cpu" and announces_amx() and not survives():
        raise UserError(
            f"{wanted[0]}: precision is bf16, but this machine stops processes that use AMX though it announces it; "
            "set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment, or precision to float32."
        )


def announces_amx() -> bool:
    """Whether Linux says that the processor has AMX."""
    try:
        return " amx" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


@cache
def survives() -> bool:
    """Whether a process that multiplies in bf16 lives: one that a signal has ended tells by its exit code."""
    return subprocess.run([sys.executable, "-c", PRODUCT], capture_output=True, check=False).returncode >= 0
