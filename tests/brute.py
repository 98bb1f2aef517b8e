"""Plain-Python stand-ins, written straight from the definitions: lists, loops and `math`, nothing of the package."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Words = Sequence[int]


class PythonReward:
    """A reward that scores each prefix of each sentence with a plain function."""

    def __init__(self, score: Callable[[Words, Sequence[Words]], float]) -> None:
        self.score = score

    def prefix_scores(self, tokens: Tensor, references: Tensor) -> Tensor:
        out = torch.zeros(tokens.shape[0], tokens.shape[1] + 1, dtype=torch.float64)
        for b, row in enumerate(tokens.tolist()):
            refs = [words(reference) for reference in references[b].tolist() if reference[0] != -1]
            for t in range(len(row) + 1):
                out[b, t] = self.score(words(row[:t]), refs)
        return out


def words(row: Words) -> list[int]:
    """What stands before the first eos."""
    row = list(row)
    return row[: row.index(0)] if 0 in row else row


def edit_distance(a: Words, b: Words) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        previous, row = row, [i + 1]
        for j, y in enumerate(b):
            row.append(min(previous[j] + (x != y), previous[j + 1] + 1, row[j] + 1))
    return row[-1]


def negative_edit_distance(hypothesis: Words, references: Sequence[Words]) -> float:
    return -float(min(edit_distance(hypothesis, reference) for reference in references))


def negative_hamming(hypothesis: Words, references: Sequence[Words]) -> float:
    (reference,) = references
    wrong = sum(x != y for x, y in zip(hypothesis, reference, strict=False))
    return -float(wrong + abs(len(hypothesis) - len(reference)))


def soft_max(energies: Sequence[float], tau: float) -> float:
    """tau log sum exp(x / tau), or the maximum."""
    top = max(energies)
    return top if tau == 0 else top + tau * math.log(sum(math.exp((x - top) / tau) for x in energies))


def boltzmann(energies: Sequence[float], tau: float) -> list[float]:
    top = max(energies)
    weights = [float(x == top) if tau == 0 else math.exp((x - top) / tau) for x in energies]
    return [w / sum(weights) for w in weights]


def entropy(probabilities: Sequence[float]) -> float:
    return -sum(p * math.log(p) for p in probabilities if p > 0)
