"""Credit error: a learned Q against the exact one, on the short sentences of a split.

A judge is made once and asked as often as one likes. Its draws are its own and always the same: whoever asks it while a
network learns changes nothing of what is learned.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from seqcredit import config
from seqcredit.credit.oracle import CreditError, EditOracle, absolute_error, estimate_q, target_kl
from seqcredit.credit.oracle.rollouts import Estimate
from seqcredit.credit.proposals import replace_ngrams
from seqcredit.credit.values import at_bound
from seqcredit.data.batches import collate, to_device
from seqcredit.data.prepared import Prepared
from seqcredit.draws import Noise
from seqcredit.errors import UserError
from seqcredit.training.build import build_reward
from seqcredit.types import Batch, lengths

PROPOSED = 4  # sequences for each sentence, the reference included
SHORT = 8  # words of a reference whose edit table is solved
SHORT_ROLLOUT = 30  # words of a reference that rollouts are compared with


@runtime_checkable
class Judge(Protocol):
    """Knows the exact Q of some sentences."""

    def figures(self, models: Mapping[str, Any]) -> dict[str, float]:
        """How far the critic is from it."""
        ...


def judge_of(
    phase: config.Phase, payoff: config.Payoff, prepared: Prepared, device: torch.device | str = "cpu"
) -> Judge | None:
    """The judge that a phase asks for, on its validation sentences."""
    if isinstance(phase, config.SoftQ) and phase.exact:
        return EditJudge(payoff, phase, prepared, "valid", phase.exact, device=device)
    if isinstance(phase, config.Critic) and phase.exact:
        return RolloutJudge(payoff, phase, prepared, "valid", phase.exact, device=device)
    return None


class EditJudge:
    """Q* of the edit distance, along references and n-gram replacements of short sentences."""

    name = "exact Q*, edit distance"

    def __init__(
        self,
        payoff: config.Payoff,
        phase: config.SoftQ,
        prepared: Prepared,
        split: str,
        sentences: int,
        longest: int = SHORT,
        device: torch.device | str = "cpu",
    ) -> None:
        if not config.plain_edit(payoff):
            raise UserError("The exact oracle knows the plain edit distance, not scaled down; this pay-off is another.")
        batch = short(prepared, split, sentences, min(longest, phase.bound - 1))
        if batch.references.shape[1] > 1 and payoff.references == "all":
            raise UserError(
                f"The exact oracle knows one reference, and {prepared.folder} has several: set references to 'own' in "
                "[payoff]."
            )
        actions, own = len(prepared.target_vocabulary), batch.references[:, 0]
        self.tau, self.bound, self.device = phase.tau, phase.bound, device
        self.references = batch.references
        self.tokens = replace_ngrams(own, PROPOSED, actions, Noise(torch.Generator().manual_seed(0), len(own))).tokens
        self.oracles = [
            EditOracle.solve(row[: int(lengths(row))], actions, self.bound, self.tau, unk_matches=payoff.unk_matches)
            for row in own
        ]

    def figures(self, models: Mapping[str, Any]) -> dict[str, float]:
        """For the log."""
        absolute, kl = self.error(models["critic"])
        return {"credit_error": round(absolute, 4), "credit_kl": round(kl, 4)}

    @property
    def states(self) -> int:
        """How many states the error is a mean over."""
        return int((lengths(self.tokens) + 1).sum())

    @torch.no_grad()
    def error(self, critic: Any) -> CreditError:
        """Of a critic, sentence by sentence: no more than one sentence's Q of all words is ever written down."""
        absolute = kl = 0.0
        forced = at_bound(self.tokens[0], self.bound)
        with evaluating(critic):
            for oracle, reference, tokens in zip(self.oracles, self.references, self.tokens, strict=True):
                memory = critic.encode(reference.expand(len(tokens), *reference.shape).to(self.device))
                q = critic.readout(critic.features(memory, tokens.to(self.device))).double().cpu()
                exact = oracle.along(tokens)
                absolute += float(absolute_error(q, exact, tokens, forced).sum())
                kl += float(target_kl(q, exact, tokens, self.tau, forced).sum())
        return CreditError(absolute / self.states, kl / self.states)


class RolloutJudge:
    """Q^pi of an actor for its likeliest first words, by rollouts."""

    def __init__(
        self,
        payoff: config.Payoff,
        phase: config.Critic,
        prepared: Prepared,
        split: str,
        sentences: int,
        words: int = 4,
        rollouts: int = 48,
        device: torch.device | str = "cpu",
    ) -> None:
        self.phase, self.words, self.rollouts, self.device = phase, words, rollouts, device
        self.batch = to_device(short(prepared, split, sentences, SHORT_ROLLOUT), device)
        self.reward = build_reward(payoff, prepared, payoff.scaled)
        self.rows = torch.arange(len(self.batch.source), device=device).repeat_interleave(words)
        self._known: tuple[Tensor, Estimate] | None = None

    def figures(self, models: Mapping[str, Any]) -> dict[str, float]:
        """For the log; an actor that learns too is followed again each time."""
        again = isinstance(self.phase, config.ActorCritic)
        return {"credit_error": round(self.error(models["actor"], models["critic"], again), 4)}

    @property
    def states(self) -> int:
        """How many words the error is a mean over."""
        return len(self.rows)

    @property
    def name(self) -> str:
        """What it compares with, once it has."""
        wide = f" (+- {float(self._known[1].half_width.mean()):.2f})" if self._known else ""
        return f"Q^pi of {self.words} words at the first position, {self.rollouts} rollouts{wide}"

    @torch.no_grad()
    def error(self, actor: Any, critic: Any, again: bool = True) -> float:
        """Of a critic of an actor; `again` = False if that actor has not changed since the last time."""
        if again or self._known is None:
            with evaluating(actor):
                self._known = self.estimate(actor)
        actions, estimate = self._known
        with evaluating(critic):
            seen = critic.encode(self.batch.references[self.rows])
            q = critic.readout(critic.step(seen, critic.start(seen), None)[0])
        return float((q.gather(1, actions.unsqueeze(1)).squeeze(1) - estimate.mean).abs().mean())

    @torch.no_grad()
    def estimate(self, actor: Any) -> tuple[Tensor, Estimate]:
        """The first words that are judged, and what follows them."""
        memory = actor.encode(self.batch.source)
        first, _ = actor.step(memory, actor.start(memory), None)
        actions, references = actor.readout(first).topk(self.words).indices.flatten(), self.batch.references[self.rows]
        bound = min(references.shape[-1] - 1 + self.phase.extra_length, self.phase.longest_sample)  # as in training
        return actions, estimate_q(
            _Continues(actor, self.batch.source[self.rows], self.rollouts),
            self.reward,
            references,
            torch.zeros(len(self.rows), 0, dtype=torch.long, device=self.device),
            actions,
            max(bound, 2),
            self.phase.tau if self.phase.future_entropy else 0.0,
            self.rollouts,
            torch.Generator().manual_seed(0),
        )


class _Continues:
    """The actor as a function from prefixes to the next token's log-probabilities; row i continues sentence i // n."""

    def __init__(self, actor: Any, source: Tensor, rollouts: int) -> None:
        self.actor = actor
        self.memory = actor.encode(source.repeat_interleave(rollouts, 0))

    def __call__(self, prefixes: Tensor) -> Tensor:
        tokens = nn.functional.pad(prefixes, (0, 1))
        logits = self.actor.readout(self.actor.features(self.memory, tokens)[:, -1])
        return torch.log_softmax(logits, -1)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout; afterwards as before."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def short(prepared: Prepared, split: str, sentences: int, longest: int) -> Batch:
    """The first sentences of a split whose reference has at most `longest` words."""
    part = prepared.split(split)
    pairs = part.groups[:-1]
    chosen = pairs[part.reference_lengths[pairs] <= longest][:sentences]
    if not len(chosen):
        raise UserError(
            f"No reference of {split} in {prepared.folder} has {longest} words or fewer, so no credit error can be "
            "measured: set exact to 0."
        )
    return collate(part, chosen)
