"""Made-up data and networks for timing: sentences and samples as long as those of a model trained on Multi30k.

An untrained network would sample to the bound; this one ends where it is told to.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from seqcredit.models.lstm import Seq2Seq
from seqcredit.models.memory import Memory, State
from seqcredit.models.policy import Dropout, Linear
from seqcredit.types import EOS, FIRST_WORD, Batch, pad, pad_references, token_mask

SOURCE_WORDS = 5_380
MEAN, DEVIATION, LIKENESS = 13.6, 4.1, 1.5  # words of a sentence; within a batch they are more alike
SHORTEST, LONGEST = 3, 40
CERTAIN = 40.0  # score of eos where it is to stop; e^-100 would be a denormal number, and those are slow


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


@dataclass(frozen=True)
class PacedMemory(Memory):
    """`Memory`, and the number of words to write."""

    words: Int[Tensor, " B"]


@dataclass(frozen=True)
class PacedState(State):
    """`State`, and the number of words written."""

    written: Int[Tensor, " B"]


class Paced(Seq2Seq):
    """The paper's network, but for its first feature, which says whether to stop, and which only eos looks at."""

    words: Tensor

    def prepare(self, batch: Batch) -> None:
        """Write as many words as the references have."""
        self.words = token_mask(batch.references[:, 0]).sum(-1) - 1
        with torch.no_grad():
            self.readout.weight[:, 0] = 0
            self.readout.weight[EOS] = 0
            self.readout.weight[EOS, 0] = CERTAIN

    def encode(self, source: Int[Tensor, "B S"]) -> PacedMemory:
        """Read the source."""
        return PacedMemory(**vars(super().encode(source)), words=self.words)

    def start(self, memory: Memory) -> PacedState:
        """Before the first word."""
        assert isinstance(memory, PacedMemory)
        return PacedState(**vars(super().start(memory)), written=torch.zeros_like(memory.words))

    def step(
        self, memory: Memory, state: State, token: Tensor | None, dropout: Tensor | None = None
    ) -> tuple[Linear, PacedState]:
        """Scores of the next word."""
        assert isinstance(memory, PacedMemory)
        assert isinstance(state, PacedState)
        scores, after = super().step(memory, state, token, dropout)
        return _flagged(scores, state.written >= memory.words), PacedState(**vars(after), written=state.written + 1)

    def score(self, memory: Memory, tokens: Int[Tensor, "B T"], dropout: Dropout | None = None) -> Linear:
        """Scores of all words. Nobody samples from branches, so they need not stop."""
        assert isinstance(memory, PacedMemory)
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return _flagged(super().score(memory, tokens, dropout), places >= memory.words.unsqueeze(-1))


def _flagged(scores: Linear, stop: Tensor) -> Linear:
    features = scores.features
    flag = (2.0 * stop - 1).to(features.dtype).unsqueeze(-1)
    return scores._replace(features=torch.cat([flag, features[..., 1:]], -1))
