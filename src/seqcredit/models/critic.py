"""The critic: reads the reference and gives Q for every word after every prefix; with its target network."""

from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor, nn

from seqcredit.models.lstm import Seq2Seq
from seqcredit.models.memory import Memory
from seqcredit.models.policy import Linear, tensors_of
from seqcredit.models.writer import initialise
from seqcredit.types import ABSENT, Alphabet, Batch


class Critic(Seq2Seq):
    """Q_phi: the same network with the reference, or all of them, as its source. Its scores are Q.

    The defaults are ERAC's critic; VAML's Q-network has attention "dot" and dropout 0.1.

    With `copy` it speaks of the reference's words themselves. Every word w has a code e(w) of that many numbers, the
    last columns of the readout. The features get c = sum_j u(s, j) e(y*_j) in addition, where u(s, j) compares the
    state s with the place j and is neither normalised nor dropped out: Q(s, w) = readout of the rest + e(w) . c.

    `dueling` gives all words one readout in common, beside their own: what a state is worth is learned from every word
    that is taken, not from each anew. Both start at 0, and so does all of Q.
    """

    def __init__(
        self,
        alphabet: Alphabet | int,
        embedding: int = 256,
        hidden: int = 256,
        layers: int = 1,
        attention: Literal["dot", "mlp"] = "mlp",
        input_feeding: bool = False,
        dropout: float = 0.0,
        generator: Generator | None = None,
        copy: int = 0,
        references: Literal["own", "all"] = "own",
        dueling: bool = False,
    ) -> None:
        known = Alphabet.of(alphabet)
        actions = known.size
        shape = (embedding, hidden, layers)
        super().__init__(actions, known, *shape, attention, input_feeding, dropout, generator, known.eos)
        self.references = references
        self.copy = copy
        if copy:
            self.pointer = nn.Linear(hidden, hidden, bias=False)
            plain, self.readout = self.readout, nn.Linear(hidden + copy, actions)
            initialise(self.pointer, generator)
            with torch.no_grad():
                self.readout.weight.copy_(torch.cat([plain.weight, codes(actions, copy, generator)], 1))
                self.readout.bias.copy_(plain.bias)
        self.common = nn.Linear(hidden, 1) if dueling else None
        if self.common is not None:
            self._start_at_zero(self.common)

    reads: Literal["source", "references"] = "references"

    @torch.no_grad()
    def _start_at_zero(self, common: nn.Linear) -> None:
        """The codes of words stay as they are: by them it learns where to look."""
        own = self.readout.weight[:, : common.in_features]
        pointer = [self.pointer.weight] if self.copy else []
        for weight in (own, self.readout.bias, common.weight, common.bias, *pointer):
            weight.zero_()

    def _scored(self, vectors: Float[Tensor, "*B F"]) -> Linear:
        """Q by the readout, and by what it has in common for all words."""
        own = super()._scored(vectors)
        if self.common is None or own.bias is None:
            return own
        common = nn.functional.pad(self.common.weight, (0, self.copy))
        return Linear(own.features, own.weight + common, own.bias + self.common.bias)

    def encode(self, references: Int[Tensor, "B R L"]) -> Memory:
        """Read the first reference, or all: attention sees every word, and the decoder starts from their mean."""
        if self.references == "own" or references.shape[1] == 1:
            return self._read_reference(Batch(references, references).own(self.alphabet.eos))
        there = references[..., 0] != ABSENT  # (B, R)
        # The captions of a picture stand in the batch once for each of them: each is read once.
        known = references.masked_fill(references == ABSENT, self.alphabet.eos)
        rows, place = known.flatten(0, 1).unique(dim=0, return_inverse=True)
        read = self._read_reference(rows).select(place)
        states, keys, mask, h, c, codes = (field.unflatten(0, there.shape) for field in tensors_of(read))
        share = (there / there.sum(1, keepdim=True)).to(h.dtype)[..., None, None]
        return Memory(
            states.flatten(1, 2),
            keys.flatten(1, 2),
            (mask & there.unsqueeze(-1)).flatten(1, 2),
            (h * share).sum(1),
            (c * share).sum(1),
            (codes * there[..., None, None]).flatten(1, 2),
        )

    def _read_reference(self, reference: Int[Tensor, "B L"]) -> Memory:
        """One reference, with the codes of its words for a critic that copies them."""
        memory = super().encode(reference)
        if not self.copy:
            return memory
        codes = nn.functional.embedding(reference, self.readout.weight[:, -self.copy :])
        return replace(memory, codes=codes * memory.mask.unsqueeze(-1))

    def _attend(
        self, memory: Memory, states: Float[Tensor, "B T D"], masks: Float[Tensor, "B T D"] | None
    ) -> tuple[Float[Tensor, "B T F"], Float[Tensor, "B T S"]]:
        """What the readout sees, the copied codes at its end, and the weights of the context."""
        vector, weights = super()._attend(memory, states, masks)
        if not self.copy:
            return vector, weights
        scores = torch.bmm(self.pointer(states), memory.states.transpose(1, 2))  # (B, T, S)
        return torch.cat([vector, torch.bmm(scores, memory.codes)], -1), weights


@torch.no_grad()
def update_target(target: nn.Module, source: nn.Module, rate: float) -> None:
    """target <- rate * source + (1 - rate) * target, in place.

    The target network of ERAC, where the rate is beta. It may have more digits than the source: few lose small steps.
    """
    pairs = [*zip(target.parameters(), source.parameters(), strict=True)]
    torch._foreach_lerp_([mine for mine, _ in pairs], [weight.to(mine.dtype) for mine, weight in pairs], rate)


def codes(words: int, width: int, generator: Generator | None) -> Float[Tensor, "V C"]:
    """A vector of length 1 for each word; `width` neighbours at a time are orthogonal, all others nearly so."""
    device = None if generator is None else generator.device
    blocks = torch.randn(-(-words // width), width, width, generator=generator, device=device)
    return torch.linalg.qr(blocks).Q.flatten(0, 1)[:words]
