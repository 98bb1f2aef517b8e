"""Credit error of a run's critic, beside that of one that has learned nothing."""

from typing import NamedTuple

from seqcredit import config
from seqcredit.data.prepared import Prepared
from seqcredit.errors import UserError
from seqcredit.models.critic import Critic
from seqcredit.results.evaluate import load_actor
from seqcredit.training.build import build_critic
from seqcredit.training.exact import EditJudge, RolloutJudge
from seqcredit.training.runs import Run, of_network


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


def against_edit_oracle(run: Run, prepared: Prepared, split: str, sentences: int, longest: int = 8) -> Error:
    """Soft Q-learning with edit distance against Q*, along references and n-gram replacements of short sentences."""
    phase = next(p for p in run.recipe.phase if isinstance(p, config.SoftQ))
    if not config.plain_edit(run.recipe.payoff):
        raise UserError(f"{run.folder}: the exact oracle knows the plain edit distance; its pay-off is another one.")
    judge = EditJudge(run.recipe.payoff, phase, prepared, split, sentences, longest)
    learned = judge.error(load_critic(run, prepared, phase.name))
    untrained = judge.error(build_critic(run.recipe, prepared))
    return Error(learned.absolute, untrained.absolute, learned.kl, untrained.kl, judge.states, judge.name)


def against_rollouts(
    run: Run, prepared: Prepared, split: str, sentences: int, words: int = 4, rollouts: int = 48
) -> Error:
    """An actor-critic run's critic against Q^pi of its actor: the likeliest first words, by rollouts."""
    phase = next(p for p in reversed(run.recipe.phase) if isinstance(p, config.Critic))
    judge = RolloutJudge(run.recipe.payoff, phase, prepared, split, sentences, words, rollouts)
    actor = load_actor(run, prepared)
    learned = judge.error(actor, load_critic(run, prepared))
    untrained = judge.error(actor, build_critic(run.recipe, prepared), again=False)
    return Error(learned, untrained, None, None, judge.states, judge.name)
