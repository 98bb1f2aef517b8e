"""Cells of `results/`: the measurements of one finished run, with the command that repeats it."""

import gzip
import hashlib
import tomllib
from collections.abc import Sequence
from pathlib import Path

from seqcredit.algorithms.exact import THIRDS
from seqcredit.data.prepared import Prepared
from seqcredit.data.reading import signed
from seqcredit.data.storage import write_json, write_whole
from seqcredit.errors import in_words
from seqcredit.experiments.history import history
from seqcredit.experiments.recipe import resolved
from seqcredit.experiments.runs import Run
from seqcredit.results import headroom
from seqcredit.results.compare import check_same_split
from seqcredit.results.evaluate import TEST, hypotheses_file, metric_of, read_hypotheses, read_result
from seqcredit.results.significance import bootstrap
from seqcredit.rewards.metrics import Statistics
from seqcredit.types import Json

COUNTS = ".counts.gz"  # beside a cell
CREDIT = ("credit_error", "credit_kl")  # curves over updates, where a run measured them against the exact oracle
SHARES = ("explained", *THIRDS, "agreement")  # and where it asked what a critic knows


def cell(run: Run, prepared: Prepared, against: Sequence[Run] = ()) -> Json:
    """The figures of a run, its command and its data, and its significance against other runs on the same test set."""
    references = list(prepared.split(TEST).reference_texts())
    result, mine = read_result(run, references)
    metric = metric_of(run, prepared, result.get("metric"))
    compared = {}
    for other in against:
        check_same_split(run, prepared, other, Prepared.open(other.data), TEST)
        found = bootstrap([read_result(other, references)[1]], [mine], references, metric=metric)
        compared[other.folder.name] = {
            metric.name: round(found.baseline, metric.digits + 2),
            "p": round(found.p, 4),
            "test": found.signature,
        }
    log = history(run)
    credit = {key: curve for key in (*CREDIT, *SHARES) if (curve := log.curve(key))}
    room = headroom.read(run)
    return {
        **result,
        "command": run.about["command"],
        "settings": tomllib.loads(resolved(run.recipe)),
        "data": prepared.about(),
        "against": compared,
        **({"credit": credit} if credit else {}),
        **({"course": course} if (course := log.course()) else {}),
        **({"headroom": room} if room else {}),
    }


def record(run: Run, prepared: Prepared, path: Path, against: Sequence[Run] = ()) -> None:
    """Write a cell, and beside it the hypotheses of the test set and the rows of their metric, for comparisons."""
    found, split = cell(run, prepared, against), prepared.split(TEST)
    references, metric = list(split.reference_texts()), metric_of(run, prepared, found.get("metric"))
    rows = metric.statistics(read_hypotheses(run, TEST), references)
    texts = {".txt.gz": hypotheses_file(run, TEST).read_bytes(), COUNTS: _lines(rows).encode()}
    beside = {ending: gzip.compress(text, mtime=0) for ending, text in texts.items()}
    sums = {ending: hashlib.sha256(data).hexdigest() for ending, data in beside.items()}
    with in_words(OSError, lambda error: f"{path} cannot be written ({error.strerror}); choose another file."):
        path.parent.mkdir(parents=True, exist_ok=True)
        for ending, data in beside.items():
            write_whole(path.with_suffix(ending), data)
        write_json(path, signed({**found, "files": sums}))  # the last: where it is, all three are


def _lines(rows: Statistics) -> str:
    """A line an example; whole numbers are written as such."""
    numbers = ((str(int(x)) if x.is_integer() else repr(x) for x in row) for row in rows.tolist())
    return "".join(" ".join(row) + "\n" for row in numbers)
