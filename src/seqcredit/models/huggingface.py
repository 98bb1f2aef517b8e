"""Models from Hugging Face as policies: encoder-decoder (T5, BART, Marian, ...) and decoder-only (GPT-2, Llama, ...).

A policy of a pretrained model drops nothing inside it, so that samples, targets and gradients see the same network and
a run resumes bit for bit; its own `dropout` is of what the readout sees, as in the paper's networks. A source has its
ids and then ABSENT.
"""

import inspect
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqcredit.draws import Noise
from seqcredit.errors import UserError, require
from seqcredit.models.cache import Cached, Encoded, Prompt
from seqcredit.models.policy import Body, Dropout, Linear, N, Scores, Written, recomputed
from seqcredit.types import ABSENT, Alphabet

if TYPE_CHECKING:
    from transformers import Cache, PreTrainedModel

CLOSE, TINY = 1e-3, 1e-30  # how far the readout may be from the model's own logits, relative to these


P = TypeVar("P", bound="Pretrained[Encoded] | Pretrained[Prompt]")


class Pretrained(Body[N, Cached]):
    """A model of transformers as a policy: a body that gives features, and a readout."""

    def __init__(self, model: "PreTrainedModel", alphabet: Alphabet, dropout: float = 0.0) -> None:
        super().__init__()
        self.model, self.alphabet, self.dropout = model.eval(), alphabet, dropout
        self._cap: float | None = getattr(model.config, "final_logit_softcapping", None)
        self._scale, self._most = 1.0, positions_of(model.config.to_dict())
        head = model.get_output_embeddings()
        if not isinstance(head, nn.Linear):
            raise UserError(f"{type(model).__name__} has no linear readout: give a model that predicts tokens.")
        require(
            head.out_features == alphabet.size,
            f"{type(model).__name__} knows {head.out_features:,} tokens, and {alphabet.size:,} are needed: actor and "
            "critic have one tokenizer; resize_token_embeddings makes their numbers of tokens equal.",
        )
        self._register_state_dict_hook(_without_ties)
        self.register_load_state_dict_pre_hook(_with_ties)

    recomputes = False

    def recompute(self, on: bool) -> bool:
        """By layers of the body. Transformers has this too, but for models in training, whose dropout is on."""
        for layer in _layers(self.model):
            vars(layer).pop("forward", None)
            if on:
                layer.forward = partial(recomputed, layer.forward)
        return super().recompute(on)

    def train(self: "P", mode: bool = True) -> "P":
        """Its own dropout alone; nothing inside the model."""
        self.training = mode
        return self

    @property
    def width(self) -> int:
        """Of features."""
        return self._head.in_features

    def drop(self, length: int, noise: Noise) -> Dropout | None:
        """Inverted dropout for what the readout sees, or None where there is none to do."""
        if not self.training or self.dropout == 0:
            return None
        return Dropout.drawn(self.dropout, noise, length, self.width, self._head.weight)

    @property
    def _head(self) -> nn.Linear:
        head = self.model.get_output_embeddings()
        assert isinstance(head, nn.Linear)
        return head

    @property
    def _bias(self) -> Float[Tensor, " V"] | None:
        """Of the readout, and what BART and Marian add to it."""
        added: Tensor | None = getattr(self.model, "final_logits_bias", None)
        own = self._head.bias
        if added is None:
            return own
        return added.squeeze(0) if own is None else own + added.squeeze(0)

    def scored(self, features: Float[Tensor, "*B D"]) -> Scores:
        """Scores as the model's own readout gives them."""
        linear = Linear(features if self._scale == 1 else features * self._scale, self._head.weight, self._bias)
        return linear if self._cap is None else Written(torch.tanh(linear.table() / self._cap) * self._cap)

    def _fit(self, needed: int) -> None:
        """There must be a position for every token."""
        require(
            self._most is None or needed <= self._most,
            f"{type(self.model).__name__} has positions for {self._most} tokens, and {needed} are needed: give it "
            "shorter texts, or lower longest_output.",
        )

    def _calibrate(self, features: Tensor, logits: Tensor) -> None:
        """Find the factor between features and readout, by the model's own logits of a few tokens."""
        found, logits = self.scored(features).table().float(), logits.float()
        if self._cap is None and self._bias is None:
            self._scale = _known(float((found * logits).sum() / found.square().sum().clamp(min=TINY)), self.width)
            found = found * self._scale
        far = float((found - logits).abs().max() / logits.abs().max().clamp(min=TINY))
        if far > (CLOSE if self._head.weight.dtype in (torch.float32, torch.float64) else 50 * CLOSE):
            raise UserError(
                f"The logits of {type(self.model).__name__} are not a readout of its last states (they are {far:.1%} "
                "apart): write a seqcredit.models.Policy for it."
            )


class EncoderDecoder(Pretrained[Encoded]):
    """An encoder-decoder model, everything that `AutoModelForSeq2SeqLM` makes."""

    def __init__(self, model: "PreTrainedModel", alphabet: Alphabet, dropout: float = 0.0) -> None:
        super().__init__(model, alphabet, dropout)
        self.begin = _begin(model)
        self._try()

    def encode(self, source: Int[Tensor, "B S"]) -> Encoded:
        """Read the source once."""
        self._fit(source.shape[1])
        mask = source != ABSENT
        ids = source.clamp(min=0)
        read = self.model.get_encoder()(input_ids=ids, attention_mask=mask.long())
        return Encoded(read.last_hidden_state, mask, source)

    def hidden(
        self, memory: Encoded, tokens: Int[Tensor, "B T"], dropout: Dropout | None = None
    ) -> Float[Tensor, "B T D"]:
        """What the readout sees before each token."""
        begin = torch.tensor(self.begin, device=tokens.device).expand(len(tokens), -1)
        inputs = torch.cat([begin, tokens[:, :-1]], 1)
        self._fit(inputs.shape[1])
        features = self._run(memory, inputs, None)[:, len(self.begin) - 1 :]
        return features if dropout is None else features * dropout.along(tokens.shape[1])

    def start(self, memory: Encoded) -> Cached:
        """Before the first token."""
        from transformers import DynamicCache, EncoderDecoderCache

        return Cached(EncoderDecoderCache(DynamicCache(), DynamicCache()), memory.rows)

    def advance(
        self, memory: Encoded, state: Cached, token: Int[Tensor, " B"] | None, dropout: Tensor | None = None
    ) -> tuple[Float[Tensor, "B D"], Cached]:
        """What the readout sees after `token`, and the state then."""
        begin = torch.tensor(self.begin, device=memory.ids.device).expand(memory.rows, -1)
        after = state.after(1)
        self._fit(state.t + len(self.begin))
        features = self._run(memory, begin if token is None else token.unsqueeze(1), after.cache)[:, -1]
        return features if dropout is None else features * dropout, after

    def _run(self, memory: Encoded, inputs: Int[Tensor, "B t"], cache: "Cache | None") -> Float[Tensor, "B t D"]:
        return self.model.get_decoder()(
            input_ids=inputs,
            encoder_hidden_states=memory.states,
            encoder_attention_mask=memory.mask.long(),
            past_key_values=cache,
            use_cache=cache is not None,
        ).last_hidden_state

    @torch.no_grad()
    def _try(self) -> None:
        """The body and the readout give what the model itself gives."""
        device = self._head.weight.device
        source, tokens = _sample_ids(self.alphabet, device)
        inputs = torch.cat([torch.tensor([self.begin], device=device), tokens[:, :-1]], 1)
        own = self.model(input_ids=source, attention_mask=torch.ones_like(source), decoder_input_ids=inputs)
        self._calibrate(self.hidden(self.encode(source), tokens), own.logits[:, len(self.begin) - 1 :])


class DecoderOnly(Pretrained[Prompt]):
    """A decoder-only model, everything that `AutoModelForCausalLM` makes: it goes on where its source ends.

    The source is read once, and its keys and values serve all sequences that follow it, samples and references alike.
    """

    def __init__(self, model: "PreTrainedModel", alphabet: Alphabet, dropout: float = 0.0) -> None:
        super().__init__(model, alphabet, dropout)
        self._positions = "position_ids" in inspect.signature(model.get_decoder().forward).parameters
        self._try()

    def encode(self, source: Int[Tensor, "B S"]) -> Prompt:
        """Read the source once."""
        order = (source != ABSENT).long().argsort(dim=1, stable=True)  # padding first
        ids = source.gather(1, order)
        mask = ids != ABSENT
        require(
            mask.shape[1] > 0 and bool(mask[:, -1].all()),
            "A source without tokens: a decoder-only model needs something to go on from.",
        )
        from transformers import DynamicCache

        fresh = DynamicCache(config=self.model.config)
        if self._anew:
            with torch.no_grad():
                cache = self._run(ids.clamp(min=0), mask, fresh)[1]
            states = self._run(ids.clamp(min=0), mask, None)[0]
        else:
            states, cache = self._run(ids.clamp(min=0), mask, fresh)
        return Prompt(Encoded(states, mask, ids), Cached(cache, len(ids)))

    def hidden(
        self, memory: Prompt, tokens: Int[Tensor, "B T"], dropout: Dropout | None = None
    ) -> Float[Tensor, "B T D"]:
        """What the readout sees before each token."""
        features, mask = memory.states[:, -1:], nn.functional.pad(memory.mask, (0, tokens.shape[1] - 1), value=True)
        if self._anew:
            ids = torch.cat([memory.ids.clamp(min=0), tokens[:, :-1]], 1)
            features = self._run(ids, mask, None)[0][:, -tokens.shape[1] :]
        elif tokens.shape[1] > 1:
            later, _ = self._run(tokens[:, :-1], mask, memory.cached.after(0).cache)
            features = torch.cat([features, later], 1)
        return features if dropout is None else features * dropout.along(tokens.shape[1])

    def start(self, memory: Prompt) -> Cached:
        """Before the first token."""
        return memory.cached

    def advance(
        self, memory: Prompt, state: Cached, token: Int[Tensor, " B"] | None, dropout: Tensor | None = None
    ) -> tuple[Float[Tensor, "B D"], Cached]:
        """What the readout sees after `token`, and the state then."""
        features, after = memory.states[:, -1], state
        if token is not None:
            after = state.after(1)
            mask = nn.functional.pad(memory.mask, (0, after.t), value=True)
            features = self._run(token.unsqueeze(1), mask, after.cache)[0][:, -1]
        return features if dropout is None else features * dropout, after

    def _run(
        self, ids: Int[Tensor, "B t"], mask: Bool[Tensor, "B L"], cache: "Cache | None"
    ) -> tuple[Float[Tensor, "B t D"], "Cache"]:
        """The body over some ids, the last t places of the mask, after what the cache holds."""
        if self._most is not None and mask.shape[1] > self._most:  # it may be padding alone
            self._fit(int(mask.sum(1).max()))
        places = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        positions = {"position_ids": places} if self._positions else {}
        out = self.model.get_decoder()(
            input_ids=ids,
            attention_mask=mask.long(),
            past_key_values=cache,
            use_cache=cache is not None,
            **positions,
        )
        return out.last_hidden_state, out.past_key_values

    @property
    def _anew(self) -> bool:
        """Whether its layers will be computed twice: then they cannot write into a cache."""
        return bool(self.recomputes) and torch.is_grad_enabled()

    @torch.no_grad()
    def _try(self) -> None:
        """The body and the readout give what the model itself gives."""
        source, tokens = _sample_ids(self.alphabet, self._head.weight.device)
        own = self.model(input_ids=torch.cat([source, tokens[:, :-1]], 1), use_cache=False)
        self._calibrate(self.hidden(self.encode(source), tokens), own.logits[:, source.shape[1] - 1 :])


def _layers(module: nn.Module) -> Iterator[nn.Module]:
    """Those of its stacks."""
    for child in module.children():
        yield from child if isinstance(child, nn.ModuleList) else _layers(child)


def positions_of(settings: Mapping[str, object]) -> int | None:
    """How many tokens a configuration has positions for; None where they are relative, and so without a bound."""
    if "relative_attention_num_buckets" in settings:
        return None
    found = settings.get("max_position_embeddings", settings.get("n_positions"))
    return found if isinstance(found, int) else None


def _ties(module: nn.Module, prefix: str) -> dict[str, str]:
    """Names of weights that are another one's: of each, the name that counts."""
    first: dict[int, str] = {}
    named = [*module.named_parameters(prefix.removesuffix("."), remove_duplicate=False)]
    return {name: first[id(weight)] for name, weight in named if first.setdefault(id(weight), name) != name}


def _without_ties(module: nn.Module, state: dict[str, Tensor], prefix: str, _: object) -> None:
    """A weight that has several names is kept once."""
    for name in _ties(module, prefix):
        state.pop(name, None)


def _with_ties(module: nn.Module, state: dict[str, Tensor], prefix: str, *_: object) -> None:
    """A weight that has several names is found by each of them."""
    for name, kept in _ties(module, prefix).items():
        if name not in state and kept in state:
            state[name] = state[kept]


def _known(factor: float, width: int) -> float:
    """The number that a measured factor stands for: 1, T5's by its width, or a short one, whatever the weights are."""
    near = [known for known in (1.0, width**-0.5) if abs(factor / known - 1) < CLOSE]
    return near[0] if near else float(f"{factor:.6g}")


def _begin(model: "PreTrainedModel") -> list[int]:
    """What a decoder reads before the first token: its start, and the first token where that is always the same."""
    config, generation = model.config, model.generation_config
    for holder in (generation, config):
        start = getattr(holder, "decoder_start_token_id", None)
        if start is not None:
            forced = getattr(generation, "forced_bos_token_id", None)
            return [start] if forced is None else [start, forced]
    raise UserError(f"{type(model).__name__} does not say what its decoder starts with: set decoder_start_token_id.")


def _sample_ids(alphabet: Alphabet, device: torch.device) -> tuple[Int[Tensor, "1 S"], Int[Tensor, "1 T"]]:
    """A source and a sequence of three tokens each."""
    words = alphabet.words(device)
    some = words[:: max(1, len(words) // 6)][:6]
    return some[None, :3], some[None, -3:]
