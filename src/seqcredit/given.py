"""The model that a user gives to `train`: options, a module, a pretrained model, or one that was trained already."""

import copy
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from torch import Tensor, nn

from seqcredit.algorithms import Phase
from seqcredit.data.examples import Row, Tokenizer, has_chat
from seqcredit.data.prepared import Prepared, Split
from seqcredit.data.tokenizer import ModelTokenizer
from seqcredit.errors import UserError, require
from seqcredit.experiments.plans import DO_WITHOUT
from seqcredit.experiments.recipe import Recipe
from seqcredit.models.build import LSTM, HuggingFace, Networks, Transformer
from seqcredit.models.hub import alphabet_of, frozen, policy_of, unfilled, whole
from seqcredit.models.policy import Body, Network
from seqcredit.trained import Trained, wrapped
from seqcredit.training.task import networks_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# Options, a module, a model of transformers, or a function of the sizes of both vocabularies that makes a module.
Model = Networks | nn.Module | Callable[[int, int], nn.Module]
AnyCritic = Networks | nn.Module | Literal["shared"] | None  # "shared": a head on the actor's own body
COPY = 64  # width of a word's code in a critic
# Settings of LoRA that make an adapter again, and others that say nothing of what it computes.
UNSEEN = ("task_type", "base_model_name_or_path", "revision", "inference_mode", "init_lora_weights", "peft_version")
LORA = ("r", "lora_alpha", "lora_dropout", "target_modules", "bias", "use_rslora", "rank_pattern", "alpha_pattern")


def as_pretrained(model: object) -> "PreTrainedModel | None":
    """A model of transformers, without the shell of its adapters; None if it is something else."""
    transformers, peft = sys.modules.get("transformers"), sys.modules.get("peft")
    if peft is not None and isinstance(model, peft.PeftModel):
        model = model.get_base_model()
    return model if transformers is not None and isinstance(model, transformers.PreTrainedModel) else None


def actor_options(model: Model | Trained) -> Networks:
    """The options that make the actor again; those of a module of the user's own do not count."""
    if isinstance(model, Trained):
        return model.run.recipe.actor
    if isinstance(model, Networks):
        return model
    known = as_pretrained(model)
    if known is None:
        require(callable(model), f"model is {model!r}: give LSTM(...), a module, or what from_pretrained has loaded.")
        return LSTM()
    name, how = type(known).__name__, "load it by AutoModelForCausalLM or AutoModelForSeq2SeqLM"
    require(known.can_generate(), f"{name} predicts no tokens: {how}.")
    adapters = _adapters(model)
    whole = bool(adapters) or frozen(known) == frozen(unfilled(known))
    require(whole, f"Some weights of {name} are frozen, which a run does not remember: train adapters (LoRA) instead.")
    return replace(HuggingFace.of(known), lora=adapters)


def _adapters(model: object) -> str:
    """The settings of a model's adapters, as JSON; nothing if it has none."""
    peft = sys.modules.get("peft")
    if peft is None or not isinstance(model, peft.PeftModel):
        return ""
    settings = {key: value for key, value in model.active_peft_config.to_dict().items() if value is not None}
    kind = settings.get("peft_type")
    require(kind == "LORA", f"Adapters of the kind {kind}: only LoRA is known.")
    require([*model.peft_config] == ["default"], "A model has one adapter here, with peft's name for it, `default`.")
    usual = peft.LoraConfig().to_dict()
    unknown = [key for key, value in settings.items() if key not in (*LORA, *UNSEEN) and value != usual.get(key)]
    require(not unknown, f"LoRA with {', '.join(unknown)} is not known here: leave it out.")
    plain = {key: sorted(value) if isinstance(value, set) else value for key, value in settings.items()}
    return json.dumps({key: plain[key] for key in LORA if key in plain}, sort_keys=True)


def critic_options(actor: Networks, critic: AnyCritic, references: bool) -> Networks:
    """The options of the critic: those given, else the actor's own architecture. It starts at 0, and it copies."""
    if isinstance(critic, Networks):
        return critic
    if isinstance(critic, str):
        made = critic_options(actor, None, references)
        if critic != "shared" or not isinstance(made, HuggingFace):
            raise UserError(f"critic is {critic!r}: give a model; only one of transformers can be 'shared' by both.")
        return replace(made, shared=True)
    if critic is not None:
        known = as_pretrained(critic)
        require(known is not None, "critic must be options, such as LSTM(...), or a model of transformers.")
        assert known is not None
        return replace(HuggingFace.of(known), reads=_half(known.config.is_encoder_decoder, references))
    if isinstance(actor, LSTM):
        return LSTM(actor.embedding, actor.hidden, attention="mlp", dropout=0.0, copy=COPY, dueling=True)
    if isinstance(actor, Transformer):
        return replace(actor, dropout=0.0)
    return replace(actor, dropout=0.0, reads=_half(actor.encoder_decoder, references))


def _half(encoder_decoder: bool, references: bool) -> Literal["source", "references", "both"]:
    """What a critic reads: an encoder the references, a decoder all that there is, and the source where no more is."""
    if not references:
        return "source"
    return "references" if encoder_decoder else "both"


def model_tokenizer(
    model: Model | Trained, tokenizer: "Tokenizer | PreTrainedTokenizerBase", rows: Sequence[Row]
) -> ModelTokenizer | None:
    """The tokenizer of a pretrained model; None where words are cut by a function."""
    if isinstance(model, Trained):
        return model.prepared.tokenizer
    known = as_pretrained(model)
    if known is None:
        return None
    from transformers import PreTrainedTokenizerBase

    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise UserError("A model of transformers reads what its own tokenizer makes: give tokenizer=AutoTokenizer...")
    chat = has_chat(rows)
    return ModelTokenizer(tokenizer, alphabet_of(known, tokenizer, chat), chat)


def first_weights(model: Model | Trained, critic: AnyCritic, recipe: Recipe, prepared: Prepared) -> dict[str, Tensor]:
    """What a run starts from: the actor's weights where it has any, and those of a critic with a trained body."""
    actor = _trained_actor(model, prepared)
    if actor is None:
        return {}
    found = {f"actor.{key}": tensor for key, tensor in actor.state_dict().items()}
    wanted = "critic" in networks_of(recipe.phase) and isinstance(recipe.critic, HuggingFace)
    own = as_pretrained(critic)
    like_actor = critic is None and isinstance(recipe.actor, HuggingFace)
    if not wanted or not (own or like_actor):
        return found
    assert isinstance(recipe.critic, HuggingFace)
    body: Network = copy.deepcopy(actor) if own is None else policy_of(whole(own), prepared.alphabet)
    assert isinstance(body, Body)
    judge = recipe.critic.critic_like(body, recipe.seed, recipe.payoff.references)
    return found | {f"critic.{key}": tensor for key, tensor in judge.state_dict().items()}


def _trained_actor(model: Model | Trained, prepared: Prepared) -> Network | None:
    if isinstance(model, Trained):
        return model.actor
    known = as_pretrained(model)
    return None if known is None else policy_of(whole(known), prepared.alphabet)


def check_lengths(recipe: Recipe, prepared: Prepared) -> None:
    """Models whose positions are bounded have one for all that is read and written."""
    for name in networks_of(recipe.phase):
        options = recipe.critic if name == "critic" else recipe.actor
        if isinstance(options, HuggingFace) and options.positions is not None:
            for split in map(prepared.split, prepared.manifest.splits):
                most = _longest(options, name, recipe, split)
                require(
                    most <= options.positions,
                    f"The {name} has positions for {options.positions:,} tokens, and the split {split.name} with "
                    f"longest_output = {recipe.longest_output} needs {most:,}: lower it, or leave out long examples.",
                )


def _longest(options: HuggingFace, name: str, recipe: Recipe, split: Split) -> int:
    """Positions that a network needs for a split: a decoder-only model writes where its reading ends."""
    firsts, answers = split.groups[:-1], split.reference_lengths + 1  # with their eos
    known = answers[firsts] if recipe.payoff.references == "own" else np.add.reduceat(answers, firsts)
    reads = options.reads if name == "critic" else "source"
    read = int(((reads != "references") * split.source_lengths + (reads != "source") * known).max())
    words = int(split.reference_lengths.max())
    written = max(words + 1, recipe.longest_output + 1, *(phase.longest_for(words) for phase in recipe.phase))
    return max(read, written + 1) if options.encoder_decoder else read + written - 1  # its eos is not read again


def is_own(model: Model | Trained) -> bool:
    """Whether the actor is a module of the user's own, which no recipe can make again."""
    if isinstance(model, Trained):
        return "model" in model.run.about
    return not isinstance(model, Networks) and as_pretrained(model) is None


def own_actor(model: Model | Trained, prepared: Prepared) -> Network | None:
    """The actor that was given as a module; None where it is made from options."""
    if not is_own(model):
        return None
    if isinstance(model, Trained):
        return copy.deepcopy(model.actor)
    assert callable(model)
    return wrapped(model, prepared)


def without_references(phases: Sequence[Phase], longest: int) -> tuple[Phase, ...]:
    """Phases for data that have no references: none is learned from, and samples are as long as they may be."""
    others = ", ".join(name.upper() for name in DO_WITHOUT)
    for phase in phases:
        said = f"{phase.name} learns from references, and these data have none: take one of {others}."
        require(not phase.learns_references, said)
    return tuple(phase.without_references(longest) for phase in phases)
