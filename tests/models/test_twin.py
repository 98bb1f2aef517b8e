"""Two critics side by side: the lower Q of every action, all at once and step by step."""

import torch

from seqcredit.models.build import LSTM, Transformer
from seqcredit.models.critic import Critic
from seqcredit.models.twin import Twin
from seqcredit.types import Alphabet, Batch, pad, pad_references

REFERENCES = pad_references([[[2, 3]], [[4, 4, 5]]])
TOKENS = pad([[3, 2, 5], [4]])


def twin() -> Twin:
    return Twin(*(Critic(7, 6, 6, generator=torch.Generator().manual_seed(seed)).double() for seed in (0, 1)))


def test_the_lower_q_of_every_action() -> None:
    both = twin()
    memory = both.read(Batch(TOKENS, REFERENCES))
    one, other = (net.score(net.encode(REFERENCES), TOKENS).table() for net in (both.first, both.second))
    scores = both.score(memory, TOKENS)
    assert torch.equal(scores.table(), torch.minimum(one, other))
    assert not torch.equal(scores.table(), one)
    assert scores.linear() is None
    assert torch.equal(both.score(both.encode(REFERENCES), TOKENS).table(), scores.table())


def test_steps_are_the_scores_and_rows_can_be_chosen() -> None:
    both = twin()
    rows = torch.tensor([1, 0, 1])
    memory = both.encode(REFERENCES).select(rows)
    joined = memory.join(both.encode(REFERENCES))
    assert (memory.rows, joined.rows) == (3, 5)
    expected = both.score(both.encode(REFERENCES), TOKENS).table()[rows]
    state, token = both.start(memory), None
    for t in range(TOKENS.shape[1]):
        scores, state = both.step(memory, state, token)
        token = TOKENS[rows, t]
        torch.testing.assert_close(scores.table(), expected[:, t])


def test_options_make_two_that_differ() -> None:
    for options in (LSTM(8, 8, twin=True), Transformer(16, 1, 2, twin=True)):
        made = options.critic(Alphabet(7), 1)
        assert isinstance(made, Twin)
        one, other = (torch.cat([w.flatten() for w in net.parameters()]) for net in (made.first, made.second))
        assert not torch.equal(one, other)
    made, alone = (LSTM(8, 8, twin=twin).critic(Alphabet(7), 1).state_dict() for twin in (True, False))
    assert all(torch.equal(made[f"first.{key}"], weight) for key, weight in alone.items())  # one would be the first
