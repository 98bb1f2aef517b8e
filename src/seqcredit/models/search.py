"""From scores to sequences: sampling, greedy and beam search, for any model that moves word by word.

The bound counts eos. At position bound - 1 only eos is allowed: it has probability 1 there, in sampling and in beam
search alike, as in the paper's bounded sequences.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqcredit.draws import draw
from seqcredit.errors import UserError
from seqcredit.models.memory import repeat, select
from seqcredit.types import EOS, UNK, token_mask

CROWD = 0.75  # finished sentences leave once those that go on are at most this share of the batch


@runtime_checkable
class Policy(Protocol):
    """What search knows of a model. Memory and state are named tuples of batch-first tensors."""

    @property
    def readout(self) -> Callable[[Tensor], Tensor]:
        """Scores of all actions (B, V) from features (B, D)."""
        ...

    def encode(self, source: Any, /) -> Any: ...

    def start(self, memory: Any, /) -> Any:
        """The state before the first word."""
        ...

    def step(self, memory: Any, state: Any, token: Tensor | None, mask: Tensor | None = None, /) -> tuple[Tensor, Any]:
        """Features of the next word and the next state, whose field `attention` (B, S) says what was looked at."""
        ...


class Hypotheses(NamedTuple):
    """The n best sequences of each sentence, best first; where there are fewer, the score is -inf."""

    tokens: Int[Tensor, "B n T"]
    scores: Float[Tensor, "B n"]  # what they are ranked by: logp / length ** length_penalty, the length with eos
    logp: Float[Tensor, "B n"]
    attended: Int[Tensor, "B n T"]  # the source position that each token looked at most


@torch.no_grad()
def sample(
    policy: Policy,
    memory: Any,
    bound: int | Int[Tensor, " B"],
    uniform: Float[Tensor, "B longest"],
    masks: Float[Tensor, "B longest D"] | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Int[Tensor, "B T"]:
    """One sequence a sentence from the model's own distribution, as long as the longest of them.

    `uniform` has a number in [0, 1) for each word that may be drawn.
    """
    _check_sampling(temperature, top_k, top_p)

    def choose(logits: Tensor, rows: Tensor, t: int) -> Tensor:
        return draw(_weights(logits, temperature, top_k, top_p), uniform[rows, t])

    return _generate(policy, memory, bound, choose, masks)


@torch.no_grad()
def greedy(policy: Policy, memory: Any, bound: int | Int[Tensor, " B"]) -> Int[Tensor, "B T"]:
    """The most probable word at every step."""
    return _generate(policy, memory, bound, lambda logits, _rows, _t: logits.argmax(-1), None)


def _generate(
    policy: Policy,
    memory: Any,
    bound: int | Int[Tensor, " B"],
    choose: Callable[[Tensor, Tensor, int], Tensor],
    masks: Float[Tensor, "B longest D"] | None,
) -> Int[Tensor, "B T"]:
    """Word by word; sentences that have ended leave the batch."""
    limit, _, longest = _limits(bound, memory)
    rows = torch.arange(len(limit), device=limit.device)  # sentences that are still in the batch
    tokens = torch.full((len(limit), longest), EOS, device=limit.device)
    state, token, going = policy.start(memory), None, torch.ones_like(rows, dtype=torch.bool)
    readout = _packed(policy.readout, len(rows))
    for t in range(longest - 1):
        mask = None if masks is None else masks[rows, t]
        features, state = policy.step(memory, state, token, mask)
        going = going & (t < limit[rows] - 1)
        token = choose(readout(features), rows, t).masked_fill(~going, EOS)
        tokens[rows, t] = token
        going = going & (token != EOS)
        left = int(going.sum())
        if left == 0:
            return tokens[:, : t + 1]
        if left <= CROWD * len(rows):
            keep = going.nonzero().squeeze(1)
            memory, state = select(memory, keep), select(state, keep)
            rows, token, going = rows[keep], token[keep], going[keep]
    return tokens


def _packed(readout: Callable[[Tensor], Tensor], states: int) -> Callable[[Tensor], Tensor]:
    """The readout, with its weight laid out once for many products with a few states where oneDNN can do that."""
    if not isinstance(readout, nn.Linear) or not _can_pack(readout.weight):
        return readout
    weight, bias = torch.ops.mkldnn._reorder_linear_weight(readout.weight.detach(), states), readout.bias
    return lambda features: torch.ops.mkldnn._linear_pointwise(features, weight, bias, "none", [], "")


def _can_pack(weight: Tensor) -> bool:
    plain = weight.device.type == "cpu" and weight.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    return plain and torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")


def _weights(
    logits: Float[Tensor, "B V"], temperature: float, top_k: int | None, top_p: float | None
) -> Float[Tensor, "B V"]:
    """What to draw from, not normalised: first the temperature, then the k best, then the nucleus among them."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    weights = torch.softmax(logits if temperature == 1 else logits / temperature, -1)
    if top_k is not None and top_k < weights.shape[-1]:
        weights = weights.masked_fill(weights < weights.topk(top_k, -1).values[:, -1:], 0)
    if top_p is not None and top_p < 1:
        ranked, words = weights.sort(dim=-1, descending=True, stable=True)
        before = ranked.cumsum(-1) - ranked
        outside = before >= top_p * ranked.sum(-1, keepdim=True)
        weights = weights.scatter(-1, words, ranked.masked_fill(outside, 0))
    return weights


@torch.no_grad()
def beam(
    policy: Policy,
    memory: Any,
    bound: int | Int[Tensor, " B"],
    width: int = 5,
    n_best: int = 1,
    length_penalty: float = 0.0,
) -> Hypotheses:
    """The best sequences that `width` hypotheses at a time lead to.

    A continuation with eos is a result if it is among the `width` best continuations; the `width` best others go on. A
    sentence is done when nothing that goes on could still displace one of its results.
    """
    _check_beam(width, n_best, length_penalty)
    limit, shortest, longest = _limits(bound, memory)
    rows = torch.arange(len(limit), device=limit.device)  # sentences that are still in the batch
    found = _blank(len(limit), n_best, longest, limit.device)
    alive = _blank(len(limit), width, longest, limit.device)
    alive.logp[:, 0] = 0
    memory = repeat(memory, width)
    state, token, readout = policy.start(memory), None, _packed(policy.readout, len(rows) * width)
    left: list[tuple[Tensor, Hypotheses]] = []
    for t in range(longest):
        features, state = policy.step(memory, state, token)
        forced = (limit - 1).eq(t) if t >= shortest - 1 else None
        logp, parent, word = _expand(readout(features), alive.logp, forced)
        grown = _grow(alive, logp, parent, word, state.attention, t)
        found = _collect(found, grown, word == EOS, width, (t + 1) ** length_penalty)
        alive, parent = _go_on(grown, parent, word == EOS, width)
        # log-probabilities only fall, and the greatest length divides them best
        reach = alive.logp[:, 0] / limit.to(alive.logp.dtype) ** length_penalty
        done = (found.scores[:, -1] >= reach) | (t >= limit - 1)
        remaining, keep = len(rows) - int(done.sum()), None
        if remaining <= CROWD * len(rows):
            leave, keep = done.nonzero().squeeze(1), (~done).nonzero().squeeze(1)
            left.append((rows[leave], select(found, leave)))
            rows, limit, found, alive = rows[keep], limit[keep], select(found, keep), select(alive, keep)
        if remaining == 0:
            break
        origin = _flat(parent, keep)
        memory = memory if keep is None else select(memory, origin)  # the copies of a sentence are all the same
        state, token = select(state, origin), alive.tokens[:, :, t].flatten()
    return _gather(left)


def _expand(
    logits: Float[Tensor, "BW V"], alive: Float[Tensor, "B W"], forced: Bool[Tensor, " B"] | None
) -> tuple[Float[Tensor, "B K"], Int[Tensor, "B K"], Int[Tensor, "B K"]]:
    """The K best continuations, best first, equals in the order of their numbers: log-probability, parent, word.

    K = 2 W holds W of them without eos, since each hypothesis has but one with it.
    """
    (B, W), V = alive.shape, logits.shape[-1]
    logp = torch.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), -1).view(B, W, V)
    if forced is not None:
        certain = torch.full_like(logp[0, 0], -torch.inf)
        certain[EOS] = 0
        logp = torch.where(forced.view(B, 1, 1), certain, logp)
    index = (alive.unsqueeze(-1) + logp).flatten(1).topk(min(2 * W, W * V)).indices.sort(1).values
    total = alive.gather(1, index // V) + logp.flatten(1).gather(1, index)
    total, order = total.sort(dim=1, descending=True, stable=True)
    index = index.gather(1, order)
    return total, index // V, index % V


def _grow(
    alive: Hypotheses,
    logp: Float[Tensor, "B K"],
    parent: Int[Tensor, "B K"],
    word: Int[Tensor, "B K"],
    attention: Float[Tensor, "BW S"],
    t: int,
) -> Hypotheses:
    """The continuations with all their words."""
    grown = _pick(alive, parent)._replace(logp=logp)
    grown.tokens[:, :, t] = word
    grown.attended[:, :, t] = attention.argmax(-1).view(alive.logp.shape).gather(1, parent)
    return grown


def _collect(
    found: Hypotheses, grown: Hypotheses, ended: Bool[Tensor, "B K"], width: int, divisor: float
) -> Hypotheses:
    """The best results so far; of equal ones, the earlier."""
    among = torch.arange(ended.shape[1], device=ended.device) < width
    scores = (grown.logp / divisor).masked_fill(~(ended & among), -torch.inf)
    both = Hypotheses(*(torch.cat(pair, 1) for pair in zip(found, grown._replace(scores=scores), strict=True)))
    return _pick(both, both.scores.sort(dim=1, descending=True, stable=True).indices[:, : found.scores.shape[1]])


def _go_on(
    grown: Hypotheses, parent: Int[Tensor, "B K"], ended: Bool[Tensor, "B K"], width: int
) -> tuple[Hypotheses, Int[Tensor, "B W"]]:
    """The best continuations without eos, and the hypotheses that they stem from."""
    grown = grown._replace(logp=grown.logp.masked_fill(ended, -torch.inf))
    order = grown.logp.sort(dim=1, descending=True, stable=True).indices[:, :width]
    return _pick(grown, order), parent.gather(1, order)


def _blank(size: int, number: int, length: int, device: torch.device) -> Hypotheses:
    """Hypotheses that are none."""
    tokens = torch.full((size, number, length), EOS, device=device)
    nothing = torch.full((size, number), -torch.inf, device=device)
    return Hypotheses(tokens, nothing, nothing.clone(), torch.zeros_like(tokens))


def _pick(hypotheses: Hypotheses, order: Int[Tensor, "B K"]) -> Hypotheses:
    """Those at `order`, sentence by sentence."""
    tokens, scores, logp, attended = hypotheses
    words = order.unsqueeze(-1).expand(-1, -1, tokens.shape[-1])
    return Hypotheses(
        tokens.gather(1, words), scores.gather(1, order), logp.gather(1, order), attended.gather(1, words)
    )


def _flat(parent: Int[Tensor, "B W"], keep: Int[Tensor, " N"] | None) -> Int[Tensor, " NW"]:
    """Rows of the flat batch that the parents stand in, of the sentences to keep."""
    first = torch.arange(len(parent), device=parent.device).unsqueeze(-1) * parent.shape[1]
    rows = first + parent
    return (rows if keep is None else rows[keep]).flatten()


def _gather(left: list[tuple[Tensor, Hypotheses]]) -> Hypotheses:
    """Sentences in their first order, cut to the longest result."""
    order = torch.cat([rows for rows, _ in left]).argsort()
    fields = zip(*(found for _, found in left), strict=True)
    tokens, scores, logp, attended = (torch.cat(field).index_select(0, order) for field in fields)
    longest = int(token_mask(tokens).sum(-1).max())
    return Hypotheses(tokens[:, :, :longest], scores, logp, attended[:, :, :longest])


def replace_unknown(
    tokens: Sequence[int], words: Sequence[str], attended: Sequence[int], source: Sequence[str]
) -> list[str]:
    """The words of one sentence, each unknown one replaced by the source word that it looked at.

    `words` spells the tokens before eos. One that looked at the source's eos stays as it is.
    """
    places = zip(tokens, words, attended, strict=False)
    return [source[at] if token == UNK and at < len(source) else word for token, word, at in places]


def _limits(bound: int | Int[Tensor, " B"], memory: Any) -> tuple[Int[Tensor, " B"], int, int]:
    """The bound of every sentence, the least and the greatest."""
    limit = torch.as_tensor(bound, device=memory[0].device).expand(len(memory[0]))
    shortest, longest = (bound, bound) if isinstance(bound, int) else (int(limit.min()), int(limit.max()))
    if shortest < 1:
        raise UserError(f"bound = {shortest}: eos counts, so the least is 1")
    return limit, shortest, longest


def _check_sampling(temperature: float, top_k: int | None, top_p: float | None) -> None:
    if temperature <= 0:
        raise UserError(f"temperature = {temperature}: choose a positive number, or search greedily")
    if top_k is not None and top_k < 1:
        raise UserError(f"top_k = {top_k}: keep at least 1 word")
    if top_p is not None and not 0 < top_p <= 1:
        raise UserError(f"top_p = {top_p}: choose a probability above 0 and at most 1")


def _check_beam(width: int, n_best: int, length_penalty: float) -> None:
    if not 1 <= n_best <= width:
        raise UserError(f"n_best = {n_best}, width = {width}: choose 1 <= n_best <= width")
    if length_penalty < 0:
        raise UserError(f"length_penalty = {length_penalty}: choose 0 (none) or more")
