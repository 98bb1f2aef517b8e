"""What sequences that were drawn lose: by hand, and by sums over all words."""

import pytest
import torch

from seqcredit.credit.drawn import (
    clipped,
    drift_estimate,
    first_of_its_kind,
    group_advantage,
    mean_of_others,
    risk,
    to_go,
)
from seqcredit.credit.values import divergence


def test_what_is_earned_from_each_token_on() -> None:
    scores = torch.tensor([[0.0, 0.2, 0.1, 0.7, 0.7]])
    torch.testing.assert_close(to_go(scores), torch.tensor([[0.7, 0.5, 0.6, 0.0]]))


def test_the_others_of_a_group() -> None:
    earned = torch.tensor([[1.0, 2.0, 6.0]])
    torch.testing.assert_close(mean_of_others(earned), torch.tensor([[4.0, 3.5, 1.5]]))
    places = torch.stack([earned, 10 * earned], -1)
    torch.testing.assert_close(mean_of_others(places)[..., 1], torch.tensor([[40.0, 35.0, 15.0]]))


def test_above_a_group_in_its_standard_deviations() -> None:
    earned = torch.tensor([[1.0, 2.0, 6.0], [4.0, 4.0, 4.0]])
    torch.testing.assert_close(
        group_advantage(earned, scaled=False), torch.tensor([[-2.0, -1.0, 3.0], [0.0, 0.0, 0.0]])
    )
    scaled = group_advantage(earned)
    torch.testing.assert_close(scaled[0], torch.tensor([-2.0, -1.0, 3.0]) / (7**0.5 + 1e-4))
    assert not scaled[1].any()  # a group in which all earn the same teaches nothing


@pytest.mark.parametrize(
    ("ratio", "advantage", "value", "slope"),
    [
        (1.0, 2.0, -2.0, -2.0),
        (1.0, -2.0, 2.0, 2.0),
        (1.5, 2.0, -2.6, 0.0),  # likely enough already
        (1.5, -2.0, 3.0, 3.0),  # but not too likely to be made less so
        (0.5, 2.0, -1.0, -1.0),
        (0.5, -2.0, 1.6, 0.0),  # unlikely enough already
    ],
)
def test_a_ratio_is_clipped_where_it_has_gone_far_enough(
    ratio: float, advantage: float, value: float, slope: float
) -> None:
    logp = torch.tensor([[ratio]]).log().requires_grad_()
    found = clipped(logp, torch.zeros(1, 1), torch.tensor([[advantage]]), low=0.2, high=0.3)
    assert found.item() == pytest.approx(value)
    assert torch.autograd.grad(found.sum(), logp)[0].item() == pytest.approx(slope)


def test_an_estimate_of_the_drift_by_all_words() -> None:
    """On average it is KL(pi || start), and its gradient is that of KL(start || pi)."""
    torch.manual_seed(0)
    logits = torch.randn(7, dtype=torch.float64, requires_grad=True)
    logp, start = logits.log_softmax(-1), torch.randn(7, dtype=torch.float64).log_softmax(-1)
    each = drift_estimate(logp, start)
    assert (each > 0).all()
    assert (logp.exp() * each).sum().item() == pytest.approx(divergence(logp, start).item())
    (found,) = torch.autograd.grad((logp.exp().detach() * each).sum(), logits, retain_graph=True)
    (backwards,) = torch.autograd.grad((start.exp() * (start - logp)).sum(), logits)
    torch.testing.assert_close(found, backwards)
    assert not drift_estimate(start, start).any()


def test_what_stands_there_already() -> None:
    tokens = torch.tensor([[[2, 3, 0], [2, 0, 0], [2, 3, 0], [2, 3, 4]], [[5, 0, 0]] * 4])
    assert first_of_its_kind(tokens).tolist() == [[True, True, False, True], [True, False, False, False]]


def test_risk_by_hand() -> None:
    logp = torch.tensor([[0.5, 0.25, 0.125]]).log()
    scores = torch.tensor([[1.0, 3.0, 100.0]])
    some = torch.tensor([[True, True, False]])
    assert risk(logp, scores, 1.0, some).item() == pytest.approx(-(2 / 3 + 1))
    assert risk(logp, scores, 2.0, some).item() == pytest.approx(-(4 / 5 + 3 / 5))
    assert risk(logp, scores, 1e-9, some).item() == pytest.approx(-2.0)  # blunt: all alike
