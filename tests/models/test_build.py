"""Networks from options: what was asked for, from a seed, or one sentence that says what to change."""

import json
from typing import get_args

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from seqcredit.errors import UserError
from seqcredit.models.attention import Additive, Dot
from seqcredit.models.build import CRITICS, LSTM, NOTHING, HuggingFace, Networks, Transformer, differences
from seqcredit.models.captioner import Captioner
from seqcredit.models.critic import Critic
from seqcredit.models.judge import Judge
from seqcredit.models.lstm import Seq2Seq
from seqcredit.models.transformer import TransformerNetwork
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


def test_what_a_model_card_says() -> None:
    assert LSTM(embedding=3, hidden=4).said() == "LSTM, 1 x 4, embeddings 3, dot attention"
    assert SMALL.said() == "LSTM, 2 x 4, embeddings 3, mlp attention, input feeding"
    assert Transformer(width=8, heads=2).said() == "Transformer, 3 x 8, 2 heads"
    named = HuggingFace(json.dumps({"architectures": ["Marian", "Other"], "model_type": "marian"}))
    assert named.said() == "Marian of Hugging Face"
    assert HuggingFace(json.dumps({"architectures": None, "model_type": "t5"})).said() == "t5 of Hugging Face"


def test_what_only_a_critic_has() -> None:
    assert LSTM().unfit_actor() is None
    assert LSTM(copy=5).unfit_actor() == "copy is 5, but only a critic reads the reference; leave it to [critic]."
    said = "dueling is true, but only a critic gives values; leave it to [critic]."
    assert LSTM(dueling=True).unfit_actor() == said
    assert Transformer(copy=5).unfit_actor() is None
    assert (LSTM().fed, SMALL.fed, Transformer().fed) == (False, True, False)


def test_all_kinds_of_networks() -> None:
    assert get_args(Networks) == (LSTM, Transformer, HuggingFace)
    assert {each.kind for each in get_args(Networks)} == {"lstm", "transformer", "huggingface"}


# Transformers.


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"width": 12, "heads": 4}, "width is 12, but it must be an even multiple of heads, which is 4"),
        ({"width": 6, "heads": 2}, "width is 6, but it must be an even multiple of heads, which is 2"),
        ({"width": 8, "heads": 0}, "heads is 0, but it must be 1 or more"),
    ],
)
def test_the_width_of_a_transformer(options: dict[str, int], said: str) -> None:
    with pytest.raises(UserError, match=f"^Transformer: {said}"):
        Transformer(**options)
    assert Transformer(width=16, heads=4).width == 16


def test_transformers_are_a_function_of_the_seed() -> None:
    options = Transformer(width=8, layers=1, heads=2, dropout=0.25, copy=3)
    actor, critic = options.actor(9, WORDS, 1), options.critic(WORDS, 1, "all")
    assert same(actor, options.actor(9, WORDS, 1))
    assert not same(actor, options.actor(9, WORDS, 2))
    assert same(critic, options.critic(WORDS, 1))
    numbers = [torch.Generator().manual_seed(1 + CRITICS) for _ in range(2)]
    body = TransformerNetwork(7, WORDS, 8, 1, 2, 0.25, numbers[0], source_eos=NOTHING)
    assert same(critic, Judge(body, 3, references="all", generator=numbers[1]))
    assert critic.references == "all"
    assert options.actor(5, WORDS, 1, pictures=True).encode(torch.zeros(2, 5)) is not None


# Models of Hugging Face.


def test_models_of_hugging_face_are_a_function_of_the_seed() -> None:
    sizes = {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 16}
    options = HuggingFace.of(GPT2LMHeadModel(GPT2Config(vocab_size=7, bos_token_id=6, eos_token_id=0, **sizes)))
    with pytest.raises(UserError, match=r"^These data hold pictures: a model from Hugging Face reads text"):
        options.actor(9, WORDS, 1, pictures=True)
    actor, critic = options.actor(9, WORDS, 1), options.critic(WORDS, 1)
    assert same(actor, options.actor(0, WORDS, 1))
    assert not same(actor, options.actor(9, WORDS, 2))
    other = options.actor(9, WORDS, 1 + CRITICS)
    numbers = torch.Generator().manual_seed(1 + CRITICS)
    assert same(critic, Judge(other, options.copy, "references", "own", numbers))
    assert same(critic, options.critic_like(other, 1))


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
