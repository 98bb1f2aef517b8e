"""What judges a run on the credit page: its actor, a critic, and the pay-off of both."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from seqcredit.algorithms import Phase
from seqcredit.data.prepared import Prepared
from seqcredit.errors import UserError
from seqcredit.experiments.build import build_reward, load_actor, load_critic
from seqcredit.experiments.runs import Run
from seqcredit.models.policy import Network
from seqcredit.results.evaluate import final_search
from seqcredit.rewards.payoff import Payoff
from seqcredit.search.sample import device_of
from seqcredit.training.decoding import Search
from seqcredit.types import Reward


@dataclass(frozen=True)
class Examiner:
    """A run's actor, the critic that judges it, the pay-off of both, and the data that they know."""

    name: str
    run: Run
    prepared: Prepared
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
        return device_of(self.actor)

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
    return Examiner(
        name,
        run,
        prepared,
        load_actor(run, prepared, device),
        final_search(run.recipe),
        build_reward(judged.recipe, prepared, judged.folder),
        judged.recipe.payoff,
        phase[0] if phase else next((p for p in reversed(run.recipe.phase) if p.judged_tau is not None), None),
        critic,
        judged.recipe.name if critic else None,
    )


def _critic_phase(run: Run) -> tuple[Phase, str] | None:
    """The phase that trained the critic, and the last one that has its weights."""
    done = run.phases_done()
    holders = [name for name in reversed(done) if any(key.startswith("critic.") for key in run.weights(name))]
    trained = [p for p in run.recipe.phase if p.name in done and "critic" in p.trains]
    return (trained[-1], holders[0]) if holders and trained else None
