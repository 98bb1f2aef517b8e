"""Every command, by its file: what it says to mistakes, before it writes anything."""

from pathlib import Path
from typing import Any

import pytest

from seqcredit.cli import main, parser
from seqcredit.commands import GROUPS

FOLDER = Path(__file__).parents[2] / "src" / "seqcredit" / "commands"
WHOLE, WHOLE_0 = "is not a whole number above 0", "is not a whole number, 0 or more"
WIDTH = "is not a whole number from 1 to 10,000"
THREADS = "is not a whole number from 1 to 1,024"

# For each command: words that are wrong, and a part of the sentence. RUN is a run, NOWHERE nothing.
CASES: dict[str, list[tuple[str, str]]] = {
    "prepare": [
        ("out", "--train and --valid are needed"),
        ("out --train a.tsv --valid NOWHERE.tsv", "There is no file a.tsv"),
        ("out --task captioning", "--features FOLDER go together"),
        ("out --karpathy x.json", "--karpathy is for --task captioning"),
        ("out --bpe 0", f"--bpe: '0' {WHOLE}"),
        ("out --min-count -1", f"--min-count: '-1' {WHOLE_0}"),
        ("out --max-vocabulary 0", f"--max-vocabulary: '0' {WHOLE}"),
        ("out --max-length 1.5", f"--max-length: '1.5' {WHOLE}"),
        ("out --only-short x", f"--only-short: 'x' {WHOLE}"),
    ],
    "features": [
        ("NOWHERE out", "Cannot read NOWHERE"),
        ("NOWHERE out --batch-size 0", f"--batch-size: '0' {WHOLE}"),
        ("NOWHERE out --device 0", "--device 0: torch finds no such device here"),
    ],
    "train": [
        ("NOWHERE", "There is no recipe NOWHERE"),
        ("demo/mle --data DATA --log-every 0", f"--log-every: '0' {WHOLE}"),
        ("demo/mle --data DATA --log-every many", f"--log-every: 'many' {WHOLE}"),
        ("demo/mle --data DATA --threads 0", f"--threads: '0' {THREADS}"),
        ("demo/mle --data DATA --threads -1", f"--threads: '-1' {THREADS}"),
        ("demo/mle --data DATA --threads 9999999999", f"--threads: '9999999999' {THREADS}"),
        ("demo/mle --data DATA --checkpoint-minutes nan", "--checkpoint-minutes: 'nan' is not a number, 0 or more"),
        ("demo/mle --data DATA --checkpoint-minutes -1", "--checkpoint-minutes: '-1' is not a number, 0 or more"),
        ("demo/mle --data DATA --device 0", "--device 0: torch finds no such device here"),
        ("demo/mle --data DATA --device nan", "--device nan: torch finds no such device here"),
        ("demo/mle --data DATA --device meta", "--device meta: torch finds no such device here"),
        ("demo/mle --data DATA --device cuda:99", "--device cuda:99: torch finds no such device here"),
        ("demo/mle --data DATA --seed x", "--seed: 'x' is not a seed"),
        ("demo/mle --data DATA --seed -1", "--seed: '-1' is not a seed"),
        ("demo/mle --data DATA --until x", "has no phase 'x'"),
    ],
    "tune": [
        ("--train a.jsonl --out x", "the following arguments are required: --model"),
        ("--model m --train NOWHERE.jsonl --out x", "There is no file NOWHERE.jsonl"),
        ("--model m --train NOWHERE.jsonl --out x --algorithm ppo", "--algorithm: invalid choice: 'ppo'"),
        ("--model m --train NOWHERE.jsonl --out x --set epochs", "--set epochs: write KEY=VALUE, such as epochs=3."),
        ("--model m --train NOWHERE.jsonl --out x --set epochs=x", "such as epochs=3; text stands in quotes."),
        ("--model m --train NOWHERE.jsonl --out x --set tau=-1", "erac: tau is -1, but it must be 0 or more"),
        ("--model m --train NOWHERE.jsonl --out x --set tua=1", "erac: there is no key 'tua'; the nearest is 'tau'."),
        ("--model m --train NOWHERE.jsonl --out x --device nan", "--device nan: torch finds no such device here"),
        ("--model m --train NOWHERE.jsonl --out x --longest-output 0", f"--longest-output: '0' {WHOLE}"),
    ],
    "resume": [
        ("NOWHERE", "NOWHERE is not a run folder"),
        ("RUN --device nan", "--device nan: torch finds no such device here"),
        ("RUN --log-every 0", f"--log-every: '0' {WHOLE}"),
    ],
    "sweep": [
        ("NOWHERE.toml", "NOWHERE.toml"),
        ("NOWHERE.toml --jobs 0", f"--jobs: '0' {WHOLE}"),
        ("NOWHERE.toml --threads 0", f"--threads: '0' {THREADS}"),
        ("NOWHERE.toml --device gpu", "--device gpu: torch finds no such device here"),
    ],
    "demo": [
        ("paintings", "invalid choice: 'paintings'"),
        ("--only mle sarsa", "invalid choice: 'sarsa'"),
        ("--out DATA", "is there already"),
        ("--quick --only ac", "--quick trains mle, mle-continued, erac: leave out --only ac."),
    ],
    "recipes": [("nonsense/erac", "There is no recipe 'nonsense/erac'")],
    "translate": [
        ("NOWHERE", "NOWHERE is not a run folder"),
        ("RUN NOWHERE", "There is no file NOWHERE"),
        ("RUN --n-best 0", f"--n-best: '0' {WIDTH}"),
        ("RUN --beam 0", f"--beam: '0' {WIDTH}"),
        ("RUN --beam 2147483647", f"--beam: '2147483647' {WIDTH}"),
        ("RUN --beam -3", f"--beam: '-3' {WIDTH}"),
        ("RUN --length-penalty nan", "--length-penalty: 'nan' is not a number from -10 to 10"),
        ("RUN --length-penalty inf", "--length-penalty: 'inf' is not a number from -10 to 10"),
        ("RUN --device nan", "--device nan: torch finds no such device here"),
    ],
    "caption": [
        ("NOWHERE a.png", "NOWHERE is not a run folder"),
        ("RUN a.png", "translates: use `seqcredit translate`"),
        ("RUN a.png --n-best 0", f"--n-best: '0' {WIDTH}"),
        ("RUN a.png --device nan", "--device nan: torch finds no such device here"),
    ],
    "export": [("NOWHERE out", "NOWHERE is not a run folder"), ("RUN out --phase x", "no weights of phase 'x'")],
    "evaluate": [
        ("NOWHERE", "NOWHERE is not a run folder"),
        ("RUN --split dev", "has no split 'dev'"),
        ("RUN --beam 0", f"--beam: '0' {WIDTH}"),
        ("RUN --device nan", "--device nan: torch finds no such device here"),
        ("RUN --guide NOWHERE", "NOWHERE is not a run folder"),
        ("RUN --guide RUN", "has no critic to guide by: train one as the recipe demo/guide does"),
        ("RUN --guide-weight 1", "--guide-weight is for a guide: give --guide RUN too."),
        ("RUN --guide RUN --guide-weight x", "--guide-weight: 'x' is not a number from -10 to 10"),
    ],
    "compare": [
        ("NOWHERE RUN", "NOWHERE is not a run folder"),
        ("RUN NOWHERE", "NOWHERE is not a run folder"),
        ("RUN RUN --split dev", "has no split 'dev'"),
        ("RUN RUN --show -1", f"--show: '-1' {WHOLE_0}"),
    ],
    "headroom": [
        ("NOWHERE", "NOWHERE is not a run folder"),
        ("RUN --samples 0", f"--samples: '0' {WHOLE}"),
        ("RUN --threads 0", f"--threads: '0' {THREADS}"),
        ("RUN --device nan", "--device nan: torch finds no such device here"),
    ],
    "record": [
        ("NOWHERE out.json", "NOWHERE is not a run folder"),
        ("RUN out.json", "has no result.json"),
        ("RUN out.json --headroom 0", f"--headroom: '0' {WHOLE}"),
        ("RUN out.json --headroom 2 --device nan", "--device nan: torch finds no such device here"),
    ],
    "table": [("NOWHERE", "NOWHERE"), ("NOWHERE --layout table9", "invalid choice: 'table9'")],
    "plot": [
        ("tau NOWHERE --out a.png", "NOWHERE"),
        ("credit NOWHERE --sentence 1 --out a.png", "NOWHERE is not a run folder"),
        ("curves RUN --out a.gif", "a.gif"),
    ],
    "report": [("NOWHERE.toml", "NOWHERE.toml")],
    "sheet": [
        ("NOWHERE --images .", "NOWHERE is not a run folder"),
        ("RUN --images .", "holds no images"),
        ("RUN --images . --count 0", f"--count: '0' {WHOLE}"),
    ],
    "inspect": [
        ("NOWHERE", "NOWHERE is not a run folder"),
        ("RUN --count 0", f"--count: '0' {WHOLE}"),
        ("RUN --threads 0", f"--threads: '0' {THREADS}"),
        ("RUN --device nan", "--device nan: torch finds no such device here"),
    ],
    "serve": [
        ("NOWHERE", "NOWHERE is not a run folder"),
        ("RUN --port 99999", "--port: '99999' is not a port, from 0 to 65535"),
        ("RUN --port -1", "--port: '-1' is not a port, from 0 to 65535"),
        ("RUN --device nan", "--device nan: torch finds no such device here"),
    ],
    "watch": [
        ("NOWHERE --once", "NOWHERE is not a run folder"),
        ("RUN --every 0", "--every: '0' is not a number of seconds above 0"),
        ("RUN --every nan", "--every: 'nan' is not a number of seconds above 0"),
        ("RUN --every inf", "--every: 'inf' is not a number of seconds above 0"),
    ],
    "verify": [("--rounds 3", "unrecognized arguments: --rounds 3")],
    "bench": [
        ("--rounds 0", f"--rounds: '0' {WHOLE}"),
        ("--threads 0", f"--threads: '0' {THREADS}"),
        ("--growth a.gif", "a.gif"),
    ],
}
WRONG = [(name, words, sentence) for name, cases in CASES.items() for words, sentence in cases]


def test_every_file_is_a_command_and_has_its_cases() -> None:
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "shared"}
    listed = [command.__name__.rpartition(".")[2] for group in GROUPS.values() for command in group]
    assert len(listed) == len(set(listed))
    assert set(listed) == files == set(CASES)
    assert all(CASES.values())


def test_a_file_is_one_command() -> None:
    """The parser calls the `run` of the file with the command's name, and the file says in one line what it does."""
    least = {"prepare": "out", "features": "a b", "train": "a", "sweep": "a", "plot": "curves a --out b.png"}
    least |= {
        "tune": "--model a --train b --out c",
        "caption": "a b",
        "export": "a b",
        "compare": "a b",
        "record": "a b",
        "sheet": "a --images b",
    }
    for group in GROUPS.values():
        for command in group:
            name = command.__name__.rpartition(".")[2]
            words = least.get(name, "" if name in ("demo", "recipes", "report", "verify", "bench") else "a")
            assert parser().parse_args([name, *words.split()]).run is command.run
            assert command.__doc__.startswith(f"`seqcredit {name}`: ")
            assert command.ABOUT[0].islower()
            assert not command.ABOUT.endswith(".")


@pytest.mark.parametrize(("name", "words", "sentence"), WRONG, ids=[f"{name} {words}" for name, words, _ in WRONG])
def test_a_mistake_gets_one_sentence_and_leaves_nothing_behind(
    shown: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    words: str,
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    places = {"RUN": shown.mle.folder, "DATA": shown.prepared.folder}
    before = sorted(shown.mle.folder.rglob("*"))
    with pytest.raises(SystemExit) as ended:
        main([name, *(str(places.get(word, word)) for word in words.split())])
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("seqcredit: ")
    assert sentence in line
    assert line.endswith(".")
    assert list(tmp_path.iterdir()) == []
    assert sorted(shown.mle.folder.rglob("*")) == before


def test_what_is_not_a_mistake_is_taken() -> None:
    """The ends of the ranges."""
    train = ["train", "a", "--threads", "1024", "--log-every", "1"]
    taken = parser().parse_args([*train, "--checkpoint-minutes", "0"])
    assert (taken.threads, taken.log_every, taken.checkpoint_minutes, taken.device) == (1024, 1, 0.0, "cpu")
    assert parser().parse_args([*train, "--checkpoint-minutes", "inf"]).checkpoint_minutes == float("inf")
    ports = [parser().parse_args(["serve", "a", "--port", word]).port for word in ("0", "65535")]
    assert ports == [0, 65535]
    assert parser().parse_args(["compare", "a", "b", "--show", "0"]).show == 0
    assert parser().parse_args(["translate", "a", "--length-penalty", "-0.5"]).length_penalty == -0.5
