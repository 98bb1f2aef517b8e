"""A tiny actor in a space that is small enough to look at every sequence: what a phase does on average."""

from itertools import combinations_with_replacement, permutations

import pytest
import torch
from torch import Tensor

from seqcredit.algorithms import Models, Phase, Progress, rollout
from seqcredit.credit.oracle.enumeration import Space
from seqcredit.credit.values import at_bound, chosen
from seqcredit.draws import Noise
from seqcredit.models.lstm import Seq2Seq
from seqcredit.rewards import Bleu
from seqcredit.types import Batch, Reward, pad, pad_references, token_mask

SPACE = Space(4, 3)
EVERY = SPACE.sequences()
ONE = Batch(pad([[1, 2]]), pad_references([[[3, 1]]]))
BLEU = Bleu(scaled=True, dtype=torch.float64)
EARNED = BLEU.prefix_scores(EVERY, ONE.references.expand(len(EVERY), -1, -1))[:, -1]


class Nothing:
    """A reward of 0, so that only what stands beside it is learned."""

    def prefix_scores(self, tokens: Tensor, references: Tensor) -> Tensor:
        return torch.zeros(len(tokens), tokens.shape[1] + 1, dtype=torch.float64)


def actor(seed: int = 0) -> Seq2Seq:
    made = Seq2Seq(4, 4, 6, 6, dropout=0.0, generator=torch.Generator().manual_seed(seed)).double()
    for weight in made.parameters():
        weight.data *= 6  # far from uniform
    return made


def logp_of_all(net: Seq2Seq, tokens: Tensor) -> Tensor:
    """Log-probabilities of all words in every state of some sequences."""
    return net.score(net.encode(ONE.source.expand(len(tokens), -1)), tokens).table().log_softmax(-1)


def free(tokens: Tensor) -> Tensor:
    """Tokens that are chosen: no padding, and no eos at the bound."""
    return token_mask(tokens) & ~at_bound(tokens, SPACE.bound)


def log_likelihood(net: Seq2Seq, tokens: Tensor) -> Tensor:
    """Of sequences, in which eos at the bound is no choice."""
    return chosen(logp_of_all(net, tokens), tokens).masked_fill(~free(tokens), 0).sum(-1)


def gradient_of(net: Seq2Seq, number: Tensor) -> Tensor:
    return torch.cat([part.flatten() for part in torch.autograd.grad(number, [*net.parameters()])])


def average(
    phase: Phase,
    nets: Models,
    monkeypatch: pytest.MonkeyPatch,
    samples: int = 1,
    reward: Reward = BLEU,
    progress: Progress | None = None,
    sequences: Tensor = EVERY,
    mass: Tensor | None = None,
) -> Tensor:
    """The mean of a phase's gradient over all samples that it might draw."""
    net = nets.actor
    assert isinstance(net, Seq2Seq)
    mass = log_likelihood(net, sequences).detach().exp() if mass is None else mass
    assert float(mass.sum()) == pytest.approx(1)
    total = torch.zeros(sum(weight.numel() for weight in net.parameters()), dtype=torch.float64)
    for rows in combinations_with_replacement(range(len(sequences)), samples):  # in any order they teach the same
        monkeypatch.setattr(rollout, "sample", lambda *_, rows=rows: sequences[list(rows)])
        found = phase.loss(nets, ONE, reward, Noise(torch.Generator(), 1), progress or Progress())
        orders = len({*permutations(rows)})
        total += orders * mass[list(rows)].prod() * gradient_of(net, found.losses["actor"])
    return total
