"""Tiny networks, a batch of four sentences, and the outcome of a phase on them."""

import torch

from seqcredit.algorithms import Models, Outcome, Phase, Progress
from seqcredit.draws import Noise
from seqcredit.models.critic import Critic
from seqcredit.models.lstm import Seq2Seq
from seqcredit.rewards import Bleu
from seqcredit.search import sample
from seqcredit.types import Batch, Reward, pad, pad_references

V = 9
BATCH = Batch(
    pad([[2, 3, 4], [5, 6], [7, 2, 2, 3], [4]]),
    pad_references([[[3, 4, 5]], [[6, 2]], [[8, 8, 3, 2, 4]], [[5]]]),
)
REWARD = Bleu(scaled=True)


def models(dropout: float = 0.3) -> Models:
    def generator(seed: int) -> torch.Generator:
        return torch.Generator().manual_seed(seed)

    made = Models(
        Seq2Seq(V, V, 6, 6, dropout=dropout, generator=generator(0)),
        Critic(V, 6, 6, dropout=dropout, generator=generator(1)),
        Critic(V, 6, 6, dropout=0.0, generator=generator(2)),
    )
    made.slow_judge.requires_grad_(False).eval()
    for model in (made.actor, made.judge, made.slow_judge):
        for weight in model.parameters():
            weight.data *= 8  # so that the policy is not uniform
    return made


def noise(seed: int = 3, first: int = 0, rows: int = 4) -> Noise:
    return Noise(torch.Generator().manual_seed(seed), 4, first, rows)


def run(
    phase: Phase, nets: Models | None = None, batch: Batch = BATCH, reward: Reward = REWARD, **rows: int
) -> Outcome:
    return phase.loss(nets or models(), batch, reward, noise(**rows), Progress())


def gradients(nets: Models) -> dict[str, bool]:
    """Which networks have got some."""
    return {name: any(p.grad is not None for p in model.parameters()) for name, model in nets._asdict().items()}


def drawn(nets: Models, bound: int) -> torch.Tensor:
    """The samples of a phase."""
    several, actor = noise(), nets.actor
    dropout = actor.drop(bound, several)
    return sample(actor, actor.encode(BATCH.source), bound, several.uniform(bound), dropout)
