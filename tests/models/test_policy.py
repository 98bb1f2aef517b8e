"""Rows, scores, dropout, and the readout that is laid out once."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from models import small
from seqcredit.draws import Noise
from seqcredit.models import policy
from seqcredit.models.policy import (
    Dropout,
    Linear,
    Policy,
    Readout,
    Scores,
    Tensors,
    Written,
    repeat,
    reshaped,
)
from seqcredit.types import Alphabet, Batch, pad, pad_references

CPU = torch.device("cpu")


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@dataclass(frozen=True)
class Pair(Tensors):
    """Two tensors of different shape and type."""

    wide: Tensor
    flags: Tensor


def pair(rows: int) -> Pair:
    number = torch.arange(rows)
    return Pair(number.double().view(-1, 1, 1).expand(-1, 2, 3), number % 2 == 1)


class Constant(Policy[Pair, Pair]):
    """Knows one table, and remembers what it was given to read."""

    def __init__(self, reads: str = "source") -> None:
        super().__init__()
        self.alphabet, self.reads = Alphabet(4), reads  # type: ignore[assignment]
        self.seen: list[Tensor] = []

    def encode(self, source: Tensor, /) -> Pair:
        self.seen.append(source)
        return pair(len(source))

    def score(self, memory: Pair, tokens: Tensor, dropout: Dropout | None = None) -> Scores:
        return Written(torch.zeros(*tokens.shape, 4))

    def start(self, memory: Pair) -> Pair:
        return memory

    def step(
        self, memory: Pair, state: Pair, token: Tensor | None, dropout: Tensor | None = None
    ) -> tuple[Scores, Pair]:
        return Written(torch.zeros(memory.rows, 4)), state


# Rows.


def test_rows_are_counted_selected_and_joined_in_every_field() -> None:
    four = pair(4)
    assert four.rows == 4
    picked, joined = four.select(torch.tensor([2, 0, 2])), pair(2).join(pair(3))
    assert isinstance(picked, Pair)
    assert isinstance(joined, Pair)
    assert picked.wide[:, 0, 0].tolist() == [2, 0, 2]
    assert picked.flags.tolist() == [False] * 3
    assert joined.wide[:, 0, 0].tolist() == [0, 1, 0, 1, 2]
    assert joined.flags.tolist() == [False, True, False, True, False]
    assert joined.rows == 5
    assert four.select(torch.zeros(0, dtype=torch.long)).rows == 0


def test_repeat_puts_the_copies_side_by_side() -> None:
    twice = repeat(pair(3), 2, CPU)
    assert twice.wide[:, 1, 2].tolist() == [0, 0, 1, 1, 2, 2]
    assert twice.flags.tolist() == [False, False, True, True, False, False]


def test_what_a_policy_reads() -> None:
    batch = Batch(pad([[5], [6, 7]]), pad_references([[[2]], [[3], [1]]]))
    for reads, expected in (("source", batch.source), ("references", batch.references)):
        model = Constant(reads)
        assert model.read(batch).rows == 2
        assert len(model.seen) == 1
        assert torch.equal(model.seen[0], expected)


def test_a_policy_drops_nothing_unless_it_says_so() -> None:
    assert Constant().train().drop(3, Noise(torch.Generator(), 2)) is None
    assert Constant.reads == "source"


def test_a_policy_must_say_all_that_is_asked_of_it() -> None:
    class Half(Policy[Pair, Pair]):
        """It reads, and that is all."""

        def encode(self, source: Tensor, /) -> Pair:
            return pair(len(source))

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]
    assert not isinstance(nn.Linear(2, 2), Policy)


# Scores.


def test_linear_scores_are_those_of_a_readout() -> None:
    features, readout = random(3, 2, 5), nn.Linear(5, 7).double()
    scores = Linear(features, readout.weight, readout.bias)
    torch.testing.assert_close(scores.table(), readout(features))
    by_hand = (features.unsqueeze(-2) * readout.weight).sum(-1)
    torch.testing.assert_close(Linear(features, readout.weight).table(), by_hand)
    torch.testing.assert_close(scores.table(), by_hand + readout.bias)
    assert scores.linear() is scores


def test_written_scores_are_themselves() -> None:
    table = random(3, 2, 7)
    assert Written(table).table() is table
    assert Written(table).linear() is None


@pytest.mark.parametrize("change", [lambda x: x[:, :1], lambda x: x.flatten(0, 1), lambda x: x.unflatten(0, (3, 1))])
def test_reshaped_scores_are_those_of_the_states_that_are_left(change) -> None:
    linear = Linear(random(3, 2, 5), random(7, 5, seed=1), random(7, seed=2))
    expected = change(linear.table())
    changed = reshaped(linear, change)
    assert isinstance(changed, Linear)
    assert changed.weight is linear.weight
    assert changed.bias is linear.bias
    torch.testing.assert_close(changed.table(), expected)
    written = reshaped(Written(linear.table()), change)
    assert written.linear() is None
    torch.testing.assert_close(written.table(), expected)


# Dropout.


def dropout() -> Dropout:
    """Row, step and unit can be read off every number."""
    b, t, d = torch.meshgrid(torch.arange(2), torch.arange(4), torch.arange(3), indexing="ij")
    return Dropout((100 * b + 10 * t + d + 1).double())


def test_dropout_of_some_rows_at_one_step() -> None:
    assert dropout().at(torch.tensor([1, 0, 1]), 2).tolist() == [[121, 122, 123], [21, 22, 23], [121, 122, 123]]


@pytest.mark.parametrize("length", [1, 4, 6])
def test_dropout_along_other_lengths_is_cut_or_filled_with_zeros(length: int) -> None:
    kept = dropout().kept
    found = dropout().along(length)
    assert found.shape == (2, length, 3)
    assert torch.equal(found[:, :4], kept[:, :length])
    assert not found[:, 4:].any()
    fitted = dropout().fit(length)
    assert isinstance(fitted, Dropout)
    assert torch.equal(fitted.kept, found)


def test_dropout_has_rows() -> None:
    both = dropout().join(dropout().select(torch.tensor([1])))
    assert both.rows == 3
    assert both.kept[:, 0, 0].tolist() == [1, 101, 101]
    assert repeat(dropout(), 2, CPU).kept[:, 0, 0].tolist() == [1, 1, 101, 101]


# The readout of single steps.


def linear(words: int, bias: bool, rows: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Linear:
    added = random(words, seed=seed + 2, dtype=dtype) if bias else None
    return Linear(random(rows, 5, seed=seed + 1, dtype=dtype), random(words, 5, seed=seed, dtype=dtype), added)


@pytest.mark.parametrize("rows", [6, 1])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("words", [3, 1_000])
def test_scores_are_those_of_the_readout(words, bias, rows) -> None:
    """A weight that is laid out serves any number of states: sentences leave while it is used."""
    readout = nn.Linear(5, words, bias)
    scores = Linear(random(rows, 5, seed=1, dtype=torch.float32), readout.weight, readout.bias)
    written = Readout(6)
    for left in (rows, 1):
        fewer = scores._replace(features=scores.features[:left])
        torch.testing.assert_close(written(fewer), readout(fewer.features))


def test_a_weight_is_laid_out_once(monkeypatch) -> None:
    made, lay_out = [], policy.laid_out

    def spy(weight, bias, rows: int):
        made.append(weight)
        return lay_out(weight, bias, rows)

    monkeypatch.setattr(policy, "laid_out", spy)
    written, scores = Readout(4), linear(9, True, 4)
    for step in range(3):
        again = scores._replace(features=random(4, 5, seed=step, dtype=torch.float32))
        torch.testing.assert_close(written(again), again.table())
    assert len(made) == 1
    another = linear(9, False, 4, seed=5)
    torch.testing.assert_close(written(another), another.table())
    torch.testing.assert_close(written(scores), scores.table())
    assert len(made) == 3
    assert made[1] is another.weight


def test_scores_that_are_a_table_are_written_down_as_they_are() -> None:
    scores = Written(random(4, 3))
    assert Readout(4)(scores) is scores.table()


def test_the_mask_of_actions_goes_where_the_weights_go() -> None:
    actions = torch.tensor([True, True, False, True, True, True])
    net = small.model(alphabet=Alphabet(6, 0, 1, actions))
    assert net.to("meta").alphabet.actions.device.type == "meta"  # type: ignore[union-attr]
    other = small.model(alphabet=Alphabet(6, 0, 1, actions)).float().alphabet.actions
    assert other is not None
    assert other.dtype == torch.bool
    assert torch.equal(other, actions)
