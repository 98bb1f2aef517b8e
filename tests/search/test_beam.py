"""Beam search against the list of all sequences."""

import copy
import importlib
import math

import pytest
import torch
from torch import Tensor

from search.small import (
    ACTIONS,
    ALPHABETS,
    BOUNDS,
    MIXED,
    SOURCE,
    SOURCES,
    all_sequences,
    log_probabilities,
    model,
    number,
    one,
    renumbered,
    with_and_without_cache,
)
from seqcredit.errors import UserError
from seqcredit.models.lstm import Seq2Seq
from seqcredit.models.memory import Memory
from seqcredit.search import Guide, Hypotheses, beam, greedy, replace_unknown
from seqcredit.types import EOS, UNK, lengths, pad

MODULE = importlib.import_module("seqcredit.search.beam")


def exhaustive(net: Seq2Seq, memory: Memory, bound: int, penalty: float, actions: int) -> tuple[Tensor, Tensor, Tensor]:
    """All sequences of a sentence, best first, with score and log p."""
    sequences = all_sequences(bound, actions)
    logp = log_probabilities(net, memory, sequences, bound)
    scores = logp / (lengths(sequences) + 1).double() ** penalty
    order = scores.argsort(descending=True, stable=True)
    return sequences[order], scores[order], logp[order]


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("n_best", [1, 4])
@pytest.mark.parametrize("crowd", [0.0, 0.75, 1.0])
def test_a_wide_beam_is_exhaustive_search(monkeypatch, penalty, n_best, crowd) -> None:
    monkeypatch.setattr(MODULE, "CROWD", crowd)
    lengths_seen = set()
    for seed in range(6):
        net = model(seed, input_feeding=bool(seed % 2), eos=2.0 * penalty)
        memory = net.encode(SOURCE)
        found = beam(net, memory, 4, width=40, n_best=n_best, length_penalty=penalty)
        for b in range(len(SOURCE)):
            sequences, scores, logp = exhaustive(net, one(memory, b), 4, penalty, ACTIONS)
            torch.testing.assert_close(found.scores[b], scores[:n_best], atol=1e-10, rtol=0)
            torch.testing.assert_close(found.logp[b], logp[:n_best], atol=1e-10, rtol=0)
            assert number(found.tokens[b]).tolist() == number(sequences[:n_best]).tolist()
            lengths_seen |= set(lengths(found.tokens[b, :1]).tolist())
    assert len(lengths_seen) > 1


def test_bounds_of_their_own_in_a_beam() -> None:
    net = model(1)
    memory = net.encode(SOURCE)
    found = beam(net, memory, BOUNDS, width=30, n_best=3, length_penalty=1.0)
    for b, bound in enumerate(BOUNDS.tolist()):
        sequences, scores, _ = exhaustive(net, one(memory, b), bound, 1.0, ACTIONS)
        size = min(3, len(sequences))
        torch.testing.assert_close(found.scores[b, :size], scores[:size], atol=1e-10, rtol=0)
        assert number(found.tokens[b, :size]).tolist() == number(sequences[:size]).tolist()
        assert found.scores[b, size:].eq(-torch.inf).all()
        assert found.tokens[b, size:].eq(EOS).all()


def slow_beam(net: Seq2Seq, memory: Memory, bound: int, width: int) -> list[tuple[float, list[int]]]:
    """The definition with lists: one sentence, no early end."""
    alive: list[tuple[float, list[int]]] = [(0.0, [])]
    ended: list[tuple[float, list[int]]] = []
    for t in range(bound):
        options = []
        for score, words in alive:
            logp = torch.log_softmax(net.score(memory, pad([words])).table()[0, -1], -1).tolist()
            if t == bound - 1:
                logp = [0.0]
            options += [(score + value, [*words, word]) for word, value in enumerate(logp)]
        options.sort(key=lambda option: -option[0])
        ended += [option for option in options[:width] if option[1][-1] == EOS]
        alive = [option for option in options if option[1][-1] != EOS][:width]
    return sorted(ended, key=lambda option: -option[0])


@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_narrow_beam_follows_its_definition(width) -> None:
    for seed in range(6):
        net = model(seed, actions=7)
        memory = net.encode(SOURCE)
        found = beam(net, memory, 5, width, n_best=width)
        for b in range(len(SOURCE)):
            expected = slow_beam(net, one(memory, b), 5, width)[:width]
            words = pad([words[:-1] for _, words in expected], 5)
            assert number(found.tokens[b], 7)[: len(words)].tolist() == number(words, 7).tolist()
            assert found.logp[b, : len(words)].tolist() == pytest.approx([score for score, _ in expected])


def test_a_beam_of_one_is_greedy() -> None:
    for seed in range(8):
        net = model(seed, actions=7)
        memory = net.encode(SOURCE)
        assert torch.equal(beam(net, memory, 6, 1).tokens[:, 0], greedy(net, memory, 6))


def test_the_bound_counts_eos() -> None:
    """A model that never says eos by itself."""
    net = model()
    with torch.no_grad():
        net.readout.bias[EOS] = -1e3
    memory = net.encode(SOURCE)
    found = beam(net, memory, BOUNDS, 2).tokens[:, 0]
    assert lengths(found).tolist() == (BOUNDS - 1).tolist()
    assert found.shape == (5, 4)
    for bound in (1, 2, 5):
        tokens = beam(net, memory, bound, 2).tokens[:, 0]
        assert tokens.shape == (5, bound)
        assert lengths(tokens).tolist() == [bound - 1] * 5


def test_results_are_as_wide_as_the_longest() -> None:
    net = model(3)
    with torch.no_grad():
        net.readout.bias[EOS] = 1e3
    assert beam(net, net.encode(SOURCE), 6).tokens.tolist() == [[[EOS]]] * 5


def test_finished_sentences_leave_the_batch() -> None:
    net, sizes = model(**MIXED), []
    step = net.step

    def spy(memory: Memory, state, token, dropout=None):
        sizes.append(memory.rows)
        return step(memory, state, token, dropout)

    net.step = spy
    beam(net, net.encode(SOURCES), 6, 1)
    assert sizes[0] == len(SOURCES)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < len(SOURCES) / 2


def test_search_leaves_no_graph() -> None:
    net = model()
    memory = net.encode(SOURCE)
    assert memory.states.requires_grad
    assert not beam(net, memory, 4).logp.requires_grad


def test_company_and_order_change_no_hypothesis() -> None:
    net = model(2, actions=7)
    memory = net.encode(SOURCE)
    whole = beam(net, memory, 5, 3, n_best=2)
    order = torch.tensor([3, 0, 4, 2, 1])
    for field, shuffled in zip(beam(net, memory.select(order), 5, 3, n_best=2), whole, strict=True):
        torch.testing.assert_close(field, shuffled[order], atol=1e-12, rtol=0)
    for b in range(len(SOURCE)):
        alone = beam(net, one(memory, b), 5, 3, n_best=2)
        assert number(alone.tokens[0], 7).tolist() == number(whole.tokens[b], 7).tolist()


def test_equal_words_in_the_order_of_their_numbers() -> None:
    net = model(actions=6)
    with torch.no_grad():
        net.readout.weight.zero_()
        net.readout.bias.zero_()
    found = beam(net, net.encode(SOURCE), 2, 5, n_best=4)
    assert found.tokens[0].tolist() == [[EOS, EOS], [UNK, EOS], [2, EOS], [3, EOS]]
    assert found.logp[0].tolist() == pytest.approx([-math.log(6)] * 4)


def test_attended_is_where_each_token_looked() -> None:
    net = model(4, actions=7)
    memory = net.encode(SOURCE)
    found: Hypotheses = beam(net, memory, 6, 4, n_best=3)
    places = set()
    for rank in range(3):
        tokens, state, token = found.tokens[:, rank], net.start(memory), None
        for t in range(tokens.shape[1]):
            _, state = net.step(memory, state, token)
            token = tokens[:, t]
            real = t <= lengths(tokens)
            assert torch.equal(found.attended[:, rank, t][real], state.attention.argmax(-1)[real])
            places |= set(found.attended[:, rank, t].tolist())
    assert len(places) > 2


def test_beam_with_single_precision_and_autocast() -> None:
    net = model(4).float()
    with torch.autocast("cpu", torch.bfloat16):
        memory = net.encode(SOURCE)
        assert beam(net, memory, 4).logp.dtype == torch.float32


def test_single_precision_finds_what_double_precision_finds() -> None:
    net = model(2, actions=7)
    expected, found = (beam(each, each.encode(SOURCE), 5, 3, n_best=2) for each in (net, copy.deepcopy(net).float()))
    assert found.logp.dtype == torch.float32
    assert torch.equal(found.tokens, expected.tokens)
    torch.testing.assert_close(found.logp.double(), expected.logp, atol=1e-4, rtol=0)


def test_a_model_that_knows_eos_alone() -> None:
    """It has fewer continuations than the beam has room for."""
    net = model(actions=1)
    found = beam(net, net.encode(SOURCE), 3, 2, n_best=2)
    assert found.tokens.tolist() == [[[EOS], [EOS]]] * 5
    assert found.logp.tolist() == [[0, -math.inf]] * 5


def test_unknown_words_are_replaced_by_what_they_looked_at() -> None:
    words = replace_unknown([5, UNK, UNK, EOS], ["the", "?", "?"], [2, 1, 2, 0], ["der", "Krake"])
    assert words == ["the", "Krake", "?"]
    words = replace_unknown([5, UNK, 7, EOS], ["the", "?", "?"], [0, 0, 1, 0], ["der", "Krake"], unk=7)
    assert words == ["the", "?", "Krake"]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda net, memory: beam(net, memory, 4, width=2, n_best=3), "n_best"),
        (lambda net, memory: beam(net, memory, 4, length_penalty=-1.0), "length_penalty"),
        (lambda net, memory: beam(net, memory, 0), "bound"),
    ],
)
def test_errors_say_what_to_do(call, says) -> None:
    net = model()
    with pytest.raises(UserError, match=says):
        call(net, net.encode(SOURCE))


# Other alphabets.


@ALPHABETS
@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("bound", [6, BOUNDS], ids=["one bound", "bounds"])
def test_a_beam_in_another_alphabet(ids: Tensor, size: int, width: int, penalty: float, bound: int | Tensor) -> None:
    """The same hypotheses with other names; ids that are no actions stand for nothing, though the model prefers them.

    With four words a beam of five has more room than there are continuations at first.
    """
    for seed in range(3):
        net = model(seed, eos=1.0)
        other = renumbered(net, ids, size)
        expected, found = (beam(each, each.encode(SOURCE), bound, width, width, penalty) for each in (net, other))
        assert torch.equal(found.tokens, ids[expected.tokens])
        assert torch.equal(found.attended, expected.attended)
        for mine, theirs in ((found.scores, expected.scores), (found.logp, expected.logp)):
            torch.testing.assert_close(mine, theirs, atol=1e-10, rtol=0)


def test_what_is_missing_is_filled_with_eos_and_never_with_another_id() -> None:
    ids, bound = torch.tensor([5, 8, 1, 3]), 2
    net = renumbered(model(), ids, 10)
    found = beam(net, net.encode(SOURCE), bound, 9, 9)
    assert found.scores[:, :4].isfinite().all()
    assert found.scores[:, 4:].eq(-torch.inf).all()
    assert found.tokens[:, 4:].eq(5).all()
    for words in found.tokens[:, :4, 0].tolist():
        assert sorted(words) == sorted(ids.tolist())
    assert found.tokens[..., 1].eq(5).all()


# A state that is no dataclass of tensors.


@pytest.mark.parametrize("crowd", [0.0, 0.75, 1.0])
@pytest.mark.parametrize("width", [1, 4])
def test_a_model_with_a_cache_equals_one_without(monkeypatch, crowd, width) -> None:
    """Hypotheses change their places at every word, and their caches with them."""
    monkeypatch.setattr(MODULE, "CROWD", crowd)
    seen = set()
    for seed in range(3):
        cached, plain = with_and_without_cache(seed)
        found, expected = (beam(net, net.encode(SOURCES), 7, width, width, 0.5) for net in (cached, plain))
        for mine, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(mine, theirs, atol=1e-10, rtol=0)
        assert found.attended.eq(0).all()
        seen |= set(lengths(found.tokens).flatten().tolist())
    assert len(seen) > 2


def slow_raw(net: Seq2Seq, memory: Memory, bound: int, width: int) -> tuple[float, list[int]]:
    """Ranked by the score of the last word, by lists, until the best has ended."""
    alive: list[list[int]] = [[]]
    for t in range(bound):
        found = []
        for words in alive:
            scores = net.score(memory, pad([words], t + 1)).table()[0, t]
            found += [(float(scores[w].detach()), [*words, w]) for w in range(ACTIONS) if t < bound - 1 or w == EOS]
        found.sort(key=lambda pair: -pair[0])
        if found[0][1][-1] == EOS:
            break
        alive = [words for _, words in found if words[-1] != EOS][:width]
    return found[0]


@pytest.mark.parametrize("width", [1, 2, 4])
def test_by_scores_of_the_last_word(width: int) -> None:
    moved = 0
    for seed in range(5):
        net = model(seed, eos=1.0)
        memory = net.encode(SOURCE)
        found, plain = beam(net, memory, 5, width, raw=True), beam(net, memory, 5, width)
        moved += not torch.equal(number(found.tokens[:, 0]), number(plain.tokens[:, 0]))
        for b in range(len(SOURCE)):
            score, words = slow_raw(net, one(memory, b), 5, width)
            assert found.tokens[b, 0, : len(words)].tolist() == words
            assert float(found.scores[b, 0]) == pytest.approx(score)
    assert moved or width == 1


def test_scores_of_the_last_word_have_no_guide() -> None:
    net = model()
    memory = net.encode(SOURCE)
    with pytest.raises(UserError, match="no log-probabilities, which a guide could add to: leave the guide out"):
        beam(net, memory, 3, raw=True, guide=Guide(net, memory, 0.1))
