"""Writes the pages that come from the code, docs/recipe-keys.md and docs/api.md: `make docs`.

python docs/make.py            write them
python docs/make.py --check    say which are not what the code gives, and fail
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src" / "seqcredit"
MADE = "Made from the code by `make docs`: change it there."
OBJECTIVES = {
    "Phase": "every phase",
    "Mle": 'objective = "mle"',
    "Proposing": "raml, soft_q, vaml",
    "Raml": 'objective = "raml"; and vaml',
    "SoftQ": 'objective = "soft_q"',
    "Vaml": 'objective = "vaml"',
    "Critic": 'objective = "critic"; and actor_critic',
    "ActorCritic": 'objective = "actor_critic"',
    "Payoff": "[payoff]",
    "Model": "[actor] and [critic]",
    "Recipe": "the recipe itself",
}
FOLDERS = ("", "credit", "credit/oracle", "rewards", "models", "data", "training", "experiments", "results", "inspect")


def recipe_keys() -> str:
    """Every key of a recipe with its kind, its default and what it is for."""
    text = (SOURCE / "config.py").read_text()
    lines, parts = text.splitlines(), [f"# Keys of a recipe\n\n{MADE}\n"]
    for node in ast.parse(text).body:
        if not isinstance(node, ast.ClassDef) or node.name not in OBJECTIVES:
            continue
        rows = [_key(field, lines) for field in node.body if isinstance(field, ast.AnnAssign)]
        parts.append(f"## {OBJECTIVES[node.name]}\n\n{ast.get_docstring(node)}\n")
        if rows:
            parts.append("\n".join(["| key | kind | default | |", "|---|---|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def _key(field: ast.AnnAssign, lines: list[str]) -> str:
    kind = ast.unparse(field.annotation).removeprefix("Literal[").removesuffix("]").replace("'", '"').replace("|", "or")
    default = "must be given" if field.value is None else f"`{ast.unparse(field.value)}`".replace("'", '"')
    remark = lines[(field.end_lineno or 0) - 1].partition("  # ")[2].replace("|", "\\|")
    return f"| `{ast.unparse(field.target)}` | {kind} | {default} | {remark} |"


def api() -> str:
    """Every public class and function with its signature and what it says of itself."""
    parts = [f"# Python API\n\n{MADE}\n"]
    for folder in FOLDERS:
        for path in sorted((SOURCE / folder).glob("*.py")):
            tree = ast.parse(path.read_text())
            entries = list(_entries(tree))
            name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
            says = (ast.get_docstring(tree) or "").partition("\n\n")[0].replace("\n", " ")
            if entries:
                parts.append(f"## seqcredit.{name}\n\n{says}\n\n" + "\n".join(entries) + "\n")
    return "\n".join(parts)


def _entries(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        yield _entry(node, "")
        for method in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(method, ast.FunctionDef) and not method.name.startswith("_") and ast.get_docstring(method):
                yield _entry(method, "  ")


def _entry(node: ast.FunctionDef | ast.ClassDef, indent: str) -> str:
    says = (ast.get_docstring(node) or "").partition("\n\n")[0].replace("\n", " ")
    taken = "" if isinstance(node, ast.ClassDef) else f"({', '.join(_arguments(node))})"
    return f"{indent}- `{node.name}{taken}`{': ' if says else ''}{says}"


def _arguments(node: ast.FunctionDef) -> Iterator[str]:
    """Names, and defaults where there are any."""
    given = [*node.args.posonlyargs, *node.args.args]
    defaults = [None] * (len(given) - len(node.args.defaults)) + list(node.args.defaults)
    for argument, default in zip(given, defaults, strict=True):
        if argument.arg not in ("self", "cls"):
            yield argument.arg + (f"={ast.unparse(default)}" if default else "")
    if node.args.vararg:
        yield f"*{node.args.vararg.arg}"
    for argument, named in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        yield argument.arg + (f"={ast.unparse(named)}" if named else "")


PAGES = {"recipe-keys.md": recipe_keys, "api.md": api}


def main() -> int:
    old = [name for name, page in PAGES.items() if not (DOCS / name).exists() or (DOCS / name).read_text() != page()]
    if "--check" in sys.argv:
        print(f"not what the code gives: {', '.join(old)}; run `make docs`" if old else "docs are what the code gives")
        return 1 if old else 0
    for name in old:
        (DOCS / name).write_text(PAGES[name]())
        print(f"wrote docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
