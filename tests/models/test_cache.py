"""Caches of transformers as rows: what is selected, joined and gone on from is as if it had been so from the start."""

import pytest
import torch
from transformers import DynamicCache

from models.pretrained import SOURCE, kinds, policy
from seqcredit.errors import UserError
from seqcredit.models.cache import Cached


@kinds
def test_rows_are_selected_and_joined(kind: str) -> None:
    net = policy(kind)
    memory, order = net.encode(SOURCE), torch.tensor([2, 0, 0])
    tokens = torch.tensor([[5, 6, 7]] * 3)
    alone = net.score(memory.select(order), tokens).table()
    torch.testing.assert_close(alone, net.score(memory, tokens).table()[order], atol=1e-12, rtol=0)
    _, state = net.step(memory, net.start(memory), None)
    _, state = net.step(memory, state, tokens[:, 0])
    scores, _ = net.step(memory, state, tokens[:, 1])
    torch.testing.assert_close(scores.table(), net.score(memory, tokens).table()[:, 2], atol=1e-12, rtol=0)
    chosen, _ = net.step(memory.select(order), state.select(order), tokens[:, 1])
    torch.testing.assert_close(chosen.table(), scores.table()[order], atol=1e-12, rtol=0)
    both = memory.join(memory.select(order))
    expected = torch.cat([net.score(memory, tokens).table(), alone])
    torch.testing.assert_close(net.score(both, tokens.repeat(2, 1)).table(), expected, atol=1e-12, rtol=0)
    assert both.rows == 6
    states = state.join(state.select(order))
    assert (states.rows, states.t, state.rows, state.t) == (6, state.after(0).t, 3, state.after(1).t - 1)
    joined, _ = net.step(both, states, tokens[:, 1].repeat(2))
    torch.testing.assert_close(joined.table(), torch.cat([scores.table(), chosen.table()]), atol=1e-12, rtol=0)


def test_a_cache_of_another_kind_is_refused() -> None:
    class Other(DynamicCache):
        """Which may write into its tensors."""

    with pytest.raises(UserError, match="A cache of the kind Other cannot be shared: write a Policy for this model"):
        Cached(Other(), 1).after(1)
