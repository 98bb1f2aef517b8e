"""Networks for timing write as many words as they are told to."""

import pytest
import torch

from seqcredit.draws import Noise
from seqcredit.inspect.paced import SOURCE_WORDS, Paced, make_batch
from seqcredit.search import beam, greedy, sample
from seqcredit.types import lengths


@pytest.mark.parametrize("feeding", [False, True])
def test_samples_greedy_and_beam_search_end_where_the_references_do(feeding: bool) -> None:
    batch = make_batch(30, size=8)
    model = Paced(SOURCE_WORDS, 30, 8, 8, input_feeding=feeding).eval()
    model.prepare(batch)
    memory, expected = model.encode(batch.source), lengths(batch.references[:, 0])
    noise = Noise(torch.Generator().manual_seed(0), 8)
    assert torch.equal(lengths(sample(model, memory, 60, noise.uniform(60))), expected)
    assert torch.equal(lengths(greedy(model, memory, 60)), expected)
    assert torch.equal(lengths(beam(model, memory, 60, 3).tokens[:, 0]), expected)


@pytest.mark.parametrize("feeding", [False, True])
def test_its_steps_are_its_features(feeding: bool) -> None:
    batch = make_batch(30, size=4)
    model = Paced(SOURCE_WORDS, 30, 8, 8, input_feeding=feeding).eval()
    model.prepare(batch)
    memory, tokens = model.encode(batch.source), batch.references[:, 0]
    state, token, steps = model.start(memory), None, []
    for t in range(tokens.shape[1]):
        scores, state = model.step(memory, state, token)
        steps.append(scores.features)
        token = tokens[:, t]
    torch.testing.assert_close(torch.stack(steps, 1), model.score(memory, tokens).features)


def test_lengths_are_those_of_multi30k() -> None:
    words = torch.cat([lengths(make_batch(100, seed=seed).references[:, 0]) for seed in range(200)]).float()
    assert 13 < float(words.mean()) < 14.2
    assert set(lengths(make_batch(100, words=49).references[:, 0]).tolist()) == {49}
