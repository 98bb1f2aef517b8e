"""Credit error: a learned Q against the exact one, on sentences of a split."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from seqcredit import config
from seqcredit.credit.oracle import EditOracle, credit_error, estimate_q
from seqcredit.credit.proposals import replace_ngrams
from seqcredit.credit.values import at_bound
from seqcredit.data.batches import collate
from seqcredit.data.prepared import Prepared
from seqcredit.draws import Noise
from seqcredit.errors import UserError
from seqcredit.models.critic import Critic
from seqcredit.reporting.evaluate import load_actor
from seqcredit.training.build import build_critic, build_reward
from seqcredit.training.runs import Run, of_network
from seqcredit.types import Batch, lengths


class Error(NamedTuple):
    """Of a trained network, and of one that has learned nothing."""

    absolute: float
    untrained: float
    kl: float | None  # between token targets, where the exact Q of every word is known
    untrained_kl: float | None
    states: int
    judge: str


def load_critic(run: Run, prepared: Prepared, phase: str | None = None) -> Critic:
    """The critic of a finished phase, the last one by default."""
    critic = build_critic(run.recipe, prepared)
    critic.load_state_dict(of_network(run.weights(phase), "critic"))
    return critic.eval()


@torch.no_grad()
def against_edit_oracle(run: Run, prepared: Prepared, split: str, sentences: int, longest: int = 8) -> Error:
    """Soft Q-learning with edit distance against Q*, along references and n-gram replacements of short sentences."""
    phase = next(p for p in run.recipe.phase if isinstance(p, config.SoftQ))
    if (run.recipe.payoff.metric, run.recipe.payoff.unfinished) != ("edit", "score"):
        raise UserError(f"{run.folder}: the exact oracle knows the plain edit distance; its pay-off is another one.")
    batch = _short(prepared, split, sentences, longest)
    actions = len(prepared.target_vocabulary)
    noise = Noise(torch.Generator().manual_seed(0), len(batch.references))
    tokens = replace_ngrams(batch.references[:, 0], 4, actions, noise).tokens  # (B, M, L)
    exact = torch.stack([_exact(r[0], row, actions, phase) for r, row in zip(batch.references, tokens, strict=True)])
    forced = at_bound(tokens, phase.bound)
    errors = []
    for critic in (load_critic(run, prepared, phase.name), build_critic(run.recipe, prepared).eval()):
        q = _along(critic, batch, tokens).to(exact.dtype)
        errors.append(credit_error(q, exact, tokens, phase.tau, forced))
    learned, untrained = errors
    states = int((lengths(tokens) + 1).sum())
    return Error(learned.absolute, untrained.absolute, learned.kl, untrained.kl, states, "exact Q*, edit distance")


@torch.no_grad()
def against_rollouts(
    run: Run, prepared: Prepared, split: str, sentences: int, words: int = 4, rollouts: int = 48
) -> Error:
    """An actor-critic run's critic against Q^pi of its actor: the likeliest first words, by rollouts."""
    phase = next(p for p in reversed(run.recipe.phase) if isinstance(p, config.Critic))
    actor = load_actor(run, prepared)
    batch = _short(prepared, split, sentences, 30)
    memory = actor.encode(batch.source)
    first, _ = actor.step(memory, actor.start(memory), None)
    likeliest = actor.readout(first).topk(words).indices  # (B, words)
    rows = torch.arange(len(batch.source)).repeat_interleave(words)
    references, actions = batch.references[rows], likeliest.flatten()
    bound = batch.references.shape[-1] + phase.extra_length
    estimate = estimate_q(
        _Continues(actor, batch.source[rows], rollouts),
        build_reward(run.recipe.payoff, prepared, run.recipe.payoff.scaled),
        references,
        torch.zeros(len(rows), 0, dtype=torch.long),
        actions,
        bound,
        phase.tau if phase.future_entropy else 0.0,
        rollouts,
        torch.Generator().manual_seed(0),
    )
    errors = []
    for critic in (load_critic(run, prepared), build_critic(run.recipe, prepared).eval()):
        seen = critic.encode(references)
        q = critic.readout(critic.step(seen, critic.start(seen), None)[0]).gather(1, actions.unsqueeze(1)).squeeze(1)
        errors.append(float((q - estimate.mean).abs().mean()))
    wide = float(estimate.half_width.mean())
    judge = f"Q^pi of {words} words at the first position, {rollouts} rollouts (+- {wide:.2f})"
    learned, untrained = errors
    return Error(learned, untrained, None, None, len(rows), judge)


class _Continues:
    """The actor as a function from prefixes to the next token's log-probabilities; row i continues sentence i // n."""

    def __init__(self, actor: Any, source: Tensor, rollouts: int) -> None:
        self.actor, self.source = actor, source.repeat_interleave(rollouts, 0)
        self.memory = actor.encode(self.source)

    def __call__(self, prefixes: Tensor) -> Tensor:
        tokens = torch.nn.functional.pad(prefixes, (0, 1))
        logits = self.actor.readout(self.actor.features(self.memory, tokens)[:, -1])
        return torch.log_softmax(logits, -1)


def _short(prepared: Prepared, split: str, sentences: int, longest: int) -> Batch:
    """The first sentences of a split whose reference has at most `longest` words."""
    part = prepared.split(split)
    pairs = part.groups[:-1]
    return collate(part, pairs[part.reference_lengths[pairs] <= longest][:sentences])


def _exact(reference: Tensor, tokens: Tensor, actions: int, phase: config.SoftQ) -> Tensor:
    oracle = EditOracle.solve(reference[: int(lengths(reference))], actions, phase.bound, phase.tau)
    return oracle.along(tokens)


def _along(critic: Critic, batch: Batch, tokens: Tensor) -> Tensor:
    """Q along several sequences for each reference."""
    memory = critic.encode(batch.references.repeat_interleave(tokens.shape[1], 0))
    return critic.readout(critic.features(memory, tokens.flatten(0, 1))).unflatten(0, tokens.shape[:2])
