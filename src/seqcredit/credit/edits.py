"""Sequences drawn from P_R exactly, if the pay-off is minus the edit distance to one reference.

The reference is edited at random: words come in, are replaced or left out, so that every way to edit it is as likely as
e^(- edits / tau) says. Some sequences are reached in several ways. Each is kept as often as e^(- distance / tau) over
the sum of its ways says, and what is kept has the probabilities of P_R exactly.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from seqcredit.credit.oracle.completions import row_after
from seqcredit.draws import Noise
from seqcredit.errors import UserError
from seqcredit.types import EOS, Alphabet, lengths


def draw_edits(
    references: Int[Tensor, "B L"], samples: int, alphabet: Alphabet, noise: Noise, tau: float, bound: int
) -> Int[Tensor, "B M T"]:
    """Sequences of at most `bound` tokens, eos included, from P_R of each reference: e^(- distance / tau) over all."""
    unknown = [] if alphabet.unk is None else [references.new_tensor([alphabet.unk])]
    words = torch.cat([*unknown, alphabet.words(references.device)])
    one = math.exp(-1 / tau)  # weight of an edit
    if one * len(words) > 0.5:
        most = math.floor(1e3 / math.log(2 * len(words))) / 1e3
        raise UserError(f"tau is {tau:g}, where P_R is mostly words that come in: set it to {most:g} or less.")
    rows, source = references.repeat_interleave(samples, 0), noise.apart().repeated(samples)
    found, missing = rows.new_empty(len(rows), bound), torch.arange(len(rows), device=rows.device)
    while len(missing):
        numbers = source.uniform(2 * rows.shape[1] + bound + 1, device=rows.device)[missing]
        tokens, fits = _edited(rows[missing], words, one, numbers[:, 1:], bound, alphabet)
        kept = fits & (numbers[:, 0] < _share(tokens, rows[missing], one, alphabet.eos))
        found[missing[kept]] = tokens[kept]
        missing = missing[~kept]
    return found.unflatten(0, (-1, samples))


def _edited(
    references: Int[Tensor, "B L"],
    words: Int[Tensor, " W"],
    one: float,
    numbers: Float[Tensor, "B N"],
    bound: int,
    alphabet: Alphabet,
) -> tuple[Int[Tensor, "B T"], Bool[Tensor, " B"]]:
    """Edits of each reference by uniform numbers, and whether they are within the bound."""
    L, W, device = references.shape[1], len(words), references.device
    place, size = torch.arange(L, device=device), lengths(references, alphabet.eos).unsqueeze(1)
    number = words.new_zeros(alphabet.size).scatter(0, words, torch.arange(W, device=device))
    how_many, which, any_word = numbers.split([L, L, bound], 1)
    # As many words before each place as chance wants, and at each place the reference's word, another, or none.
    inserted = (torch.log1p(-how_many) / math.log(one * W)).long().masked_fill(place > size, 0)
    choice = which * (1 + one * W)
    there = (choice < 1 + one * (W - 1)) & (place < size)
    where = (inserted + pad(there[:, :-1].long(), (1, 0))).cumsum(1).masked_fill(~there, bound).clamp(max=bound)
    # What each token stands for: a word of the reference, the same plus `size` if another is to be there, or nothing.
    meant = references + alphabet.size * (choice >= 1)
    meant = references.new_full((len(references), bound + 1), -1).scatter(1, where, meant)[:, :-1]
    other = (number[meant % alphabet.size] + 1 + (any_word * (W - 1)).long()) % W
    changed = torch.where(meant < alphabet.size, meant, words[other])
    drawn = torch.where(meant < 0, words[(any_word * W).long()], changed)
    total = (inserted.sum(1) + there.sum(1)).unsqueeze(1)
    tokens = drawn.masked_fill(torch.arange(bound, device=device) >= total, alphabet.eos)
    return tokens, total.squeeze(1) < bound


def _share(
    tokens: Int[Tensor, "B T"], references: Int[Tensor, "B L"], one: float, eos: int = EOS
) -> Float[Tensor, " B"]:
    """The shortest way to each sequence over all ways."""
    place, real = torch.arange(references.shape[1], device=tokens.device), torch.get_default_dtype()
    distances = place.expand(len(tokens), -1)
    gap = place.unsqueeze(1) - place
    leaving_out = torch.where(gap >= 0, torch.tensor(one, dtype=real, device=tokens.device) ** gap, 0)
    ways, scale = leaving_out[:, 0].expand(len(tokens), -1), torch.zeros(len(tokens), dtype=real, device=tokens.device)
    for token in tokens.T.unsqueeze(-1):
        ended, other = token == eos, references[:, :-1] != token
        came_in, changed = ways * one, ways[:, :-1] * torch.where(other, one, 1.0)
        ways = torch.where(ended, ways, (came_in + pad(changed, (1, 0))) @ leaving_out.T)
        distances = torch.where(ended, distances, row_after(distances, other, place))
        most = ways.amax(1)
        ways, scale = ways / most.unsqueeze(1), scale + most.log()  # so that nothing vanishes
    size = lengths(references, eos).unsqueeze(1)
    distance, all_ways = distances.gather(1, size).squeeze(1), ways.gather(1, size).squeeze(1)
    return torch.exp(distance * math.log(one) - scale) / all_ways
