"""Networks from options: what was asked for, from a seed, or one sentence that says what to change."""

import pytest
import torch

from seqcredit.errors import UserError
from seqcredit.models.build import LSTM, SHAPE, build_actor, build_critic
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
    actor = build_actor(SMALL, 9, WORDS, seed=1)
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
    plain = build_actor(LSTM(embedding=3, hidden=4), 9, WORDS, seed=1)
    assert isinstance(plain.scorer, Dot)
    assert plain.decoder.input_size == 3


def test_an_actor_of_pictures() -> None:
    options = LSTM(embedding=3, hidden=4, layers=2, attention="none", dropout=0.1)
    actor = build_actor(options, 5, WORDS, seed=1, pictures=True)
    assert isinstance(actor, Captioner)
    assert actor.picture.weight.shape == (2 * 2 * 4, 5)
    assert actor.embedding.weight.shape == (7, 3)
    assert (actor.layers, actor.dropout) == (2, 0.1)
    assert actor.alphabet is WORDS


def test_a_critic_reads_references_and_copies_if_asked() -> None:
    critic = build_critic(SMALL, WORDS, seed=1)
    assert isinstance(critic, Critic)
    assert critic.reads == "references"
    assert critic.references == "own"
    assert critic.alphabet is WORDS
    assert critic.source_embedding.weight.shape == critic.embedding.weight.shape == (7, 3)
    assert critic.decoder.num_layers == len(critic.encoder) == 2
    assert isinstance(critic.scorer, Additive)
    assert (critic.copy, critic.dropout, critic.fed) == (0, 0.25, 4)
    copying = build_critic(LSTM(embedding=3, hidden=4, copy=5), WORDS, seed=1, references="all")
    assert (copying.copy, copying.references) == (5, "all")
    assert copying.readout.weight.shape == (7, 4 + 5)
    other = Alphabet(7, eos=6)
    assert build_critic(SMALL, other, seed=1).source_eos == 6
    assert critic.source_eos == 0


def test_first_weights_are_a_function_of_the_seed() -> None:
    first, again, other = (build_actor(SMALL, 7, WORDS, seed) for seed in (1, 1, 2))
    assert same(first, again)
    assert not same(first, other)
    critic, once_more, another = (build_critic(SMALL, WORDS, seed) for seed in (1, 1, 2))
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
        build_actor(options, 9, WORDS, 1, pictures)


def test_a_critic_must_look_at_the_reference() -> None:
    with pytest.raises(UserError, match="'dot' or 'mlp' in \\[critic\\]"):
        build_critic(LSTM(attention="none"), WORDS, 1)


def test_networks_that_share_a_shape_share_their_weights_names() -> None:
    """Whatever is not part of the shape may differ: dropout."""
    assert set(SHAPE) | {"dropout"} == set(LSTM.__dataclass_fields__)
    one, other = (build_actor(LSTM(embedding=3, hidden=4, dropout=rate), 9, WORDS, 1) for rate in (0.0, 0.5))
    other.load_state_dict(one.state_dict())
