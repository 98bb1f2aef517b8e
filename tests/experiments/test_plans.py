"""The plans by their names."""

import subprocess
import sys
from dataclasses import fields

import pytest

import seqcredit as sc
from seqcredit.algorithms import ALGORITHMS, Phase
from seqcredit.commands.tune import plan_of
from seqcredit.errors import UserError
from seqcredit.experiments.plans import DO_WITHOUT, NEED_REFERENCES, PLANS, plan_class
from seqcredit.experiments.presets import Plan

LONGEST = 33
INSTEAD = {
    "mle_weight": 0.0, "with_reference": False, "off_policy": 0, "extra_length": LONGEST, "longest_sample": LONGEST
}  # fmt: skip


def test_every_plan_that_is_public_has_a_name() -> None:
    public = {getattr(sc, name) for name in sc.__all__}
    plans = {each for each in public if isinstance(each, type) and issubclass(each, Plan)}
    assert {plan_class(name) for name in PLANS} == plans
    assert {plan_class(name).__name__.lower() for name in PLANS} == {name.replace("_", "") for name in PLANS}


def test_which_of_them_need_references() -> None:
    learn = [name for name in PLANS if any(phase.learns_references for phase in plan_class(name)().phases(True))]
    assert sorted(learn) == sorted(NEED_REFERENCES)
    assert {*DO_WITHOUT} == {"ac", "erac", "reinforce", "scst", "grpo", "mrt", "a2c", "sac", "pcl"}


@pytest.mark.parametrize("name", DO_WITHOUT)
def test_without_references_none_is_learned_from(name: str) -> None:
    for phase in plan_class(name)().phases(True):
        known = {each.name for each in fields(phase)}
        other = phase.without_references(LONGEST)
        for key in known:
            assert getattr(other, key) == (INSTEAD[key] if key in INSTEAD else getattr(phase, key)), key


def test_who_samples_nothing_stays_as_it_is() -> None:
    kind: type[Phase] = ALGORITHMS["mle"]
    assert kind("m", 0.1).without_references(LONGEST) == kind("m", 0.1)


def test_an_unknown_name_names_the_nearest() -> None:
    assert plan_of("a2c", ["samples=3"]) == sc.A2C(samples=3)
    with pytest.raises(UserError, match=r"^There is no algorithm 'erak'; the nearest is 'erac'\.$"):
        plan_class("erak")


def test_naming_them_imports_nothing_heavy() -> None:
    code = "import sys, seqcredit.commands.tune; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
