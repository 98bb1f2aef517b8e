"""The objectives of `losses`, fast: from features and readout to a weighted sum, with no (N, V) tensor kept.

Packed tokens only: N states are the rows of a `Table`, and each of K tokens is taken at one of them: at the row of its
own number, or at its row in `states`, so that sequences with a common beginning can share their states. Chunks of rows
that fit into the cache are scored, turned into the gradient of their scores and multiplied back at once. A loss equals
the specification in value and gradient; everything else that comes back is a constant.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from seqcredit.credit.values import soft_policy
from seqcredit.types import EOS, token_mask

EntropyForm = Literal["exact", "normalised"]
SmoothingForm = Literal["sum", "mean"]
BoundValue = Literal["eos", "free"]

CELLS = 2**22  # scores of a chunk: 16 MB in float32
ROWS = 96  # but at least so many rows, for the sake of the matrix products
COLUMNS = 1024  # words at a time where a product is as wide as the vocabulary, on a CPU


class Table(NamedTuple):
    """Scores of all actions in N states, logits or Q, that are never written down: features and readout."""

    features: Float[Tensor, "N D"]
    weight: Float[Tensor, "V D"]
    bias: Float[Tensor, " V"]


class Packing(NamedTuple):
    """Where the tokens of padded sequences stand, padding left out, and which state each of them leads to."""

    places: Int[Tensor, " N"]  # in the flattened (*B, T)
    following: Int[Tensor, " N"]  # row of the state after each token, -1 where its sequence ends
    shape: torch.Size  # (*B, T)

    def take(self, padded: Tensor) -> Tensor:
        """(*B, T, ...) -> (N, ...)."""
        return padded.flatten(0, len(self.shape) - 1)[self.places]

    def spread(self, packed: Float[Tensor, " N"]) -> Float[Tensor, "*B T"]:
        """(N) -> (*B, T), with 0 on padding."""
        padded = packed.new_zeros(self.shape.numel())
        return padded.index_put((self.places,), packed).view(self.shape)


def pack(tokens: Int[Tensor, "*B T"]) -> Packing:
    """Leave padding out."""
    T = tokens.shape[-1]
    places = token_mask(tokens).flatten().nonzero().squeeze(-1)
    ends = (tokens.flatten()[places] == EOS) | (places % T == T - 1)
    following = torch.arange(1, len(places) + 1, device=tokens.device).masked_fill(ends, -1)
    return Packing(places, following, tokens.shape)


def look_ahead(values: Float[Tensor, " N"], following: Int[Tensor, " K"]) -> Float[Tensor, " K"]:
    """The value of the state that each token leads to, 0 where its sequence ends: rewards plus this are targets.

    Eq. (optimal_Q) and (recursion_terminal).
    """
    return torch.cat([values, values.new_zeros(1)])[following]


def cross_entropy(
    logits: Table,
    tokens: Int[Tensor, " K"],
    weights: Float[Tensor, " K"] | None = None,
    states: Int[Tensor, " K"] | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, " K"]]:
    """Weighted sum of - log pi of the tokens; and - log pi of each, not weighted.

    `losses.mle` and `losses.raml`.
    """
    learner = _Learner(logits)
    with learner:
        weights = learner.numbers(weights, len(tokens))
        normaliser, scratch = learner.zeros(), learner.tables(2)
        _normalise(learner, learner.chunks(), learner.by_state(weights, states), normaliser, scratch)
        nll = _at(normaliser, states) - learner.chosen(tokens, states)
        learner.learn_chosen(tokens, states, -weights)
        loss = (weights * nll).sum()
    return learner.attach(loss), nll


def vaml(
    logits: Table,
    q: Table,
    tokens: Int[Tensor, " K"],
    weights: Float[Tensor, " K"] | None,
    tau: float,
    kappa: float | Bool[Tensor, " K"],
    forced: Bool[Tensor, " N"] | None = None,
    states: Int[Tensor, " K"] | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, " K"]]:
    """Weighted mixture of the cross entropy to P_Q (kappa) and - log pi (1 - kappa); and - log pi of each token.

    `losses.vaml`. Q is a constant; it is not read where kappa is 0.
    """
    if not isinstance(kappa, Tensor) and kappa == 0:
        return cross_entropy(logits, tokens, weights, states)
    learner, critic = _Learner(logits), _Reader(q)
    with learner:
        weights = learner.numbers(weights, len(tokens))
        share = kappa.to(weights.dtype) if isinstance(kappa, Tensor) else kappa
        mass, taught = learner.by_state(weights, states), learner.by_state(weights * share, states)
        by_q, by_eos = _split(taught, forced)
        normaliser, agreement, scratch = learner.zeros(), learner.zeros(), learner.tables(3)
        some = by_q != 0 if isinstance(kappa, Tensor) else None
        for rows in learner.chunks(some):
            target, _ = _boltzmann(critic.scores(rows, scratch[0]), tau, scratch[1])
            scores = learner.scores(rows, scratch[0])
            agreement[rows] = _dot(target, scores, scratch[2])
            policy, normaliser[rows] = _boltzmann(scores, 1.0, scratch[2])
            slope = policy.mul_(mass[rows, None]).addcmul_(target, by_q[rows, None], value=-1)
            learner.learn(rows, slope, torch.ones_like(mass[rows]))
        if some is not None:
            _normalise(learner, learner.chunks(~some), mass, normaliser, scratch)
        nll = _at(normaliser, states) - learner.chosen(tokens, states)
        learner.learn_chosen(tokens, states, weights * (share - 1))
        to_eos = normaliser - learner.eos()
        learner.learn_eos(-by_eos)
        loss = (weights * (1 - share) * nll).sum() + (by_q * (normaliser - agreement) + by_eos * to_eos).sum()
    return learner.attach(loss), nll


def soft_value(q: Table, tau: float, forced: Bool[Tensor, " N"] | None = None) -> Float[Tensor, " N"]:
    """tau log sum_w exp(Q / tau) of every state, as constants: with `look_ahead`, targets for `critic`.

    `values.soft_value`.
    """
    critic = _Reader(q)
    with critic:
        values, scratch = critic.zeros(), critic.tables(2)
        for rows in critic.chunks():
            _, values[rows] = _boltzmann(critic.scores(rows, scratch[0]), tau, scratch[1])
        return values if forced is None else torch.where(forced, critic.eos(), values)


def soft_q(
    q: Table,
    tokens: Int[Tensor, " K"],
    rewards: Float[Tensor, " K"],
    following: Int[Tensor, " K"],
    tau: float,
    forced: Bool[Tensor, " N"] | None = None,
    weights: Float[Tensor, " K"] | None = None,
    states: Int[Tensor, " K"] | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, " K"]]:
    """Weighted sum of squared soft Bellman residuals, the gradient through both sides; and the residual of each token.

    `losses.soft_q` without a target network. A state follows one token at the most, so its residual is known with it.
    """
    learner = _Learner(q)
    with learner:
        weights = learner.numbers(weights, len(tokens))
        excess = learner.chosen(tokens, states) - rewards  # the residual, but for the value that follows
        before, mass, reached = (_after(x, following, q) for x in (excess, weights, torch.ones_like(excess)))
        values, eos, scratch = learner.zeros(), learner.eos(), learner.tables(2)
        for rows in learner.chunks(reached != 0):
            policy, value = _boltzmann(learner.scores(rows, scratch[0]), tau, scratch[1])
            values[rows] = value if forced is None else torch.where(forced[rows], eos[rows], value)
            by_value, _ = _split(2 * mass * (values - before), forced)
            learner.learn(rows, policy, by_value[rows])
        _, by_eos = _split(2 * mass * (values - before), forced)
        learner.learn_eos(by_eos)
        residual = excess - look_ahead(values, following)
        learner.learn_chosen(tokens, states, 2 * weights * residual)
        loss = (weights * residual.square()).sum()
    return learner.attach(loss), residual


class Improved(NamedTuple):
    """The loss of the actor, and what it and the target critic say of every state."""

    loss: Float[Tensor, ""]
    values: Float[Tensor, " N"]  # for `look_ahead`
    entropy: Float[Tensor, " N"]


def actor(
    logits: Table,
    q: Table,
    target_q: Table,
    tau: float,
    entropy_form: EntropyForm = "exact",
    future_entropy: bool = True,
    forced: Bool[Tensor, " N"] | None = None,
    bound_value: BoundValue = "eos",
    weights: Float[Tensor, " N"] | None = None,
) -> Improved:
    """Weighted sum of - (sum_w pi Q + tau H(pi)); and sum_w pi Q-bar + tau H(pi) of every state, from the same pi.

    `losses.actor`, and the values in `losses.td_targets`. Q and Q-bar are constants.
    """
    learner, critic, target = _Learner(logits), _Reader(q), _Reader(target_q)
    with learner:
        weights, _ = _split(learner.numbers(weights, len(logits.features)), forced)
        gain, values, entropy, scratch = learner.zeros(), learner.zeros(), learner.zeros(), learner.tables(3)
        for rows in learner.chunks():
            policy, logp = _policy(learner, rows, scratch)
            entropy[rows] = -_dot(policy, logp, scratch[2])
            values[rows] = target.expected(policy, rows)
            energy = critic.scores(rows, scratch[2])
            if tau != 0:
                energy.addcmul_(logp, _pressure(logp, tau, entropy_form), value=-1)
            gain[rows] = _dot(policy, energy, scratch[0])
            learner.learn(rows, energy.sub_(gain[rows, None]).mul_(policy), -weights[rows])
        loss = -(weights * gain).sum()
        values, entropy = _bounded(values, entropy, target, tau if future_entropy else 0.0, forced, bound_value)
    return Improved(learner.attach(loss), values, entropy)


def expected_value(
    logits: Table,
    target_q: Table,
    tau: float,
    future_entropy: bool = True,
    forced: Bool[Tensor, " N"] | None = None,
    bound_value: BoundValue = "eos",
) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    """sum_w pi Q-bar + tau H(pi) and H(pi) of every state, as constants: `actor` where the actor is fixed.

    The values in `losses.td_targets`.
    """
    actor, target = _Reader(logits), _Reader(target_q)
    with actor:
        values, entropy, scratch = actor.zeros(), actor.zeros(), actor.tables(2)
        for rows in actor.chunks():
            policy, logp = _policy(actor, rows, scratch)
            values[rows] = target.expected(policy, rows)
            entropy[rows] = -logp.mul_(policy).sum(-1)
        return _bounded(values, entropy, target, tau if future_entropy else 0.0, forced, bound_value)


def critic(
    q: Table,
    tokens: Int[Tensor, " K"],
    targets: Float[Tensor, " K"],
    smoothing: float = 0.0,
    smoothing_form: SmoothingForm = "sum",
    forced: Bool[Tensor, " N"] | None = None,
    td_weight: float = 1.0,
    weights: Float[Tensor, " K"] | None = None,
    states: Int[Tensor, " K"] | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, " K"]]:
    """Weighted sum of squared TD errors, and of the spread of Q over all actions; and Q of each token.

    `losses.critic_td` and `losses.smoothing`. No product through V: a TD error knows one word, and the spread is a
    quadratic form of the features.
    """
    learner = _Learner(q)
    with learner:
        weights = learner.numbers(weights, len(tokens))
        chosen = learner.chosen(tokens, states)
        error = chosen - targets
        learner.learn_chosen(tokens, states, 2 * td_weight * weights * error)
        loss = td_weight * (weights * error.square()).sum()
        if smoothing:
            strength = smoothing / (len(q.bias) if smoothing_form == "mean" else 1)
            free, _ = _split(learner.by_state(weights, states), forced)
            loss = loss + _spread(learner, strength * free)
    return learner.attach(loss), chosen


# Pieces of the losses.


def _normalise(actor: "_Learner", chunks: Iterator[Tensor], mass: Tensor, normaliser: Tensor, scratch: Tensor) -> None:
    """log sum exp of the scores of each state, and the gradient of its sum weighted with `mass`."""
    for rows in chunks:
        policy, normaliser[rows] = _boltzmann(actor.scores(rows, scratch[0]), 1.0, scratch[1])
        actor.learn(rows, policy, mass[rows])


def _boltzmann(scores: Tensor, tau: float, out: Tensor) -> tuple[Tensor, Tensor]:
    """The soft policy of scores (n, V), and their soft value (n). Scores are divided by tau where they stand."""
    if tau == 0:
        return soft_policy(scores, tau), scores.amax(-1)
    if tau != 1:
        scores.div_(tau)
    policy = torch.softmax(scores, -1, out=out[: len(scores)])
    # The likeliest action has score - log probability = log sum exp, and its probability is far from 0.
    return policy, tau * (scores.amax(-1) - policy.amax(-1).log())


def _policy(actor: "_Reader", rows: Tensor, scratch: Tensor) -> tuple[Tensor, Tensor]:
    """pi and log pi (n, V)."""
    scores = actor.scores(rows, scratch[0])
    policy, normaliser = _boltzmann(scores, 1.0, scratch[1])
    return policy, scores.sub_(normaliser.unsqueeze(-1))


def _pressure(logp: Tensor, tau: float, entropy_form: EntropyForm) -> Tensor:
    """The factor of - log pi beside Q (n, 1): tau, or tau over the L2 norm."""
    if entropy_form == "exact":
        return logp.new_full((1, 1), tau)
    return tau / logp.norm(dim=-1, keepdim=True).clamp(min=1e-12)


def _bounded(
    values: Tensor, entropy: Tensor, target: "_Reader", tau: float, forced: Tensor | None, bound_value: BoundValue
) -> tuple[Tensor, Tensor]:
    """Values with tau times the entropy, and the entropy; at the bound Q-bar(eos) and 0."""
    values = values + tau * entropy
    if forced is None:
        return values, entropy
    if bound_value == "eos":
        values = torch.where(forced, target.eos(), values)
    return values, entropy.masked_fill(forced, 0)


def _spread(critic: "_Learner", strength: Tensor) -> Tensor:
    """Sum over states of strength times sum_w (Q - mean Q)^2, as the product of two (D + 1) square matrices.

    With rows w~ = [weight, bias] less their mean and h~ = [features, 1] it is <sum_w w~ w~', sum_n strength h~ h~'>.
    """
    features = torch.cat([critic.features, torch.ones_like(critic.features[:, :1])], 1).to(strength.dtype)
    weighted = strength.unsqueeze(-1) * features
    of_states = features.T @ weighted
    of_words = torch.zeros_like(of_states)
    mean = torch.cat([critic.weight.mean(0, dtype=strength.dtype), critic.bias.mean(0, keepdim=True)])
    for words in critic.blocks():
        readout = torch.cat([critic.weight[words].to(strength.dtype), critic.bias[words].unsqueeze(-1)], 1) - mean
        of_words.addmm_(readout.T, readout)
        critic.learn_words(words, readout, 2 * of_states)
    critic.learn_features(2 * (weighted @ of_words)[:, :-1])
    return (of_words * of_states).sum()


def _split(numbers: Tensor, forced: Tensor | None) -> tuple[Tensor, Tensor]:
    """Numbers of the states where all actions are allowed, and of those where eos is forced; 0 elsewhere."""
    if forced is None:
        return numbers, torch.zeros_like(numbers)
    return numbers.masked_fill(forced, 0), numbers.masked_fill(~forced, 0)


def _at(numbers: Tensor, states: Tensor | None) -> Tensor:
    """Numbers of the states where tokens are taken."""
    return numbers if states is None else numbers[states]


def _after(numbers: Tensor, following: Tensor, table: Table) -> Tensor:
    """Numbers of tokens (K), at the states that they lead to (N); 0 at the others. The last cell holds the ends."""
    return numbers.new_zeros(len(table.features) + 1).index_put((following,), numbers)[:-1]


def _dot(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """Inner products of rows."""
    return torch.mul(left, right, out=out[: len(left)]).sum(-1)


# Tables at work.


class _Reader:
    """A table of constants. Within `with` there is neither a graph nor automatic precision: both are in our hands.

    Products have the precision of the features, or of autocast; sums have float32 at the least.
    """

    def __init__(self, table: Table) -> None:
        device, dtype = table.features.device.type, table.features.dtype
        if torch.is_autocast_enabled(device) and dtype != torch.float64:
            dtype = torch.get_autocast_dtype(device)
        self.sums = torch.promote_types(dtype, torch.float32)
        self.features, self.weight = table.features.detach().to(dtype), table.weight.detach().to(dtype)
        # An action with a bias of - infinity has probability 0 either way, but 0 times a number is 0.
        self.bias = table.bias.detach().to(self.sums).clamp(min=torch.finfo(self.sums).min / 4)
        self._modes: tuple[Any, ...] = torch.no_grad(), torch.autocast(device, enabled=False)

    def __enter__(self) -> None:
        for mode in self._modes:
            mode.__enter__()

    def __exit__(self, *error: Any) -> None:
        for mode in reversed(self._modes):
            mode.__exit__(*error)

    def numbers(self, given: Tensor | None, count: int) -> Tensor:
        """Constants in the precision of sums; ones if not given."""
        return self.bias.new_ones(count) if given is None else given.detach().to(self.sums)

    def zeros(self) -> Tensor:
        """A number for each state, to be filled."""
        return self.bias.new_zeros(len(self.features))

    def by_state(self, numbers: Tensor, states: Tensor | None) -> Tensor:
        """Numbers of tokens (K), summed in their states (N)."""
        return numbers if states is None else self.zeros().index_add_(0, states, numbers)

    def chunks(self, some: Tensor | None = None) -> Iterator[Tensor]:
        """Rows, or those of a mask, a chunk at a time."""
        rows = torch.arange(len(self.features), device=self.bias.device) if some is None else some.nonzero().squeeze(-1)
        return iter(rows.tensor_split(max(1, -(-len(rows) // self._height()))))

    def tables(self, count: int) -> Tensor:
        """Room for the scores of a chunk, several times."""
        return self.bias.new_empty(count, min(self._height(), len(self.features)), len(self.bias))

    def blocks(self) -> Iterator[slice]:
        """The vocabulary, a block at a time."""
        size = COLUMNS if self.bias.device.type == "cpu" else 64 * COLUMNS
        return (slice(first, first + size) for first in range(0, len(self.bias), size))

    def scores(self, rows: Tensor, out: Tensor) -> Tensor:
        """Scores of a chunk (n, V), written to the beginning of `out`."""
        features, out = self.features[rows], out[: len(rows)]
        for words in self.blocks():
            readout, bias, block = self.weight[words].T, self.bias[words], out[:, words]
            if features.dtype == self.sums:
                torch.addmm(bias, features, readout, out=block)
            else:
                torch.add(features @ readout, bias, out=block)
        return out

    def chosen(self, tokens: Tensor, states: Tensor | None) -> Tensor:
        """Scores of the tokens (K)."""
        features, readout = _at(self.features, states).to(self.sums), self.weight[tokens].to(self.sums)
        return (features * readout).sum(-1) + self.bias[tokens]

    def eos(self) -> Tensor:
        """Scores of eos in all states (N)."""
        return self.features.to(self.sums) @ self.weight[EOS].to(self.sums) + self.bias[EOS]

    def expected(self, policy: Tensor, rows: Tensor) -> Tensor:
        """sum_w pi of the scores of a chunk (n), which are not formed: features times the expected readout."""
        readout = (policy.to(self.weight.dtype) @ self.weight).to(self.sums)
        return (self.features[rows].to(self.sums) * readout).sum(-1) + policy @ self.bias

    def _height(self) -> int:
        return max(ROWS, CELLS // len(self.bias))


class _Learner(_Reader):
    """A table with gradients, which are summed up while the loss is."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self.table = table
        self.wanted = torch.is_grad_enabled() and any(part.requires_grad for part in table)
        self.gradient = Table(*(torch.zeros_like(part, dtype=self.sums) for part in table)) if self.wanted else table

    def learn(self, rows: Tensor, slope: Tensor, scale: Tensor) -> None:
        """The gradient of a chunk's scores (n, V) is `slope` times `scale` (n)."""
        if not self.wanted:
            return
        column, product = scale.unsqueeze(-1), slope.to(self.weight.dtype)
        self.gradient.features[rows] += column * (product @ self.weight)
        _add_product(self.gradient.weight, product.T, (column * self.features[rows]).to(product.dtype))
        self.gradient.bias.addmv_(slope.T, scale)

    def learn_chosen(self, tokens: Tensor, states: Tensor | None, slope: Tensor) -> None:
        """The gradient of the tokens' scores (K)."""
        if not self.wanted:
            return
        column = slope.unsqueeze(-1)
        rows = torch.arange(len(self.features), device=slope.device) if states is None else states
        self.gradient.features.index_add_(0, rows, column * self.weight[tokens])
        self.gradient.weight.index_add_(0, tokens, column * self.features[rows])
        self.gradient.bias.index_add_(0, tokens, slope)

    def learn_eos(self, slope: Tensor) -> None:
        """The gradient of the scores of eos (N)."""
        self.learn_chosen(torch.full_like(slope, EOS, dtype=torch.long), None, slope)

    def learn_words(self, words: slice, readout: Tensor, matrix: Tensor) -> None:
        """The gradient of some words' [weight, bias] is `readout` times `matrix`."""
        if not self.wanted:
            return
        self.gradient.weight[words].addmm_(readout, matrix[:, :-1])
        self.gradient.bias[words].addmv_(readout, matrix[:, -1])

    def learn_features(self, gradient: Tensor) -> None:
        """The gradient of the features (N, D)."""
        if self.wanted:
            self.gradient.features.add_(gradient)

    def attach(self, loss: Tensor) -> Tensor:
        """The loss, with the gradients that were formed on the way."""
        return _Formed.apply(loss, *self.table, *self.gradient) if self.wanted else loss


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total.add_(left @ right)


class _Formed(torch.autograd.Function):
    """A number whose gradients are known already: going backward only multiplies them."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, *table_and_gradient: Tensor) -> Tensor:
        ctx.save_for_backward(*table_and_gradient[3:])
        return loss.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        needed = ctx.needs_input_grad[1:4]
        formed = (upstream * part if need else None for need, part in zip(needed, ctx.saved_tensors, strict=True))
        return None, *formed, None, None, None
