"""Credit of one sentence, token by token: what `seqcredit plot credit` draws."""

import itertools
from typing import NamedTuple

import torch

from seqcredit import config
from seqcredit.credit.values import chosen, entropy, expected_value, soft_value, token_rewards
from seqcredit.data.batches import collate
from seqcredit.data.prepared import Prepared
from seqcredit.errors import UserError
from seqcredit.models.search import beam
from seqcredit.reporting.credit import load_critic
from seqcredit.reporting.evaluate import final_search, load_actor
from seqcredit.training.build import build_reward
from seqcredit.training.runs import Run
from seqcredit.types import lengths


class Sentence(NamedTuple):
    """A prediction, and what each of its tokens is worth; eos is the last one."""

    source: str
    reference: str
    tokens: list[str]
    quantities: dict[str, list[float]]


@torch.no_grad()
def credit_of(run: Run, prepared: Prepared, split: str, number: int, judge: Run | None = None) -> Sentence:
    """The run's best prediction for a sentence, counted from 1, by its own critic or another run's."""
    part = prepared.split(split)
    if not 1 <= number <= len(part):
        raise UserError(f"There is no sentence {number} in {split}: it has 1 to {len(part):,}.")
    judge = judge or run
    phase = _critic_phase(judge)
    if judge.about["vocabularies"] != prepared.checksums:
        raise UserError(f"{judge.folder} was trained with other vocabularies than {run.folder}: give another --critic.")
    batch = collate(part, part.groups[[number - 1]])
    actor, critic, search = (
        load_actor(run, prepared),
        load_critic(judge, prepared, phase.name),
        final_search(run.recipe),
    )
    memory = actor.encode(batch.source)
    tokens = beam(actor, memory, search.bound, search.width).tokens[:, 0]  # (1, T)
    tokens = tokens[:, : int(lengths(tokens)) + 1]
    logp = torch.log_softmax(actor.readout(actor.features(memory, tokens)), -1)  # (1, T, V)
    q = critic.readout(critic.features(critic.encode(batch.references), tokens))
    if isinstance(phase, config.SoftQ):
        value = soft_value(q, phase.tau)
    else:
        value = expected_value(q, logp, phase.tau if phase.future_entropy else 0.0)
    reward = build_reward(judge.recipe.payoff, prepared, judge.recipe.payoff.scaled)
    quantities = {
        "reward": token_rewards(reward.prefix_scores(tokens, batch.references)),
        "Q": chosen(q, tokens),
        "value": value,
        "advantage": chosen(q, tokens) - value,
        "entropy": entropy(logp),
        "probability": chosen(logp, tokens).exp(),
    }
    source = next(itertools.islice(part.source_texts(), number - 1, None))
    words = [prepared.target_vocabulary.words[token] for token in tokens[0].tolist()]
    figures = {name: row[0].double().tolist() for name, row in quantities.items()}
    return Sentence(" ".join(source), " ".join(part.reference_text(number - 1)[0]), words, figures)


def _critic_phase(judge: Run) -> config.Critic | config.SoftQ:
    """The last finished phase that trained a critic."""
    done = judge.phases_done()
    for phase in reversed(judge.recipe.phase):
        if isinstance(phase, config.Critic | config.SoftQ) and phase.name in done:
            return phase
    raise UserError(f"{judge.folder} has no trained critic: give --critic RUN, a run of AC, ERAC or VAML.")
