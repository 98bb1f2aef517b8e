"""Deliberate errors, made from the syntax tree: a flipped sign, a dropped mask, an index that is off by one.

An operator looks at a node and at what it stands in, and gives nodes that could stand there instead. No operator knows
a line of the source by its text, so a file may be rewritten without a word here.
"""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import NamedTuple

Path = Sequence[ast.AST]  # the module first, then what is ever further inside, the node itself last
Operator = Callable[[Path], Iterator[ast.AST]]

OPPOSITES = ((ast.Lt, ast.GtE), (ast.LtE, ast.Gt), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn))
FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {**dict(OPPOSITES), **{b: a for a, b in OPPOSITES}}
SIGNS: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
FACTORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
}
PAIRS = [f"{kind}min {kind}max" for kind in ("", "a", "arg", "cum")]
PAIRS += ["minimum maximum", "any all", "zeros ones", "zeros_like ones_like", "new_zeros new_ones"]
SWAPS = {a: b for pair in PAIRS for a, b in (pair.split(), pair.split()[::-1])}
METHODS = {"sum": "mean", "mean": "sum"}
NUMBERS = re.compile(r"'?(Float|Int|Tensor|float|int)\b")


class Mutation(NamedTuple):
    """One error: where, which operator made it, what the smallest expression around it was and is, and the new file."""

    line: int
    column: int
    operator: str
    before: str
    after: str
    text: str


# --- operators -------------------------------------------------------------------------------------------------------


def comparison(path: Path) -> Iterator[ast.AST]:
    """a < b -> a >= b."""
    node = path[-1]
    if isinstance(node, ast.Compare):
        for place, op in enumerate(node.ops):
            ops = [*node.ops[:place], FLIPPED[type(op)](), *node.ops[place + 1 :]]
            yield ast.Compare(node.left, ops, node.comparators)


def sign(path: Path) -> Iterator[ast.AST]:
    """a + b -> a - b; -a -> a."""
    node = path[-1]
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in SIGNS and not _joins(node):
        yield _with(node, op=SIGNS[type(node.op)]())
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield node.operand


def negated_return(path: Path) -> Iterator[ast.AST]:
    """return a -> return -a, where a function returns numbers."""
    node = path[-1]
    value = node.value if isinstance(node, ast.Return) and _returns_numbers(path) else None
    if value is not None and not isinstance(value, ast.Constant | ast.UnaryOp):
        yield ast.Return(ast.UnaryOp(ast.USub(), value))


def factor(path: Path) -> Iterator[ast.AST]:
    """a * b -> a / b."""
    node = path[-1]
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in FACTORS and not _joins(node):
        yield _with(node, op=FACTORS[type(node.op)]())


def constant(path: Path) -> Iterator[ast.AST]:
    """a + 1 -> a + 0; 2 * a -> 3 * a."""
    node, parent = path[-1], path[-2]
    value = node.value if isinstance(parent, ast.BinOp) and isinstance(node, ast.Constant) else None
    if type(value) is int or (isinstance(value, float) and value in (0.0, 1.0)):
        yield ast.Constant(1 - value if value in (0, 1) else value + 1)


def opposite(path: Path) -> Iterator[ast.AST]:
    """max(a) -> min(a); a.sum(-1) -> a.mean(-1); a.clamp(min=0) -> a.clamp(max=0)."""
    node = path[-1]
    if not isinstance(node, ast.Call):
        return
    if isinstance(node.func, ast.Name) and node.func.id in SWAPS:
        yield _with(node, func=ast.Name(SWAPS[node.func.id]))
    if isinstance(node.func, ast.Attribute) and node.func.attr in SWAPS | METHODS:
        yield _with(node, func=_with(node.func, attr=(SWAPS | METHODS)[node.func.attr]))
    if _method(node) in ("clamp", "clamp_"):
        swapped = [ast.keyword(SWAPS.get(word.arg or "", word.arg), word.value) for word in node.keywords]
        yield _with(node, keywords=swapped)


def mask(path: Path) -> Iterator[ast.AST]:
    """a.masked_fill(m, 0) -> a; torch.where(m, a, b) -> a and b; a & m -> a and m; ~m -> m."""
    node = path[-1]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("masked_fill", "masked_fill_"):
            yield node.func.value
        if node.func.attr == "where" and len(node.args) == 3:
            yield from node.args[1:]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr) and not _is_type(node, path):
        yield from (node.left, node.right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        yield node.operand


def index(path: Path) -> Iterator[ast.AST]:
    """a[0] -> a[1]; a[1:] -> a[:-1]; range(2, n) -> range(3, n) and range(2, n - 1)."""
    node = path[-1]
    if isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for place, part in enumerate(parts):
            for shifted in _shifted(part):
                changed = [*parts[:place], shifted, *parts[place + 1 :]]
                yield _with(node, slice=ast.Tuple(changed) if isinstance(node.slice, ast.Tuple) else shifted)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        for place, bound in enumerate(node.args[:2]):
            less = isinstance(bound, ast.Constant) and place == 0 and len(node.args) > 1
            shifted = ast.BinOp(bound, ast.Add() if less else ast.Sub(), ast.Constant(1))
            yield _with(node, args=[*node.args[:place], _folded(shifted), *node.args[place + 1 :]])


def gradient(path: Path) -> Iterator[ast.AST]:
    """a.detach() -> a; torch.no_grad() -> torch.enable_grad()."""
    node = path[-1]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == "detach":
            yield node.func.value
        if node.func.attr == "no_grad":
            yield _with(node, func=_with(node.func, attr="enable_grad"))


def condition(path: Path) -> Iterator[ast.AST]:
    """if a -> if not a; not a -> a."""
    node, parent = path[-1], path[-2]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.expr) and _tests(parent, node) and not _is_simple(node):
        yield ast.UnaryOp(ast.Not(), node)


def connective(path: Path) -> Iterator[ast.AST]:
    """a and b -> a or b."""
    node = path[-1]
    if isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)


def dropped(path: Path) -> Iterator[ast.AST]:
    """a.append(b) -> pass; a += b -> pass; a[0] = b -> pass."""
    node = path[-1]
    called = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    filled = isinstance(node, ast.Assign) and all(isinstance(target, ast.Subscript) for target in node.targets)
    if called or filled or isinstance(node, ast.AugAssign):
        yield ast.Pass()


def forgotten(path: Path) -> Iterator[ast.AST]:
    """f(q, tau, forced) -> f(q, tau); pad(a, (1, 0)) -> pad(a, (0, 1))."""
    node = path[-1]
    if not isinstance(node, ast.Call):
        return
    if node.args and ast.unparse(node.args[-1]).startswith("forced"):
        yield _with(node, args=node.args[:-1])
    for place, word in enumerate(node.keywords):
        if word.arg == "forced":
            yield _with(node, keywords=[*node.keywords[:place], *node.keywords[place + 1 :]])
    if ast.unparse(node.func).endswith("pad") and len(node.args) > 1 and isinstance(node.args[1], ast.Tuple):
        turned = ast.Tuple(node.args[1].elts[::-1])
        yield _with(node, args=[node.args[0], turned, *node.args[2:]])


OPERATORS: tuple[Operator, ...] = (
    comparison, sign, negated_return, factor, constant, opposite, mask, index, gradient, condition, connective, dropped,
    forgotten,
)  # fmt: skip


# --- what they ask ---------------------------------------------------------------------------------------------------


def _with(node: ast.AST, **fields: object) -> ast.AST:
    """The node with other fields."""
    return type(node)(**{**dict(ast.iter_fields(node)), **fields})


def _joins(node: ast.BinOp | ast.AugAssign) -> bool:
    """Whether it joins texts or lists, or names a path: another operator would be an error of types."""
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
    return any(
        isinstance(side, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        or (isinstance(side, ast.BinOp) and _joins(side))
        or (isinstance(side, ast.IfExp) and isinstance(side.orelse, ast.Constant) and side.orelse.value == "")
        for side in sides
    )


def _returns_numbers(path: Path) -> bool:
    functions = [node for node in path if isinstance(node, ast.FunctionDef)]
    return bool(functions and functions[-1].returns and NUMBERS.match(ast.unparse(functions[-1].returns)))


def _method(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _is_type(node: ast.BinOp, path: Path) -> bool:
    """Whether it is a union of types and not of masks."""
    inside = any(isinstance(p, ast.Call) and ast.unparse(p.func) in ("isinstance", "issubclass", "cast") for p in path)
    sides = (ast.unparse(node.left), ast.unparse(node.right))
    return inside or any(side == "None" or side in ("int", "str", "float", "bool") for side in sides)


def _shifted(part: ast.expr) -> Iterator[ast.expr]:
    """An index or a slice that is off by one."""
    value = _integer(part)
    if value is not None:
        yield _number(value + (1 if value >= 0 else -1))
    if isinstance(part, ast.Slice) and part.step is None:
        low, high = _integer(part.lower), _integer(part.upper)
        if low == 1 and part.upper is None:
            yield ast.Slice(None, _number(-1))
        elif high == -1 and part.lower is None:
            yield ast.Slice(_number(1))
        else:
            if low is not None:
                yield ast.Slice(_number(low + 1), part.upper)
            if high is not None:
                yield ast.Slice(part.lower, _number(high + 1 if high >= 0 else high - 1))


def _integer(node: ast.AST | None) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _integer(node.operand)
        return None if value is None else -value
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def _number(value: int) -> ast.expr:
    return ast.Constant(value) if value >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-value))


def _folded(node: ast.BinOp) -> ast.expr:
    """1 + 1 -> 2, and what is no number as it is."""
    value = _integer(node.left)
    return node if value is None else _number(value + (1 if isinstance(node.op, ast.Add) else -1))


def _is_simple(node: ast.expr) -> bool:
    """One comparison, which `comparison` turns round."""
    return isinstance(node, ast.Compare) and len(node.ops) == 1


def _tests(parent: ast.AST, node: ast.AST) -> bool:
    if isinstance(parent, ast.If | ast.IfExp | ast.While):
        return parent.test is node
    return isinstance(parent, ast.comprehension) and node in parent.ifs


# --- a file and all its errors ---------------------------------------------------------------------------------------


def mutations(text: str) -> list[Mutation]:
    """Every error that the operators can make in a file, in the order of its lines."""
    found = []
    for path in _paths([ast.parse(text)]):
        for operator in OPERATORS:
            for made in operator(path):
                found.append(_mutation(text, path, operator.__name__, made))
    return sorted(found, key=lambda one: one[:2])


def _paths(path: list[ast.AST]) -> Iterator[Path]:
    """Of every node that matters, what it stands in."""
    for name, value in ast.iter_fields(path[-1]):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in ("annotation", "returns") and not _is_said(child):
                yield [*path, child]
                if not (isinstance(child, ast.Call) and ast.unparse(child.func) == "warnings.warn"):
                    yield from _paths([*path, child])


def _is_said(node: ast.AST) -> bool:
    """Errors, and what a programmer is shown: they are for people, and change no number."""
    spoken = isinstance(node, ast.FunctionDef) and node.name in ("__repr__", "__str__")
    typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    return spoken or typing or isinstance(node, ast.Raise | ast.Assert)


def _mutation(text: str, path: Path, operator: str, made: ast.AST) -> Mutation:
    around = path[_around(path)]
    assert isinstance(around, ast.expr | ast.stmt)
    after = ast.unparse(_exchanged(around, path[-1], made))
    written = f"({after})" if isinstance(around, ast.expr) else after
    start = _offset(text, around.lineno, around.col_offset)
    end = _offset(text, around.end_lineno, around.end_col_offset)
    data = text.encode()
    changed = (data[:start] + written.encode() + data[end:]).decode()
    return Mutation(around.lineno, around.col_offset + 1, operator, ast.unparse(around), after, changed)


def _around(path: Path) -> int:
    """Which of them is the smallest whose text can be exchanged: a statement, or an expression that may have brackets.

    Inside an f-string the places of nodes are not known, so that it is exchanged as a whole.
    """
    texts = [place for place, node in enumerate(path) if isinstance(node, ast.JoinedStr)]
    if texts:
        return texts[0]
    place = len(path) - 1
    while not isinstance(path[place], ast.expr | ast.stmt) or isinstance(path[place], ast.Constant | ast.Slice):
        place -= 1
    return place


def _exchanged(tree: ast.AST, old: ast.AST, new: ast.AST) -> ast.AST:
    """A copy of the tree with one node in the place of another."""
    if tree is old:
        return new
    fields: dict[str, object] = {}
    for name, value in ast.iter_fields(tree):
        if isinstance(value, list):
            fields[name] = [_exchanged(one, old, new) if isinstance(one, ast.AST) else one for one in value]
        else:
            fields[name] = _exchanged(value, old, new) if isinstance(value, ast.AST) else value
    return type(tree)(**fields)


def _offset(text: str, line: int | None, column: int | None) -> int:
    """Where a place is in the bytes of the text."""
    return _lines(text)[(line or 1) - 1] + (column or 0)


@cache
def _lines(text: str) -> list[int]:
    """Where each line begins in the bytes of the text."""
    return [0, *accumulate(len(line.encode()) for line in text.splitlines(keepends=True))]
