import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import brute
from seqcredit.credit.losses import (
    actor,
    critic_td,
    importance_weights,
    mle,
    raml,
    smoothing,
    soft_q,
    td_targets,
    terminal,
    vaml,
)
from seqcredit.credit.oracle import EditOracle, Space, score, solve
from seqcredit.credit.values import at_bound, only_actions, token_rewards
from seqcredit.rewards import Bleu, EditDistance, OnlyFinished
from seqcredit.rewards.finished import finished_scores
from seqcredit.types import pad, token_mask

V, TAU, KAPPA = 5, 0.3, 0.2
TOKENS = torch.tensor([[3, 2, 4, 0], [1, 0, 0, 0], [0, 0, 0, 0], [4, 4, 0, 0]])
B, T = TOKENS.shape
MASK = token_mask(TOKENS)
FORCED = torch.tensor([[False, False, False, True], [False] * 4, [False] * 4, [False, False, True, True]])


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


LOGITS, Q, TARGET_Q = random(B, T, V), random(B, T, V, seed=1), random(B, T, V, seed=2)
LOGP, REWARDS, WEIGHTS = LOGITS.log_softmax(-1), random(B, T, seed=3) * MASK, random(B, seed=4).softmax(0)
COINS = torch.tensor([[True, False, True, False], [False, True, True, True], [True] * 4, [False] * 4])


def each(number: Callable[[int, int], float], skip_forced: bool = False) -> Tensor:
    """One number a token by a plain function of its place; 0 on padding."""
    out = torch.zeros(B, T, dtype=torch.float64)
    for b in range(B):
        for t in range(T):
            if MASK[b, t] and not (skip_forced and FORCED[b, t]):
                out[b, t] = number(b, t)
    return out


def at(table: Tensor, b: int, t: int) -> list[float]:
    return table[b, t].tolist()


def soft_target(b: int, t: int, q: Tensor = Q) -> float:
    """r + V(next), with V = Q(eos) at the bound."""
    if TOKENS[b, t] == 0:
        return float(REWARDS[b, t])
    nxt = at(q, b, t + 1)
    return float(REWARDS[b, t]) + (nxt[0] if FORCED[b, t + 1] else brute.soft_max(nxt, TAU))


def td_target(b: int, t: int, tau: float) -> float:
    if TOKENS[b, t] == 0:
        return float(REWARDS[b, t])
    nxt, logp = at(TARGET_Q, b, t + 1), at(LOGP, b, t + 1)
    value = nxt[0] if FORCED[b, t + 1] else sum(math.exp(p) * (q - tau * p) for p, q in zip(logp, nxt, strict=True))
    return float(REWARDS[b, t]) + value


def nll(b: int, t: int) -> float:
    return -float(LOGP[b, t, TOKENS[b, t]])


def to_target(b: int, t: int) -> float:
    target = [1.0, 0, 0, 0, 0] if FORCED[b, t] else brute.boltzmann(at(Q, b, t), TAU)
    return -sum(p * lp for p, lp in zip(target, at(LOGP, b, t), strict=True))


def spread(b: int, t: int) -> float:
    q = at(Q, b, t)
    return sum((x - sum(q) / V) ** 2 for x in q)


def gain(b: int, t: int) -> float:
    return sum(math.exp(p) * (q - TAU * p) for p, q in zip(at(LOGP, b, t), at(Q, b, t), strict=True))


def normalised_gain(b: int, t: int) -> float:
    logp = at(LOGP, b, t)
    norm = math.sqrt(sum(p * p for p in logp))
    return sum(math.exp(p) * (q - TAU * p / norm) for p, q in zip(logp, at(Q, b, t), strict=True))


def expect(loss: Tensor, by_hand: Tensor) -> None:
    torch.testing.assert_close(loss, by_hand, atol=1e-12, rtol=0)


def test_mle() -> None:
    expect(mle(LOGP, TOKENS), each(nll))


def test_raml_weighs_sequences() -> None:
    expect(raml(LOGP, TOKENS, WEIGHTS), each(lambda b, t: float(WEIGHTS[b]) * nll(b, t)))


@pytest.mark.parametrize("tau", [0.0, 0.4])
def test_importance_weights(tau: float) -> None:
    scores = random(3, 4)
    for row, weights in zip(scores.tolist(), importance_weights(scores, tau).tolist(), strict=True):
        assert weights == pytest.approx(brute.boltzmann(row, tau))


def test_soft_q() -> None:
    by_hand = each(lambda b, t: (float(Q[b, t, TOKENS[b, t]]) - soft_target(b, t)) ** 2)
    expect(soft_q(Q, TOKENS, REWARDS, TAU, forced=FORCED), by_hand)


def test_soft_q_with_a_target_network() -> None:
    by_hand = each(lambda b, t: (float(Q[b, t, TOKENS[b, t]]) - soft_target(b, t, TARGET_Q)) ** 2)
    expect(soft_q(Q, TOKENS, REWARDS, TAU, TARGET_Q, FORCED), by_hand)


def test_vaml_in_expectation() -> None:
    by_hand = each(lambda b, t: float(WEIGHTS[b]) * (KAPPA * to_target(b, t) + (1 - KAPPA) * nll(b, t)))
    expect(vaml(LOGP, Q, TOKENS, WEIGHTS, TAU, KAPPA, FORCED), by_hand)


def test_vaml_with_an_impossible_word() -> None:
    """Where the target is 0 a log-probability may be - infinity: 0 log 0 = 0."""
    q, logp = Q.clone(), LOGP.clone()
    q[..., 2], logp[..., 2] = -9.0, -torch.inf
    found = vaml(logp, q, TOKENS.where(TOKENS != 2, 3), WEIGHTS, 0.0, KAPPA)
    assert found.isfinite().all()
    logp[..., 2] = -1.0
    expect(found, vaml(logp, q, TOKENS.where(TOKENS != 2, 3), WEIGHTS, 0.0, KAPPA))


def test_vaml_with_coins_drawn() -> None:
    by_hand = each(lambda b, t: float(WEIGHTS[b]) * (to_target(b, t) if COINS[b, t] else nll(b, t)))
    expect(vaml(LOGP, Q, TOKENS, WEIGHTS, TAU, COINS, FORCED), by_hand)


def test_kappa_zero_is_raml_exactly() -> None:
    assert torch.equal(vaml(LOGP, Q, TOKENS, WEIGHTS, TAU, 0.0), raml(LOGP, TOKENS, WEIGHTS))


@pytest.mark.parametrize(("tau", "future", "used"), [(TAU, True, TAU), (TAU, False, 0.0), (0.0, True, 0.0)])
def test_td_targets(tau: float, future: bool, used: float) -> None:
    targets = td_targets(TARGET_Q, LOGP, TOKENS, REWARDS, tau, future, FORCED)
    expect(targets, each(lambda b, t: td_target(b, t, used)))


def test_critic_td() -> None:
    targets = random(B, T, seed=5)
    by_hand = each(lambda b, t: float(Q[b, t, TOKENS[b, t]] - targets[b, t]) ** 2)
    expect(critic_td(Q, TOKENS, targets), by_hand)


def test_smoothing() -> None:
    expect(smoothing(Q, TOKENS, "sum", FORCED), each(spread, skip_forced=True))
    expect(smoothing(Q, TOKENS, "mean", FORCED), each(lambda b, t: spread(b, t) / V, skip_forced=True))
    expect(smoothing(Q, TOKENS), each(spread))


def test_actor() -> None:
    expect(actor(LOGP, Q, TOKENS, TAU, forced=FORCED), each(lambda b, t: -gain(b, t), skip_forced=True))
    by_hand = each(lambda b, t: -normalised_gain(b, t), skip_forced=True)
    expect(actor(LOGP, Q, TOKENS, TAU, "normalised", FORCED), by_hand)


@pytest.mark.parametrize("form", ["exact", "normalised"])
def test_tau_zero_is_actor_critic_exactly(form: str) -> None:
    expected = each(lambda b, t: -sum(math.exp(p) * q for p, q in zip(at(LOGP, b, t), at(Q, b, t), strict=True)))
    expect(actor(LOGP, Q, TOKENS, 0.0, form), expected)


def test_a_leash_is_the_divergence_from_the_start() -> None:
    """Against torch's own."""
    start = Q.log_softmax(-1)
    by_torch = torch.nn.functional.kl_div(start, LOGP, reduction="none", log_target=True).sum(-1)
    free, held = (actor(LOGP, Q, TOKENS, TAU, forced=FORCED, start=start, leash=leash) for leash in (0.0, 0.7))
    expect(held - free, (0.7 * by_torch).masked_fill(~MASK | FORCED, 0))
    expect(free, actor(LOGP, Q, TOKENS, TAU, forced=FORCED))


# Gradients, against closed forms in the logits or in Q.

PI = LOGITS.softmax(-1)
ONE_HOT = torch.nn.functional.one_hot(TOKENS, V).double()


def logit_gradient(loss: Callable[[Tensor], Tensor]) -> Tensor:
    logits = LOGITS.clone().requires_grad_()
    return torch.autograd.grad(loss(logits.log_softmax(-1)).sum(), logits)[0]


def q_gradient(loss: Callable[[Tensor], Tensor]) -> Tensor:
    q = Q.clone().requires_grad_()
    return torch.autograd.grad(loss(q).sum(), q)[0]


def masked(table: Tensor, mask: Tensor = MASK) -> Tensor:
    return table * mask.unsqueeze(-1)


def test_gradient_of_mle() -> None:
    expect(logit_gradient(lambda logp: mle(logp, TOKENS)), masked(PI - ONE_HOT))


def test_gradient_of_raml_and_vaml() -> None:
    weights = WEIGHTS.reshape(-1, 1, 1)
    expect(logit_gradient(lambda logp: raml(logp, TOKENS, WEIGHTS)), weights * masked(PI - ONE_HOT))
    mixture = KAPPA * (Q / TAU).softmax(-1) + (1 - KAPPA) * ONE_HOT
    by_hand = weights * masked(PI - mixture)
    expect(logit_gradient(lambda logp: vaml(logp, Q, TOKENS, WEIGHTS, TAU, KAPPA)), by_hand)


def advantage(tau: float) -> Tensor:
    energy = Q - tau * LOGP
    return energy - (PI * energy).sum(-1, keepdim=True)


@pytest.mark.parametrize("tau", [0.0, TAU])
def test_gradient_of_the_actor_is_the_policy_gradient(tau: float) -> None:
    by_hand = masked(-PI * advantage(tau), MASK & ~FORCED)
    expect(logit_gradient(lambda logp: actor(logp, Q, TOKENS, tau, forced=FORCED)), by_hand)


def test_a_leash_pulls_as_entropy_does_and_to_where_it_started() -> None:
    """Q + leash log pi_0, at a temperature that is higher by the leash: the same gradient."""
    start = Q.flip(-1).log_softmax(-1)
    held = logit_gradient(lambda logp: actor(logp, Q, TOKENS, TAU, forced=FORCED, start=start, leash=0.7))
    expect(held, logit_gradient(lambda logp: actor(logp, Q + 0.7 * start, TOKENS, TAU + 0.7, forced=FORCED)))


def test_gradient_of_the_normalised_actor_takes_its_direction_as_constant() -> None:
    energy = Q - TAU * LOGP / LOGP.norm(dim=-1, keepdim=True)
    by_hand = masked(-PI * (energy - (PI * energy).sum(-1, keepdim=True)))
    expect(logit_gradient(lambda logp: actor(logp, Q, TOKENS, TAU, "normalised")), by_hand)


def test_gradient_of_soft_q_flows_through_both_sides() -> None:
    residual = torch.where(MASK, each(lambda b, t: float(Q[b, t, TOKENS[b, t]]) - soft_target(b, t)), 0.0)
    by_hand = 2 * residual.unsqueeze(-1) * ONE_HOT
    policy = (Q / TAU).softmax(-1)
    policy[FORCED] = torch.tensor([1.0, 0, 0, 0, 0], dtype=torch.float64)
    for b in range(B):
        for t in range(T - 1):
            if MASK[b, t] and TOKENS[b, t] != 0:
                by_hand[b, t + 1] -= 2 * residual[b, t] * policy[b, t + 1]
    expect(q_gradient(lambda q: soft_q(q, TOKENS, REWARDS, TAU, forced=FORCED)), by_hand)


def test_gradient_of_soft_q_with_a_constant_target_touches_only_the_chosen_word() -> None:
    residual = each(lambda b, t: float(Q[b, t, TOKENS[b, t]]) - soft_target(b, t))
    gradient = q_gradient(lambda q: soft_q(q, TOKENS, REWARDS, TAU, q, FORCED))
    expect(gradient, 2 * residual.unsqueeze(-1) * ONE_HOT)


def test_gradient_of_the_critic_and_smoothing() -> None:
    targets = random(B, T, seed=5)
    by_hand = masked(2 * (Q - targets.unsqueeze(-1)) * ONE_HOT)
    expect(q_gradient(lambda q: critic_td(q, TOKENS, targets)), by_hand)
    centred = Q - Q.mean(-1, keepdim=True)
    expect(q_gradient(lambda q: smoothing(q, TOKENS, "sum", FORCED)), masked(2 * centred, MASK & ~FORCED))
    expect(q_gradient(lambda q: smoothing(q, TOKENS, "mean", FORCED)), masked(2 / V * centred, MASK & ~FORCED))


def test_constants_get_no_gradient() -> None:
    q, logp = Q.clone().requires_grad_(), LOGP.clone().requires_grad_()
    assert not td_targets(q, logp, TOKENS, REWARDS, TAU).requires_grad
    assert not actor(LOGP, q, TOKENS, TAU).requires_grad
    assert not vaml(LOGP, q, TOKENS, WEIGHTS, TAU, KAPPA).requires_grad
    assert not soft_q(Q, TOKENS, REWARDS, TAU, q).requires_grad


# Several steps, and eos at every prefix.


def log_policy(b: int, t: int, q: Tensor) -> float:
    """log P_Q of the token; nothing where eos is forced."""
    return 0.0 if FORCED[b, t] else math.log(brute.boltzmann(at(q, b, t), TAU)[TOKENS[b, t]])


@pytest.mark.parametrize("steps", [1, 2, 3, 50])
@pytest.mark.parametrize("later", [Q, TARGET_Q], ids=["itself", "target"])
def test_several_steps_by_hand(steps: int, later: Tensor) -> None:
    """Q against the rewards within the steps, less tau log P_Q of the later tokens, plus the value after them."""

    def residual(b: int, t: int) -> float:
        last = min(t + steps, int(MASK[b].sum())) - 1
        path = sum(float(REWARDS[b, i]) - TAU * log_policy(b, i, later) for i in range(t + 1, last + 1))
        value = soft_target(b, last, later) - float(REWARDS[b, last])
        return float(Q[b, t, TOKENS[b, t]]) - float(REWARDS[b, t]) - path - value

    found = soft_q(Q, TOKENS, REWARDS, TAU, None if later is Q else TARGET_Q, FORCED, steps)
    expect(found, each(lambda b, t: residual(b, t) ** 2))


@pytest.mark.parametrize("steps", [2, 50])
def test_gradient_of_several_steps(steps: int) -> None:
    def loss(q: Tensor) -> Tensor:
        return soft_q(q, TOKENS, REWARDS, TAU, forced=FORCED, steps=steps)

    torch.autograd.gradcheck(loss, Q.clone().requires_grad_())
    size = soft_q(Q, TOKENS, REWARDS, TAU, TARGET_Q, FORCED, steps).sqrt()
    gradient = q_gradient(lambda q: soft_q(q, TOKENS, REWARDS, TAU, TARGET_Q, FORCED, steps))
    expect(gradient.abs(), 2 * size.unsqueeze(-1) * ONE_HOT)  # with a target network only of the word that was taken


EDIT_BOUND, EDIT_TAU, EDIT_ACTIONS = 7, 0.4, 12
EDIT_REFERENCE = torch.tensor([3, 4, 4, 5])
EDIT_TOKENS = pad([[3, 4, 4, 5], [3, 7, 4, 5], [], [9, 9, 1, 3, 5, 4], [4, 5]])


def edit_case() -> tuple[Tensor, Tensor, Tensor]:
    """Exact Q along sequences, one of them as long as the bound allows; what they earn; where eos is forced."""
    exact = EditOracle.solve(EDIT_REFERENCE, EDIT_ACTIONS, EDIT_BOUND, EDIT_TAU).along(EDIT_TOKENS)
    references = pad([EDIT_REFERENCE.tolist()]).expand(len(EDIT_TOKENS), 1, -1)
    rewards = token_rewards(EditDistance(dtype=torch.float64).prefix_scores(EDIT_TOKENS, references))
    return exact, rewards, at_bound(EDIT_TOKENS, EDIT_BOUND)


@pytest.mark.parametrize("steps", [1, 2, 4, 50])
def test_every_path_is_consistent_at_the_exact_q_and_at_no_other(steps: int) -> None:
    exact, rewards, forced = edit_case()
    assert forced[3, 6]
    for target in (None, exact):
        loss = soft_q(exact, EDIT_TOKENS, rewards, EDIT_TAU, target, forced, steps)
        assert float(loss.max()) < 1e-20
    wrong = exact.clone()
    wrong[1, 2, 4] += 0.5  # the value of the third state is wrong too, but not as wrong as its third token
    loss = soft_q(wrong, EDIT_TOKENS, rewards, EDIT_TAU, None, forced, steps)
    assert float(loss[1, 2]) == pytest.approx(0.25)
    assert float(loss[1, 1]) > 1e-4
    assert float(loss[0].max()) < 1e-20
    assert (float(loss[1, 0]) > 1e-4) == (steps > 1)  # it sees two steps ahead


def test_terminal_by_hand() -> None:
    expect(terminal(Q, TOKENS, REWARDS), each(lambda b, t: float(Q[b, t, 0] - REWARDS[b, t]) ** 2))
    eos = torch.nn.functional.one_hot(torch.tensor(0), V).double()
    expect(q_gradient(lambda q: terminal(q, TOKENS, REWARDS)), masked(2 * (Q[..., :1] - REWARDS.unsqueeze(-1)) * eos))


@pytest.mark.parametrize(
    "reward",
    [
        Bleu(dtype=torch.float64),
        Bleu(unfinished_brevity=False, scaled=True, dtype=torch.float64),
        OnlyFinished(EditDistance(dtype=torch.float64)),
    ],
    ids=["score", "without brevity", "nothing"],
)
def test_the_exact_q_of_eos_is_what_eos_adds(reward: Bleu | OnlyFinished) -> None:
    """Against enumeration, for every prefix of every sequence."""
    space, reference = Space(4, 4), torch.tensor([[2, 3, 2, 0]])
    tokens = space.sequences()
    q = solve(score(space, reward, reference), 0.3).along(tokens)
    references = reference.expand(len(tokens), 1, -1)
    gains = finished_scores(reward, tokens, references) - reward.prefix_scores(tokens, references)
    assert float(terminal(q, tokens, gains[:, :-1]).max()) < 1e-24
    assert float(terminal(q, tokens, gains[:, :-1] + 0.1).max()) == pytest.approx(0.01)
    if not (isinstance(reward, Bleu) and reward.unfinished_brevity):
        assert float(gains.abs().max()) > 0.1


# Invariances, to the last bit.

Loss = Callable[..., Tensor]  # of the inputs below, of eos, and of the ids that are actions
LOSSES: dict[str, Loss] = {
    "mle": lambda k, p, q, q2, r, w, f, e=0, a=None: mle(p, k, e),
    "raml": lambda k, p, q, q2, r, w, f, e=0, a=None: raml(p, k, w, e),
    "soft_q": lambda k, p, q, q2, r, w, f, e=0, a=None: soft_q(q, k, r, TAU, forced=f, eos=e, actions=a),
    "soft_q, target": lambda k, p, q, q2, r, w, f, e=0, a=None: soft_q(q, k, r, TAU, q2, f, eos=e, actions=a),
    "soft_q, tau zero": lambda k, p, q, q2, r, w, f, e=0, a=None: soft_q(q, k, r, 0.0, forced=f, eos=e, actions=a),
    "soft_q, 2 steps": lambda k, p, q, q2, r, w, f, e=0, a=None: soft_q(q, k, r, TAU, None, f, 2, e, a),
    "soft_q, target, to the end": lambda k, p, q, q2, r, w, f, e=0, a=None: soft_q(q, k, r, TAU, q2, f, 9, e, a),
    "terminal": lambda k, p, q, q2, r, w, f, e=0, a=None: terminal(q, k, r, e),
    "vaml": lambda k, p, q, q2, r, w, f, e=0, a=None: vaml(p, q, k, w, TAU, KAPPA, f, e, a),
    "vaml, coins": lambda k, p, q, q2, r, w, f, e=0, a=None: vaml(p, q, k, w, TAU, r > 0, f, e, a),
    "critic": lambda k, p, q, q2, r, w, f, e=0, a=None: critic_td(q, k, td_targets(q2, p, k, r, TAU, True, f, e), e),
    "smoothing": lambda k, p, q, q2, r, w, f, e=0, a=None: smoothing(q, k, "sum", f, e, a),
    "smoothing, mean": lambda k, p, q, q2, r, w, f, e=0, a=None: smoothing(q, k, "mean", f, e, a),
    "actor": lambda k, p, q, q2, r, w, f, e=0, a=None: actor(p, q, k, TAU, forced=f, eos=e),
    "actor, normalised": lambda k, p, q, q2, r, w, f, e=0, a=None: actor(p, q, k, TAU, "normalised", f, e),
    "actor, tau zero": lambda k, p, q, q2, r, w, f, e=0, a=None: actor(p, q, k, 0.0, forced=f, eos=e),
}
INPUTS = (TOKENS, LOGP, Q, TARGET_Q, REWARDS, WEIGHTS, FORCED)


@pytest.mark.parametrize("name", LOSSES)
def test_padding_never_counts(name: str) -> None:
    """Anything at all may stand on padding, NaN and infinity included."""
    clean = LOSSES[name](*INPUTS)
    assert (clean[~MASK] == 0).all()
    junk_tokens = torch.where(MASK, TOKENS, 3)
    dirty = [table.masked_fill(~MASK.unsqueeze(-1), float("nan")) for table in (LOGP, Q, TARGET_Q)]
    assert torch.equal(LOSSES[name](junk_tokens, *dirty, REWARDS, WEIGHTS, FORCED), clean)


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_on_padding_are_zero(name: str) -> None:
    logp, q = LOGP.clone().requires_grad_(), Q.clone().requires_grad_()
    loss = LOSSES[name](TOKENS, logp, q, TARGET_Q, REWARDS, WEIGHTS, FORCED).sum()
    gradients = [g for g in torch.autograd.grad(loss, (logp, q), allow_unused=True) if g is not None]
    assert gradients
    assert all((g[~MASK] == 0).all() for g in gradients)


@pytest.mark.parametrize("name", LOSSES)
def test_extra_padding_changes_nothing(name: str) -> None:
    def widen(x: Tensor) -> Tensor:
        return x if x.dim() == 1 else torch.cat([x, torch.zeros_like(x[:, :2])], 1)

    clean = LOSSES[name](*INPUTS)
    wide = LOSSES[name](*(widen(x) for x in INPUTS))
    assert torch.equal(wide[:, :T], clean)
    assert (wide[:, T:] == 0).all()


@pytest.mark.parametrize("name", LOSSES)
def test_batch_order_changes_nothing(name: str) -> None:
    order = torch.tensor([2, 0, 3, 1])
    assert torch.equal(LOSSES[name](*(x[order] for x in INPUTS)), LOSSES[name](*INPUTS)[order])


@pytest.mark.parametrize("name", LOSSES)
def test_proposals_may_have_their_own_axis(name: str) -> None:
    folded = LOSSES[name](*(x.reshape(2, 2, *x.shape[1:]) for x in INPUTS))
    assert torch.equal(folded.reshape(B, T), LOSSES[name](*INPUTS))


# Other alphabets: ids renumbered, eos among them; and ids that are no actions, whatever stands there.

IDS, EOS_THERE = torch.tensor([3, 0, 4, 1, 2]), 3  # the new id of each old one: a word is called 0 now
SOME, WIDE, EOS_AMONG = torch.tensor([5, 0, 7, 1, 4]), 9, 5
ACTIONS = torch.zeros(WIDE, dtype=torch.bool).index_fill(0, SOME, True)
JUNK = 1e3


def renumber(table: Tensor, ids: Tensor = IDS, size: int = V, junk: float = 0.0) -> Tensor:
    """Columns under their new ids, and junk in the others."""
    return table.new_full((*table.shape[:-1], size), junk).index_copy(-1, ids, table)


@pytest.mark.parametrize("name", LOSSES)
def test_losses_do_not_depend_on_the_numbers_of_words(name: str) -> None:
    assert (IDS[TOKENS] == 0).any()
    scores = (renumber(table) for table in (LOGP, Q, TARGET_Q))
    found = LOSSES[name](IDS[TOKENS], *scores, REWARDS, WEIGHTS, FORCED, EOS_THERE)
    expect(found, LOSSES[name](*INPUTS))


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_their_gradients_know_actions_alone(name: str) -> None:
    """As if the other columns were not there; their gradient is 0."""
    results = []
    for ids, size, eos, actions in ((torch.arange(V), V, 0, None), (SOME, WIDE, EOS_AMONG, ACTIONS)):
        logits, q, target_q = (renumber(table, ids, size, JUNK).requires_grad_() for table in (LOGITS, Q, TARGET_Q))
        logp = only_actions(logits, actions).log_softmax(-1)
        loss = LOSSES[name](ids[TOKENS], logp, q, target_q, REWARDS, WEIGHTS, FORCED, eos, actions)
        weighed = (loss * random(B, T, seed=6)).sum()
        gradients = torch.autograd.grad(weighed, (logits, q, target_q), allow_unused=True)
        results.append((loss, gradients))
    (expected, small), (found, wide) = results
    expect(found, expected)
    assert any(gradient is not None for gradient in small)
    for mine, theirs in zip(wide, small, strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            assert mine[..., ~ACTIONS].eq(0).all()
            expect(mine, renumber(theirs, SOME, WIDE))


def test_td_targets_in_another_alphabet() -> None:
    expected = td_targets(TARGET_Q, LOGP, TOKENS, REWARDS, TAU, True, FORCED)
    renamed = (renumber(table) for table in (TARGET_Q, LOGP))
    expect(td_targets(*renamed, IDS[TOKENS], REWARDS, TAU, True, FORCED, EOS_THERE), expected)
    target_q = renumber(TARGET_Q, SOME, WIDE, JUNK)
    logp = only_actions(renumber(LOGITS, SOME, WIDE, JUNK), ACTIONS).log_softmax(-1)
    expect(td_targets(target_q, logp, SOME[TOKENS], REWARDS, TAU, True, FORCED, EOS_AMONG), expected)
