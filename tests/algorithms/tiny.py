"""Tiny networks, a batch of four sentences, and the outcome of a phase on them."""

import torch

from seqcredit.algorithms import (
    A2c,
    ActorCritic,
    Bso,
    Critic,
    ExactVaml,
    Grpo,
    Mixer,
    Mle,
    Models,
    Mrt,
    Ocd,
    Outcome,
    Pcl,
    Phase,
    ProfessorForcing,
    Progress,
    Raml,
    Reinforce,
    Sac,
    ScheduledSampling,
    Scst,
    SoftQ,
    Vaml,
)
from seqcredit.draws import Noise
from seqcredit.models import critic as judges
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
JOINT = {"extra_length": 1, "samples": 2, "smoothing": 0.3}
EVERY_WAY: dict[str, Phase] = {  # that a loss is formed
    "likelihood": Mle("mle", 1.0),
    "raml": Raml("raml", 1.0),
    "raml, exact": Raml("raml", 1.0, proposal="exact", tau=0.3),
    "soft Q": SoftQ("q", 1.0),
    "soft Q at the bound": SoftQ("q", 1.0, bound=6),
    "soft Q, constant": SoftQ("q", 1.0, look_ahead="constant", bound=6),
    "soft Q, target": SoftQ("q", 1.0, look_ahead="target", bound=6),
    "soft Q, 2 steps": SoftQ("q", 1.0, bound=6, steps=2),
    "soft Q, to the end": SoftQ("q", 1.0, steps=99, exact_eos=0.3),
    "soft Q, 3 steps, constant": SoftQ("q", 1.0, look_ahead="constant", bound=6, steps=3),
    "soft Q, 3 steps, target": SoftQ("q", 1.0, look_ahead="target", bound=6, steps=3),
    "soft Q, exact eos": SoftQ("q", 1.0, bound=6, exact_eos=2.0),
    "soft Q, mixed": SoftQ("q", 1.0, proposal="mixed"),
    "soft Q, mixed, 3 steps": SoftQ("q", 1.0, proposal="mixed", bound=8, steps=3, exact_eos=0.5),
    "soft Q, policy": SoftQ("q", 1.0, proposal="policy", samples=3),
    "vaml": Vaml("vaml", 1.0, bound=6),
    "vaml, policy": Vaml("vaml", 1.0, proposal="policy", samples=4),
    "vaml with coins": Vaml("vaml", 1.0, kappa_draws=True, kappa=0.5),
    "vaml without Q": Vaml("vaml", 1.0, kappa=0.0),
    "vaml, exact Q": ExactVaml("vaml", 1.0, tau=0.3, bound=6),
    "critic": Critic("critic", 1.0, tau=0.3, **JOINT),
    "critic, released": Critic(
        "critic", 1.0, td_form="half", smoothing_form="mean", bound_value="free", smoothing=0.3, extra_length=0
    ),
    "critic, exact eos": Critic("critic", 1.0, tau=0.3, exact_eos=0.7, **JOINT),
    "critic, traced": Critic("critic", 1.0, tau=0.3, trace=0.7, **JOINT),
    "Actor-Critic": ActorCritic("ac", 1.0, tau=0.0, **JOINT),
    "ERAC": ActorCritic("erac", 1.0, tau=0.3, **JOINT),
    "ERAC without future entropy": ActorCritic("erac", 1.0, tau=0.3, future_entropy=False, **JOINT),
    "ERAC, exact eos": ActorCritic("erac", 1.0, tau=0.3, exact_eos=0.7, **JOINT),
    "ERAC, traced": ActorCritic("erac", 1.0, tau=0.3, trace=1.0, **JOINT),
    "ERAC, 2 steps": ActorCritic("erac", 1.0, tau=0.3, trace=1.0, trace_steps=2, **JOINT),
    "AC on a leash": ActorCritic("ac", 1.0, tau=0.0, leash=0.6, **JOINT),
    "ERAC on a leash": ActorCritic("erac", 1.0, tau=0.3, leash=0.6, **JOINT),
    "ERAC on a leash, normalised": ActorCritic(
        "erac", 1.0, tau=0.3, leash=0.6, entropy_form="normalised", mle_weight=0.0
    ),
    "REINFORCE": Reinforce("r", 1.0, baseline="none", extra_length=1),
    "SCST": Reinforce("r", 1.0, mle_weight=0.2, extra_length=1),
    "leave one out": Reinforce("r", 1.0, baseline="others", samples=3, extra_length=1),
    "REINFORCE, to go": Reinforce(
        "r", 1.0, baseline="others", credit="to_go", samples=2, entropy_weight=0.3, extra_length=1
    ),
    "SCST, to go": Scst("r", 1.0, credit="to_go", extra_length=1),
    "REINFORCE on a leash": Reinforce("r", 1.0, baseline="mean", leash=0.6, entropy_weight=0.2, extra_length=1),
    "REINFORCE on a leash, estimated": Reinforce(
        "r", 1.0, baseline="none", leash=0.6, leash_form="estimate", entropy_weight=0.2, extra_length=1
    ),
    "REINFORCE on a leash, in the reward": Reinforce(
        "r", 1.0, baseline="none", credit="to_go", leash=0.6, leash_form="reward", extra_length=1
    ),
    "ERAC on a leash, estimated": ActorCritic("erac", 1.0, tau=0.3, leash=0.6, leash_form="estimate", **JOINT),
    "ERAC on a leash, in the reward": ActorCritic("erac", 1.0, tau=0.3, leash=0.6, leash_form="reward", **JOINT),
    "GRPO": Grpo("g", 1.0, samples=3, mle_weight=0.2, extra_length=1),
    "GRPO, over the longest": Grpo("g", 1.0, samples=2, length="longest", leash_form="loss", scaled=False),
    "MIXER": Mixer("m", 1.0, samples=2, leash=0.6),
    "MRT": Mrt("m", 1.0, samples=3, sharpness=0.5, extra_length=1),
    "MRT without references": Mrt("m", 1.0, samples=3, sharpness=0.5, with_reference=False, mle_weight=0.2),
    "scheduled sampling": ScheduledSampling("s", 1.0, pace=1.0, words="greedy"),  # every other word at first
    "OCD": Ocd("o", 1.0, tau=0.3, mle_weight=0.2, extra_length=1),
    "A2C": A2c("a2c", 1.0, entropy_weight=0.3, trace=0.7, samples=2, mle_weight=0.2, extra_length=1),
    "A2C, 2 steps": A2c("a2c", 1.0, entropy_weight=0.0, steps=2, extra_length=0),
    "SAC": Sac("sac", 1.0, tau=0.3, **JOINT),
    "PCL": Pcl("pcl", 1.0, tau=0.3, steps=2, samples=2, mle_weight=0.2, extra_length=1, off_policy=3),
    "PCL, own samples": Pcl("pcl", 1.0, tau=0.3, off_policy=0, extra_length=0),
    "professor forcing": ProfessorForcing("pf", 1.0, samples=2, hidden=6, extra_length=1),
    "BSO": Bso("bso", 1.0, width=3, cost="reward"),
    "ERAC, normalised": ActorCritic("erac", 1.0, tau=0.3, entropy_form="normalised", mle_weight=0.0),
}


def models(dropout: float = 0.3) -> Models:
    def generator(seed: int) -> torch.Generator:
        return torch.Generator().manual_seed(seed)

    made = Models(
        Seq2Seq(V, V, 6, 6, dropout=dropout, generator=generator(0)),
        judges.Critic(V, 6, 6, dropout=dropout, generator=generator(1)),
        judges.Critic(V, 6, 6, dropout=0.0, generator=generator(2)),
        Seq2Seq(V, V, 6, 6, dropout=dropout, generator=generator(4)),
    )
    made.slow_judge.requires_grad_(False).eval()
    made.origin.requires_grad_(False).eval()
    for model in (made.actor, made.judge, made.slow_judge, made.origin):
        for weight in model.parameters():
            weight.data *= 8  # so that the policy is not uniform
    return made


def noise(seed: int = 3, first: int = 0, rows: int = 4) -> Noise:
    return Noise(torch.Generator().manual_seed(seed), 4, first, rows)


def equipped(phase: Phase, nets: Models) -> Models:
    """The networks that a phase brings beside the others."""
    own = phase.brings(nets.actor, 3)
    return nets._replace(own={name: net.to(next(nets.actor.parameters()).dtype) for name, net in own.items()})


def networks_of(nets: Models) -> dict[str, torch.nn.Module]:
    """All of them by name."""
    return {**dict(zip(Models._fields, nets[:-1], strict=False)), **nets.own}


def run(
    phase: Phase, nets: Models | None = None, batch: Batch = BATCH, reward: Reward = REWARD, **rows: int
) -> Outcome:
    return phase.loss(equipped(phase, nets or models()), batch, reward, noise(**rows), Progress())


def gradients(nets: Models) -> dict[str, bool]:
    """Which networks have got some."""
    return {name: any(p.grad is not None for p in model.parameters()) for name, model in networks_of(nets).items()}


def drawn(nets: Models, bound: int) -> torch.Tensor:
    """The samples of a phase."""
    several, actor = noise(), nets.actor
    dropout = actor.drop(bound, several)
    return sample(actor, actor.encode(BATCH.source), bound, several.uniform(bound), dropout)
