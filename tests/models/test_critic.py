import copy

import pytest
import torch

from seqcredit.draws import Noise
from seqcredit.models.critic import Critic, update_target
from seqcredit.models.lstm import Seq2Seq
from seqcredit.types import pad, pad_references

REFERENCES = pad_references([[[2, 3], [4, 4, 4]], [[5]]])  # (2, 2, 4)
TOKENS = pad([[2, 4, 3], [5]])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def critic(seed: int = 0, **kind) -> Critic:
    return Critic(6, embedding=3, hidden=4, generator=generator(seed), **kind).double()


@pytest.mark.parametrize("kind", [{}, {"attention": "dot", "dropout": 0.1, "input_feeding": True, "layers": 2}])
def test_reads_the_first_reference_as_its_source(kind) -> None:
    judge = critic(**kind)
    source = {"attention": "mlp", "dropout": 0.0, **kind}
    same = Seq2Seq(6, 6, embedding=3, hidden=4, generator=generator(), **source).double()
    q = judge.readout(judge.features(judge.encode(REFERENCES), TOKENS))
    expected = same.readout(same.features(same.encode(REFERENCES[:, 0]), TOKENS))
    torch.testing.assert_close(q, expected, atol=1e-12, rtol=0)
    other = REFERENCES.clone()
    other[0, 1, 0] = 2
    assert torch.equal(q, judge.readout(judge.features(judge.encode(other), TOKENS)))


def test_reads_all_references_in_any_order() -> None:
    judge = critic(references="all")

    def q(references: torch.Tensor) -> torch.Tensor:
        return judge.readout(judge.features(judge.encode(references), TOKENS[: len(references)]))

    known = q(REFERENCES)
    torch.testing.assert_close(q(REFERENCES[:1].flip(1)), known[:1], atol=1e-12, rtol=0)
    other = REFERENCES.clone()
    other[0, 1, 0] = 2
    assert not torch.allclose(q(other)[0], known[0])
    alone = judge.readout(judge.features(judge.encode(REFERENCES[1:, :1]), TOKENS[1:]))
    torch.testing.assert_close(alone, known[1:], atol=1e-12, rtol=0)  # an absent reference leaves no trace
    single = [Critic.encode(critic(), REFERENCES[:1, [i]]) for i in (0, 1)]
    read = judge.encode(REFERENCES[:1])
    torch.testing.assert_close(read.h, (single[0].h + single[1].h) / 2, atol=1e-12, rtol=0)
    words = [state for one in single for state in one.states[0][one.mask[0]]]
    torch.testing.assert_close(read.states[0][read.mask[0]], torch.stack(words), atol=1e-12, rtol=0)


def test_has_no_dropout_unless_asked() -> None:
    assert critic().masks(3, Noise(generator(), 2)) is None
    assert critic(dropout=0.1).masks(3, Noise(generator(), 2)) is not None


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
