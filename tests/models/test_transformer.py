"""The Transformer against one of plain loops, torch's attention, padding, its own steps, and what it should learn."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models.small import SOURCE, TOKENS, assert_near, by_steps, differ, generator, measured, parts
from seqcredit.credit.fused import cross_entropy
from seqcredit.credit.tables import Table
from seqcredit.draws import Noise
from seqcredit.errors import UserError
from seqcredit.models.policy import Attends, Dropout, Linear, Policy
from seqcredit.models.transformer import PREFIX, Attention, TransformerNetwork, rotate, rotation
from seqcredit.search import beam, greedy, sample
from seqcredit.types import ABSENT, EOS, Alphabet, pad, token_mask

WORDS, FEATURES = 9, 3
PICTURES = torch.randn(4, FEATURES, dtype=torch.float64, generator=generator(7))
KINDS = {
    "ids": {},
    "pictures": {"source": FEATURES, "pictures": True},
    "one stack": {"decoder_only": True, "alike": True},
    "one stack, words of its own": {"decoder_only": True},
    "one stack, pictures": {"source": FEATURES, "pictures": True, "decoder_only": True},
}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
readers = pytest.mark.parametrize("kind", [KINDS["ids"], KINDS["one stack"]], ids=["ids", "one stack"])
dropouts = pytest.mark.parametrize("dropped", [False, True], ids=["all kept", "dropout"])


def model(seed: int = 0, source: int = WORDS, **kind: Any) -> TransformerNetwork:
    """Small, exact, and with weights large enough for every part to matter."""
    net = TransformerNetwork(source, WORDS, width=8, layers=2, heads=2, generator=generator(seed), **kind).double()
    fresh = generator(seed + 1)
    with torch.no_grad():
        for name, weight in net.named_parameters():
            weight.copy_(torch.rand(weight.shape, generator=fresh) + 0.5 if "norm" in name else 25 * weight)
    return net


def source_of(net: TransformerNetwork) -> Tensor:
    return SOURCE if net.picture is None else PICTURES


def drop(net: TransformerNetwork, rows: int, length: int, dropped: bool) -> Dropout | None:
    return net.drop(length, Noise(generator(3), rows)) if dropped else None


def plain(net: TransformerNetwork, source: Tensor, tokens: Tensor, kept: Tensor | None) -> Tensor:
    """Scores of one sentence without padding: the same network in loops, rotations as products of complex numbers."""
    weights, heads, width = dict(net.named_parameters()), 2, 8
    masks = iter([1.0] * 99 if kept is None else kept.split(width, -1))

    def norm(name: str, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weights[f"{name}.weight"]

    def turned(x: Tensor, position: int) -> Tensor:
        half = len(x) // 2
        speeds = torch.tensor([10_000.0 ** (-i / half) for i in range(half)], dtype=x.dtype)
        number = torch.complex(x[:half], x[half:]) * torch.polar(torch.ones_like(speeds), position * speeds)
        return torch.cat([number.real, number.imag])

    def attention(
        name: str, asking: Tensor, asked: Tensor, sees: Callable[[int, int], bool], turn: int | None
    ) -> Tensor:
        """`turn` is the position of the first of both, None for attention without positions."""
        key_weight, value_weight = weights[f"{name}.place.weight"].split(width)
        out = []
        for i, x in enumerate(asking):
            found = []
            for first in range(0, width, width // heads):
                at = slice(first, first + width // heads)
                query = weights[f"{name}.query.weight"][at] @ x
                keys = [key_weight[at] @ y for y in asked]
                if turn is not None:
                    query, keys = turned(query, turn + i), [turned(key, turn + j) for j, key in enumerate(keys)]
                seen = [j for j in range(len(asked)) if sees(i, j)]
                energies = torch.stack([query @ keys[j] / math.sqrt(width / heads) for j in seen])
                chosen = torch.stack([value_weight[at] @ asked[j] for j in seen])
                found.append(energies.softmax(0) @ chosen)
            out.append(weights[f"{name}.out.weight"] @ torch.cat(found))
        return torch.stack(out)

    def mlp(name: str, x: Tensor) -> Tensor:
        inner = norm(f"{name}.norm", x) @ weights[f"{name}.inner.weight"].T
        gelu = inner * (1 + torch.erf(inner / math.sqrt(2))) / 2
        return gelu @ weights[f"{name}.out.weight"].T

    if net.picture is not None:
        read = (weights["picture.weight"] @ source).view(PREFIX, width)
    else:
        read = weights["embedding.weight" if net.source_embedding is None else "source_embedding.weight"][source]
    length = len(read)
    words = torch.cat([weights["bos"].unsqueeze(0), weights["embedding.weight"][tokens[:-1]]]) * next(masks)
    if net.decoder_only:
        x = torch.cat([read, words])
        for layer in ("decoder.0", "decoder.1"):
            ones = [torch.ones(length, width, dtype=x.dtype)] * 2
            own, last = (torch.cat([one, one.new_ones(len(words), width) * next(masks)]) for one in ones)
            normed = norm(f"{layer}.own_norm", x)
            x = x + own * attention(f"{layer}.own", normed, normed, lambda i, j: j <= max(i, length - 1), -length)
            x = x + last * mlp(layer, x)
        return norm("norm", x[length:]) @ weights["embedding.weight"].T
    for layer in ("encoder.0", "encoder.1") if net.picture is None else ():
        normed = norm(f"{layer}.own_norm", read)
        read = read + attention(f"{layer}.own", normed, normed, lambda i, j: True, 0)
        read = read + mlp(layer, read)
    read, x = norm("source_norm", read), words
    for layer in ("decoder.0", "decoder.1"):
        normed = norm(f"{layer}.own_norm", x)
        x = x + attention(f"{layer}.own", normed, normed, lambda i, j: j <= i, 0) * next(masks)
        x = x + attention(f"{layer}.cross", norm(f"{layer}.cross_norm", x), read, lambda i, j: True, None) * next(masks)
        x = x + mlp(layer, x) * next(masks)
    return norm("norm", x) @ weights["embedding.weight"].T


@kinds
@dropouts
def test_it_is_the_network_of_the_textbook(kind, dropped: bool) -> None:
    net = model(**kind)
    dropout = drop(net, 4, TOKENS.shape[1], dropped)
    source = source_of(net)
    scores = net.score(net.encode(source), TOKENS, dropout)
    for b in range(len(TOKENS)):
        alone = source[b, : int(token_mask(source[b]).sum())] if net.picture is None else source[b]
        assert_near(scores.table()[b], plain(net, alone, TOKENS[b], None if dropout is None else dropout.kept[b]))


@kinds
@dropouts
def test_steps_with_the_cache_are_the_scores(kind, dropped: bool) -> None:
    net = model(**kind)
    assert isinstance(net, Policy)
    dropout, memory = drop(net, 4, TOKENS.shape[1], dropped), net.encode(source_of(net))
    scores = net.score(memory, TOKENS, dropout)
    assert isinstance(scores, Linear)
    assert scores.weight is net.embedding.weight
    assert scores.bias is None
    assert_near(scores.features, net.hidden(memory, TOKENS, dropout))
    assert_near(scores.features, by_steps(net, memory, TOKENS, dropout))
    if dropout is not None:
        assert differ(scores.features, net.hidden(memory, TOKENS))


@kinds
def test_a_token_is_seen_by_those_after_it_alone(kind) -> None:
    net = model(**kind)
    memory = net.encode(source_of(net))
    scores = net.score(memory, TOKENS).table()
    for t in range(TOKENS.shape[1] - 1):
        other = TOKENS.clone()
        other[:, t] = 7
        found = net.score(memory, other).table()
        assert torch.equal(found[:, : t + 1], scores[:, : t + 1])
        for later in range(t + 1, TOKENS.shape[1]):
            assert differ(found[:, later], scores[:, later])


def paddings() -> dict[str, Tensor]:
    """The same sources in wider batches."""
    side = torch.full((4, 2), ABSENT)
    absent = SOURCE.masked_fill(~token_mask(SOURCE), ABSENT)
    return {
        "eos": nn.functional.pad(SOURCE, (0, 3), value=EOS),
        "absent": nn.functional.pad(absent, (0, 3), value=ABSENT),
        "anything": torch.cat([nn.functional.pad(SOURCE, (0, 1), value=EOS), side + 9], 1),
        "on the left": torch.cat([side, absent], 1),
    }


@readers
@pytest.mark.parametrize("padded", paddings().values(), ids=paddings())
def test_padding_leaves_no_trace(kind, padded: Tensor) -> None:
    net = model(**kind)
    memory = net.encode(padded)
    features = net.hidden(memory, TOKENS)
    for b in range(len(SOURCE)):
        alone = net.encode(SOURCE[b : b + 1, : int(token_mask(SOURCE[b]).sum())])
        assert alone.mask.all()
        assert_near(memory.states[b][memory.mask[b]], alone.states[0])
        assert_near(features[b], net.hidden(alone, TOKENS[b : b + 1])[0])


@readers
def test_a_source_that_nothing_closes_ends_at_its_absent_ids(kind) -> None:
    net = model(**kind)
    padded = torch.tensor([[2, 3, ABSENT, ABSENT], [4, 5, 6, 7]])
    memory = net.encode(padded)
    assert memory.mask.tolist() == [[True, True, False, False], [True] * 4]
    assert_near(net.hidden(memory, TOKENS[:2])[:1], net.hidden(net.encode(padded[:1, :2]), TOKENS[:1]))


@readers
def test_padding_gets_no_gradient(kind) -> None:
    net = model(**kind)
    longer = torch.cat([SOURCE, torch.full((len(SOURCE), 2), 8)], 1)[1:3]
    net.hidden(net.encode(longer), TOKENS[1:3]).square().sum().backward()
    gradient = (net.source_embedding or net.embedding).weight.grad
    assert gradient[8].abs().max() == 0
    assert gradient[6].abs().max() > 0


@readers
def test_a_row_without_any_source_harms_nobody(kind) -> None:
    net = model(**kind)
    source = torch.stack([torch.full((5,), ABSENT), SOURCE[0]])
    memory = net.encode(source)
    features = net.hidden(memory, TOKENS[:2])
    assert features.isfinite().all()
    assert memory.mask[0].tolist() == [True] + [False] * 4
    assert_near(features[1:], net.hidden(net.encode(SOURCE[:1]), TOKENS[1:2]))
    features.square().sum().backward()
    assert all(weight.grad.isfinite().all() for weight in net.parameters())


@readers
def test_another_symbol_may_close_the_source(kind) -> None:
    """Source and result have alphabets of their own: 8 ends the one, 0 the other."""
    net, other = model(**kind), model(source_eos=8, **kind)
    swap = torch.tensor([8, 1, 2, 3, 4, 5, 6, 7, 0])
    embedding = other.source_embedding or other.embedding
    embedding.weight.data = embedding.weight.data[swap]
    mine, theirs = other.encode(swap[SOURCE]), net.encode(SOURCE)
    assert torch.equal(mine.ids, swap[SOURCE])
    for part in ("states", "mask", "places"):
        torch.testing.assert_close(getattr(mine, part), getattr(theirs, part), atol=1e-12, rtol=0)


@kinds
@pytest.mark.parametrize("steps", [0, 3])
def test_rows_are_selected_and_joined(kind, steps: int) -> None:
    """At the start, where the cache of the tokens is empty, and later."""
    net, order = model(**kind), torch.tensor([2, 0, 0, 3])
    source = source_of(net)

    def after(source: Tensor, tokens: Tensor) -> tuple[Any, Any]:
        memory = net.encode(source)
        state, token = net.start(memory), None
        for t in range(steps):
            _, state = net.step(memory, state, token)
            token = tokens[:, t]
        return memory, state

    memory, state = after(source, TOKENS)
    for whole, chosen in zip((memory, state), after(source[order], TOKENS[order]), strict=True):
        assert whole.rows == 4
        for one, other in zip(parts(whole.select(order)), parts(chosen), strict=True):
            torch.testing.assert_close(one, other, atol=1e-12, rtol=0)
        first, second = whole.select(torch.tensor([0])), whole.select(torch.tensor([1, 2, 3]))
        for one, other in zip(parts(first.join(second)), parts(whole), strict=True):
            assert torch.equal(one, other)
    token = TOKENS[:, 4]
    scores, _ = net.step(memory, state, token)
    again, _ = net.step(memory.select(order), state.select(order), token[order])
    assert_near(scores.features[order], again.features)
    assert state.places.shape == (4, 2, 2, 2, steps + (memory.mask.shape[1] if net.decoder_only else 0), 4)


@kinds
def test_attention_is_a_distribution_over_the_source(kind) -> None:
    net = model(**kind)
    memory = net.encode(source_of(net))
    state, token = net.start(memory), None
    assert state.attention.eq(0).all()
    for t in range(3):
        _, state = net.step(memory, state, token)
        token = TOKENS[:, t]
        assert isinstance(state, Attends)
        assert_near(state.attention.sum(1), torch.ones(4, dtype=torch.float64))
        assert state.attention[~memory.mask].eq(0).all()
        assert state.attention[memory.mask].gt(0).all()


def test_attention_tells_what_the_last_layer_took_from_the_source() -> None:
    """With values that are the numbers of their places, what is found is where the network looked."""
    net = model()
    memory = net.encode(SOURCE)
    _, state = net.step(memory, net.start(memory), TOKENS[:, 0])
    last, taken = net.decoder[-1].cross, []
    handle = last.register_forward_hook(lambda module, given, out: taken.append(given))
    net.step(memory, net.start(memory), TOKENS[:, 0])
    handle.remove()
    ((queries, places, seen),) = taken
    values = torch.eye(5, dtype=torch.float64).expand(4, 2, 5, 5)
    looked = nn.functional.scaled_dot_product_attention(queries, places[:, 0], values, seen)
    assert_near(state.attention, looked.mean(1).squeeze(1))


@pytest.mark.parametrize("causal", [False, True])
def test_an_attention_is_torch_s_own(causal: bool) -> None:
    mine, theirs = Attention(8, 2).double(), nn.MultiheadAttention(8, 2, bias=False, batch_first=True).double()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([mine.query.weight, mine.place.weight]))
        theirs.out_proj.weight.copy_(mine.out.weight)
    x, y = torch.randn(2, 4, 5, 8, dtype=torch.float64, generator=generator())
    mask = token_mask(SOURCE)
    if causal:
        found = mine(mine.queries(x), mine.places(x), None)
        expected, _ = theirs(x, x, x, attn_mask=~torch.ones(5, 5).bool().tril())
    else:
        found = mine(mine.queries(x), mine.places(y), mask[:, None, None])
        expected, _ = theirs(x, y, y, key_padding_mask=~mask)
    assert_near(found, expected)


def test_products_of_turned_vectors_depend_on_distance_alone() -> None:
    q, k = torch.randn(2, 1, 1, 5, 6, dtype=torch.float64, generator=generator())
    here = torch.tensor([0, 1, 2, 5, 9])

    def products(shift: int, stretch: int = 1) -> Tensor:
        turn = rotation(stretch * here + shift, 6, torch.float64)
        return rotate(q, turn) @ rotate(k, turn).mT

    assert_near(rotate(q, rotation(0 * here, 6, torch.float64)), q)
    assert_near(products(0), products(3))
    assert_near(products(0), products(-11))
    assert differ(products(0), products(0, stretch=2))
    assert_near(products(0).diagonal(dim1=-2, dim2=-1), (q * k).sum(-1))
    backwards = rotate(q, rotation(-here, 6, torch.float64)) @ rotate(k, rotation(-here, 6, torch.float64)).mT
    assert differ(products(0), backwards)  # before is not after


@kinds
def test_search_and_sampling_run_on_it(kind) -> None:
    net = model(**kind).eval()
    memory = net.encode(source_of(net))
    words, best = greedy(net, memory, 6), beam(net, memory, 6, width=1)
    assert torch.equal(words, best.tokens[:, 0])
    wide = beam(net, memory, 6, width=4, n_best=2)
    logp = net.score(memory, wide.tokens[:, 0]).table().log_softmax(-1)
    real = token_mask(wide.tokens[:, 0])
    real[:, 5:] = False  # at the bound eos is certain
    taken = logp.gather(-1, wide.tokens[:, 0].unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(wide.logp[:, 0].double(), (taken * real).sum(1), atol=1e-5, rtol=0)
    assert (wide.attended < memory.mask.sum(1)[:, None, None]).all()
    assert torch.equal(drawn(net, None), drawn(net, None))


def drawn(net: TransformerNetwork, dropout: Dropout | None) -> Tensor:
    memory = net.encode(source_of(net))
    return sample(net, memory, 6, torch.rand(4, 6, generator=generator(5), dtype=torch.float64), dropout)


@kinds
def test_a_sample_saw_the_network_that_the_gradient_sees(kind) -> None:
    """The numbers that drew the words find the same ones in the cumulative sums of `score`, dropout included."""
    net = model(**kind)
    dropout = net.drop(6, Noise(generator(3), 4))
    assert dropout is not None
    tokens = drawn(net, dropout)
    heights = net.score(net.encode(source_of(net)), tokens, dropout).table().softmax(-1).cumsum(-1)
    uniform = torch.rand(4, 6, generator=generator(5), dtype=torch.float64)[:, : tokens.shape[1]]
    expected = (uniform.unsqueeze(-1) >= heights).sum(-1)
    real = token_mask(tokens)
    real[:, 5:] = False
    assert torch.equal(expected[real], tokens[real])
    assert not torch.equal(tokens, nn.functional.pad(drawn(net, None), (0, 9))[:, : tokens.shape[1]])


class Run(nn.Module):
    """Scores as a function of the weights."""

    def __init__(self, net: TransformerNetwork, source: Tensor, tokens: Tensor, dropout: Dropout | None) -> None:
        super().__init__()
        self.net, self.rest = net, (source, tokens, dropout)

    def forward(self) -> Tensor:
        source, tokens, dropout = self.rest
        return self.net.score(self.net.encode(source), tokens, dropout).table()


@kinds
def test_gradient(kind) -> None:
    net = model(**kind)
    source, tokens = source_of(net)[:2], TOKENS[:2, :3]
    run = Run(net, source, tokens, net.drop(3, Noise(generator(), 2)))
    names = [name for name, _ in run.named_parameters()]

    def scores(*weights: Tensor) -> Tensor:
        return torch.func.functional_call(run, dict(zip(names, weights, strict=True)), ())

    weights = [p.detach().clone().requires_grad_() for p in net.parameters()]
    assert torch.autograd.gradcheck(scores, weights, fast_mode=True)
    scores(*weights).square().sum().backward()
    assert all(weight.grad.abs().max() > 0 for weight in weights)


def test_the_fused_path_reaches_the_tied_embedding_twice() -> None:
    net = model()
    real = token_mask(TOKENS)

    def gradients(loss: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(loss, list(net.parameters()))

    scores = net.score(net.encode(SOURCE), TOKENS)
    words = TOKENS[real]
    fused = gradients(cross_entropy(Table(scores.features[real], scores.weight), words)[0])
    scores = net.score(net.encode(SOURCE), TOKENS)
    table = gradients(nn.functional.cross_entropy(scores.table()[real], words, reduction="sum"))
    for mine, theirs in zip(fused, table, strict=True):
        assert_near(mine, theirs)


def test_dropout_is_drawn_by_the_caller() -> None:
    net = model()
    dropout = net.drop(50, Noise(generator(), 4))
    assert dropout is not None
    assert dropout.kept.shape == (4, 50, (1 + 2 * 3) * 8)
    assert set(dropout.kept.unique().tolist()) == {0.0, 1 / 0.9}
    assert abs(dropout.kept.eq(0).double().mean() - 0.1) < 0.01
    assert model(**KINDS["one stack"]).drop(2, Noise(generator(), 4)).kept.shape == (4, 2, (1 + 2 * 2) * 8)
    assert model(dropout=0.0).drop(2, Noise(generator(), 4)) is None
    assert net.eval().drop(2, Noise(generator(), 4)) is None


def test_nothing_is_drawn_behind_the_caller_s_back() -> None:
    net = model()
    before = torch.get_rng_state()
    memory = net.encode(SOURCE)
    scores = net.hidden(memory, TOKENS, net.drop(5, Noise(generator(), 4)))
    greedy(net, memory, 4)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(scores, net.hidden(memory, TOKENS, net.drop(5, Noise(generator(), 4))))


@kinds
def test_first_weights_are_a_function_of_the_generator(kind) -> None:
    kind = {"source": WORDS} | kind
    one, same, other = (TransformerNetwork(alphabet=WORDS, generator=generator(s), **kind) for s in (0, 0, 1))
    for name, weight in one.named_parameters():
        assert torch.equal(weight, dict(same.named_parameters())[name])
        if "norm" in name:
            assert weight.eq(1).all()
            continue
        assert differ(weight, dict(other.named_parameters())[name])
        expected = 0.02 / math.sqrt(6) if name.endswith("out.weight") else 0.02
        assert abs(weight.std() / expected - 1) < 0.15
    assert set(one.state_dict()) == {name for name, _ in one.named_parameters()}
    assert not any("bias" in name for name in one.state_dict())


@kinds
def test_autocast(kind) -> None:
    net = model(**kind).float().eval()
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(0.5)
    source = source_of(net)
    exact = net.score(net.encode(source), TOKENS).table()
    with torch.autocast("cpu", torch.bfloat16):
        memory = net.encode(source)
        rough = net.score(memory, TOKENS).table()
        steps = nn.functional.linear(by_steps(net, memory, TOKENS), net.embedding.weight)
        assert rough.dtype == memory.places.dtype == torch.bfloat16
        assert beam(net, memory, 4, width=2).logp.isfinite().all()
    torch.testing.assert_close(rough.float(), exact, atol=0.05, rtol=0)
    torch.testing.assert_close(rough, steps, atol=0.05, rtol=0)
    rough.float().square().sum().backward()
    assert all(weight.grad.isfinite().all() for weight in net.parameters())


def test_a_number_stands_for_an_alphabet_of_words() -> None:
    own = Alphabet(WORDS, 5, None, torch.arange(WORDS) > 1)
    assert TransformerNetwork(WORDS, WORDS, 8, 1, 2).alphabet == Alphabet(WORDS)
    assert TransformerNetwork(WORDS, own, 8, 1, 2).alphabet is own


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"width": 12, "heads": 4}, "width = 12, heads = 4: choose a width that 2 x heads divides"),
        ({"alphabet": 7, "alike": True}, "source = 9: what reads the 7 ids that it writes has 7"),
    ],
)
def test_options_that_no_network_can_have(options, says: str) -> None:
    with pytest.raises(UserError, match=says):
        TransformerNetwork(**{"source": WORDS, "alphabet": WORDS} | options)


def strings(number: int, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """Strings of 4 symbols, and the same backwards."""
    words = torch.randint(2, 6, (number, 4), generator=source).tolist()
    return pad(words), pad([word[::-1] for word in words])


@readers
def test_it_learns_to_write_backwards(kind) -> None:
    fresh, updates = generator(), 300
    net = TransformerNetwork(6, 6, width=32, layers=2, heads=4, dropout=0.0, generator=fresh, **kind)
    optimizer = torch.optim.Adam(net.parameters(), 4e-3, fused=True)
    slower = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, updates)
    for _ in range(updates):
        source, tokens = strings(32, fresh)
        logits = net.score(net.encode(source), tokens).table()
        optimizer.zero_grad()
        nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()
        slower.step()
    source, tokens = strings(256, fresh)
    found = greedy(net, net.encode(source), 6)
    assert found.shape == tokens.shape
    assert (found == tokens).all(1).double().mean() > 0.95


@kinds
@dropouts
def test_gradient_checkpointing_changes_memory_alone(kind: dict[str, Any], dropped: bool) -> None:
    net, found = model(**kind), []
    net.train()
    for on in (False, True):
        assert net.recompute(on)
        with measured() as kept:
            memory = net.encode(source_of(net))
            loss = (
                net.score(memory, TOKENS, drop(net, 4, TOKENS.shape[1], dropped)).table().log_softmax(-1)[..., 3].sum()
            )
        found.append((loss, torch.autograd.grad(loss, [*net.parameters()], allow_unused=True), kept[0]))
    (plain, exact, much), (small, again, little) = found
    assert_near(small, plain)
    for one, other in zip(again, exact, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=0, atol=1e-10)
    assert little < 0.5 * much
