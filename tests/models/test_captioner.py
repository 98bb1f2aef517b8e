"""The captioning network against itself step by step, and against its definition."""

import pytest
import torch
from torch import Tensor

from models.small import parts
from seqcredit.credit.tables import share
from seqcredit.draws import Noise
from seqcredit.models.captioner import Captioner
from seqcredit.models.policy import Policy, repeat
from seqcredit.search import beam, greedy
from seqcredit.types import pad

ACTIONS, WIDTH = 6, 5
CPU = torch.device("cpu")
PICTURES = torch.randn(3, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
TOKENS = pad([[3, 2], [5, 4, 3, 2], [2]])  # (3, 5)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def model(layers: int = 1, dropout: float = 0.3) -> Captioner:
    net = Captioner(WIDTH, ACTIONS, 3, 4, layers, dropout, generator()).double()
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(6)
    return net


def assert_near(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("dropped", [False, True])
def test_scores_are_repeated_steps(layers: int, dropped: bool) -> None:
    net = model(layers)
    memory, dropout = net.encode(PICTURES), net.drop(5, Noise(generator(), 3)) if dropped else None
    assert (dropout is not None) == dropped
    state, token, out = net.start(memory), None, []
    for t in range(5):
        scores, state = net.step(memory, state, token, None if dropout is None else dropout.kept[:, t])
        out.append(scores.features)
        token = TOKENS[:, t]
    assert_near(net.score(memory, TOKENS, dropout).features, torch.stack(out, 1))


@pytest.mark.parametrize("layers", [1, 2])
def test_the_decoder_starts_from_the_projected_picture(layers: int) -> None:
    """Against torch's own LSTM from h and c that are written out."""
    net = model(layers)
    states = torch.tanh(PICTURES @ net.picture.weight.T + net.picture.bias)  # (3, 2 * layers * 4): all h, then all c
    h, c = states[:, : 4 * layers].unflatten(1, (layers, 4)), states[:, 4 * layers :].unflatten(1, (layers, 4))
    words = torch.cat([net.bos.expand(3, 1, -1), net.embedding(TOKENS[:, :-1])], 1)
    expected, _ = net.decoder(words, (h.transpose(0, 1).contiguous(), c.transpose(0, 1).contiguous()))
    assert_near(net.score(net.encode(PICTURES), TOKENS).features, expected)


def test_each_picture_is_projected_once() -> None:
    net, seen = model(), []
    net.picture.register_forward_hook(lambda _module, given, _out: seen.append(len(given[0])))
    several = net.encode(PICTURES.repeat_interleave(4, 0))
    assert seen == [3]
    for mine, other in zip(parts(several), parts(repeat(net.encode(PICTURES), 4, CPU)), strict=True):
        assert_near(mine.double(), other.double())


def test_captions_that_branch_off_share_their_beginnings() -> None:
    net = model()
    tokens = torch.stack([TOKENS, TOKENS], 1)
    tokens[1, 1, 2] = 2
    fork = torch.tensor([[0, 1], [0, 2], [0, 0]])
    tokens[0, 1, 1], tokens[2, 1, 0] = 4, 5
    dropout = net.drop(5, Noise(generator(1), 3))
    assert dropout is not None
    scores = net.branch(net.encode(PICTURES), tokens, fork, dropout)
    assert scores is not None
    twice = repeat(net.encode(PICTURES), 2, CPU), tokens.flatten(0, 1), repeat(dropout, 2, CPU)
    everything = net.score(*twice).features.unflatten(0, (3, 2))
    assert_near(scores.features, share(tokens, fork).take_states(everything))


def test_search_takes_it_for_a_policy() -> None:
    net = model().eval()
    assert isinstance(net, Policy)
    best = beam(net, net.encode(PICTURES), 6, 1)
    found = greedy(net, net.encode(PICTURES), 6)
    assert torch.equal(best.tokens[:, 0, : found.shape[1]], found)


def test_another_picture_gets_other_words() -> None:
    net = model()
    features = net.score(net.encode(PICTURES), TOKENS[:1].expand(3, -1)).features
    assert (features[0] - features[1]).abs().max() > 1e-3


def test_first_weights_are_small_and_a_function_of_the_seed() -> None:
    one, same, other = (Captioner(WIDTH, ACTIONS, 3, 4, generator=generator(seed)) for seed in (1, 1, 2))
    for mine, equal, different in zip(one.parameters(), same.parameters(), other.parameters(), strict=True):
        assert 0 < mine.abs().max() <= 0.1
        assert torch.equal(mine, equal)
        assert not torch.equal(mine, different)


def test_dropout_is_that_of_the_states() -> None:
    net, dropout = model(), model().drop(5, Noise(generator(), 3))
    assert dropout is not None
    memory = net.encode(PICTURES)
    assert_near(net.score(memory, TOKENS, dropout).features, net.score(memory, TOKENS).features * dropout.kept)


def test_there_is_one_place_to_look_at() -> None:
    net = model()
    memory = net.encode(PICTURES)
    assert memory.mask.tolist() == [[True]] * 3
    assert net.step(memory, net.start(memory), None)[1].attention.tolist() == [[1.0]] * 3
