"""Made-up data and networks for timing: sentences and samples as long as those of a model trained on Multi30k.

An untrained network would sample to the bound; this one ends where it is told to.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from seqcredit.models.lstm import Seq2Seq
from seqcredit.models.memory import Memory, State
from seqcredit.types import EOS, FIRST_WORD, Batch, pad, pad_references, token_mask

SOURCE_WORDS = 5_380
MEAN, DEVIATION, LIKENESS = 13.6, 4.1, 1.5  # words of a sentence; within a batch they are more alike
SHORTEST, LONGEST = 3, 40


def make_batch(vocabulary: int, size: int = 50, words: int | None = None, seed: int = 0) -> Batch:
    """Sentences of like length; `words` gives all of them one length."""
    rng = torch.Generator().manual_seed(seed)
    if words is None:
        mean = torch.randn((), generator=rng) * DEVIATION + MEAN
        lengths = mean + LIKENESS * torch.randn(2, size, generator=rng)
        lengths = lengths.round().long().clamp(SHORTEST, LONGEST)
    else:
        lengths = torch.full((2, size), words)

    def sentences(row: Tensor, most: int) -> list[list[int]]:
        return [torch.randint(FIRST_WORD, most, (n,), generator=rng).tolist() for n in row.tolist()]

    references = [[sentence] for sentence in sentences(lengths[1], vocabulary)]
    return Batch(pad(sentences(lengths[0], SOURCE_WORDS)), pad_references(references))


class PacedMemory(NamedTuple):
    """`Memory`, and the number of words to write."""

    states: Tensor
    keys: Tensor
    mask: Tensor
    h: Tensor
    c: Tensor
    codes: Tensor
    words: Tensor


class PacedState(NamedTuple):
    """`State`, and the number of words written."""

    h: Tensor
    c: Tensor
    fed: Tensor
    attention: Tensor
    written: Tensor


class Paced(Seq2Seq):
    """The paper's network, but for its first feature, which says whether to stop, and which only eos looks at."""

    words: Tensor

    def prepare(self, batch: Batch) -> None:
        """Write as many words as the references have."""
        self.words = token_mask(batch.references[:, 0]).sum(-1) - 1
        with torch.no_grad():
            self.readout.weight[:, 0] = 0
            self.readout.weight[EOS] = 0
            self.readout.weight[EOS, 0] = 100

    def encode(self, source: Tensor) -> Any:
        """Read the source."""
        return PacedMemory(*super().encode(source), self.words)

    def start(self, memory: Any) -> Any:
        """Before the first word."""
        return PacedState(*super().start(_plain(memory)), torch.zeros_like(memory.words))

    def step(self, memory: Any, state: Any, token: Tensor | None, mask: Tensor | None = None) -> tuple[Tensor, Any]:
        """Features of the next word."""
        features, after = super().step(_plain(memory), State(*state[:4]), token, mask)
        return _flagged(features, state.written >= memory.words), PacedState(*after, state.written + 1)

    def features(self, memory: Any, tokens: Tensor, masks: Tensor | None = None) -> Tensor:
        """Features of all words."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return _flagged(super().features(_plain(memory), tokens, masks), places >= memory.words.unsqueeze(-1))

    def branches(self, memory: Any, tokens: Tensor, fork: Tensor, masks: Tensor | None = None) -> Tensor:
        """Features of sequences that share their beginnings; nobody samples from them, so they need not stop."""
        return super().branches(_plain(memory), tokens, fork, masks)


def _plain(memory: PacedMemory) -> Memory:
    return Memory(*memory[:6])


def _flagged(features: Tensor, stop: Tensor) -> Tensor:
    return torch.cat([(2.0 * stop - 1).to(features.dtype).unsqueeze(-1), features[..., 1:]], -1)
