"""Credit error: a learned Q against the exact one, on some short sentences.

A judge is made once and asked as often as one likes. Its draws are its own and always the same: whoever asks it while a
network learns changes nothing of what is learned.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seqcredit.algorithms.phase import Examples, Models
from seqcredit.credit.oracle import CreditError, EditOracle, absolute_error, estimate_q, target_kl
from seqcredit.credit.oracle.rollouts import Estimate
from seqcredit.credit.proposals import replace_ngrams
from seqcredit.credit.values import at_bound, only_actions
from seqcredit.draws import Noise
from seqcredit.errors import UserError
from seqcredit.models.policy import M, Network, Policy, S, read
from seqcredit.rewards import EditDistance, OwnReference
from seqcredit.rewards.payoff import Payoff
from seqcredit.search.sample import device_of
from seqcredit.types import Alphabet, Batch, Reward, lengths

PROPOSED = 4  # sequences for each sentence, the reference included
SHORT = 8  # words of a reference whose edit table is solved
SHORT_ROLLOUT = 30  # words of a reference that rollouts are compared with


def plain_edit(payoff: Payoff) -> bool:
    """Whether the pay-off is the one whose exact Q is known at a real vocabulary."""
    return (payoff.metric, payoff.unfinished, payoff.scaled) == ("edit", "score", True)


class EditJudge:
    """Q* of the edit distance, along references and n-gram replacements of short sentences."""

    name = "exact Q*, edit distance"

    def __init__(self, examples: Examples, tau: float, bound: int, sentences: int, longest: int = SHORT) -> None:
        own = isinstance(examples.reward, OwnReference)
        reward = examples.reward.reward if isinstance(examples.reward, OwnReference) else examples.reward
        if not isinstance(reward, EditDistance) or reward.by_length:
            raise UserError("The exact oracle knows the plain edit distance, not scaled down; this pay-off is another.")
        self.tau, self.bound, self.alphabet = tau, bound, examples.alphabet
        self.references = examples.short(sentences, min(longest, bound - 1)).references
        if self.references.shape[1] > 1 and not own:
            raise UserError(
                "The exact oracle knows one reference, and these data have several: set references to 'own' in "
                "[payoff]."
            )
        first = self.references[:, 0]
        noise = Noise(torch.Generator().manual_seed(0), len(first))
        self.tokens = replace_ngrams(first, PROPOSED, self.alphabet, noise).tokens
        self.oracles = [
            EditOracle.solve(row[: int(lengths(row))], self.alphabet.size, bound, tau, unk_matches=reward.unk_matches)
            for row in first
        ]

    def figures(self, models: Models) -> dict[str, float]:
        """For the log."""
        absolute, kl = self.error(models.judge)
        return {"credit_error": round(absolute, 4), "credit_kl": round(kl, 4)}

    @property
    def states(self) -> int:
        """How many states the error is a mean over."""
        return int((lengths(self.tokens) + 1).sum())

    @torch.no_grad()
    def error(self, critic: Network) -> CreditError:
        """Of a critic, sentence by sentence: no more than one sentence's Q of all words is ever written down."""
        absolute, kl, device = 0.0, 0.0, device_of(critic)
        forced = at_bound(self.tokens[0], self.bound)
        with evaluating(critic):
            for oracle, reference, tokens in zip(self.oracles, self.references, self.tokens, strict=True):
                memory = critic.encode(reference.expand(len(tokens), *reference.shape).to(device))
                q = critic.score(memory, tokens.to(device)).table().double().cpu()
                exact = oracle.along(tokens)
                absolute += float(absolute_error(q, exact, tokens, forced).sum())
                kl += float(target_kl(q, exact, tokens, self.tau, forced).sum())
        return CreditError(absolute / self.states, kl / self.states)


class RolloutJudge:
    """Q^pi of an actor for its likeliest first words, by rollouts."""

    def __init__(
        self,
        examples: Examples,
        longest_for: Callable[[int], int],
        tau: float,
        sentences: int,
        words: int = 4,
        rollouts: int = 48,
        again: bool = True,
    ) -> None:
        self.longest_for, self.tau, self.again = longest_for, tau, again
        self.words, self.rollouts = words, rollouts
        self.batch = examples.short(sentences, SHORT_ROLLOUT)
        self.reward = _InWords(examples.reward, examples.alphabet)
        self.rows = torch.arange(len(self.batch.source)).repeat_interleave(words)
        self._known: tuple[Tensor, Estimate] | None = None

    def figures(self, models: Models) -> dict[str, float]:
        """For the log; an actor that learns too is followed again each time."""
        return {"credit_error": round(self.error(models.actor, models.judge, self.again), 4)}

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
    def error(self, actor: Network, critic: Network, again: bool = True) -> float:
        """Of a critic of an actor; `again` = False if that actor has not changed since the last time."""
        if again or self._known is None:
            with evaluating(actor):
                self._known = self.estimate(actor)
        actions, estimate = self._known
        with evaluating(critic):
            seen = read(critic, self._repeated(device_of(critic)))
            q = critic.step(seen, critic.start(seen), None)[0].table()
        return float((q.gather(1, actions.unsqueeze(1)).squeeze(1) - estimate.mean).abs().mean())

    @torch.no_grad()
    def estimate(self, actor: Network) -> tuple[Tensor, Estimate]:
        """The first words that are judged, and what follows them."""
        device = device_of(actor)
        several = self._repeated(device)
        memory = read(actor, Batch(self.batch.source.to(device), self.batch.references.to(device)))
        first = only_actions(actor.step(memory, actor.start(memory), None)[0].table(), actor.alphabet.actions)
        actions, references = first.topk(self.words).indices.flatten(), several.references
        return actions, estimate_q(
            _Continues(actor, several.repeated(self.rollouts)),
            self.reward,
            references,
            torch.zeros(len(references), 0, dtype=torch.long, device=device),
            actions,
            max(self.longest_for(references.shape[-1] - 1), 2),
            self.tau,
            self.rollouts,
            torch.Generator().manual_seed(0),
            eos=actor.alphabet.eos,
        )

    def _repeated(self, device: torch.device) -> Batch:
        """A row for each word that is judged."""
        source, references = self.batch
        return Batch(source[self.rows].to(device), references[self.rows].to(device))


class _InWords:
    """A reward of sequences in a model's alphabet."""

    def __init__(self, reward: Reward, alphabet: Alphabet) -> None:
        self.reward, self.alphabet = reward, alphabet

    def prefix_scores(self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"]) -> Float[Tensor, "B T+1"]:
        """R of every prefix."""
        return self.reward.prefix_scores(self.alphabet.as_words(tokens), self.alphabet.as_words(references))


class _Continues:
    """The actor as a function from prefixes to the next token's log-probabilities; row i continues row i of a batch."""

    def __init__(self, actor: Policy[M, S], batch: Batch) -> None:
        memory = read(actor, batch)
        self.alphabet, self.next = actor.alphabet, lambda tokens: actor.score(memory, tokens).table()[:, -1]

    def __call__(self, prefixes: Tensor) -> Tensor:
        logits = self.next(nn.functional.pad(prefixes, (0, 1), value=self.alphabet.eos))
        return torch.log_softmax(only_actions(logits, self.alphabet.actions), -1)


@contextmanager
def evaluating(*models: nn.Module) -> Iterator[None]:
    """Without dropout; afterwards as before."""
    were_training = [model.training for model in models]
    for model in models:
        model.eval()
    try:
        yield
    finally:
        for model, was in zip(models, were_training, strict=True):
            model.train(was)
