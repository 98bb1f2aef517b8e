"""Beam search for any policy.

A guide adds to the score of every continuation what a critic says that it is worth: see `search.guided`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seqcredit.credit.values import only_actions
from seqcredit.errors import UserError, require
from seqcredit.models.policy import Attends, M, Policy, Readout, S, repeat
from seqcredit.search.guided import Guide
from seqcredit.search.sample import CROWD, device_of, limits
from seqcredit.types import UNK, token_mask


class Hypotheses(NamedTuple):
    """The n best sequences of each sentence, best first; where there are fewer, the score is -inf."""

    tokens: Int[Tensor, "B n T"]
    scores: Float[Tensor, "B n"]  # what they are ranked by: logp / length ** length_penalty + worth; eos has length too
    logp: Float[Tensor, "B n"]
    attended: Int[Tensor, "B n T"]  # the source position that each token looked at most, 0 where that is not known
    worth: Float[Tensor, "B n"]  # what a guide has added, 0 without one


@torch.no_grad()
def beam(
    policy: Policy[M, S],
    memory: M,
    bound: int | Int[Tensor, " B"],
    width: int = 5,
    n_best: int = 1,
    length_penalty: float = 0.0,
    guide: Guide | None = None,
    raw: bool = False,
) -> Hypotheses:
    """The best sequences that `width` hypotheses at a time lead to.

    A continuation with eos is a result if it is among the `width` best continuations; the `width` best others go on. A
    sentence is done when nothing that goes on could still displace one of its results, provided that what a guide says
    of hypotheses does not rise on their way.

    With `raw` they are ranked by the score of their last word alone, without a softmax: so does beam search
    optimisation, which has all else in the state. Then a sentence is done when the best of its continuations has ended.
    """
    _check_beam(width, n_best, length_penalty, raw and guide is not None)
    limit, shortest, longest = limits(bound, memory.rows, device_of(policy))
    alphabet = policy.alphabet
    rows = torch.arange(len(limit), device=limit.device)  # sentences that are still in the batch
    found, alive = (_blank(len(limit), number, longest, limit.device, alphabet.eos) for number in (n_best, width))
    alive.logp[:, 0] = 0
    memory = repeat(memory, width, limit.device)
    adds = None if guide is None else guide.along(alphabet, width, limit.device)
    state, token, written = policy.start(memory), None, Readout(len(rows) * width)
    left: list[tuple[Tensor, Hypotheses]] = []
    for t in range(longest):
        scores, state = policy.step(memory, state, token)
        forced = (limit - 1).eq(t) if t >= shortest - 1 else None
        logits, worth = only_actions(written(scores), alphabet.actions), None if adds is None else adds.worth(token)
        logp, worth, parent, word = _expand(logits, alive.logp, forced, alphabet.eos, worth, raw)
        grown = _grow(alive, (logp, worth), parent, word, state.attention if isinstance(state, Attends) else None, t)
        ended = word == alphabet.eos
        counts = (1, 1.0) if raw else (width, (t + 1) ** length_penalty)
        found = _collect(found, grown, ended, *counts)
        alive, parent = _go_on(grown, parent, ended, width)
        # log-probabilities only fall, and the greatest length divides them best
        reach = (alive.logp / limit.to(alive.logp.dtype).unsqueeze(1) ** length_penalty + alive.worth).amax(1)
        settled = ended[:, 0] if raw else found.scores[:, -1] >= reach
        done = settled | (t >= limit - 1)
        remaining, keep = len(rows) - int(done.sum()), None
        if remaining <= CROWD * len(rows):
            leave, keep = done.nonzero().squeeze(1), (~done).nonzero().squeeze(1)
            left.append((rows[leave], _select(found, leave)))
            rows, limit, found, alive = rows[keep], limit[keep], _select(found, keep), _select(alive, keep)
        if remaining == 0:
            break
        origin = _flat(parent, keep)
        memory = memory if keep is None else memory.select(origin)  # the copies of a sentence are all the same
        state, token = state.select(origin), alive.tokens[:, :, t].flatten()
        adds = None if adds is None else adds.select(origin)
    return _gather(left, alphabet.eos)


def _expand(
    logits: Float[Tensor, "BW V"],
    alive: Float[Tensor, "B W"],
    forced: Bool[Tensor, " B"] | None,
    eos: int,
    worth: Float[Tensor, "BW V"] | None,
    raw: bool,
) -> tuple[Float[Tensor, "B K"], Float[Tensor, "B K"], Int[Tensor, "B K"], Int[Tensor, "B K"]]:
    """The K best continuations, best first, equals in their order: log-probability, worth, parent, word.

    K = 2 W holds W of them without eos, since each hypothesis has but one with it.
    """
    (B, W), V = alive.shape, logits.shape[-1]
    logp = torch.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), -1).view(B, W, V)
    if forced is not None:
        certain = torch.full_like(logp[0, 0], -torch.inf)
        certain[eos] = 0
        logp = torch.where(forced.view(B, 1, 1), certain, logp)
    total = (alive.unsqueeze(-1) + logp).flatten(1)
    if raw:  # what makes the score of the last word of a log-probability
        worth = (logits.view(B, W * V) - total).masked_fill(total == -torch.inf, 0)
    rank = total if worth is None else total + worth.view(B, W * V)
    index = rank.topk(min(2 * W, W * V)).indices.sort(1).values
    index = index.gather(1, rank.gather(1, index).sort(dim=1, descending=True, stable=True).indices)
    added = (
        torch.zeros_like(alive[:, :1]).expand(index.shape) if worth is None else worth.view(B, W * V).gather(1, index)
    )
    return total.gather(1, index), added.to(total.dtype), index // V, index % V


def _grow(
    alive: Hypotheses,
    values: tuple[Float[Tensor, "B K"], Float[Tensor, "B K"]],
    parent: Int[Tensor, "B K"],
    word: Int[Tensor, "B K"],
    attention: Float[Tensor, "BW S"] | None,
    t: int,
) -> Hypotheses:
    """The continuations with all their words."""
    logp, worth = values
    grown = _pick(alive, parent)._replace(logp=logp, worth=worth)
    grown.tokens[:, :, t] = word
    if attention is not None:
        grown.attended[:, :, t] = attention.argmax(-1).view(alive.logp.shape).gather(1, parent)
    return grown


def _collect(
    found: Hypotheses, grown: Hypotheses, ended: Bool[Tensor, "B K"], width: int, divisor: float
) -> Hypotheses:
    """The best results so far; of equal ones, the earlier."""
    among = torch.arange(ended.shape[1], device=ended.device) < width
    scores = (grown.logp / divisor + grown.worth).masked_fill(~(ended & among), -torch.inf)
    both = Hypotheses(*(torch.cat(pair, 1) for pair in zip(found, grown._replace(scores=scores), strict=True)))
    return _pick(both, both.scores.sort(dim=1, descending=True, stable=True).indices[:, : found.scores.shape[1]])


def _go_on(
    grown: Hypotheses, parent: Int[Tensor, "B K"], ended: Bool[Tensor, "B K"], width: int
) -> tuple[Hypotheses, Int[Tensor, "B W"]]:
    """The best continuations without eos, and the hypotheses that they stem from."""
    grown = grown._replace(logp=grown.logp.masked_fill(ended, -torch.inf))
    order = (grown.logp + grown.worth).sort(dim=1, descending=True, stable=True).indices[:, :width]
    return _pick(grown, order), parent.gather(1, order)


def _blank(size: int, number: int, length: int, device: torch.device, eos: int) -> Hypotheses:
    """Hypotheses that are none."""
    tokens = torch.full((size, number, length), eos, device=device)
    nothing = torch.full((size, number), -torch.inf, device=device)
    return Hypotheses(tokens, nothing, nothing.clone(), torch.zeros_like(tokens), torch.zeros_like(nothing))


def _pick(hypotheses: Hypotheses, order: Int[Tensor, "B K"]) -> Hypotheses:
    """Those at `order`, sentence by sentence."""
    tokens, scores, logp, attended, worth = hypotheses
    words = order.unsqueeze(-1).expand(-1, -1, tokens.shape[-1])
    return Hypotheses(
        tokens.gather(1, words),
        scores.gather(1, order),
        logp.gather(1, order),
        attended.gather(1, words),
        worth.gather(1, order),
    )


def _flat(parent: Int[Tensor, "B W"], keep: Int[Tensor, " N"] | None) -> Int[Tensor, " NW"]:
    """Rows of the flat batch that the parents stand in, of the sentences to keep."""
    first = torch.arange(len(parent), device=parent.device).unsqueeze(-1) * parent.shape[1]
    rows = first + parent
    return (rows if keep is None else rows[keep]).flatten()


def _select(hypotheses: Hypotheses, sentences: Int[Tensor, " N"]) -> Hypotheses:
    """Those of some sentences."""
    return Hypotheses(*(field.index_select(0, sentences) for field in hypotheses))


def _gather(left: list[tuple[Tensor, Hypotheses]], eos: int) -> Hypotheses:
    """Sentences in their first order, cut to the longest result."""
    order = torch.cat([rows for rows, _ in left]).argsort()
    fields = zip(*(found for _, found in left), strict=True)
    tokens, scores, logp, attended, worth = (torch.cat(field).index_select(0, order) for field in fields)
    longest = int(token_mask(tokens, eos).sum(-1).max())
    return Hypotheses(tokens[:, :, :longest], scores, logp, attended[:, :, :longest], worth)


def replace_unknown(
    tokens: Sequence[int], words: Sequence[str], attended: Sequence[int], source: Sequence[str], unk: int = UNK
) -> list[str]:
    """The words of one sentence, each unknown one replaced by the source word that it looked at.

    `words` spells the tokens before eos. One that looked at the source's eos stays as it is.
    """
    places = zip(tokens, words, attended, strict=False)
    return [source[at] if token == unk and at < len(source) else word for token, word, at in places]


def _check_beam(width: int, n_best: int, length_penalty: float, both: bool) -> None:
    require(1 <= n_best <= width, f"n_best = {n_best}, width = {width}: choose 1 <= n_best <= width")
    if length_penalty < 0:
        raise UserError(f"length_penalty = {length_penalty}: choose 0 (none) or more")
    require(not both, "Scores of a last word are no log-probabilities, which a guide could add to: leave the guide out")
