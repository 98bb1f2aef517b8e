"""Critics of any body."""

import copy

import torch

from models.pretrained import SOURCE, V, critic, kinds, policy
from seqcredit.models.critic import update_target
from seqcredit.models.judge import Borrowed, Judge
from seqcredit.types import Batch, pad_references


@kinds
def test_critics_step_as_they_score(kind: str) -> None:
    net = policy(kind)
    judge, eos = critic(net), net.alphabet.eos
    references = pad_references([[[5, 6, 7], [8]], [[8, 9]], [[10, 11, 12, 13], [5, 6]]], eos)
    memory, tokens = judge.read(Batch(SOURCE, references)), torch.tensor([[5, 6, 7, 8]] * 3)
    state, token, found = judge.start(memory), None, []
    for t in range(4):
        scores, state = judge.step(memory, state, token)
        found.append(scores.table())
        token = tokens[:, t]
    torch.testing.assert_close(torch.stack(found, 1), judge.score(memory, tokens).table(), atol=1e-10, rtol=0)


def test_a_critic_starts_at_zero_and_reads_what_it_is_told_to() -> None:
    net, eos = policy("t5"), 1
    references = pad_references([[[5, 6], [7]], [[8]], [[9]]], eos)
    others = pad_references([[[5, 6], [10]], [[8]], [[9]]], eos)  # only the second reference differs
    tokens = torch.tensor([[5, 6]] * 3)
    fresh = Judge(copy.deepcopy(net), copy=4).double()
    assert torch.equal(
        fresh.score(fresh.read(Batch(SOURCE, references)), tokens).table(), torch.zeros(3, 2, V).double()
    )
    for half, which, sees_source, sees_second in (
        ("references", "own", False, False),
        ("references", "all", False, True),
        ("both", "all", True, True),
        ("source", "all", True, False),
    ):
        judge = critic(net)
        judge.looks_at, judge.references = half, which  # type: ignore[assignment]
        q = [
            judge.score(judge.read(Batch(source, known)), tokens).table()[0]
            for source, known in ((SOURCE, references), (SOURCE.flip(1), references), (SOURCE, others))
        ]
        assert torch.allclose(q[0], q[1]) is not sees_source
        assert torch.allclose(q[0], q[2]) is not sees_second
    nothing = torch.empty(3, 0, 1, dtype=torch.long)
    judge = critic(net)
    assert judge.score(judge.read(Batch(SOURCE, nothing)), tokens).table().shape == (3, 2, V)


@kinds
def test_what_is_not_read_takes_no_position(kind: str) -> None:
    """Neither references that are longer than the one that counts, nor the gaps between several."""
    net = policy(kind)
    judge, eos, tokens = critic(net), net.alphabet.eos, torch.tensor([[5, 6]])
    judge.looks_at = "references"

    def q(references: list[list[int]]) -> torch.Tensor:
        return judge.score(judge.read(Batch(SOURCE[:1], pad_references([references], eos))), tokens).table()

    torch.testing.assert_close(q([[5, 6], [7] * 60]), q([[5, 6]]))  # learned positions are for 40
    judge.references = "all"
    row = torch.tensor([[5, 6, eos, 7, eos, 8, 9, 10, eos]])
    torch.testing.assert_close(q([[5, 6], [7], [8, 9, 10]]), judge.score(judge.encode(row), tokens).table())


def test_q_is_the_sum_that_it_is_said_to_be() -> None:
    """Written out for one state: the readout in common, that of the word, and the codes of what was read."""
    net = policy("llama")
    judge = critic(net)
    memory, tokens = judge.read(Batch(SOURCE, pad_references([[[5, 6]], [[8]], [[9]]], 2))), torch.tensor([[5]] * 3)
    q = judge.score(memory, tokens).table()[0, 0]
    normed = [
        torch.nn.functional.layer_norm(x, (16,))
        for x in (net.hidden(memory.inner, tokens)[0, 0], memory.inner.states[0])
    ]
    own, codes = judge.readout.weight[:, :16], judge.readout.weight[:, 16:]
    places = (judge.pointer.weight @ normed[0]) @ normed[1].T / 4
    read = [*SOURCE[0].tolist(), 5, 6, 2]
    assert memory.inner.ids[0].tolist() == read
    for word in range(V):
        copied = sum(places[j] * (codes[word] @ codes[x]) for j, x in enumerate(read))
        expected = (own[word] + judge.common.weight[0]) @ normed[0] + judge.readout.bias[word] + judge.common.bias[0]
        torch.testing.assert_close(q[word], expected + copied, atol=1e-10, rtol=0)


def test_what_belongs_to_the_memory_is_made_once() -> None:
    """A step lays out no readout and normalises no states of its own; rows are selected and joined with the rest."""
    judge = critic(policy("llama"))
    memory = judge.read(Batch(SOURCE, pad_references([[[5, 6]], [[8]], [[9]]], 2)))
    one, other = (judge.step(memory, judge.start(memory), token)[0] for token in (None, torch.tensor([5, 6, 7])))
    assert one.weight is other.weight is memory.weight
    chosen = memory.select(torch.tensor([2, 0])).join(memory.select(torch.tensor([1])))
    tokens = torch.tensor([[5, 6], [7, 8], [9, 10]])
    expected = judge.score(memory, tokens[[1, 2, 0]]).table()[[2, 0, 1]]
    torch.testing.assert_close(judge.score(chosen, tokens).table(), expected, atol=1e-10, rtol=0)


@kinds
def test_a_head_on_the_actors_own_body(kind: str) -> None:
    """It says what a critic with a copy of that body says, holds its head alone, and leaves the body as it is."""
    net = policy(kind)
    apart = critic(net)
    shared = Judge(Borrowed(net), copy=4, read="both", generator=torch.Generator().manual_seed(6)).double()
    references = pad_references([[[5, 6, 7]], [[8, 9]], [[10, 11]]], net.alphabet.eos)
    batch, tokens = Batch(SOURCE, references), torch.tensor([[5, 6, 7, 8]] * 3)
    assert torch.equal(shared.score(shared.read(batch), tokens).table(), torch.zeros(3, 4, V).double())
    head = {key: tensor for key, tensor in apart.state_dict().items() if not key.startswith("body.")}
    assert shared.state_dict().keys() == head.keys()
    sizes = [sum(weight.numel() for weight in module.parameters()) for module in (shared, apart, net)]
    assert sizes[0] == sizes[1] - sizes[2]
    shared.load_state_dict(head)
    found = shared.score(shared.read(batch), tokens).table()
    torch.testing.assert_close(found, apart.score(apart.read(batch), tokens).table(), atol=1e-10, rtol=0)
    memory = shared.read(batch)
    scores, state = shared.step(memory, shared.start(memory), None)
    torch.testing.assert_close(scores.table(), found[:, 0], atol=1e-10, rtol=0)
    torch.testing.assert_close(shared.step(memory, state, tokens[:, 0])[0].table(), found[:, 1], atol=1e-10, rtol=0)
    found.square().sum().backward()
    assert all(weight.grad is not None and weight.grad.abs().max() > 0 for weight in shared.parameters())
    assert all(weight.grad is None for weight in net.parameters())


def test_a_target_is_a_copy_of_the_head_on_the_same_body() -> None:
    net = policy("llama")
    judge = Judge(Borrowed(net), copy=4).double()
    target = copy.deepcopy(judge)
    with torch.no_grad():
        judge.common.weight.copy_(torch.arange(16.0))
        judge.readout.bias.fill_(1.0)
    batch, tokens = Batch(SOURCE, pad_references([[[5, 6]], [[8]], [[9]]], 2)), torch.tensor([[5, 6]] * 3)
    assert target.score(target.read(batch), tokens).table().abs().max() == 0  # it stays behind
    update_target(target, judge, 1.0)
    before = target.score(target.read(batch), tokens).table()
    assert torch.equal(before, judge.score(judge.read(batch), tokens).table())
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(1.5)
    after = target.score(target.read(batch), tokens).table()
    assert not torch.allclose(before, after)  # the body is the actor's, and goes with it
    assert torch.equal(after, judge.score(judge.read(batch), tokens).table())
