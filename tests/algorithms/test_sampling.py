"""What phases that learn from samples without a critic share: bounds, and the references beside the samples."""

import pytest
import torch

from algorithms.tiny import BATCH, models, noise, run
from seqcredit.algorithms import Grpo, Models, Mrt, Ocd, Reinforce
from seqcredit.algorithms.sampling import Sampling
from seqcredit.rewards import EditDistance

KINDS: list[type[Sampling]] = [Reinforce, Grpo, Mrt, Ocd]


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_and_what_may_be_kept(kind: type[Sampling]) -> None:
    phase = kind("s", 0.1)
    assert phase.guarded
    assert phase.validates_start
    assert not kind("s", 0.1, keeps_start=False).validates_start
    assert (phase.longest_for(7), kind("s", 0.1, longest_sample=9).longest_for(7)) == (17, 9)
    assert phase.bound(BATCH) == BATCH.references.shape[-1] - 1 + 10


@pytest.mark.parametrize("kind", KINDS)
def test_likelihood_stands_beside_samples_by_its_weight(kind: type[Sampling]) -> None:
    nets, reward = models(dropout=0.0), EditDistance()
    plain, beside = (run(kind("s", 0.1, mle_weight=weight, samples=2), nets, reward=reward) for weight in (0.0, 0.3))
    torch.testing.assert_close(beside.losses["actor"], plain.losses["actor"] + 0.3 * beside.sums["nll"][0] / 4)
    assert plain.sums.keys() < beside.sums.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_a_sum_over_samples_is_a_mean_of_sentences_and_samples(kind: type[Sampling]) -> None:
    nets, phase = Models(models(dropout=0.0).actor), kind("s", 0.1, samples=2)
    rollout = phase.draw(nets, BATCH, EditDistance(), noise())
    assert len(rollout.tokens) == 8
    assert rollout.reference is None
    found = phase.outcome(torch.tensor(24.0), {}, rollout, BATCH, noise())
    assert float(found.losses["actor"]) == 3.0
