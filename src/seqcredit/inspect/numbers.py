"""Every number behind the credit page, as plain records.

Along a hypothesis a run's actor gives probabilities and a critic gives Q; the pay-off gives the rewards. An exact Q* is
there where an oracle knows the pay-off: edit distance and Hamming, one reference, not too long.
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from seqcredit.algorithms.exact import plain_edit
from seqcredit.credit.oracle import EditOracle, HammingOracle
from seqcredit.credit.values import (
    at_bound,
    chosen,
    entropy,
    expected_value,
    one_step_targets,
    only_actions,
    returns_to_go,
    soft_policy,
    soft_value,
    token_rewards,
)
from seqcredit.inspect.examiners import Examiner
from seqcredit.rewards.payoff import Payoff
from seqcredit.rewards.scores import scored
from seqcredit.types import Alphabet, Batch, Json, lengths

TOP = 5  # words that are listed for a state
LONGEST_EXACT = 8  # words of a reference that an oracle is asked about: its table grows with 3 ** words
BINS = 10


class Choice(NamedTuple):
    """A word that could have stood here, its probability, and Q where there is one."""

    word: str
    p: float
    q: float | None


States = list[list[Choice]]  # for each state some words


@dataclass(frozen=True)
class Credit:
    """One hypothesis, a number for each token, eos included. None is what cannot be known."""

    text: str  # as it is read: without eos, pieces of words joined
    words: list[str]
    logp: list[float]
    entropy: list[float]
    policy: States  # the likeliest words of each state
    scores: list[float] | None = None  # R of the first 0, 1, ... tokens: these need a reference
    rewards: list[float] | None = None
    returns: list[float] | None = None  # what really followed, tau times the later entropy included
    bleu: float | None = None  # of the sentence, in percent
    q: list[float] | None = None  # these need a critic too
    value: list[float] | None = None
    advantage: list[float] | None = None
    td: list[float] | None = None
    target: States | None = None  # the best words by Q, with P_Q
    oracle: States | None = None  # the best words by Q*, with its soft policy


class Mean(NamedTuple):
    """The mean of some numbers, and how many there are."""

    value: float
    tokens: int


class Bin(NamedTuple):
    """States of like Q: what the critic said, and what followed."""

    q: float
    followed: float
    error: float  # standard error of `followed`
    tokens: int


class Summary(NamedTuple):
    """One run over all hypotheses."""

    calibration: list[Bin]
    entropy: list[Mean]  # by position
    rewards: list[Mean]


# --- the numbers -----------------------------------------------------------------------------------------------------


@torch.no_grad()
def judge_tokens(
    examiner: Examiner, batch: Batch, tokens: Int[Tensor, "B T"], texts: Sequence[str], bleus: Sequence[float | None]
) -> list[Credit]:
    """Credit of hypotheses in ids, eos included. At the length bound only eos is possible."""
    words = examiner.prepared.target_vocabulary.words
    forced = at_bound(tokens, max(examiner.search.bound, tokens.shape[1]))
    alphabet = examiner.actor.alphabet
    logits = examiner.actor.score(examiner.actor.encode(batch.source), tokens).table()
    logp = _only_eos(torch.log_softmax(only_actions(logits, alphabet.actions), -1), forced, alphabet.eos)
    uncertainty = entropy(logp)
    columns: dict[str, Tensor] = {"logp": chosen(logp, tokens), "entropy": uncertainty}
    lists: dict[str, Sequence[States | None]] = {}
    scores = q = None
    if batch.references.shape[1] or not examiner.run.recipe.critic.compares:
        scores = scored(examiner.reward, alphabet, tokens, batch)
        rewards = token_rewards(scores)
        later = rewards, uncertainty, tokens, examiner.later_tau
        columns |= {"rewards": rewards, "returns": returns_to_go(*later, alphabet.eos)}
        if examiner.critic is not None:
            q = examiner.critic.score(examiner.critic.read(batch), tokens).table()
            columns |= _judged(examiner, q, logp, rewards, tokens, forced)
            lists["target"] = _best(q, examiner.tau, forced, words, alphabet)
    if batch.references.shape[1]:
        lists["oracle"] = [
            None if exact is None else _best(exact[None], examiner.tau, stuck[None], words, alphabet)[0]
            for exact, stuck in _exact(examiner, batch.references, tokens)
        ]
    lists["policy"] = _likeliest(logp, q, words)
    said = [{"text": text, "bleu": bleu} for text, bleu in zip(texts, bleus, strict=True)]
    return _records(words, tokens, columns, lists, said, scores, alphabet.eos)


def _judged(
    examiner: Examiner, q: Tensor, logp: Tensor, rewards: Tensor, tokens: Tensor, forced: Tensor
) -> dict[str, Tensor]:
    """Q, V, the advantage and the TD error of every token."""
    taken, tau, (_, eos, _, actions) = chosen(q, tokens), examiner.tau, examiner.actor.alphabet
    value = expected_value(q, logp, tau, forced, eos)
    later = expected_value(q, logp, examiner.later_tau, forced, eos)
    ahead = soft_value(q, tau, forced, eos, actions) if examiner.soft else later
    advantage = taken - value - (tau * chosen(logp, tokens) if tau else 0)
    td = one_step_targets(rewards, ahead, tokens, eos) - taken
    return {"q": taken, "value": value, "advantage": advantage, "td": td}


def _only_eos(logp: Float[Tensor, "B T V"], forced: Tensor, eos: int) -> Float[Tensor, "B T V"]:
    """Log-probabilities in which eos is certain at the length bound."""
    certain = torch.full_like(logp[0, 0], -torch.inf)
    certain[eos] = 0
    return torch.where(forced.unsqueeze(-1), certain, logp)


def _likeliest(logp: Float[Tensor, "B T V"], q: Tensor | None, words: Sequence[str]) -> list[States]:
    """The words of the highest probability, with their Q."""
    best = logp.topk(min(TOP, logp.shape[-1]))
    taken = None if q is None else q.gather(-1, best.indices)
    return _choices(best.indices, best.values, best.values.exp(), taken, words)


def _best(
    q: Float[Tensor, "B T V"], tau: float, forced: Tensor, words: Sequence[str], alphabet: Alphabet
) -> list[States]:
    """The words of the highest Q, with the probability that the soft policy gives them."""
    eos, actions = alphabet.eos, alphabet.actions
    ends = torch.arange(q.shape[-1], device=q.device) == eos
    allowed = only_actions(q, actions).masked_fill(forced.unsqueeze(-1) & ~ends, -torch.inf)
    best = allowed.topk(min(TOP, q.shape[-1]))
    policy = soft_policy(q, tau, forced, eos, actions).gather(-1, best.indices)
    return _choices(best.indices, best.values, policy, best.values, words)


def _choices(
    indices: Int[Tensor, "B T N"], ranks: Tensor, p: Tensor, q: Tensor | None, words: Sequence[str]
) -> list[States]:
    """Words of each state; those that are impossible, of rank -inf, are left out."""

    def state(b: int, t: int) -> list[Choice]:
        values = [None] * indices.shape[-1] if q is None else q[b, t].tolist()
        row = zip(indices[b, t].tolist(), ranks[b, t].tolist(), p[b, t].tolist(), values, strict=True)
        return [Choice(words[i], share, value) for i, rank, share, value in row if rank > -math.inf]

    return [[state(b, t) for t in range(indices.shape[1])] for b in range(len(indices))]


def _exact(
    examiner: Examiner, references: Int[Tensor, "B R L"], tokens: Int[Tensor, "B T"]
) -> Iterator[tuple[Tensor | None, Tensor]]:
    """Q* along each hypothesis, where an oracle knows it, and the states at the oracle's bound."""
    for row, group in zip(tokens.cpu(), references.cpu(), strict=True):
        reference = tuple(group[0, : int(lengths(group[0]))].tolist())
        alone = examiner.payoff.references == "own" or int((group[:, 0] >= 0).sum()) == 1
        bound = max(len(row), examiner.phase.longest_for(len(reference)) if examiner.phase else 0)
        if not has_oracle(examiner) or not alone or len(reference) > LONGEST_EXACT:
            yield None, row
            continue
        oracle = _oracle(examiner.payoff, reference, examiner.actor.alphabet.size, bound, examiner.tau)
        yield oracle.along(row.unsqueeze(0))[0], at_bound(row, bound)


def has_oracle(examiner: Examiner) -> bool:
    """Whether some oracle knows the pay-off, and something gives the temperature."""
    payoff = examiner.payoff
    plain_hamming = payoff.metric == "hamming" and payoff.unk_matches and payoff.unfinished == "score"
    of_words = examiner.prepared.tokenizer is None
    return of_words and (plain_edit(payoff) or plain_hamming) and examiner.phase is not None


@lru_cache(maxsize=256)
def _oracle(
    payoff: Payoff, reference: tuple[int, ...], actions: int, bound: int, tau: float
) -> EditOracle | HammingOracle:
    ids = torch.tensor(reference, dtype=torch.long)
    if payoff.metric == "hamming":
        return HammingOracle(ids, actions, bound, tau)
    with warnings.catch_warnings():  # a tau above 1 / log V makes long noise likely; the page shows just that
        warnings.simplefilter("ignore")
        return EditOracle.solve(ids, actions, bound, tau, unk_matches=payoff.unk_matches)


def _records(
    words: Sequence[str],
    tokens: Int[Tensor, "B T"],
    columns: dict[str, Tensor],
    lists: dict[str, Sequence[States | None]],
    said: Sequence[Json],
    scores: Tensor | None,
    eos: int,
) -> list[Credit]:
    """Rows of the tensors without padding, as records."""
    numbers = {name: column.tolist() for name, column in columns.items()}
    records = []
    for b, row in enumerate(tokens.tolist()):
        end = row.index(eos) + 1
        mine: Json = {name: column[b][:end] for name, column in numbers.items()}
        mine |= {name: None if (states := column[b]) is None else states[:end] for name, column in lists.items()}
        if scores is not None:
            mine["scores"] = scores[b, : end + 1].tolist()
        records.append(Credit(words=[words[i] for i in row[:end]], **said[b], **mine))
    return records


# --- all of it together ----------------------------------------------------------------------------------------------


def summarise(hypotheses: Sequence[Credit]) -> Summary:
    """Calibration of Q, and entropy and reward by position."""
    q = np.array([x for credit in hypotheses for x in credit.q or []])
    followed = np.array([x for credit in hypotheses if credit.q for x in credit.returns or []])
    return Summary(
        _bins(q, followed),
        _by_position([credit.entropy for credit in hypotheses]),
        _by_position([credit.rewards for credit in hypotheses if credit.rewards is not None]),
    )


def _bins(q: NDArray[np.float64], followed: NDArray[np.float64]) -> list[Bin]:
    """Equally many states in each, by their Q."""
    if not len(q):
        return []
    order = np.argsort(q, kind="stable")
    found = []
    for part in np.array_split(order, min(BINS, len(order))):
        spread = float(followed[part].std(ddof=1) / len(part) ** 0.5) if len(part) > 1 else 0.0
        found.append(Bin(float(q[part].mean()), float(followed[part].mean()), spread, len(part)))
    return found


def _by_position(rows: Sequence[Sequence[float]]) -> list[Mean]:
    longest = max(map(len, rows), default=0)
    columns = ([row[t] for row in rows if len(row) > t] for t in range(longest))
    return [Mean(sum(column) / len(column), len(column)) for column in columns]
