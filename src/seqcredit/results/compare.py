"""`seqcredit compare`: two runs on the same split, with significance and the sentences that differ most."""

from collections.abc import Iterator

from seqcredit.data.prepared import Prepared
from seqcredit.errors import UserError
from seqcredit.experiments.runs import Run
from seqcredit.experiments.start import open_data
from seqcredit.results.evaluate import metric_of, read_hypotheses
from seqcredit.results.significance import bootstrap, differences


def compare(baseline: Run, system: Run, split_name: str, show: int, metric: str | None = None) -> Iterator[str]:
    """What there is to say, line by line; at the most `show` sentences that gain, and as many that lose."""
    data, other = open_data(baseline.data), open_data(system.data)
    check_same_split(baseline, data, system, other, split_name)
    split = data.split(split_name)
    references, sources = list(split.reference_texts()), list(split.source_texts())
    judge, theirs = metric_of(baseline, data, metric), metric_of(system, other, metric)
    if (judge.name, judge.signature(references)) != (theirs.name, theirs.signature(references)):
        raise UserError(
            f"{baseline.folder} is judged by {judge.label} ({judge.signature(references)}) and {system.folder} by "
            f"{theirs.label} ({theirs.signature(references)}): choose one for both with --metric."
        )
    first, second = (read_hypotheses(run, split_name) for run in (baseline, system))
    found = bootstrap([first], [second], references, metric=judge)
    d, (low, high) = judge.digits, found.interval
    change = f"{found.system - found.baseline:+.{d}f}" + ("" if judge.higher else ", lower is better")
    yield f"{baseline.folder}  {judge.label} {found.baseline:.{d}f}"
    yield f"{system.folder}  {judge.label} {found.system:.{d}f}  ({change}, p = {found.p:.4f})"
    yield f"95 % interval of the difference: {low:+.{d}f} to {high:+.{d}f} (paired bootstrap, {found.signature})"
    signs = (1, -1) if judge.higher else (-1, 1)
    each = differences(first, second, references, judge)
    gains, losses = ([one for one in each if sign * (one.system - one.baseline) > 0] for sign in signs)
    same = len(each) - len(gains) - len(losses)
    yield f"{len(gains):,} sentences are better, {len(losses):,} worse, {same:,} the same"
    names = _names(baseline, system)
    for some, what in ((gains[:show], "gains"), (losses[:show], "losses")):
        if some:
            yield f"\nThe largest {what}:"
        for one in some:
            n = one.example
            yield f"\n{n + 1}: sentence {judge.label} {one.baseline:.{d - 1}f} -> {one.system:.{d - 1}f}"
            known = {"reference": references[n][0]} if references[n] else {}
            said = {"source": sources[n], **known, names[0]: first[n], names[1]: second[n]}
            wide = max(map(len, said))
            yield from (f"  {name:{wide}}  {' '.join(words)}" for name, words in said.items())


def _names(baseline: Run, system: Run) -> tuple[str, str]:
    """What the two are called: by their folders' names, if these differ."""
    first, second = baseline.folder, system.folder
    return (first.name, second.name) if first.name != second.name else (str(first), str(second))


def check_same_split(run: Run, data: Prepared, other: Run, theirs: Prepared, split: str) -> None:
    """Only figures of the same sentences can be compared."""
    mine, others = data.split(split), theirs.split(split)
    for what, one, two in (
        ("references", mine.reference_texts(), others.reference_texts()),
        ("sources", mine.source_texts(), others.source_texts()),
    ):
        if list(one) != list(two):
            raise UserError(
                f"{run.folder} and {other.folder} cannot be compared: the {what} of {split} in {data.folder} and in "
                f"{theirs.folder} differ."
            )
