"""Credit error: a learned Q against the exact one, on some short sentences.

A judge is made once and asked as often as one likes. Its draws are its own and always the same: asking it while a
network learns changes nothing of what is learned.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seqcredit.algorithms.along import Along
from seqcredit.algorithms.phase import Examples, Models
from seqcredit.credit.oracle import CreditError, EditOracle, absolute_error, estimate_q, target_kl
from seqcredit.credit.oracle.rollouts import Estimate
from seqcredit.credit.proposals import replace_ngrams
from seqcredit.credit.values import at_bound, chosen, entropy, only_actions, returns_to_go, token_rewards
from seqcredit.draws import Noise
from seqcredit.errors import UserError, require
from seqcredit.models.policy import M, Network, Policy, S, evaluating, reshaped
from seqcredit.rewards import EditDistance, OwnReference
from seqcredit.rewards.payoff import Payoff
from seqcredit.rewards.scores import scored
from seqcredit.search import sample
from seqcredit.search.sample import device_of
from seqcredit.types import Alphabet, Batch, Reward, lengths, token_mask

PROPOSED = 4  # sequences for each sentence, the reference included
SHORT = 8  # words of a reference whose edit table is solved
SHORT_ROLLOUT = 30  # words of a reference that rollouts are compared with
PLACES = (0, 3, 6)  # how many words stand before those that are followed
THIRDS = ("explained_first", "explained_middle", "explained_last")  # of a sample


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
        self.batch = examples.short(sentences, min(longest, bound - 1))
        several = "The exact oracle knows one reference, and these data have several"
        require(own or self.batch.references.shape[1] == 1, f"{several}: set references to 'own' in [payoff].")
        first, eos, unk = self.batch.references[:, 0], self.alphabet.eos, self.alphabet.unk
        noise = Noise(torch.Generator().manual_seed(0), len(first))
        self.tokens = replace_ngrams(first, PROPOSED, self.alphabet, noise).tokens
        known = torch.tensor([number for number in (eos, unk) if number is not None])
        self.order = torch.cat([known, self.alphabet.words()])  # the oracle's actions: eos, unk if there is one, words
        words = [self._places(row[: int(lengths(row, eos))]) for row in first]
        how = len(self.order), bound, tau, None, reward.unk_matches or unk is None
        self.oracles = [EditOracle.solve(row, *how) for row in words]

    def figures(self, models: Models) -> dict[str, float]:
        """For the log."""
        absolute, kl = self.error(models.judge)
        return {"credit_error": round(absolute, 4), "credit_kl": round(kl, 4)}

    @property
    def states(self) -> int:
        """How many states the error is a mean over."""
        return int((lengths(self.tokens, self.alphabet.eos) + 1).sum())

    def _places(self, tokens: Int[Tensor, "*B T"]) -> Int[Tensor, "*B T"]:
        """Ids by their places among the oracle's actions."""
        place = torch.zeros(self.alphabet.size, dtype=torch.long)
        place[self.order] = torch.arange(len(self.order))
        return place[tokens]

    @torch.no_grad()
    def error(self, critic: Network) -> CreditError:
        """Of a critic, sentence by sentence: no more than one sentence's Q of all words is ever written down."""
        absolute, kl, device = 0.0, 0.0, device_of(critic)
        forced = at_bound(self.tokens[0], self.bound)
        with evaluating(critic):
            for oracle, source, references, tokens in zip(self.oracles, *self.batch, self.tokens, strict=True):
                batch = Batch(source[None].to(device), references[None].to(device)).repeated(len(tokens))
                q = critic.score(critic.read(batch), tokens.to(device)).table().double().cpu()[..., self.order]
                actions = self._places(tokens)
                exact = oracle.along(actions)
                absolute += float(absolute_error(q, exact, actions, forced).sum())
                kl += float(target_kl(q, exact, actions, self.tau, forced).sum())
        return CreditError(absolute / self.states, kl / self.states)


class _Known(NamedTuple):
    """Likely words after beginnings of the same length, and what following them is worth."""

    rows: Int[Tensor, " N"]  # sentences of the batch
    before: Int[Tensor, "N t"]
    words: Int[Tensor, "N W"]
    worth: Estimate  # N * W numbers


class RolloutJudge:
    """Q^pi of an actor for its likeliest words, by rollouts: at the beginning and some words into its samples."""

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
        self.tau, self.again = tau, again
        self.words, self.rollouts = words, rollouts
        self.batch = examples.short(sentences, SHORT_ROLLOUT)
        self.bound = max(longest_for(self.batch.references.shape[-1] - 1), 2)
        self.reward, self.alphabet = examples.reward, examples.alphabet
        self._samples: Int[Tensor, "B T"] | None = None
        self._known: list[_Known] = []

    def figures(self, models: Models) -> dict[str, float]:
        """For the log; an actor that learns too is followed again each time."""
        actor, critic = models.actor, models.judge
        error = self.error(actor, critic, self.again)
        found = {"credit_error": error, "agreement": self.agreement(critic), **self.explained(actor, critic)}
        return {key: round(value, 4) for key, value in found.items()}

    @property
    def states(self) -> int:
        """How many first words the error is a mean over."""
        return len(self.batch.source) * self.words

    @property
    def name(self) -> str:
        """What it compares with, once it has."""
        wide = f" (+- {float(self._known[0].worth.half_width.mean()):.2f})" if self._known else ""
        return f"Q^pi of {self.words} words at the first position, {self.rollouts} rollouts{wide}"

    @torch.no_grad()
    def error(self, actor: Network, critic: Network, again: bool = True) -> float:
        """Of a critic of an actor; `again` = False if that actor has not changed since the last time."""
        if again or not self._known:
            with evaluating(actor):
                self._known = self._follow(actor)
        first = self._known[0]
        return float((self._judged(critic, first).flatten() - first.worth.mean).abs().mean())

    @torch.no_grad()
    def agreement(self, critic: Network) -> float:
        """Correlation, over states, of what tells likely words apart: by Q, and by rollouts. An actor follows that."""
        mine = torch.cat([_apart(self._judged(critic, known)) for known in self._known])
        true = torch.cat([_apart(known.worth.mean.view_as(known.words)) for known in self._known])
        return float(nn.functional.cosine_similarity(mine, true, dim=0))

    @torch.no_grad()
    def explained(self, actor: Network, critic: Network) -> dict[str, float]:
        """The share of the returns' variance that Q explains in each third of the samples."""
        assert self._samples is not None
        tokens, batch = self._samples, self._on(device_of(actor))
        with evaluating(actor, critic):
            logp = Along.of(actor, actor.score(actor.read(batch), tokens)).logp
            q = chosen(critic.score(critic.read(batch), tokens).table(), tokens)
        eos = actor.alphabet.eos
        rewards = token_rewards(scored(self.reward, self.alphabet, tokens, batch))
        uncertainty = entropy(logp, at_bound(tokens, self.bound))
        returns = returns_to_go(rewards, uncertainty, tokens, self.tau, eos)
        place = torch.arange(tokens.shape[1], device=tokens.device) / (lengths(tokens, eos).unsqueeze(1) + 1)
        third = (3 * place).long().masked_fill(~token_mask(tokens, eos), -1)
        return {name: _share(returns[third == n], q[third == n]) for n, name in enumerate(THIRDS)}

    def _judged(self, critic: Network, known: _Known) -> Float[Tensor, "N W"]:
        """Q of the words."""
        batch, t = self._on(device_of(critic)), known.before.shape[1]
        with evaluating(critic):
            memory = critic.read(Batch(batch.source[known.rows], batch.references[known.rows]))
            scores = critic.score(memory, nn.functional.pad(known.before, (0, 1), value=critic.alphabet.eos))
            return reshaped(scores, lambda of: of[:, t]).table().gather(1, known.words)

    def _follow(self, actor: Network) -> list[_Known]:
        """Samples of the actor, and what is worth what in their states."""
        batch = self._on(device_of(actor))
        memory, eos = actor.read(batch), actor.alphabet.eos
        uniform = torch.rand(len(batch.source), self.bound, generator=torch.Generator().manual_seed(0))
        self._samples = sample(actor, memory, self.bound, uniform.to(batch.source.device))
        going = [(self._samples[:, :t] != eos).all(1).nonzero().squeeze(1) for t in PLACES]
        return [self._worth(actor, batch, rows, t) for rows, t in zip(going, PLACES, strict=True) if len(rows)]

    def _worth(self, actor: Network, batch: Batch, rows: Tensor, t: int) -> _Known:
        """The likeliest words after the first t of some samples, and what following them is worth."""
        assert self._samples is not None
        before, eos = self._samples[rows, :t], actor.alphabet.eos
        these = Batch(batch.source[rows], batch.references[rows])
        likely = _Continues(actor, these)(before).topk(self.words).indices
        several = these.repeated(self.words)
        policy, draws = _Continues(actor, several.repeated(self.rollouts)), torch.Generator().manual_seed(0)
        places = several.references, before.repeat_interleave(self.words, 0), likely.flatten()
        reward = _Here(self.reward, self.alphabet, several.source)
        worth = estimate_q(policy, reward, *places, self.bound, self.tau, self.rollouts, draws, eos=eos)
        return _Known(rows, before, likely, worth)

    def _on(self, device: torch.device) -> Batch:
        return Batch(self.batch.source.to(device), self.batch.references.to(device))


def _apart(q: Float[Tensor, "N W"]) -> Float[Tensor, " N*W"]:
    """What tells the words of a state apart."""
    return (q - q.mean(1, keepdim=True)).flatten()


def _share(returns: Float[Tensor, " N"], q: Float[Tensor, " N"]) -> float:
    """Of the variance of the returns, what Q explains."""
    variance = float(returns.var(correction=0)) if len(returns) else 0.0
    return 1 - float((returns - q).square().mean()) / variance if variance else 0.0


class _Here:
    """A reward of sequences in a model's alphabet, each source with as many of them, side by side, as there are."""

    def __init__(self, reward: Reward, alphabet: Alphabet, source: Tensor) -> None:
        self.reward, self.alphabet, self.source = reward, alphabet, source

    def prefix_scores(self, tokens: Int[Tensor, "B T"], references: Int[Tensor, "B R L"]) -> Float[Tensor, "B T+1"]:
        """R of every prefix."""
        source = self.source.repeat_interleave(len(tokens) // len(self.source), 0)
        return scored(self.reward, self.alphabet, tokens, Batch(source, references))


class _Continues:
    """The actor as a function from prefixes to the next token's log-probabilities; row i continues row i of a batch."""

    def __init__(self, actor: Policy[M, S], batch: Batch) -> None:
        memory = actor.read(batch)
        self.alphabet, self.score = actor.alphabet, lambda tokens: actor.score(memory, tokens)

    def __call__(self, prefixes: Tensor) -> Tensor:
        scores = self.score(nn.functional.pad(prefixes, (0, 1), value=self.alphabet.eos))
        logits = reshaped(scores, lambda of: of[:, -1]).table()
        return torch.log_softmax(only_actions(logits, self.alphabet.actions), -1)
