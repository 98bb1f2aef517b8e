"""Search against the list of all sequences."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from seqcredit.draws import Noise
from seqcredit.errors import UserError
from seqcredit.models import search
from seqcredit.models.lstm import Seq2Seq
from seqcredit.models.memory import Memory, repeat, select
from seqcredit.search import Hypotheses, Policy, beam, greedy, replace_unknown, sample
from seqcredit.types import EOS, UNK, lengths, pad

ACTIONS = 4
SOURCE = pad([[2, 3, 4, 5], [6], [], [7, 8, 2], [5, 5, 5]])
SOURCES = torch.randint(2, 9, (20, 4), generator=torch.Generator().manual_seed(0)).index_fill(1, torch.tensor([3]), EOS)
MIXED = {"seed": 23, "eos": 2.0}  # a model whose greedy results for SOURCES have four lengths
BOUNDS = torch.tensor([4, 2, 3, 1, 4])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(net, memory, bound, source: torch.Generator, masks=None, **options):
    """Sequences drawn with numbers from a generator."""
    longest = int(torch.as_tensor(bound).max())
    uniform = torch.rand(len(memory[0]), longest, generator=source, dtype=torch.float64)
    return sample(net, memory, bound, uniform, masks, **options)


def model(seed: int = 0, actions: int = ACTIONS, eos: float = 0.0, **kind) -> Seq2Seq:
    """Weights so large that the distributions are uneven and depend on the prefix and the source."""
    net = Seq2Seq(9, actions, embedding=3, hidden=4, generator=generator(seed), **kind).double()
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(12)
        net.readout.bias[EOS] += eos
    return net.eval()


def all_sequences(bound: int, actions: int = ACTIONS) -> Tensor:
    """Every sequence of at most bound - 1 words and eos."""
    words = range(1, actions)
    return pad([s for n in range(bound) for s in itertools.product(words, repeat=n)], bound)


def log_probabilities(
    net: Seq2Seq, memory: Memory, tokens: Tensor, bound: int, masks: Tensor | None = None, temperature: float = 1.0
) -> Tensor:
    """log p of sequences of one sentence; eos is certain at the bound."""
    row = repeat(memory, len(tokens))
    masks = None if masks is None else masks.expand(len(tokens), -1, -1)[:, : tokens.shape[1]]
    logp = torch.log_softmax(net.readout(net.features(row, tokens, masks)) / temperature, -1)
    chosen = logp.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    position = torch.arange(tokens.shape[1])
    counts = (position <= lengths(tokens).unsqueeze(-1)) & (position < bound - 1)
    return chosen.masked_fill(~counts, 0).sum(-1).detach()


def one(memory: Memory, b: int) -> Memory:
    return select(memory, torch.tensor([b]))


def number(tokens: Tensor, actions: int = ACTIONS) -> Tensor:
    """Sequences as numbers, whatever their width."""
    wide = torch.nn.functional.pad(tokens, (0, 6 - tokens.shape[-1]), value=EOS)
    return (wide * actions ** torch.arange(6)).sum(-1)


def frequencies(drawn: Tensor, sequences: Tensor) -> Tensor:
    return (number(drawn).unsqueeze(0) == number(sequences).unsqueeze(1)).double().mean(1)


def assert_agree(drawn: Tensor, sequences: Tensor, p: Tensor) -> None:
    """Nothing else is drawn, and each within 4.5 standard errors."""
    torch.testing.assert_close(p.sum(), torch.ones_like(p.sum()))
    found = frequencies(drawn, sequences)
    assert found.sum().item() == pytest.approx(1)
    assert ((found - p).abs() <= 4.5 * (p * (1 - p) / len(drawn)).sqrt() + 1e-9).all()


def test_a_model_is_a_policy() -> None:
    assert isinstance(model(), Policy)
    assert not isinstance(torch.nn.Linear(2, 2), Policy)


@pytest.mark.parametrize("kind", [{}, {"input_feeding": True, "attention": "mlp", "layers": 2}], ids=["plain", "all"])
def test_sampling_frequencies_are_the_probabilities(kind) -> None:
    """Five sentences in one batch, each with its own bound, so that rows leave at different times."""
    net, copies = model(**kind), 8_000
    memory = net.encode(SOURCE)
    tokens = drawn(net, repeat(memory, copies), BOUNDS.repeat_interleave(copies), generator())
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
    assert_agree(drawn(net, repeat(memory, 8_000), 3, generator(), temperature=temperature), sequences, p)


def test_dropout_is_that_of_features() -> None:
    """Each position has its own mask."""
    net = model(input_feeding=True, dropout=0.5).train()
    memory = net.encode(SOURCE[:2])
    masks = net.masks(3, Noise(generator(5), 2))
    found = drawn(net, repeat(memory, 8_000), 3, generator(), masks.repeat_interleave(8_000, 0))
    sequences = all_sequences(3)
    for b in range(2):
        p = log_probabilities(net, one(memory, b), sequences, 3, masks[b : b + 1]).exp()
        without = log_probabilities(net, one(memory, b), sequences, 3).exp()
        assert (p - without).abs().max() > 0.05
        assert_agree(found.view(2, 8_000, -1)[b], sequences, p)


@pytest.mark.parametrize("search_", ["sample", "greedy", "beam"])
def test_the_bound_counts_eos(search_) -> None:
    """A model that never says eos by itself."""
    net = model()
    with torch.no_grad():
        net.readout.bias[EOS] = -1e3
    memory = net.encode(SOURCE)
    find = {
        "sample": lambda bound: drawn(net, memory, bound, generator()),
        "greedy": lambda bound: greedy(net, memory, bound),
        "beam": lambda bound: beam(net, memory, bound, 2).tokens[:, 0],
    }[search_]
    assert lengths(find(BOUNDS)).tolist() == (BOUNDS - 1).tolist()
    assert find(BOUNDS).shape == (5, 4)
    for bound in (1, 2, 5):
        tokens = find(bound)
        assert tokens.shape == (5, bound)
        assert lengths(tokens).tolist() == [bound - 1] * 5


def test_results_are_as_wide_as_the_longest_and_filled_with_eos() -> None:
    net = model(3)
    tokens = drawn(net, repeat(net.encode(SOURCE), 20), 6, generator())
    assert tokens.shape[1] == lengths(tokens).max() + 1
    assert len(lengths(tokens).unique()) > 2
    after = torch.arange(tokens.shape[1]) >= lengths(tokens).unsqueeze(-1)
    assert tokens[after].eq(EOS).all()
    with torch.no_grad():
        net.readout.bias[EOS] = 1e3
    assert drawn(net, net.encode(SOURCE), 6, generator()).tolist() == [[EOS]] * 5
    assert beam(net, net.encode(SOURCE), 6).tokens.tolist() == [[[EOS]]] * 5


def slow_greedy(net: Seq2Seq, memory: Memory, bound: int, masks: Tensor | None = None) -> list[int]:
    words: list[int] = []
    while len(words) < bound - 1:
        mask = None if masks is None else masks[:, : len(words) + 1]
        scores = net.readout(net.features(memory, pad([words]), mask))[0, -1]
        words.append(int(scores.argmax()))
        if words[-1] == EOS:
            return words[:-1]
    return words


@pytest.mark.parametrize("crowd", [0.0, 0.5, 1.0])
def test_greedy_word_by_word_and_rows_that_leave_change_nothing(monkeypatch, crowd) -> None:
    monkeypatch.setattr(search, "CROWD", crowd)
    net = model(**MIXED)
    memory = net.encode(SOURCES)
    tokens = greedy(net, memory, 6)
    assert len(lengths(tokens).unique()) > 2
    expected = [slow_greedy(net, one(memory, b), 6) for b in range(20)]
    assert torch.equal(tokens, pad(expected, tokens.shape[1]))


@pytest.mark.parametrize("crowd", [0.0, 0.75, 1.0])
def test_dropout_masks_stay_with_their_rows(monkeypatch, crowd) -> None:
    monkeypatch.setattr(search, "CROWD", crowd)
    net = model(**MIXED, dropout=0.5).train()
    memory, masks = net.encode(SOURCES), net.masks(6, Noise(generator(1), len(SOURCES)))
    tokens = drawn(net, memory, 6, generator(), masks, top_k=1)
    assert len(lengths(tokens).unique()) > 2
    expected = [slow_greedy(net, one(memory, b), 6, masks[b : b + 1]) for b in range(len(SOURCES))]
    assert torch.equal(tokens, pad(expected, tokens.shape[1]))


def test_same_seed_same_samples() -> None:
    net = model()
    memory = repeat(net.encode(SOURCE), 10)
    first = drawn(net, memory, 6, generator(1))
    assert torch.equal(first, drawn(net, memory, 6, generator(1)))
    assert not torch.equal(number(first), number(drawn(net, memory, 6, generator(2))))


def test_finished_rows_leave_the_batch() -> None:
    net, sizes = model(**MIXED), []
    step = net.step

    def spy(memory: Memory, state, token, mask=None):
        sizes.append(len(memory.states))
        return step(memory, state, token, mask)

    net.step = spy
    memory = net.encode(SOURCES)
    for find in (lambda: drawn(net, memory, 6, generator()), lambda: beam(net, memory, 6, 1)):
        sizes.clear()
        find()
        assert sizes[0] == len(SOURCES)
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[-1] < len(SOURCES) / 2


def test_search_leaves_no_graph() -> None:
    net = model()
    memory = net.encode(SOURCE)
    assert memory.states.requires_grad
    assert not beam(net, memory, 4).logp.requires_grad


LOGITS = torch.tensor([[0.5, 0.1, 0.3, 0.1], [0.25, 0.4, 0.05, 0.3]], dtype=torch.float64).log()


@pytest.mark.parametrize(
    ("top_k", "top_p", "kept"),
    [
        (1, None, [[0], [1]]),
        (2, None, [[0, 2], [1, 3]]),
        (3, None, [[0, 1, 2, 3], [0, 1, 3]]),  # words as good as the third stay
        (9, None, [[0, 1, 2, 3], [0, 1, 2, 3]]),
        (None, 0.45, [[0], [1, 3]]),
        (None, 0.75, [[0, 2], [0, 1, 3]]),
        (None, 1.0, [[0, 1, 2, 3], [0, 1, 2, 3]]),
        (None, 1e-9, [[0], [1]]),
        (2, 0.6, [[0], [1, 3]]),  # of the two best, 0.5 / 0.8 > 0.6 and 0.4 / 0.7 < 0.6
    ],
)
def test_top_k_and_top_p(top_k, top_p, kept) -> None:
    weights = search._weights(LOGITS, 1.0, top_k, top_p)
    for row, p, words in zip(weights, LOGITS.exp(), kept, strict=True):
        assert row.nonzero().flatten().tolist() == words
        torch.testing.assert_close(row[words], p[words])


@pytest.mark.parametrize("option", [{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-6}])
def test_sampling_options_reach_the_draw(option) -> None:
    net = model()
    memory = net.encode(SOURCE)
    expected = greedy(net, memory, 6)
    for seed in range(5):
        assert torch.equal(drawn(net, memory, 6, generator(seed), **option), expected)


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
    monkeypatch.setattr(search, "CROWD", crowd)
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
            logp = torch.log_softmax(net.readout(net.features(memory, pad([words])))[0, -1], -1).tolist()
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


def test_company_and_order_change_no_hypothesis() -> None:
    net = model(2, actions=7)
    memory = net.encode(SOURCE)
    whole = beam(net, memory, 5, 3, n_best=2)
    order = torch.tensor([3, 0, 4, 2, 1])
    for field, shuffled in zip(beam(net, select(memory, order), 5, 3, n_best=2), whole, strict=True):
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
        assert drawn(net, memory, 4, generator()).shape[0] == 5


def test_unknown_words_are_replaced_by_what_they_looked_at() -> None:
    words = replace_unknown([5, UNK, UNK, EOS], ["the", "?", "?"], [2, 1, 2, 0], ["der", "Krake"])
    assert words == ["the", "Krake", "?"]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda net, memory: beam(net, memory, 4, width=2, n_best=3), "n_best"),
        (lambda net, memory: beam(net, memory, 4, length_penalty=-1.0), "length_penalty"),
        (lambda net, memory: greedy(net, memory, 0), "bound"),
        (lambda net, memory: drawn(net, memory, 4, generator(), temperature=0.0), "temperature"),
        (lambda net, memory: drawn(net, memory, 4, generator(), top_k=0), "top_k"),
        (lambda net, memory: drawn(net, memory, 4, generator(), top_p=0.0), "top_p"),
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
    memory = repeat(net.encode(SOURCE), 8)
    uniform = torch.rand(len(memory[0]), 8, generator=generator(), dtype=torch.float64)
    together = sample(net, memory, 8, uniform)
    assert (together[:, 2] == EOS).float().mean() > 0.4
    assert (together[:, 4] != EOS).any()
    for row in range(len(uniform)):
        only = torch.tensor([row])
        alone = sample(net, select(memory, only), 8, uniform[only])
        assert torch.equal(alone, together[only, : alone.shape[1]])
        assert (together[row, alone.shape[1] :] == EOS).all()


@pytest.mark.parametrize("rows", [6, 1])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("words", [3, 1_000])
def test_scores_are_those_of_the_readout(words, bias, rows) -> None:
    """A packed weight serves any number of states: sentences leave while it is used."""
    readout = torch.nn.Linear(5, words, bias)
    features = torch.randn(rows, 5, generator=torch.Generator().manual_seed(1))
    assert search._can_pack(readout.weight) == torch.backends.mkldnn.is_available()
    torch.testing.assert_close(search._packed(readout, 6)(features), readout(features))


@pytest.mark.parametrize(
    "readout", [torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh()), torch.nn.Linear(2, 3, dtype=torch.float64)]
)
def test_any_other_readout_stays_as_it_is(readout) -> None:
    assert search._packed(readout, 4) is readout
