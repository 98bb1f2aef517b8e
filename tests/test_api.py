"""The Python API: what it trains, what it writes, what it refuses."""

import doctest
import importlib
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import seqcredit as sc
from seqcredit.algorithms import Mle
from seqcredit.errors import UserError
from seqcredit.experiments.runs import Run
from seqcredit.rewards import Custom

SMALL = sc.LSTM(embedding=16, hidden=16)
FAST = sc.MLE(epochs=2, learning_rate=0.02)


def pairs(count: int = 120, seed: int = 0) -> list[tuple[str, str]]:
    rng, words = random.Random(seed), {"1": "one", "2": "two", "3": "three", "4": "four"}
    rows = [[rng.choice([*words]) for _ in range(rng.randint(1, 3))] for _ in range(count)]
    return [(" ".join(row), " ".join(words[digit] for digit in row)) for row in rows]


PUBLIC = {
    "A2C",
    "AC",
    "BSO",
    "ERAC",
    "GRPO",
    "LSTM",
    "MIXER",
    "MLE",
    "MRT",
    "OCD",
    "PCL",
    "RAML",
    "REINFORCE",
    "SAC",
    "SCST",
    "VAML",
    "Evaluation",
    "ProfessorForcing",
    "ScheduledSampling",
    "Trained",
    "Transformer",
    "load",
    "models",
    "rewards",
    "train",
}


def test_what_is_public_is_documented_with_an_example_that_runs() -> None:
    assert set(sc.__all__) == PUBLIC
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for name in sc.__all__:
        thing = getattr(sc, name)
        module = importlib.import_module(getattr(thing, "__module__", None) or thing.__name__)
        (found,) = finder.find(thing, name, module=module if thing is not module else None, globs=vars(module).copy())
        assert found.examples, f"{name} has no example"
        assert runner.run(found).failed == 0, name


def test_importing_it_is_cheap() -> None:
    code = "import seqcredit, sys; print('torch' in sys.modules, 'numpy' in sys.modules, bool(seqcredit.__version__))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True"]
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = sc.nonsense  # type: ignore[attr-defined]
    assert set(dir(sc)) >= PUBLIC


def test_a_finished_run_given_again_is_opened(tmp_path: Path) -> None:
    def call(seed: int = 1) -> sc.Trained:
        return sc.train(SMALL, pairs(), algorithm=FAST, out=tmp_path / "run", seed=seed, say=None)

    first, again = call(), call()
    assert [*first.actor.state_dict()] == [*again.actor.state_dict()]
    for one, other in zip(first.actor.state_dict().values(), again.actor.state_dict().values(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    with pytest.raises(UserError, match="a run with other settings"):
        call(seed=2)


def test_training_goes_on_from_what_was_trained(tmp_path: Path) -> None:
    first = sc.train(SMALL, pairs(), algorithm=sc.MLE(epochs=6, learning_rate=0.02), out=tmp_path / "mle", say=None)
    before = first.evaluate(pairs(40, 5)).value
    second = sc.train(first, pairs(), algorithm=sc.ERAC(epochs=1, critic_epochs=1), out=tmp_path / "erac", say=None)
    assert [phase.name for phase in second.run.recipe.phase] == ["critic", "actor_critic"]
    assert second.evaluate(pairs(40, 5)).value >= before - 12  # the start is kept where nothing validates better
    assert first.evaluate(pairs(40, 5)).value == before  # it was not touched
    words = second.prepared.target_vocabulary.words
    assert words == first.prepared.target_vocabulary.words
    fewer = sc.train(first, [("1", "one")] * 40, algorithm=sc.MLE(epochs=1), say=None)  # words of its own
    assert fewer.prepared.target_vocabulary.words == words


@pytest.mark.parametrize(
    "plan",
    [
        sc.RAML(epochs=1),
        sc.VAML(epochs=1, q_epochs=1),
        sc.SCST(epochs=1, mle_epochs=1),
        sc.MIXER(epochs=1, mle_epochs=1),
        sc.MRT(epochs=1, mle_epochs=1, samples=2),
        sc.GRPO(epochs=1, mle_epochs=1, samples=2),
        sc.ScheduledSampling(epochs=1),
        sc.AC(epochs=1, mle_epochs=1, critic_epochs=1),
    ],
)
def test_every_plan_trains(plan: sc.MLE) -> None:
    trained = sc.train(SMALL, pairs(60), algorithm=plan, longest_output=6, say=None)
    assert isinstance(trained.translate("1"), str)


def test_a_reward_and_a_metric_of_ones_own(tmp_path: Path) -> None:
    """Every word "two" is worth a point, whatever the reference says: then the model says it."""

    def twos(text: str, references: list[str]) -> float:
        return float(text.split().count("two"))

    start = sc.train(SMALL, pairs(), algorithm=sc.MLE(epochs=4, learning_rate=0.02), say=None)
    plan = sc.AC(epochs=8, critic_epochs=20, critic_learning_rate=0.02, learning_rate=0.01, mle_weight=0.0)
    trained = sc.train(
        start, pairs(), reward=twos, metric=twos, algorithm=plan, longest_output=8, out=tmp_path / "x", say=None
    )
    assert trained.evaluate(pairs(30, 6)).value > start.evaluate(pairs(30, 6), metric=twos).value + 0.5
    assert "python" in (tmp_path / "x" / "resolved.toml").read_text()
    as_reward = sc.train(
        start, pairs(), reward=Custom(lambda words, _: float(len(words))), algorithm=Mle("m", 0.01, epochs=1), say=None
    )
    assert as_reward.run.recipe.payoff.metric == "python"


def test_the_mean_reward_of_a_trained_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the pay-off of its run, in memory and loaded; where only Python knows the pay-off, while it is there."""
    (tmp_path / "my_mean.py").write_text("def length(text, references):\n    return float(len(text.split()))\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import my_mean  # type: ignore[import-not-found]

    given = {"algorithm": FAST, "longest_output": 5, "say": None}
    trained = sc.train(SMALL, pairs(40), reward=my_mean.length, metric="bleu", out=tmp_path / "run", **given)
    rows = pairs(12, 3)
    outputs = trained.evaluate(rows, metric="exact").outputs
    mean = sum(len(text.split()) for text in outputs) / len(outputs)
    assert mean > 0
    for one in (trained, sc.load(tmp_path / "run"), sc.load(tmp_path / "run", metric="reward")):
        found = one.evaluate(rows, metric="reward")
        assert (found.metric, found.value) == ("reward", pytest.approx(mean))
        assert found.signature.startswith("mean reward|my_mean:length|code:")
    assert sc.load(tmp_path / "run", metric="reward").evaluate(rows).metric == "reward"
    own = sc.train(SMALL, pairs(40), reward=lambda text, references: 7.0, **given)
    assert own.evaluate(rows, metric="reward").value == 7.0
    with pytest.raises(UserError, match="This pay-off was given in Python, and only Python knows it"):
        sc.load(own.folder, metric="reward")


def test_a_function_in_a_file_keeps_its_name_and_goes_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_scores.py").write_text("def brevity(text, references):\n    return -float(len(text.split()))\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import my_scores  # type: ignore[import-not-found]

    sc.train(
        SMALL,
        pairs(60),
        reward=my_scores.brevity,
        metric=my_scores.brevity,
        algorithm=FAST,
        out=tmp_path / "run",
        say=None,
    )
    run = Run.open(tmp_path / "run")
    assert run.recipe.metric == run.recipe.payoff.metric == "my_scores:brevity"
    assert (tmp_path / "run" / "my_scores.py").exists()
    assert sc.load(tmp_path / "run").evaluate("valid").value <= 0


SCRIPT = """
import sys
import seqcredit as sc
pairs = [("1 2", "one two"), ("2", "two"), ("1", "one"), ("2 1 1", "two one one")] * 60
plan = sc.ERAC(mle_epochs=3, critic_epochs=3, epochs=3)
sc.train(sc.LSTM(embedding=16, hidden=16), pairs, algorithm=plan, longest_output=6, out=sys.argv[1], say=None)
"""


@pytest.mark.slow
def test_a_killed_training_is_resumed_by_the_same_call(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)

    def run(out: str, seconds: float | None = None) -> None:
        process = subprocess.Popen([sys.executable, tmp_path / "script.py", tmp_path / out])
        if seconds is not None:
            log = tmp_path / out / "log.jsonl"
            while process.poll() is None and not (log.exists() and log.read_bytes().count(b"\n") > seconds):
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
        process.wait()

    run("whole")
    for lines in (1, 4, 7):
        run("killed", lines)
    run("killed")
    one, other = (Run.open(tmp_path / name).weights() for name in ("whole", "killed"))
    assert all(torch.equal(tensor, other[key]) for key, tensor in one.items())


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("only a text", r"data\[0\] is 'only a text': give a dict, or a pair"),
        ({"target": "a"}, r"data\[0\] has the keys target: give `source`, and one of references, reference, target"),
        ({"source": "a"}, r"data\[0\]: its references are \[\], but a model that learns from pairs needs"),
        ({"source": "a", "references": []}, r"data\[0\]: its references are \[\], but a model that learns"),
        ({"source": 3, "target": "b"}, r"data\[0\]: its source is 3, but it must be text"),
        (("a", 4), r"data\[0\]: its references are 4, but they must be"),
    ],
)
def test_rows_that_are_none(row: object, said: str) -> None:
    with pytest.raises(UserError, match=said):
        sc.train(SMALL, [row], valid=pairs(3), algorithm=FAST, say=None)  # type: ignore[list-item]


def test_what_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"ERAC: tau is -1\.0, but it must be 0 or more"):
        sc.ERAC(tau=-1.0)
    with pytest.raises(UserError, match="Payoff: metric is 'blue', but it must be one of bleu"):
        sc.train(SMALL, pairs(), reward="blue", say=None)
    with pytest.raises(UserError, match="There are no examples to train on"):
        sc.train(SMALL, [], valid=pairs(3), say=None)
    sc.train(SMALL, pairs(40), algorithm=FAST, out=tmp_path / "run", say=None)
    with pytest.raises(UserError, match="is a run with other settings: choose another `out`"):
        sc.train(SMALL, pairs(40), algorithm=sc.MLE(epochs=7), out=tmp_path / "run", say=None)
    with pytest.raises(UserError, match="the tokenizer made the word 'a b'"):
        sc.train(SMALL, [("a b", "c")], valid=pairs(3), tokenizer=lambda text: [text], say=None)

    def broken(text: str, references: list[str]) -> float:
        return 1 / 0

    with pytest.raises(UserError, match=r"reward: the function failed\. ZeroDivisionError: division by zero"):
        sc.train(SMALL, pairs(40), reward=broken, algorithm=sc.AC(mle_epochs=1, epochs=1), say=None)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("sc.train(sc.LSTM(), [('a', 'b')], algorithm='erac')", "algorithm is 'erac': give ERAC()"),
        ("sc.train(sc.LSTM(), [('a', 'b')], algorithm=sc.ERAC(tau='a'))", "ERAC: tau is 'a', but it must be a number."),
        ("sc.train(sc.LSTM(), [('a', 'b')], algorithm=sc.ERAC)", "ERAC'>: give ERAC(), MLE() or another of them"),
        (
            "sc.train('t5-small', [('a', 'b')])",
            "model is 't5-small': give LSTM(...), a module, or what from_pretrained",
        ),
        ("sc.train(sc.LSTM(), None)", "data is None: give rows, a .jsonl file, or a prepared folder"),
        ("sc.train(sc.LSTM(), [('a', 'b')] * 40, reward=3, algorithm=sc.AC())", "reward is 3: give a name, one of"),
        ("sc.train(sc.LSTM(), [('a', 'b')], report_to=['wandb'])", "report_to is ['wandb']: choose one of"),
        ("sc.train(lambda source, target: 3, [('a', 'b')] * 40)", "but it must make a torch.nn.Module"),
    ],
)
def test_values_of_another_kind_are_one_sentence(call: str, said: str) -> None:
    """Without the tests' own checks of types, as a user has it."""
    code = (
        f"import seqcredit as sc\ntry:\n    {call}\nexcept Exception as error:\n    print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    last = done.stdout.splitlines()[-1]
    assert last.startswith("UserError"), done.stdout + done.stderr
    assert said in last


def test_what_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    sc.train(SMALL, pairs(40), algorithm=FAST)
    shown = capsys.readouterr().out
    assert "2 of 40 examples are held out for validation" in shown
    assert "mle: after 1 updates validation bleu" in shown


def test_about_its_settings(tmp_path: Path) -> None:
    sc.train(SMALL, pairs(40), algorithm=FAST, out=tmp_path / "run", seed=5, say=None)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["seed"] == 5
