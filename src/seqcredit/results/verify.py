"""Every claim of the paper, checked on whole spaces of sequences: rewards x temperatures x spaces."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from rich.table import Table as RichTable

from seqcredit.credit.oracle import Payoffs, Space, score
from seqcredit.credit.theorems import CLAIMS
from seqcredit.rewards import Bleu, ChrF, CiderD, Custom, EditDistance, Hamming, RougeL
from seqcredit.types import Reward, pad_references

TOLERANCE = 1e-9
TEMPERATURES = (0.04, 0.4, 1.0)
SPACES = (Space(actions=5, bound=6), Space(actions=4, bound=7), Space(actions=12, bound=4))


class Check(NamedTuple):
    """One claim on one space with one reward at one temperature."""

    claim: str
    paper: str
    reward: str
    tau: float
    actions: int
    bound: int
    sequences: int
    error: float
    passed: bool


def distance_of_sums(hypothesis: Sequence[int], references: Sequence[Sequence[int]]) -> float:
    """A pay-off with no structure to speak of, as a user's own function might be."""
    return -min(abs(sum(hypothesis) - sum(reference)) ** 0.5 for reference in references)


def rewards(space: Space) -> dict[str, Reward]:
    """One of each kind, in float64."""
    exact = torch.float64
    training = pad_references([[[1, 2, 3], [2, 2]], [[3, 1]], [[1, 1, 2, 3]]])
    letters = [chr(ord("a") + i % 3) * (1 + i % 2) + "e" for i in range(space.actions)]
    return {
        "BLEU x length": Bleu(scaled=True, dtype=exact),
        "edit distance": EditDistance(dtype=exact),
        "Hamming": Hamming(dtype=exact),
        "ROUGE-L": RougeL(dtype=exact),
        "chrF": ChrF(words=letters, dtype=exact),
        "CIDEr-D": CiderD.from_references(training, dtype=exact),
        "a Python function": Custom(distance_of_sums, dtype=exact),
    }


COUNT = len(SPACES) * len(rewards(SPACES[0])) * len(TEMPERATURES) * len(CLAIMS)


def checks() -> Iterator[Check]:
    """Every check; the generator of one depends on nothing else."""
    references = pad_references([[[1, 2, 3, 2], [3, 1]]])[0]
    for space in SPACES:
        for name, reward in rewards(space).items():
            payoffs = score(space, reward, references)
            for tau in TEMPERATURES:
                yield from _check(payoffs, name, tau)


def _check(payoffs: Payoffs, reward: str, tau: float) -> Iterator[Check]:
    space = payoffs.space
    for claim in CLAIMS:
        error = claim.check(payoffs, tau, torch.Generator().manual_seed(0))
        where = (reward, tau, space.actions, space.bound, len(space))
        yield Check(claim.text, claim.paper, *where, error, error < TOLERANCE)  # NaN fails


def summary(results: Sequence[Check]) -> RichTable:
    """A row a claim, with the worst of its checks."""
    table = RichTable("claim", "paper", "checks", "largest error", "result")
    for claim in CLAIMS:
        mine = [check for check in results if check.claim == claim.text]
        failed = [check for check in mine if not check.passed]
        worst = max(mine, key=lambda check: (not check.passed, check.error))
        verdict = "pass" if not failed else f"FAIL in {len(failed)}, e.g. {worst.reward} at tau {worst.tau}"
        table.add_row(claim.text, claim.paper, str(len(mine)), f"{worst.error:.1e}", verdict)
    return table


def scope(results: Sequence[Check]) -> str:
    """What was checked, in one sentence."""
    spaces = {(check.actions, check.bound): check.sequences for check in results}
    listed = ", ".join(f"{count:,} ({v} actions, length <= {t})" for (v, t), count in spaces.items())
    names = ", ".join(dict.fromkeys(check.reward for check in results))
    taus = ", ".join(f"{tau:g}" for tau in dict.fromkeys(check.tau for check in results))
    checked = f"All sequences of {len(spaces)} spaces: {listed}. Rewards: {names}. tau: {taus}."
    return f"{checked} Limit: {TOLERANCE:g} in float64."
