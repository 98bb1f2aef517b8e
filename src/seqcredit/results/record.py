"""Cells of `results/`: what one finished run measured, small enough to keep, with what it takes to repeat it."""

import gzip
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqcredit import config
from seqcredit.data.prepared import Prepared
from seqcredit.data.storage import write_whole
from seqcredit.errors import UserError
from seqcredit.experiments.runs import Run
from seqcredit.results import headroom
from seqcredit.results.evaluate import hypotheses_file, read_hypotheses
from seqcredit.results.logs import history
from seqcredit.results.significance import bootstrap, counts

COUNTS = ".counts.gz"  # beside a cell
CREDIT = ("credit_error", "credit_kl")  # curves over updates, where a run measured them against the exact oracle


def cell(run: Run, prepared: Prepared, against: Sequence[Run] = ()) -> dict[str, Any]:
    """The figures of a run, its command and its data, and its significance against other runs on the same test set."""
    path = run.folder / "result.json"
    if not path.exists():
        raise UserError(f"{run.folder} has no result.json: it has not been trained to its end, `seqcredit resume` it.")
    references = list(prepared.split("test").reference_texts())
    mine = read_hypotheses(run, "test")
    compared = {}
    for other in against:
        found = bootstrap([read_hypotheses(other, "test")], [mine], references)
        compared[other.folder.name] = {
            "bleu": round(found.baseline, 4),
            "p": round(found.p, 4),
            "test": found.signature,
        }
    manifest, log = prepared.manifest, history(run)
    credit = {key: curve for key in CREDIT if (curve := log.curve(key))}
    room = headroom.read(run)
    return {
        **json.loads(path.read_text()),
        "command": run.about["command"],
        "settings": tomllib.loads(config.resolved(run.recipe)),
        "data": {
            "name": prepared.folder.name,
            "checksum": prepared.checksum,
            "content": prepared.content,
            "vocabulary": [manifest.source_vocabulary, manifest.target_vocabulary],
            "examples": {name: counts.examples for name, counts in manifest.splits.items()},
        },
        "against": compared,
        **({"credit": credit} if credit else {}),
        **({"headroom": room} if room else {}),
    }


def record(run: Run, prepared: Prepared, path: Path, against: Sequence[Run] = ()) -> None:
    """Write a cell, and beside it the hypotheses of the test set and what BLEU counts in them, for comparisons."""
    text = json.dumps(cell(run, prepared, against), indent=1) + "\n"
    counted = counts(read_hypotheses(run, "test"), list(prepared.split("test").reference_texts()))
    rows = "".join(" ".join(map(str, row)) + "\n" for row in counted.tolist())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        hypotheses = gzip.compress(hypotheses_file(run, "test").read_bytes(), mtime=0)
        write_whole(path.with_suffix(".txt.gz"), hypotheses)
        write_whole(path.with_suffix(COUNTS), gzip.compress(rows.encode(), mtime=0))
        write_whole(path, text.encode())  # the last: whoever sees it has all three
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}); choose another file.") from None
