import math
import time
import warnings

import pytest
import torch

import brute
from seqcredit.credit.oracle.edit import EditOracle, _group_policy
from seqcredit.credit.oracle.enumeration import Payoffs, Space, log_payoff, score, solve
from seqcredit.errors import UserError
from seqcredit.types import token_mask

pytestmark = pytest.mark.filterwarnings("ignore:At tau")  # small vocabularies at high temperatures, on purpose
TAUS = (0.0, 0.1, 0.6, 2.0)
CASES = [([1, 3], 5, 5), ([2, 2, 3], 4, 6), ([3, 1, 1, 3, 2], 4, 4), ([], 3, 4), ([1, 2, 3, 2], 4, 6)]


def enumerated(reference: list[int], actions: int, bound: int) -> Payoffs:
    return score(
        Space(actions, bound), brute.PythonReward(brute.negative_edit_distance), torch.tensor([[*reference, 0]])
    )


@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize(("reference", "actions", "bound"), CASES)
def test_dynamic_programming_equals_enumeration(reference: list[int], actions: int, bound: int, tau: float) -> None:
    payoffs = enumerated(reference, actions, bound)
    oracle = EditOracle.solve(torch.tensor(reference, dtype=torch.long), actions, bound, tau)
    tokens = payoffs.space.sequences()
    here = token_mask(tokens)
    expected = solve(payoffs, tau).along(tokens)[here]
    torch.testing.assert_close(oracle.along(tokens)[here], expected, atol=1e-12, rtol=0)
    cut = oracle.along(tokens[:, :-1])  # sequences that end before the bound
    torch.testing.assert_close(cut[here[:, :-1]], oracle.along(tokens)[:, :-1][here[:, :-1]], atol=0, rtol=0)
    if tau > 0:
        torch.testing.assert_close(oracle.log_payoff(tokens), log_payoff(payoffs, tau), atol=1e-11, rtol=0)
        rubbish = tokens.where(here, 1)  # what follows eos does not count
        torch.testing.assert_close(oracle.log_payoff(rubbish), log_payoff(payoffs, tau), atol=1e-11, rtol=0)


@pytest.mark.parametrize("tau", [0.0, 0.8])
def test_samples_are_exact(tau: float) -> None:
    payoffs = enumerated([1, 3], 6, 4)
    oracle = EditOracle.solve(torch.tensor([1, 3]), 6, 4, tau)
    drawn = oracle.sample(40_000, torch.Generator().manual_seed(0))
    assert (drawn[~token_mask(drawn)] == 0).all()
    last = payoffs.space.nodes(torch.nn.functional.pad(drawn, (0, 1)))[:, -1]
    frequency = torch.bincount(last, minlength=len(payoffs.space)) / len(drawn)
    torch.testing.assert_close(frequency.double(), log_payoff(payoffs, tau).exp(), atol=0.01, rtol=0)


@pytest.mark.parametrize("mass", [0.0, 0.5, 2.0])
def test_a_base_measure_weighs_junk_words(mass: float) -> None:
    """P_R times (mass / junk words) for each junk word, normalised over the whole space."""
    reference, actions, bound, tau = [1, 3], 6, 4, 0.7
    payoffs = enumerated(reference, actions, bound)
    oracle = EditOracle.solve(torch.tensor(reference), actions, bound, tau, junk_mass=mass)
    tokens = payoffs.space.sequences()
    junk = ((tokens != 0) & (tokens != 1) & (tokens != 3)).sum(1)
    weight = torch.where(junk == 0, 1.0, (mass / 3) ** junk.double()) * (payoffs.finished / tau).exp()
    torch.testing.assert_close(oracle.log_payoff(tokens).exp(), weight / weight.sum(), atol=1e-12, rtol=0)
    drawn = oracle.sample(20_000, torch.Generator().manual_seed(0))
    last = payoffs.space.nodes(torch.nn.functional.pad(drawn, (0, 1)))[:, -1]
    frequency = torch.bincount(last, minlength=len(tokens)) / len(drawn)
    torch.testing.assert_close(frequency.double(), weight / weight.sum(), atol=0.015, rtol=0)


def test_an_unknown_word_may_match_nothing() -> None:
    with_match = EditOracle.solve(torch.tensor([1, 3]), 6, 5, 0.2)
    without = EditOracle.solve(torch.tensor([1, 3]), 6, 5, 0.2, unk_matches=False)
    tokens = torch.tensor([[1, 3, 0]])
    assert float(with_match.along(tokens)[0, 0, 1]) > float(with_match.along(tokens)[0, 0, 2])
    assert float(without.along(tokens)[0, 0, 1]) == float(without.along(tokens)[0, 0, 2])


@pytest.mark.slow
def test_a_real_vocabulary() -> None:
    """30,000 actions and 12 words: Q* obeys the soft Bellman equation, and the reference is what is drawn most."""
    reference = torch.randperm(29_000, generator=torch.Generator().manual_seed(0))[:12] + 2
    began = time.perf_counter()
    oracle = EditOracle.solve(reference, actions=30_000, bound=18, tau=0.06)
    assert time.perf_counter() - began < 120
    tokens = oracle.sample(40, torch.Generator().manual_seed(0))
    q = oracle.along(tokens)
    assert q.shape == (40, 18, 30_000)
    value = 0.06 * (q / 0.06).logsumexp(-1)
    scores = brute.PythonReward(brute.negative_edit_distance).prefix_scores(
        tokens, torch.nn.functional.pad(reference, (0, 1)).expand(40, 1, -1)
    )
    for b, row in enumerate(tokens.tolist()):
        for t, token in enumerate(brute.words(row)):
            if t + 1 < 17:
                expected = float(scores[b, t + 1] - scores[b, t] + value[b, t + 1])
                assert float(q[b, t, token]) == pytest.approx(expected, abs=1e-9)
    assert float(oracle.log_payoff(torch.nn.functional.pad(reference, (0, 6)).unsqueeze(0))) > math.log(0.1)


def test_the_states_are_as_few_as_they_should_be() -> None:
    states = [EditOracle.solve(torch.arange(2, 2 + n), 30_000, n + 8, 0.05).value.shape[1] for n in (6, 7, 8)]
    assert states[2] < 2_500
    assert 2.3 < states[1] / states[0] < 3.1
    assert 2.3 < states[2] / states[1] < 3.1


def test_too_many_states_are_refused() -> None:
    with pytest.raises(UserError, match="9 words needs more than 1,000 rows"):
        EditOracle.solve(torch.arange(2, 11), 100, 15, 0.1, max_states=1_000)


def test_a_negative_mass_is_refused() -> None:
    with pytest.raises(UserError, match="junk_mass"):
        EditOracle.solve(torch.tensor([2]), 100, 5, 0.1, junk_mass=-1.0)


@pytest.mark.filterwarnings("default")
def test_a_temperature_at_which_junk_outweighs_the_reference_is_warned_of() -> None:
    limit = 1 / math.log(997)
    with pytest.warns(UserWarning, match="noise as long as the bound"):
        EditOracle.solve(torch.tensor([2, 3]), 1000, 6, limit * 1.05)


def test_below_that_temperature_or_with_less_mass_there_is_no_warning() -> None:
    limit = 1 / math.log(997)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert EditOracle.solve(torch.tensor([2, 3]), 1000, 6, limit * 0.95).tau < limit
        assert EditOracle.solve(torch.tensor([2, 3]), 1000, 6, 1.0, junk_mass=1.0).tau == 1.0


def test_groups_are_drawn_by_their_mass() -> None:
    """At tau = 0 the best ones, each by its mass; never a group without any."""
    q = torch.tensor([[1.0, 1.0, 1.0], [0.0, 2.0, 1.0], [0.0, 1.0, 2.0]], dtype=torch.float64)
    mass = torch.tensor([1.0, 1.0, 2.0], dtype=torch.float64)
    best = _group_policy(q, mass.log(), 0.0)
    assert best.tolist() == [[0.25, 0.25, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    mass[2] = 0
    assert _group_policy(q, mass.log(), 0.0).tolist() == [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
    warm = mass * (q / 0.5).exp()
    torch.testing.assert_close(_group_policy(q, mass.log(), 0.5), warm / warm.sum(-1, keepdim=True))


def test_how_q_depends_on_the_bound() -> None:
    """Below the limit a longer bound hardly matters; above it V* grows by a constant for every further word."""
    reference = torch.tensor([2, 3])
    cool = [float(EditOracle.solve(reference, 1000, t, 0.1).value[0].max()) for t in (8, 16)]
    assert cool[0] == pytest.approx(cool[1], abs=1e-3)
    hot = [float(EditOracle.solve(reference, 1000, t, 0.5).value[0].max()) for t in (20, 30, 40)]
    assert hot[2] - hot[1] == pytest.approx(hot[1] - hot[0], rel=1e-2)
    assert hot[1] - hot[0] > 10
