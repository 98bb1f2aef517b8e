"""What is given to the command line: an attack spoils one thing of a copy of the world, and names who is to read it."""

import argparse
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from fuzz import mutators
from fuzz.mutators import Mutator, change_bytes, change_json, change_lines, change_tensors, change_toml

FILES = ["--valid", "raw/valid.de", "raw/valid.en", "--tokenized"]
PREPARE = ["prepare", "new", "--train", "raw/train.de", "raw/train.en", *FILES]
CAPTIONS = ["prepare", "new", "--task", "captioning", "--features", "features", "--tokenized"]
TRAIN = ["train", "mle.toml", "--data", "data", "--out", "new"]
USES = (  # of a run's weights
    ["evaluate", "runs/mle-1"],
    ["evaluate", "runs/mle-1", "--split", "valid", "--json"],
    ["translate", "runs/mle-1", "raw/test.de"],
    ["export", "runs/mle-1", "new"],
    [*TRAIN[:1], "erac.toml", *TRAIN[2:], "--init-from", "runs/mle-1"],
    ["inspect", "runs/mle-1", "--critic", "runs/erac-1", "--count", "1", "--out", "new.html"],
    ["headroom", "runs/mle-1", "--samples", "2"],
)
LOOKS = (  # at runs that are done
    ["compare", "runs/mle-1", "runs/erac-1"],
    ["record", "runs/erac-1", "new.json", "--against", "runs/mle-1"],
    ["table", "runs"],
    ["plot", "curves", "runs/mle-1", "runs/erac-1", "--out", "new.svg"],
    ["watch", "runs/mle-1", "runs/erac-1", "--once"],
    ["watch", "runs/mle-1", "--html", "new.html", "--once"],
    ["sweep", "sweep.toml", "--dry-run"],
    ["resume", "runs/mle-1"],
    ["plot", "credit", "runs/erac-1", "--sentence", "1", "--out", "new.png"],
)
CELLS = (
    ["table", "results"],
    ["table", "results", "--baseline", "mle", "--format", "latex"],
    ["plot", "forest", "results", "--baseline", "mle", "--out", "new.svg"],
    ["report", "report.toml", "--out", "NEW.md"],
    ["sweep", "sweep.toml", "--dry-run"],
)
PARSED = ("serve", "demo", "verify", "bench", "features", "tune", "caption", "sheet")  # take long or wait for someone
WHOLE = [
    PREPARE,
    TRAIN,
    ["resume", "stopped"],
    *USES,
    *LOOKS,
    *CELLS,
    ["recipes", "iwslt14/erac"],
    [*CAPTIONS, "--karpathy", "pictures/karpathy.json"],
]


TUNE = ["tune", "--model", "model", "--train", "raw/train.jsonl", "--valid", "raw/valid.jsonl", "--algorithm", "scst"]
TUNE += ["--set", "epochs=1", "--longest-output", "4", "--out", "new"]
OWN = (  # who reads own.py
    ["evaluate", "runs/mle-1", "--metric", "own:score"],
    [*TRAIN, "--set", "metric=own:score"],
    [*TRAIN[:1], "vaml.toml", *TRAIN[2:], "--set", "payoff.metric=own:score"],
    [*TRAIN, "--set", "phase.1.objective=own:Mine"],
    [*TUNE, "--reward", "own:score"],
)
BODIES = (  # of functions of the user's
    *("1 / 0", "return None", "return float('nan')", "return 10**400", "return 10**5000", "return 'x'", "return [1.0]"),
    *("return text", "return b''", "return 1j", "raise SystemExit(3)", "raise StopIteration", "raise KeyError(text)"),
    *(
        "return score(text, references)",
        "raise OSError",
        "raise RuntimeError('\\ud800')",
        "raise ValueError('x' * 9999)",
    ),
    *("import torch; return torch.ones(2)", "import torch; return torch.zeros(())", "yield 1", "return lambda: 1"),
    "class E(Exception):\n        __str__ = None\n    raise E",
)
HEADS = (  # of files of the user's
    *("1 / 0", "def score(:", "raise SystemExit(3)", "import nothing_of_the_kind", "raise ValueError('a\\nb')", "\0"),
    *(
        "score = 7",
        "def score(): return 1",
        "def score(a, b, c, d): return 1",
        "class score: pass",
        "del score",
        "x = 1",
    ),
    *("class Mine: pass", "Mine = 7", "from seqcredit.algorithms import Phase as Mine", "import sys; sys.exit()"),
)


class Case(NamedTuple):
    """A command, what was spoilt, and whether the command must refuse or say so."""

    kind: str
    words: list[str]
    spoilt: str
    refuse: bool = False
    nobody: bool = False


Attack = Callable[[random.Random, Path], Case]


def _file(rng: random.Random, place: Path, path: str, mutator: Mutator) -> str:
    """Spoil a file; what was done, in words."""
    file = place / path
    way = rng.randrange(24)
    if way == 0:
        file.unlink()
        return f"{path} is gone"
    if way == 1:
        file.unlink()
        file.mkdir()
        return f"{path} is a folder"
    if way == 2:
        file.unlink()
        file.symlink_to(file.name)
        return f"{path} is a link to itself"
    if way == 3:
        file.unlink()
        file.symlink_to("/dev/null")
        return f"{path} is /dev/null"
    before = file.read_bytes()
    after = mutator(rng, before)
    file.write_bytes(after)
    return f"{path}: {len(before)} bytes became {len(after)}"


def _below(place: Path, folder: str, *endings: str) -> list[str]:
    found = sorted(path for path in (place / folder).rglob("*") if path.is_file())
    return [str(path.relative_to(place)) for path in found if not endings or path.name.endswith(endings)]


def text(rng: random.Random, place: Path) -> Case:
    """Parallel text."""
    spoilt = _file(rng, place, rng.choice(("raw/train.de", "raw/train.en", "raw/valid.en")), change_bytes)
    return Case("text", [*PREPARE, *rng.choice(([], ["--lowercase"], ["--moses", "--languages", "de", "en"]))], spoilt)


def tsv(rng: random.Random, place: Path) -> Case:
    """Pairs and captions with tabs."""
    if rng.random() < 0.5:
        spoilt = _file(rng, place, "raw/train.tsv", change_bytes)
        return Case("tsv", ["prepare", "new", "--train", "raw/train.tsv", *FILES], spoilt)
    spoilt = _file(rng, place, "pictures/train.tsv", change_bytes)
    return Case("tsv", [*CAPTIONS, "--train", "pictures/train.tsv", "--valid", "pictures/valid.tsv"], spoilt)


def jsonl(rng: random.Random, place: Path) -> Case:
    """Pairs as lines of JSON; a value of another type must be refused."""
    words = ["prepare", "new", "--train", "raw/train.jsonl", *FILES]
    if rng.random() < 0.6:
        return Case("jsonl", words, _file(rng, place, "raw/train.jsonl", change_lines))
    return Case("jsonl", words, _typed(rng, place, "raw/train.jsonl", lines=True), refuse=True)


def captions(rng: random.Random, place: Path) -> Case:
    """MSCOCO's annotations and Karpathy's splits; a value of another type must be refused."""
    if rng.random() < 0.5:
        name, words = "train.json", [*CAPTIONS, "--train", "pictures/train.json", "--valid", "pictures/valid.json"]
    else:
        name, words = "karpathy.json", [*CAPTIONS, "--karpathy", "pictures/karpathy.json"]
    if rng.random() < 0.6:
        return Case("captions", words, _file(rng, place, f"pictures/{name}", change_json))
    return Case("captions", words, _typed(rng, place, f"pictures/{name}"), refuse=True)


def _typed(rng: random.Random, place: Path, path: str, lines: bool = False) -> str:
    import json

    file = place / path
    kept = [json.loads(line) for line in file.read_text().splitlines()] if lines else json.loads(file.read_text())
    changed, where = mutators.change_type(rng, kept)
    assert isinstance(changed, list | dict)
    file.write_text("".join(json.dumps(row) + "\n" for row in changed) if lines else json.dumps(changed))
    return f"{path}: another type at {'.'.join(map(str, where))}"


def features(rng: random.Random, place: Path) -> Case:
    """Features of pictures."""
    spoilt = _file(rng, place, rng.choice(("features/features.npy", "features/features.txt")), change_bytes)
    return Case("features", [*CAPTIONS, "--karpathy", "pictures/karpathy.json"], spoilt)


def recipe(rng: random.Random, place: Path) -> Case:
    """A recipe."""
    name = rng.choice(("mle", "erac", "vaml"))
    spoilt = _file(rng, place, f"{name}.toml", change_toml)
    return Case("recipe", ["train", f"{name}.toml", *TRAIN[2:]], spoilt)


KEYS = (
    *(
        "seed",
        "beam",
        "metric",
        "data",
        "name",
        "fidelity",
        "longest_output",
        "length_penalty",
        "on_divergence",
        "phase",
    ),
    *(
        "payoff.metric",
        "payoff.references",
        "payoff.scale",
        "actor.hidden",
        "actor.layers",
        "actor.kind",
        "actor.dropout",
    ),
    *("actor.attention", "actor.embedding", "critic.copy", "critic.hidden", "critic.kind", "critic", "actor", "payoff"),
    *("phase.1.validate_every", "phase.1.updates", "phase.1.epochs", "phase.1.batch_size", "phase.1.learning_rate"),
    *(
        "phase.1.decays",
        "phase.1.decay",
        "phase.1.optimizer",
        "phase.1.precision",
        "phase.1.accumulate",
        "phase.1.clip",
    ),
    *(
        "phase.1.objective",
        "phase.1.name",
        "phase.1.fused",
        "phase.2.tau",
        "phase.2.samples",
        "phase.3.tau",
        "phase.2.bound",
    ),
    *(
        "phase.3.smoothing",
        "phase.3.target_rate",
        "phase.3.mle_weight",
        "phase.3.kappa",
        "phase.*.epochs",
        "phase.9.tau",
    ),
    *(
        "phase.mle.epochs",
        "phase",
        "",
        ".",
        "phase.",
        "phase..x",
        "a.b.c",
        "phase.1",
        "é",
        "validation_beam",
        "phase.0.x",
    ),
)


def settings(rng: random.Random, place: Path) -> Case:
    """`--set`, of keys that there are and of others."""
    name = rng.choice(("mle", "erac", "vaml"))
    literal = (
        rng.choice(mutators.LITERALS).strip("'")
        if rng.random() < 0.9
        else rng.choice(("a\nb = 1", "\n", "1\n2", "#", "\x7f"))
    )
    change = f"{rng.choice(KEYS)}={literal}" if rng.random() < 0.97 else rng.choice(("", "=", "seed", "==", "a=b=c"))
    return Case("set", ["train", f"{name}.toml", *TRAIN[2:], "--set", change], f"--set {change[:60]!r}")


NASTY = (
    *("", " ", "0", "-1", "1.5", "nan", "inf", "-inf", "1e309", "1e-320", "2147483648", "9" * 20, "9" * 5_000, "0x10"),
    *(
        "1_000",
        "１２",
        "true",
        "None",
        "cpu",
        "cuda",
        "cuda:99",
        "meta",
        "cpu:7",
        "mps",
        "xpu",
        "vulkan",
        "é",
        "a\nb",
        "\udcff",
    ),
    *(
        ".",
        "/",
        "..",
        "/dev/null",
        "/dev/full",
        "a" * 300,
        "a/" * 2_500,
        "nowhere",
        "nowhere/x",
        "raw/train.de",
        "raw/train.de/x",
    ),
    *(
        "data",
        "runs",
        "runs/mle-1",
        "closed",
        "closed/x",
        "loop",
        "loop/x",
        "/proc/self/mem",
        "/proc/x",
        "mle.toml",
        "x.svg",
    ),
    *("x:y", "os:getcwd", "mle.toml:f", ":", "bleu", "reward", "test", "valid", "~", "-", "--", "1", "2", "3"),
)


def options(rng: random.Random, place: Path) -> Case:
    """An option or an argument of any command with a value that nobody means."""
    from seqcredit.cli import parser

    for name in ("loop", "closed"):
        (place / name).symlink_to("loop") if name == "loop" else (place / name).mkdir(0)
    words, value = list(rng.choice(WHOLE)), rng.choice(NASTY)
    if rng.random() < 0.1:
        return Case("options", [rng.choice(PARSED), *_parsed(rng)], "options of a command that takes long")
    found = next(iter(parser()._subparsers._group_actions)).choices[words[0]]  # type: ignore[union-attr, index]
    known = [action for action in found._actions if action.option_strings and action.dest != "help"]
    if rng.random() < 0.35 or not known:
        number = rng.randrange(1, len(words))
        while words[number].startswith("--"):
            number = rng.randrange(1, len(words))
        words[number] = value
        return Case("options", words, f"argument {number} is {value[:40]!r}", nobody=_root())
    action = rng.choice(known)
    count = 0 if isinstance(action.nargs, int) and action.nargs == 0 else 2 if action.nargs == 2 else 1
    if isinstance(action, argparse._StoreTrueAction):
        count = 0
    words += [action.option_strings[-1], *[value] * count]
    return Case("options", words, f"{action.option_strings[-1]} {value[:40]!r}", nobody=_root())


def _parsed(rng: random.Random) -> list[str]:
    """Words that no command takes as they are."""
    return [
        rng.choice(("--no-such", "--port", "--threads", "--samples", "--seed", "--steps")),
        rng.choice(("-1", "x", "nan", "")),
    ]


def _root() -> bool:
    return os.getuid() == 0


def closed(rng: random.Random, place: Path) -> Case:
    """Somebody else's files and folders, which may not be read, searched or written."""
    words = list(rng.choice([words for words in WHOLE if words[0] != "recipes"]))
    named = [word for word in words[1:] if (place / word).exists()]
    below = [path for word in named for path in [word, *_below(place, word)]]
    below += [str(path.relative_to(place)) for word in named for path in (place / word).rglob("*") if path.is_dir()]
    chosen = rng.choice([*below, "."])
    if _root():  # the others are somebody's who may do everything
        for path in [place, *place.rglob("*")]:
            os.chown(path, 65_534, 65_534)
    mode = rng.choice((0, 0, 0o444, 0o555, 0o111)) if (place / chosen).is_dir() else rng.choice((0, 0o200))
    if chosen == ".":
        mode = 0o555
    os.chmod(place / chosen, mode)
    return Case("closed", words, f"{chosen} has mode {mode:o}", nobody=_root())


def prepared(rng: random.Random, place: Path) -> Case:
    """A prepared folder: whatever was changed must be noticed, of files that have a checksum."""
    path = rng.choice(_below(place, "data"))
    spoilt = _file(rng, place, path, change_json if path.endswith(".json") else change_bytes)
    words = rng.choice((*USES, TRAIN, ["resume", "stopped"]))
    return Case("prepared", list(words), spoilt, refuse=True)


def old_manifest(rng: random.Random, place: Path) -> Case:
    """A manifest of the time before it had a checksum, with another value."""
    import json

    path = place / "data" / "manifest.json"
    record = json.loads(path.read_text())
    record.pop("checksum", None)
    path.write_text(json.dumps(mutators.change_tree(rng, record)))
    return Case("prepared", list(rng.choice((*USES, TRAIN, ["resume", "stopped"]))), "a value of an old manifest")


def weights(rng: random.Random, place: Path) -> Case:
    """Weights of a run or an export: whatever was changed must be noticed."""
    path, words = "runs/mle-1/weights/mle.safetensors", list(rng.choice(USES))
    if rng.random() < 0.3:
        path, words = "export/weights/mle.safetensors", ["translate", "export", "raw/test.de"]
    return Case("weights", words, _file(rng, place, path, change_tensors), refuse=True)


def export(rng: random.Random, place: Path) -> Case:
    """Any file of an export but its card."""
    path = rng.choice([path for path in _below(place, "export") if not path.endswith("README.md")])
    kinds = {".json": change_json, ".toml": change_toml, ".safetensors": change_tensors}
    spoilt = _file(rng, place, path, kinds.get(Path(path).suffix, change_bytes))
    old = spoilt == "export/manifest.json is gone"  # as of exports from before there were manifests
    return Case("export", ["translate", "export", "raw/test.de"], spoilt, refuse=not old)


def run_folder(rng: random.Random, place: Path) -> Case:
    """What a run has kept: run.json, settings, result, hypotheses."""
    folder = rng.choice(("runs/mle-1", "runs/erac-1"))
    path = rng.choice([path for path in _below(place, folder) if "weights" not in path and "checkpoints" not in path])
    kinds = {".json": change_json, ".toml": change_toml, ".jsonl": change_lines}
    spoilt = _file(rng, place, path, kinds.get(Path(path).suffix, change_bytes))
    return Case("run", list(rng.choice((*USES, *LOOKS, *LOOKS))), spoilt)


def checkpoints(rng: random.Random, place: Path) -> Case:
    """One checkpoint or both: it is said, whatever happens then."""
    names = sorted(path.name for path in (place / "stopped/checkpoints").iterdir())
    both = rng.random() < 0.4
    for name in names if both else names[-1:]:
        path = rng.choice(_below(place, f"stopped/checkpoints/{name}"))
        spoilt = _file(rng, place, path, change_json if path.endswith(".json") else change_tensors)
    return Case("checkpoints", ["resume", "stopped"], f"{spoilt}{' and another one' if both else ''}", refuse=True)


def log(rng: random.Random, place: Path) -> Case:
    """A log of a run that is done, or is to be resumed."""
    path, words = rng.choice(
        [
            ("stopped/log.jsonl", ["resume", "stopped"]),
            *(("runs/erac-1/log.jsonl", words) for words in LOOKS),
        ]
    )
    return Case("log", list(words), _file(rng, place, path, change_lines))


def cells(rng: random.Random, place: Path) -> Case:
    """Cells, their rows and hypotheses."""
    path = rng.choice(_below(place, "results"))
    spoilt = _file(rng, place, path, change_json if path.endswith(".json") else change_bytes)
    read = path.endswith(".json") and "gone" not in spoilt
    return Case("cells", list(rng.choice(CELLS)), spoilt, refuse=read)


def old_cell(rng: random.Random, place: Path) -> Case:
    """A cell of the time before it had a checksum, with another value."""
    import json

    path = place / "results" / "erac-1.json"
    record = json.loads(path.read_text())
    for key in ("checksum", "files"):
        record.pop(key, None)
    path.write_text(json.dumps(mutators.change_tree(rng, record)))
    return Case("cells", list(rng.choice(CELLS)), "a value of an old cell")


def sweep_file(rng: random.Random, place: Path) -> Case:
    """A sweep's file, or that of a report."""
    if rng.random() < 0.8:
        return Case("sweep", ["sweep", "sweep.toml", "--dry-run"], _file(rng, place, "sweep.toml", change_toml))
    return Case("sweep", ["report", "report.toml", "--out", "NEW.md"], _file(rng, place, "report.toml", change_toml))


def model(rng: random.Random, place: Path) -> Case:
    """The folder of a model of transformers, whose weights have no checksum; or the examples to tune it with."""
    path = rng.choice([*_below(place, "model"), "raw/train.jsonl"])
    kinds = {".json": change_json, ".jsonl": change_lines, ".safetensors": change_tensors}
    return Case("model", TUNE, _file(rng, place, path, kinds.get(Path(path).suffix, change_bytes)))


def own(rng: random.Random, place: Path) -> Case:
    """Files of the user's own that are not Python, fail, or answer what nobody can use."""
    path = place / "own.py"
    words, before = list(rng.choice(OWN)), path.read_text()
    way = rng.random()
    if way < 0.2:
        return Case("own", words, _file(rng, place, "own.py", change_bytes))
    if way < 0.6:
        added = rng.choice(HEADS)
        path.write_text(f"{before}\n\n{added}\n")
    else:
        added = rng.choice(BODIES)
        path.write_text(before.replace("    return ", f"    {added}\n    return ", 1 + rng.randrange(2)))
    return Case("own", words, f"own.py with {added[:40]!r}")


# How often each comes.
ATTACKS: tuple[tuple[Attack, int], ...] = (
    (text, 5),
    (tsv, 4),
    (jsonl, 4),
    (captions, 8),
    (features, 2),
    (recipe, 10),
    (settings, 13),
    (options, 15),
    (closed, 5),
    (prepared, 4),
    (old_manifest, 2),
    (weights, 6),
    (export, 2),
    (run_folder, 7),
    (checkpoints, 3),
    (log, 3),
    (cells, 3),
    (old_cell, 2),
    (sweep_file, 5),
    (model, 3),
    (own, 4),
)


def attack(seed: int, number: int, place: Path, only: Sequence[str] = ()) -> Case:
    """Case number so and so of a seed, in a copy of the world."""
    rng = random.Random(f"{seed} {number}")
    known = [(one, weight) for one, weight in ATTACKS if not only or one.__name__ in only]
    chosen = rng.choices([one for one, _ in known], [weight for _, weight in known])[0]
    return chosen(rng, place)
