"""Options: every value is checked, whoever gives it, and what is wrong is one sentence."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, fields, replace
from math import inf, nan
from typing import Literal

import pytest

from seqcredit import options
from seqcredit.algorithms import ALGORITHMS, ActorCritic, Critic, Mle, Raml, SoftQ, Vaml
from seqcredit.errors import UserError
from seqcredit.models.build import LSTM
from seqcredit.options import ABOVE_0, EVEN, FROM_1, SHARE, Feeding, Options, build, checked, option, presets, required
from seqcredit.rewards.payoff import Payoff

# As a user has it: without the checks of all signatures, which would speak first here.
WRONG = {
    "Mle('x', -1.0)": "Mle: learning_rate is -1.0, but it must be above 0 and finite.",
    "Mle('x', 0)": "Mle: learning_rate is 0, but it must be above 0 and finite.",
    "Mle('x', float('nan'))": "Mle: learning_rate is nan, but it must be above 0 and finite.",
    "Mle('x', float('inf'))": "Mle: learning_rate is inf, but it must be above 0 and finite.",
    "Mle(3, 0.1)": "Mle: name is 3, but it must be text.",
    "Mle('x', True)": "Mle: learning_rate is True, but it must be a number.",
    "Mle('x', 0.1, optimizer='nonsense')": "Mle: optimizer is 'nonsense', but it must be one of sgd, adam, adamw.",
    "Mle('x', 0.1, optimizer=None)": "Mle: optimizer is None, but it must be one of sgd, adam, adamw.",
    "Mle('x', 0.1, epochs=2.5)": "Mle: epochs is 2.5, but it must be a whole number.",
    "Mle('x', 0.1, epochs=True)": "Mle: epochs is True, but it must be a whole number.",
    "Mle('x', 0.1, fused=1)": "Mle: fused is 1, but it must be true or false.",
    "ActorCritic('x', 0.1, tau=-1)": "ActorCritic: tau is -1, but it must be 0 or more, and finite.",
    "ActorCritic('x', 0.1, samples=0)": "ActorCritic: samples is 0, but it must be 1 or more.",
    "ActorCritic('x', 0.1, tau='a')": "ActorCritic: tau is 'a', but it must be a number.",
    "ActorCritic('x', 0.1, critic_clip='a')": "ActorCritic: critic_clip is 'a', but it must be a number.",
    "ActorCritic('x', 0.1, critic_clip=0)": "ActorCritic: critic_clip is 0, but it must be above 0 and finite.",
    "Critic('x', 0.1, td_form='third')": "Critic: td_form is 'third', but it must be one of squared, half.",
    "SoftQ('x', 0.1, tau=0)": "SoftQ: tau is 0, but it must be above 0 and finite.",
    "Vaml('x', 0.1, kappa=1.5)": "Vaml: kappa is 1.5, but it must be from 0 to 1.",
    "Vaml('x', 0.1, proposal='mixed')": "Vaml: proposal is 'mixed', but its weights are those of one kind of proposal; "
    "choose one of ngram, corrupt, exact, policy.",
    "Raml('x', 0.1, proposal='policy')": "Raml: proposal is 'policy', but it has no Q to draw from; choose one of "
    "ngram, corrupt, exact.",
    "LSTM(hidden=7)": "LSTM: hidden is 7, but it must be an even number from 2 on, because two directions share it.",
    "LSTM(attention='MLP')": "LSTM: attention is 'MLP', but it must be one of dot, mlp, none.",
    "LSTM(dropout=1)": "LSTM: dropout is 1, but it must be from 0 up to, but without, 1.",
    "Payoff(precision=0)": "Payoff: precision is 0, but it must be above 0 and at most 1.",
    "replace(Mle('x', 0.1), clip=-1)": "Mle: clip is -1, but it must be above 0 and finite.",
    "Recipe('r', (), seed=-1)": "Recipe: seed is -1, but it must be from 0 up to, but without, 2 ** 63.",
    "Recipe('r', (), payoff=3)": "Recipe: payoff must be a table, not 3.",
    "Recipe('r', (), beam=2**31)": "Recipe: beam is 2147483648, but whole numbers are below 2 ** 31.",
    "Recipe('r', (), beam=0)": "Recipe: beam is 0, but it must be 1 or more.",
}
RIGHT = {
    "type(Mle('x', 1).learning_rate).__name__": "float",
    "ActorCritic('x', 1, tau=0, critic_clip=2).critic_clip": "2.0",
    "ActorCritic('x', 1, critic_clip=None).critic_clip": "None",
    "type(replace(Mle('x', 0.1), clip=3).clip).__name__": "float",
    "type(LSTM(dropout=0).dropout).__name__": "float",
    "Mle('x', 1) == Mle('x', 1.0)": "True",
    "Recipe('r', (), payoff={'metric': 'edit'}).payoff == Payoff('edit')": "True",
}
SCRIPT = """
import json, sys
from dataclasses import replace
from seqcredit.algorithms import ActorCritic, Critic, Mle, Raml, SoftQ, Vaml
from seqcredit.errors import UserError
from seqcredit.experiments.recipe import Recipe
from seqcredit.models.build import LSTM
from seqcredit.rewards.payoff import Payoff

def said(text):
    try:
        return [str(eval(text)), None]
    except UserError as error:
        return [None, str(error)]

print(json.dumps({text: said(text) for text in json.load(sys.stdin)}))
"""


@pytest.fixture(scope="module")
def answers() -> dict[str, tuple[str | None, str | None]]:
    texts, line = json.dumps([*WRONG, *RIGHT]), [sys.executable, "-c", SCRIPT]
    done = subprocess.run(line, input=texts, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("text", WRONG)
def test_from_python_a_wrong_value_is_one_sentence(text: str, answers: dict[str, tuple[str, str]]) -> None:
    """It names the class, the key, the value and the range."""
    assert answers[text] == [None, WRONG[text]]


@pytest.mark.parametrize("text", RIGHT)
def test_from_python_a_whole_number_is_a_number(text: str, answers: dict[str, tuple[str, str]]) -> None:
    assert answers[text] == [RIGHT[text], None]


@pytest.mark.parametrize("kind", [*ALGORITHMS.values(), LSTM, Payoff], ids=lambda kind: kind.__name__)
def test_every_range_is_kept_from_python(kind: type[Options]) -> None:
    """A value just outside, where it can be of the right type."""
    given = {"name": "x", "learning_rate": 0.1} if issubclass(kind, Mle.__base__) else {}
    made, tried = kind(**given), 0
    for each in fields(kind):
        within = each.metadata.get("within")
        for value in (-1, -1.0, nan, inf, 7, 1.5, 0):
            if within and type(value) is type(getattr(made, each.name)) and not within.holds(value):
                with pytest.raises(UserError) as caught:
                    replace(made, **{each.name: value})
                assert str(caught.value) == f"{kind.__name__}: {each.name} is {value!r}, but it must be {within.said}."
                tried += 1
    assert tried > 5


# Tables.


@dataclass(frozen=True)
class Inner(Options):
    width: int = option(4, EVEN)
    kind: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Outer(Options):
    rate: float = required(ABOVE_0)
    share: float = option(0.5, SHARE, paper=0.25, released=Feeding(0.1, 0.2))
    many: int | None = option(None, FROM_1, released=3)
    inner: Inner = Inner(kind="b")


def complaint(table: dict[str, object]) -> str:
    with pytest.raises(UserError) as caught:
        build(Outer, table, "here")
    return str(caught.value)


def test_a_table_is_read_and_a_table_in_it_keeps_the_defaults_of_its_own_key() -> None:
    assert build(Outer, {"rate": 1, "inner": {"width": 8}}, "here") == Outer(1.0, inner=Inner(8, "b"))
    assert build(Outer, {"rate": 1.5, "many": 2, "share": 1}, "here") == Outer(1.5, 1.0, 2)
    assert build(Outer, {"rate": 1.5, "inner": Inner(2)}, "here") == Outer(1.5, inner=Inner(2))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "here: the key 'rate' is missing."),
        ({"rate": 1, "shaer": 0}, "here: there is no key 'shaer'; the nearest is 'share'."),
        ({"rate": 1, "zzz": 0}, "here: there is no key 'zzz'; the keys are rate, share, many, inner."),
        ({"rate": 1, "inner": {"widht": 2}}, "here: inner: there is no key 'widht'; the nearest is 'width'."),
        (
            {"rate": 1, "inner": {"width": 3}},
            "here: inner: width is 3, but it must be an even number from 2 on, because two directions share it.",
        ),
        ({"rate": 1, "inner": {"kind": 1}}, "here: inner: kind is 1, but it must be one of a, b."),
        ({"rate": 1, "inner": {"kind": [1]}}, "here: inner: kind is [1], but it must be one of a, b."),
        ({"rate": 1, "inner": 5}, "here: inner must be a table, not 5."),
        ({"rate": 1, "many": 0}, "here: many is 0, but it must be 1 or more."),
        ({"rate": 1, "many": 1.0}, "here: many is 1.0, but it must be a whole number."),
        ({"rate": "1"}, "here: rate is '1', but it must be a number."),
    ],
)
def test_what_is_wrong_with_a_table(table: dict[str, object], said: str) -> None:
    assert complaint(table) == said


def test_only_what_is_given_is_checked() -> None:
    assert checked(Outer, {"share": 1}, "here") == {"share": 1.0}
    assert checked(Outer, {"many": None}, "here") == {"many": None}


def test_presets_stand_beside_the_options() -> None:
    assert presets(Outer, "default") == {}
    assert presets(Outer, "paper") == presets(Outer, "paper", fed=True) == {"share": 0.25}
    assert presets(Outer, "released") == {"share": 0.1, "many": 3}
    assert presets(Outer, "released", fed=True) == {"share": 0.2, "many": 3}


@pytest.mark.parametrize("kind", [Mle, Raml, SoftQ, Vaml, Critic, ActorCritic])
def test_every_preset_is_within_its_range(kind: type[Options]) -> None:
    for fidelity in options.FIDELITIES:
        for fed in (True, False):
            given = {"name": "x", "learning_rate": 0.1, **presets(kind, fidelity, fed)}
            made = build(kind, given, "here")
            assert all(getattr(made, key) == value for key, value in given.items())
