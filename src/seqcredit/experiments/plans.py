"""The plans of phases by their names on the command line. Heavy imports wait until one is used."""

import importlib
from typing import TYPE_CHECKING

from seqcredit.errors import UserError

if TYPE_CHECKING:
    from seqcredit.experiments.presets import Plan

# Where each is, in this folder.
PLANS = {
    **{name: ("presets", name.upper()) for name in ("mle", "raml", "vaml", "ac", "erac")},
    **{name: ("compared", name.upper()) for name in ("reinforce", "scst", "grpo", "mrt", "mixer", "ocd")},
    "scheduled_sampling": ("compared", "ScheduledSampling"),
    **{name: ("compared", name.upper()) for name in ("a2c", "sac", "pcl", "bso")},
    "professor_forcing": ("compared", "ProfessorForcing"),
}
# Those that learn from references, or know a reward that compares with them alone.
NEED_REFERENCES = ("mle", "raml", "vaml", "mixer", "ocd", "scheduled_sampling", "bso", "professor_forcing")
DO_WITHOUT = tuple(name for name in PLANS if name not in NEED_REFERENCES)


def plan_class(name: str) -> "type[Plan]":
    """A plan by its name."""
    from seqcredit.options import nearest  # the help of all commands does not wait for dataclasses

    if name not in PLANS:
        raise UserError(f"There is no algorithm {name!r}{nearest(name, PLANS, 'there are')}.")
    file, kind = PLANS[name]
    found: type[Plan] = getattr(importlib.import_module(f"seqcredit.experiments.{file}"), kind)
    return found
