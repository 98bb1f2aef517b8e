"""`seqcredit verify`: every claim of the paper, on whole spaces of sequences, for several rewards and temperatures."""

import argparse
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from seqcredit.credit.oracle import Space
    from seqcredit.types import Reward

ABOUT = "check each proposition of the paper by enumerating all sequences"
TOLERANCE = 1e-9
TEMPERATURES = (0.04, 0.4, 1.0)
SPACES = ((5, 6), (4, 7), (12, 4))  # actions and bound


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


def options(parser: argparse.ArgumentParser) -> None:
    """A table, or everything."""
    parser.epilog = "The exit code is 1 if one fails."
    parser.add_argument("--json", action="store_true", help="print every cell as JSON instead of the table")


def run(options: argparse.Namespace) -> int:
    """0 if every claim holds to 1e-9 in float64, 1 otherwise."""
    import json

    import torch
    from rich.console import Console
    from rich.progress import track

    torch.set_num_threads(1)  # thousands of small tensors: threads only wait for each other
    progress = Console(stderr=True)
    quiet = not progress.is_terminal
    results = list(track(checks(), "checking", count(), console=progress, transient=True, disable=quiet))
    if options.json:
        print(json.dumps([cell._asdict() for cell in results], indent=1))
    else:
        console = Console()
        console.print(summary(results))
        console.print(scope(results), highlight=False)
    return 0 if all(cell.passed for cell in results) else 1


def spaces() -> "list[Space]":
    """All sequences of few actions up to a bound."""
    from seqcredit.credit.oracle import Space

    return [Space(actions, bound) for actions, bound in SPACES]


def rewards(space: "Space") -> "dict[str, Reward]":
    """One of each kind, in float64."""
    import torch

    from seqcredit.rewards import Bleu, ChrF, CiderD, Custom, EditDistance, Hamming, RougeL
    from seqcredit.types import pad_references

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


def distance_of_sums(hypothesis: Sequence[int], references: Sequence[Sequence[int]]) -> float:
    """A pay-off with no structure to speak of, as a user's own function might be."""
    return -min(abs(sum(hypothesis) - sum(reference)) ** 0.5 for reference in references)


def count() -> int:
    """How many cells there are."""
    from seqcredit.credit.theorems import CLAIMS

    return len(SPACES) * len(rewards(spaces()[0])) * len(TEMPERATURES) * len(CLAIMS)


def checks() -> Iterator[Check]:
    """Every check; the generator of one depends on nothing else."""
    import torch

    from seqcredit.credit.oracle import score
    from seqcredit.credit.theorems import CLAIMS
    from seqcredit.types import pad_references

    references = pad_references([[[1, 2, 3, 2], [3, 1]]])[0]
    for space in spaces():
        for name, reward in rewards(space).items():
            payoffs = score(space, reward, references)
            for tau, claim in itertools.product(TEMPERATURES, CLAIMS):
                error = claim.check(payoffs, tau, torch.Generator().manual_seed(0))
                where = (name, tau, space.actions, space.bound, len(space))
                yield Check(claim.text, claim.paper, *where, error, error < TOLERANCE)  # NaN fails


def summary(results: Sequence[Check]) -> "RichTable":
    """A row a claim, with the worst of its checks."""
    from rich.table import Table as RichTable

    table = RichTable("claim", "paper", "checks", "largest error", "result")
    for claim, paper in dict.fromkeys((check.claim, check.paper) for check in results):
        mine = [check for check in results if check.claim == claim]
        failed = [check for check in mine if not check.passed]
        worst = max(mine, key=lambda check: (not check.passed, check.error))
        verdict = "pass" if not failed else f"FAIL in {len(failed)}, e.g. {worst.reward} at tau {worst.tau}"
        table.add_row(claim, paper, str(len(mine)), f"{worst.error:.1e}", verdict)
    return table


def scope(results: Sequence[Check]) -> str:
    """What was checked, in one sentence."""
    spaces = {(check.actions, check.bound): check.sequences for check in results}
    listed = ", ".join(f"{count:,} ({v} actions, length <= {t})" for (v, t), count in spaces.items())
    names = ", ".join(dict.fromkeys(check.reward for check in results))
    taus = ", ".join(f"{tau:g}" for tau in dict.fromkeys(check.tau for check in results))
    checked = f"All sequences of {len(spaces)} spaces: {listed}. Rewards: {names}. tau: {taus}."
    return f"{checked} Limit: {TOLERANCE:g} in float64."
