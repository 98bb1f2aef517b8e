"""Sampling and greedy search, word by word, for any policy.

The bound counts eos. At position bound - 1 only eos is allowed: it has probability 1 there, in sampling and in beam
search alike, as in the paper's bounded sequences.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqcredit.credit.values import only_actions
from seqcredit.draws import draw
from seqcredit.errors import require
from seqcredit.models.policy import Dropout, M, Policy, Readout, S

CROWD = 0.75  # finished sentences leave once those that go on are at most this share of the batch


class Given(NamedTuple):
    """Tokens that a search does not choose."""

    tokens: Int[Tensor, "B L"]
    kept: Bool[Tensor, "B L"]  # where they stand; behind them all is chosen
    whole: bool = False  # also where eos would be chosen before theirs: the sequence is as long as they are

    def every(self, step: int) -> "Given":
        """Those of every so many-th row."""
        return Given(self.tokens[::step], self.kept[::step], self.whole)

    def put(self, chosen: Int[Tensor, " N"], rows: Int[Tensor, " N"], t: int, eos: int) -> Int[Tensor, " N"]:
        """What stands at place t of some rows."""
        if t >= self.tokens.shape[1]:
            return chosen
        mine, kept = self.tokens[rows, t], self.kept[rows, t]
        return torch.where(kept | (chosen == eos) if self.whole else kept, mine, chosen)


@torch.no_grad()
def sample(
    policy: Policy[M, S],
    memory: M,
    bound: int | Int[Tensor, " B"],
    uniform: Float[Tensor, "B longest"],
    dropout: Dropout | None = None,
    temperature: float = 1.0,
    given: Given | None = None,
) -> Int[Tensor, "B T"]:
    """One sequence a sentence from the model's own distribution, as long as the longest of them.

    `uniform` has a number in [0, 1) for each word that may be drawn. Words that are `given` are not.
    """
    require(temperature > 0, f"temperature = {temperature}: choose a positive number, or search greedily")

    def choose(logits: Tensor, rows: Tensor, t: int) -> Tensor:
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        weights = torch.softmax(logits if temperature == 1 else logits / temperature, -1)
        return draw(weights, uniform[rows, t])

    return _generate(policy, memory, bound, choose, dropout, given)


@torch.no_grad()
def greedy(
    policy: Policy[M, S],
    memory: M,
    bound: int | Int[Tensor, " B"],
    dropout: Dropout | None = None,
    given: Given | None = None,
) -> Int[Tensor, "B T"]:
    """The most probable word at every step, but for those that are `given`."""
    return _generate(policy, memory, bound, lambda logits, _rows, _t: logits.argmax(-1), dropout, given)


def _generate(
    policy: Policy[M, S],
    memory: M,
    bound: int | Int[Tensor, " B"],
    choose: Callable[[Tensor, Tensor, int], Tensor],
    dropout: Dropout | None,
    given: Given | None,
) -> Int[Tensor, "B T"]:
    """Word by word; sentences that have ended leave the batch."""
    limit, _, longest = limits(bound, memory.rows, device_of(policy))
    eos, actions = policy.alphabet.eos, policy.alphabet.actions
    rows = torch.arange(len(limit), device=limit.device)  # sentences that are still in the batch
    tokens = torch.full((len(limit), longest), eos, device=limit.device)
    state, token, going = policy.start(memory), None, torch.ones_like(rows, dtype=torch.bool)
    written = Readout(len(rows))
    for t in range(longest - 1):
        scores, state = policy.step(memory, state, token, None if dropout is None else dropout.at(rows, t))
        going = going & (t < limit[rows] - 1)
        token = choose(only_actions(written(scores), actions), rows, t)
        token = (token if given is None else given.put(token, rows, t, eos)).masked_fill(~going, eos)
        tokens[rows, t] = token
        going = going & (token != eos)
        left = int(going.sum())
        if left == 0:
            return tokens[:, : t + 1]
        if left <= CROWD * len(rows):
            keep = going.nonzero().squeeze(1)
            memory, state = memory.select(keep), state.select(keep)
            rows, token, going = rows[keep], token[keep], going[keep]
    return tokens


def limits(bound: int | Int[Tensor, " B"], rows: int, device: torch.device) -> tuple[Int[Tensor, " B"], int, int]:
    """The bound of every sentence, the least and the greatest."""
    limit = torch.as_tensor(bound, device=device).expand(rows)
    shortest, longest = (bound, bound) if isinstance(bound, int) else (int(limit.min()), int(limit.max()))
    require(shortest >= 1, f"bound = {shortest}: eos counts, so the least is 1")
    return limit, shortest, longest


def device_of(policy: nn.Module) -> torch.device:
    """Where a policy's weights are; one without any is on the CPU."""
    first = next(policy.parameters(), None)
    return torch.device("cpu") if first is None else first.device
