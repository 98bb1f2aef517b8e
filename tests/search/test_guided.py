"""Search guided by a value: nothing changes without weight, and with the exact value the best sequence is found."""

import pytest
import torch
from torch import Tensor, nn

from search.small import ACTIONS, BOUNDS, SOURCE, all_sequences, log_probabilities, model, number, one
from seqcredit.credit.oracle.enumeration import Payoffs, Space, solve
from seqcredit.errors import UserError
from seqcredit.models.wrapped import Wrapped
from seqcredit.search import Guide, beam
from seqcredit.types import lengths

BOUND = 4
SPACE = Space(ACTIONS, BOUND)


def earned(seed: int) -> Tensor:
    """A pay-off of every whole sequence; what is unfinished has earned nothing."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(len(SPACE), generator=generator, dtype=torch.float64)


class Oracle(nn.Module):
    """The best pay-off that every continuation can still lead to."""

    def __init__(self, worth: Tensor) -> None:
        super().__init__()
        self.q = solve(Payoffs(SPACE, torch.zeros_like(worth), worth), 0.0).q

    def forward(self, source: Tensor, tokens: Tensor) -> Tensor:
        return self.q[SPACE.nodes(tokens)]


def oracle(worth: Tensor, weight: float, source: Tensor = SOURCE) -> Guide:
    critic = Wrapped(Oracle(worth), ACTIONS)
    return Guide(critic, critic.encode(source), weight)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("width", [1, 3])
def test_without_weight_it_is_plain_beam_search(width: int, penalty: float) -> None:
    for seed in range(3):
        net = model(seed)
        memory = net.encode(SOURCE)
        plain = beam(net, memory, BOUNDS, width, length_penalty=penalty)
        found = beam(net, memory, BOUNDS, width, length_penalty=penalty, guide=oracle(earned(seed), 0.0))
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(found, plain, strict=True))


@pytest.mark.parametrize("width", [1, 2])
def test_with_the_exact_value_it_finds_the_best_sequence(width: int) -> None:
    """However narrow the beam is, and whatever the model would say."""
    for seed in range(4):
        net, worth = model(seed), earned(seed)
        found = beam(net, net.encode(SOURCE), BOUND, width, guide=oracle(worth, 1e6))
        best = SPACE.sequences()[worth.argmax()]
        assert number(found.tokens[:, 0]).tolist() == [int(number(best))] * len(SOURCE)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("weight", [5.0, 20.0])
def test_a_wide_beam_ranks_by_likelihood_and_value(weight: float, penalty: float) -> None:
    """The whole list of sequences, ordered by both; log-probabilities stay what they are."""
    net, worth, n = model(1), earned(1), 5
    memory, sequences = net.encode(SOURCE), SPACE.sequences()
    assert number(sequences).sort().values.tolist() == number(all_sequences(BOUND)).sort().values.tolist()
    found = beam(net, memory, BOUND, 40, n, penalty, oracle(worth, weight))
    moved = 0
    for b in range(len(SOURCE)):
        logp = log_probabilities(net, one(memory, b), sequences, BOUND)
        likely = logp / (lengths(sequences) + 1).double() ** penalty
        scores = likely + weight * worth
        order = scores.argsort(descending=True)[:n]
        assert number(found.tokens[b]).tolist() == number(sequences[order]).tolist()
        torch.testing.assert_close(found.scores[b], scores[order])
        torch.testing.assert_close(found.logp[b], logp[order])
        torch.testing.assert_close(found.worth[b], weight * worth[order])
        moved += int(order[0]) != int(likely.argmax())
    assert moved


def test_a_learned_critic_goes_along_with_its_hypotheses() -> None:
    """A network with a state: what it says of each result is what it says of those words from the beginning."""
    net, critic = model(2), model(7)
    memory = net.encode(SOURCE)
    found = beam(net, memory, BOUNDS, 3, 2, guide=Guide(critic, critic.encode(SOURCE), 0.3))
    for b in range(len(SOURCE)):
        for n in range(2):
            if found.scores[b, n] > -torch.inf:
                words = int(lengths(found.tokens[b, n]))
                said = critic.score(critic.encode(SOURCE[[b]]), found.tokens[[b], n]).table()[0, words, 0].detach()
                torch.testing.assert_close(found.worth[b, n], 0.3 * said)


def test_another_alphabet_is_told() -> None:
    net, critic = model(), Wrapped(nn.Identity(), 7)
    with pytest.raises(UserError, match=r"^The guide knows 7 ids, and the model 4: train it for those\.$"):
        beam(net, net.encode(SOURCE), 3, guide=Guide(critic, critic.encode(SOURCE), 1.0))
