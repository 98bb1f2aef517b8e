"""The decoder of the paper's networks: an LSTM over the words so far."""

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn

from seqcredit.draws import Noise
from seqcredit.models.memory import Memory, State
from seqcredit.models.policy import Branching, Dropout, Linear, Policy
from seqcredit.models.recurrence import grow, ragged, unroll, unroll_tree
from seqcredit.types import token_mask

INITIAL = 0.1  # every weight starts uniform in [-INITIAL, INITIAL]
WIDE, SPARSE = 512, 2 / 3  # on a CPU padding is left out by LSTMs as wide as this, where real words are a smaller share


class Writer(Policy[Memory, State], Branching):
    """The half that writes: an LSTM over the words so far, whatever it starts from and looks at.

    Dropout of what the readout sees is in the caller's hands: `drop` draws it, `score` and `step` take it, so that
    sampling and the gradient see the same network.
    """

    embedding: nn.Embedding
    bos: nn.Parameter
    decoder: nn.LSTM
    readout: nn.Linear
    dropout: float
    fed: int  # width of the vector that is fed back

    @property
    def width(self) -> int:
        """Of what the readout sees."""
        return self.readout.in_features

    def start(self, memory: Memory) -> State:
        """Before the first word."""
        states = memory.states
        return State(memory.h, memory.c, states.new_zeros(len(states), self.fed), states.new_zeros(states.shape[:2]))

    def step(
        self, memory: Memory, state: State, token: Int[Tensor, " B"] | None, dropout: Float[Tensor, "B D"] | None = None
    ) -> tuple[Linear, State]:
        """Scores of the next word after `token`; None stands for bos."""
        word = self.bos.expand(memory.rows, -1) if token is None else self.embedding(token)
        vector, after = self._advance(memory, state, self._project(word), dropout)
        return self._scored(vector), after

    def score(self, memory: Memory, tokens: Int[Tensor, "B T"], dropout: Dropout | None = None) -> Linear:
        """Scores of each token from the tokens before it: a call of `step` for each, all at once."""
        bos = self.bos.expand(len(tokens), 1, -1)
        words = torch.cat([bos, self.embedding(tokens[:, :-1])], 1)  # (B, T, embedding)
        masks = None if dropout is None else dropout.along(tokens.shape[1])
        if self.fed:
            return self._scored(self._feed(memory, words, masks))
        real = token_mask(tokens, self.alphabet.eos)
        return self._scored(self._attend(memory, self._write(words, real, memory.h, memory.c), masks)[0])

    def branch(
        self, memory: Memory, tokens: Int[Tensor, "B M T"], fork: Int[Tensor, "B M"], dropout: Dropout | None = None
    ) -> Linear | None:
        """`score` of M sequences for each source, without padding, and what they share computed once.

        Input feeding has no branches.
        """
        if self.fed:
            return None
        b, m, t, tree = grow(tokens, fork, self.alphabet.eos)
        before = self.embedding(tokens[b, m, (t - 1).clamp(min=0)])
        inputs = torch.where((t == 0).unsqueeze(-1), self.bos, before)[tree.place.argsort()]
        with own_precision(inputs):
            for layer, weights in enumerate(self.decoder.all_weights):
                inputs = unroll_tree(inputs, tree, memory.h[:, layer], memory.c[:, layer], weights)
        counts = torch.bincount(b, minlength=len(tokens))
        row = torch.arange(len(b), device=b.device) - (counts.cumsum(0) - counts)[b]
        grid = inputs.new_zeros(len(tokens), int(counts.max()), inputs.shape[-1])  # of each source, all its states
        drops = None if dropout is None else torch.zeros_like(grid).index_put((b, row), dropout.kept[b, t])
        vectors, _ = self._attend(memory, grid.index_put((b, row), inputs[tree.place]), drops)
        return self._scored(vectors[b, row])

    def drop(self, length: int, noise: Noise) -> Dropout | None:
        """Inverted dropout for what the readout sees, or None where there is none to do."""
        if not self.training or self.dropout == 0:
            return None
        return Dropout.drawn(self.dropout, noise, length, self.decoder.hidden_size, self.readout.weight)

    def _scored(self, vectors: Float[Tensor, "*B F"]) -> Linear:
        """Scores by the readout."""
        return Linear(vectors, self.readout.weight, self.readout.bias)

    def _project(self, words: Float[Tensor, "*B E"]) -> Float[Tensor, "*B gates"]:
        """What words add to the gates of the first layer, its biases included."""
        into, _, bias, another = self.decoder.all_weights[0]
        with own_precision(words):
            return nn.functional.linear(words.to(into.dtype), into[:, : words.shape[-1]], bias + another)

    def _advance(
        self, memory: Memory, state: State, gates: Float[Tensor, "B gates"], mask: Float[Tensor, "B D"] | None
    ) -> tuple[Tensor, State]:
        """One step of the decoder, from what the word before adds to its gates."""
        h: list[Tensor] = []
        c: list[Tensor] = []
        with own_precision(gates):
            for layer, (into, across, bias, another) in enumerate(self.decoder.all_weights):
                if layer > 0:
                    gates = nn.functional.linear(h[-1], into, bias + another)
                elif self.fed:
                    gates = torch.addmm(gates, state.fed.to(gates.dtype), into[:, -self.fed :].T)
                gates = torch.addmm(gates, state.h[:, layer].to(gates.dtype), across.T)
                i, f, g, o = gates.chunk(4, 1)
                c.append(f.sigmoid() * state.c[:, layer].to(gates.dtype) + i.sigmoid() * g.tanh())
                h.append(o.sigmoid() * c[-1].tanh())
        vectors, weights = self._attend(memory, h[-1].unsqueeze(1), None if mask is None else mask.unsqueeze(1))
        vector = vectors.squeeze(1)
        after = State(
            torch.stack(h, 1), torch.stack(c, 1), vector[:, : self.fed] if self.fed else state.fed, weights.squeeze(1)
        )
        return vector, after

    def _pays(self, real: Bool[Tensor, "B T"]) -> bool:
        """Whether leaving padding out saves more than torch's own LSTM does."""
        wide = real.device.type == "cpu" and self.decoder.hidden_size >= WIDE
        return wide and int(real.sum()) < SPARSE * real.numel()

    def _write_real(self, inputs: Tensor, real: Bool[Tensor, "B T"], h: Tensor, c: Tensor) -> Tensor:
        """`_write` without padding, where it gives 0."""
        (row, t), order = real.nonzero().unbind(1), ragged(real.sum(1))
        place, first = order.place(row, t), order.rank.argsort()
        states = inputs[row, t][place.argsort()].to(self.bos.dtype)
        with own_precision(inputs):
            for layer, weights in enumerate(self.decoder.all_weights):
                before_h, before_c = (start[first, layer].to(states.dtype) for start in (h, c))
                states, _ = unroll(states, order.sizes, before_h, before_c, weights)
        return states.new_zeros(*real.shape, states.shape[-1]).index_put((row, t), states[place])

    def _write(self, inputs: Tensor, real: Bool[Tensor, "B T"], h: Tensor, c: Tensor) -> Tensor:
        """The decoder's LSTM over (B, T, .), from h and c (B, layers, D)."""
        if self._pays(real):
            return self._write_real(inputs, real, h, c)
        dtype = self.bos.dtype
        start = (h.transpose(0, 1).to(dtype).contiguous(), c.transpose(0, 1).to(dtype).contiguous())
        with own_precision(inputs):
            return self.decoder(inputs.to(dtype), start)[0]

    def _feed(self, memory: Memory, words: Float[Tensor, "B T E"], masks: Tensor | None) -> Float[Tensor, "B T F"]:
        """With input feeding the steps wait for one another."""
        state, vectors = Writer.start(self, memory), []
        for t, gates in enumerate(self._project(words).unbind(1)):
            vector, state = self._advance(memory, state, gates, None if masks is None else masks[:, t])
            vectors.append(vector)
        return torch.stack(vectors, 1)

    @abstractmethod
    def _attend(
        self, memory: Memory, states: Float[Tensor, "B T D"], masks: Float[Tensor, "B T D"] | None
    ) -> tuple[Float[Tensor, "B T F"], Float[Tensor, "B T S"]]:
        """What the readout sees, dropped out, and where the network looked."""


@torch.no_grad()
def initialise(module: nn.Module, generator: Generator | None) -> None:
    """All weights uniform in [-0.1, 0.1]."""
    for weight in module.parameters():
        device = weight.device if generator is None else generator.device
        fresh = torch.empty(weight.shape, dtype=weight.dtype, device=device)
        weight.copy_(fresh.uniform_(-INITIAL, INITIAL, generator=generator))


def own_precision(inputs: Tensor) -> AbstractContextManager[object]:
    """Keeps an LSTM on the CPU out of autocast: torch has none of less precision for many processors."""
    lowered = inputs.device.type == "cpu" and torch.is_autocast_enabled("cpu")
    return torch.autocast("cpu", enabled=False) if lowered else nullcontext()
