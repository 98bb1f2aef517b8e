"""Writes what comes from the code, docs/recipe-keys.md, architecture.md and architecture.svg: `make docs`.

python docs/make.py            write them
python docs/make.py --check    say which are not what the code gives, and fail
"""

import ast
import re
import sys
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
    ("algorithms/erac.py", "Judging"): "critic, actor_critic",
    ("algorithms/erac.py", "Critic"): 'objective = "critic"',
    ("algorithms/erac.py", "ActorCritic"): 'objective = "actor_critic"',
    ("algorithms/phase.py", "Paired"): "actor_critic, sac and a2c",
    ("algorithms/sac.py", "Sac"): 'objective = "sac"',
    ("algorithms/leash.py", "Leashed"): "a leash, for all that sample",
    ("algorithms/sampling.py", "Sampling"): "learning from samples, without a critic",
    ("algorithms/reinforce.py", "Reinforce"): 'objective = "reinforce"',
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
    kind = re.sub(r"Literal\[([^]]*)\]", r"\1", ast.unparse(field.annotation)).replace("'", '"').replace("|", "or")
    default, presets = _default(field.value)
    own = (line.partition("# ")[2] for line in lines[field.lineno - 1 : field.end_lineno])
    remark = " ".join(filter(None, own)).replace("|", "\\|")
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


WAY = """\
**The way of the data.** `data/` turns text or images into batches of ids. A model of `models/` predicts, `search/`
chooses an output, `rewards/` scores every prefix of it. An algorithm of `algorithms/` makes a loss of all this, with
the mathematics of `credit/`. `training/` has the one loop that all algorithms share; `experiments/` says which runs
there are, `results/` what came out of them, and `inspect/` what happened inside. A new algorithm, reward or model is
one new file: [how](contributing.md).
"""
LEAVES = ("errors", "types", "draws", "named", "options")  # everybody imports these
WIDE, HIGH, APART = 168, 44, 34


def imports() -> dict[str, set[str]]:
    """Which folders each folder imports from, without those that it reaches by another one."""
    folders = [name for name in QUESTIONS if "/" not in name]
    found = {name: set[str]() for name in folders}
    for name in folders:
        for path in (SOURCE / name).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and node.module:
                    whole = f"{node.module}.{node.names[0].name}".split(".")
                    found[name] |= {whole[1]} & set(found) if whole[0] == "seqcredit" else set()
        found[name].discard(name)
    below = {name: set().union(*(_reached(found, one) - {one} for one in found[name])) for name in folders}
    return {name: found[name] - below[name] for name in folders}


def _reached(found: dict[str, set[str]], name: str) -> set[str]:
    return {name}.union(*(_reached(found, one) for one in found[name]))


def picture() -> str:
    """Folders and import arrows as an SVG: a row holds what needs the rows below it."""
    arrows = imports()
    level: dict[str, int] = {}
    while len(level) < len(arrows):
        ready = [name for name in arrows if name not in level and arrows[name] <= set(level)]
        level |= {name: 1 + max((level[one] for one in arrows[name]), default=-1) for name in ready}
    rows = [[name for name in arrows if level[name] == n] for n in range(max(level.values()) + 1)]
    width = max(map(len, rows)) * (WIDE + APART) + APART
    height = (len(rows) + 1) * (HIGH + APART) + APART
    place = {
        name: ((width - len(row) * (WIDE + APART) + APART) / 2 + i * (WIDE + APART), APART + n * (HIGH + APART))
        for n, row in enumerate(reversed(rows))
        for i, name in enumerate(row)
    }
    lines = [_arrow(place[name], place[one]) for name in arrows for one in sorted(arrows[name])]
    boxes = [_box(*place[name], f"{name}/", QUESTIONS[name]) for name in arrows]
    foot = _box(
        APART, height - HIGH - APART, ", ".join(f"{name}.py" for name in LEAVES), "Shared by all", width - 2 * APART
    )
    style = "text{font:13px sans-serif;fill:#1c1c1c}.q{font-size:11px;fill:#555}rect{fill:#eef4fb;stroke:#0072b2}"
    head = "<marker id='a' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7' orient='auto'>"
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}'>",
            f"<style>{style}path{{stroke:#888;fill:none}}</style>",
            "<rect width='100%' height='100%' style='fill:#fff;stroke:none'/>",
            f"<defs>{head}<path d='M0 0 L8 4 L0 8 z' style='fill:#888'/></marker></defs>",
            *lines,
            *boxes,
            foot,
            "</svg>\n",
        ]
    )


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    x, y, a, b = start[0] + WIDE / 2, start[1] + HIGH, end[0] + WIDE / 2, end[1]
    return f"<path d='M{x:g} {y:g} C{x:g} {y + 30:g} {a:g} {b - 30:g} {a:g} {b:g}' marker-end='url(#a)'/>"


def _box(x: float, y: float, name: str, question: str, width: float = WIDE) -> str:
    middle = x + width / 2
    return (
        f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{HIGH}' rx='6'/>"
        f"<text x='{middle:g}' y='{y + 18:g}' text-anchor='middle'>{name}</text>"
        f"<text class='q' x='{middle:g}' y='{y + 35:g}' text-anchor='middle'>{question}</text>"
    )


def architecture() -> str:
    """How the data go, and the tree of files with what each says of itself."""
    parts = [
        f"# Architecture\n\n{MADE}\n",
        "Each folder answers one question. An arrow means *imports from*; a folder that is reached by other arrows\n"
        "has none of its own. A test holds them.\n",
        "![Folders of seqcredit and the arrows of their imports](architecture.svg)\n",
        WAY,
    ]
    for folder in ("", *QUESTIONS):
        title = f"{folder}/: {QUESTIONS[folder]}" if folder else "seqcredit/: what all of it shares"
        rows = [_file(path) for path in sorted((SOURCE / folder).glob("*.py")) if path.name != "__init__.py"]
        parts.append("\n".join([f"## {title}\n", "| file | |", "|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def _file(path: Path) -> str:
    says = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n\n")[0].replace("\n", " ")
    return f"| `{path.name}` | {says} |".replace("<", "\\<")


PAGES = {"recipe-keys.md": recipe_keys, "architecture.md": architecture, "architecture.svg": picture}


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
