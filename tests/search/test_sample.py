"""Sampling and greedy search against the list of all sequences."""

import importlib

import pytest
import torch
from torch import Tensor

from search.small import (
    ALPHABETS,
    BOUNDS,
    CPU,
    MIXED,
    SOURCE,
    SOURCES,
    all_sequences,
    assert_agree,
    drawn,
    generator,
    log_probabilities,
    model,
    number,
    one,
    renumbered,
    with_and_without_cache,
)
from seqcredit.draws import Noise, draw
from seqcredit.errors import UserError
from seqcredit.models.lstm import Seq2Seq
from seqcredit.models.memory import Memory
from seqcredit.models.policy import Dropout, Policy, repeat
from seqcredit.search import greedy, sample
from seqcredit.search.sample import Given, device_of, limits
from seqcredit.types import EOS, Alphabet, lengths, pad

MODULE = importlib.import_module("seqcredit.search.sample")


def test_a_model_is_a_policy() -> None:
    assert isinstance(model(), Policy)
    assert not isinstance(torch.nn.Linear(2, 2), Policy)


@pytest.mark.parametrize("kind", [{}, {"input_feeding": True, "attention": "mlp", "layers": 2}], ids=["plain", "all"])
def test_sampling_frequencies_are_the_probabilities(kind) -> None:
    """Five sentences in one batch, each with its own bound, so that rows leave at different times."""
    net, copies = model(**kind), 8_000
    memory = net.encode(SOURCE)
    tokens = drawn(net, repeat(memory, copies, CPU), BOUNDS.repeat_interleave(copies), generator())
    for b, bound in enumerate(BOUNDS.tolist()):
        sequences = all_sequences(bound)
        p = log_probabilities(net, one(memory, b), sequences, bound).exp()
        assert bound == 1 or p.max() < 0.95
        assert_agree(tokens.view(len(SOURCE), copies, -1)[b], sequences, p)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature(temperature) -> None:
    net = model()
    memory = one(net.encode(SOURCE), 0)
    sequences = all_sequences(3)
    p = log_probabilities(net, memory, sequences, 3, temperature=temperature).exp()
    assert_agree(drawn(net, repeat(memory, 8_000, CPU), 3, generator(), temperature=temperature), sequences, p)


def test_dropout_is_that_of_scores() -> None:
    """Each position has its own."""
    net = model(input_feeding=True, dropout=0.5).train()
    memory = net.encode(SOURCE[:2])
    dropout = net.drop(3, Noise(generator(5), 2))
    assert dropout is not None
    found = drawn(net, repeat(memory, 8_000, CPU), 3, generator(), repeat(dropout, 8_000, CPU))
    sequences = all_sequences(3)
    for b in range(2):
        p = log_probabilities(net, one(memory, b), sequences, 3, Dropout(dropout.kept[b : b + 1])).exp()
        without = log_probabilities(net, one(memory, b), sequences, 3).exp()
        assert (p - without).abs().max() > 0.05
        assert_agree(found.view(2, 8_000, -1)[b], sequences, p)


@pytest.mark.parametrize("search", ["sample", "greedy"])
def test_the_bound_counts_eos(search) -> None:
    """A model that never says eos by itself."""
    net = model()
    with torch.no_grad():
        net.readout.bias[EOS] = -1e3
    memory = net.encode(SOURCE)
    find = {
        "sample": lambda bound: drawn(net, memory, bound, generator()),
        "greedy": lambda bound: greedy(net, memory, bound),
    }[search]
    assert lengths(find(BOUNDS)).tolist() == (BOUNDS - 1).tolist()
    assert find(BOUNDS).shape == (5, 4)
    for bound in (1, 2, 5):
        tokens = find(bound)
        assert tokens.shape == (5, bound)
        assert lengths(tokens).tolist() == [bound - 1] * 5


def test_results_are_as_wide_as_the_longest_and_filled_with_eos() -> None:
    net = model(3)
    tokens = drawn(net, repeat(net.encode(SOURCE), 20, CPU), 6, generator())
    assert tokens.shape[1] == lengths(tokens).max() + 1
    assert len(lengths(tokens).unique()) > 2
    after = torch.arange(tokens.shape[1]) >= lengths(tokens).unsqueeze(-1)
    assert tokens[after].eq(EOS).all()
    with torch.no_grad():
        net.readout.bias[EOS] = 1e3
    assert drawn(net, net.encode(SOURCE), 6, generator()).tolist() == [[EOS]] * 5


def slow_greedy(net: Seq2Seq, memory: Memory, bound: int, kept: Tensor | None = None) -> list[int]:
    words: list[int] = []
    while len(words) < bound - 1:
        dropout = None if kept is None else Dropout(kept[:, : len(words) + 1])
        scores = net.score(memory, pad([words]), dropout).table()[0, -1]
        words.append(int(scores.argmax()))
        if words[-1] == EOS:
            return words[:-1]
    return words


@pytest.mark.parametrize("crowd", [0.0, 0.5, 1.0])
def test_greedy_word_by_word_and_rows_that_leave_change_nothing(monkeypatch, crowd) -> None:
    monkeypatch.setattr(MODULE, "CROWD", crowd)
    net = model(**MIXED)
    memory = net.encode(SOURCES)
    tokens = greedy(net, memory, 6)
    assert len(lengths(tokens).unique()) > 2
    expected = [slow_greedy(net, one(memory, b), 6) for b in range(20)]
    assert torch.equal(tokens, pad(expected, tokens.shape[1]))


@pytest.mark.parametrize("crowd", [0.0, 0.75, 1.0])
def test_dropout_stays_with_its_rows(monkeypatch, crowd) -> None:
    monkeypatch.setattr(MODULE, "CROWD", crowd)
    net = model(**MIXED, dropout=0.5).train()
    memory, dropout = net.encode(SOURCES), net.drop(6, Noise(generator(1), len(SOURCES)))
    assert dropout is not None
    tokens = drawn(net, memory, 6, generator(), dropout, temperature=1e-6)
    assert len(lengths(tokens).unique()) > 2
    expected = [slow_greedy(net, one(memory, b), 6, dropout.kept[b : b + 1]) for b in range(len(SOURCES))]
    assert torch.equal(tokens, pad(expected, tokens.shape[1]))


def test_same_seed_same_samples() -> None:
    net = model()
    memory = repeat(net.encode(SOURCE), 10, CPU)
    first = drawn(net, memory, 6, generator(1))
    assert torch.equal(first, drawn(net, memory, 6, generator(1)))
    assert not torch.equal(number(first), number(drawn(net, memory, 6, generator(2))))


def test_finished_rows_leave_the_batch() -> None:
    net, sizes = model(**MIXED), []
    step = net.step

    def spy(memory: Memory, state, token, dropout=None):
        sizes.append(memory.rows)
        return step(memory, state, token, dropout)

    net.step = spy
    drawn(net, net.encode(SOURCES), 6, generator())
    assert sizes[0] == len(SOURCES)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < len(SOURCES) / 2


def test_no_graph_is_made_and_the_eos_of_the_bound_costs_no_step() -> None:
    net, seen = model(), []
    net.readout.bias.data[EOS] = -1e3
    step = net.step

    def spy(memory: Memory, state, token, dropout=None):
        seen.append(torch.is_grad_enabled())
        return step(memory, state, token, dropout)

    net.step = spy
    memory = net.encode(SOURCE)
    for find in (lambda: drawn(net, memory, 5, generator()), lambda: greedy(net, memory, 5)):
        seen.clear()
        assert lengths(find()).tolist() == [4] * 5
        assert seen == [False] * 4
    assert torch.is_grad_enabled()


def test_the_temperature_reaches_the_draw() -> None:
    net = model()
    memory = net.encode(SOURCE)
    expected = greedy(net, memory, 6)
    for seed in range(5):
        assert torch.equal(drawn(net, memory, 6, generator(seed), temperature=1e-6), expected)


def test_single_precision_and_autocast() -> None:
    net = model(4).float()
    with torch.autocast("cpu", torch.bfloat16):
        memory = net.encode(SOURCE)
        assert drawn(net, memory, 4, generator()).shape[0] == 5


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda net, memory: greedy(net, memory, 0), "bound"),
        (lambda net, memory: drawn(net, memory, 4, generator(), temperature=0.0), "temperature"),
    ],
)
def test_errors_say_what_to_do(call, says) -> None:
    net = model()
    with pytest.raises(UserError, match=says):
        call(net, net.encode(SOURCE))


def test_every_sentence_is_drawn_with_its_own_numbers() -> None:
    """Whoever else is in the batch, and whoever has left it."""
    net = model()
    net.readout.bias.data[EOS] += 1.5  # so that many leave early
    memory = repeat(net.encode(SOURCE), 8, CPU)
    uniform = torch.rand(memory.rows, 8, generator=generator(), dtype=torch.float64)
    together = sample(net, memory, 8, uniform)
    assert (together[:, 2] == EOS).float().mean() > 0.4
    assert (together[:, 4] != EOS).any()
    for row in range(len(uniform)):
        only = torch.tensor([row])
        alone = sample(net, memory.select(only), 8, uniform[only])
        assert torch.equal(alone, together[only, : alone.shape[1]])
        assert (together[row, alone.shape[1] :] == EOS).all()


def test_limits() -> None:
    limit, shortest, longest = limits(3, 2, CPU)
    assert (limit.tolist(), shortest, longest) == ([3, 3], 3, 3)
    limit, shortest, longest = limits(torch.tensor([4, 1, 2]), 3, CPU)
    assert (limit.tolist(), shortest, longest) == ([4, 1, 2], 1, 4)
    with pytest.raises(UserError, match="bound = 0"):
        limits(torch.tensor([4, 0]), 2, CPU)


def test_a_policy_is_where_its_weights_are_and_else_on_the_cpu() -> None:
    assert device_of(model()) == CPU
    assert device_of(torch.nn.Linear(2, 2, device="meta")).type == "meta"
    assert device_of(torch.nn.Identity()) == CPU


# Other alphabets.


@ALPHABETS
def test_greedy_in_another_alphabet(ids: Tensor, size: int) -> None:
    net = model(**MIXED)
    other = renumbered(net, ids, size)
    expected = greedy(net, net.encode(SOURCES), 6)
    found = greedy(other, other.encode(SOURCES), 6)
    assert torch.equal(found, ids[expected])
    assert len(lengths(expected).unique()) > 2
    assert torch.equal(lengths(found, int(ids[EOS])), lengths(expected))


@ALPHABETS
@pytest.mark.parametrize("options", [{}, {"temperature": 2.0}], ids=str)
def test_only_actions_are_drawn_in_another_alphabet(ids: Tensor, size: int, options) -> None:
    net = model()
    other = renumbered(net, ids, size)
    memory = repeat(other.encode(SOURCE), 60, CPU)
    found = drawn(other, memory, 5, generator(), **options)
    assert torch.isin(found, ids).all()
    assert len(found.unique()) > 2
    ended = (found == ids[EOS]).cumsum(-1) > 0
    assert found[ended].eq(ids[EOS]).all()
    assert ended[:, -1].all()


@ALPHABETS
def test_frequencies_in_another_alphabet(ids: Tensor, size: int) -> None:
    net = model()
    other = renumbered(net, ids, size)
    found = drawn(other, repeat(one(other.encode(SOURCE), 0), 8_000, CPU), 3, generator())
    back = torch.full((size,), -1)
    back[ids] = torch.arange(len(ids))
    sequences = all_sequences(3)
    p = log_probabilities(net, one(net.encode(SOURCE), 0), sequences, 3).exp()
    assert_agree(back[found], sequences, p)


@pytest.mark.parametrize("options", [{}, {"temperature": 2.0}], ids=str)
def test_the_same_numbers_draw_the_same_words_where_the_order_of_ids_stays(options) -> None:
    """Ids that are no actions take no share of a uniform number."""
    net, ids = model(3, Alphabet(5, eos=2)), torch.tensor([1, 2, 5, 6, 8])
    other = renumbered(net, ids, 10)
    expected, found = (
        drawn(each, repeat(each.encode(SOURCE), 30, CPU), 6, generator(), **options) for each in (net, other)
    )
    assert len(lengths(expected, 2).unique()) > 2
    assert torch.equal(found, ids[expected])


# A state that is no dataclass of tensors.


@pytest.mark.parametrize("crowd", [0.0, 0.75, 1.0])
def test_a_model_with_a_cache_equals_one_without(monkeypatch, crowd) -> None:
    monkeypatch.setattr(MODULE, "CROWD", crowd)
    seen = set()
    for seed in range(3):
        cached, plain = with_and_without_cache(seed)
        samples = [drawn(net, repeat(net.encode(SOURCES), 4, CPU), 7, generator(seed)) for net in (cached, plain)]
        assert torch.equal(*samples)
        assert torch.equal(*(greedy(net, net.encode(SOURCES), 7) for net in (cached, plain)))
        seen |= set(lengths(samples[0]).tolist())
    assert len(seen) > 3


# Tokens that are given.


def test_given_tokens_stand_and_the_rest_is_chosen() -> None:
    actor, source = Seq2Seq(9, 9, 6, 6, generator=torch.Generator().manual_seed(0)).eval(), pad([[2, 3], [4], [5, 6]])
    known = torch.tensor([[3, 4, 5, 0], [6, 0, 0, 0], [7, 8, 2, 0]])
    kept = torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]).bool()
    uniform = torch.rand(3, 9, generator=torch.Generator().manual_seed(1))
    memory = actor.encode(source)
    free, bound = sample(actor, memory, 9, uniform), sample(actor, memory, 9, uniform, given=Given(known, kept))
    assert bound[0, :2].tolist() == [3, 4]
    assert not bound[1, 1:].any()
    assert bound[1, 0] == 6
    width = min(free.shape[1], bound.shape[1])
    assert torch.equal(bound[2, :width], free[2, :width])
    logits = actor.score(memory, bound).table()  # what is chosen follows from what is given
    assert bound[0, 2] == draw(logits[0, 2].softmax(-1), uniform[0, 2])
    best = greedy(actor, memory, 9, given=Given(known, kept))
    assert best[0, :2].tolist() == [3, 4]
    assert best[0, 2] == actor.score(memory, best).table()[0, 2].argmax()


def test_a_whole_sequence_has_the_length_of_the_given_one() -> None:
    """An eos that is chosen too early gives way."""
    actor = Seq2Seq(9, 9, 6, 6, generator=torch.Generator().manual_seed(0)).eval()
    known = torch.tensor([[3, 4, 5, 0], [6, 0, 0, 0]])
    with torch.no_grad():
        actor.readout.bias[0] += 1000
    memory, ends = actor.encode(pad([[2, 3], [4]])), known == 0
    assert torch.equal(greedy(actor, memory, 4, given=Given(known, ends, whole=True)), known)
    assert not greedy(actor, memory, 4, given=Given(known, ends)).any()
    every = Given(known, ends, whole=True).every(2)
    assert (every.tokens.tolist(), every.whole) == ([[3, 4, 5, 0]], True)
