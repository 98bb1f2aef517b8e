"""The paper's captioning network: NIC, an LSTM that starts from a picture."""

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from seqcredit.models.memory import Memory
from seqcredit.models.writer import Writer, initialise
from seqcredit.types import Alphabet


class Captioner(Writer):
    """Scores every word of a caption after those before it, given the features of a picture that a CNN has seen.

    The features, projected, are the first state of the decoder; there is no attention. Vinyals et al. (2015).
    """

    def __init__(
        self,
        width: int,
        alphabet: Alphabet | int,
        embedding: int = 512,
        hidden: int = 512,
        layers: int = 1,
        dropout: float = 0.3,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        self.alphabet = Alphabet.of(alphabet)
        self.dropout, self.fed, self.layers = dropout, 0, layers
        self.picture = nn.Linear(width, 2 * layers * hidden)
        self.embedding = nn.Embedding(self.alphabet.size, embedding)
        self.bos = nn.Parameter(torch.empty(embedding))
        self.decoder = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.readout = nn.Linear(hidden, self.alphabet.size)
        initialise(self, generator)

    def encode(self, source: Float[Tensor, "B F"]) -> Memory:
        """Project each picture once, though several captions of it stand side by side."""
        pictures, of = source.to(self.bos.dtype).unique_consecutive(dim=0, return_inverse=True)
        h, c = self.picture(pictures).tanh().unflatten(-1, (2, self.layers, -1)).unbind(1)
        nothing = h.new_zeros(len(source), 1, 0)
        return Memory(nothing, nothing, nothing.new_ones(len(source), 1).bool(), h[of], c[of], nothing)

    def _attend(
        self, memory: Memory, states: Float[Tensor, "B T D"], masks: Float[Tensor, "B T D"] | None
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B T S"]]:
        """The states themselves; there is one place to look at, and nothing in it."""
        return states if masks is None else states * masks, states.new_ones(*states.shape[:2], 1)
