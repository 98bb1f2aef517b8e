"""The exact solution of any reward, by enumeration of a small space.

A node is an unfinished prefix. Nodes are numbered shortest first, and among equals as numbers in base K = V - 1; node n
closed with eos is sequence n, so that nodes and sequences share their numbers. N = 1 + K + ... + K^(T-1).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from seqcredit.credit.values import expected_value, soft_policy, soft_value
from seqcredit.draws import draw, uniform
from seqcredit.errors import require
from seqcredit.types import EOS, Reward, lengths

LARGEST = 5_000_000  # nodes


@dataclass(frozen=True)
class Space:
    """Every sequence of at most `bound` tokens, its one eos included, over `actions` actions."""

    actions: int
    bound: int

    def __post_init__(self) -> None:
        valid = self.actions >= 2 and self.bound >= 1
        require(valid, f"A space needs at least 2 actions and a bound of 1, not {self.actions} and {self.bound}.")
        size = f"{len(self):,} sequences of at most {self.bound} tokens over {self.actions} actions"
        advice = "enumerate a smaller space, or use the edit-distance or Hamming oracle."
        require(len(self) <= LARGEST, f"{size} are more than {LARGEST:,}; {advice}")

    def __len__(self) -> int:
        return sum(self.level_sizes)

    @property
    def level_sizes(self) -> list[int]:
        """Number of prefixes of 0, 1, ..., T - 1 words."""
        return [(self.actions - 1) ** words for words in range(self.bound)]

    @property
    def levels(self) -> list[slice]:
        """Nodes with 0, 1, ..., T - 1 words."""
        ends = torch.tensor(self.level_sizes).cumsum(0).tolist()
        return [slice(end - size, end) for end, size in zip(ends, self.level_sizes, strict=True)]

    @property
    def forced(self) -> Bool[Tensor, " N"]:
        """Nodes at the bound, where only eos is allowed."""
        forced = torch.zeros(len(self), dtype=torch.bool)
        forced[self.levels[-1]] = True
        return forced

    def sequences(self) -> Int[Tensor, "N T"]:
        """Every sequence, each filled up with eos."""
        words = self.actions - 1
        out = torch.full((len(self), self.bound), EOS)
        for count, level in enumerate(self.levels):
            index = torch.arange(words**count)
            for place in range(count):
                out[level, place] = 1 + index // words ** (count - 1 - place) % words
        return out

    def children(self, level: int) -> Int[Tensor, "n K"]:
        """The nodes that each node of a level, not the last, leads to by the actions 1, ..., V - 1."""
        first = self.levels[level + 1].start
        return first + torch.arange(self.level_sizes[level + 1]).reshape(-1, self.actions - 1)

    def nodes(self, tokens: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
        """The node before each token; on padding, that of the whole sequence."""
        words = self.actions - 1
        count = torch.arange(tokens.shape[1]).minimum(lengths(tokens).unsqueeze(-1))  # (B, T) words before the token
        local = torch.zeros_like(count)
        for t in range(1, tokens.shape[1]):
            grown = local[:, t - 1] * words + tokens[:, t - 1] - 1
            local[:, t] = torch.where(count[:, t] > count[:, t - 1], grown, local[:, t - 1])
        return torch.tensor([level.start for level in self.levels])[count] + local


@dataclass(frozen=True)
class Payoffs:
    """R of every node, unfinished and closed with eos; the paper's R makes both equal."""

    space: Space
    unfinished: Float[Tensor, " N"]
    finished: Float[Tensor, " N"]

    def rewards(self) -> Float[Tensor, "N V"]:
        """r of every action at every node; at the bound eos stands for all. Eq. (reward)."""
        closing = self.finished - self.unfinished
        rewards = closing.unsqueeze(-1).repeat(1, self.space.actions)
        for level, nodes in enumerate(self.space.levels[:-1]):
            rewards[nodes, 1:] = self.unfinished[self.space.children(level)] - self.unfinished[nodes].unsqueeze(-1)
        return rewards


@dataclass(frozen=True)
class ExactTable:
    """Q of every action and V of every node. At the bound Q(eos) stands for all actions; `space.forced` says where."""

    space: Space
    q: Float[Tensor, "N V"]
    value: Float[Tensor, " N"]

    def along(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Q before each token of given sequences."""
        return self.q[self.space.nodes(tokens)]


def score(space: Space, reward: Reward, references: Int[Tensor, "R L"]) -> Payoffs:
    """R of every prefix and every sequence of the space."""
    sequences = space.sequences()
    scores = reward.prefix_scores(sequences, references.expand(len(space), *references.shape))
    words = lengths(sequences).unsqueeze(-1)
    return Payoffs(space, scores.gather(1, words).squeeze(-1), scores.gather(1, words + 1).squeeze(-1))


def solve(payoffs: Payoffs, tau: float) -> ExactTable:
    """Q* and V*, or Q_R and V_R: Corollary 1 says that they are the same.

    Eq. (optimal_V) and (optimal_Q), from the bound backwards.
    """
    forced = payoffs.space.forced
    return _backward(payoffs, lambda q, nodes: soft_value(q, tau, forced[nodes]))


def evaluate(payoffs: Payoffs, logp: Float[Tensor, "N V"], tau: float) -> ExactTable:
    """Q^pi and V^pi of a given policy.

    Eq. (fixed_policy_iteration), from the bound backwards.
    """
    forced = payoffs.space.forced
    return _backward(payoffs, lambda q, nodes: expected_value(q, logp[nodes], tau, forced[nodes]))


def _backward(payoffs: Payoffs, value_of: Callable[[Tensor, slice], Tensor]) -> ExactTable:
    space, q = payoffs.space, payoffs.rewards()
    value = torch.zeros_like(payoffs.finished)
    for level, nodes in reversed(list(enumerate(space.levels))):
        if level < space.bound - 1:
            q[nodes, 1:] += value[space.children(level)]
        value[nodes] = value_of(q[nodes], nodes)
    return ExactTable(space, q, value)


def log_payoff(payoffs: Payoffs, tau: float) -> Float[Tensor, " N"]:
    """log P_R of every sequence.

    Eq. (raml_target).
    """
    if tau == 0:
        return soft_policy(payoffs.finished, 0.0).log()
    return torch.log_softmax(payoffs.finished / tau, 0)


def sequence_logp(space: Space, logp: Float[Tensor, "N V"]) -> Float[Tensor, " N"]:
    """log-probability of every sequence under a token-level policy, eos at the bound being certain.

    The left side of eq. (marginal_match).
    """
    reach = torch.zeros_like(logp[:, EOS])
    for level, nodes in enumerate(space.levels[:-1]):
        reach = reach.index_copy(0, space.children(level).flatten(), (reach[nodes, None] + logp[nodes, 1:]).flatten())
    return reach + logp[:, EOS].masked_fill(space.forced, 0)


def sample(payoffs: Payoffs, tau: float, count: int, generator: Generator) -> Int[Tensor, "n T"]:
    """Sequences drawn exactly from P_R."""
    weights = log_payoff(payoffs, tau).exp().expand(count, -1)
    return payoffs.space.sequences()[draw(weights, uniform(weights, generator))]
