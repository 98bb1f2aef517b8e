"""Models small enough to list all their sequences, other alphabets of theirs, and one with a cache."""

import itertools
from typing import Any, Self

import pytest
import torch
from torch import Generator, Tensor, nn

from seqcredit.models.lstm import Seq2Seq
from seqcredit.models.memory import Memory
from seqcredit.models.policy import Dropout, Policy, Scores, Written
from seqcredit.models.wrapped import Wrapped
from seqcredit.search import sample
from seqcredit.types import EOS, Alphabet, lengths, pad

CPU = torch.device("cpu")
ACTIONS = 4
SOURCE = pad([[2, 3, 4, 5], [6], [], [7, 8, 2], [5, 5, 5]])
SOURCES = torch.randint(2, 9, (20, 4), generator=torch.Generator().manual_seed(0)).index_fill(1, torch.tensor([3]), EOS)
MIXED = {"seed": 23, "eos": 2.0}  # a model whose greedy results for SOURCES have four lengths
BOUNDS = torch.tensor([4, 2, 3, 1, 4])


def generator(seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(seed)


def drawn(net, memory, bound, source: Generator, dropout: Dropout | None = None, **options) -> Tensor:
    """Sequences drawn with numbers from a generator."""
    longest = int(torch.as_tensor(bound).max())
    uniform = torch.rand(memory.rows, longest, generator=source, dtype=torch.float64)
    return sample(net, memory, bound, uniform, dropout, **options)


def model(seed: int = 0, actions: Alphabet | int = ACTIONS, eos: float = 0.0, **kind: Any) -> Seq2Seq:
    """Weights so large that the distributions are uneven and depend on the prefix and the source."""
    net = Seq2Seq(9, actions, embedding=3, hidden=4, generator=generator(seed), **kind).double()
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(12)
        net.readout.bias[net.alphabet.eos] += eos
    return net.eval()


def all_sequences(bound: int, actions: int = ACTIONS) -> Tensor:
    """Every sequence of at most bound - 1 words and eos."""
    words = range(1, actions)
    return pad([s for n in range(bound) for s in itertools.product(words, repeat=n)], bound)


def log_probabilities(
    net: Seq2Seq,
    memory: Memory,
    tokens: Tensor,
    bound: int,
    dropout: Dropout | None = None,
    temperature: float = 1.0,
) -> Tensor:
    """log p of sequences of one sentence; eos is certain at the bound."""
    row = memory.select(torch.zeros(len(tokens), dtype=torch.long))
    dropped = None if dropout is None else Dropout(dropout.kept.expand(len(tokens), -1, -1)[:, : tokens.shape[1]])
    logp = torch.log_softmax(net.score(row, tokens, dropped).table() / temperature, -1)
    chosen = logp.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    position = torch.arange(tokens.shape[1])
    counts = (position <= lengths(tokens).unsqueeze(-1)) & (position < bound - 1)
    return chosen.masked_fill(~counts, 0).sum(-1).detach()


def one(memory: Memory, b: int) -> Memory:
    return memory.select(torch.tensor([b]))


def number(tokens: Tensor, actions: int = ACTIONS) -> Tensor:
    """Sequences as numbers, whatever their width."""
    wide = torch.nn.functional.pad(tokens, (0, 6 - tokens.shape[-1]), value=EOS)
    return (wide * actions ** torch.arange(6)).sum(-1)


def frequencies(drawn: Tensor, sequences: Tensor) -> Tensor:
    return (number(drawn).unsqueeze(0) == number(sequences).unsqueeze(1)).double().mean(1)


def assert_agree(drawn: Tensor, sequences: Tensor, p: Tensor) -> None:
    """Nothing else is drawn, and each within 4.5 standard errors."""
    torch.testing.assert_close(p.sum(), torch.ones_like(p.sum()))
    found = frequencies(drawn, sequences)
    assert found.sum().item() == pytest.approx(1)
    assert ((found - p).abs() <= 4.5 * (p * (1 - p) / len(drawn)).sqrt() + 1e-9).all()


# The same models in another alphabet.


def renumbered(net: Seq2Seq, ids: Tensor, size: int, loud: float = 50.0) -> Seq2Seq:
    """The same model, its id i called ids[i] among `size` ids; the others are no actions, though it prefers them."""
    actions = torch.zeros(size, dtype=torch.bool)
    actions[ids] = True
    alphabet = Alphabet(size, int(ids[net.alphabet.eos]), None, None if actions.all() else actions)
    other = model(actions=alphabet)
    with torch.no_grad():
        for name, weight in other.named_parameters():
            mine = net.get_parameter(name)
            if name.startswith(("embedding", "readout")):
                weight.fill_(loud if weight.dim() == 1 else 0)
                weight[ids] = mine
            else:
                weight.copy_(mine)
    return other


# eos elsewhere; eos elsewhere, and ids that are no actions before, between and after the others.
ALPHABETS = pytest.mark.parametrize(
    ("ids", "size"),
    [(torch.tensor([3, 0, 2, 1]), 4), (torch.tensor([5, 8, 1, 3]), 10), (torch.tensor([0, 2, 3, 5]), 7)],
    ids=["permuted", "no actions", "eos stays"],
)


# A model with a cache, and the same one without.


class Cache:
    """What a model remembers of its own tokens: no tensor dataclass, and it grows in place."""

    def __init__(self, seen: list[Tensor], count: int) -> None:
        self.seen, self.count = seen, count

    @property
    def rows(self) -> int:
        return self.count

    def select(self, index: Tensor) -> Self:
        return type(self)([step[index] for step in self.seen], len(index))

    def join(self, other: Self) -> Self:
        pairs = zip(self.seen, other.seen, strict=True)
        return type(self)([torch.cat(pair) for pair in pairs], self.count + other.count)


class Looking(nn.Module):
    """Looks back at all tokens so far, from the last one and the source: scores of every position at once."""

    def __init__(self, actions: int = 6, width: int = 4, seed: int = 0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(actions + 1, width)  # the last one is bos
        self.source = nn.Embedding(9, width)
        self.readout = nn.Linear(width, actions)
        self.double()
        with torch.no_grad():
            for weight in self.parameters():
                weight.copy_(1.5 * torch.randn(weight.shape, generator=generator(seed), dtype=torch.float64))

    def look(self, source: Tensor, words: Tensor, last: Tensor) -> Tensor:
        """Scores after words (B, t, D), of which the last is `last` (B, D)."""
        query = last + self.source(source).mean(1)
        order = torch.arange(1, words.shape[1] + 1) / words.shape[1]  # so that it matters which came first
        weights = torch.softmax((words @ query.unsqueeze(-1)).squeeze(-1) * order, -1)
        return self.readout(torch.tanh((weights.unsqueeze(-1) * words).sum(1) + query))

    def forward(self, source: Tensor, tokens: Tensor) -> Tensor:
        before = torch.nn.functional.pad(tokens[:, :-1], (1, 0), value=self.readout.out_features)
        words = self.embedding(before)
        return torch.stack([self.look(source, words[:, : t + 1], words[:, t]) for t in range(tokens.shape[1])], 1)


class Cached(Policy[Cache, Cache]):
    """The same one, token by token: its memory is a cache too."""

    def __init__(self, looking: Looking) -> None:
        super().__init__()
        self.looking, self.alphabet = looking, Alphabet(looking.readout.out_features)

    def encode(self, source: Tensor) -> Cache:
        return Cache([source], len(source))

    def start(self, memory: Cache) -> Cache:
        return Cache([], memory.rows)

    def step(
        self, memory: Cache, state: Cache, token: Tensor | None, dropout: Tensor | None = None
    ) -> tuple[Scores, Cache]:
        bos = torch.full((memory.rows,), self.alphabet.size)
        state.seen.append(self.looking.embedding(bos if token is None else token))
        (source,) = memory.seen
        return Written(self.looking.look(source, torch.stack(state.seen, 1), state.seen[-1])), state

    def score(self, memory: Cache, tokens: Tensor, dropout: Dropout | None = None) -> Scores:
        return Written(self.looking(memory.seen[0], tokens))


def with_and_without_cache(seed: int) -> tuple[Cached, Wrapped]:
    looking = Looking(seed=seed)
    return Cached(looking), Wrapped(looking, looking.readout.out_features)
