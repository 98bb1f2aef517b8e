"""The exact solution of the Hamming reward, R = -(mismatches + length difference), in closed form.

Only the number of words so far matters. With L reference words, K = V - 1 words to choose from and N = T - 1 words at
the most, a state with t words has

    exp(V*(t) / tau) = sum over k = 0 .. N - t more words of  b^min(k, (L - t)+)  a^(k - (L - t)+)+ ,

where b = exp(1 / tau) + K - 1 (the right word gains 1, a wrong one nothing) and a = K exp(-1 / tau) (a word too many
costs 1); x+ is max(x, 0). So V* is linear in T - t, hence unbounded in T, where a >= 1: tau >= 1 / log K.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from seqcredit.credit.values import at_bound, soft_policy
from seqcredit.draws import draw, uniform
from seqcredit.errors import require
from seqcredit.types import EOS, lengths


@dataclass(frozen=True)
class HammingOracle:
    """Exact Q*, V* and P_R against one reference, of any vocabulary and length, in float64."""

    reference: Int[Tensor, " L"]  # words, without eos
    actions: int
    bound: int
    tau: float

    def __post_init__(self) -> None:
        valid = self.actions >= 2 and self.bound >= 1
        require(valid, f"A space needs at least 2 actions and a bound of 1, not {self.actions} and {self.bound}.")

    def values(self) -> Float[Tensor, " T"]:
        """V* of the states with 0, 1, ..., T - 1 words."""
        words = torch.arange(self.bound)
        more = words.unsqueeze(0)  # (1, T) how many further words
        missing = (len(self.reference) - words).clamp(min=0).unsqueeze(1)  # (T, 1)
        inside, beyond = torch.minimum(more, missing), (more - missing).clamp(min=0)
        possible = more <= self.bound - 1 - words.unsqueeze(1)
        if self.tau == 0:
            return (inside - beyond).double().masked_fill(~possible, -math.inf).amax(-1)
        wrong = math.log(self.actions - 2) if self.actions > 2 else -math.inf
        log_b = torch.tensor([1 / self.tau, wrong], dtype=torch.float64).logsumexp(0)
        log_a = math.log(self.actions - 1) - 1 / self.tau
        weight = (inside.double() * log_b + beyond.double() * log_a).masked_fill(~possible, -math.inf)
        return self.tau * weight.logsumexp(-1)

    def q(self) -> Float[Tensor, "T V"]:
        """Q* of every action after 0, 1, ..., T - 1 words; at the bound Q(eos) stands for all."""
        following = self.values()[1:].unsqueeze(-1)  # (T - 1, 1)
        words = torch.arange(self.bound - 1)
        gain = torch.where(words < len(self.reference), 0.0, -1.0).double().unsqueeze(-1)
        q = torch.zeros(self.bound, self.actions, dtype=torch.float64)
        q[:-1] = gain + following
        q[:, EOS] = 0
        known = min(len(self.reference), self.bound - 1)
        q[torch.arange(known), self.reference[:known]] += 1
        return q

    def along(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Q* before each token of given sequences."""
        position = torch.arange(tokens.shape[1]).minimum(lengths(tokens).unsqueeze(-1))
        return self.q()[position]

    def sample(self, count: int, generator: Generator) -> Int[Tensor, "n T"]:
        """Sequences drawn exactly from P_R."""
        tokens = torch.full((count, self.bound), EOS)
        policy = soft_policy(self.q(), self.tau, at_bound(tokens[0], self.bound))
        going = torch.ones(count, dtype=torch.bool)
        for t in range(self.bound):
            weights = policy[t].expand(int(going.sum()), -1)
            tokens[going, t] = draw(weights, uniform(weights, generator))
            going = going & (tokens[:, t] != EOS)
        return tokens
