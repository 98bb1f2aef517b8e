import copy

import pytest
import torch

from seqcredit.credit.tables import share
from seqcredit.draws import Noise
from seqcredit.models.critic import Critic, update_target
from seqcredit.models.lstm import Seq2Seq
from seqcredit.models.policy import Dropout, repeat
from seqcredit.types import ABSENT, Alphabet, Batch, pad, pad_references

REFERENCES = pad_references([[[2, 3], [4, 4, 4]], [[5]]])  # (2, 2, 4)
TOKENS = pad([[2, 4, 3], [5]])
CPU = torch.device("cpu")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def critic(seed: int = 0, **kind) -> Critic:
    return Critic(6, embedding=3, hidden=4, generator=generator(seed), **kind).double()


@pytest.mark.parametrize("kind", [{}, {"attention": "dot", "dropout": 0.1, "input_feeding": True, "layers": 2}])
def test_reads_the_first_reference_as_its_source(kind) -> None:
    judge = critic(**kind)
    source = {"attention": "mlp", "dropout": 0.0, **kind}
    same = Seq2Seq(6, 6, embedding=3, hidden=4, generator=generator(), **source).double()
    q = judge.score(judge.encode(REFERENCES), TOKENS).table()
    expected = same.score(same.encode(REFERENCES[:, 0]), TOKENS).table()
    torch.testing.assert_close(q, expected, atol=1e-12, rtol=0)
    other = REFERENCES.clone()
    other[0, 1, 0] = 2
    assert torch.equal(q, judge.score(judge.encode(other), TOKENS).table())


@pytest.mark.parametrize("copy", [0, 3])
def test_reads_all_references_in_any_order(copy: int) -> None:
    judge = critic(references="all", copy=copy)

    def q(references: torch.Tensor) -> torch.Tensor:
        return judge.score(judge.encode(references), TOKENS[: len(references)]).table()

    known = q(REFERENCES)
    torch.testing.assert_close(q(REFERENCES[:1].flip(1)), known[:1], atol=1e-12, rtol=0)
    other = REFERENCES.clone()
    other[0, 1, 0] = 2
    assert not torch.allclose(q(other)[0], known[0])
    alone = judge.score(judge.encode(REFERENCES[1:, :1]), TOKENS[1:]).table()
    torch.testing.assert_close(alone, known[1:], atol=1e-12, rtol=0)  # an absent reference leaves no trace
    single = [critic(copy=copy).encode(REFERENCES[:1, [i]]) for i in (0, 1)]
    read = judge.encode(REFERENCES[:1])
    torch.testing.assert_close(read.h, (single[0].h + single[1].h) / 2, atol=1e-12, rtol=0)
    words = [state for one in single for state in one.states[0][one.mask[0]]]
    torch.testing.assert_close(read.states[0][read.mask[0]], torch.stack(words), atol=1e-12, rtol=0)


def test_empty_references_are_read_too() -> None:
    """Each of them has a place: its eos."""
    read = critic(references="all", copy=3).encode(pad_references([[[], []], [[]]]))
    assert read.mask.tolist() == [[True, True], [True, False]]


def test_has_no_dropout_unless_asked() -> None:
    assert critic().drop(3, Noise(generator(), 2)) is None
    assert critic(dropout=0.1).drop(3, Noise(generator(), 2)) is not None


@pytest.mark.parametrize("rate", [0.0, 0.001, 0.3, 1.0])
def test_target_moves_by_the_rate(rate) -> None:
    target, source = critic(0), critic(1)
    before = copy.deepcopy(target)
    pointers = [weight.data_ptr() for weight in target.parameters()]
    update_target(target, source, rate)
    assert pointers == [weight.data_ptr() for weight in target.parameters()]
    for new, old, goal in zip(target.parameters(), before.parameters(), source.parameters(), strict=True):
        torch.testing.assert_close(new, rate * goal + (1 - rate) * old, atol=1e-15, rtol=0)
        assert new.grad is None
    if rate == 1:
        assert all(torch.equal(a, b) for a, b in zip(target.parameters(), source.parameters(), strict=True))


# Copying: attention over the reference adds to the Q of its words.

PROPOSALS = torch.tensor([[[2, 3, 0, 0], [2, 4, 5, 0], [3, 3, 0, 0]], [[5, 0, 0, 0], [5, 0, 0, 0], [1, 0, 0, 0]]])
FORK = torch.tensor([[2, 1, 0], [1, 1, 0]])
COPYING = pytest.mark.parametrize(
    "kind", [{}, {"attention": "dot", "layers": 2}, {"input_feeding": True}, {"dropout": 0.4}, {"copy": 5}]
)


def copying(**kind) -> Critic:
    judge = critic(**{"copy": 8, **kind})
    with torch.no_grad():
        for weight in judge.parameters():
            weight *= 4  # so that the pointer says something
    return judge


@COPYING
def test_copying_adds_to_the_words_of_the_reference_and_to_no_other(kind) -> None:
    """With codes at right angles Q is a plain network's plus the scores of a word's places: by hand, word by word."""
    judge = copying(**{"copy": 6, **kind}).eval()
    C = judge.copy
    with torch.no_grad():
        judge.readout.weight[:, -C:] = torch.eye(6, C)  # the last word has no code if there are too few numbers
    memory = judge.encode(REFERENCES)
    q = judge.score(memory, TOKENS).table()
    state = judge.start(memory)
    for t in range(TOKENS.shape[1]):
        scores, state = judge.step(memory, state, TOKENS[:, t - 1] if t else None)
        plain = scores.features[:, :4] @ judge.readout.weight[:, :4].T + judge.readout.bias
        for b, words in enumerate(([2, 3, 0], [5, 0])):
            expected = plain[b].clone()
            for j, word in enumerate(words):
                if word < C:
                    expected[word] += judge.pointer(state.h[b, -1]) @ memory.states[b, j]
            torch.testing.assert_close(q[b, t], expected, atol=1e-12, rtol=0)
            assert (expected - plain[b]).abs().max() > 1e-5 or words[0] >= C


@COPYING
@pytest.mark.parametrize("masked", [False, True])
def test_copying_word_by_word_is_the_same_as_all_at_once(kind, masked: bool) -> None:
    judge = copying(**kind)
    memory = judge.encode(REFERENCES)
    dropout = Dropout(torch.rand(2, 4, 4, generator=generator(5)).double()) if masked else None
    features = judge.score(memory, TOKENS, dropout).features
    assert features.shape == (2, 4, 4 + judge.copy)
    state = judge.start(memory)
    for t in range(4):
        kept = None if dropout is None else dropout.kept[:, t]
        scores, state = judge.step(memory, state, TOKENS[:, t - 1] if t else None, kept)
        torch.testing.assert_close(scores.features, features[:, t], atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", [{}, {"attention": "dot", "layers": 2}])
def test_copying_along_branches(kind) -> None:
    judge = copying(**kind)
    packing = share(PROPOSALS, FORK)
    dropout = Dropout(torch.rand(2, 4, 4, generator=generator(6)).double())
    rows = judge.branch(judge.encode(REFERENCES), PROPOSALS, FORK, dropout)
    assert rows is not None
    several = repeat(judge.encode(REFERENCES), 3, CPU), PROPOSALS.flatten(0, 1), repeat(dropout, 3, CPU)
    expected = packing.take_states(judge.score(*several).features.unflatten(0, (2, 3)))
    torch.testing.assert_close(rows.features, expected, atol=1e-12, rtol=0)


def test_padding_of_the_reference_is_not_copied() -> None:
    judge = copying()
    q = judge.score(judge.encode(REFERENCES), TOKENS).table()
    wider = torch.nn.functional.pad(REFERENCES, (0, 3))
    torch.testing.assert_close(judge.score(judge.encode(wider), TOKENS).table(), q, atol=1e-12, rtol=0)


def test_gradients_of_copying_by_finite_differences() -> None:
    """The codes count twice: where words are read and where they are scored."""
    judge = copying()
    target = torch.randn(2, 4, 6, generator=generator(7)).double()

    def loss() -> torch.Tensor:
        return (judge.score(judge.encode(REFERENCES), TOKENS).table() * target).sum()

    loss().backward()
    for weight, places in (
        (judge.readout.weight, [(2, -1), (3, -4), (5, 0)]),
        (judge.pointer.weight, [(0, 1), (3, 2)]),
    ):
        for place in places:
            values = []
            for step in (1e-6, -1e-6):
                with torch.no_grad():
                    weight[place] += step
                    values.append(float(loss()))
                    weight[place] -= step
            assert abs(float(weight.grad[place])) > 1e-4
            assert float(weight.grad[place]) == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-6, abs=1e-8)


def test_codes_are_nearly_at_right_angles_and_the_rest_is_that_of_a_plain_critic() -> None:
    plain = Critic(150, 8, 8, generator=generator())
    judge = Critic(150, 8, 8, generator=generator(), copy=64)
    codes = judge.readout.weight.detach()[:, -64:]
    alike = codes @ codes.T - torch.eye(150)
    assert alike[:64, :64].abs().max() < 1e-5
    assert alike[64:128, 64:128].abs().max() < 1e-5
    assert alike.diagonal().abs().max() < 1e-5
    assert 0 < alike.abs().max() < 0.6
    for name, weight in plain.named_parameters():
        mine = judge.get_parameter(name).detach()
        assert torch.equal(mine[:, :8] if name == "readout.weight" else mine, weight)
    pointer = judge.pointer.weight.detach()
    assert -0.1 <= pointer.min() < 0 < pointer.max() <= 0.1


def test_copying_needs_no_generator() -> None:
    assert Critic(6, 3, 4, copy=3).readout.weight.shape == (6, 4 + 3)


def test_dropout_leaves_what_is_copied_alone() -> None:
    judge = copying(dropout=0.4)
    dropout = judge.drop(4, Noise(generator(), 2))
    assert dropout is not None
    assert dropout.kept.shape == (2, 4, 4)
    memory = judge.encode(REFERENCES)
    dropped, whole = judge.score(memory, TOKENS, dropout).features, judge.score(memory, TOKENS).features
    assert torch.equal(dropped[..., 4:], whole[..., 4:])
    assert not torch.equal(dropped[..., :4], whole[..., :4])


def test_a_target_network_that_copies() -> None:
    target, source = copying(), critic(1, copy=8)
    before = target.pointer.weight.detach().clone()
    update_target(target, source, 0.3)
    torch.testing.assert_close(target.pointer.weight, 0.3 * source.pointer.weight + 0.7 * before)


@pytest.mark.parametrize("copy", [0, 8])
def test_dueling_starts_at_zero_and_learns_what_all_words_have_in_common(copy: int) -> None:
    judge = critic(copy=copy, dueling=True)
    memory = judge.encode(REFERENCES)
    assert not judge.score(memory, TOKENS).table().any()
    assert judge.common is not None
    with torch.no_grad():
        judge.common.weight.normal_(generator=generator(2))
        judge.common.bias.fill_(0.5)
    scores = judge.score(memory, TOKENS)
    worth = scores.features[..., :4] @ judge.common.weight[0] + 0.5
    torch.testing.assert_close(scores.table(), worth.unsqueeze(-1).expand(2, 4, 6))
    stepped, _ = judge.step(memory, judge.start(memory), None)
    torch.testing.assert_close(stepped.table(), scores.table()[:, 0])
    scores.table()[..., 3].sum().backward()
    learned = [name for name, weight in judge.named_parameters() if weight.grad is not None and weight.grad.any()]
    assert {"common.weight", "common.bias", "readout.weight", "readout.bias"} <= set(learned)
    assert ("pointer.weight" in learned) == bool(copy)


def test_dueling_adds_to_what_a_word_has_of_its_own() -> None:
    judge, plain = critic(copy=8, dueling=True), critic(copy=8)
    for name, weight in plain.named_parameters():
        judge.get_parameter(name).data = weight.data
    same = [net.score(net.encode(REFERENCES), TOKENS).table() for net in (judge, plain)]
    assert torch.equal(*same)


@pytest.mark.parametrize("references", ["own", "all"])
@pytest.mark.parametrize("copy", [0, 3])
def test_another_eos_ends_what_is_read_and_what_is_written(references, copy: int) -> None:
    """The same critic with its words renumbered, eos moved to 5: the same Q, renumbered."""
    judge, other = (
        Critic(alphabet, 3, 4, generator=generator(), copy=copy, references=references).double()
        for alphabet in (6, Alphabet(6, eos=5))
    )
    swap = torch.tensor([5, 1, 2, 3, 4, 0])
    for name, weight in other.named_parameters():
        if name.startswith(("embedding", "source_embedding", "readout")):
            weight.data = judge.get_parameter(name).data[swap]
        elif name == "pointer.weight":
            weight.data = judge.pointer.weight.data
    renumbered = torch.where(REFERENCES == ABSENT, ABSENT, swap[REFERENCES.clamp(min=0)])
    assert (REFERENCES == ABSENT).any()
    q = judge.score(judge.encode(REFERENCES), TOKENS).table()
    torch.testing.assert_close(other.score(other.encode(renumbered), swap[TOKENS]).table(), q[..., swap])
    assert other.read(Batch(torch.zeros(2), renumbered)).rows == 2
