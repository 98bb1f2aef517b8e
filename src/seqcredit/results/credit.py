"""Credit error of a run's critic, beside that of an untrained one."""

from typing import NamedTuple

from seqcredit.algorithms.exact import EditJudge, RolloutJudge, plain_edit
from seqcredit.algorithms.phase import Examples
from seqcredit.data.prepared import Prepared
from seqcredit.errors import UserError
from seqcredit.experiments.build import build_critic, build_reward, load_actor, load_critic
from seqcredit.experiments.runs import Run
from seqcredit.training.validation import examples_of


class Error(NamedTuple):
    """Of a trained network, and of one that has learned nothing."""

    absolute: float
    untrained: float
    kl: float | None  # between token targets, where the exact Q of every word is known
    untrained_kl: float | None
    states: int
    judge: str


def against_edit_oracle(run: Run, prepared: Prepared, split: str, sentences: int, longest: int = 8) -> Error:
    """Soft Q-learning with edit distance against Q*, along references and n-gram replacements of short sentences."""
    phase = next(p for p in run.recipe.phase if p.soft)
    if not plain_edit(run.recipe.payoff):
        raise UserError(f"{run.folder}: the exact oracle knows the plain edit distance; its pay-off is another one.")
    judge = EditJudge(_examples(run, prepared, split), phase.later_tau, phase.longest_for(0), sentences, longest)
    learned = judge.error(load_critic(run, prepared, phase=phase.name))
    untrained = judge.error(build_critic(run.recipe, prepared))
    return Error(learned.absolute, untrained.absolute, learned.kl, untrained.kl, judge.states, judge.name)


def against_rollouts(
    run: Run, prepared: Prepared, split: str, sentences: int, words: int = 4, rollouts: int = 48
) -> Error:
    """An actor-critic run's critic against Q^pi of its actor: the likeliest first words, by rollouts."""
    phase = next(p for p in reversed(run.recipe.phase) if "critic" in p.trains)
    examples = _examples(run, prepared, split)
    judge = RolloutJudge(examples, phase.longest_for, phase.later_tau, sentences, words, rollouts)
    actor = load_actor(run, prepared)
    learned = judge.error(actor, load_critic(run, prepared))
    untrained = judge.error(actor, build_critic(run.recipe, prepared), again=False)
    return Error(learned, untrained, None, None, judge.states, judge.name)


def _examples(run: Run, prepared: Prepared, split: str) -> Examples:
    return examples_of(prepared, split, build_reward(run.recipe, prepared, run.folder), prepared.alphabet)
