"""The exact solution of the edit-distance reward, R = -distance, at a real vocabulary.

What a prefix is still worth depends only on its row of the edit table, up to a constant. Neighbours in a row differ by
-1, 0 or 1, so a row is a number in base 3; the rows that can be reached are far fewer than prefixes, and all words that
the reference lacks lead to the same row: they are one group, with one Q. Dynamic programming over (words so far, row)
is exact.

Temperature: a word too many costs 1 and there are some V of them, so one more junk word weighs V exp(-1 / tau). Above
tau = 1 / log V that is more than 1: P_R is then noise as long as T allows, and V* grows with T - t without bound. Below
it the tail is geometric, and Q* hardly depends on T once T exceeds the reference by a few words. Oracle and learner
must share T in either case. `junk_mass` replaces the number of junk words by a total weight of the user's choice, a
base measure: P_R(y) is then proportional to exp(R(y) / tau) times junk_mass / (number of junk words) for every junk
word in y.
"""

import math
import warnings
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from seqcredit.credit.oracle.completions import row_after
from seqcredit.draws import draw, uniform
from seqcredit.errors import require
from seqcredit.types import EOS, UNK, token_mask


@dataclass(frozen=True)
class EditOracle:
    """Exact Q*, V* and P_R against one reference, in float64. Make it with `solve`.

    Groups of actions: 0 is eos, 1 .. U the distinct words of the reference, U + 1 all others.
    """

    actions: int
    bound: int
    tau: float
    group: Int[Tensor, " V"]  # of each action
    log_mass: Float[Tensor, " G"]  # log of the total weight of each group
    next_state: Int[Tensor, "S G"]
    reward: Float[Tensor, "S G"]
    value: Float[Tensor, "T S"]  # V* of each row after 0, 1, ..., T - 1 words
    start: int  # the row of the empty prefix

    @classmethod
    def solve(
        cls,
        reference: Int[Tensor, " L"],
        actions: int,
        bound: int,
        tau: float,
        junk_mass: float | None = None,
        unk_matches: bool = True,
        max_states: int = 400_000,
    ) -> "EditOracle":
        """Find the rows, then go back from the bound. `reference` is words, without eos."""
        if not unk_matches:
            reference = reference.masked_fill(reference == UNK, -1)  # equals no action
        words = reference[reference >= 0].unique()
        group = torch.full((actions,), len(words) + 1)
        group[EOS] = 0
        group[words] = torch.arange(1, len(words) + 1)
        log_mass = _log_mass(len(words), actions, junk_mass, tau)
        states = _reachable(reference, words, bound, max_states)
        rows, reward = _successors(_rows(states, len(reference)), reference, words)
        # A row first met at the bound has successors that are never needed: any index will do for them.
        next_state = torch.searchsorted(states, _codes(rows)).clamp(max=len(states) - 1)
        next_state = torch.nn.functional.pad(next_state, (1, 0))  # eos leads nowhere
        reward = torch.nn.functional.pad(reward, (1, 0))  # and gains nothing
        start = int(torch.searchsorted(states, _codes(_first_row(len(reference)))))
        value = torch.zeros(bound, len(reward), dtype=torch.float64)
        value[-1] = reward[:, 0]
        oracle, all_rows = cls(actions, bound, tau, group, log_mass, next_state, reward, value, start), slice(None)
        for t in range(bound - 2, -1, -1):
            q = oracle._q(t, all_rows)
            if tau > 0:
                value[t] = tau * (q / tau + log_mass).logsumexp(-1)
            else:
                value[t] = q.masked_fill(log_mass == -math.inf, -math.inf).amax(-1)
        return oracle

    def along(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Q* before each token of given sequences; at the bound Q(eos) stands for all."""
        state = self._states(tokens)
        grouped = torch.stack([self._q(t, state[:, t]) for t in range(tokens.shape[1])], 1)  # (B, T, G)
        return grouped[..., self.group]

    def base(self) -> Float[Tensor, " V"]:
        """log of each action's weight: 0 but for junk words under a `junk_mass`."""
        members = torch.bincount(self.group, minlength=len(self.log_mass))
        return (self.log_mass - members.double().log())[self.group]

    def log_payoff(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, " B"]:
        """log P_R of given sequences, for tau > 0. Eq. (raml_target)."""
        state, group = self._states(tokens), self.group[tokens]
        gained = self.reward[state, group] / self.tau + self.base()[tokens]
        return gained.masked_fill(~token_mask(tokens), 0).sum(1) - self.value[0, self.start] / self.tau

    def sample(self, count: int, generator: Generator) -> Int[Tensor, "n T"]:
        """Sequences drawn exactly from P_R: RAML without importance sampling."""
        junk = (self.group == len(self.log_mass) - 1).nonzero().squeeze(-1)
        members = self.group.argsort(stable=True)  # eos, then a word for each group of the reference, then junk
        tokens = torch.full((count, self.bound), EOS)
        state, going = torch.full((count,), self.start), torch.ones(count, dtype=torch.bool)
        for t in range(self.bound - 1):
            policy = _group_policy(self._q(t, state), self.log_mass, self.tau)
            drawn = draw(policy, uniform(policy, generator))
            token = members[drawn]
            if len(junk):
                random = junk[torch.randint(len(junk), (count,), generator=generator)]
                token = torch.where(drawn == len(self.log_mass) - 1, random, token)
            tokens[:, t] = torch.where(going, token, EOS)
            going = going & (drawn != 0)
            state = self.next_state[state, drawn]
        return tokens

    def _q(self, t: int, state: Int[Tensor, " B"] | slice) -> Float[Tensor, "B G"]:
        """Q* of every group after t words."""
        if t >= self.bound - 1:
            return self.reward[state, :1].expand(-1, len(self.log_mass))
        q = self.reward[state] + self.value[t + 1][self.next_state[state]]
        q[:, 0] = self.reward[state, 0]
        return q

    def _states(self, tokens: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
        """The row before each token."""
        state = torch.full_like(tokens, self.start)
        for t in range(1, tokens.shape[1]):
            group = self.group[tokens[:, t - 1]]
            state[:, t] = torch.where(group == 0, state[:, t - 1], self.next_state[state[:, t - 1], group])
        return state


def _log_mass(words: int, actions: int, junk_mass: float | None, tau: float) -> Float[Tensor, " G"]:
    """log weight of eos, of each reference word, and of all junk words together."""
    junk = actions - 1 - words
    mass = float(junk) if junk_mass is None or junk == 0 else junk_mass
    require(mass >= 0, f"junk_mass is a weight and cannot be {mass}; give 0 or more.")
    if tau > 0 and mass > 0 and math.log(mass) > 1 / tau:
        warnings.warn(
            f"At tau = {tau} the {junk:,} words that the reference lacks outweigh it (tau > 1/log({mass:,.6g}) = "
            f"{1 / math.log(mass):.3f}): the exact P_R is noise as long as the bound allows. Lower tau or junk_mass.",
            stacklevel=3,
        )
    log_mass = torch.zeros(words + 2, dtype=torch.float64)
    log_mass[-1] = math.log(mass) if mass > 0 else -math.inf
    return log_mass


def _first_row(length: int) -> Int[Tensor, "1 C"]:
    return torch.arange(length + 1).unsqueeze(0)


def _codes(rows: Int[Tensor, "*S C"]) -> Int[Tensor, "*S"]:
    """Each row as a number in base 3, made of the differences of its neighbours."""
    power = 3 ** torch.arange(rows.shape[-1] - 1)
    return ((rows.diff(dim=-1) + 1) * power).sum(-1)


def _rows(codes: Int[Tensor, " S"], length: int) -> Int[Tensor, "S C"]:
    """The rows of such numbers, each beginning with 0."""
    steps = codes.unsqueeze(-1) // 3 ** torch.arange(length) % 3 - 1
    return torch.cat([torch.zeros_like(codes).unsqueeze(-1), steps.cumsum(-1)], -1)


def _successors(
    rows: Int[Tensor, "S C"], reference: Int[Tensor, " L"], words: Int[Tensor, " U"]
) -> tuple[Int[Tensor, "S G C"], Float[Tensor, "S G"]]:
    """The rows after each reference word and after a junk word, and what R gains by it."""
    other = torch.cat([words, torch.tensor([-2])]).unsqueeze(-1) != reference  # (U + 1, L): does it cost a change?
    rows = rows.unsqueeze(1).expand(-1, len(other), -1)
    following = row_after(rows, other, torch.arange(rows.shape[-1]))
    return following, (rows[..., -1] - following[..., -1]).double()


def _reachable(
    reference: Int[Tensor, " L"], words: Int[Tensor, " U"], bound: int, max_states: int
) -> Int[Tensor, " S"]:
    """Codes of all rows within bound - 1 words, sorted."""
    known = frontier = _codes(_first_row(len(reference)))
    for _ in range(bound - 1):
        following, _ = _successors(_rows(frontier, len(reference)), reference, words)
        found = _codes(following).unique()
        frontier = found[~torch.isin(found, known)]
        if not len(frontier):
            break
        known = torch.cat([known, frontier]).sort().values
        size = f"A reference of {len(reference)} words needs more than {max_states:,} rows of the edit table"
        require(len(known) <= max_states, f"{size}; take a shorter reference or raise max_states.")
    return known


def _group_policy(q: Float[Tensor, "B G"], log_mass: Float[Tensor, " G"], tau: float) -> Float[Tensor, "B G"]:
    """Probability of each group: its weight times exp(Q / tau)."""
    if tau > 0:
        return (q / tau + log_mass).softmax(-1)
    best = q.masked_fill(log_mass == -math.inf, -math.inf)
    weights = (best == best.amax(-1, keepdim=True)) * log_mass.exp()
    return weights / weights.sum(-1, keepdim=True)
