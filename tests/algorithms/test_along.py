"""The fast path and the specification are one: losses, gradients and all that is watched."""

from dataclasses import replace

import pytest
import torch

from seqcredit import config
from seqcredit.credit import losses
from seqcredit.draws import Noise
from seqcredit.models.critic import Critic
from seqcredit.models.lstm import Seq2Seq
from seqcredit.rewards import Bleu
from seqcredit.training.objectives import OBJECTIVES, Outcome, Payoffs
from seqcredit.training.scoring import Scores, soft_residual, temporal_difference
from seqcredit.types import Batch, pad, pad_references

V = 9
BATCH = Batch(pad([[2, 3], [4], [5, 6, 2, 8, 3]]), pad_references([[[3, 2], [3]], [[4]], [[2, 6, 5, 7, 7, 2], [8, 6]]]))
PAYOFFS = Payoffs(Bleu(scaled=True, dtype=torch.float64), Bleu(dtype=torch.float64))
JOINT = {"extra_length": 1, "samples": 2, "smoothing": 0.3}
PHASES = {
    "likelihood": config.Mle("mle", 1.0),
    "raml": config.Raml("raml", 1.0),
    "soft Q": config.SoftQ("q", 1.0),
    "soft Q at the bound": config.SoftQ("q", 1.0, bound=6),
    "soft Q, constant": config.SoftQ("q", 1.0, look_ahead="constant", bound=6),
    "soft Q, target": config.SoftQ("q", 1.0, look_ahead="target", bound=6),
    "soft Q, 2 steps": config.SoftQ("q", 1.0, bound=6, steps=2),
    "soft Q, to the end": config.SoftQ("q", 1.0, steps=99, exact_eos=0.3),
    "soft Q, 3 steps, constant": config.SoftQ("q", 1.0, look_ahead="constant", bound=6, steps=3),
    "soft Q, 3 steps, target": config.SoftQ("q", 1.0, look_ahead="target", bound=6, steps=3),
    "soft Q, exact eos": config.SoftQ("q", 1.0, bound=6, exact_eos=2.0),
    "soft Q, mixed": config.SoftQ("q", 1.0, proposal="mixed"),
    "soft Q, mixed, 3 steps": config.SoftQ("q", 1.0, proposal="mixed", bound=8, steps=3, exact_eos=0.5),
    "soft Q, policy": config.SoftQ("q", 1.0, proposal="policy", samples=3),
    "vaml": config.Vaml("vaml", 1.0, bound=6),
    "vaml, policy": config.Vaml("vaml", 1.0, proposal="policy", samples=4),
    "vaml with coins": config.Vaml("vaml", 1.0, kappa_draws=True, kappa=0.5),
    "vaml without Q": config.Vaml("vaml", 1.0, kappa=0.0),
    "critic": config.Critic("critic", 1.0, tau=0.3, **JOINT),
    "critic, released": config.Critic(
        "critic", 1.0, td_form="half", smoothing_form="mean", bound_value="free", smoothing=0.3, extra_length=0
    ),
    "critic, exact eos": config.Critic("critic", 1.0, tau=0.3, exact_eos=0.7, **JOINT),
    "Actor-Critic": config.ActorCritic("ac", 1.0, tau=0.0, **JOINT),
    "ERAC": config.ActorCritic("erac", 1.0, tau=0.3, **JOINT),
    "ERAC without future entropy": config.ActorCritic("erac", 1.0, tau=0.3, future_entropy=False, **JOINT),
    "ERAC, exact eos": config.ActorCritic("erac", 1.0, tau=0.3, exact_eos=0.7, **JOINT),
    "ERAC, normalised": config.ActorCritic("erac", 1.0, tau=0.3, entropy_form="normalised", mle_weight=0.0),
}


def networks(copy: int) -> dict[str, torch.nn.Module]:
    generator = torch.Generator().manual_seed(3)
    models = {
        "actor": Seq2Seq(V, V, 8, 8, generator=generator),
        "critic": Critic(V, 8, 8, generator=generator, dropout=0.2, copy=copy),
        "target": Critic(V, 8, 8, generator=generator, copy=copy).eval(),
    }
    return {name: model.double() for name, model in models.items()}


def outcome(phase: config.Phase, copy: int) -> tuple[Outcome, dict[str, list[torch.Tensor | None]]]:
    models, noise = networks(copy), Noise(torch.Generator().manual_seed(5), 3)
    found = OBJECTIVES[config.OBJECTIVES[type(phase)]](models, BATCH, phase, PAYOFFS, noise)
    for loss in found.losses.values():
        loss.backward()
    return found, {name: [p.grad for p in model.parameters()] for name, model in models.items()}


@pytest.mark.parametrize("copy", [0, 5])
@pytest.mark.parametrize("phase", PHASES.values(), ids=PHASES)
def test_both_paths_are_one(phase: config.Phase, copy: int) -> None:
    (fast, fast_gradients), (plain, plain_gradients) = outcome(phase, copy), outcome(replace(phase, fused=False), copy)
    torch.testing.assert_close(fast.losses, plain.losses, rtol=1e-9, atol=1e-12)
    assert fast.sums.keys() == plain.sums.keys()
    for key, (total, count) in plain.sums.items():
        assert float(fast.sums[key][0]) == pytest.approx(float(total), rel=1e-9, abs=1e-12), key
        assert int(fast.sums[key][1]) == int(count), key
    for name in plain.losses:
        for fast_gradient, gradient in zip(fast_gradients[name], plain_gradients[name], strict=True):
            assert gradient is not None
            torch.testing.assert_close(fast_gradient, gradient, rtol=1e-9, atol=1e-12)


def scores(requires_grad: bool = True, seed: int = 0) -> Scores:
    torch.manual_seed(seed)
    return Scores(
        torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=requires_grad), torch.nn.Linear(5, V).double()
    )


TOKENS = torch.tensor([[2, 3, 4, 0], [5, 0, 0, 0], [6, 6, 0, 0]])
FREE = torch.zeros(3, 4, dtype=torch.bool)


@pytest.mark.parametrize("fast", [True, False])
def test_half_of_the_square_is_half_of_the_td_loss_and_all_of_the_smoothing(fast: bool) -> None:
    q, targets = replace(scores(), fast=fast), torch.ones(3, 4, dtype=torch.float64)
    td, spread = losses.critic_td(q.table, TOKENS, targets).sum(), losses.smoothing(q.table, TOKENS).sum()
    for form, share in (("squared", 1.0), ("half", 0.5)):
        phase = config.Critic("critic", 1.0, td_form=form, smoothing=0.3)  # type: ignore[arg-type]
        loss, found = temporal_difference(q, TOKENS, targets, phase, FREE)
        torch.testing.assert_close(loss, share * td + 0.3 * spread)
    torch.testing.assert_close(found[0], q.table[0].gather(-1, TOKENS[0].unsqueeze(-1)).squeeze(-1).detach())


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("look_ahead", ["gradient", "constant", "target"])
def test_what_soft_q_looks_ahead_with(look_ahead: str, fast: bool) -> None:
    q, slow, rewards = replace(scores(), fast=fast), scores(False, 1), torch.rand(3, 4, dtype=torch.float64)
    phase = config.SoftQ("q", 1.0, tau=0.5, look_ahead=look_ahead)  # type: ignore[arg-type]
    loss = soft_residual(q, slow if look_ahead == "target" else None, TOKENS, rewards, phase, FREE)
    constant = {"gradient": None, "constant": q.table.detach(), "target": slow.table.detach()}[look_ahead]
    expected = losses.soft_q(q.table, TOKENS, rewards, 0.5, constant).sum()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(
        *(torch.autograd.grad(one, q.features, retain_graph=True)[0] for one in (loss, expected))
    )
