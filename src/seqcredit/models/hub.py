"""Hugging Face models as policies: from a model and its tokenizer, a folder, a name, or a configuration."""

import copy
import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool
from safetensors.torch import save_file
from torch import Tensor, nn

from seqcredit.errors import UserError, in_words, needing, require
from seqcredit.models.huggingface import DecoderOnly, EncoderDecoder
from seqcredit.types import Alphabet

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
    from transformers.models.auto.auto_factory import _BaseAutoModelClass

TRANSFORMERS = ("transformers", "hf", "A model from Hugging Face")  # the package, what installs it, what needs it
PEFT = ("peft", "lora", "An adapter")
ANSWER = "seqcredit"  # some text that no template has


def pretrained(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase | None" = None, dropout: float = 0.0
) -> EncoderDecoder | DecoderOnly:
    """A policy of a Hugging Face model; its tokenizer says which ids may be chosen."""
    return policy_of(model, alphabet_of(model, tokenizer), dropout)


def policy_of(model: "PreTrainedModel", alphabet: Alphabet, dropout: float = 0.0) -> EncoderDecoder | DecoderOnly:
    """A policy of a Hugging Face model whose alphabet is known."""
    kind = EncoderDecoder if model.config.is_encoder_decoder else DecoderOnly
    unfit = f"{type(model).__name__} cannot be run as its config.json and generation_config.json say: look at these"
    with _opened(unfit):  # it is tried as it is made
        return kind(model, alphabet, dropout)


def alphabet_of(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase | None" = None, chat: bool = False
) -> Alphabet:
    """The ids that a model predicts. Special ones but eos and unk, and those beyond the tokenizer, are no actions.

    Several ids may end a sequence. The one that does here is what the chat template puts behind an answer, in a chat,
    else the tokenizer's eos, else the model's first; the others are no actions.
    """
    config, generation = model.config, model.generation_config
    ends = _ends(tokenizer, generation, config)
    if chat and tokenizer is not None:
        ends = [*answer_ends(tokenizer, ends), *ends]
    if not ends:
        raise UserError("Neither the model nor its tokenizer has an id that ends a sequence: set eos_token_id.")
    eos, size = ends[0], model.get_output_embeddings().weight.shape[0]
    unk = None if tokenizer is None else tokenizer.unk_token_id
    beyond = [number for number in (eos, unk) if number is not None and not 0 <= number < size]
    if beyond:
        raise UserError(f"The tokenizer has the id {beyond[0]}, but the model predicts {size}: give the model's own.")
    special: set[object] = {*ends, *([] if tokenizer is None else specials(tokenizer))}
    for holder in (config, generation):
        special |= {getattr(holder, f"{name}_token_id", None) for name in ("pad", "bos", "decoder_start")}
    known = size if tokenizer is None else min(size, len(tokenizer))
    unk = None if unk == eos else unk  # GPT-2 has one id for both
    barred = {each for each in special if isinstance(each, int)} - {eos, unk} | set(range(known, size))
    return Alphabet(size, eos, unk, _actions(size, barred))


def _ends(*holders: object) -> list[int]:
    """Ids that end a sequence, of which a holder may have none, one, or a list."""
    found = [getattr(holder, "eos_token_id", None) for holder in holders]
    listed = [number for each in found for number in (each if isinstance(each, list) else [each])]
    return [number for number in listed if isinstance(number, int)]


def answer_ends(tokenizer: "PreTrainedTokenizerBase", ends: Sequence[int]) -> list[int]:
    """What the chat template puts behind an answer, if it ends a sequence or is special otherwise."""
    asked = [{"role": "user", "content": "a"}, {"role": "assistant", "content": ANSWER}]
    with suppress(Exception):  # whatever a template raises: `prompt` says it where it matters
        text = str(tokenizer.apply_chat_template(asked, tokenize=False))
        ids = tokenizer(text.rpartition(ANSWER)[2], add_special_tokens=False)["input_ids"]
        known = {*ends, *specials(tokenizer)} - {tokenizer.unk_token_id}
        return [number for number in ids if number in known][:1]
    return []


def specials(tokenizer: "PreTrainedTokenizerBase") -> set[int]:
    """Ids that no text says: those with a part to play, and others that were added as special, as ends of turns are."""
    added = tokenizer.added_tokens_decoder.items()
    return {*tokenizer.all_special_ids, *(number for number, token in added if token.special)}


def with_adapters(model: "PreTrainedModel", lora: str) -> "PreTrainedModel":
    """A model with low-rank adapters in it, the only weights that learn; `lora` are settings of peft as JSON."""
    with needing(*PEFT):
        from peft import LoraConfig, inject_adapter_in_model
    with in_words((ValueError, TypeError), lambda error: f"The adapters cannot be made ({error}): change `lora`."):
        inject_adapter_in_model(LoraConfig(**json.loads(lora)), model)
    return model


def adapted(model: "PreTrainedModel", rank: int) -> "PeftModel":
    """A model with adapters of a rank where peft puts them by default."""
    with needing(*PEFT):
        from peft import LoraConfig, get_peft_model
    with in_words(
        ValueError, lambda error: f"{error} Give a model of peft with target_modules of your own, in Python."
    ):
        return get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank))


def save_adapters(model: "PreTrainedModel", lora: str, folder: Path) -> None:
    """The adapters alone, in the format of peft: `PeftModel.from_pretrained(base, folder)` puts them into a model."""
    from peft import LoraConfig, get_peft_model_state_dict

    task = "SEQ_2_SEQ_LM" if model.config.is_encoder_decoder else "CAUSAL_LM"
    base = model.config.name_or_path or None
    config = LoraConfig(**json.loads(lora), task_type=task, base_model_name_or_path=base, inference_mode=True)
    config.save_pretrained(str(folder))
    tensors = {f"base_model.model.{key}": tensor for key, tensor in get_peft_model_state_dict(model).items()}
    save_file(tensors, folder / "adapter_model.safetensors", {"format": "pt"})


def merged(model: "PreTrainedModel") -> "PreTrainedModel":
    """A copy whose adapters have become part of its weights; the model itself where it has none."""
    if "peft" not in sys.modules:
        return model
    from peft.tuners.tuners_utils import BaseTunerLayer

    if not any(isinstance(module, BaseTunerLayer) for module in model.modules()):
        return model
    whole = copy.deepcopy(model)
    for name, layer in [*whole.named_modules()]:
        if isinstance(layer, BaseTunerLayer):
            layer.merge()
            whole.set_submodule(name, layer.get_base_layer())
    return whole


def whole(model: "PreTrainedModel") -> "PreTrainedModel":
    """A copy in float32; a model that was read from GGUF has been made whole already, and only says otherwise."""
    there = all(weight.is_floating_point() for weight in model.parameters())
    require(there, f"The weights of {type(model).__name__} are quantized: load it without, and train adapters (LoRA).")
    return nn.Module.float(copy.deepcopy(model))


def frozen(model: "PreTrainedModel") -> set[str]:
    """Names of the weights that do not learn."""
    return {name for name, weight in model.named_parameters() if not weight.requires_grad}


def unfilled(model: "PreTrainedModel") -> "PreTrainedModel":
    """A model of the same settings without numbers: the positions of Marian and Pegasus are frozen from the first."""
    with torch.device("meta"):
        return type(model)(copy.deepcopy(model.config))


def _actions(size: int, barred: Iterable[int]) -> Bool[Tensor, " V"] | None:
    actions = torch.ones(size, dtype=torch.bool)
    actions[[number for number in barred if number < size]] = False
    return None if bool(actions.all()) else actions


def open_model(name: str) -> "PreTrainedModel":
    """A model from a folder, or from the hub by its name."""
    with needing(*TRANSFORMERS):
        from transformers import AutoConfig
        from transformers.utils import logging
    if not sys.stderr.isatty():
        logging.disable_progress_bar()  # lines about it are for terminals alone
    unfit = f"{name} cannot be loaded: give a folder with config.json and weights, or a name on the hub"
    with _opened(unfit):
        config = AutoConfig.from_pretrained(name)
        return _auto(config).from_pretrained(name, config=config)


def _opened(unfit: str) -> AbstractContextManager[None]:
    """Of damaged files transformers says almost anything, or nothing."""
    return in_words(Exception, lambda error: f"{unfit} ({type(error).__name__}: {' '.join(str(error).split())[:200]}).")


def _auto(config: "PretrainedConfig") -> type["_BaseAutoModelClass"]:
    """What opens and makes models of a configuration."""
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    return AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM


def open_tokenizer(name: str) -> "PreTrainedTokenizerBase":
    """The tokenizer beside a model."""
    with needing(*TRANSFORMERS):
        from transformers import AutoTokenizer
    unfit = f"{name} has no tokenizer that can be loaded: save it beside the model"
    with _opened(unfit):
        made = AutoTokenizer.from_pretrained(name)
        made("a")  # some settings are read only then
        return made


def make_model(config: str, generation: str, seed: int, lora: str = "") -> "PreTrainedModel":
    """A model from its settings as JSON, with random weights that are a function of the seed."""
    with needing(*TRANSFORMERS):
        from transformers import AutoConfig, GenerationConfig
    unfit = "The recipe's `config` is no configuration that transformers knows"
    with in_words((ValueError, KeyError, TypeError), lambda error: f"{unfit} ({error})."):
        known = AutoConfig.for_model(**json.loads(config))
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = _auto(known).from_config(known).float()  # `precision` makes products shorter, not weights
            model = with_adapters(model, lora) if lora else model
        model.generation_config = GenerationConfig.from_dict(json.loads(generation))
        return model
