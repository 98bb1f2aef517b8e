"""Nothing measured may change by accident: what a few updates of every algorithm give, to the last bit.

    python tests/golden.py write FILE [NAME ...]   train them and write the losses and checksums down
    python tests/golden.py check FILE [NAME ...]   train them again and compare, bit by bit
    python tests/golden.py keep FILE               write the part that is committed, tests/golden.json

Everything goes through the command line, so that the code below it may change as it likes. Checksums hold on one kind
of processor; losses, which `test_golden.py` looks at, hold on all of them but for their last digits.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

RECIPES = Path(os.environ.get("GOLDEN_RECIPES", Path(__file__).parents[1] / "src/seqcredit/experiments/recipes"))
COMMITTED = Path(__file__).parent / "golden.json"
UPDATES = 20
QUICK = (
    "phase.*.epochs=1",
    f"phase.*.updates={UPDATES}",
    "phase.*.batch_size=16",
    "phase.*.validate_every=0",
    "longest_output=20",
    "beam=2",
    "on_divergence=record",
)
SMALL = ("actor.embedding=24", "actor.hidden=32", "critic.embedding=24", "critic.hidden=32")
CHOICES = ("phase.soft_q.proposal=mixed", "phase.soft_q.steps=4", "phase.soft_q.look_ahead=target")


PART = ("mle", "raml", "vaml", "erac", "captions-erac", "erac-processes")  # committed, and a test's business
EVERY = 5

Lines = list[dict[str, float]]  # of the log


class Measured(TypedDict):
    """What is written down of a case: losses and checksums of each phase, and the test BLEU."""

    losses: dict[str, Lines]
    weights: dict[str, str]
    bleu: float


class Case(NamedTuple):
    """A recipe, what is changed in it, and how many processes share its batches."""

    recipe: str
    overrides: tuple[str, ...] = ()
    processes: int = 1


CASES: dict[str, Case] = {
    "mle": Case("demo/mle"),
    "raml": Case("demo/raml"),
    "vaml": Case("demo/vaml", ("phase.soft_q.exact=3",)),
    "vaml-copying": Case("demo/vaml-copying"),
    "vaml-choices": Case("demo/vaml", (*CHOICES, "phase.soft_q.exact_eos=0.5", "phase.vaml.kappa_draws=true")),
    "vaml-likely": Case("multi30k/vaml-copying", SMALL),
    "vaml-released": Case("iwslt14/vaml", (*SMALL, "fidelity=released", "phase.*.decay=0.5")),
    "vaml-plain": Case("demo/vaml", ("phase.*.fused=false",)),
    "ac": Case("demo/ac"),
    "erac": Case("demo/erac", ("phase.critic.exact=3", "phase.critic.samples=2", "phase.actor_critic.anneal=true")),
    "erac-feeding": Case("iwslt14/erac-feeding"),
    "erac-released": Case("iwslt14/erac", (*SMALL, "fidelity=released", "phase.*.batch_size=48")),
    "erac-exact-eos": Case("tatoeba/erac-exact-eos", (*SMALL, "phase.critic.judged_by=td")),
    "erac-plain": Case("demo/erac", ("phase.*.fused=false",)),
    "erac-processes": Case("demo/erac", processes=2),
    "captions-erac": Case("demo-captioning/erac"),
    "captions-vaml": Case("demo-captioning/vaml"),
    "captions-cider": Case("flickr8k/ac", ("payoff.metric=cider", "actor.hidden=512", "payoff.references=all")),
}


def make_data(folder: Path) -> dict[str, Path]:
    """Sentences and pictures of the demos, prepared."""
    import numpy as np

    from seqcredit.data.images import Features
    from seqcredit.data.manifest import PrepareOptions
    from seqcredit.data.phrases import phrases
    from seqcredit.data.prepare import prepare
    from seqcredit.data.shapes import features, shapes

    sizes, options = {"train": 600, "valid": 40, "test": 40}, PrepareOptions(tokenized=True)
    prepare({name: phrases(name, size) for name, size in sizes.items()}, folder / "text", options)
    made = {name: list(shapes(name, size)) for name, size in sizes.items()}
    drawn = [(example.source, features(picture)) for split in made.values() for example, picture in split]
    seen = Features([name for name, _ in drawn], np.stack([row for _, row in drawn]))
    examples = {name: [example for example, _ in split] for name, split in made.items()}
    prepare(examples, folder / "pictures", options, features=seen)
    return {"text": folder / "text", "pictures": folder / "pictures"}


def measure(name: str, case: Case, data: Mapping[str, Path], folder: Path, recipes: Path) -> Measured:
    """Losses of every update, a checksum of every phase's networks, and the test BLEU."""
    out = folder / name
    pictures = case.recipe.startswith(("demo-captioning", "flickr8k"))
    changes = [word for override in (*QUICK, *case.overrides) for word in ("--set", override)]
    words = ["train", str(recipes / f"{case.recipe}.toml"), "--data", str(data["pictures" if pictures else "text"])]
    words += ["--out", str(out), "--log-every", "1", "--threads", "1", *changes]
    script = folder / "seqcredit_main.py"
    script.write_text("from seqcredit.cli import main\nmain()\n")
    launch = [sys.executable, str(script)]
    if case.processes > 1:
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={case.processes}"]
        launch = [sys.executable, *torchrun, str(script)]
    done = subprocess.run([*launch, *words], capture_output=True, text=True, check=False, env=_quiet())
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr.strip()}")
    return {"losses": _losses(out / "log.jsonl"), "weights": _weights(out), "bleu": _bleu(out)}


def _quiet() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "SEQCREDIT_UNCHECKED": "1"}


def _losses(log: Path) -> dict[str, Lines]:
    """Of every phase, what each line of the log says but for its time."""
    found: dict[str, Lines] = {}
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        if entry["event"] in ("train", "validation"):
            figures = {
                key: value for key, value in entry.items() if isinstance(value, float) and key not in ("time", "cpu")
            }
            found.setdefault(entry["phase"], []).append(figures)
    return found


def _weights(run: Path) -> dict[str, str]:
    from safetensors.torch import load_file

    found = {}
    for path in sorted((run / "weights").glob("*.safetensors")):
        digest = hashlib.sha256()
        for key, tensor in sorted(load_file(path).items()):
            digest.update(key.encode() + tensor.contiguous().numpy().tobytes())
        found[path.stem] = digest.hexdigest()[:16]
    return found


def _bleu(run: Path) -> float:
    return float(json.loads((run / "result.json").read_text())["bleu"])


def thinned(lines: Lines) -> dict[str, dict[str, float]]:
    """The first two lines of a phase and every fifth, by their numbers."""
    return {str(number): line for number, line in enumerate(lines) if number == 1 or number % EVERY == 0}


def keep(known: Mapping[str, Measured]) -> None:
    """Write the part that is committed, a line of text for each line of a log."""
    part = {name: {phase: thinned(lines) for phase, lines in known[name]["losses"].items()} for name in PART}
    text = json.dumps(part, separators=(",", ":")).replace("},", "},\n")
    COMMITTED.write_text(text + "\n")


def main(words: Sequence[str]) -> int:
    action, file, *names = words
    known: dict[str, Measured] = {} if action == "write" else json.loads(Path(file).read_text())
    if action == "keep":
        keep(known)
        return 0
    found: dict[str, Measured] = {}
    wrong = 0
    with tempfile.TemporaryDirectory() as temporary:
        data = make_data(Path(temporary))
        for name in names or CASES:
            found[name] = measure(name, CASES[name], data, Path(temporary), RECIPES)
            if action != "write":
                found[name] = _only_known(found[name], known[name])
            same = action == "write" or found[name] == known[name]
            wrong += not same
            print(f"{name}: {'written' if action == 'write' else 'the same' if same else 'DIFFERENT'}", flush=True)
            if not same:
                print(f"  {_first_difference(known[name], found[name])}")
    if action == "write":
        Path(file).write_text(json.dumps(found, indent=1) + "\n")
    return min(wrong, 1)


def _only_known(found: Measured, known: Measured) -> Measured:
    """Without what is watched only since the file was written."""
    lines = {
        phase: [{key: line[key] for key in line if key in old} for line, old in zip(new, olds, strict=True)]
        for phase, new, olds in ((phase, new, known["losses"][phase]) for phase, new in found["losses"].items())
    }
    return {**found, "losses": lines}


def _first_difference(old: object, new: object, path: str = "") -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in (*old, *new):
            if old.get(key) != new.get(key):
                return _first_difference(old.get(key), new.get(key), f"{path}.{key}")
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (a, b) in enumerate(zip(old, new, strict=True)):
            if a != b:
                return _first_difference(a, b, f"{path}[{number}]")
    return f"{path}: {old} -> {new}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
