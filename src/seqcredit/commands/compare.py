"""`seqcredit compare`: the difference of two runs, and whether it may be chance."""

import argparse
from pathlib import Path

from seqcredit.commands import shared

ABOUT = "compare two runs on the same split, with significance"


def options(parser: argparse.ArgumentParser) -> None:
    """Two runs and a split."""
    parser.add_argument("baseline", metavar="RUN", type=Path)
    parser.add_argument("system", metavar="RUN", type=Path)
    parser.add_argument("--split", default="test", help="a split that both have been evaluated on (default: test)")
    about = "sentences that differ most (default: 5)"
    parser.add_argument("--show", type=shared.natural, default=5, metavar="N", help=about)


def run(options: argparse.Namespace) -> int:
    """BLEU of both, the paired bootstrap, and the sentences that differ most."""
    from seqcredit.experiments.runs import Run
    from seqcredit.results.evaluate import read_hypotheses
    from seqcredit.results.significance import bootstrap, differences

    first, prepared = shared.open_run(options.baseline)
    runs = [first, Run.open(options.system)]
    split = prepared.split(options.split)
    references, sources = list(split.reference_texts()), list(split.source_texts())
    baseline, system = (read_hypotheses(run, options.split) for run in runs)
    result = bootstrap([baseline], [system], references)
    low, high = result.interval
    print(f"{runs[0].folder}  BLEU {result.baseline:.2f}")
    print(f"{runs[1].folder}  BLEU {result.system:.2f}  ({result.system - result.baseline:+.2f}, p = {result.p:.4f})")
    print(f"95 % of the samples between {low:+.2f} and {high:+.2f}; paired bootstrap, {result.signature}")
    for d in differences(baseline, system, references)[: options.show]:
        print(f"\n{d.sentence + 1}: sentence BLEU {d.baseline:.1f} -> {d.system:.1f}")
        for name, words in (("source", sources[d.sentence]), ("reference", references[d.sentence][0])):
            print(f"  {name:10} {' '.join(words)}")
        print(f"  {'baseline':10} {' '.join(baseline[d.sentence])}\n  {'system':10} {' '.join(system[d.sentence])}")
    return 0
