"""BLEU at every prefix is fast enough to be computed for each training batch."""

import subprocess
import sys
from statistics import median
from time import process_time

import pytest
import torch

from seqcredit.rewards import Bleu

LIMIT = 1.5  # milliseconds on one thread


def milliseconds() -> float:
    """64 sentences of 30 words, one reference of 30 words: the best of five medians."""
    rng = torch.Generator().manual_seed(0)
    tokens = torch.randint(2, 1000, (64, 30), generator=rng)
    references = torch.where(torch.rand(64, 30, generator=rng) < 0.5, tokens, tokens.flip(1)).unsqueeze(1)
    reward = Bleu()

    def once() -> float:
        start = process_time()  # of this process, whatever else the machine does
        for _ in range(10):
            reward.prefix_scores(tokens, references)
        return 100 * (process_time() - start)

    return min([median(once() for _ in range(10)) for _ in range(6)][1:])


@pytest.mark.slow
def test_bleu() -> None:
    """In an interpreter of its own: here the axes of every signature are checked, and that takes longer."""
    run = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=True)
    assert float(run.stdout) < LIMIT


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(milliseconds())
