"""What phases that learn from samples without a critic share: bounds, and the references beside the samples."""

from dataclasses import replace

import pytest
import torch

from algorithms.enumerated import BLEU, EARNED, EVERY, ONE, actor, log_likelihood
from algorithms.tiny import BATCH, models, noise, run
from seqcredit.algorithms import Grpo, Mixer, Models, Mrt, Ocd, Progress, Reinforce, Scst
from seqcredit.algorithms.sampling import Sampling
from seqcredit.rewards import EditDistance
from seqcredit.training.learner import Learner

LEARNING: dict[str, Sampling] = {
    "REINFORCE": Reinforce("r", 0.5, baseline="others", samples=4),
    "REINFORCE, moving mean": Reinforce("r", 0.5, baseline="mean", samples=4, credit="to_go", entropy_weight=0.01),
    "SCST": Scst("r", 0.5, samples=4),
    "GRPO": Grpo("g", 0.5, samples=4, length="sum", leash=0.0),
    "MRT": Mrt("m", 2.0, samples=4, sharpness=0.5, with_reference=False),
    "MIXER": Mixer("m", 0.5, samples=4, delta_start=1, delta_every=5),
    "OCD": Ocd("o", 0.5, samples=2),
}


@pytest.mark.parametrize("phase", LEARNING.values(), ids=LEARNING)
def test_what_is_to_be_expected_of_the_actor_rises(phase: Sampling) -> None:
    """With real samples, in a space whose expected reward is known."""
    net, earned = actor(), 0.0
    before = float((log_likelihood(net, EVERY).exp() * EARNED).sum().detach())
    learner = Learner({"actor": net}, replace(phase, extra_length=1), BLEU)
    for update in range(25):
        watched = learner.update(ONE, progress=Progress(update, 25, earned=earned))
        total, number = watched.get("earned", (0.0, 1.0))
        earned += 0.2 * (total / number - earned)
    after = float((log_likelihood(net, EVERY).exp() * EARNED).sum().detach())
    assert after > before + 0.15 * (float(EARNED.max()) - before), (before, after)


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
    nets, phase = Models(models(dropout=0.0).actor), kind("s", 0.1, samples=2, leash=0.0)
    rollout = phase.draw(nets, BATCH, EditDistance(), noise())
    assert len(rollout.tokens) == 8
    assert rollout.reference is None
    found = phase.outcome(torch.tensor(24.0), {}, rollout, BATCH, noise())
    assert float(found.losses["actor"]) == 3.0
