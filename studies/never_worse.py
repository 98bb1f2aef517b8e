"""Does ERAC with its defaults ever give a worse model back? Five starts, some seeds each.

python studies/never_worse.py MULTI30K FLICKR8K runs/never-worse results/never-worse --seeds 1 2 3

MULTI30K holds {train,valid,test}.{de,en}; FLICKR8K is a folder that `seqcredit prepare` made of 3,000 images. What is
finished is not trained again. Every start and what ERAC made of it become cells.
"""

import argparse
import random
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import seqcredit as sc
from seqcredit.data.prepared import Prepared
from seqcredit.results import record
from seqcredit.trained import Trained

LONGEST = 12  # words of a sentence of Multi30k
PAIRS = 6_000  # of them, for training
SPLITS = ("train", "valid", "test")
Rows = Mapping[str, list[tuple[str, str]]]


class Start(NamedTuple):
    """A model as a user may have one: what it is, how long it was trained, and on what."""

    model: sc.LSTM | sc.Transformer
    mle: sc.MLE
    data: Rows | Path


def main() -> None:
    """Train what is missing and record it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("multi30k", "flickr8k", "runs", "results"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--only", nargs="+", help="these starts alone")
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    found = starts(options.multi30k, options.flickr8k)
    for seed in options.seeds:
        for name in options.only or found:
            study(name, found[name], seed, options.runs / str(seed), options.results)


def starts(multi30k: Path, flickr8k: Path) -> dict[str, Start]:
    """Weak and strong, recurrent and not, of sentences and of pictures."""
    sentences = {split: pairs(multi30k, split) for split in SPLITS}
    lstm = sc.LSTM(embedding=128, hidden=128)
    return {
        "weak-lstm": Start(lstm, sc.MLE(epochs=2), sentences),
        "strong-lstm": Start(lstm, sc.MLE(epochs=15), sentences),
        "transformer": Start(
            sc.Transformer(width=128, layers=2, heads=4), sc.MLE(epochs=15, learning_rate=0.001), sentences
        ),
        "captioner": Start(sc.LSTM(embedding=128, hidden=128, attention="none"), sc.MLE(epochs=10), flickr8k),
        "clock": Start(sc.LSTM(embedding=32, hidden=32), sc.MLE(epochs=20, learning_rate=0.01), clock()),
    }


def pairs(folder: Path, split: str) -> list[tuple[str, str]]:
    """Short sentences of a split."""
    sides = [(folder / f"{split}.{language}").read_text().splitlines() for language in ("de", "en")]
    short = [pair for pair in zip(*sides, strict=True) if max(len(side.split()) for side in pair) <= LONGEST]
    return short[:PAIRS]


def clock() -> Rows:
    """The sentences of the README, in which the likeliest first word is not the best."""
    draw = random.Random(0)

    def example() -> tuple[str, str]:
        hour = draw.choice(["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"])
        casual = draw.choice(["well", "so", "look", "oh"]) + f" , that would be {hour}"
        return hour, draw.choices([f"it is {hour} o'clock", casual], [0.4, 0.6])[0]

    return {split: [example() for _ in range(size)] for split, size in zip(SPLITS, (3_000, 500, 500), strict=True)}


def study(name: str, start: Start, seed: int, runs: Path, results: Path) -> None:
    """A start, ERAC from it with nothing but defaults, and the cells of both."""
    mle = train(start.model, start, start.mle, runs / name, seed)
    erac = train(mle, start, sc.ERAC(), runs / f"{name}-erac", seed)
    for run, against in ((mle.run, []), (erac.run, [mle.run])):
        record.record(run, Prepared.open(run.data), results / f"{run.folder.name}-{seed}.json", against)


def train(
    model: sc.LSTM | sc.Transformer | Trained, start: Start, algorithm: sc.MLE | sc.ERAC, out: Path, seed: int
) -> Trained:
    """What an algorithm gives back; from the folder, if it is there already."""
    if isinstance(start.data, Path):
        return sc.train(model, start.data, algorithm=algorithm, out=out, seed=seed)
    data, valid, test = (start.data[split] for split in SPLITS)
    return sc.train(model, data, valid=valid, test=test, min_count=2, algorithm=algorithm, out=out, seed=seed)


if __name__ == "__main__":
    main()
