"""The converter of llama2.c's files, against the forward pass and the tokenizer of llama2.c, written down plainly."""

import io
import math
import struct
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
import torch

pytest.importorskip("transformers", reason="transformers is not installed")

from stories15m import BYTES, SPACE, SPECIAL, Piece, Shape, kept_ids, pruned, read_model, read_pieces, tokenizer_of

Array = np.ndarray
SMALL = Shape(width=16, hidden=24, layers=2, heads=4, key_heads=2, vocabulary=30, positions=12)


def checkpoint(shape: Shape) -> tuple[bytes, dict[str, Array]]:
    """Random weights in llama2.c's order, as a file and by name."""
    draw, head = np.random.default_rng(0), shape.width // shape.heads
    narrow, many = shape.key_heads * head, shape.layers
    axes = {
        "embedding": (abs(shape.vocabulary), shape.width), "norm1": (many, shape.width),
        "q": (many, shape.width, shape.width), "k": (many, narrow, shape.width), "v": (many, narrow, shape.width),
        "o": (many, shape.width, shape.width), "norm2": (many, shape.width), "w1": (many, shape.hidden, shape.width),
        "w2": (many, shape.width, shape.hidden), "w3": (many, shape.hidden, shape.width), "norm": (shape.width,),
        "rotary": (2, shape.positions, head // 2),
    }  # fmt: skip
    if shape.vocabulary < 0:
        axes["readout"] = axes["embedding"]
    weights = {name: draw.normal(0, 0.3, size).astype(np.float32) for name, size in axes.items()}
    return struct.pack("7i", *shape) + b"".join(each.tobytes() for each in weights.values()), weights


def logits(shape: Shape, weights: dict[str, Array], ids: Sequence[int]) -> Array:
    """What llama2.c computes, one position after the other: rotary pairs are neighbours."""
    w = {name: each.astype(np.float64) for name, each in weights.items()}
    head, groups = shape.width // shape.heads, shape.heads // shape.key_heads
    keys, values = [[] for _ in range(shape.layers)], [[] for _ in range(shape.layers)]
    said = []

    def norm(x: Array, scale: Array) -> Array:
        return x / math.sqrt((x * x).mean() + 1e-5) * scale

    def turned(x: Array, position: int) -> Array:
        out = x.copy()
        for i in range(0, len(x), 2):
            angle = position * 10000.0 ** -((i % head) / head)
            out[i] = x[i] * math.cos(angle) - x[i + 1] * math.sin(angle)
            out[i + 1] = x[i] * math.sin(angle) + x[i + 1] * math.cos(angle)
        return out

    for position, token in enumerate(ids):
        x = w["embedding"][token].copy()
        for layer in range(shape.layers):
            read = norm(x, w["norm1"][layer])
            q = turned(w["q"][layer] @ read, position)
            keys[layer].append(turned(w["k"][layer] @ read, position))
            values[layer].append(w["v"][layer] @ read)
            seen = []
            for h in range(shape.heads):
                part = slice(h // groups * head, (h // groups + 1) * head)
                scores = [q[h * head : (h + 1) * head] @ key[part] / math.sqrt(head) for key in keys[layer]]
                share = np.exp(np.array(scores) - max(scores))
                seen.append(sum(s * v[part] for s, v in zip(share / share.sum(), values[layer], strict=True)))
            x = x + w["o"][layer] @ np.concatenate(seen)
            read = norm(x, w["norm2"][layer])
            gate = w["w1"][layer] @ read
            x = x + w["w2"][layer] @ (gate / (1 + np.exp(-gate)) * (w["w3"][layer] @ read))
        said.append(w.get("readout", w["embedding"]) @ norm(x, w["norm"]))
    return np.array(said)


@pytest.mark.parametrize("vocabulary", [30, -30], ids=["tied", "a readout of its own"])
def test_a_checkpoint_says_what_llama2c_says(vocabulary: int) -> None:
    shape = SMALL._replace(vocabulary=vocabulary)
    data, weights = checkpoint(shape)
    file, ids = io.BytesIO(data), [1, 7, 3, 29, 0, 12]
    model = read_model(file).double()
    assert not file.read()
    found = model(torch.tensor([ids])).logits[0].detach().numpy()
    np.testing.assert_allclose(found, logits(shape, weights, ids), atol=1e-5)


WORDS = ["a", "b", "c", SPACE, "ab", "bc", SPACE + "a", "abc", SPACE + "ab", "ca", SPACE + "abc", "cab"]
SCORES = [-20.0, -21.0, -22.0, -23.0, -1.0, -2.0, -3.0, -4.0, -5.0, -0.5, -6.0, -7.0]


def pieces() -> list[Piece]:
    several = [Piece(text, 0.0) for text in SPECIAL] + [Piece(f"<0x{byte:02X}>", 0.0) for byte in range(BYTES)]
    return several + [Piece(text, score) for text, score in zip(WORDS, SCORES, strict=True)]


def encoded(text: str) -> list[int]:
    """llama2.c's encoder: again and again the two neighbours whose union scores best become one."""
    known = {piece.text: (number, piece.score) for number, piece in enumerate(pieces())}
    parts: list[str] = []
    for letter in SPACE + text.replace(" ", SPACE):
        parts += [letter] if letter in known else [f"<0x{byte:02X}>" for byte in letter.encode()]
    while True:
        unions = [(known[a + b][1], -i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in known]
        if not unions:
            return [known[part][0] for part in parts]
        place = -max(unions)[1]
        parts[place : place + 2] = [parts[place] + parts[place + 1]]


@pytest.mark.parametrize("text", ["abc", "cab abc", "a b c ab", "aabbccab", "bca bcab", "ab\u00e4c", "c a\tb"])
def test_text_is_cut_as_llama2c_cuts_it(text: str) -> None:
    made = tokenizer_of(pieces())
    ids = made(text)["input_ids"]
    assert ids == [1, *encoded(text)]
    assert made.decode(ids, skip_special_tokens=True) == text


def test_pieces_are_read_as_they_are_written() -> None:
    file = struct.pack("i", 9)
    for piece in pieces():
        text = piece.text.replace(SPACE, " ").encode()
        file += struct.pack("fi", piece.score, len(text)) + text
    found = read_pieces(io.BytesIO(file), len(pieces()))
    assert [piece.text for piece in found] == [piece.text for piece in pieces()]
    assert [piece.score for piece in found] == pytest.approx([piece.score for piece in pieces()])


def test_fewer_ids_say_the_same() -> None:
    """What texts need is kept, with what it is merged from; the scores of what is kept are as before."""
    shape = SMALL._replace(vocabulary=len(pieces()))
    model, whole = read_model(io.BytesIO(checkpoint(shape)[0])).double(), tokenizer_of(pieces())
    kept = kept_ids(pieces(), whole, ["abc ab"])
    smaller, fewer = pruned(model, pieces(), kept)
    names = {pieces()[number].text for number in kept[len(SPECIAL) + BYTES :]}
    assert names == set(WORDS) - {"ca", "cab"}
    text = torch.tensor([whole("abc ab")["input_ids"]])
    renamed = torch.tensor([fewer("abc ab")["input_ids"]])
    assert [kept[number] for number in renamed[0].tolist()] == text[0].tolist()
    torch.testing.assert_close(smaller.double()(renamed).logits, model(text).logits[..., kept])
