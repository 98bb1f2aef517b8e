"""The network against itself step by step, against padding, and against finite differences."""

import pytest
import torch
from torch import Tensor

from seqcredit.draws import Noise
from seqcredit.errors import UserError
from seqcredit.models import lstm
from seqcredit.models.lstm import Seq2Seq, _check
from seqcredit.models.memory import Memory, repeat, select
from seqcredit.types import EOS, pad, token_mask

ACTIONS, WORDS = 6, 9
SOURCE = pad([[2, 3, 4, 5], [6], [], [7, 8, 2]])  # (4, 5)
TOKENS = pad([[3, 2], [5, 4, 3, 2], [2], []])  # (4, 5)
KINDS = [
    {"attention": attention, "input_feeding": feeding, "layers": layers}
    for attention in ("dot", "mlp")
    for feeding in (False, True)
    for layers in (1, 2)
]
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(str(value) for value in kind.values()))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def model(seed: int = 0, scale: float = 6.0, **kind) -> Seq2Seq:
    """Small, exact, and with weights large enough for every part to matter."""
    net = Seq2Seq(WORDS, ACTIONS, embedding=3, hidden=4, generator=generator(seed), **kind).double()
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(scale)
    return net


def by_steps(net: Seq2Seq, memory: Memory, tokens: Tensor, masks: Tensor | None = None) -> Tensor:
    state, token, out = net.start(memory), None, []
    for t in range(tokens.shape[1]):
        features, state = net.step(memory, state, token, None if masks is None else masks[:, t])
        out.append(features)
        token = tokens[:, t]
    return torch.stack(out, 1)


def assert_near(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


def differ(a: Tensor, b: Tensor) -> bool:
    return bool((a - b).abs().max() > 1e-4)


@kinds
@pytest.mark.parametrize("dropped", [False, True])
def test_features_are_repeated_steps(kind, dropped) -> None:
    net = model(**kind)
    memory = net.encode(SOURCE)
    masks = net.masks(TOKENS.shape[1], Noise(generator(), len(TOKENS))) if dropped else None
    assert_near(net.features(memory, TOKENS, masks), by_steps(net, memory, TOKENS, masks))


@kinds
def test_a_token_changes_no_feature_up_to_its_own(kind) -> None:
    net = model(**kind)
    memory = net.encode(SOURCE)
    before = net.features(memory, TOKENS)
    for t in range(TOKENS.shape[1] - 1):
        changed = TOKENS.clone()
        changed[:, t] = (changed[:, t] + 1) % ACTIONS
        after = net.features(memory, changed)
        assert torch.equal(after[:, : t + 1], before[:, : t + 1])
        assert differ(after[:, t + 1], before[:, t + 1])


@kinds
def test_the_first_feature_knows_the_source_and_bos_alone(kind) -> None:
    net = model(**kind)
    memory = net.encode(SOURCE)
    assert_near(net.features(memory, TOKENS)[:, 0], net.step(memory, net.start(memory), None)[0])
    with torch.no_grad():
        net.bos.add_(1)
    assert differ(net.features(memory, TOKENS)[:, 0], by_steps(model(**kind), memory, TOKENS)[:, 0])


@kinds
def test_padding_and_company_change_nothing(kind) -> None:
    """A sentence alone, without padding, against the same one in a batch with more columns of eos."""
    net = model(**kind)
    wide = torch.nn.functional.pad(SOURCE, (0, 3), value=EOS)
    more = torch.nn.functional.pad(TOKENS, (0, 2), value=EOS)
    memory = net.encode(wide)
    features = net.features(memory, more)
    for b in range(len(SOURCE)):
        source, tokens = SOURCE[b : b + 1, : int(token_mask(SOURCE[b]).sum())], TOKENS[b : b + 1]
        alone = net.encode(source)
        length = source.shape[1]
        assert_near(memory.states[b, :length], alone.states[0])
        assert_near(memory.h[b], alone.h[0])
        assert_near(memory.c[b], alone.c[0])
        assert memory.mask[b].sum() == length
        assert_near(features[b, : tokens.shape[1]], net.features(alone, tokens)[0])


@kinds
def test_padding_gets_no_gradient(kind) -> None:
    """What stands behind the first eos is never read, so its embedding could be anything."""
    net = model(**kind)
    longer = torch.cat([SOURCE, torch.full((len(SOURCE), 2), 8)], 1)  # (4, 7)
    assert_near(net.features(net.encode(longer), TOKENS), net.features(net.encode(SOURCE), TOKENS))
    net.features(net.encode(longer[1:3]), TOKENS[1:3]).square().sum().backward()
    assert net.source_embedding.weight.grad[8].abs().max() == 0
    assert net.source_embedding.weight.grad[6].abs().max() > 0


@kinds
def test_order_of_the_batch_does_not_matter(kind) -> None:
    net = model(**kind)
    order = torch.tensor([2, 0, 3, 1])
    memory = net.encode(SOURCE)
    for field, shuffled in zip(select(memory, order), net.encode(SOURCE[order]), strict=True):
        torch.testing.assert_close(field, shuffled, atol=1e-12, rtol=0)
    assert_near(net.features(memory, TOKENS)[order], net.features(select(memory, order), TOKENS[order]))


def test_single_precision_holds_as_exactly() -> None:
    """The kernels of float32 are others than those of float64."""
    net = Seq2Seq(WORDS, ACTIONS, generator=generator())
    wide = torch.nn.functional.pad(SOURCE, (0, 20), value=EOS)
    for b, length in enumerate(token_mask(SOURCE).sum(1)):
        for field, alone in zip(net.encode(wide), net.encode(SOURCE[b : b + 1, :length]), strict=True):
            if field.is_floating_point():
                size = min(field.shape[1], alone.shape[1])
                torch.testing.assert_close(field[b, :size], alone[0, :size], atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize("layers", [1, 2])
def test_the_encoder_is_a_bidirectional_lstm(layers) -> None:
    """torch's own, with packing; and the decoder starts from its last states."""
    net = model(layers=layers)
    packed = torch.nn.utils.rnn.pack_padded_sequence(
        net.source_embedding(SOURCE), token_mask(SOURCE).sum(1), batch_first=True, enforce_sorted=False
    )
    memory = net.encode(SOURCE)
    for layer, reader in enumerate(net.encoder):
        packed, (h, c) = reader(packed)
        assert_near(memory.h[:, layer], torch.cat([h[0], h[1]], -1))
        assert_near(memory.c[:, layer], torch.cat([c[0], c[1]], -1))
    states, lengths = torch.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    for b, length in enumerate(lengths):
        assert_near(memory.states[b, :length], states[b, :length])


@pytest.mark.parametrize("attention", ["dot", "mlp"])
def test_attention_is_what_it_is_called(attention) -> None:
    net = model(attention=attention)
    memory = net.encode(SOURCE)
    features, state = net.step(memory, net.start(memory), None)
    for b in range(len(SOURCE)):
        h, scores = state.h[b, -1], []
        states = memory.states[b, : int(memory.mask[b].sum())]
        for m in states:
            if attention == "dot":
                scores.append((h * m).sum())
            else:
                inner = torch.tanh(net.scorer.query.weight @ h + net.scorer.key.weight @ m)
                scores.append((net.scorer.energy.weight[0] * inner).sum())
        weights = torch.softmax(torch.stack(scores), 0)
        assert_near(state.attention[b, : len(states)], weights)
        assert state.attention[b, len(states) :].eq(0).all()
        assert_near(features[b], torch.tanh(net.combine.weight @ torch.cat([h, weights @ states])))


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[-1]], ids=["plain", "all"])
def test_gradient(kind) -> None:
    net = model(scale=3.0, **kind)
    source, tokens = pad([[2, 3], []]), pad([[2], [3, 4]])
    masks = net.masks(3, Noise(generator(), 2))
    names = [name for name, _ in net.named_parameters()]

    def scores(*weights: Tensor) -> Tensor:
        return torch.func.functional_call(Run(net), dict(zip((f"net.{n}" for n in names), weights, strict=True)), ())

    class Run(torch.nn.Module):
        def __init__(self, net: Seq2Seq) -> None:
            super().__init__()
            self.net = net

        def forward(self) -> Tensor:
            memory = self.net.encode(source)
            return self.net.readout(self.net.features(memory, tokens, masks))

    weights = [p.detach().clone().requires_grad_() for p in net.parameters()]
    assert torch.autograd.gradcheck(scores, weights, fast_mode=True)
    scores(*weights).square().sum().backward()
    assert all(w.grad.abs().max() > 0 for w in weights)


def test_masks_are_inverted_dropout_while_training() -> None:
    net = Seq2Seq(WORDS, ACTIONS, hidden=8, dropout=0.25, generator=generator())
    masks = net.masks(40, Noise(generator(), 50))
    assert masks.shape == (50, 40, 8)
    assert masks.unique().tolist() == pytest.approx([0, 4 / 3])
    assert masks.mean() == pytest.approx(1, abs=0.02)
    assert torch.equal(masks, net.masks(40, Noise(generator(), 50)))
    assert not torch.equal(masks, net.masks(40, Noise(generator(1), 50)))
    assert net.eval().masks(40, Noise(generator(), 50)) is None
    assert Seq2Seq(WORDS, ACTIONS, dropout=0.0).masks(40, Noise(generator(), 50)) is None


def test_masks_multiply_the_attention_vector_and_what_is_fed() -> None:
    net = model(input_feeding=True)
    memory, masks = net.encode(SOURCE), net.masks(TOKENS.shape[1], Noise(generator(), len(TOKENS)))
    whole, dropped = net.features(memory, TOKENS), net.features(memory, TOKENS, masks)
    assert_near(dropped[:, 0], whole[:, 0] * masks[:, 0])
    assert differ(dropped[:, 1], whole[:, 1] * masks[:, 1])
    assert_near(net.step(memory, net.start(memory), None, masks[:, 0])[1].fed, dropped[:, 0])
    plain = model()
    assert_near(plain.features(memory, TOKENS, masks), plain.features(memory, TOKENS) * masks)


def test_modules_have_no_dropout_of_their_own() -> None:
    net = model().train()
    assert_near(net.features(net.encode(SOURCE), TOKENS), net.features(net.encode(SOURCE), TOKENS))


def test_weights_start_uniform_within_a_tenth_and_from_the_seed() -> None:
    nets = [Seq2Seq(WORDS, ACTIONS, attention="mlp", generator=generator(seed)) for seed in (3, 3, 4)]
    for same, again, other in zip(*(net.parameters() for net in nets), strict=True):
        assert same.abs().max() <= 0.1
        assert same.numel() < 100 or same.abs().max() > 0.09
        assert torch.equal(same, again)
        assert not torch.equal(same, other)


def test_the_state_dict_holds_weights_alone() -> None:
    net = model()
    assert set(net.state_dict()) == {name for name, _ in net.named_parameters()}


def test_copies_share_one_reading() -> None:
    net = model()
    tokens = torch.cat([TOKENS, TOKENS.roll(1, 1)])[torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])]
    twice = net.features(repeat(net.encode(SOURCE), 2), tokens)
    assert_near(twice, net.features(net.encode(SOURCE.repeat_interleave(2, 0)), tokens))


@kinds
def test_autocast(kind) -> None:
    net = Seq2Seq(WORDS, ACTIONS, generator=generator(), **kind)
    exact = net.readout(net.features(net.encode(SOURCE), TOKENS))
    with torch.autocast("cpu", torch.bfloat16):
        memory = net.encode(SOURCE)
        rough = net.readout(net.features(memory, TOKENS))
        steps = net.readout(by_steps(net, memory, TOKENS))
    torch.testing.assert_close(rough.float(), exact, atol=0.02, rtol=0)
    real = token_mask(TOKENS)
    torch.testing.assert_close(rough[real], steps[real], atol=0.01, rtol=0)
    rough.float().square().sum().backward()
    assert all(weight.grad.isfinite().all() for weight in net.parameters())


@pytest.mark.parametrize(
    ("wrong", "says"),
    [({"hidden": 5}, "even"), ({"attention": "dots"}, '"dot" or "mlp"'), ({"dropout": 1.0}, "rate")],
)
def test_errors_say_what_to_do(wrong, says) -> None:
    with pytest.raises(UserError, match=says):
        _check(**{"hidden": 4, "attention": "dot", "dropout": 0.0, **wrong})


def test_layers_are_used() -> None:
    shallow, deep = model(layers=1), model(layers=2)
    assert len(list(deep.parameters())) > len(list(shallow.parameters()))
    assert deep.encode(SOURCE).h.shape == (4, 2, 4)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("attention", ["dot", "mlp"])
def test_branches_are_features_computed_once(layers: int, attention: str) -> None:
    """Values and gradients along proposals that share their beginnings equal those along whole sequences."""
    from seqcredit.credit.proposals import corrupt_tokens
    from seqcredit.credit.tables import share

    generator = torch.Generator().manual_seed(0)
    model = Seq2Seq(9, 9, 4, 6, layers, attention, generator=generator).double()  # type: ignore[arg-type]
    references = pad([[2, 3, 4, 5], [6], [7, 8, 2]])
    noise = Noise(generator, 3)
    tokens, fork = corrupt_tokens(references, 4, 9, noise, 0.3)
    masks = model.masks(5, noise).double()
    packing = share(tokens, fork)
    results = []
    for shared in (True, False):
        model.zero_grad()
        memory = model.encode(pad([[2, 3], [4, 5, 6], [7]]))
        if shared:
            features = model.branches(memory, tokens, fork, masks)
        else:
            whole = model.features(repeat(memory, 4), tokens.flatten(0, 1), masks.repeat_interleave(4, 0))
            features = packing.take_states(whole.unflatten(0, (3, 4)))
        weights = torch.randn(features.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        (features * weights).sum().backward()
        results.append((features.detach(), [p.grad for p in model.parameters() if p.grad is not None]))
    assert len(packing.own) < int(token_mask(tokens).sum())
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("attention", ["dot", "mlp"])
@pytest.mark.parametrize("layers", [1, 2])
def test_a_wide_network_leaves_padding_out(monkeypatch, layers, attention) -> None:
    """The other way of `features`: the same values and gradients."""
    net, real = model(attention=attention, layers=layers), token_mask(TOKENS)

    def work() -> list[Tensor]:
        net.zero_grad()
        features = net.features(net.encode(SOURCE), TOKENS)[real]
        (features * torch.randn(features.shape, generator=generator(3), dtype=features.dtype)).sum().backward()
        return [features.detach(), *(weight.grad for weight in net.parameters() if weight.grad is not None)]

    assert not net._pays(real)
    usual = work()
    monkeypatch.setattr(lstm, "WIDE", 4)
    assert net._pays(real)
    assert not net._pays(torch.ones_like(real))
    for a, b in zip(work(), usual, strict=True):
        assert_near(a, b)
