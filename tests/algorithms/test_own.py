"""A new algorithm is one file: a dozen lines outside the package that train, are killed, resume and are judged as ours.

Label smoothing that fades: an option, a schedule and a criterion of its own.
"""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import starter
from algorithms.tiny import BATCH, REWARD, models, noise
from seqcredit.algorithms import ALGORITHMS, Mle, Phase, Progress, algorithm, objective_of
from seqcredit.cli import main
from seqcredit.errors import UserError
from seqcredit.experiments.recipe import Recipe, load
from seqcredit.experiments.runs import Run, own_files
from seqcredit.named import find
from seqcredit.training.learner import Learner
from seqcredit.training.log import TIMES, log_entries
from seqcredit.types import token_mask
from starter import Command, Done

FADING = """
from dataclasses import dataclass

from seqcredit.algorithms import Outcome, Phase
from seqcredit.options import BELOW_1, option
from seqcredit.types import token_mask


@dataclass(frozen=True)
class Fading(Phase):
    share: float = option(0.2, BELOW_1)

    def loss(self, models, batch, reward, noise, progress):
        actor, tokens = models.actor, batch.references[:, 0]
        share = self.share * (1 - progress.update / progress.updates)
        scores = actor.score(actor.read(batch), tokens, actor.drop(tokens.shape[1], noise))
        logp, real = scores.table().log_softmax(-1), token_mask(tokens, actor.alphabet.eos)
        each = (1 - share) * logp.gather(-1, tokens.unsqueeze(-1)).squeeze(-1) + share * logp.mean(-1)
        loss = -each.masked_fill(~real, 0).sum()
        return Outcome({"actor": loss / noise.total}, {"smoothed": (loss.detach(), real.sum())})

    def criterion(self, validation):
        return validation.mean("smoothed", still=("actor",))
"""
RECIPE = """
name = "fading"
beam = 2
longest_output = 12
[actor]
embedding = 12
hidden = 12
[[phase]]
objective = "FILE:Fading"
optimizer = "adam"
learning_rate = 0.01
batch_size = 30
epochs = 6
share = 0.3
"""


@pytest.fixture
def fading(tmp_path: Path) -> type[Phase]:
    (tmp_path / "own_fading.py").write_text(FADING)
    return algorithm("own_fading:Fading", tmp_path)


def test_its_name_in_a_recipe(fading: type[Phase]) -> None:
    assert objective_of(fading("f", 0.1)) == "own_fading:Fading"
    for name, kind in ALGORITHMS.items():
        assert algorithm(name) is kind
        assert objective_of(kind("x", 0.1)) == name


def test_its_name_where_another_file_is_called_the_same(tmp_path: Path) -> None:
    kinds = []
    for folder in (tmp_path / "one", tmp_path / "other"):
        folder.mkdir()
        (folder / "own_twice.py").write_text(FADING)
        kinds.append(algorithm("own_twice:Fading", folder))
    assert kinds[0] is not kinds[1]
    assert [objective_of(kind("f", 0.1)) for kind in kinds] == ["own_twice:Fading"] * 2


def test_its_name_in_a_package_on_the_python_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package" / "own_steps.py").write_text(FADING)
    monkeypatch.syspath_prepend(tmp_path)
    assert objective_of(algorithm("own_package.own_steps:Fading")("f", 0.1)) == "own_package.own_steps:Fading"


@pytest.mark.parametrize("objective", ["mel", "", 5, None])
def test_what_names_no_algorithm_is_told_which_there_are(objective: object) -> None:
    with pytest.raises(UserError, match=r"it must be one of mle, raml, .*, or FILE:CLASS of your own\.$"):
        algorithm(objective)


def test_its_options_are_checked_as_ours_are(fading: type[Phase]) -> None:
    assert fading("f", 0.1).share == 0.2
    with pytest.raises(UserError, match=r"^Fading: share is 1.0, but it must be from 0 up to, but without, 1\.$"):
        fading("f", 0.1, share=1.0)


def weights(network: torch.nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten().clone() for p in network.parameters()])


def learner(phase: Phase) -> Learner:
    made = models()
    return Learner({"actor": made.actor}, phase, REWARD, torch.Generator().manual_seed(4))


def test_it_learns_by_the_same_learner(fading: type[Phase]) -> None:
    """Without smoothing, and at the end of its schedule, it is MLE."""
    likelihood = learner(Mle("mle", 0.1))
    likelihood.update(BATCH)
    for phase, progress in ((fading("f", 0.1, share=0.0), Progress()), (fading("f", 0.1), Progress(7, 7))):
        made = learner(phase)
        made.update(BATCH, progress)
        torch.testing.assert_close(weights(made.networks["actor"]), weights(likelihood.networks["actor"]))
    made = learner(fading("f", 0.03, "adam"))
    watched = [made.update(BATCH, Progress(n, 40)) for n in range(40)]
    assert not torch.equal(weights(made.networks["actor"]), weights(likelihood.networks["actor"]))
    first, last = (total / count for total, count in (watched[0]["smoothed"], watched[-1]["smoothed"]))
    assert last < first / 2
    assert watched[0].keys() == {"smoothed", "actor_gradient"}


def test_its_loss_by_hand(fading: type[Phase]) -> None:
    nets, tokens = models(dropout=0.0), BATCH.references[:, 0]
    logp = nets.actor.score(nets.actor.encode(BATCH.source), tokens).table().log_softmax(-1)
    each = 0.75 * logp.gather(-1, tokens.unsqueeze(-1)).squeeze(-1) + 0.25 * logp.mean(-1)
    outcome = fading("f", 0.1, share=0.5).loss(nets, BATCH, REWARD, noise(), Progress(2, 4))
    torch.testing.assert_close(outcome.losses["actor"], -(each * token_mask(tokens)).sum() / 4)


# Through the command line, from another folder.

FREQUENT = ["--checkpoint-minutes", "0", "--log-every", "3", "--threads", "1"]  # a checkpoint after every update


def final(folder: Path) -> dict[str, Tensor]:
    return Run.open(folder).weights("Fading")


def same(one: Path, other: Path) -> bool:
    a, b = final(one), final(other)
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def without_times(folder: Path) -> list[dict[str, object]]:
    return [{k: v for k, v in entry.items() if k not in TIMES} for entry in log_entries(folder / "log.jsonl")]


@pytest.mark.slow
def test_it_trains_is_killed_and_resumes_bit_for_bit(data: Path, tmp_path: Path) -> None:
    """Its file is gone when it resumes: the run has a copy, and so its resolved recipe can be trained again."""
    elsewhere, recipes = tmp_path / "elsewhere", tmp_path / "recipes"
    elsewhere.mkdir()
    recipes.mkdir()
    (recipes / "own_killed.py").write_text(FADING)
    (recipes / "fading.toml").write_text(RECIPE.replace("FILE", "own_killed"))

    def run(*words: object) -> Done:
        done = starter.run(*words, cwd=elsewhere)
        assert done.returncode == 0, done.stderr
        return done

    given = ["train", recipes / "fading.toml", "--data", data]
    whole, killed, again = (tmp_path / name for name in ("whole", "killed", "again"))
    done = run(*given, "--out", whole, *FREQUENT)
    assert "Fading: own_killed:Fading, at most 6 epochs of 8 updates, adam 0.01" in done.stdout
    process = Command(*given, "--out", killed, *FREQUENT, cwd=elsewhere)
    while len(list((killed / "checkpoints").glob("0*[05]"))) == 0:  # the fifth, or any later one of those
        assert process.running, process.said()
        time.sleep(0.002)
    process.signal(signal.SIGKILL)
    process.done()
    assert not (killed / "weights").exists()
    assert not (killed / "result.json").exists()
    shutil.rmtree(recipes)
    run("resume", killed, *FREQUENT)
    assert same(whole, killed)
    assert without_times(whole) == without_times(killed)
    figures = [e for e in without_times(killed) if e["event"] == "validation"]
    ends = [e["best"] for e in without_times(killed) if e["event"] == "phase_end"]
    assert [round(end, 4) for end in ends] == [min(entry["smoothed"] for entry in figures)]
    assert load(killed / "resolved.toml").phase[0].share == 0.3
    run("train", killed / "resolved.toml", "--data", data, "--out", again, *FREQUENT)
    assert same(whole, again)
    assert [path.name for path in elsewhere.iterdir()] == []


SWEEP = """
data = "DATA"
runs = "runs"
results = "results"
seeds = [1, 2]
[[cell]]
name = "mle"
recipe = "recipes/mle.toml"
[[cell]]
name = "fading"
recipe = "recipes/fading.toml"
against = ["mle"]
"""


@pytest.mark.slow
def test_it_is_swept_and_stands_in_a_table(data: Path, tmp_path: Path, run: Callable[..., Done]) -> None:
    """Beside MLE, with its difference and what chance makes of it."""
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "own_swept.py").write_text(FADING)
    text = RECIPE.replace("FILE", "own_swept").replace("epochs = 6", "epochs = 2")
    (tmp_path / "recipes" / "fading.toml").write_text(text)
    likelihood = text.replace("own_swept:Fading", "mle").replace("share = 0.3", "").replace("fading", "plain MLE")
    (tmp_path / "recipes" / "mle.toml").write_text(likelihood)
    (tmp_path / "sweep.toml").write_text(SWEEP.replace("DATA", str(data)))
    code, said = starter.sweep_in(tmp_path, "--jobs", "2")
    assert code == 0, said
    assert sorted(path.name for path in (tmp_path / "results").glob("*.json")) == [
        "fading-1.json", "fading-2.json", "mle-1.json", "mle-2.json"
    ]  # fmt: skip
    shown = run("table", "results", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    rows = [[cell.strip() for cell in line.split("|")] for line in shown.stdout.splitlines() if line.startswith("|")]
    assert {row[1] for row in rows} >= {"plain MLE", "fading"}
    figures = [json.loads((tmp_path / "results" / f"fading-{seed}.json").read_text())["bleu"] for seed in (1, 2)]
    (own,) = [row for row in rows if row[1] == "fading"]
    assert any(f"{sum(figures) / 2:.2f}" in cell for cell in own)


@pytest.mark.slow
def test_two_processes_train_it_as_one_does(data: Path, tmp_path: Path) -> None:
    (tmp_path / "own_shared.py").write_text(FADING)
    (tmp_path / "fading.toml").write_text(RECIPE.replace("FILE", "own_shared").replace("epochs = 6", "epochs = 2"))
    given = ["train", tmp_path / "fading.toml", "--data", data, "--threads", "1"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "seqcredit"]
    for name, launch in (("one", [sys.executable, "-m", "seqcredit"]), ("two", torchrun)):
        line = [*launch, *map(str, [*given, "--out", tmp_path / name])]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    one, two = final(tmp_path / "one"), final(tmp_path / "two")
    for key in one:
        torch.testing.assert_close(two[key], one[key], rtol=1e-3, atol=1e-4)


# From Python: the algorithm, the reward and the metric are imported from folders of their own.

SCRIPT = """
import sys
sys.path += [NAMES]
import seqcredit as sc
from own_alone import Fading
from own_alone_reward import reward
from own_alone_metric import metric

pairs = [("1 2", "one two"), ("2", "two"), ("1", "one"), ("2 1 1", "two one one")] * 30
phases = [sc.MLE(epochs=1).phases(False)[0], Fading("Fading", 0.01, "adam", epochs=8, batch_size=20, share=0.3)]
model = sc.LSTM(embedding=8, hidden=8)
given = {"reward": reward, "metric": metric, "longest_output": 6, "out": sys.argv[1], "seed": int(sys.argv[2])}
sc.train(model, pairs, test=pairs[:6], algorithm=phases, say=None, **given)
"""
LENGTH = "def {}(text, references):\n    return -abs(len(text) - len(references[0]))\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script, in a folder of its own as all that it imports."""
    parts = {"algorithm": FADING, "reward": LENGTH.format("reward"), "metric": LENGTH.format("metric")}
    names = {"algorithm": "own_alone", "reward": "own_alone_reward", "metric": "own_alone_metric"}
    for part, text in parts.items():
        (tmp_path / "lib" / part).mkdir(parents=True)
        (tmp_path / "lib" / part / f"{names[part]}.py").write_text(text)
    (tmp_path / "elsewhere").mkdir()
    places = ", ".join(repr(str(tmp_path / "lib" / part)) for part in parts)
    (tmp_path / "script.py").write_text(SCRIPT.replace("NAMES", places))
    return tmp_path / "script.py"


def python(*words: object, cwd: Path) -> Done:
    line = [sys.executable, *map(str, words)]
    return subprocess.run(line, cwd=cwd, capture_output=True, text=True, check=False)


LOAD = """
import sys, seqcredit as sc
trained = sc.load(sys.argv[1])
print(type(trained.run.recipe.phase[1]).__name__, trained.metric.name, len(trained.translate(["1 2", "2"])))
"""


@pytest.mark.slow
def test_by_python_from_another_folder_its_files_go_along(script: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    for seed in (1, 2):
        done = python(script, tmp_path / f"run{seed}", seed, cwd=elsewhere)
        assert done.returncode == 0, done.stderr
    shutil.rmtree(tmp_path / "lib")
    assert sorted(path.name for path in (tmp_path / "run1").glob("*.py")) == [
        "own_alone.py", "own_alone_metric.py", "own_alone_reward.py"
    ]  # fmt: skip
    loaded = python("-c", LOAD, tmp_path / "run1", cwd=elsewhere)
    assert loaded.stdout == "Fading own_alone_metric:metric 2\n", loaded.stderr
    for words in (["table", "../run1", "../run2"], ["compare", "../run1", "../run2"], ["evaluate", "../run1"]):
        done = starter.run(*words, cwd=elsewhere)
        assert done.returncode == 0, done.stderr
    assert [*elsewhere.iterdir()] == []


@pytest.mark.slow
def test_by_python_it_is_killed_and_resumes_by_the_command_line(script: Path, tmp_path: Path) -> None:
    elsewhere, whole, killed = (tmp_path / name for name in ("elsewhere", "whole", "killed"))
    assert python(script, whole, 1, cwd=elsewhere).returncode == 0
    process = subprocess.Popen([sys.executable, script, killed, "1"], cwd=elsewhere)
    log = killed / "log.jsonl"
    while process.poll() is None and not (log.exists() and log.read_text().count('"smoothed"') > 2):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (killed / "result.json").exists()
    shutil.rmtree(tmp_path / "lib")
    done = starter.run("resume", killed, "--threads", "1", cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    assert same(whole, killed)


def test_two_files_of_one_name_cannot_go_along(tmp_path: Path) -> None:
    words = []
    for folder, name in (("one", "Fading"), ("other", "score")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "own_double.py").write_text(f"{FADING}\ndef score(text, references):\n    return 0.0\n")
        words.append(find(f"own_double:{name}", tmp_path / folder))
    kind, score = words
    assert isinstance(kind, type)
    recipe = Recipe("r", (kind("f", 0.1),), metric="own_double:score")
    assert [*own_files(recipe, None, [score])] == ["own_double.py"]  # they are alike
    (tmp_path / "other" / "own_double.py").write_text("def score(text, references):\n    return 0.0\n")
    with pytest.raises(UserError, match=r"own_double\.py: a run keeps one file of a name, rename one of them\.$"):
        own_files(recipe, None, [score])


ABSTRACT = "class Fading(Phase):\n    share: float = 0.1\n"
HEAD = "from dataclasses import dataclass\nfrom seqcredit.algorithms import Phase\n"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("missing", None, "There is no own_wrong_missing.py beside the recipe in "),
        ("syntax", "def (\n", "own_wrong_syntax.py cannot be imported. SyntaxError: invalid syntax (own_wrong_syntax"),
        ("broken", HEAD + "1 / 0\n", "own_wrong_broken.py cannot be imported. ZeroDivisionError: division by zero ("),
        ("empty", HEAD, "own_wrong_empty.py has no 'Fading', which 'own_wrong_empty:Fading' asks for."),
        ("no_phase", "class Fading:\n    pass\n", "own_wrong_no_phase:Fading is no algorithm: make it a frozen datacl"),
        ("function", "def Fading():\n    pass\n", "own_wrong_function:Fading is no algorithm: make it a frozen datacl"),
        ("key", FADING.replace("share: float", "part: float"), "there is no key 'share'"),
        ("range", FADING.replace("BELOW_1)", "FROM_1)").replace("BELOW_1", "FROM_1"), "share is 0.3, but it must be 1"),
        ("plain", HEAD + ABSTRACT + FADING[FADING.index("    def loss") :], "own_wrong_plain:Fading is no algorithm"),
        ("abstract", f"{HEAD}@dataclass(frozen=True)\n{ABSTRACT}", "own_wrong_abstract:Fading is no algorithm"),
    ],
)
def test_a_wrong_file_is_one_sentence_and_no_run(
    name: str,
    text: str | None,
    said: str,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    recipes, elsewhere = tmp_path / "recipes", tmp_path / "elsewhere"
    recipes.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    if text is not None:
        (recipes / f"own_wrong_{name}.py").write_text(text)
    (recipes / "fading.toml").write_text(RECIPE.replace("FILE", f"own_wrong_{name}"))
    with pytest.raises(SystemExit) as stopped:
        main(["train", str(recipes / "fading.toml"), "--data", str(data), "--out", str(tmp_path / "runs" / "run")])
    out, err = capsys.readouterr()
    assert (stopped.value.code, out) == (2, "")
    assert err.startswith(f"seqcredit: {recipes / 'fading.toml'}: phase 1")
    assert said in err
    assert err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "recipes"]
