"""From a recipe and a prepared folder to what there is to train."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import torch
from torch import Tensor

from seqcredit.data.batches import collate, from_sentences
from seqcredit.data.prepared import Prepared
from seqcredit.errors import UserError
from seqcredit.experiments.recipe import Recipe
from seqcredit.experiments.runs import Run
from seqcredit.models.policy import Network
from seqcredit.rewards import metrics
from seqcredit.rewards.metrics import Metric
from seqcredit.rewards.payoff import Payoff, Spelling, reward_of
from seqcredit.training.task import Task, networks_of
from seqcredit.training.weights import of_network
from seqcredit.types import Reward

MOST_DOCUMENTS = 200_000  # training examples whose references CIDEr-D counts


def task_of(
    recipe: Recipe,
    prepared: Prepared,
    folder: Path | None = None,
    reward: Reward | None = None,
    metric: Metric | None = None,
) -> Task:
    """All that a recipe asks for; things of the user's own are looked for in `folder` first, or given."""
    made: dict[str, Network] = {"actor": build_actor(recipe, prepared)}
    if "critic" in networks_of(recipe.phase):
        made["critic"] = build_critic(recipe, prepared, made["actor"])
    reward = reward or build_reward(recipe, prepared, folder)
    metric = metric or build_metric(recipe, prepared, folder)
    how = (recipe.seed, recipe.validation_beam, recipe.longest_output, recipe.on_divergence)
    return Task(recipe.phase, made, prepared, reward, metric, *how)


def build_actor(recipe: Recipe, prepared: Prepared) -> Network:
    """The actor with its first weights, a function of the seed: it reads sentences, or looks at pictures."""
    source = prepared.manifest.picture_width if prepared.pictures else len(prepared.source_vocabulary)
    return recipe.actor.actor(source, prepared.alphabet, recipe.seed, prepared.pictures)


def build_critic(recipe: Recipe, prepared: Prepared, actor: Network | None = None) -> Network:
    """The critic with its first weights, beside the actor. It reads the references that the pay-off counts."""
    return recipe.critic.critic(prepared.alphabet, recipe.seed, recipe.payoff.references, actor)


def build_reward(recipe: Recipe, prepared: Prepared, folder: Path | None = None) -> Reward:
    """The reward of a recipe's pay-off."""

    def documents() -> Tensor:
        train = prepared.split("train")
        if len(train) > MOST_DOCUMENTS:
            raise UserError(f"CIDEr-D counts the references of at most {MOST_DOCUMENTS:,} training examples.")
        return prepared.alphabet.as_words(collate(train, train.groups[:-1]).references)

    return reward_of(recipe.payoff, spelling(prepared), documents, folder)


def spelling(prepared: Prepared) -> Spelling:
    """How the ids of prepared data are read."""
    words, own = prepared.target_vocabulary.words, prepared.tokenizer is not None
    return Spelling(words, prepared.spell, prepared.spell_source, own)


def build_metric(recipe: Recipe, prepared: Prepared, folder: Path | None = None, name: str | None = None) -> Metric:
    """What a recipe's runs are judged by, or another metric by its name."""
    name, payoff = name or recipe.metric, recipe.payoff
    if name != metrics.REWARD:
        return metrics.metric(name, folder)
    values = {each.name: getattr(payoff, each.name) for each in fields(payoff) if each.name != "metric"}
    changed = [f"{key}:{value}" for key, value in values.items() if value != getattr(Payoff(), key)]
    says = "|".join(["mean reward", payoff.metric, *changed])
    reward = build_reward(recipe, prepared, folder)
    return mean_reward(reward, prepared, says)


def mean_reward(reward: Reward, prepared: Prepared, says: str) -> Metric:
    """The mean of a reward on prepared data, as a metric."""
    alphabet = prepared.alphabet

    def ids(words: Sequence[str]) -> list[int]:
        return alphabet.as_words(torch.tensor(prepared.target_ids(list(words)), dtype=torch.long)).tolist()

    def sources(texts: list[str]) -> Tensor:
        return from_sentences([prepared.read_as(text) for text in texts], prepared).source

    return metrics.mean_reward(reward, ids, says, None if prepared.pictures else sources)


def load_actor(run: Run, prepared: Prepared, device: torch.device | str = "cpu", phase: str | None = None) -> Network:
    """The actor of a finished phase, the last one by default."""
    run.must_be_ours()
    actor = build_actor(run.recipe, prepared)
    actor.load_state_dict(of_network(run.weights(phase), "actor"))
    return actor.to(device).eval()


def load_critic(run: Run, prepared: Prepared, device: torch.device | str = "cpu", phase: str | None = None) -> Network:
    """The critic of a finished phase, the last one by default."""
    alone = run.recipe.critic.stands_alone
    critic = build_critic(run.recipe, prepared, None if alone else load_actor(run, prepared, device, phase))
    critic.load_state_dict(of_network(run.weights(phase), "critic"))
    return critic.to(device).eval()
