"""The paper's network: a bidirectional LSTM reads, an LSTM with attention writes."""

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn

from seqcredit.models.attention import Additive, Dot
from seqcredit.models.memory import Memory
from seqcredit.models.writer import Writer, initialise, own_precision
from seqcredit.types import EOS, Alphabet, token_mask

HOLD = 1e4  # sigmoid(HOLD) is 1 and sigmoid(-HOLD) is 0 in every precision


class Seq2Seq(Writer):
    """Scores every action after every prefix, given a source of ids that `source_eos` closes.

    `alphabet` may be a number: that many words, eos and unk included.
    """

    hold: Tensor

    def __init__(
        self,
        source_size: int,
        alphabet: Alphabet | int,
        embedding: int = 256,
        hidden: int = 256,
        layers: int = 1,
        attention: Literal["dot", "mlp"] = "dot",
        input_feeding: bool = False,
        dropout: float = 0.3,
        generator: Generator | None = None,
        source_eos: int = EOS,
    ) -> None:
        super().__init__()
        self.alphabet = Alphabet.of(alphabet)
        self.source_eos = source_eos
        self.dropout, self.fed, actions = dropout, hidden if input_feeding else 0, self.alphabet.size
        self.source_embedding = nn.Embedding(source_size, embedding)
        self.embedding = nn.Embedding(actions, embedding)
        self.bos = nn.Parameter(torch.empty(embedding))
        widths = [embedding] + [hidden] * (layers - 1)
        self.encoder = nn.ModuleList(nn.LSTM(width, hidden // 2, bidirectional=True) for width in widths)
        self.decoder = nn.LSTM(embedding + self.fed, hidden, layers, batch_first=True)
        self.scorer = Additive(hidden) if attention == "mlp" else Dot()
        self.combine = nn.Linear(2 * hidden, hidden, bias=False)
        self.readout = nn.Linear(hidden, actions)
        self.register_buffer("hold", _hold(hidden // 2), persistent=False)
        initialise(self, generator)

    def encode(self, source: Int[Tensor, "B S"]) -> Memory:
        """Read the source in both directions. Padding leaves no trace."""
        mask = token_mask(source, self.source_eos)
        states, h, c = self.source_embedding(source), [], []  # (B, S, embedding)
        for lstm in self.encoder:
            states, last_h, last_c = self._read(lstm, states, mask)
            h.append(last_h)
            c.append(last_c)
        nothing = states.new_zeros(*source.shape, 0)
        return Memory(states, self.scorer.keys(states), mask, torch.stack(h, 1), torch.stack(c, 1), nothing)

    def _read(self, lstm: nn.Module, inputs: Tensor, mask: Bool[Tensor, "B S"]) -> tuple[Tensor, Tensor, Tensor]:
        """One bidirectional layer: all states (B, S, D), and the last h and c of the two directions (B, D).

        On padding an extra input shuts the input gate and opens the forget gate. So the forward direction carries its
        last cell to the end, and the backward one arrives at the last word as it was born, with zeros: exact, at any
        length, in a single call.
        """
        assert isinstance(lstm, nn.LSTM)
        half = lstm.hidden_size
        padding = (~mask).to(inputs.dtype).unsqueeze(-1)
        weights = [
            weight
            for w_ih, *others in lstm.all_weights
            for weight in (torch.cat([w_ih, self.hold.to(w_ih.dtype)], 1), *others)
        ]
        zeros = inputs.new_zeros(2, len(inputs), half)
        with own_precision(inputs):
            states, _, cells = torch.lstm(
                torch.cat([inputs, padding], -1), (zeros, zeros), weights, True, 1, 0.0, self.training, True, True
            )
        last = (mask.sum(1) - 1).view(-1, 1, 1).expand(-1, 1, half)
        forward = states[..., :half].gather(1, last).squeeze(1)
        return states, torch.cat([forward, states[:, 0, half:]], -1), torch.cat([cells[0], cells[1]], -1)

    def _attend(
        self, memory: Memory, states: Float[Tensor, "B T D"], masks: Float[Tensor, "B T D"] | None
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B T S"]]:
        """Attention vectors tanh(W [h; context]), dropped out, and the weights of the context."""
        scores = self.scorer(states, memory.keys).masked_fill(~memory.mask.unsqueeze(1), -torch.inf)
        weights = torch.softmax(scores, -1).to(memory.states.dtype)  # (B, T, S)
        context = torch.bmm(weights, memory.states)
        vector = torch.tanh(self.combine(torch.cat([states, context], -1)))
        return vector if masks is None else vector * masks, weights


def _hold(half: int) -> Float[Tensor, "gates 1"]:
    """What padding adds to the gates of an LSTM, in torch's order: input, forget, cell, output."""
    return torch.tensor([-HOLD, HOLD, 0.0, 0.0]).repeat_interleave(half).unsqueeze(1)
