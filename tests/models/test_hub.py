"""Models of Hugging Face from folders, names and settings, and their alphabets."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AddedToken

from models.pretrained import SOURCE, V, kinds, make, policy
from seqcredit.errors import UserError
from seqcredit.models.build import HuggingFace
from seqcredit.models.hub import alphabet_of, make_model, open_model, open_tokenizer, policy_of, pretrained, whole
from seqcredit.types import ABSENT
from tokenizing import learn


def test_alphabets() -> None:
    for kind, eos, barred in (
        ("t5", 1, {0}),
        ("bart", 2, {0, 1}),
        ("marian", 0, {V - 1}),
        ("gpt2", V - 1, set()),
        ("llama", 2, {1}),
    ):
        alphabet = alphabet_of(make(kind))
        actions = torch.ones(V, dtype=torch.bool) if alphabet.actions is None else alphabet.actions
        assert (alphabet.size, alphabet.eos, alphabet.unk) == (V, eos, None)
        assert set((~actions).nonzero().squeeze(1).tolist()) == barred


def test_a_model_without_an_end_or_a_readout_is_refused() -> None:
    model = make("gpt2")
    model.config.eos_token_id = model.generation_config.eos_token_id = None
    with pytest.raises(UserError, match="has an id that ends a sequence: set eos_token_id"):
        alphabet_of(model)
    other = make("t5")
    other.config.decoder_start_token_id = other.generation_config.decoder_start_token_id = None
    with pytest.raises(UserError, match="does not say what its decoder starts with: set decoder_start_token_id"):
        pretrained(other)
    empty = policy("llama")
    with pytest.raises(UserError, match="A source without tokens"):
        empty.encode(torch.tensor([[5], [ABSENT]]))


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("config.json", b'"d_model": 16', b'"d_model": "a"', "folder with config.json and weights, .*d_model"),
        ("config.json", b'"d_model": 16', b'"d_model": 8', "cannot be loaded: give a folder"),
        ("model.safetensors", b"dtype", b"dtipe", r"cannot be loaded: .*\(SafetensorError: "),
        ("tokenizer.json", b'"model"', b'"modul"', "has no tokenizer that can be loaded: save it beside the model"),
        ("tokenizer_config.json", b'"eos_token": "</s>"', b'"eos_token": [1]', "has no tokenizer that can be loaded"),
        ("tokenizer_config.json", b'"model_max_length": 1', b'"model_max_length": [], "x": 1', "has no tokenizer"),
    ],
)
def test_a_damaged_folder_is_one_sentence(tmp_path: Path, file: str, old: bytes, new: bytes, said: str) -> None:
    model, tokenizer = make("t5"), learn(["a b"], size=12)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    whole = (tmp_path / file).read_bytes()
    assert old in whole
    (tmp_path / file).write_bytes(whole.replace(old, new, 1))
    with pytest.raises(UserError, match=said):
        alphabet_of(open_model(str(tmp_path)), open_tokenizer(str(tmp_path)))


def test_what_the_settings_say_must_fit_the_weights() -> None:
    model, tokenizer = make("t5"), learn(["a b"], size=12)
    tokenizer.add_special_tokens({"eos_token": "<far>", "additional_special_tokens": [f"<{i}>" for i in range(V)]})
    tokenizer.eos_token = f"<{V - 1}>"
    with pytest.raises(UserError, match=rf"^The tokenizer has the id \d+, but the model predicts {V}: give the model"):
        alphabet_of(model, tokenizer)
    model.config.decoder_start_token_id = model.generation_config.decoder_start_token_id = "x"
    with pytest.raises(UserError, match=r"^T5ForConditionalGeneration cannot be run"):
        pretrained(model)


def test_a_tokenizer_says_what_may_be_chosen() -> None:
    alphabet = alphabet_of(make("t5"), learn(["a b"], size=12))
    known = len(learn(["a b"], size=12))
    assert alphabet.unk == 2
    assert alphabet.actions is not None
    barred = set((~alphabet.actions).nonzero().squeeze(1).tolist())
    assert barred == {0, 3} | set(range(known, V))  # <pad>, <extra>, and what the tokenizer does not have


TURNS = (
    "{% for m in messages %}<user>{{ m['content'] }}<end> {% endfor %}{% if add_generation_prompt %}<user>{% endif %}"
)


def test_an_answer_ends_by_what_the_template_says() -> None:
    """In a chat the token behind an answer, elsewhere the tokenizer's eos, of a list the first. Others are barred."""
    read = learn(["a b"], size=12)
    read.add_special_tokens({"additional_special_tokens": ["<user>", "<end>"]})
    model, end = make("llama"), read.convert_tokens_to_ids("<end>")
    model.generation_config.eos_token_id = [2, 9]
    assert alphabet_of(model).eos == 2
    assert alphabet_of(model).actions[9] == False  # type: ignore[index]  # noqa: E712
    assert alphabet_of(model, read).eos == read.eos_token_id == 1
    read.chat_template = TURNS
    alphabet = alphabet_of(model, read, chat=True)
    assert alphabet.eos == end
    assert alphabet.actions is not None
    assert alphabet.actions[end]
    assert not alphabet.actions[[1, 9, read.convert_tokens_to_ids("<user>")]].any()
    assert alphabet_of(model, read).eos == 1  # no chat
    for template in (TURNS.replace("<end>", ""), "{{ nothing('x') }}"):  # nothing closes a turn; no template at all
        read.chat_template = template
        assert alphabet_of(model, read, chat=True).eos == 1


def test_an_end_of_turns_needs_no_name() -> None:
    """Neither the model nor the tokenizer calls it an end, but the template writes it; what is unknown is none."""
    read = learn(["a b"], size=12)
    read.add_tokens([AddedToken("<user>", special=True), AddedToken("<end>", special=True)])
    user, end = read.convert_tokens_to_ids(["<user>", "<end>"])
    assert end not in read.all_special_ids
    read.chat_template = TURNS.replace("<end>", "\u00ff <end>")  # a letter that it does not know
    alphabet = alphabet_of(make("llama"), read, chat=True)
    assert alphabet.eos == end
    assert alphabet.actions is not None
    assert not alphabet.actions[user]


def test_weights_that_are_no_numbers_are_refused() -> None:
    model = make("llama").half()
    copied = whole(model)
    assert {weight.dtype for weight in copied.parameters()} == {torch.float32}
    assert {weight.dtype for weight in model.parameters()} == {torch.float16}
    model.is_quantized = True  # as after reading GGUF, which transformers then does not cast any more
    assert {weight.dtype for weight in whole(model).parameters()} == {torch.float32}
    head = model.get_output_embeddings()
    head.weight = torch.nn.Parameter(head.weight.to(torch.int8), requires_grad=False)
    with pytest.raises(UserError, match="The weights of LlamaForCausalLM are quantized: load it without, and train"):
        whole(model)


@kinds
def test_options_make_the_same_network_again(kind: str) -> None:
    model = make(kind)
    options = HuggingFace.of(model)
    alphabet = alphabet_of(model)
    one, other = (options.actor(0, alphabet, 7).double() for _ in range(2))
    first, second = one.state_dict(), other.state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)
    another = options.actor(0, alphabet, 8).state_dict()
    assert not all(torch.equal(first[key], another[key]) for key in first)
    one.load_state_dict(policy(kind).state_dict())
    tokens = torch.tensor([[5, 6]] * 3)
    expected = policy(kind).score(policy(kind).encode(SOURCE), tokens).table()
    assert torch.equal(one.score(one.encode(SOURCE), tokens).table(), expected)
    assert options.said() == f"{type(model).__name__} of Hugging Face" or options.said().endswith("of Hugging Face")


def test_a_folder_is_opened_and_what_is_none_is_said(tmp_path: Path) -> None:
    make("t5").float().save_pretrained(tmp_path / "model")
    opened = open_model(str(tmp_path / "model"))
    tokens = torch.tensor([[5, 6]] * 3)
    nets = [policy_of(model, alphabet_of(model)) for model in (opened, make("t5").float())]
    one, other = (net.score(net.encode(SOURCE), tokens).table() for net in nets)
    torch.testing.assert_close(one, other)
    with pytest.raises(UserError, match=r"cannot be loaded: give a folder with config\.json and weights, or a name"):
        open_model(str(tmp_path / "nothing"))
    with pytest.raises(UserError, match="is no configuration that transformers knows"):
        make_model(json.dumps({"model_type": "nonsense"}), "{}", 1)
