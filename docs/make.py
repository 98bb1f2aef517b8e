"""Writes the pages that come from the code, docs/recipe-keys.md, api.md and architecture.md: `make docs`.

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
# Classes of options: where they are, and what their keys belong to.
OPTIONS = {
    ("experiments/recipe.py", "Recipe"): "the recipe itself",
    ("rewards/payoff.py", "Payoff"): "[payoff]",
    ("models/build.py", "LSTM"): "[actor] and [critic]",
    ("models/build.py", "Transformer"): '[actor] and [critic] with kind = "transformer"',
    ("models/build.py", "HuggingFace"): '[actor] and [critic] with kind = "huggingface"',
    ("algorithms/phase.py", "Phase"): "every phase",
    ("algorithms/mle.py", "Mle"): 'objective = "mle"',
    ("algorithms/proposing.py", "Proposing"): "raml, soft_q, vaml",
    ("algorithms/vaml.py", "Raml"): 'objective = "raml"; and vaml',
    ("algorithms/soft_q.py", "SoftQ"): 'objective = "soft_q"',
    ("algorithms/vaml.py", "Vaml"): 'objective = "vaml"',
    ("algorithms/erac.py", "Judging"): "critic, actor_critic, sac",
    ("algorithms/erac.py", "Critic"): 'objective = "critic"',
    ("algorithms/erac.py", "ActorCritic"): 'objective = "actor_critic"; and sac',
    ("algorithms/sac.py", "Sac"): 'objective = "sac"',
    ("algorithms/leash.py", "Leashed"): "actor_critic, sac, reinforce, scst, mixer, mrt, grpo, ocd",
    ("algorithms/sampling.py", "Sampling"): "reinforce, scst, mixer, mrt, grpo, ocd, a2c, pcl, professor_forcing",
    ("algorithms/reinforce.py", "Reinforce"): 'objective = "reinforce"; and scst, mixer',
    ("algorithms/reinforce.py", "Scst"): 'objective = "scst"',
    ("algorithms/mixer.py", "Mixer"): 'objective = "mixer"',
    ("algorithms/mrt.py", "Mrt"): 'objective = "mrt"',
    ("algorithms/grpo.py", "Grpo"): 'objective = "grpo"',
    ("algorithms/scheduled_sampling.py", "ScheduledSampling"): 'objective = "scheduled_sampling"',
    ("algorithms/vaml.py", "ExactVaml"): 'objective = "vaml_exact"',
    ("algorithms/ocd.py", "Ocd"): 'objective = "ocd"',
    ("algorithms/a2c.py", "A2c"): 'objective = "a2c"',
    ("algorithms/pcl.py", "Pcl"): 'objective = "pcl"',
    ("algorithms/bso.py", "Bso"): 'objective = "bso"',
    ("algorithms/professor_forcing.py", "ProfessorForcing"): 'objective = "professor_forcing"',
}
FOLDERS = (
    "",
    "credit",
    "credit/oracle",
    "rewards",
    "models",
    "search",
    "algorithms",
    "data",
    "training",
    "experiments",
    "results",
    "inspect",
)


def recipe_keys() -> str:
    """Every key of a recipe with its kind, its default and what it is for."""
    parts = [f"# Keys of a recipe\n\n{MADE}\n"]
    for (file, name), title in OPTIONS.items():
        text = (SOURCE / file).read_text()
        (node,) = (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == name)
        fields = [field for field in node.body if isinstance(field, ast.AnnAssign)]
        rows = [_key(field, text.splitlines()) for field in fields if "ClassVar" not in ast.unparse(field.annotation)]
        says = (ast.get_docstring(node) or "").partition("\n\n")[0]
        parts.append(f"## {title}\n\n{says}\n")
        if rows:
            parts.append(
                "\n".join(["| key | kind | default | paper | released code | |", "|---|---|---|---|---|---|", *rows])
                + "\n"
            )
    return "\n".join(parts)


def _key(field: ast.AnnAssign, lines: list[str]) -> str:
    kind = ast.unparse(field.annotation).removeprefix("Literal[").removesuffix("]").replace("'", '"').replace("|", "or")
    default, presets = _default(field.value)
    remark = lines[(field.end_lineno or 0) - 1].partition("  # ")[2].replace("|", "\\|")
    cells = [default, presets.get("paper", ""), presets.get("released", "")]
    return f"| `{ast.unparse(field.target)}` | {kind} | {' | '.join(cells)} | {remark} |"


def _default(value: ast.expr | None) -> tuple[str, dict[str, str]]:
    """The default of a field, and what its presets are."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "required":
        return "must be given", {}
    presets = {}
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "option":
        presets = {word.arg or "": _code(word.value) for word in value.keywords}
        value = value.args[0]
    return ("must be given" if value is None else _code(value)), presets


def _code(value: ast.expr) -> str:
    return f"`{ast.unparse(value)}`".replace("'", '"')


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


QUESTIONS = {
    "credit": "What does the paper say?",
    "credit/oracle": "What is exact?",
    "rewards": "How good is a prefix?",
    "models": "Who predicts, who judges?",
    "search": "How is a sequence chosen?",
    "algorithms": "What is learned from what?",
    "data": "What is predicted?",
    "training": "In which order?",
    "experiments": "Which runs?",
    "results": "What came out?",
    "inspect": "What happened inside?",
    "commands": "One file a command",
}


def architecture() -> str:
    """The tree of files, with what each says of itself."""
    order = (
        "types",
        "credit, rewards, models",
        "search",
        "algorithms",
        "training",
        "experiments",
        "results",
        "inspect",
    )
    arrows = " <- ".join([*order, "commands"])
    parts = [
        f"# The tree\n\n{MADE}\n",
        f"One question a folder. Imports go one way: `{arrows}`; `rewards, types <- data <- training`.\n",
    ]
    for folder in ("", *QUESTIONS):
        title = f"{folder}/: {QUESTIONS[folder]}" if folder else "seqcredit/: what all of it shares"
        rows = [_file(path) for path in sorted((SOURCE / folder).glob("*.py")) if path.name != "__init__.py"]
        parts.append("\n".join([f"## {title}\n", "| file | |", "|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def _file(path: Path) -> str:
    says = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n\n")[0].replace("\n", " ")
    return f"| `{path.name}` | {says} |".replace("<", "\\<")


PAGES = {"recipe-keys.md": recipe_keys, "api.md": api, "architecture.md": architecture}


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
