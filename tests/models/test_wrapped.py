"""Any module that scores the next word."""

import torch
from torch import nn

from seqcredit.draws import Noise
from seqcredit.search import Policy, beam, greedy, sample
from seqcredit.models.wrapped import Wrapped

V = 5


class Bigrams(nn.Module):
    """Scores from the word before and the number that is the source."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(V + 1, V)

    def forward(self, source: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        before = nn.functional.pad(tokens[:, :-1], (1, 0), value=V)
        return self.table(before) + source[:, None, None] * torch.arange(V)


def wrapped() -> Wrapped:
    torch.manual_seed(0)
    return Wrapped(Bigrams(), V)


def test_it_is_a_policy_whose_steps_are_its_features() -> None:
    model, source = wrapped(), torch.tensor([0.5, -1.0, 0.0])
    assert isinstance(model, Policy)
    tokens = torch.tensor([[2, 3, 0], [1, 4, 2], [2, 0, 0]])
    memory = model.encode(source)
    state, token, steps = model.start(memory), None, []
    for t in range(3):
        scores, state = model.step(memory, state, token)
        steps.append(model.readout(scores))
        token = tokens[:, t]
    torch.testing.assert_close(torch.stack(steps, 1), model.readout(model.features(memory, tokens)))


def test_search_and_sampling_run_on_it() -> None:
    model, source = wrapped(), torch.linspace(-1, 1, 40)
    memory = model.encode(source)
    found = beam(model, memory, 2, width=V)  # one word, then eos, which is certain there
    first = model.features(memory, found.tokens[:, 0]).log_softmax(-1)[:, 0]
    torch.testing.assert_close(found.logp[:, 0], first.max(-1).values)
    words = greedy(model, memory, 4)
    assert (words[:, 0] == model.features(memory, words)[:, 0].argmax(-1)).all()
    noise = Noise(torch.Generator().manual_seed(0), 4_000)
    many = sample(model, model.encode(torch.zeros(4_000)), 2, noise.uniform(2))
    share = torch.bincount(many[:, 0], minlength=V) / 4_000
    expected = model.module.table.weight[V].softmax(-1)
    torch.testing.assert_close(share, expected, atol=0.03, rtol=0)
