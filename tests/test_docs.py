"""The pages under docs: their code runs and does what they say, and their links lead somewhere."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import T5Config, T5ForConditionalGeneration

import needs
import seqcredit as sc
from seqcredit.algorithms import ALGORITHMS
from seqcredit.cli import _named, parser
from seqcredit.experiments.plan import read
from seqcredit.experiments.recipe import Recipe, load
from seqcredit.models.build import LSTM, HuggingFace, Transformer
from seqcredit.rewards.metrics import corpus, metric
from seqcredit.rewards.payoff import Payoff
from tokenizing import learn

DOCS = Path(__file__).parents[1] / "docs"
ROOT = DOCS.parent
PAGES = [*sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("*.md")), ROOT / "results" / "README.md"]
MAKEFILE = (ROOT / "Makefile").read_text()
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])

WORDS = "assert reward.at == 'words' and len(both.rewards) == 2"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
# The languages of each page's blocks of code: every block of these runs in a test here, README's in test_package.
RUN = {
    "README.md": {"python"},
    "CONTRIBUTING.md": {"python", "toml", "sh"},
    "docs/guide.md": {"python"},
    "docs/hugging-face.md": {"python"},
    "docs/scaling.md": {"python"},
    "docs/start.md": {"python"},
    "docs/sweeps.md": {"toml"},
    "docs/your-own-model.md": {"python", "toml"},
}
# Lines of blocks that are not run, besides commands of seqcredit, which take the reader's data or hours: and why.
NOT_RUN = {
    "python3 -m venv .venv": "fetches packages; `make test` does the same",
    ". .venv/bin/activate": "belongs to it",
    "pre-commit install": "changes the clone; `make lint` runs the same tools",
    "torchrun --nproc-per-node 2 train.py": "runs in test_the_page_about_size_runs_by_two_processes_as_by_one",
    "PYTHONPATH=tests python -m fuzz --seed 3 --case 66": "tests/fuzz has tests of its own",
    "PYTHONPATH=tests python -m fuzz.accidents --seed 1 --case 23": "the same",
}


def fences(page: Path) -> list[tuple[str, str]]:
    """Language and text of every fenced block."""
    found = re.findall(r"^(`{3,})([^\n]*)\n(.*?)^\1$", page.read_text(), re.DOTALL | re.MULTILINE)
    return [(language, text) for _, language, text in found]


def blocks(page: Path, language: str = "python") -> list[str]:
    """The code of a page."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def run(folder: Path, *code: str) -> str:
    """Code in a process of its own, as a reader would paste it one block after another; what it prints."""
    (folder / "page.py").write_text("\n".join(code))
    done = subprocess.run([sys.executable, "page.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_page_about_your_own_runs(tmp_path: Path) -> None:
    """Every block; the first says that nothing got worse."""
    checks = "assert ShortFirst('s', 0.1).power == 0.5\nassert actor_loss.isfinite() and float(rewards[0, 0]) > 0\n"
    assert run(tmp_path, *blocks(DOCS / "your-own-model.md"), checks) == "True\n"


@pytest.mark.slow
def test_what_is_said_about_hugging_face_runs(tmp_path: Path) -> None:
    """Every block, beside a small model that has begun to learn; what is saved is loaded again."""
    rows = [(f"say {a} and {b}", f"{a} , then {b}") for a in "abcdef" for b in "ghijkl"] * 10
    read = learn([text for row in rows for text in row])
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4}
    ids = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}
    torch.manual_seed(1)
    model = T5ForConditionalGeneration(T5Config(vocab_size=len(read), **sizes, **ids))
    begun = sc.train(model, rows, algorithm=sc.MLE(epochs=6, learning_rate=0.003), tokenizer=read, say=None)
    begun.save_pretrained(tmp_path / "my-model")
    again = "AutoModelForSeq2SeqLM.from_pretrained('better-model')"
    run(tmp_path, *blocks(DOCS / "hugging-face.md"), again, WORDS)
    assert "actor_critic" in (tmp_path / "runs" / "ac" / "log.jsonl").read_text()


def test_start_here_has_the_readmes_example() -> None:
    """Which a test of its own runs; here both runs are kept and tested, and so can be looked at."""
    (readme, *_), (start,) = blocks(ROOT / "README.md"), blocks(DOCS / "start.md")
    for more in (", test=test", ', out="runs/mle"', ', out="runs/erac"'):
        start = start.replace(more, "")
    assert start.splitlines()[:-1] == readme.splitlines()[:-1]


@pytest.mark.slow
def test_start_here_runs(tmp_path: Path) -> None:
    """Its script, and every command on the two runs that this leaves; no browser is opened."""
    (script,) = blocks(DOCS / "start.md")
    formal, casual = run(tmp_path, script).splitlines()[-1].split(" / ")
    assert "ten" in formal
    assert re.fullmatch(r"(well|so|look|oh) , that would be ten", casual)
    lines = [line for language, text in fences(DOCS / "start.md") if not language for line in text.splitlines()]
    commands = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("seqcredit")]
    assert [words[0] for words in commands] == ["inspect", "compare", "headroom"]
    for words in commands:
        command = [sys.executable, "-m", "seqcredit", *(word for word in words if word != "--open")]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "credit.html").stat().st_size > 10_000


def test_the_guides_metric_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the name and the direction that it gives itself."""
    (code,) = blocks(DOCS / "guide.md")
    (tmp_path / "letters_off.py").write_text(code)
    made = metric("letters_off:score", tmp_path)
    assert (made.label, made.higher) == ("letters off", False)
    assert corpus(made, [["a", "bc"]], [[["a"]]]).value == 3


def test_the_recipe_with_a_function_of_ones_own_is_read(tmp_path: Path) -> None:
    """As keys of the recipe that contributing shows."""
    (fragment,), (recipe,) = blocks(DOCS / "your-own-model.md", "toml"), blocks(ROOT / "CONTRIBUTING.md", "toml")
    key, _, payoff = fragment.partition("\n\n")
    (tmp_path / "my_scores.py").write_text("def coverage(text, references):\n    return 1.0\n")
    (tmp_path / "own.toml").write_text(recipe.replace("\n\n[actor]", f"\n{key}\n\n{payoff}\n[actor]"))
    found = load(tmp_path / "own.toml")
    assert (found.metric, found.payoff.metric) == ("my_scores:coverage",) * 2
    assert metric(found.metric, tmp_path).label == "coverage"


def test_the_sweep_file_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell and every combination of its grid; the repository has cells of the same names."""
    (block,) = blocks(DOCS / "sweeps.md", "toml")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweep.toml").write_text(block)
    cells = read(tmp_path / "sweep.toml").cells.values()
    assert [cell.id for cell in cells if cell.name == "erac"] == ["erac-1"]
    assert len([cell for cell in cells if cell.name.startswith("ablation")]) == 2 * 4 * 3  # searched twice


@pytest.mark.slow
def test_what_contributing_says_runs(tmp_path: Path) -> None:
    """An algorithm, a reward and a model train together; a data set is prepared and trained."""
    checks = "import torch; tokens = torch.tensor([[5, 6, 7, 0, 0], [5, 0, 0, 0, 0]])\n" + (
        "assert Brief().prefix_scores(tokens, torch.tensor([[[5, 6, 0]], [[0, 0, 0]]])).tolist() "
        "== [[0, 0, 0, -1, -1, -1], [0, -1, -1, -1, -1, -1]]"
    )
    assert len(run(tmp_path, *blocks(ROOT / "CONTRIBUTING.md"), checks).split()) <= 8
    (recipe,), (script,) = blocks(ROOT / "CONTRIBUTING.md", "toml"), blocks(ROOT / "CONTRIBUTING.md", "sh")
    (tmp_path / "digits.toml").write_text(recipe)
    command = f'seqcredit() {{ "{sys.executable}" -m seqcredit "$@"; }}\n{script}'
    done = subprocess.run(["sh", "-e", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "digits" / "result.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(notebook: Path, tmp_path: Path) -> None:
    """Every cell, one after another."""
    cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    said = run(tmp_path, *("".join(cell["source"]) for cell in cells)).splitlines()
    if notebook.stem.startswith("see"):
        assert said[0] == "121 sequences"
        assert (tmp_path / "credit.html").stat().st_size > 10_000
    else:
        before, after = map(
            float, re.findall(r"[-\d.]+", next(line for line in said if "->" in line).replace("->", ""))
        )
        assert after > before


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with warnings as errors: of links and headings that are not there too."""
    needs.package("sphinx", "furo", "myst_parser", "latex2mathml")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", out / "trees", DOCS, out / "html"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out / "html"


@pytest.mark.slow
def test_the_site_is_whole_and_needs_no_network(site: Path) -> None:
    """Every page is there, every link within it leads somewhere, and nothing is loaded from elsewhere."""
    pages = {path: path.read_text() for path in site.rglob("*.html") if "_static" not in path.parts}
    written = {path.relative_to(DOCS).with_suffix(".html") for path in (*DOCS.rglob("*.md"), *NOTEBOOKS)}
    assert written <= {path.relative_to(site) for path in pages}
    names = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    for path, text in pages.items():
        loaded = re.findall(r'<(?:script|img|link|iframe)\b[^>]*?(?:src|href)="([^"]+)"', text)
        assert not [address for address in loaded if re.match(r"(https?:)?//", address)], path
        for link in re.findall(r'<a\b[^>]*?href="([^"]+)"', text):
            place, _, heading = link.partition("#")
            if not re.match(r"\w+:|//", link):
                target = (path.parent / place).resolve() if place else path
                assert target.exists(), (path, link)
                assert not heading or target not in names or heading in names[target], (path, link)
    assert "<math" in (site / "algorithms" / "erac.html").read_text()
    assert '<span class="pre">\\' not in pages[site / "api.html"]  # code begins with no mark of the parser's
    assert (site / "searchindex.js").stat().st_size > 10_000
    fonts = [path for path in site.rglob("*.css") if re.search(r"url\(['\"]?https?:", path.read_text())]
    assert fonts == []


@pytest.mark.slow
def test_the_page_about_size_runs_by_two_processes_as_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The block as a script of torchrun's, with shards, and here."""
    (block,) = re.findall(r"```python\n(.*?)```", (DOCS / "scaling.md").read_text(), re.DOTALL)
    (tmp_path / "train.py").write_text(block)
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py"]
    done = subprocess.run([sys.executable, *launch], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("validation bleu") == 2  # one of them speaks
    monkeypatch.chdir(tmp_path)
    exec(block.replace("runs/sharded", "runs/whole"), {})
    many, one = (load_file(tmp_path / "runs" / name / "weights" / "mle.safetensors") for name in ("sharded", "whole"))
    torch.testing.assert_close(many, one, rtol=0, atol=1e-5)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """To a file that is there, and to a heading of it where one is named."""
    for link, _, heading in re.findall(r"\]\(([^)#]*)(#([^)]+))?\)", page.read_text()):
        target = page.parent / link if link else page
        assert link.startswith("https://") or target.exists(), link
        if heading and target.suffix == ".md":
            titles = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, heading


def test_the_readme_is_short_and_its_badges_are_true() -> None:
    text, about = (ROOT / "README.md").read_text(), tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert text.count("\n") <= 150
    assert f"badge/version-{about['version']}-" in text
    assert f"badge/python-{about['requires-python'].removeprefix('>=')}%2B-" in text
    assert f"\nversion: {about['version']}\n" in (ROOT / "CITATION.cff").read_text()


def test_defaults_on_the_pages_of_algorithms_are_those_of_the_code() -> None:
    """`key = value` in a page's row of keys, for one of the objectives that the row names."""
    seen = 0
    for page in (DOCS / "algorithms").glob("*.md"):
        for row in re.findall(r"^\| \*\*keys\*\* \|.*$", page.read_text(), re.MULTILINE):
            kinds = [ALGORITHMS[name] for name in re.findall(r'objective = "(\w+)"', row)] or [ALGORITHMS["mle"]]
            defaults = [{field.name: field.default for field in fields(kind)} for kind in kinds]
            for key, value in re.findall(r"`(\w+) = ([^`]+)`", row):
                if page.stem != "guided-search":  # which says what to set
                    wanted = tomllib.loads(f"x = {value}")["x"]
                    assert any(known.get(key, "") == wanted for known in defaults), (page.stem, key, value)
                    seen += 1
    assert seen > 50


def test_every_algorithm_has_a_page() -> None:
    """Each name in a recipe is on the page of its algorithm, or among the algorithms."""
    text = "".join(path.read_text() for path in (DOCS / "algorithms").glob("*.md"))
    for name in ALGORITHMS:
        assert f"`{name}`" in text, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_can_be_given(page: Path) -> None:
    """With these options: lines of blocks without a language, and names in the text. They are not run here."""
    for line in (line for language, text in fences(page) if not language for line in text.splitlines()):
        words = shlex.split(line.split(" | ")[-1], comments=True)
        if words[:1] == ["seqcredit"]:
            assert parser().parse_args(words[1:]).run, line
        elif words[:1] == ["make"]:
            assert f"\n{words[1]}:" in MAKEFILE, line
        elif words[:2] == ["pip", "install"]:
            assert {extra for word in words for extra in re.findall(r"[\w-]+", word.partition("[")[2])} <= EXTRAS, line
        else:
            assert not words or " ".join(words) in NOT_RUN, line
    for name in re.findall(r"`seqcredit ([a-z]+)\b", page.read_text()):
        assert name in _named(), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_code_is_run(page: Path) -> None:
    """Blocks without a language are commands; `text` is what something printed; Sphinx reads those in braces."""
    languages = {language for language, _ in fences(page) if not language.startswith("{")}
    assert languages - {"", "text"} == RUN.get(str(page.relative_to(ROOT)), set())


def test_pages_from_the_code_are_current() -> None:
    done = subprocess.run([sys.executable, DOCS / "make.py", "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "docs are what the code gives\n"), done.stdout


def test_every_recipe_key_is_explained_once() -> None:
    text = (DOCS / "recipe-keys.md").read_text()
    for kind in (Recipe, Payoff, LSTM, Transformer, HuggingFace, *ALGORITHMS.values()):
        for field in fields(kind):
            assert f"| `{field.name}` |" in text, field.name


@pytest.mark.parametrize("page", ["paper-to-code.md", "systems-to-code.md"])
def test_names_in_the_map_exist(page: str) -> None:
    """`credit.x.y` and `rewards.X` of the pages that lead from papers to the code are real."""
    import importlib.util

    text = (DOCS / page).read_text()
    names = set(re.findall(r"`((?:credit|rewards|search|training|algorithms|results)\.[\w.]+)[`(]", text))
    assert len(names) > 15
    for name in names:
        module, _, attribute = f"seqcredit.{name}".rpartition(".")
        found = importlib.import_module(module)
        assert hasattr(found, attribute) or importlib.util.find_spec(f"seqcredit.{name}"), name


def test_every_algorithm_is_in_the_guides_choice() -> None:
    """A row of "which one to take" for each plan that a user can name."""
    from seqcredit.experiments.plans import PLANS

    text = (DOCS / "algorithms" / "index.md").read_text()
    rows = " ".join(line for line in text.splitlines() if line.startswith("|"))
    names = {name: name.replace("_", "") for name in PLANS}  # sc.ScheduledSampling
    assert [
        name for name, short in names.items() if not re.search(rf"`(sc\.)?({name}|{short})(\(\))?`", rows, re.I)
    ] == []
