"""GRPO: its gradient on average, its loss by hand, and that of TRL on the same numbers."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

import needs
from algorithms.enumerated import EARNED, EVERY, actor, average, gradient_of, log_likelihood
from algorithms.tiny import BATCH, REWARD, models, noise, run
from seqcredit.algorithms import Grpo, Models, Progress
from seqcredit.credit.drawn import clipped, drift_estimate, group_advantage
from seqcredit.credit.values import at_bound, chosen
from seqcredit.search import sample
from seqcredit.types import Batch, token_mask


def test_on_average_it_climbs_the_expected_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not scaled: a sample is part of the mean that it is compared with, so one of two has half of the gradient."""
    net = actor()
    expected = -gradient_of(net, (log_likelihood(net, EVERY).exp() * EARNED).sum()) / 2
    phase = Grpo("g", 0.1, samples=2, scaled=False, length="sum", leash=0.0, extra_length=1)
    torch.testing.assert_close(average(phase, Models(net), monkeypatch, 2), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("length", ["sample", "longest", "sum"])
@pytest.mark.parametrize("form", ["estimate", "loss"])
def test_the_loss_by_hand(length: str, scaled: bool, form: str) -> None:
    """Its value, in which the ratio is 1; and its gradient, that of a policy gradient with what the KL adds."""
    nets, bound, n = models(dropout=0.0), BATCH.references.shape[-1] + 1, 3
    several = BATCH.repeated(n)
    memory = nets.actor.encode(several.source)
    tokens = sample(nets.actor, memory, bound, noise().repeated(n).uniform(bound))
    free = token_mask(tokens) & ~at_bound(tokens, bound)
    here = nets.actor.score(memory, tokens).table().log_softmax(-1)
    there = nets.origin.score(nets.origin.encode(several.source), tokens).table().log_softmax(-1)
    mine, first = chosen(here, tokens), chosen(there, tokens)
    kl = drift_estimate(mine, first) if form == "estimate" else (here.exp() * (here - there)).sum(-1)
    earned = REWARD.prefix_scores(tokens, several.references)[:, -1].view(4, n)
    advantage = earned - earned.mean(1, keepdim=True)
    if scaled:
        advantage = advantage / (earned.std(1, keepdim=True) + 1e-4)
    over = {"sample": free.sum(1).clamp(min=1).float(), "longest": torch.full((12,), 50.0), "sum": torch.ones(12)}
    weights = free / over[length].unsqueeze(1)
    value = weights * (-advantage.view(12, 1) + 0.04 * kl)
    slope = weights * (-advantage.view(12, 1) * mine + 0.04 * kl)
    phase = Grpo("g", 0.1, samples=n, length=length, scaled=scaled, leash_form=form, extra_length=2)
    found = run(phase, nets)
    torch.testing.assert_close(found.losses["actor"], value.sum() / 12)
    parameters = [*nets.actor.parameters()]
    mine_all = torch.autograd.grad(found.losses["actor"], parameters)
    torch.testing.assert_close(mine_all, torch.autograd.grad(slope.sum() / 12, parameters), rtol=1e-4, atol=1e-5)
    assert float(found.sums["advantage"][0]) == pytest.approx(float(advantage.abs().sum()), rel=1e-5)


def test_parts_of_a_batch_add_up() -> None:
    """As several processes share it."""
    nets, phase = models(), Grpo("g", 0.1, samples=2)
    whole = run(phase, nets).losses["actor"]
    parts = [
        phase.loss(nets, Batch(*(of[rows] for of in BATCH)), REWARD, noise(3, rows.start, 2), Progress())
        for rows in (slice(0, 2), slice(2, 4))
    ]
    torch.testing.assert_close(sum(part.losses["actor"] for part in parts), whole)


def test_its_settings_are_the_papers() -> None:
    phase = Grpo("g", 0.1)
    assert (phase.leash, phase.leash_form, phase.ratio_low, phase.ratio_high) == (0.04, "estimate", 0.2, 0.2)


# TRL itself.


def of_trl(logp: Tensor, sampler: Tensor, start: Tensor, advantage: Tensor, mask: Tensor, **options: object) -> Tensor:
    """What GRPOTrainer makes of log-probabilities that its model is said to have."""
    from trl import GRPOTrainer

    said = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_args, **_options: (logp, torch.zeros_like(logp), None),
        accelerator=SimpleNamespace(
            gather=lambda tensor: tensor,
            gather_for_metrics=lambda tensor: tensor,
            reduce=lambda tensor, reduction: tensor,
        ),
        args=SimpleNamespace(delta=None, use_bias_correction_kl=False),
        model=SimpleNamespace(training=True),
        _metrics={"train": _Lists()},
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level="token",
        use_vllm=False,
        current_gradient_accumulation_steps=1,
        _entropy_bonus_enabled=False,
        **options,
    )
    ids = torch.zeros_like(mask)
    inputs = {"prompt_ids": ids[:, :1], "prompt_mask": ids[:, :1], "completion_ids": ids, "completion_mask": mask}
    given = {"advantages": advantage, "old_per_token_logps": sampler, "ref_per_token_logps": start}
    return GRPOTrainer._compute_loss(said, None, inputs | given)


class _Lists(dict[str, list[float]]):
    def __missing__(self, key: str) -> list[float]:
        return self.setdefault(key, [])


@needs.trl
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("kind", "length"), [("grpo", "sample"), ("dr_grpo", "longest")])
def test_it_is_trls_loss(kind: str, length: str) -> None:
    """On the same log-probabilities, with a sampler that is another one, so that ratios are clipped on both sides."""
    generator = torch.Generator().manual_seed(4)
    rows, longest = 12, 50
    logp, sampler, start = (-3 * torch.rand(rows, 7, generator=generator, dtype=torch.float64) for _ in range(3))
    lengths = torch.randint(1, 8, (rows, 1), generator=generator)
    mask = (torch.arange(7) < lengths).long()
    advantage = torch.randn(rows, generator=generator, dtype=torch.float64)
    options = {"beta": 0.04, "epsilon_low": 0.2, "epsilon_high": 0.3, "loss_type": kind}
    theirs = of_trl(logp.requires_grad_(), sampler, start, advantage, mask, **options, max_completion_length=longest)
    each = clipped(logp, sampler, advantage.unsqueeze(1), 0.2, 0.3) + 0.04 * drift_estimate(logp, start)
    phase = Grpo("g", 0.1, length=length, longest_sample=longest)
    ours = (phase._weights(mask.bool()).double().unsqueeze(1) * mask * each).sum() / rows
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    slopes = [torch.autograd.grad(loss, logp)[0] for loss in (ours, theirs)]
    torch.testing.assert_close(*slopes, rtol=1e-6, atol=1e-8)
    ratio = (logp - sampler).exp()[mask.bool()]
    assert (ratio < 0.8).any()
    assert (ratio > 1.3).any()


@needs.trl
@pytest.mark.filterwarnings("default")
def test_advantages_are_in_trls_standard_deviations() -> None:
    from trl.trainer.utils import nanstd

    earned = torch.rand(5, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    theirs = (earned - earned.mean(1, keepdim=True)) / (nanstd(earned, dim=1).unsqueeze(1) + 1e-4)
    torch.testing.assert_close(group_advantage(earned), theirs, rtol=1e-6, atol=1e-6)
