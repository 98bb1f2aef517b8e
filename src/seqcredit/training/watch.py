"""What a run prints: a status line, and a warning when it diverges."""

import math
from collections.abc import Mapping, Sequence

from seqcredit.algorithms import Phase, objective_of
from seqcredit.training.learner import DivergedError

LEAST_ENTROPY = 0.05  # of where it began: below that the policy has collapsed
LEAST_REWARD = 0.5
# What a line shows, in this order; the log has the rest too.
SHOWN = {
    "loss": "loss",
    "nll": "nll",
    "td": "TD",
    "reward": "reward",
    "entropy": "entropy",
    "drift": "KL to the start",
    "sample_bleu": "sample BLEU",
    "return_error": "return error",
    "explained": "explained",
    "length_ratio": "length ratio",
    "repeated": "repeated",
    "unknown": "unknown",
    "reference_weight": "reference weight",
    "diversity": "diversity",
}
# What a validation measures, where its name in the log is not the one to read.
VALIDATED = {
    "credit_error": "credit error",
    "credit_kl": "KL of token targets",
    "agreement": "agreement with rollouts",
    "explained_first": "explained in the first third",
    "explained_middle": "in the middle",
    "explained_last": "in the last",
}

EXPLAINING = ("return_error", "return", "return_square")  # what the share that a critic explains is made of
EARNED = "earned"  # what a moving baseline is the mean of

Sums = Mapping[str, list[float]]


def means(sums: Sums) -> dict[str, float]:
    """Every sum divided by its count.

    N-gram precisions and closeness of length make the corpus BLEU of the samples; a critic's error and the spread of
    the returns make the share of their variance that it explains.
    """
    known = {key: total / count for key, (total, count) in sums.items() if count}
    mean, square = known.pop("return", 0.0), known.pop("return_square", None)
    if square is not None and square > mean * mean:
        known["explained"] = 1 - known["return_error"] / (square - mean * mean)
    precisions = [value for key, value in known.items() if key.startswith("precision_")]
    if precisions and min(precisions) > 0:
        log_brevity = min(0.0, 1 - 1 / known["closeness"])
        known["sample_bleu"] = 100 * math.exp(sum(map(math.log, precisions)) / len(precisions) + log_brevity)
    return known


def plan(phase: Phase, batches: int, padding: float, pairs: float) -> str:
    """What is about to happen: a phase of so many batches an epoch, with this share of padding, so many pairs each."""
    objective = objective_of(phase)
    kind = "" if phase.name == objective else f"{objective}, "
    most = sum(phase.lengths(batches))
    epochs = f"{phase.epochs} epoch{'s' if phase.epochs > 1 else ''} of {batches:,} update{'s' if batches > 1 else ''}"
    length = f"{most:,} updates" if phase.updates else epochs
    size = f"{phase.batch_tokens:,} tokens, {pairs:.1f} pairs," if phase.batch_tokens else f"{phase.batch_size}"
    return (
        f"{phase.name}: {kind}at most {length}, {phase.optimizer} {phase.learning_rate:g}, "
        f"batches of {size} with {padding:.1%} padding"
    )


def line(phase: str, epoch: int, lengths: Sequence[int], batch: int, sums: Sums, updates: int, seconds: float) -> str:
    """Where a phase stands, how fast it goes, how long it will take and how it does; `updates` took `seconds`."""
    known = means(sums)
    figures = "  ".join(f"{name} {known[key]:.3g}" for key, name in SHOWN.items() if key in known)
    tokens = sums.get("td", sums.get("nll", [0.0, 0.0]))[1]
    speed = f"{tokens / seconds:,.0f} tokens/s" if tokens else f"{updates / seconds:.1f} updates/s"
    left, at_most = ((length - batch) * seconds / updates for length in (lengths[epoch], sum(lengths[epoch:])))
    return (
        f"{phase}: epoch {epoch + 1}/{len(lengths)}, update {batch:,}/{lengths[epoch]:,}, {speed}, "
        f"epoch ends in {duration(left)}, phase in {duration(at_most)} at most  {figures}"
    )


def duration(seconds: float) -> str:
    """In the two largest units that say enough."""
    minutes, hours = round(seconds / 60), int(seconds / 3600)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{hours} h {round(seconds % 3600 / 60)} min"


def guard(now: Mapping[str, float], began: dict[str, float]) -> None:
    """A collapsed policy or a lost reward is a divergence too; `began` keeps the first values."""
    for key, least in (("entropy", LEAST_ENTROPY), ("reward", LEAST_REWARD)):
        if key in now:
            first = began.setdefault(key, now[key])
            if first > 0 and now[key] < least * first:
                raise DivergedError(f"the {key} fell from {first:.3g} to {now[key]:.3g}")
