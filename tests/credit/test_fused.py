from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import needs
from seqcredit.credit import fused, losses, tables, values
from seqcredit.credit.tables import Packing, Table, look_ahead, pack
from seqcredit.types import EOS, token_mask

V, D, TAU, KAPPA, SMOOTHING = 8, 3, 0.3, 0.2, 0.4
# The last sequence is cut off before its eos; nobody takes the last action.
TOKENS = torch.tensor([[3, 2, 4, 0], [1, 0, 0, 0], [0, 0, 0, 0], [6, 4, 0, 0], [5, 5, 2, 6]])
B, T = TOKENS.shape
MASK = token_mask(TOKENS)
PACKING = pack(TOKENS)
N = len(PACKING.places)
FORCED = torch.zeros(B, T, dtype=torch.bool)
FORCED[0, 3], FORCED[3, 2:], FORCED[4, 2] = True, True, True
COINS = torch.rand(B, T, generator=torch.Generator().manual_seed(7)) < 0.5


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


REWARDS, TARGETS, WEIGHTS = random(B, T, seed=1) * MASK, random(B, T, seed=2), random(B, seed=3).exp()


class Network(NamedTuple):
    """Padded features and a readout."""

    features: Tensor
    weight: Tensor
    bias: Tensor | None

    def full(self) -> Tensor:
        """Scores, as the specification wants them."""
        return torch.nn.functional.linear(*self)


class Inputs(NamedTuple):
    """Everything that goes into an objective, on one device."""

    actor: Network
    critic: Network
    target: Network
    tokens: Tensor
    weights: Tensor
    rewards: Tensor
    targets: Tensor
    forced: Tensor | None
    kappa: float | Tensor = KAPPA
    tau: float = TAU
    eos: int = EOS
    actions: Tensor | None = None

    @property
    def logp(self) -> Tensor:
        return values.only_actions(self.actor.full(), self.actions).log_softmax(-1)

    @property
    def packing(self) -> Packing:
        return pack(self.tokens, self.eos)

    def packed(self, network: Network) -> Table:
        return Table(self.take(network.features), network.weight, network.bias, self.eos, self.actions)

    def take(self, padded: Tensor) -> Tensor:
        return self.packing.take(padded)

    @property
    def packed_tokens(self) -> Tensor:
        return self.take(self.tokens)

    @property
    def packed_forced(self) -> Tensor | None:
        return None if self.forced is None else self.take(self.forced)

    @property
    def packed_kappa(self) -> float | Tensor:
        return self.take(self.kappa) if isinstance(self.kappa, Tensor) else self.kappa

    @property
    def packed_weights(self) -> Tensor:
        return self.take(self.weights.unsqueeze(-1).expand(B, T))

    def leaves(self) -> list[Tensor]:
        parts = (*self.actor, *self.critic, *self.target)
        return [part for part in parts if part is not None and part.requires_grad]


def network(seed: int, scale: float) -> Network:
    return Network(scale * random(B, T, D, seed=seed), random(V, D, seed=seed + 1), random(V, seed=seed + 2))


def inputs(dtype: torch.dtype = torch.float64, device: str = "cpu", scale: float = 1.0, **other: Any) -> Inputs:
    def moved(part: Tensor) -> Tensor:
        return part.to(device, dtype).requires_grad_()

    networks = (Network(*map(moved, network(seed, scale))) for seed in (10, 20, 30))
    numbers = (part.to(device, dtype, copy=True) for part in (WEIGHTS, REWARDS, TARGETS))
    forced = FORCED.to(device)
    return Inputs(*networks, TOKENS.to(device), *numbers, **{"forced": forced, **other})


def weighted(x: Inputs, loss: Tensor) -> Tensor:
    return (x.weights.unsqueeze(-1) * loss).sum()


Loss = Callable[[Inputs], Tensor]


def fast_likelihood(x: Inputs, weights: Tensor | None) -> Tensor:
    return fused.cross_entropy(x.packed(x.actor), x.packed_tokens, weights)[0]


def fast_vaml(x: Inputs) -> Tensor:
    tables = x.packed(x.actor), x.packed(x.critic)
    return fused.vaml(*tables, x.packed_tokens, x.packed_weights, x.tau, x.packed_kappa, x.packed_forced)[0]


def fast_soft_q(x: Inputs) -> Tensor:
    numbers = x.take(x.rewards), x.packing.following
    return fused.soft_q(x.packed(x.critic), x.packed_tokens, *numbers, x.tau, x.packed_forced, x.packed_weights)[0]


def fast_soft_q_with(x: Inputs, network: Network) -> Tensor:
    """Soft Q with a constant look-ahead is TD learning."""
    soft = fused.soft_value(x.packed(network), x.tau, x.packed_forced)
    targets = x.take(x.rewards) + look_ahead(soft, x.packing.following)
    return fused.critic(x.packed(x.critic), x.packed_tokens, targets, weights=x.packed_weights)[0]


def fast_actor(x: Inputs, **options: Any) -> fused.Improved:
    tables = (x.packed(network) for network in (x.actor, x.critic, x.target))
    return fused.actor(*tables, x.tau, forced=x.packed_forced, weights=x.packed_weights, **options)


def fast_critic(x: Inputs, smoothing: float, **options: Any) -> Tensor:
    numbers = {"forced": x.packed_forced, "weights": x.packed_weights, **options}
    return fused.critic(x.packed(x.critic), x.packed_tokens, x.take(x.targets), smoothing, **numbers)[0]


def fast_path(x: Inputs, steps: int) -> Tensor:
    """Residuals by the fast path, added and squared."""
    packing = x.packing
    numbers = x.take(x.rewards), packing.following, x.tau, x.packed_forced
    each = packing.fill(fused.soft_residuals(x.packed(x.critic), x.packed_tokens, *numbers))
    return weighted(x, (each + values.sums_ahead(each, steps - 1)).square())


def soft_q(x: Inputs, target_q: Tensor | None = None, steps: int = 1) -> Tensor:
    numbers = x.tokens, x.rewards, x.tau, target_q, x.forced, steps, x.eos, x.actions
    return weighted(x, losses.soft_q(x.critic.full(), *numbers))


def critic(x: Inputs, smoothing: float, form: losses.SmoothingForm = "sum", td_weight: float = 1.0) -> Tensor:
    td = losses.critic_td(x.critic.full(), x.tokens, x.targets, x.eos)
    spread = losses.smoothing(x.critic.full(), x.tokens, form, x.forced, x.eos, x.actions)
    return weighted(x, td_weight * td + smoothing * spread)


def actor(x: Inputs, form: losses.EntropyForm = "exact") -> Tensor:
    return weighted(x, losses.actor(x.logp, x.critic.full(), x.tokens, x.tau, form, x.forced, x.eos))


LEASH = 0.7


def fast_leashed(x: Inputs, **options: Any) -> Tensor:
    """The target network stands in for the policy of the start: its scores are as good as any."""
    return fast_actor(x, start=x.packed(x.target), leash=LEASH, **options).loss


def leashed(x: Inputs, form: losses.EntropyForm = "exact") -> Tensor:
    start = values.only_actions(x.target.full(), x.actions).log_softmax(-1)
    given = x.tokens, x.tau, form, x.forced, x.eos, start, LEASH
    return weighted(x, losses.actor(x.logp, x.critic.full(), *given))


def vaml(x: Inputs) -> Tensor:
    numbers = x.tokens, x.weights, x.tau, x.kappa, x.forced, x.eos, x.actions
    return losses.vaml(x.logp, x.critic.full(), *numbers).sum()


# The fast path, and the specification.
PAIRS: dict[str, tuple[Loss, Loss]] = {
    "mle": (lambda x: fast_likelihood(x, None), lambda x: losses.mle(x.logp, x.tokens, x.eos).sum()),
    "raml": (
        lambda x: fast_likelihood(x, x.packed_weights),
        lambda x: losses.raml(x.logp, x.tokens, x.weights, x.eos).sum(),
    ),
    "soft_q": (fast_soft_q, soft_q),
    "soft_q, constant": (lambda x: fast_soft_q_with(x, x.critic), lambda x: soft_q(x, x.critic.full().detach())),
    "soft_q, target": (lambda x: fast_soft_q_with(x, x.target), lambda x: soft_q(x, x.target.full())),
    "soft_q, 2 steps": (lambda x: fast_path(x, 2), lambda x: soft_q(x, steps=2)),
    "soft_q, to the end": (lambda x: fast_path(x, 9), lambda x: soft_q(x, steps=9)),
    "vaml": (fast_vaml, vaml),
    "actor": (lambda x: fast_actor(x).loss, actor),
    "actor, normalised": (
        lambda x: fast_actor(x, entropy_form="normalised").loss,
        lambda x: actor(x, "normalised"),
    ),
    "actor on a leash": (fast_leashed, leashed),
    "actor on a leash, normalised": (
        lambda x: fast_leashed(x, entropy_form="normalised"),
        lambda x: leashed(x, "normalised"),
    ),
    "critic": (lambda x: fast_critic(x, 0.0), lambda x: critic(x, 0.0)),
    "critic, smooth": (lambda x: fast_critic(x, SMOOTHING), lambda x: critic(x, SMOOTHING)),
    "critic, half": (
        lambda x: fast_critic(x, SMOOTHING, smoothing_form="mean", td_weight=0.5),
        lambda x: critic(x, SMOOTHING, "mean", 0.5),
    ),
}
DOUBLE, SINGLE = 1e-9, 1e-4


def gradients(loss: Tensor, leaves: list[Tensor]) -> list[Tensor | None]:
    return list(torch.autograd.grad(-1.7 * loss, leaves, allow_unused=True))


def assert_near(found: Tensor, expected: Tensor, tolerance: float) -> None:
    assert found.shape == expected.shape
    size = float(expected.detach().abs().amax()) if expected.numel() else 0.0
    torch.testing.assert_close(found, expected.to(found.dtype), atol=tolerance * max(size, 1.0), rtol=0)


def assert_as_specified(name: str, x: Inputs, tolerance: float = DOUBLE) -> None:
    fast, specification = (loss(x) for loss in PAIRS[name])
    assert_near(fast, specification, tolerance)
    leaves = x.leaves()
    for found, expected in zip(gradients(fast, leaves), gradients(specification, leaves), strict=True):
        assert (found is None) == (expected is None)
        if found is not None and expected is not None:
            assert_near(found, expected, tolerance)


@pytest.fixture(params=["one chunk", "several chunks"], autouse=True)
def _chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of three rows and of seven words at the most, so that one word is left over; or all in one."""
    if request.param == "several chunks":
        monkeypatch.setattr(tables, "CELLS", 3 * V)
        monkeypatch.setattr(tables, "ROWS", 1)
        monkeypatch.setattr(tables, "COLUMNS", 7)


# Value and gradient, against the specification.


@pytest.mark.parametrize("name", PAIRS)
def test_equals_the_specification(name: str) -> None:
    assert_as_specified(name, inputs())


@pytest.mark.parametrize("name", PAIRS)
def test_equals_the_specification_without_a_bound(name: str) -> None:
    assert_as_specified(name, inputs(forced=None))


@pytest.mark.parametrize("name", PAIRS)
def test_equals_the_specification_in_single_precision(name: str) -> None:
    assert_as_specified(name, inputs(torch.float32), SINGLE)


@pytest.mark.parametrize("name", PAIRS)
def test_equals_the_specification_at_tau_zero(name: str) -> None:
    assert_as_specified(name, inputs(tau=0.0))


@pytest.mark.parametrize("name", PAIRS)
def test_equals_the_specification_at_tau_zero_where_actions_are_equally_good(name: str) -> None:
    x = inputs(tau=0.0)
    with torch.no_grad():
        for readout in (x.critic, x.target):
            readout.weight[2:5], readout.bias[2:5] = 0, 4  # the same for every state, and most often the best
    assert (x.critic.full().amax(-1) == 4).any()
    assert_as_specified(name, x)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("scale", [1e2, 1e4])
def test_equals_the_specification_with_extreme_scores(name: str, scale: float) -> None:
    x = inputs(scale=scale)
    assert (x.logp.exp() == 0).any() or scale == 1e2
    assert_as_specified(name, x)
    single = inputs(torch.float32, scale=scale)
    found = PAIRS[name][0](single)
    assert all(g is None or g.isfinite().all() for g in [found, *gradients(found, single.leaves())])


@pytest.mark.parametrize("name", ["mle", "raml", "vaml", "actor"])
def test_equals_the_specification_with_an_impossible_action(name: str) -> None:
    x = inputs(tau=1.0)
    with torch.no_grad():
        x.actor.bias[V - 1] = -torch.inf
        x.critic.bias[V - 1] = -1e4  # so that P_Q is 0 there
    assert_as_specified(name, x)


@pytest.mark.parametrize("name", [name for name in PAIRS if name != "mle"])
def test_tokens_of_weight_zero_leave_no_trace(name: str) -> None:
    x = inputs()
    x.weights[1:3] = 0
    assert_as_specified(name, x)
    x.weights[:] = 0
    loss = PAIRS[name][0](x)
    assert loss == 0
    assert all(g is None or (g == 0).all() for g in gradients(loss, x.leaves()))


@pytest.mark.parametrize("kappa", [0.0, 1.0, COINS, COINS & False, COINS | True], ids=str)
def test_vaml_with_any_kappa(kappa: float | Tensor) -> None:
    assert_as_specified("vaml", inputs(kappa=kappa))


def test_q_is_not_read_where_kappa_is_zero() -> None:
    x = inputs(kappa=0.0)
    nothing = Network(*(torch.full_like(part, torch.nan) for part in x.critic))
    expected = fast_vaml(x)
    assert torch.equal(fast_vaml(x._replace(critic=nothing)), expected)
    coins = x._replace(kappa=COINS)
    unread = x.critic._replace(features=x.critic.features.masked_fill(~COINS.unsqueeze(-1), torch.nan))
    assert torch.equal(fast_vaml(coins._replace(critic=unread)), fast_vaml(coins))


# What comes back beside a loss.


@pytest.mark.parametrize("kappa", [0.0, KAPPA, COINS], ids=["0", "number", "coins"])
def test_likelihood_of_each_token(kappa: float | Tensor) -> None:
    x = inputs(kappa=kappa)
    expected = PACKING.take(losses.mle(x.logp, TOKENS)).detach()
    _, nll = fused.cross_entropy(x.packed(x.actor), x.packed_tokens, x.packed_weights)
    assert_near(nll, expected, DOUBLE)
    _, nll = fused.vaml(
        x.packed(x.actor), x.packed(x.critic), x.packed_tokens, x.packed_weights, TAU, x.packed_kappa, x.packed_forced
    )
    assert_near(nll, expected, DOUBLE)
    assert not nll.requires_grad


def test_residuals_have_their_sign() -> None:
    """Q of the token less what it is worth."""
    x = inputs()
    numbers = x.take(x.rewards), PACKING.following, x.tau, x.packed_forced
    found = fused.soft_residuals(x.packed(x.critic), x.packed_tokens, *numbers)
    soft = values.soft_value(x.critic.full(), x.tau, x.forced)
    targets = values.one_step_targets(x.rewards, soft, x.tokens)
    assert_near(found, x.take(values.chosen(x.critic.full(), x.tokens) - targets), DOUBLE)


def test_residual_and_q_of_each_token() -> None:
    x = inputs()
    _, residual = fused.soft_q(
        x.packed(x.critic), x.packed_tokens, PACKING.take(REWARDS), PACKING.following, TAU, x.packed_forced
    )
    q = x.critic.full().detach()
    targets = values.one_step_targets(REWARDS, values.soft_value(q, TAU, FORCED), TOKENS)
    assert_near(residual, PACKING.take(values.chosen(q, TOKENS) - targets), DOUBLE)
    _, chosen = fused.critic(x.packed(x.critic), x.packed_tokens, PACKING.take(TARGETS))
    assert_near(chosen, PACKING.take(values.chosen(q, TOKENS)), DOUBLE)
    assert not residual.requires_grad
    assert not chosen.requires_grad


@pytest.mark.parametrize("tau", [0.0, TAU])
@pytest.mark.parametrize("future_entropy", [True, False])
@pytest.mark.parametrize("bound_value", ["eos", "free"])
def test_values_and_entropy(tau: float, future_entropy: bool, bound_value: fused.BoundValue) -> None:
    x = inputs(tau=tau)
    forced = FORCED if bound_value == "eos" else None
    options = {"future_entropy": future_entropy, "bound_value": bound_value}
    expected = losses.td_targets(x.target.full(), x.logp, TOKENS, REWARDS, tau, future_entropy, forced)
    uncertainty = PACKING.take(values.entropy(x.logp, FORCED)).detach()
    improved = fast_actor(x, **options)
    fixed = fused.actor(x.packed(x.actor), None, x.packed(x.target), tau, forced=x.packed_forced, **options)
    assert fixed.loss == 0
    for states, entropy in ((improved.values, improved.entropy), (fixed.values, fixed.entropy)):
        assert_near(REWARDS + PACKING.spread(look_ahead(states, PACKING.following)), expected, DOUBLE)
        assert_near(entropy, uncertainty, DOUBLE)
        assert not states.requires_grad
        assert not entropy.requires_grad


@pytest.mark.parametrize("tau", [0.0, TAU])
def test_soft_value(tau: float) -> None:
    x = inputs()
    soft = fused.soft_value(x.packed(x.critic), tau, x.packed_forced)
    assert_near(soft, PACKING.take(values.soft_value(x.critic.full(), tau, FORCED)).detach(), DOUBLE)
    assert not soft.requires_grad


# Other alphabets: no bias, eos elsewhere, and ids that are no actions, whatever their readout says.

TIGHT, JUNK = 1e-10, 30.0
ALPHABETS = {
    "no bias": (torch.arange(V), V, False),
    "another eos": (torch.tensor([5, 0, 3, 1, 7, 4, 2, 6]), V, True),
    "no actions": (torch.tensor([9, 1, 3, 5, 0, 6, 10, 8]), 12, True),
    "no actions, no bias": (torch.tensor([9, 1, 3, 5, 0, 6, 10, 8]), 12, False),
}
alphabets = pytest.mark.parametrize("alphabet", ALPHABETS)
temperatures = pytest.mark.parametrize("tau", [0.0, 3.0])


def renumber(rows: Tensor, ids: Tensor, size: int, junk: float = 0.0) -> Tensor:
    """Rows under their new ids, and junk in the others."""
    return rows.new_full((size, *rows.shape[1:]), junk).index_copy(0, ids, rows)


def translated(x: Inputs, alphabet: str) -> Inputs:
    """The same networks and sequences with other ids."""
    ids, size, bias = ALPHABETS[alphabet]

    def renamed(network: Network) -> Network:
        weight = renumber(network.weight.detach(), ids, size, JUNK).requires_grad_()
        added = renumber(network.bias.detach(), ids, size, JUNK).requires_grad_() if bias else None
        return Network(network.features.detach().clone().requires_grad_(), weight, added)

    networks = (renamed(network) for network in (x.actor, x.critic, x.target))
    actions = None if size == V else torch.zeros(size, dtype=torch.bool).index_fill(0, ids, True)
    return Inputs(*networks, ids[x.tokens], *x[4:10], int(ids[EOS]), actions)


@pytest.mark.parametrize("name", PAIRS)
@alphabets
@temperatures
def test_equals_the_specification_in_another_alphabet(name: str, alphabet: str, tau: float) -> None:
    assert_as_specified(name, translated(inputs(tau=tau), alphabet), TIGHT)


@pytest.mark.parametrize("name", PAIRS)
@alphabets
def test_equals_the_specification_in_another_alphabet_without_a_bound(name: str, alphabet: str) -> None:
    assert_as_specified(name, translated(inputs(forced=None), alphabet), TIGHT)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("alphabet", ["no actions, no bias"])
def test_equals_the_specification_in_another_alphabet_in_single_precision(name: str, alphabet: str) -> None:
    assert_as_specified(name, translated(inputs(torch.float32), alphabet), SINGLE)


@alphabets
def test_vaml_with_coins_in_another_alphabet(alphabet: str) -> None:
    assert_as_specified("vaml", translated(inputs(kappa=COINS), alphabet), TIGHT)


@pytest.mark.parametrize("name", PAIRS)
@alphabets
def test_another_alphabet_changes_no_loss_and_no_gradient(name: str, alphabet: str) -> None:
    """As if the ids that are no actions were not there: their readout has gradient 0."""
    ids, size, bias = ALPHABETS[alphabet]
    x = inputs()
    other = translated(x, alphabet)
    if not bias:
        x = x._replace(**{key: getattr(x, key)._replace(bias=None) for key in ("actor", "critic", "target")})
    expected, found = PAIRS[name][0](x), PAIRS[name][0](other)
    assert_near(found, expected, TIGHT)
    pairs = zip(gradients(found, other.leaves()), gradients(expected, x.leaves()), strict=True)
    for number, (mine, theirs) in enumerate(pairs):
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            is_readout = number % (3 if bias else 2) > 0
            assert_near(mine, renumber(theirs, ids, size) if is_readout else theirs, TIGHT)
            assert not is_readout or other.actions is None or mine[~other.actions].eq(0).all()


@alphabets
@temperatures
@pytest.mark.parametrize("future_entropy", [True, False])
@pytest.mark.parametrize("bound_value", ["eos", "free"])
def test_values_and_entropy_in_another_alphabet(
    alphabet: str, tau: float, future_entropy: bool, bound_value: fused.BoundValue
) -> None:
    x = translated(inputs(tau=tau), alphabet)
    options = {"future_entropy": future_entropy, "bound_value": bound_value}
    forced = x.forced if bound_value == "eos" else None
    later = tau if future_entropy else 0.0
    expected = x.take(values.expected_value(x.target.full(), x.logp, later, forced, x.eos)).detach()
    uncertainty = x.take(values.entropy(x.logp, x.forced)).detach()
    improved = fast_actor(x, **options)
    fixed = fused.actor(x.packed(x.actor), None, x.packed(x.target), tau, forced=x.packed_forced, **options)
    assert fixed.loss == 0
    for states, entropy in ((improved.values, improved.entropy), (fixed.values, fixed.entropy)):
        assert_near(states, expected, TIGHT)
        assert_near(entropy, uncertainty, TIGHT)


@alphabets
@temperatures
def test_numbers_of_each_token_in_another_alphabet(alphabet: str, tau: float) -> None:
    x = translated(inputs(tau=tau), alphabet)
    q, nll = x.critic.full().detach(), x.take(losses.mle(x.logp, x.tokens, x.eos)).detach()
    soft = values.soft_value(q, tau, x.forced, x.eos, x.actions)
    assert_near(fused.soft_value(x.packed(x.critic), tau, x.packed_forced), x.take(soft), TIGHT)
    residual = values.chosen(q, x.tokens) - values.one_step_targets(x.rewards, soft, x.tokens, x.eos)
    numbers = x.packed_tokens, x.take(x.rewards), x.packing.following, tau, x.packed_forced
    assert_near(fused.soft_q(x.packed(x.critic), *numbers)[1], x.take(residual), TIGHT)
    assert_near(fused.soft_residuals(x.packed(x.critic), *numbers).detach(), x.take(residual), TIGHT)
    assert_near(fused.cross_entropy(x.packed(x.actor), x.packed_tokens)[1], nll, TIGHT)
    both = x.packed(x.actor), x.packed(x.critic), x.packed_tokens, x.packed_weights
    assert_near(fused.vaml(*both, tau, x.packed_kappa, x.packed_forced)[1], nll, TIGHT)


@pytest.mark.parametrize("name", PAIRS)
@alphabets
def test_a_weight_may_serve_features_and_readout_and_several_networks(name: str, alphabet: str) -> None:
    """Tied: features are made of the embeddings that score the words, and all three networks have the same."""
    x = translated(inputs(), alphabet)
    weight = x.actor.weight

    def tied(network: Network) -> Network:
        return Network(torch.tanh(network.features.detach() + weight[x.tokens.roll(1, -1)]), weight, network.bias)

    fast, specification = (
        loss(x._replace(actor=tied(x.actor), critic=tied(x.critic), target=tied(x.target))) for loss in PAIRS[name]
    )
    assert_near(fast, specification, TIGHT)
    (found,), (expected,) = (gradients(loss, [weight]) for loss in (fast, specification))
    assert found is not None
    assert expected is not None
    assert expected.abs().max() > 1e-3
    assert_near(found, expected, TIGHT)


# Several tokens at one state.

STATES = torch.tensor([0, 0, 0, 2, 1])
AT_ONE = torch.tensor([3, 3, 0, 5, 7])


def assert_the_same_shared(loss: Callable[..., Tensor], rows: Table, weights: Tensor, **numbers: Tensor) -> None:
    """Tokens that share their states, against each with a state of its own."""
    apart = Table(rows.features[STATES], rows.weight, rows.bias)
    together = loss(rows, weights=weights, states=STATES, **numbers)
    expected = loss(apart, weights=weights, states=None, **numbers)
    assert_near(together, expected, DOUBLE)
    for found, wanted in zip(
        torch.autograd.grad(together, rows[:3]), torch.autograd.grad(expected, rows[:3]), strict=True
    ):
        assert_near(found, wanted, DOUBLE)


def three_rows(seed: int) -> Table:
    return Table(*(random(*shape, seed=seed + i).requires_grad_() for i, shape in enumerate(((3, D), (V, D), (V,)))))


def test_cross_entropy_of_tokens_that_share_states() -> None:
    def loss(rows: Table, weights: Tensor, states: Tensor | None) -> Tensor:
        return fused.cross_entropy(rows, AT_ONE, weights, states)[0]

    assert_the_same_shared(loss, three_rows(40), random(5, seed=43).exp())


@pytest.mark.parametrize("kappa", [KAPPA, torch.tensor([True, False, True, False, True])], ids=["number", "coins"])
def test_vaml_of_tokens_that_share_states(kappa: float | Tensor) -> None:
    q, forced = three_rows(50), torch.tensor([False, False, True])

    def loss(rows: Table, weights: Tensor, states: Tensor | None) -> Tensor:
        apart = states is None
        table = q._replace(features=q.features[STATES]) if apart else q
        return fused.vaml(rows, table, AT_ONE, weights, TAU, kappa, forced[STATES] if apart else forced, states)[0]

    assert_the_same_shared(loss, three_rows(40), random(5, seed=43).exp())


def test_critic_of_tokens_that_share_states() -> None:
    forced, targets = torch.tensor([False, True, False]), random(5, seed=44)

    def loss(rows: Table, weights: Tensor, states: Tensor | None) -> Tensor:
        mask = forced[STATES] if states is None else forced
        return fused.critic(rows, AT_ONE, targets, SMOOTHING, "sum", mask, 1.0, weights, states)[0]

    assert_the_same_shared(loss, three_rows(40), random(5, seed=43).exp())


def test_soft_q_of_sequences_that_share_a_beginning() -> None:
    """3 2 eos and 3 4 5 eos: the first two states, and the first token, are the same."""
    sequences = torch.tensor([[3, 2, 0, 0], [3, 4, 5, 0]])
    rewards, rows = random(2, 4, seed=45), random(5, D, seed=46).requires_grad_()
    rewards[:, 0] = rewards[0, 0]
    weight, bias = random(V, D, seed=47).requires_grad_(), random(V, seed=48).requires_grad_()
    tokens, states = torch.tensor([3, 2, 4, 0, 5, 0]), torch.tensor([0, 1, 1, 2, 3, 4])
    following = torch.tensor([1, 2, 3, -1, 4, -1])
    twice = torch.tensor([2.0, 1, 1, 1, 1, 1], dtype=torch.float64)
    packed = torch.stack([rewards[0, 0], rewards[0, 1], rewards[1, 1], rewards[0, 2], rewards[1, 2], rewards[1, 3]])
    table = Table(rows, weight, bias)
    found, _ = fused.soft_q(table, tokens, packed, following, TAU, weights=twice, states=states)
    q = torch.nn.functional.linear(rows[torch.tensor([[0, 1, 2, 2], [0, 1, 3, 4]])], weight, bias)
    expected = losses.soft_q(q, sequences, rewards * token_mask(sequences), TAU).sum()
    assert_near(found, expected, DOUBLE)
    for mine, theirs in zip(
        torch.autograd.grad(found, table[:3]), torch.autograd.grad(expected, table[:3]), strict=True
    ):
        assert_near(mine, theirs, DOUBLE)


# How it behaves.

CONSTANT_TO_THE_GRADIENT = {
    "soft_q, constant": "the look-ahead",
    "actor, normalised": "the direction",
    "actor on a leash, normalised": "the direction",
}


@pytest.mark.parametrize("name", [name for name in PAIRS if name not in CONSTANT_TO_THE_GRADIENT])
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    x, trained = inputs(), "critic" if name.startswith(("soft_q", "critic")) else "actor"

    def loss(*parts: Tensor) -> Tensor:
        return PAIRS[name][0](x._replace(**{trained: Network(*parts)}))

    assert torch.autograd.gradcheck(loss, (*getattr(x, trained)[:3],))


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("frozen", [0, 1, 2], ids=["features", "weight", "bias"])
def test_only_what_asks_for_a_gradient_gets_one(name: str, frozen: int) -> None:
    x = inputs()
    for part in (x.actor, x.critic, x.target):
        part[frozen].requires_grad_(False)
    assert_as_specified(name, x)


@pytest.mark.parametrize("wanted", [False, True], ids=["no gradients", "constants"])
@pytest.mark.parametrize("name", PAIRS)
def test_without_gradients_the_loss_is_the_same(name: str, wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x = inputs()
    expected = PAIRS[name][0](x)
    monkeypatch.setattr(tables, "_Formed", None)  # nothing is formed
    for leaf in x.leaves():
        leaf.requires_grad_(not wanted)
    with torch.set_grad_enabled(wanted):
        loss = PAIRS[name][0](x)
    assert expected.requires_grad
    assert not loss.requires_grad
    assert torch.equal(loss, expected.detach())
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("name", PAIRS)
def test_going_backward_twice_gives_the_same(name: str) -> None:
    x = inputs()
    loss = PAIRS[name][0](x)
    first, second = (torch.autograd.grad(loss, x.leaves(), allow_unused=True, retain_graph=True) for _ in range(2))
    assert any(gradient is not None for gradient in first)
    assert all(a is b is None or torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_no_tokens_at_all() -> None:
    packing = pack(torch.zeros(0, 4, dtype=torch.long))
    assert packing.spread(torch.zeros(0)).shape == (0, 4)
    empty = [Table(random(0, D, seed=1).requires_grad_(), *three_rows(seed)[1:]) for seed in (60, 70, 80)]
    nobody, nothing = torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.float64)
    improved = fused.actor(*empty, TAU, forced=nobody.bool())
    found = [
        fused.cross_entropy(empty[0], nobody)[0],
        fused.vaml(empty[0], empty[1], nobody, None, TAU, KAPPA)[0],
        fused.vaml(empty[0], empty[1], nobody, None, TAU, nobody.bool())[0],
        fused.soft_q(empty[0], nobody, nothing, packing.following, TAU)[0],
        fused.critic(empty[0], nobody, nothing, SMOOTHING)[0],
        improved.loss,
    ]
    for loss in found:
        assert loss == 0
        assert all((gradient == 0).all() for gradient in torch.autograd.grad(loss, empty[0][:3]))
    assert len(improved.values) == len(fused.soft_value(empty[0], TAU)) == 0
    assert len(fused.actor(empty[0], None, empty[1], TAU).values) == 0


class Largest(TorchDispatchMode):
    """The size of the largest tensor that any operation returns."""

    numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, Tensor):
                self.numel = max(self.numel, tensor.numel())
        return out


@pytest.mark.parametrize("name", PAIRS)
def test_a_table_is_never_written_down(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CELLS", 2 * V)
    monkeypatch.setattr(tables, "ROWS", 1)
    fast, specification = PAIRS[name]
    x = inputs()
    for loss, forms in ((fast, False), (specification, True)):
        with Largest() as largest:
            loss(x).backward()
        assert (largest.numel >= N * V) == forms


def test_td_errors_and_smoothing_never_score_all_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables.Reader, "scores", None)
    x = inputs()
    fast_critic(x, SMOOTHING).backward()
    assert x.critic.weight.grad is not None


# Half precision, and GPUs.

HALF = 3e-2  # of the largest entry; bfloat16 has 8 bits


def assert_in_half(name: str, device: str) -> None:
    """Under autocast, against the specification in double precision; gradients keep the precision of the weights."""
    x, exact = inputs(torch.float32, device), inputs()
    with torch.autocast(device, torch.bfloat16):
        loss = PAIRS[name][0](x)
    specification = PAIRS[name][1](exact)
    assert loss.dtype == torch.float32
    assert_near(loss.cpu().double(), specification, HALF)
    expected = gradients(specification, exact.leaves())
    for found, wanted in zip(gradients(loss, x.leaves()), expected, strict=True):
        if wanted is not None:
            assert found is not None
            assert found.dtype == torch.float32
            assert_near(found.cpu().double(), wanted, HALF)


@pytest.mark.parametrize("name", PAIRS)
def test_bfloat16_by_autocast(name: str) -> None:
    assert_in_half(name, "cpu")


def test_autocast_rounds_what_goes_into_products() -> None:
    x = inputs(torch.float32)
    rounded = [part.bfloat16().float() for part in x.actor[:2]]
    with torch.autocast("cpu", torch.bfloat16):
        _, nll = fused.cross_entropy(x.packed(x.actor), x.packed_tokens)
    chosen = values.chosen(torch.nn.functional.linear(*rounded, x.actor.bias), TOKENS)
    scores = torch.nn.functional.linear(*(part.bfloat16() for part in rounded)).float() + x.actor.bias
    assert_near(nll, x.take(scores.logsumexp(-1) - chosen).detach(), 1e-6)


def test_autocast_leaves_double_precision_alone() -> None:
    x = inputs()
    with torch.autocast("cpu", torch.bfloat16):
        loss = fast_likelihood(x, None)
    assert torch.equal(loss, fast_likelihood(x, None))


def test_bfloat16_is_summed_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of small gradients, one a chunk: in bfloat16 a sum stops growing."""
    monkeypatch.setattr(tables, "CELLS", V)
    monkeypatch.setattr(tables, "ROWS", 1)
    rows = 1500
    table = Table(torch.ones(rows, D), torch.zeros(V, D), torch.zeros(V))
    half = Table(*(part.bfloat16().requires_grad_() for part in table[:3]))
    loss, nll = fused.cross_entropy(half, torch.zeros(rows, dtype=torch.long))
    assert loss.dtype == nll.dtype == torch.float32
    _, weight, bias = torch.autograd.grad(loss, half[:3])
    assert weight.dtype == bias.dtype == torch.bfloat16
    expected = torch.full((V,), rows / V)
    expected[0] -= rows
    assert_near(bias.float(), expected, 5e-3)
    assert_near(weight.float(), expected.unsqueeze(-1).expand(V, D), 5e-3)


@needs.gpu
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, DOUBLE), (torch.float32, SINGLE)], ids=str)
def test_on_a_gpu(name: str, dtype: torch.dtype, tolerance: float) -> None:
    assert_as_specified(name, inputs(dtype, "cuda"), tolerance)


@needs.gpu
@pytest.mark.parametrize("name", PAIRS)
def test_bfloat16_by_autocast_on_a_gpu(name: str) -> None:
    assert_in_half(name, "cuda")


@needs.gpu
def test_values_on_a_gpu() -> None:
    x, here = inputs(device="cuda"), inputs()
    found, expected = (
        fused.actor(side.packed(side.actor), None, side.packed(side.target), TAU, forced=side.packed_forced)
        for side in (x, here)
    )
    for mine, wanted in zip(found[1:3], expected[1:3], strict=True):
        assert_near(mine.cpu(), wanted, DOUBLE)
