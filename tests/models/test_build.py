"""Networks from options: what was asked for, from a seed, or one sentence that says what to change."""

import pytest
import torch

from seqcredit.errors import UserError
from seqcredit.models.build import LSTM, Transformer, differences
from seqcredit.models.captioner import Captioner
from seqcredit.models.critic import Critic
from seqcredit.models.lstm import Additive, Dot, Seq2Seq
from seqcredit.types import Alphabet

WORDS = Alphabet(7)
SMALL = LSTM(embedding=3, hidden=4, layers=2, attention="mlp", input_feeding=True, dropout=0.25)


def weights(net: torch.nn.Module) -> list[torch.Tensor]:
    return [weight.detach() for weight in net.parameters()]


def same(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    return all(torch.equal(*pair) for pair in zip(weights(a), weights(b), strict=True))


def test_an_actor_has_the_shape_that_was_asked_for() -> None:
    actor = SMALL.actor(9, WORDS, seed=1)
    assert isinstance(actor, Seq2Seq)
    assert not isinstance(actor, Critic)
    assert actor.alphabet is WORDS
    assert actor.source_embedding.weight.shape == (9, 3)
    assert actor.embedding.weight.shape == (7, 3)
    assert actor.readout.weight.shape == (7, 4)
    assert actor.decoder.num_layers == len(actor.encoder) == 2
    assert actor.decoder.input_size == 3 + 4  # what is fed back stands beside the word
    assert isinstance(actor.scorer, Additive)
    assert actor.dropout == 0.25
    plain = LSTM(embedding=3, hidden=4).actor(9, WORDS, seed=1)
    assert isinstance(plain.scorer, Dot)
    assert plain.decoder.input_size == 3


def test_an_actor_of_pictures() -> None:
    options = LSTM(embedding=3, hidden=4, layers=2, attention="none", dropout=0.1)
    actor = options.actor(5, WORDS, seed=1, pictures=True)
    assert isinstance(actor, Captioner)
    assert actor.picture.weight.shape == (2 * 2 * 4, 5)
    assert actor.embedding.weight.shape == (7, 3)
    assert (actor.layers, actor.dropout) == (2, 0.1)
    assert actor.alphabet is WORDS


def test_a_critic_reads_references_and_copies_if_asked() -> None:
    critic = SMALL.critic(WORDS, seed=1)
    assert isinstance(critic, Critic)
    assert critic.reads == "references"
    assert critic.references == "own"
    assert critic.alphabet is WORDS
    assert critic.source_embedding.weight.shape == critic.embedding.weight.shape == (7, 3)
    assert critic.decoder.num_layers == len(critic.encoder) == 2
    assert isinstance(critic.scorer, Additive)
    assert (critic.copy, critic.dropout, critic.fed) == (0, 0.25, 4)
    copying = LSTM(embedding=3, hidden=4, copy=5).critic(WORDS, seed=1, references="all")
    assert (copying.copy, copying.references) == (5, "all")
    assert copying.readout.weight.shape == (7, 4 + 5)
    other = Alphabet(7, eos=6)
    assert SMALL.critic(other, seed=1).source_eos == 6
    assert critic.source_eos == 0


def test_first_weights_are_a_function_of_the_seed() -> None:
    first, again, other = (SMALL.actor(7, WORDS, seed) for seed in (1, 1, 2))
    assert same(first, again)
    assert not same(first, other)
    critic, once_more, another = (SMALL.critic(WORDS, seed) for seed in (1, 1, 2))
    assert same(critic, once_more)
    assert not same(critic, another)
    assert not same(critic, first)  # of the same shapes, but with numbers of its own
    numbers = torch.Generator().manual_seed(1 + 1_000_003)  # the same in every version, for runs that go on
    assert same(critic, Critic(WORDS, 3, 4, 2, "mlp", True, generator=numbers))
    assert same(first, Seq2Seq(7, WORDS, 3, 4, 2, "mlp", True, generator=torch.Generator().manual_seed(1)))


@pytest.mark.parametrize(
    ("options", "pictures", "says"),
    [
        (LSTM(attention="dot"), True, "attention to 'none'"),
        (LSTM(attention="none", input_feeding=True), True, "input_feeding to false"),
        (LSTM(attention="none"), False, "'dot' or 'mlp' in \\[actor\\]"),
    ],
)
def test_an_actor_that_does_not_fit_its_data(options: LSTM, pictures: bool, says: str) -> None:
    with pytest.raises(UserError, match=says):
        options.actor(9, WORDS, 1, pictures)


def test_a_critic_must_look_at_the_reference() -> None:
    with pytest.raises(UserError, match="'dot' or 'mlp' in \\[critic\\]"):
        LSTM(attention="none").critic(WORDS, 1)


def test_networks_that_share_a_shape_share_their_weights_names() -> None:
    """Whatever is not part of the shape may differ: dropout."""
    assert {*LSTM().shape, "dropout"} == {*LSTM.__dataclass_fields__}
    one, other = (LSTM(embedding=3, hidden=4, dropout=rate) for rate in (0.0, 0.5))
    assert differences(one, other) == []
    other.actor(9, WORDS, 1).load_state_dict(one.actor(9, WORDS, 1).state_dict())
    assert differences(one, LSTM(embedding=3, hidden=6)) == [("hidden", 4, 6)]


def test_a_transformer_of_one_stack() -> None:
    """An actor has words of its own to read, a critic reads what it writes; pictures are no matter."""
    options = Transformer(width=8, layers=2, heads=2, decoder_only=True)
    actor, critic = options.actor(9, WORDS, seed=1), options.critic(WORDS, seed=1)
    assert actor.decoder_only
    assert len(actor.encoder) == 0
    assert actor.source_embedding is not None
    assert actor.source_embedding.weight.shape == (9, 8)
    assert critic.body.source_embedding is None
    assert critic.body.decoder_only
    tokens = torch.tensor([[2, 3, 0], [4, 0, 0]])
    assert actor.score(actor.encode(torch.tensor([[8, 3, 0], [2, 0, 0]])), tokens).table().shape == (2, 3, 7)
    assert critic.score(critic.encode(tokens.unsqueeze(1)), tokens).table().abs().max() == 0
    assert options.actor(5, WORDS, seed=1, pictures=True).picture is not None
    assert options.said() == "Transformer, 2 x 8, 2 heads, decoder only"
    assert [key for key, *_ in differences(options, Transformer(width=8, layers=2, heads=2))] == ["decoder_only"]
