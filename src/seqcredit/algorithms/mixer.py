"""MIXER: MLE for the beginning of the reference, REINFORCE for the rest. Ranzato et al. (2016).

What is drawn grows from the end: first the last tokens alone, at last all of them.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seqcredit.algorithms.phase import Progress
from seqcredit.algorithms.reinforce import Reinforce
from seqcredit.options import FROM_0, FROM_1, option
from seqcredit.search.sample import Given
from seqcredit.types import Batch, lengths


@dataclass(frozen=True)
class Mixer(Reinforce):
    """MIXER: of a reference of T tokens the first T - Delta are learned, and what follows them is drawn."""

    learns_references: ClassVar[bool] = True
    guarded: ClassVar[bool] = False  # the reward falls by itself while less of the reference is given

    baseline: Literal["greedy", "others", "mean", "none"] = "mean"  # the paper learns one from the states
    delta_start: int = option(2, FROM_0)  # Delta at the start: tokens that are sampled
    delta: int = option(2, FROM_0)  # how much Delta grows each time
    delta_every: int = option(500, FROM_1)  # updates until Delta grows again

    def drawn(self, progress: Progress) -> int:
        """Delta: how many of the last tokens are drawn."""
        return self.delta_start + self.delta * (progress.update // self.delta_every)

    def given(self, batch: Batch, progress: Progress, eos: int) -> Given:
        """The beginning of the reference."""
        known = batch.references[:, 0].repeat_interleave(self.samples, 0)
        place = torch.arange(known.shape[1], device=known.device)
        kept = lengths(known, eos) + 1 - self.drawn(progress)
        return Given(known, place < kept.unsqueeze(1))

    def credited(self, advantage: Float[Tensor, "B T"], given: Given | None) -> Float[Tensor, "B T"]:
        """1 for what is learned as it stands."""
        assert given is not None
        kept = nn.functional.pad(given.kept, (0, advantage.shape[1] - given.kept.shape[1]))
        return advantage.masked_fill(kept, 1.0)

    def bound(self, batch: Batch) -> int:
        """Tokens of a sample at the most; the reference ends before that."""
        return max(super().bound(batch), batch.references.shape[-1] + 1)
