"""Every test runs with the axes of all public signatures checked, and on one thread."""

import os

from jaxtyping import install_import_hook

# Before the first import of seqcredit: shapes and dtypes are enforced here and cost nothing at run time.
if "SEQCREDIT_UNCHECKED" not in os.environ:
    install_import_hook("seqcredit", "beartype.beartype")

# Some virtual machines announce AMX and stop whoever uses it; oneDNN believes them.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import torch

torch.set_num_threads(1)
torch.set_warn_always(True)  # a warning that comes once would fail whichever test happens to be first

pytest_plugins = ["sample_runs"]
