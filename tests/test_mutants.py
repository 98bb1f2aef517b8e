"""Every deliberate error is noticed by the tests of its own file; and what the operators make of a line."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

import mutants
import needs
from mutants_operators import mutations
from mutants_special import EQUIVALENT, SPECIAL, Special

SAMPLE = 20


def seed() -> str:
    """The commit where CI runs, so that in time all mutants are tried; else always the same ones."""
    if not os.environ.get("CI"):
        return "seqcredit"
    line = ["git", "rev-parse", "HEAD"]
    return subprocess.run(line, capture_output=True, text=True, check=True, cwd=mutants.ROOT).stdout.strip()


@pytest.mark.slow
def test_a_sample_of_mutants_is_caught(record_property: Callable[[str, object], None]) -> None:
    """`make mutants` tries them all. What survives in an open file stands below the results of all tests."""
    line = [sys.executable, mutants.__file__, "--sample", str(SAMPLE), "--seed", seed()]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    survivors = "\n".join(re.findall(r"^(?:SURVIVED|BROKEN).*\n.*", done.stdout, flags=re.MULTILINE))
    assert done.returncode == 0, f"{survivors}\n{done.stderr}"
    assert re.search(rf"^\d+ of {SAMPLE} mutants caught$", done.stdout, flags=re.MULTILINE)
    if survivors:
        record_property(needs.TOLD, f"Deliberate errors that no test of their file noticed:\n{survivors}")


def made(file: str, operator: str = "sign") -> mutants.Mutant:
    return mutants.Mutant(file, 1, 0, operator, "a", "-a", "")


def test_only_a_few_errors_in_open_files_may_survive() -> None:
    strict, loose = made("credit/values.py"), made("algorithms/erac.py")
    assert mutants.is_enough([strict] * 12 + [loose] * 8, [])
    assert mutants.is_enough([strict] * 12 + [loose] * 8, [loose] * 4)
    assert not mutants.is_enough([strict] * 12 + [loose] * 8, [loose] * 5)
    assert not mutants.is_enough([strict] * 12 + [loose] * 8, [strict])
    assert not mutants.is_enough([loose] * 20, [made("algorithms/erac.py", "special")])


def test_a_file_that_is_gone_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {*mutants.FILES} <= {*mutants.files()}
    monkeypatch.setattr(mutants, "FILES", ("results/gone.py", "named.py"))
    with pytest.raises(FileNotFoundError, match=r"^results/gone\.py: FILES and OPEN name what"):
        mutants.files()


@pytest.mark.parametrize(
    ("before", "operator", "after"),
    [
        ("a < b", "comparison", ["a >= b"]),
        ("a <= b", "comparison", ["a > b"]),
        ("a == b", "comparison", ["a != b"]),
        ("a is not b", "comparison", ["a is b"]),
        ("a not in b", "comparison", ["a in b"]),
        ("0 < a <= 1", "comparison", ["0 >= a <= 1", "0 < a > 1"]),
        ("a + b", "sign", ["a - b"]),
        ("a - b", "sign", ["a + b"]),
        ("a - b + c", "sign", ["a - b - c", "a + b + c"]),
        ("-a", "sign", ["a"]),
        ("x.sum(-1)", "sign", []),
        ("a + 'text'", "sign", []),
        ("[*a] + [b]", "sign", []),
        ("a += b", "sign", ["a -= b"]),
        ("a * b", "factor", ["a / b"]),
        ("a / b", "factor", ["a * b"]),
        ("a // b", "factor", ["a * b"]),
        ("a ** b", "factor", ["a * b"]),
        ("folder / 'text'", "factor", []),
        ("a + 1", "constant", ["a + 0"]),
        ("0.0 - a", "constant", ["1.0 - a"]),
        ("2 * a", "constant", ["3 * a"]),
        ("0.5 * a", "constant", []),
        ("f(1)", "constant", []),
        ("max(a)", "opposite", ["min(a)"]),
        ("a.amin(1)", "opposite", ["a.amax(1)"]),
        ("a.argmax()", "opposite", ["a.argmin()"]),
        ("torch.minimum(a, b)", "opposite", ["torch.maximum(a, b)"]),
        ("a.cummax(-1)", "opposite", ["a.cummin(-1)"]),
        ("a.sum(-1)", "opposite", ["a.mean(-1)"]),
        ("a.mean()", "opposite", ["a.sum()"]),
        ("sum(a)", "opposite", []),
        ("any(a)", "opposite", ["all(a)"]),
        ("a.clamp(min=0)", "opposite", ["a.clamp(max=0)"]),
        ("a.masked_fill(m, 0)", "mask", ["a"]),
        ("torch.where(c, a, b)", "mask", ["a", "b"]),
        ("a.where(c, b)", "mask", []),
        ("a & b", "mask", ["a", "b"]),
        ("a | b", "mask", ["a", "b"]),
        ("int | None", "mask", []),
        ("isinstance(a, B | C)", "mask", []),
        ("~a", "mask", ["a"]),
        ("a[0]", "index", ["a[1]"]),
        ("a[-1]", "index", ["a[-2]"]),
        ("a[:, 1:]", "index", ["a[:, :-1]"]),
        ("a[:-1]", "index", ["a[1:]"]),
        ("a[2:5]", "index", ["a[3:5]", "a[2:6]"]),
        ("a[..., b]", "index", []),
        ("a['0']", "index", []),
        ("range(n)", "index", ["range(n - 1)"]),
        ("range(1, n)", "index", ["range(2, n)", "range(1, n - 1)"]),
        ("range(3)", "index", ["range(2)"]),
        ("a.detach()", "gradient", ["a"]),
        ("torch.no_grad()", "gradient", ["torch.enable_grad()"]),
        ("b if a else c", "condition", ["b if not a else c"]),
        ("b if a < 1 else c", "condition", []),
        ("not a", "condition", ["a"]),
        ("[a for a in b if c]", "condition", ["[a for a in b if not c]"]),
        ("a and b", "connective", ["a or b"]),
        ("a or b or c", "connective", ["a and b and c"]),
        ("f(a)", "dropped", ["pass"]),
        ("a += b", "dropped", ["pass"]),
        ("a[0] = b", "dropped", ["pass"]),
        ("a = b", "dropped", []),
        ("'docstring'", "dropped", []),
        ("f(q, tau, forced)", "forgotten", ["f(q, tau)"]),
        ("f(q, tau=1, forced=forced)", "forgotten", ["f(q, tau=1)"]),
        ("pad(a, (1, 0))", "forgotten", ["pad(a, (0, 1))"]),
        ("f'{a + b}'", "sign", ["f'{a - b}'"]),
    ],
)
def test_operators(before: str, operator: str, after: list[str]) -> None:
    made = [ast.unparse(ast.parse(one.text)) for one in mutations(before) if one.operator == operator]
    assert sorted(made) == sorted(after)


def test_a_return_changes_its_sign_where_numbers_are_returned() -> None:
    def made(kind: str, value: str) -> list[str]:
        found = mutations(f"def f(a){kind}:\n    return {value}\n")
        return [one.after for one in found if one.operator == "negated_return"]

    assert made(" -> float", "a.b") == ["return -a.b"]
    assert made(" -> Float[Tensor, 'B']", "a * b") == ["return -(a * b)"]
    assert made(" -> str", "a.b") == made("", "a.b") == made(" -> int", "0") == []


@pytest.mark.parametrize(
    "text",
    [
        "raise ValueError(f'{a + b}')",
        "assert a < b",
        "a: Literal[1] = b",
        "def f(a: Literal[1]) -> Literal[2]: ...",
        "def __repr__(self): return f'{self.a + 1}'",
    ],
)
def test_what_is_said_and_what_types_are_stays(text: str) -> None:
    assert mutations(text) == []


def test_a_mutation_says_what_and_where() -> None:
    text = "a = b\ncafé = f(x,\n         # why\n         y + 1)  # so\n"
    (flipped,) = [one for one in mutations(text) if one.operator == "sign"]
    assert flipped[:5] == (4, 10, "sign", "y + 1", "y - 1")
    assert flipped.text == text.replace("y + 1", "(y - 1)")


def test_every_mutation_is_a_program_of_its_own() -> None:
    for file in ("credit/losses.py", "credit/oracle/edit.py", "results/significance.py"):
        text = (mutants.SOURCE / file).read_text()
        found = mutations(text)
        programs = {ast.dump(ast.parse(one.text)) for one in found}
        assert ast.dump(ast.parse(text)) not in programs
        assert len(found) > 30
        assert len(programs) > 0.98 * len(found)


@pytest.mark.parametrize("special", SPECIAL, ids=lambda one: f"{one.file} {one.after}"[:60])
def test_special_mutants_still_apply(special: Special) -> None:
    text = (mutants.SOURCE / special.file).read_text()
    assert special.applied(text).text != text
    if special.file.endswith(".py"):
        ast.parse(special.applied(text).text)


def test_what_is_equivalent_is_still_there() -> None:
    """An entry that matches nothing is out of date."""
    made = [
        (file, lines[one.line - 1], f"{one.operator}: {one.before} -> {one.after}")
        for file in mutants.files()
        for lines in [(mutants.SOURCE / file).read_text().splitlines()]
        for one in mutations("\n".join(lines) + "\n")
    ]
    for known in EQUIVALENT:
        assert any(
            re.fullmatch(known.files, file) and re.search(known.change, change) and known.line in line
            for file, line, change in made
        ), known


def test_every_file_with_mutants_has_tests() -> None:
    for mutant in mutants.mutants():
        assert all(path.exists() for path in mutants.tests_of(mutant.file)), mutant.file


def test_a_sample_is_chosen_by_its_seed() -> None:
    found = mutants.mutants(["credit/"])
    one, again, other = (mutants.sample(found, 9, text) for text in ("one", "one", "other"))
    assert one == again != other
    assert len(set(map(str, one))) == 9
    assert set(map(str, one)) <= set(map(str, found))
