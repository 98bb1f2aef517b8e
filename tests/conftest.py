"""Every test runs with the axes of all public signatures checked, and on one thread."""

import os
from collections.abc import Generator

from jaxtyping import install_import_hook

# Before the first import of seqcredit: shapes and dtypes are enforced here and cost nothing at run time.
if "SEQCREDIT_UNCHECKED" not in os.environ:
    install_import_hook("seqcredit", "beartype.beartype")

# For the processes that tests start: threads of small networks only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Some virtual machines announce AMX and stop whoever uses it; oneDNN believes them.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import pytest
import torch

import needs

torch.set_num_threads(1)
torch.set_warn_always(True)  # a warning that comes once would fail whichever test happens to be first

pytest_plugins = ["sample_runs"]


@pytest.fixture(autouse=True)
def one_thread() -> Generator[None, None, None]:
    """Commands that run within a test may take more; the next test would be slow, and its numbers others."""
    yield
    torch.set_num_threads(1)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None, None, None]:
    """The last lines say what tests found that is no failure, how many could not run here, and why."""
    yield
    for report in terminalreporter.stats.get("passed", []):
        for name, text in report.user_properties:
            if name == needs.TOLD:
                terminalreporter.write_line(text)
    skipped = [report.longrepr[-1] for report in terminalreporter.stats.get("skipped", [])]
    if skipped:
        terminalreporter.write_line(needs.told(skipped))
