"""The network against padding, against torch's own LSTM, and against finite differences."""

import pytest
import torch
from torch import Tensor

from models.small import (
    ACTIONS,
    KINDS,
    SOURCE,
    TOKENS,
    WORDS,
    assert_near,
    by_steps,
    generator,
    kinds,
    model,
    parts,
)
from seqcredit.draws import Noise
from seqcredit.errors import UserError
from seqcredit.models.build import LSTM
from seqcredit.models.lstm import Seq2Seq
from seqcredit.options import build
from seqcredit.types import EOS, Alphabet, pad, token_mask


@kinds
def test_padding_and_company_change_nothing(kind) -> None:
    """A sentence alone, without padding, against the same one in a batch with more columns of eos."""
    net = model(**kind)
    wide = torch.nn.functional.pad(SOURCE, (0, 3), value=EOS)
    more = torch.nn.functional.pad(TOKENS, (0, 2), value=EOS)
    memory = net.encode(wide)
    features = net.score(memory, more).features
    for b in range(len(SOURCE)):
        source, tokens = SOURCE[b : b + 1, : int(token_mask(SOURCE[b]).sum())], TOKENS[b : b + 1]
        alone = net.encode(source)
        length = source.shape[1]
        assert_near(memory.states[b, :length], alone.states[0])
        assert_near(memory.h[b], alone.h[0])
        assert_near(memory.c[b], alone.c[0])
        assert memory.mask[b].sum() == length
        assert_near(features[b, : tokens.shape[1]], net.score(alone, tokens).features[0])


@kinds
def test_padding_gets_no_gradient(kind) -> None:
    """What stands behind the first eos is never read, so its embedding could be anything."""
    net = model(**kind)
    longer = torch.cat([SOURCE, torch.full((len(SOURCE), 2), 8)], 1)  # (4, 7)
    assert_near(net.score(net.encode(longer), TOKENS).features, net.score(net.encode(SOURCE), TOKENS).features)
    net.score(net.encode(longer[1:3]), TOKENS[1:3]).features.square().sum().backward()
    assert net.source_embedding.weight.grad[8].abs().max() == 0
    assert net.source_embedding.weight.grad[6].abs().max() > 0


@kinds
def test_order_of_the_batch_does_not_matter(kind) -> None:
    net = model(**kind)
    order = torch.tensor([2, 0, 3, 1])
    memory = net.encode(SOURCE)
    for field, shuffled in zip(parts(memory.select(order)), parts(net.encode(SOURCE[order])), strict=True):
        torch.testing.assert_close(field, shuffled, atol=1e-12, rtol=0)
    whole = net.score(memory, TOKENS).features
    assert_near(whole[order], net.score(memory.select(order), TOKENS[order]).features)


@kinds
def test_another_symbol_may_close_the_source(kind) -> None:
    """Source and result have alphabets of their own: 8 ends the one, 0 the other."""
    net, other = model(**kind), model(source_eos=8, **kind)
    swap = torch.tensor([8, 1, 2, 3, 4, 5, 6, 7, 0])
    other.source_embedding.weight.data = net.source_embedding.weight.data[swap]
    for mine, theirs in zip(parts(other.encode(swap[SOURCE])), parts(net.encode(SOURCE)), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-12, rtol=0)


def test_single_precision_holds_as_exactly() -> None:
    """The kernels of float32 are others than those of float64."""
    net = Seq2Seq(WORDS, ACTIONS, generator=generator())
    wide = torch.nn.functional.pad(SOURCE, (0, 20), value=EOS)
    for b, length in enumerate(token_mask(SOURCE).sum(1)):
        for field, alone in zip(parts(net.encode(wide)), parts(net.encode(SOURCE[b : b + 1, :length])), strict=True):
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
    scores, state = net.step(memory, net.start(memory), None)
    for b in range(len(SOURCE)):
        h, energies = state.h[b, -1], []
        states = memory.states[b, : int(memory.mask[b].sum())]
        for m in states:
            if attention == "dot":
                energies.append((h * m).sum())
            else:
                inner = torch.tanh(net.scorer.query.weight @ h + net.scorer.key.weight @ m)
                energies.append((net.scorer.energy.weight[0] * inner).sum())
        weights = torch.softmax(torch.stack(energies), 0)
        assert_near(state.attention[b, : len(states)], weights)
        assert state.attention[b, len(states) :].eq(0).all()
        assert_near(scores.features[b], torch.tanh(net.combine.weight @ torch.cat([h, weights @ states])))


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[-1]], ids=["plain", "all"])
def test_gradient(kind) -> None:
    net = model(scale=3.0, **kind)
    source, tokens = pad([[2, 3], []]), pad([[2], [3, 4]])
    dropout = net.drop(3, Noise(generator(), 2))
    assert dropout is not None
    names = [name for name, _ in net.named_parameters()]

    def scores(*weights: Tensor) -> Tensor:
        return torch.func.functional_call(Run(net), dict(zip((f"net.{n}" for n in names), weights, strict=True)), ())

    class Run(torch.nn.Module):
        def __init__(self, net: Seq2Seq) -> None:
            super().__init__()
            self.net = net

        def forward(self) -> Tensor:
            return self.net.score(self.net.encode(source), tokens, dropout).table()

    weights = [p.detach().clone().requires_grad_() for p in net.parameters()]
    assert torch.autograd.gradcheck(scores, weights, fast_mode=True)
    scores(*weights).square().sum().backward()
    assert all(w.grad.abs().max() > 0 for w in weights)


def test_a_number_stands_for_an_alphabet_of_words() -> None:
    assert model().alphabet == Alphabet(ACTIONS)
    own = Alphabet(ACTIONS, 5, None, torch.arange(ACTIONS) > 1)
    net = model(alphabet=own)
    assert net.alphabet[:3] == own[:3]
    assert torch.equal(net.alphabet.actions, own.actions)
    assert net.readout.out_features == net.embedding.num_embeddings == ACTIONS


def test_the_state_dict_holds_weights_alone() -> None:
    net = model()
    assert set(net.state_dict()) == {name for name, _ in net.named_parameters()}


@kinds
def test_autocast(kind) -> None:
    net = Seq2Seq(WORDS, ACTIONS, generator=generator(), **kind)
    exact = net.score(net.encode(SOURCE), TOKENS).table()
    with torch.autocast("cpu", torch.bfloat16):
        memory = net.encode(SOURCE)
        rough = net.score(memory, TOKENS).table()
        steps = net.readout(by_steps(net, memory, TOKENS))
    torch.testing.assert_close(rough.float(), exact, atol=0.02, rtol=0)
    real = token_mask(TOKENS)
    torch.testing.assert_close(rough[real], steps[real], atol=0.01, rtol=0)
    rough.float().square().sum().backward()
    assert all(weight.grad.isfinite().all() for weight in net.parameters())


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"hidden": 5}, "hidden is 5, but it must be an even number"),
        ({"attention": "dots"}, "attention is 'dots', but it must be one of dot, mlp, none"),
        ({"dropout": 1.0}, "dropout is 1.0, but it must be from 0 up to"),
    ],
)
def test_options_that_no_network_can_have(wrong, says) -> None:
    with pytest.raises(UserError, match=says):
        build(LSTM, wrong, "actor")


def test_layers_are_used() -> None:
    shallow, deep = model(layers=1), model(layers=2)
    assert len(list(deep.parameters())) > len(list(shallow.parameters()))
    assert deep.encode(SOURCE).h.shape == (4, 2, 4)


@pytest.mark.parametrize(("feeding", "width"), [(True, 4), (False, 0)])
def test_the_last_attention_vector_is_fed_back_if_that_is_asked_for(feeding: bool, width: int) -> None:
    net = model(input_feeding=feeding)
    memory = net.encode(SOURCE)
    scores, state = net.step(memory, net.start(memory), None)
    assert state.fed.shape == (4, width)
    assert torch.equal(state.fed, scores.features[:, :width])
