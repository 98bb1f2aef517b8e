"""From a recipe and a prepared folder to what there is to train."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import torch
from torch import Tensor

from seqcredit.algorithms import must_be_known
from seqcredit.data.batches import collate, from_sentences
from seqcredit.data.prepared import Prepared
from seqcredit.errors import UserError, require
from seqcredit.experiments.recipe import Recipe
from seqcredit.experiments.runs import Run
from seqcredit.models.policy import Network
from seqcredit.named import find, fingerprint, is_named
from seqcredit.rewards import metrics
from seqcredit.rewards.metrics import Metric
from seqcredit.rewards.payoff import Payoff, Spelling, reward_of
from seqcredit.training.task import Task, networks_of
from seqcredit.training.weights import put
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
    must_be_known(recipe.phase)
    made: dict[str, Network] = {"actor": build_actor(recipe, prepared)}
    if "critic" in networks_of(recipe.phase):
        made["critic"] = build_critic(recipe, prepared, made["actor"])
    reward = reward or build_reward(recipe, prepared, folder)
    metric = metric or build_metric(recipe, prepared, folder)
    how = (recipe.seed, recipe.validation_beam, recipe.longest_output, recipe.on_divergence)
    return Task(recipe.phase, made, prepared, reward, metric, *how)


def build_actor(recipe: Recipe, prepared: Prepared) -> Network:
    """The actor with its first weights, a function of the seed: it reads sentences, or looks at pictures."""
    return recipe.actor.actor(_source_size(prepared), prepared.alphabet, recipe.seed, prepared.pictures)


def build_critic(recipe: Recipe, prepared: Prepared, actor: Network | None = None) -> Network:
    """The critic with its first weights. It reads the references that the pay-off counts, or what the actor reads."""
    alphabet, seed = prepared.alphabet, recipe.seed
    made = recipe.critic.source_critic(_source_size(prepared), alphabet, seed, prepared.pictures)
    return made or recipe.critic.critic(alphabet, seed, recipe.payoff.references, actor)


def _source_size(prepared: Prepared) -> int:
    """Words that a source may have, or features of a picture."""
    return prepared.manifest.picture_width if prepared.pictures else len(prepared.source_vocabulary)


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
    own = [f"code:{fingerprint(find(payoff.metric, folder))}"] if is_named(payoff.metric) else []
    values = {each.name: getattr(payoff, each.name) for each in fields(payoff) if each.name != "metric"}
    changed = [f"{key}:{value}" for key, value in values.items() if value != getattr(Payoff(), key)]
    says = "|".join(["mean reward", payoff.metric, *own, *changed])
    reward = build_reward(recipe, prepared, folder)
    return mean_reward(reward, prepared, says)


def check_own(recipe: Recipe, prepared: Prepared, folder: Path) -> None:
    """Stop before there is a run folder where a pay-off or a metric of the user's own cannot be made."""
    if is_named(recipe.payoff.metric):
        build_reward(recipe, prepared, folder)
    if is_named(recipe.metric):
        build_metric(recipe, prepared, folder)


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
    put(actor, run.weights(phase), "actor", run.folder)
    return actor.to(device).eval()


def load_critic(run: Run, prepared: Prepared, device: torch.device | str = "cpu", phase: str | None = None) -> Network:
    """The critic of a finished phase, the last one by default."""
    alone = run.recipe.critic.stands_alone
    critic = build_critic(run.recipe, prepared, None if alone else load_actor(run, prepared, device, phase))
    put(critic, run.weights(phase), "critic", run.folder)
    return critic.to(device).eval()


def load_guide(run: Run, prepared: Prepared, device: torch.device | str = "cpu") -> Network:
    """A critic that can guide a search: it reads no reference, and says what a whole output will have earned."""
    recipe, folder = run.recipe, run.folder
    other = [side for side, checksum in run.about["vocabularies"].items() if prepared.checksums[side] != checksum]
    require(not other, f"{folder} was trained with another {' and '.join(other)} vocabulary: it cannot guide here.")
    has_one = any(key.startswith("critic.") for key in run.weights())
    require(has_one, f"{folder} has no critic to guide by: train one as the recipe demo/guide does.")
    reads = f"The critic of {folder} reads references, which a search has none of: set reads to 'source' in [critic]."
    require(recipe.critic.reads_source, reads)
    late = (
        f"The critic of {folder} knows what is still to come, not the whole: set unfinished to 'nothing' in [payoff]."
    )
    require(recipe.payoff.unfinished == "nothing", late)
    return load_critic(run, prepared, device)
