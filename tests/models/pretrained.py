"""Models of transformers, small and exact enough for every test, with random weights that matter."""

import copy
from collections.abc import Callable

import pytest
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
)

from seqcredit.models.hub import pretrained
from seqcredit.models.huggingface import DecoderOnly, EncoderDecoder
from seqcredit.models.judge import Judge
from seqcredit.types import pad_open

V = 23
SOURCES = [[5, 6, 7, 8], [9, 10], [11, 12, 13]]
SOURCE = pad_open(SOURCES)


def t5() -> PreTrainedModel:
    """Tied readout with a factor, relative positions, pad as the start."""
    sizes = {"d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4}
    return T5ForConditionalGeneration(
        T5Config(vocab_size=V, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, **sizes)
    )


def bart() -> PreTrainedModel:
    """Learned positions, a bias of the logits, a first token that is always the same."""
    model = BartForConditionalGeneration(BartConfig(vocab_size=V, max_position_embeddings=40, **_marian_sizes()))
    model.generation_config.forced_bos_token_id = 0
    model.final_logits_bias.normal_()
    return model


def marian() -> PreTrainedModel:
    """eos is 0, the start is the last id, and there is no id that begins a sentence."""
    ids = {"pad_token_id": V - 1, "eos_token_id": 0, "decoder_start_token_id": V - 1, "bos_token_id": None}
    model = MarianMTModel(MarianConfig(vocab_size=V, max_position_embeddings=40, **_marian_sizes(), **ids))
    model.final_logits_bias.normal_()
    return model


def gpt2() -> PreTrainedModel:
    """One id for the end, the beginning and padding; learned positions; tied."""
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 40}
    return GPT2LMHeadModel(GPT2Config(vocab_size=V, bos_token_id=V - 1, eos_token_id=V - 1, **sizes))


def llama() -> PreTrainedModel:
    """Rotary positions, fewer heads of keys than of queries, a readout of its own."""
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=V, num_key_value_heads=2, bos_token_id=1, eos_token_id=2, **sizes))


def _marian_sizes() -> dict[str, int]:
    halves = {f"{half}_{key}": value for half in ("encoder", "decoder") for key, value in _HALF.items()}
    return {"d_model": 16, **halves}


_HALF = {"layers": 2, "attention_heads": 4, "ffn_dim": 24}
KINDS: dict[str, Callable[[], PreTrainedModel]] = {
    "t5": t5,
    "bart": bart,
    "marian": marian,
    "gpt2": gpt2,
    "llama": llama,
}


def make(kind: str, seed: int = 0) -> PreTrainedModel:
    """In float64, with weights large enough that outputs differ."""
    torch.manual_seed(seed)
    model = KINDS[kind]().double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(std=0.4)
    model.tie_weights()
    return model


def policy(kind: str, seed: int = 0, dropout: float = 0.0) -> EncoderDecoder | DecoderOnly:
    """As a policy."""
    return pretrained(make(kind, seed), dropout=dropout)


def critic(net: EncoderDecoder | DecoderOnly) -> Judge:
    """With a body like the actor's and a head that says something."""
    judge = Judge(copy.deepcopy(net), copy=4, read="both", generator=torch.Generator().manual_seed(6)).double()
    with torch.no_grad():
        for layer in (judge.common, judge.pointer, judge.readout):
            layer.weight.add_(torch.randn(layer.weight.shape, generator=torch.Generator().manual_seed(7)) * 0.3)
    return judge


kinds = pytest.mark.parametrize("kind", KINDS)
