"""The pages under docs: their code runs and does what they say, and their links lead somewhere."""

import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import T5Config, T5ForConditionalGeneration

from seqcredit.algorithms import ALGORITHMS
from seqcredit.experiments.recipe import Recipe
from seqcredit.models.build import LSTM, HuggingFace, Transformer
from seqcredit.rewards.payoff import Payoff
from tokenizing import learn

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [
    *sorted(DOCS.glob("*.md")),
    *(DOCS.parent / name for name in ("README.md", "RESULTS.md", "CHANGELOG.md", "results/README.md")),
]

WORDS = "assert both.parts[0][1].at == 'words'"


@pytest.mark.slow
def test_the_page_about_your_own_runs(tmp_path: Path) -> None:
    """Every block, one after another, as a reader would paste them; the first says that nothing got worse."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "your-own-model.md").read_text(), re.DOTALL)
    checks = "\nassert ShortFirst('s', 0.1).power == 0.5\nassert actor_loss.isfinite() and float(rewards[0, 0]) > 0\n"
    (tmp_path / "page.py").write_text("\n".join(blocks) + checks)
    done = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("page", "run", "check"), [("docs/hugging-face.md", "ac", WORDS), ("README.md", "erac", "")])
def test_what_is_said_about_hugging_face_runs(page: str, run: str, check: str, tmp_path: Path) -> None:
    """Every block, beside a small model that from_pretrained loads; what is saved is loaded again."""
    rows = [(f"say {a} and {b}", f"{a} , then {b}") for a in "abc" for b in "ghij"] * 2
    read = learn([text for row in rows for text in row])
    sizes = {"d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 1, "num_heads": 4}
    ids = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}
    T5ForConditionalGeneration(T5Config(vocab_size=len(read), **sizes, **ids)).save_pretrained(tmp_path / "my-model")
    read.save_pretrained(tmp_path / "my-model")
    lines = [json.dumps({"source": source, "target": target}) + "\n" for source, target in rows]
    (tmp_path / "train.jsonl").write_text("".join(lines))
    blocks = re.findall(r"```python\n(.*?)```", (DOCS.parent / page).read_text(), re.DOTALL)
    mine = [block for block in blocks if "from_pretrained" in block or page.startswith("docs")]
    (tmp_path / "page.py").write_text(
        "\n".join([*mine, "AutoModelForSeq2SeqLM.from_pretrained('better-model')", check])
    )
    done = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / run / "log.jsonl").exists()


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """To a file that is there, and to a heading of it where one is named."""
    for link, _, heading in re.findall(r"\]\(([^)#]*)(#([^)]+))?\)", page.read_text()):
        target = page.parent / link if link else page
        assert link.startswith("https://") or target.exists(), link
        if heading and target.suffix == ".md":
            titles = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, heading


def test_pages_from_the_code_are_current() -> None:
    done = subprocess.run([sys.executable, DOCS / "make.py", "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "docs are what the code gives\n"), done.stdout


def test_every_recipe_key_is_explained_once() -> None:
    text = (DOCS / "recipe-keys.md").read_text()
    for kind in (Recipe, Payoff, LSTM, Transformer, HuggingFace, *ALGORITHMS.values()):
        for field in fields(kind):
            assert f"| `{field.name}` |" in text, field.name


def test_names_in_the_map_exist() -> None:
    """`credit.x.y` and `rewards.X` of paper-to-code are real."""
    import importlib.util

    text = (DOCS / "paper-to-code.md").read_text()
    names = set(re.findall(r"`((?:credit|rewards|training|algorithms)\.[\w.]+)[`(]", text))
    assert len(names) > 15
    for name in names:
        module, _, attribute = f"seqcredit.{name}".rpartition(".")
        found = importlib.import_module(module)
        assert hasattr(found, attribute) or importlib.util.find_spec(f"seqcredit.{name}"), name
