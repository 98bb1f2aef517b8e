"""What was a token worth? Every number behind the credit page, as plain records.

Along a hypothesis a run's actor gives probabilities and a critic gives Q; the pay-off gives the rewards. An exact Q* is
there where an oracle knows the pay-off: edit distance and Hamming, one reference, not too long.
"""

import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from seqcredit.algorithms import Phase
from seqcredit.algorithms.exact import plain_edit
from seqcredit.credit.oracle import EditOracle, HammingOracle
from seqcredit.credit.values import (
    at_bound,
    chosen,
    entropy,
    expected_value,
    one_step_targets,
    returns_to_go,
    soft_policy,
    soft_value,
    token_rewards,
)
from seqcredit.data.batches import collate, from_sentences, to_device
from seqcredit.data.prepared import Prepared, Split
from seqcredit.errors import UserError
from seqcredit.experiments.build import build_reward, load_actor, load_critic
from seqcredit.experiments.runs import Run
from seqcredit.models.policy import Network
from seqcredit.results.evaluate import final_search, hypotheses_file, read_hypotheses
from seqcredit.rewards.metrics import sentence_bleu
from seqcredit.rewards.payoff import Payoff
from seqcredit.training.decoding import Search, translate
from seqcredit.types import EOS, Batch, Reward, lengths, pad, pad_references

TOP = 5  # words that are listed for a state
LONGEST_EXACT = 8  # words of a reference that an oracle is asked about: its table grows with 3 ** words
ENTRIES = 20_000_000  # of a (B, T, V) tensor at a time
BINS = 10


class Choice(NamedTuple):
    """A word that could have stood here, its probability, and Q where there is one."""

    word: str
    p: float
    q: float | None


@dataclass(frozen=True)
class Credit:
    """One hypothesis, a number for each token, eos included. None is what cannot be known."""

    text: str  # as it is read: without eos, pieces of words joined
    words: list[str]
    logp: list[float]
    entropy: list[float]
    policy: list[list[Choice]]  # the likeliest words of each state
    scores: list[float] | None = None  # R of the first 0, 1, ... tokens: these need a reference
    rewards: list[float] | None = None
    returns: list[float] | None = None  # what really followed, tau times the later entropy included
    bleu: float | None = None  # of the sentence, in percent
    q: list[float] | None = None  # these need a critic too
    value: list[float] | None = None
    advantage: list[float] | None = None
    td: list[float] | None = None
    target: list[list[Choice]] | None = None  # the best words by Q, with P_Q
    oracle: list[list[Choice]] | None = None  # the best words by Q*, with its soft policy


class Subject(NamedTuple):
    """A source, its references, and what each run makes of it."""

    source: str
    references: list[str]
    credits: list[Credit]


@dataclass(frozen=True)
class Examiner:
    """A run's actor, the critic that judges it, and the pay-off of both."""

    name: str
    actor: Network
    search: Search
    reward: Reward
    payoff: Payoff
    phase: Phase | None  # what the critic was trained by; without a critic, who gives tau
    critic: Network | None
    critic_name: str | None

    @property
    def device(self) -> torch.device:
        """Where the actor is."""
        return next(self.actor.parameters()).device

    @property
    def tau(self) -> float:
        """The temperature; 0 where nothing tells."""
        return (self.phase.judged_tau if self.phase else None) or 0.0

    @property
    def later_tau(self) -> float:
        """What the entropy of later states counts for."""
        return self.phase.later_tau if self.phase else 0.0

    @property
    def soft(self) -> bool:
        """Whether the critic looks ahead by the soft value, as soft Q-learning does."""
        return self.phase is not None and self.phase.soft


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


# --- who judges ------------------------------------------------------------------------------------------------------


def load_examiners(
    runs: Sequence[Run], prepared: Prepared, lender: Run | None = None, device: torch.device | str = "cpu"
) -> list[Examiner]:
    """The networks of each run; a run without a critic takes the lender's."""
    for run in (*runs, *([lender] if lender else [])):
        check_vocabularies(run, prepared)
    if lender and _critic_phase(lender) is None:
        raise UserError(f"{lender.folder} has no critic to lend: give --critic a run that has trained one.")
    return [_load(run, name, prepared, lender, device) for run, name in zip(runs, distinct_names(runs), strict=True)]


def check_vocabularies(run: Run, prepared: Prepared) -> None:
    """Networks that are shown together speak of the same words."""
    for side, known in run.about.get("vocabularies", {}).items():
        if prepared.checksums[side] != known:
            raise UserError(
                f"{run.folder} was trained with another {side} vocabulary than that of {prepared.folder}: give runs "
                "that were trained on the same data."
            )


def distinct_names(runs: Sequence[Run]) -> list[str]:
    """The recipes' names; with the folder's where two are the same."""
    names = [run.recipe.name for run in runs]
    return [f"{n} ({r.folder.name})" if names.count(n) > 1 else n for n, r in zip(names, runs, strict=True)]


def _load(run: Run, name: str, prepared: Prepared, lender: Run | None, device: torch.device | str) -> Examiner:
    if not any(key.startswith("actor.") for key in run.weights()):
        raise UserError(f"{run.folder} has no actor: give it to --critic, and here a run that has learned to predict.")
    own = _critic_phase(run)
    judged = run if own or lender is None else lender
    phase = own or (None if lender is None else _critic_phase(lender))
    critic = None if phase is None else load_critic(judged, prepared, device, phase[1])
    payoff = judged.recipe.payoff
    return Examiner(
        name,
        load_actor(run, prepared, device),
        final_search(run.recipe),
        build_reward(judged.recipe, prepared, judged.folder),
        payoff,
        phase[0] if phase else _tempered_phase(run),
        critic,
        judged.recipe.name if critic else None,
    )


def _critic_phase(run: Run) -> tuple[Phase, str] | None:
    """The phase that trained the critic, and the last one that has its weights."""
    done = run.phases_done()
    holders = [name for name in reversed(done) if any(key.startswith("critic.") for key in run.weights(name))]
    trained = [p for p in run.recipe.phase if p.name in done and "critic" in p.trains]
    return (trained[-1], holders[0]) if holders and trained else None


def _tempered_phase(run: Run) -> Phase | None:
    """The last phase with a temperature."""
    return next((p for p in reversed(run.recipe.phase) if p.judged_tau is not None), None)


# --- what is judged --------------------------------------------------------------------------------------------------


def inspect_split(
    runs: Sequence[Run], examiners: Sequence[Examiner], prepared: Prepared, split: Split, count: int | None = None
) -> list[Subject]:
    """The first sentences, or pictures, of a split."""
    if count is not None and count < 1:
        raise UserError(f"--count {count}: show at least one.")
    size = len(split) if count is None else min(count, len(split))
    return inspect_rows(runs, examiners, prepared, split, range(size))


def inspect_rows(
    runs: Sequence[Run], examiners: Sequence[Examiner], prepared: Prepared, split: Split, rows: Sequence[int]
) -> list[Subject]:
    """Sentences, or pictures, of a split, with the hypotheses that each run has written, or writes now."""
    known = [_written(run, split) for run in runs]
    sources = [" ".join(words) for words in itertools.islice(split.source_texts(), max(rows, default=-1) + 1)]
    references = {row: split.reference_text(row) for row in rows}
    judged: list[list[Credit]] = []
    for part in _chunks(rows, len(prepared.target_vocabulary), known):
        batch = to_device(collate(split, np.asarray(split.groups[:-1])[part]), examiners[0].device)
        texts = [references[row] for row in part]
        found = []
        for examiner, written in zip(examiners, known, strict=True):
            hypotheses = (
                translate(examiner.actor, prepared, batch.source, examiner.search)
                if written is None
                else [written[row] for row in part]
            )
            found.append(judge_words(examiner, prepared, batch, hypotheses, texts))
        judged += [list(one) for one in zip(*found, strict=True)]
    return [
        Subject(sources[row], [" ".join(words) for words in references[row]], each)
        for row, each in zip(rows, judged, strict=True)
    ]


def inspect_one(run: Run, prepared: Prepared, name: str, number: int, lender: Run | None = None) -> Subject:
    """One sentence of a split, counted from 1, with everything that a critic says of it."""
    split = prepared.split(name)
    if not 1 <= number <= len(split):
        raise UserError(f"There is no sentence {number} in {name}: it has 1 to {len(split):,}.")
    examiners = load_examiners([run], prepared, lender)
    if examiners[0].critic is None:
        raise UserError(f"{run.folder} has no trained critic: give --critic RUN, a run of AC, ERAC or VAML.")
    return inspect_rows([run], examiners, prepared, split, [number - 1])[0]


def inspect_typed(examiners: Sequence[Examiner], prepared: Prepared, source: str, references: Sequence[str]) -> Subject:
    """A sentence of the user's own; without references only probabilities and entropies can be told."""
    batch, texts = typed_batch(examiners[0], prepared, source, references)
    judged = []
    for examiner in examiners:
        hypotheses = translate(examiner.actor, prepared, batch.source, examiner.search)
        judged += judge_words(examiner, prepared, batch, hypotheses, [texts])
    return Subject(source, list(references), judged)


def typed_batch(
    examiner: Examiner, prepared: Prepared, source: str, references: Sequence[str]
) -> tuple[Batch, list[list[str]]]:
    """A batch of one sentence, cut as the corpus was, and the references in words."""
    if prepared.pictures:
        raise UserError(f"{prepared.folder} holds pictures, not sentences: leave out --source.")
    batch = from_sentences([prepared.cut(source)], prepared.source_vocabulary)
    ids, texts = reference_ids(prepared, references)
    return to_device(Batch(batch.source, ids), examiner.device), texts


def reference_ids(prepared: Prepared, references: Sequence[str]) -> tuple[Int[Tensor, "1 R L"], list[list[str]]]:
    """References of one sentence as ids and in words."""
    texts = [prepared.reference_words(text) for text in references]
    return pad_references([[prepared.target_ids(words) for words in texts]]), texts


def judge_words(
    examiner: Examiner,
    prepared: Prepared,
    batch: Batch,
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[Sequence[Sequence[str]]],
) -> list[Credit]:
    """Credit of hypotheses in words; `references` are those of the batch, in words."""
    tokens = pad([prepared.target_ids(list(words)) for words in hypotheses]).to(batch.source.device)
    pairs = zip(hypotheses, references, strict=True)
    bleus = [sentence_bleu(words, group) if group else None for words, group in pairs]
    texts = [" ".join(words) for words in hypotheses]
    return judge_tokens(examiner, prepared.target_vocabulary.words, batch, tokens, texts, bleus)


def _written(run: Run, split: Split) -> list[list[str]] | None:
    """The hypotheses of a run, if it has any."""
    if not hypotheses_file(run, split.name).exists():
        return None
    found = read_hypotheses(run, split.name)
    if len(found) != len(split):
        raise UserError(
            f"{hypotheses_file(run, split.name)} has {len(found)} lines and {split.name} has {len(split)} examples: "
            f"run `seqcredit evaluate {run.folder} --split {split.name}` again."
        )
    return found


def _chunks(rows: Sequence[int], actions: int, known: Sequence[list[list[str]] | None]) -> Iterator[list[int]]:
    """Rows that fit into memory together."""
    longest = max([40, *(len(words) for written in known for words in written or [])])
    step = max(1, min(64, ENTRIES // (actions * longest)))
    return (list(rows[start : start + step]) for start in range(0, len(rows), step))


# --- the numbers -----------------------------------------------------------------------------------------------------


@torch.no_grad()
def judge_tokens(
    examiner: Examiner,
    words: Sequence[str],
    batch: Batch,
    tokens: Int[Tensor, "B T"],
    texts: Sequence[str],
    bleus: Sequence[float | None],
) -> list[Credit]:
    """Credit of hypotheses in ids, eos included. At the length bound only eos is possible."""
    forced = at_bound(tokens, max(examiner.search.bound, tokens.shape[1]))
    logits = examiner.actor.score(examiner.actor.encode(batch.source), tokens).table()
    logp = _only_eos(torch.log_softmax(logits, -1), forced)
    uncertainty = entropy(logp)
    columns: dict[str, Tensor] = {"logp": chosen(logp, tokens), "entropy": uncertainty}
    lists: dict[str, list[Any]] = {}
    scores = q = None
    if batch.references.shape[1]:
        scores = examiner.reward.prefix_scores(tokens, batch.references)
        rewards = token_rewards(scores)
        columns |= {"rewards": rewards, "returns": returns_to_go(rewards, uncertainty, tokens, examiner.later_tau)}
        if examiner.critic is not None:
            memory = examiner.critic.encode(batch.references)
            q = examiner.critic.score(memory, tokens).table()
            columns |= _judged(examiner, q, logp, rewards, tokens, forced)
            lists["target"] = _best(q, examiner.tau, forced, words)
        lists["oracle"] = [
            None if exact is None else _best(exact, examiner.tau, stuck, words)
            for exact, stuck in _exact(examiner, batch.references, tokens)
        ]
    lists["policy"] = _likeliest(logp, q, words)
    said = [{"text": text, "bleu": bleu} for text, bleu in zip(texts, bleus, strict=True)]
    return _records(words, tokens, columns, lists, said, scores)


def _judged(
    examiner: Examiner, q: Tensor, logp: Tensor, rewards: Tensor, tokens: Tensor, forced: Tensor
) -> dict[str, Tensor]:
    """Q, V, the advantage and the TD error of every token."""
    taken, tau = chosen(q, tokens), examiner.tau
    value = expected_value(q, logp, tau, forced)
    ahead = soft_value(q, tau, forced) if examiner.soft else expected_value(q, logp, examiner.later_tau, forced)
    advantage = taken - value - (tau * chosen(logp, tokens) if tau else 0)
    return {
        "q": taken,
        "value": value,
        "advantage": advantage,
        "td": one_step_targets(rewards, ahead, tokens) - taken,
    }


def _only_eos(logp: Float[Tensor, "B T V"], forced: Tensor) -> Float[Tensor, "B T V"]:
    """Log-probabilities in which eos is certain at the length bound."""
    certain = torch.full_like(logp[0, 0], -torch.inf)
    certain[EOS] = 0
    return torch.where(forced.unsqueeze(-1), certain, logp)


def _likeliest(logp: Float[Tensor, "B T V"], q: Tensor | None, words: Sequence[str]) -> list[list[list[Choice]]]:
    """The words of the highest probability, with their Q."""
    best = logp.topk(min(TOP, logp.shape[-1]))
    return _choices(
        best.indices, best.values, best.values.exp(), None if q is None else q.gather(-1, best.indices), words
    )


def _best(q: Float[Tensor, "*B T V"], tau: float, forced: Tensor, words: Sequence[str]) -> list[Any]:
    """The words of the highest Q, with the probability that the soft policy gives them."""
    allowed = q.clone()
    allowed[..., EOS + 1 :].masked_fill_(forced.unsqueeze(-1), -torch.inf)
    best = allowed.topk(min(TOP, q.shape[-1]))
    policy = soft_policy(q, tau, forced).gather(-1, best.indices)
    return _choices(best.indices, best.values, policy, best.values, words)


def _choices(indices: Tensor, ranks: Tensor, p: Tensor, q: Tensor | None, words: Sequence[str]) -> list[Any]:
    """Nested lists of the shape of `indices`; words that are impossible, of rank -inf, are left out."""
    return _nested(indices.tolist(), ranks.tolist(), p.tolist(), None if q is None else q.tolist(), words)


def _nested(indices: list[Any], ranks: list[Any], p: list[Any], q: list[Any] | None, words: Sequence[str]) -> list[Any]:
    rows = zip(indices, ranks, p, [None] * len(p) if q is None else q, strict=True)
    if indices and isinstance(indices[0], list):
        return [_nested(*row, words) for row in rows]
    return [Choice(words[i], share, value) for i, rank, share, value in rows if rank > -math.inf]


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
    return (plain_edit(payoff) or plain_hamming) and examiner.phase is not None


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
    lists: dict[str, list[Any]],
    said: Sequence[dict[str, Any]],
    scores: Tensor | None,
) -> list[Credit]:
    """Rows of the tensors without padding, as records."""
    numbers = {name: column.tolist() for name, column in columns.items()}
    records = []
    for b, row in enumerate(tokens.tolist()):
        end = row.index(EOS) + 1
        mine: dict[str, Any] = {name: column[b][:end] for name, column in numbers.items()}
        mine |= {name: None if column[b] is None else column[b][:end] for name, column in lists.items()}
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
