"""The half that writes: all at once against step by step, dropout, branches, and padding left out."""

import pytest
import torch
from torch import Tensor

from models.small import (
    ACTIONS,
    SOURCE,
    TOKENS,
    WORDS,
    assert_near,
    by_steps,
    differ,
    generator,
    kinds,
    model,
)
from seqcredit.credit.proposals import corrupt_tokens
from seqcredit.credit.tables import share
from seqcredit.draws import Noise
from seqcredit.models import writer
from seqcredit.models.lstm import Seq2Seq
from seqcredit.models.policy import Branching, Dropout, Policy, repeat
from seqcredit.types import Alphabet, pad, token_mask

CPU = torch.device("cpu")


def dropped(net: Seq2Seq, length: int = TOKENS.shape[1], rows: int = len(TOKENS), seed: int = 0) -> Dropout:
    dropout = net.drop(length, Noise(generator(seed), rows))
    assert dropout is not None
    return dropout


def test_a_writer_is_a_policy_with_branches() -> None:
    assert isinstance(model(), Policy)
    assert isinstance(model(), Branching)


@kinds
@pytest.mark.parametrize("dropping", [False, True])
def test_scores_are_repeated_steps(kind, dropping) -> None:
    net = model(**kind)
    memory, dropout = net.encode(SOURCE), dropped(net) if dropping else None
    scores = net.score(memory, TOKENS, dropout)
    assert_near(scores.features, by_steps(net, memory, TOKENS, dropout))
    assert_near(scores.table(), scores.features @ net.readout.weight.T + net.readout.bias)
    first, _ = net.step(memory, net.start(memory), None, None if dropout is None else dropout.kept[:, 0])
    assert_near(first.table(), scores.table()[:, 0])


@kinds
def test_a_token_changes_no_feature_up_to_its_own(kind) -> None:
    net = model(**kind)
    memory = net.encode(SOURCE)
    before = net.score(memory, TOKENS).features
    for t in range(TOKENS.shape[1] - 1):
        changed = TOKENS.clone()
        changed[:, t] = (changed[:, t] + 1) % ACTIONS
        after = net.score(memory, changed).features
        assert torch.equal(after[:, : t + 1], before[:, : t + 1])
        assert differ(after[:, t + 1], before[:, t + 1])


@kinds
def test_the_first_feature_knows_the_source_and_bos_alone(kind) -> None:
    net = model(**kind)
    memory = net.encode(SOURCE)
    assert_near(net.score(memory, TOKENS).features[:, 0], net.step(memory, net.start(memory), None)[0].features)
    with torch.no_grad():
        net.bos.add_(1)
    assert differ(net.score(memory, TOKENS).features[:, 0], by_steps(model(**kind), memory, TOKENS)[:, 0])


def test_nothing_is_fed_and_nothing_looked_at_before_the_first_word() -> None:
    net = model(input_feeding=True)
    state = net.start(net.encode(SOURCE))
    assert state.fed.shape == (4, 4)
    assert state.attention.shape == SOURCE.shape
    assert not state.fed.any()
    assert not state.attention.any()


def test_dropout_is_inverted_while_training() -> None:
    net = Seq2Seq(WORDS, ACTIONS, hidden=8, dropout=0.25, generator=generator())
    kept = dropped(net, 40, 50).kept
    assert kept.shape == (50, 40, 8)
    assert kept.unique().tolist() == pytest.approx([0, 4 / 3])
    assert kept.mean() == pytest.approx(1, abs=0.02)
    assert torch.equal(kept, dropped(net, 40, 50).kept)
    assert not torch.equal(kept, dropped(net, 40, 50, seed=1).kept)
    assert net.eval().drop(40, Noise(generator(), 50)) is None
    assert Seq2Seq(WORDS, ACTIONS, dropout=0.0).drop(40, Noise(generator(), 50)) is None


def test_dropout_multiplies_the_attention_vector_and_what_is_fed() -> None:
    net = model(input_feeding=True)
    memory, dropout = net.encode(SOURCE), dropped(net)
    whole, less = net.score(memory, TOKENS).features, net.score(memory, TOKENS, dropout).features
    assert_near(less[:, 0], whole[:, 0] * dropout.kept[:, 0])
    assert differ(less[:, 1], whole[:, 1] * dropout.kept[:, 1])
    assert_near(net.step(memory, net.start(memory), None, dropout.kept[:, 0])[1].fed, less[:, 0])
    plain = model()
    expected = plain.score(memory, TOKENS).features * dropout.kept
    assert_near(plain.score(memory, TOKENS, dropout).features, expected)


@kinds
def test_dropout_may_be_longer_or_shorter_than_the_sequences(kind) -> None:
    """What was drawn for the bound serves shorter sequences; beyond what was drawn there is padding."""
    net = model(**kind)
    memory, dropout = net.encode(SOURCE), dropped(net, TOKENS.shape[1] + 2)
    expected = net.score(memory, TOKENS, Dropout(dropout.kept[:, :-2])).features
    assert_near(net.score(memory, TOKENS, dropout).features, expected)
    wide = torch.nn.functional.pad(TOKENS, (0, 3))
    assert_near(net.score(memory, wide, dropout).features[:, :5], expected)


def test_modules_have_no_dropout_of_their_own() -> None:
    net = model().train()
    first, again = (net.score(net.encode(SOURCE), TOKENS).features for _ in range(2))
    assert_near(first, again)


def test_weights_start_uniform_within_a_tenth_and_from_the_seed() -> None:
    nets = [Seq2Seq(WORDS, ACTIONS, attention="mlp", generator=generator(seed)) for seed in (3, 3, 4)]
    for same, again, other in zip(*(net.parameters() for net in nets), strict=True):
        assert same.abs().max() <= 0.1
        assert same.numel() < 100 or same.abs().max() > 0.09
        assert torch.equal(same, again)
        assert not torch.equal(same, other)


def test_copies_share_one_reading() -> None:
    net = model()
    tokens = torch.cat([TOKENS, TOKENS.roll(1, 1)])[torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])]
    twice = net.score(repeat(net.encode(SOURCE), 2, CPU), tokens).features
    assert_near(twice, net.score(net.encode(SOURCE.repeat_interleave(2, 0)), tokens).features)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("attention", ["dot", "mlp"])
@pytest.mark.parametrize("eos", [0, 7])
def test_branches_are_scores_computed_once(layers: int, attention: str, eos: int) -> None:
    """Values and gradients along proposals that share their beginnings equal those along whole sequences."""
    source, alphabet = generator(), Alphabet(9, eos)
    net = Seq2Seq(9, alphabet, 4, 6, layers, attention, generator=source).double()  # type: ignore[arg-type]
    references = pad([[2, 3, 4, 5], [6], [1, 8, 2]], eos=eos)
    noise = Noise(source, 3)
    tokens, fork = corrupt_tokens(references, 4, alphabet, noise, 0.3)
    dropout = net.drop(5, noise)
    assert dropout is not None
    packing = share(tokens, fork, eos)
    results = []
    for shared in (True, False):
        net.zero_grad()
        memory = net.encode(pad([[2, 3], [4, 5, 6], [7]]))
        if shared:
            scores = net.branch(memory, tokens, fork, dropout)
            assert scores is not None
            features = scores.features
            assert_near(scores.table(), net.readout(features))
        else:
            whole = net.score(repeat(memory, 4, CPU), tokens.flatten(0, 1), repeat(dropout, 4, CPU)).features
            features = packing.take_states(whole.unflatten(0, (3, 4)))
        weights = torch.randn(features.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        (features * weights).sum().backward()
        results.append((features.detach(), [p.grad for p in net.parameters() if p.grad is not None]))
    assert packing.own is not None
    assert len(packing.own) < int(token_mask(tokens, eos).sum())
    torch.testing.assert_close(*results)


def test_input_feeding_has_no_branches() -> None:
    net = model(input_feeding=True)
    assert net.branch(net.encode(SOURCE), TOKENS.unsqueeze(1), torch.zeros(4, 1, dtype=torch.long)) is None


@pytest.mark.parametrize("attention", ["dot", "mlp"])
@pytest.mark.parametrize("layers", [1, 2])
def test_a_wide_network_leaves_padding_out(monkeypatch, layers, attention) -> None:
    """The other way of `score`: the same values and gradients."""
    net, real = model(attention=attention, layers=layers), token_mask(TOKENS)

    def work() -> list[Tensor]:
        net.zero_grad()
        features = net.score(net.encode(SOURCE), TOKENS).features[real]
        (features * torch.randn(features.shape, generator=generator(3), dtype=features.dtype)).sum().backward()
        return [features.detach(), *(weight.grad for weight in net.parameters() if weight.grad is not None)]

    assert not net._pays(real)
    usual = work()
    monkeypatch.setattr(writer, "WIDE", 4)
    assert net._pays(real)
    assert not net._pays(torch.ones_like(real))
    for a, b in zip(work(), usual, strict=True):
        assert_near(a, b)


@pytest.mark.parametrize("wide", [False, True])
def test_another_eos_ends_the_sequences(monkeypatch, wide: bool) -> None:
    """The same network with its words renumbered; where padding is left out, it is what follows the other eos."""
    if wide:
        monkeypatch.setattr(writer, "WIDE", 4)
    net, other = model(), model(alphabet=Alphabet(ACTIONS, eos=5))
    swap = torch.tensor([5, 1, 2, 3, 4, 0])
    for theirs, mine in ((other.embedding, net.embedding), (other.readout, net.readout)):
        theirs.weight.data = mine.weight.data[swap]
    other.readout.bias.data = net.readout.bias.data[swap]
    real = token_mask(TOKENS)
    assert net._pays(real) == wide
    found, expected = other.score(other.encode(SOURCE), swap[TOKENS]), net.score(net.encode(SOURCE), TOKENS)
    assert_near(found.features[real], expected.features[real])
    assert_near(found.table()[real], expected.table()[real][:, swap])


def test_padding_that_is_left_out_gets_zeros() -> None:
    net, real = model(), token_mask(TOKENS)
    memory = net.encode(SOURCE)
    found = net._write_real(torch.ones(4, 5, 3, dtype=torch.float64), real, memory.h, memory.c)
    assert found[real].all()
    assert not found[~real].any()


@pytest.mark.parametrize(("device", "lowered"), [("cpu", False), ("meta", True)])
def test_an_lstm_keeps_its_own_precision_on_the_cpu_alone(device: str, lowered: bool) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        with writer.own_precision(torch.zeros(1, device=device)):
            assert torch.is_autocast_enabled("cpu") == lowered
        assert torch.is_autocast_enabled("cpu")
