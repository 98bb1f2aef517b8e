"""The documentation site, built by Sphinx without a network: `make site`.

Pages are the Markdown files beside this one. Formulas become MathML when the site is built, so no script is loaded.
"""

import json
import re
from importlib.metadata import version as version_of
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
# Pages that are files of the repository's first folder, where people look for them.
ELSEWHERE = {"results": "RESULTS.md", "contributing": "CONTRIBUTING.md", "changelog": "CHANGELOG.md"}

project, author, version = "seqcredit", "the seqcredit developers", version_of("seqcredit")
copyright = author  # noqa: A001, Sphinx calls it so
release = version
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["site"]
html_theme = "furo"
html_title = f"seqcredit {version}"
html_math_renderer = "mathml"
html_copy_source = False
html_static_path, html_css_files = ["site.css"], ["site.css"]
html_theme_options = {"navigation_with_keys": True}
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"


class Notebook(MystParser):
    """A notebook as Markdown: its text, its code, and what the code printed."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Cell by cell."""
        blocks = []
        for cell in json.loads(inputstring)["cells"]:
            source = "".join(cell["source"])
            blocks.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
            printed = "".join("".join(one.get("text", [])) for one in cell.get("outputs", []))
            blocks += [f"```text\n{printed.rstrip()}\n```"] if printed else []
        super().parse("\n\n".join(blocks), document)


def elsewhere(app: Sphinx, name: str, content: list[str]) -> None:
    """A file of the first folder in the place of the page that leads to it on GitHub, with links as seen from here."""
    if name in ELSEWHERE:
        text = (ROOT / ELSEWHERE[name]).read_text()
        text = re.sub(r"\]\((?!https?:|#|docs/)", "](../", text).replace("](docs/", "](")
        content[0] = re.sub(r"\]\(\.\./(\w+)\.md", _page, text)
    if name == "index":  # pages that no list names come last
        listed = set(re.findall(r"^[\w-]+$", content[0], re.MULTILINE)) | {"index"}
        others = [path.stem for path in sorted(Path(__file__).parent.glob("*.md")) if path.stem not in listed]
        content[0] = content[0].replace("\nchangelog\n", "\n".join(["\nchangelog", *others, ""]))


def _page(found: re.Match[str]) -> str:
    pages = {file.removesuffix(".md"): name for name, file in ELSEWHERE.items()}
    return f"]({pages[found[1]]}.md" if found[1] in pages else found[0]


def plain_docstring(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text with `code` and examples: nothing else in them is markup."""
    parts = re.split(r"(`[^`]+`|^ *(?:>>>|\.\.\. ).*$)", "\n".join(lines), flags=re.MULTILINE)
    pairs = zip(parts, [*parts[1:], ""], strict=True)
    lines[:] = "".join(_marked(part, following) for part, following in pairs).split("\n")


def _marked(part: str, following: str) -> str:
    if part.startswith("`"):
        return f"`{part}`" + ("\\ " if following[:1].isalnum() else "")  # a word may go on after code
    return part if ">>>" in part or part.lstrip().startswith("... ") else re.sub(r"([\\*|_])", r"\\\1", part)


def inline(visitor: nodes.NodeVisitor, node: nodes.math) -> None:
    """A formula within a sentence."""
    visitor.body.append(convert(node.astext()))
    raise nodes.SkipNode


def block(visitor: nodes.NodeVisitor, node: nodes.math_block) -> None:
    """A formula on lines of its own."""
    visitor.body.append(
        f'<div class="math" style="margin: 1em 0; overflow-x: auto">{convert(node.astext(), display="block")}</div>'
    )
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """What Sphinx does not do by itself."""
    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(Notebook)
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.connect("source-read", elsewhere)
    app.connect("autodoc-process-docstring", plain_docstring)
