"""The paper's network: a bidirectional LSTM reads, an LSTM with attention writes."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn

from seqcredit.draws import Noise
from seqcredit.errors import UserError
from seqcredit.models.memory import Memory, State
from seqcredit.models.recurrence import Ragged, ragged, unroll
from seqcredit.types import token_mask

INITIAL = 0.1  # every weight starts uniform in [-INITIAL, INITIAL]
HOLD = 1e4  # sigmoid(HOLD) is 1 and sigmoid(-HOLD) is 0 in every precision
WIDE, SPARSE = 512, 2 / 3  # on a CPU padding is left out by LSTMs as wide as this, where real words are a smaller share


class Writer(nn.Module):
    """The half that writes: an LSTM over the words so far, whatever it starts from and looks at.

    Dropout of what the readout sees is in the caller's hands: `masks` draws it, `features` and `step` take it, so that
    sampling and the gradient see the same network.
    """

    embedding: nn.Embedding
    bos: nn.Parameter
    decoder: nn.LSTM
    readout: nn.Linear
    actions: int
    dropout: float
    fed: int  # width of the vector that is fed back

    def start(self, memory: Memory) -> State:
        """Before the first word."""
        states = memory.states
        return State(memory.h, memory.c, states.new_zeros(len(states), self.fed), states.new_zeros(states.shape[:2]))

    def step(
        self,
        memory: Memory,
        state: State,
        token: Int[Tensor, " B"] | None,
        mask: Float[Tensor, "B D"] | None = None,
    ) -> tuple[Float[Tensor, "B F"], State]:
        """Features of the next word after `token`; None stands for bos."""
        word = self.bos.expand(len(memory.states), -1) if token is None else self.embedding(token)
        return self._advance(memory, state, self._project(word), mask)

    def features(
        self, memory: Memory, tokens: Int[Tensor, "B T"], masks: Float[Tensor, "B T D"] | None = None
    ) -> Float[Tensor, "B T F"]:
        """What the readout scores each token by, from the tokens before it: a call of `step` for each, all at once."""
        bos = self.bos.expand(len(tokens), 1, -1)
        words = torch.cat([bos, self.embedding(tokens[:, :-1])], 1)  # (B, T, embedding)
        if self.fed:
            return self._feed(memory, words, masks)
        return self._attend(memory, self._write(words, token_mask(tokens), memory.h, memory.c), masks)[0]

    def branches(
        self,
        memory: Memory,
        tokens: Int[Tensor, "B M T"],
        fork: Int[Tensor, "B M"],
        masks: Float[Tensor, "B T D"] | None = None,
    ) -> Float[Tensor, "N F"]:
        """`features` of M sequences for each source, without padding, and those that they share computed once.

        Before its fork a sequence is the first one of its source. The rows are those of `credit.tables.share`: all
        states of the first sequence, and of the others the states after their fork, in the order of (B, M, T). Input
        feeding has no branches.
        """
        b, m, t, tree = _grow(tokens, fork)
        before = self.embedding(tokens[b, m, (t - 1).clamp(min=0)])
        inputs = torch.where((t == 0).unsqueeze(-1), self.bos, before)[tree.place.argsort()]
        with _own_precision(inputs):
            for layer, weights in enumerate(self.decoder.all_weights):
                inputs = _unroll_tree(inputs, tree, memory.h[:, layer], memory.c[:, layer], weights)
        counts = torch.bincount(b, minlength=len(tokens))
        row = torch.arange(len(b), device=b.device) - (counts.cumsum(0) - counts)[b]
        grid = inputs.new_zeros(len(tokens), int(counts.max()), inputs.shape[-1])  # of each source, all its states
        drops = None if masks is None else torch.zeros_like(grid).index_put((b, row), masks[b, t])
        vectors, _ = self._attend(memory, grid.index_put((b, row), inputs[tree.place]), drops)
        return vectors[b, row]

    def masks(self, length: int, noise: Noise) -> Float[Tensor, "B T D"] | None:
        """Inverted dropout for what the readout sees, or None where there is none to do."""
        if not self.training or self.dropout == 0:
            return None
        weight = self.readout.weight
        kept = noise.uniform(length, self.decoder.hidden_size, device=weight.device) >= self.dropout
        return kept.to(weight.dtype).div_(1 - self.dropout)

    def _project(self, words: Float[Tensor, "*B E"]) -> Float[Tensor, "*B gates"]:
        """What words add to the gates of the first layer, its biases included."""
        into, _, bias, another = self.decoder.all_weights[0]
        with _own_precision(words):
            return nn.functional.linear(words.to(into.dtype), into[:, : words.shape[-1]], bias + another)

    def _advance(
        self, memory: Memory, state: State, gates: Float[Tensor, "B gates"], mask: Float[Tensor, "B D"] | None
    ) -> tuple[Tensor, State]:
        """One step of the decoder, from what the word before adds to its gates."""
        h: list[Tensor] = []
        c: list[Tensor] = []
        with _own_precision(gates):
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
        with _own_precision(inputs):
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
        with _own_precision(inputs):
            return self.decoder(inputs.to(dtype), start)[0]

    def _feed(self, memory: Memory, words: Float[Tensor, "B T E"], masks: Tensor | None) -> Float[Tensor, "B T F"]:
        """With input feeding the steps wait for one another."""
        state, vectors = Writer.start(self, memory), []
        for t, gates in enumerate(self._project(words).unbind(1)):
            vector, state = self._advance(memory, state, gates, None if masks is None else masks[:, t])
            vectors.append(vector)
        return torch.stack(vectors, 1)

    def _attend(
        self, memory: Memory, states: Float[Tensor, "B T D"], masks: Float[Tensor, "B T D"] | None
    ) -> tuple[Float[Tensor, "B T F"], Float[Tensor, "B T S"]]:
        """What the readout sees, dropped out, and where the network looked."""
        raise NotImplementedError


class Seq2Seq(Writer):
    """Scores every action after every prefix, given a source of ids that eos closes."""

    hold: Tensor

    def __init__(
        self,
        source_size: int,
        actions: int,
        embedding: int = 256,
        hidden: int = 256,
        layers: int = 1,
        attention: Literal["dot", "mlp"] = "dot",
        input_feeding: bool = False,
        dropout: float = 0.3,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        _check(hidden, attention, dropout)
        self.actions, self.dropout, self.fed = actions, dropout, hidden if input_feeding else 0
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
        mask = token_mask(source)
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
        with _own_precision(inputs):
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
        weights = torch.softmax(scores, -1)  # (B, T, S)
        context = torch.bmm(weights, memory.states)
        vector = torch.tanh(self.combine(torch.cat([states, context], -1)))
        return vector if masks is None else vector * masks, weights


class Dot(nn.Module):
    """score = h . m"""

    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        return states

    def forward(self, h: Float[Tensor, "B T D"], keys: Float[Tensor, "B S D"]) -> Float[Tensor, "B T S"]:
        return torch.bmm(h, keys.transpose(1, 2))


class Additive(nn.Module):
    """score = v . tanh(W h + U m)"""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.key = nn.Linear(hidden, hidden, bias=False)
        self.energy = nn.Linear(hidden, 1, bias=False)

    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        return self.key(states)

    def forward(self, h: Float[Tensor, "B T D"], keys: Float[Tensor, "B S D"]) -> Float[Tensor, "B T S"]:
        pairs = self.query(h).unsqueeze(2) + keys.unsqueeze(1)  # (B, T, S, D), the largest tensor of the network
        return self.energy(pairs.tanh_()).squeeze(-1)


class Tree(NamedTuple):
    """Sequences that branch off others: stems first, then twigs, each from a place of a stem."""

    place: Int[Tensor, " N"]  # where each state stands among those of the stems, then of the twigs
    stems: Ragged
    twigs: Ragged
    fork: Int[Tensor, " R"]  # where each twig begins, among the stems' places


def _grow(tokens: Int[Tensor, "B M T"], fork: Int[Tensor, "B M"]) -> tuple[Tensor, Tensor, Tensor, Tree]:
    """Source, sequence and position of every state of its own, and the tree that they make."""
    B, M, T = tokens.shape
    real = token_mask(tokens)
    last = torch.cat(
        [torch.full_like(fork[:, :1], -1), fork[:, 1:]], 1
    )  # position of the last state that is not its own
    b, m, t = (real & (torch.arange(T, device=tokens.device) > last.unsqueeze(-1))).nonzero().unbind(1)
    lengths = real.sum(-1) - 1 - last
    stems, twigs = ragged(lengths[:, 0]), ragged(lengths[:, 1:].flatten())
    stem, twig = (m == 0).nonzero().squeeze(1), (m > 0).nonzero().squeeze(1)
    place = torch.empty_like(b)
    place[stem] = stems.place(b[stem], t[stem])
    branch = b[twig] * (M - 1) + m[twig] - 1
    place[twig] = len(stem) + twigs.place(branch, t[twig] - last[b, m][twig] - 1)
    source = torch.arange(B, device=tokens.device).repeat_interleave(M - 1)
    return b, m, t, Tree(place, stems, twigs, stems.place(source, fork[:, 1:].flatten()))


def _unroll_tree(inputs: Tensor, tree: Tree, h: Tensor, c: Tensor, weights: Sequence[Tensor]) -> Float[Tensor, "N D"]:
    """Hidden states of the stems from h and c, then those of the twigs from where they branch off."""
    stem_inputs, twig_inputs = inputs.split([sum(tree.stems.sizes), sum(tree.twigs.sizes)])
    order = tree.stems.rank.argsort()
    hidden, cells = unroll(stem_inputs, tree.stems.sizes, h[order], c[order], weights)
    start = tree.fork[tree.twigs.rank.argsort()]
    return torch.cat([hidden, unroll(twig_inputs, tree.twigs.sizes, hidden[start], cells[start], weights)[0]])


@torch.no_grad()
def initialise(module: nn.Module, generator: Generator | None) -> None:
    """All weights uniform in [-0.1, 0.1]."""
    for weight in module.parameters():
        device = weight.device if generator is None else generator.device
        fresh = torch.empty(weight.shape, dtype=weight.dtype, device=device)
        weight.copy_(fresh.uniform_(-INITIAL, INITIAL, generator=generator))


def _hold(half: int) -> Float[Tensor, "gates 1"]:
    """What padding adds to the gates of an LSTM, in torch's order: input, forget, cell, output."""
    return torch.tensor([-HOLD, HOLD, 0.0, 0.0]).repeat_interleave(half).unsqueeze(1)


def _own_precision(inputs: Tensor) -> AbstractContextManager[object]:
    """Keeps an LSTM on the CPU out of autocast: torch has none of less precision for many processors."""
    lowered = inputs.device.type == "cpu" and torch.is_autocast_enabled("cpu")
    return torch.autocast("cpu", enabled=False) if lowered else nullcontext()


def _check(hidden: int, attention: str, dropout: float) -> None:
    if hidden % 2:
        raise UserError(f"hidden = {hidden}: the two directions of the encoder share it, so choose an even number")
    if attention not in ("dot", "mlp"):
        raise UserError(f'attention = "{attention}": choose "dot" or "mlp"')
    if not 0 <= dropout < 1:
        raise UserError(f"dropout = {dropout}: choose a rate from 0 up to, but without, 1")
