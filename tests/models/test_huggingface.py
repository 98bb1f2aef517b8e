"""Models of transformers as policies: what they say is what transformers says."""

import copy
import dataclasses
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from models.pretrained import SOURCE, SOURCES, V, critic, kinds, policy
from models.small import measured
from seqcredit.algorithms import ActorCritic, Mle, Models, Outcome, Phase, Progress, Raml
from seqcredit.draws import Noise, draw
from seqcredit.models.huggingface import DecoderOnly, EncoderDecoder
from seqcredit.models.policy import Network
from seqcredit.rewards import Bleu
from seqcredit.search import beam, greedy, sample
from seqcredit.types import ABSENT, Batch, pad_references, token_mask

BOUND = 9


def own_logits(net: EncoderDecoder | DecoderOnly, source: list[int], tokens: list[int]) -> Tensor:
    """What the model's own forward says before each token and after the last, one sentence at a time, no cache."""
    if isinstance(net, EncoderDecoder):
        inputs = torch.tensor([[*net.begin, *tokens]])
        logits = net.model(input_ids=torch.tensor([source]), decoder_input_ids=inputs, use_cache=False).logits
        return logits[0, len(net.begin) - 1 :]
    logits = net.model(input_ids=torch.tensor([[*source, *tokens]]), use_cache=False).logits
    return logits[0, len(source) - 1 :]


def generate(net: EncoderDecoder | DecoderOnly, width: int) -> list[list[int]]:
    """By transformers, one sentence at a time: the words before eos."""
    actions, eos = net.alphabet.actions, net.alphabet.eos
    barred = [] if actions is None else (~actions).nonzero().squeeze(1).tolist()
    first = len(net.begin) if isinstance(net, EncoderDecoder) else 0
    if first == 2:  # what is always the same is not chosen
        barred = [number for number in barred if number != net.begin[1]]
    found = []
    for source in SOURCES:
        ids = torch.tensor([source])
        out = net.model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            num_beams=width,
            length_penalty=0.0,
            early_stopping="never" if width > 1 else False,
            max_new_tokens=BOUND + max(0, first - 1),
            forced_eos_token_id=eos,
            suppress_tokens=barred or None,
            pad_token_id=eos,
        )[0].tolist()
        words = out[first or len(source) :]
        found.append(words[: words.index(eos)])
    return found


def words(tokens: Tensor, eos: int) -> list[list[int]]:
    return [row[: row.index(eos)] for row in tokens.tolist()]


@kinds
def test_scores_are_those_of_the_model_itself(kind: str) -> None:
    net = policy(kind)
    memory = net.encode(SOURCE)
    tokens = sample(net, memory, BOUND, torch.rand(3, BOUND, generator=torch.Generator().manual_seed(1)))
    scores = net.score(memory, tokens).table()
    real = token_mask(tokens, net.alphabet.eos)
    for row, source in enumerate(SOURCES):
        drawn = tokens[row][real[row]].tolist()
        expected = own_logits(net, source, drawn)[: len(drawn)]
        torch.testing.assert_close(scores[row, : len(drawn)], expected, atol=1e-10, rtol=0)
        assert float(expected.detach().std()) > 0.1  # there is something to compare


@kinds
def test_steps_with_the_cache_are_scores(kind: str) -> None:
    net = policy(kind)
    memory = net.encode(SOURCE)
    tokens = torch.randint(3, V - 1, (3, 6), generator=torch.Generator().manual_seed(2))
    state, token, found = net.start(memory), None, []
    for t in range(6):
        scores, after = net.step(memory, state, token)
        again, _ = net.step(memory, state, token)  # a state stays as it is
        assert torch.equal(scores.table(), again.table())
        found.append(scores.table())
        state, token = after, tokens[:, t]
    torch.testing.assert_close(torch.stack(found, 1), net.score(memory, tokens).table(), atol=1e-10, rtol=0)


@kinds
def test_greedy_search_is_transformers_own(kind: str) -> None:
    net = policy(kind)
    assert words(greedy(net, net.encode(SOURCE), BOUND), net.alphabet.eos) == generate(net, 1)


@kinds
@pytest.mark.parametrize("width", [2, 4])
def test_beam_search_is_transformers_own(kind: str, width: int) -> None:
    net = policy(kind, seed=3)
    found = beam(net, net.encode(SOURCE), BOUND, width)
    assert words(found.tokens[:, 0], net.alphabet.eos) == generate(net, width)


@kinds
def test_samples_are_drawn_from_the_models_own_distribution(kind: str) -> None:
    net, uniform = policy(kind), torch.rand(3, BOUND, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    found = words(sample(net, net.encode(SOURCE), BOUND, uniform), net.alphabet.eos)
    actions = torch.ones(V, dtype=torch.bool) if net.alphabet.actions is None else net.alphabet.actions
    for row, source in enumerate(SOURCES):
        drawn: list[int] = []
        for t in range(BOUND - 1):
            logits = own_logits(net, source, drawn)[-1].masked_fill(~actions, -torch.inf)
            token = int(draw(logits.softmax(-1), uniform[row, t]))
            if token == net.alphabet.eos:
                break
            drawn.append(token)
        assert found[row] == drawn
    assert len({len(one) for one in found}) > 1 or len(found[0]) > 0


@kinds
def test_padding_leaves_no_trace_wherever_it_stands(kind: str) -> None:
    net, tokens = policy(kind), torch.tensor([[5, 6, 7]])
    plain = net.score(net.encode(torch.tensor([[9, 10]])), tokens).table()
    padded = net.score(net.encode(torch.tensor([[9, 10, ABSENT, ABSENT]])), tokens).table()
    torch.testing.assert_close(padded, plain, atol=1e-10, rtol=0)


def test_padding_between_the_ids_of_a_prompt() -> None:
    net, tokens = policy("llama"), torch.tensor([[5, 6, 7]])
    plain = net.score(net.encode(torch.tensor([[9, 10]])), tokens).table()
    apart = net.score(net.encode(torch.tensor([[9, ABSENT, 10, ABSENT]])), tokens).table()
    torch.testing.assert_close(apart, plain, atol=1e-10, rtol=0)


def outcome(phase: Phase, models: Models, eos: int) -> Outcome:
    references = pad_references([[[5, 6, 7]], [[8, 9]], [[10, 11, 12, 13]]], eos)
    noise = Noise(torch.Generator().manual_seed(5), 3)
    return phase.loss(models, Batch(SOURCE, references), Bleu(dtype=torch.float64), noise, Progress())


def gradients(loss: Tensor, net: Network) -> list[Tensor]:
    weights = [weight for weight in net.parameters() if weight.requires_grad]
    found = torch.autograd.grad(loss, weights, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(w) if g is None else g for w, g in zip(weights, found, strict=True)]


@kinds
@pytest.mark.parametrize("phase", [Mle("mle", 0.1), Raml("raml", 0.1, tau=0.5), ActorCritic("ac", 0.1, tau=0.1)])
def test_fused_losses_are_the_plain_ones(kind: str, phase: Phase) -> None:
    net = policy(kind)
    judge = critic(net)
    models = Models(net, judge, copy.deepcopy(judge))
    fast, plain = (
        outcome(dataclasses.replace(phase, fused=fused), models, net.alphabet.eos) for fused in (True, False)
    )
    for name, loss in fast.losses.items():
        torch.testing.assert_close(loss, plain.losses[name], atol=1e-10, rtol=1e-10)
        of = net if name == "actor" else judge
        both = zip(gradients(loss, of), gradients(plain.losses[name], of), strict=True)
        assert all(torch.allclose(a, b, atol=1e-9, rtol=1e-7) for a, b in both)
        assert any(float(g.abs().max()) > 0 for g in gradients(loss, of))


@kinds
def test_weights_with_two_names_are_kept_once(kind: str, tmp_path: Path) -> None:
    net = policy(kind)
    state = net.state_dict()
    assert len({tensor.data_ptr() for tensor in state.values()}) == len(state)
    save_file(state, tmp_path / "net.safetensors")
    other = policy(kind, seed=9)
    other.load_state_dict(load_file(tmp_path / "net.safetensors"))
    memory, tokens = net.encode(SOURCE), torch.tensor([[5, 6]] * 3)
    assert torch.equal(net.score(memory, tokens).table(), other.score(other.encode(SOURCE), tokens).table())
    copied = copy.deepcopy(critic(net))
    copied.load_state_dict(critic(net).state_dict())


@kinds
def test_dropout_is_of_what_the_readout_sees(kind: str) -> None:
    net = policy(kind, dropout=0.5).train()
    dropped = net.drop(4, Noise(torch.Generator().manual_seed(8), 3))
    assert dropped is not None
    memory, tokens = net.encode(SOURCE), torch.tensor([[5, 6, 7, 8]] * 3)
    scores = net.score(memory, tokens, dropped).table()
    first, _ = net.step(memory, net.start(memory), None, dropped.at(torch.arange(3), 0))
    torch.testing.assert_close(first.table(), scores[:, 0], atol=1e-12, rtol=0)
    assert not torch.allclose(scores, net.score(memory, tokens).table())
    assert net.eval().drop(4, Noise(torch.Generator(), 3)) is None
    assert not any(module.training for module in net.model.modules())


@kinds
@pytest.mark.parametrize("phase", [Mle("mle", 0.1), ActorCritic("ac", 0.1, tau=0.1, mle_weight=0.1)])
def test_gradient_checkpointing_changes_memory_alone(kind: str, phase: Phase) -> None:
    """With the same samples. What is kept for backward is a small part, also in a critic with such a body.

    Llama's norms are in float32 whatever its weights are, so that the last digits of a cache show.
    """
    net, near = policy(kind), 1e-5 if kind == "llama" else 1e-10
    judge = critic(net)
    models, found = Models(net, judge, copy.deepcopy(judge)), []
    for on in (False, True, False):
        assert net.recompute(on)
        assert judge.recompute(on)
        with measured() as kept:
            losses = outcome(phase, models, net.alphabet.eos).losses
        grads = {name: gradients(loss, net if name == "actor" else judge) for name, loss in losses.items()}
        found.append((losses, grads, kept[0]))
    (plain, exact, much), (small, again, little), (_, _, back) = found
    torch.testing.assert_close(small, plain, rtol=1e-6 if kind == "llama" else 0, atol=near)
    torch.testing.assert_close(again, exact, rtol=1e-6 if kind == "llama" else 0, atol=near)
    assert little < 0.6 * much
    assert back == much


def test_copies_of_a_checkpointed_model_compute_their_own_layers_anew() -> None:
    net = policy("gpt2")
    net.recompute(on=True)
    other = copy.deepcopy(net)
    with torch.no_grad():
        for weight in net.parameters():
            weight.zero_()
    tokens = torch.tensor([[5, 6, 7]] * 3)
    scores = other.score(other.encode(SOURCE), tokens).table()
    torch.testing.assert_close(scores, policy("gpt2").score(policy("gpt2").encode(SOURCE), tokens).table())
    assert sum(float(grad.abs().sum()) for grad in gradients(scores.square().sum(), other)) > 0
