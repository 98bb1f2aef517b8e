"""Any module that scores the next word."""

import pytest
import torch
from torch import Tensor, nn

from seqcredit.draws import Noise
from seqcredit.models.policy import Linear, Policy, Written
from seqcredit.models.wrapped import Wrapped
from seqcredit.search import beam, greedy, sample
from seqcredit.types import Alphabet, Batch, pad_references

V = 5
SOURCE = torch.tensor([0.5, -1.0, 0.0])
TOKENS = torch.tensor([[2, 3, 0], [1, 4, 2], [2, 0, 0]])


class Bigrams(nn.Module):
    """Scores from the word before and the number that is the source."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(V + 1, V)

    def forward(self, source: Tensor, tokens: Tensor) -> Tensor:
        before = nn.functional.pad(tokens[:, :-1], (1, 0), value=V)
        return self.table(before) + source[:, None, None] * torch.arange(V)


class Features(nn.Module):
    """Features of the word before and of the source: a readout makes scores of them."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(V + 1, 3)

    def forward(self, source: Tensor, tokens: Tensor) -> Tensor:
        before = nn.functional.pad(tokens[:, :-1], (1, 0), value=V)
        return torch.tanh(self.table(before) + source[:, None, None])


class Read(nn.Module):
    """Features and readout in one module."""

    def __init__(self, features: nn.Module, readout: nn.Linear) -> None:
        super().__init__()
        self.features, self.readout = features, readout

    def forward(self, source: Tensor, tokens: Tensor) -> Tensor:
        return self.readout(self.features(source, tokens))


def wrapped() -> Wrapped:
    torch.manual_seed(0)
    return Wrapped(Bigrams(), V)


def both_ways(bias: bool) -> tuple[Wrapped, Wrapped]:
    """With a readout of its own, and with one that nobody knows of."""
    torch.manual_seed(1)
    features, readout = Features(), nn.Linear(3, V, bias)
    return Wrapped(features, V, readout), Wrapped(Read(features, readout), V)


def steps(model: Wrapped, tokens: Tensor) -> Tensor:
    memory = model.encode(SOURCE)
    state, token, found = model.start(memory), None, []
    for t in range(tokens.shape[1]):
        scores, state = model.step(memory, state, token)
        found.append(scores.table())
        token = tokens[:, t]
    return torch.stack(found, 1)


def test_it_is_a_policy_whose_steps_are_its_scores() -> None:
    model = wrapped()
    assert isinstance(model, Policy)
    scores = model.score(model.encode(SOURCE), TOKENS)
    assert isinstance(scores, Written)
    torch.testing.assert_close(scores.table(), model.module(SOURCE, TOKENS))
    torch.testing.assert_close(steps(model, TOKENS), scores.table())


@pytest.mark.parametrize("bias", [True, False])
def test_with_a_readout_scores_are_linear_and_the_same(bias: bool) -> None:
    model, hidden = both_ways(bias)
    known, unknown = (one.score(one.encode(SOURCE), TOKENS) for one in (model, hidden))
    assert isinstance(known, Linear)
    assert isinstance(unknown, Written)
    assert model.readout is not None
    assert known.weight is model.readout.weight
    assert known.bias is model.readout.bias
    assert known.features.shape == (3, 3, 3)
    torch.testing.assert_close(known.table(), unknown.table())
    torch.testing.assert_close(steps(model, TOKENS), known.table())
    torch.testing.assert_close(steps(model, TOKENS), steps(hidden, TOKENS))
    for mine, theirs in zip(*(beam(one, one.encode(SOURCE), 4, 3) for one in (model, hidden)), strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("bias", [True, False])
def test_gradients_reach_module_and_readout(bias: bool) -> None:
    model, hidden = both_ways(bias)
    weights = list(model.parameters())
    assert len(weights) == (3 if bias else 2)
    pick = torch.randn(3, 3, V, generator=torch.Generator().manual_seed(2))
    found, expected = (
        torch.autograd.grad((one.score(one.encode(SOURCE), TOKENS).table() * pick).sum(), weights)
        for one in (model, hidden)
    )
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.abs().max() > 0
        torch.testing.assert_close(mine, theirs)


def test_a_wrapped_critic_reads_the_references() -> None:
    class First(nn.Module):
        """Q of a word is 1 where the first reference has it."""

        def forward(self, references: Tensor, tokens: Tensor) -> Tensor:
            there = nn.functional.one_hot(references[:, 0].clamp(min=0), V).amax(1)
            return there.unsqueeze(1).expand(-1, tokens.shape[1], -1).double()

    critic = Wrapped(First(), V, reads="references")
    references = pad_references([[[2, 3], [4]], [[1]]])
    memory = critic.read(Batch(torch.zeros(2), references))
    assert critic.score(memory, TOKENS[:2]).table()[:, 0].tolist() == [[1, 0, 1, 1, 0], [1, 1, 0, 0, 0]]
    assert wrapped().reads == "source"


def test_what_is_not_yet_known_is_eos_to_the_module() -> None:
    """A step hands over the tokens so far and one more place, filled with the alphabet's eos."""
    seen = []

    class Spy(Bigrams):
        """Notes what it is asked."""

        def forward(self, source: Tensor, tokens: Tensor) -> Tensor:
            seen.append(tokens)
            return super().forward(source, tokens)

    model = Wrapped(Spy(), Alphabet(V, eos=3))
    steps(model, TOKENS)
    assert [tokens[1].tolist() for tokens in seen] == [[3], [1, 3], [1, 4, 3]]


def test_search_and_sampling_run_on_it() -> None:
    model, source = wrapped(), torch.linspace(-1, 1, 40)
    memory = model.encode(source)
    found = beam(model, memory, 2, width=V)  # one word, then eos, which is certain there
    first = model.score(memory, found.tokens[:, 0]).table().log_softmax(-1)[:, 0]
    torch.testing.assert_close(found.logp[:, 0], first.max(-1).values)
    words = greedy(model, memory, 4)
    assert (words[:, 0] == model.score(memory, words).table()[:, 0].argmax(-1)).all()
    noise = Noise(torch.Generator().manual_seed(0), 4_000)
    many = sample(model, model.encode(torch.zeros(4_000)), 2, noise.uniform(2))
    share = torch.bincount(many[:, 0], minlength=V) / 4_000
    expected = model.module.table.weight[V].softmax(-1)
    torch.testing.assert_close(share, expected, atol=0.03, rtol=0)
