"""Objectives on a tiny network: what they equal, what they leave alone, and that a shared batch adds up."""

from typing import Any

import pytest
import torch
from torch import Tensor

from seqcredit import config
from seqcredit.credit import losses
from seqcredit.credit.values import token_rewards
from seqcredit.draws import Noise
from seqcredit.models.critic import Critic
from seqcredit.models.lstm import Seq2Seq
from seqcredit.models.memory import repeat
from seqcredit.search import sample
from seqcredit.rewards import Bleu, OnlyFinished
from seqcredit.training.objectives import OBJECTIVES, Outcome, Payoffs, _diversity, _proposals, repeated_bigrams
from seqcredit.types import EOS, Batch, pad, pad_references, token_mask

V = 9
BATCH = Batch(
    pad([[2, 3, 4], [5, 6], [7, 2, 2, 3], [4]]),
    pad_references([[[3, 4, 5]], [[6, 2]], [[8, 8, 3, 2, 4]], [[5]]]),
)
PAYOFFS = Payoffs(Bleu(scaled=True), Bleu())
PHASES: dict[str, config.Phase] = {
    "mle": config.Mle("mle", 0.1),
    "raml": config.Raml("raml", 0.1, samples=3),
    "soft_q": config.SoftQ("soft_q", 0.1, samples=3, look_ahead="target"),
    "vaml": config.Vaml("vaml", 0.1, samples=3, kappa=0.4, kappa_draws=True),
    "critic": config.Critic("critic", 0.1, extra_length=2),
    "actor_critic": config.ActorCritic("actor_critic", 0.1, samples=2, extra_length=2),
}


def models(dropout: float = 0.3) -> dict[str, Any]:
    def generator(seed: int) -> torch.Generator:
        return torch.Generator().manual_seed(seed)

    made = {
        "actor": Seq2Seq(V, V, 6, 6, dropout=dropout, generator=generator(0)),
        "critic": Critic(V, 6, 6, dropout=dropout, generator=generator(1)),
        "target": Critic(V, 6, 6, dropout=0.0, generator=generator(2)),
    }
    made["target"].requires_grad_(False).eval()
    for model in made.values():
        for weight in model.parameters():
            weight.data *= 8  # so that the policy is not uniform
    return made


def noise(seed: int = 3, first: int = 0, rows: int = 4) -> Noise:
    return Noise(torch.Generator().manual_seed(seed), 4, first, rows)


def run(
    name: str, phase: config.Phase, nets: dict[str, Any] | None = None, batch: Batch = BATCH, **rows: int
) -> Outcome:
    return OBJECTIVES[name](nets or models(), batch, phase, PAYOFFS, noise(**rows))


DRAWN = {
    "soft_q, mixed": config.SoftQ("soft_q", 0.1, samples=4, proposal="mixed", steps=2, exact_eos=0.5),
    "soft_q, policy": config.SoftQ("soft_q", 0.1, samples=3, proposal="policy", bound=9),
    "vaml, policy": config.Vaml("vaml", 0.1, samples=3, proposal="policy"),
}


@pytest.mark.parametrize("case", [*OBJECTIVES, *DRAWN])
def test_shares_of_a_batch_add_up_to_the_batch(case: str) -> None:
    """Losses, gradients and all that is watched: two processes are one."""
    whole_nets, part_nets, phase = models(), models(), {**PHASES, **DRAWN}[case]
    name = case.partition(",")[0]
    whole = run(name, phase, whole_nets)
    parts = []
    for first, rows in ((0, 3), (3, 1)):
        share = Batch(BATCH.source[first : first + rows], BATCH.references[first : first + rows])
        parts.append(run(name, phase, part_nets, share, first=first, rows=rows))
    for key, loss in whole.losses.items():
        torch.testing.assert_close(loss, sum(part.losses[key] for part in parts), rtol=1e-5, atol=1e-6)
        for outcome in (whole, *parts):
            outcome.losses[key].backward(retain_graph=True)
    if "actor" not in phase.name:  # sample bounds follow the longest reference of the batch
        for a, b in zip(whole_nets["actor"].parameters(), part_nets["actor"].parameters(), strict=True):
            assert (a.grad is None) == (b.grad is None)
            if a.grad is not None:
                torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)
    for key, (total, count) in whole.sums.items():
        torch.testing.assert_close(float(total), float(sum(part.sums[key][0] for part in parts)), rtol=1e-5, atol=1e-5)
        assert int(count) == sum(int(part.sums[key][1]) for part in parts)


def gradients(nets: dict[str, Any]) -> dict[str, bool]:
    return {name: any(p.grad is not None for p in model.parameters()) for name, model in nets.items()}


@pytest.mark.parametrize(
    ("name", "trained"),
    [
        ("mle", {"actor"}),
        ("raml", {"actor"}),
        ("soft_q", {"critic"}),
        ("vaml", {"actor"}),
        ("critic", {"critic"}),
        ("actor_critic", {"actor", "critic"}),
    ],
)
def test_only_the_networks_of_the_phase_get_gradients(name: str, trained: set[str]) -> None:
    nets = models()
    for loss in run(name, PHASES[name], nets).losses.values():
        loss.backward(retain_graph=True)
    assert {net for net, has in gradients(nets).items() if has} == trained


def test_each_loss_of_actor_critic_reaches_its_own_network_alone() -> None:
    for key, other in (("actor", "critic"), ("critic", "actor")):
        nets = models()
        run("actor_critic", PHASES["actor_critic"], nets).losses[key].backward()
        assert gradients(nets) == {key: True, other: False, "target": False}


def test_mle_is_the_log_probability_of_the_reference() -> None:
    nets = models(dropout=0.0)
    tokens = BATCH.references[:, 0]
    actor = nets["actor"]
    logp = actor.readout(actor.features(actor.encode(BATCH.source), tokens)).log_softmax(-1)
    by_hand = -(logp.gather(-1, tokens.unsqueeze(-1)).squeeze(-1) * token_mask(tokens)).sum() / 4
    torch.testing.assert_close(run("mle", PHASES["mle"], nets).losses["actor"], by_hand)


def test_one_sample_makes_raml_mle_and_kappa_zero_makes_vaml_raml() -> None:
    nets = models(dropout=0.0)
    alone = run("raml", config.Raml("raml", 0.1, samples=1), nets).losses["actor"]
    torch.testing.assert_close(alone, run("mle", PHASES["mle"], nets).losses["actor"])
    several = run("raml", config.Raml("raml", 0.1, samples=3), nets).losses["actor"]
    assert not torch.equal(several, alone)
    vaml = run("vaml", config.Vaml("vaml", 0.1, samples=3, kappa=0.0), nets).losses["actor"]
    torch.testing.assert_close(vaml, several)


def test_a_temperature_of_its_own_for_the_weights() -> None:
    sharp = config.Raml("raml", 0.1, samples=4, weight_tau=1e-3)
    assert float(run("raml", sharp).sums["reference_weight"][0]) >= 3.5  # a replacement may be the same word
    flat = config.Raml("raml", 0.1, samples=4, weight_tau=1e6)
    assert float(run("raml", flat).sums["reference_weight"][0]) == pytest.approx(1, abs=1e-4)


def test_soft_q_on_the_reference_alone_by_hand() -> None:
    nets = models(dropout=0.0)
    tokens, critic = BATCH.references[:, 0], nets["critic"]
    q = critic.readout(critic.features(critic.encode(BATCH.references), tokens))
    rewards = token_rewards(Bleu(scaled=True).prefix_scores(tokens, BATCH.references))
    expected = losses.soft_q(q, tokens, rewards, 0.4).sum() / 4
    phase = config.SoftQ("soft_q", 0.1, samples=1, tau=0.4)
    torch.testing.assert_close(run("soft_q", phase, nets).losses["critic"], expected)


def test_steps_and_eos_on_the_reference_alone_by_hand() -> None:
    """With a reward that comes at the end: there eos is worth something at every prefix, and more than nothing."""
    nets, reward = models(dropout=0.0), OnlyFinished(Bleu(scaled=True))
    tokens, critic = BATCH.references[:, 0], nets["critic"]
    q = critic.readout(critic.features(critic.encode(BATCH.references), tokens))
    worth = Bleu(scaled=True).prefix_scores(tokens, BATCH.references)[:, :-1]
    rewards = token_rewards(reward.prefix_scores(tokens, BATCH.references))
    residual = losses.soft_q(q, tokens, rewards, 0.4, steps=3).sum()
    error = losses.terminal(q, tokens, worth).sum()
    phase = config.SoftQ("soft_q", 0.1, samples=1, tau=0.4, steps=3, exact_eos=0.7)
    found = OBJECTIVES["soft_q"](nets, BATCH, phase, Payoffs(reward, reward), noise())
    torch.testing.assert_close(found.losses["critic"], (residual + 0.7 * error) / 4)
    torch.testing.assert_close(found.sums["td"][0], residual.detach())
    torch.testing.assert_close(found.sums["eos_error"][0], error.detach())
    assert int(found.sums["eos_error"][1]) == int(token_mask(tokens).sum())


def actor_loss(**changes: Any) -> float:
    settings = {"samples": 1, "extra_length": 2, "mle_weight": 0.0, "smoothing": 0.0, **changes}
    return float(run("actor_critic", config.ActorCritic("ac", 0.1, **settings)).losses["actor"].detach())


def critic_loss(**changes: Any) -> float:
    settings = {"samples": 1, "extra_length": 2, "smoothing": 0.0, **changes}
    return float(run("critic", config.Critic("c", 0.1, **settings)).losses["critic"].detach())


def test_every_setting_of_actor_critic_matters() -> None:
    base = actor_loss(tau=0.5)
    assert actor_loss(tau=0.0) > base  # without the entropy bonus
    assert actor_loss(tau=0.5, mle_weight=1.0) != base
    assert base < actor_loss(tau=0.5, entropy_form="normalised") < actor_loss(tau=0.0)


def test_every_setting_of_the_critic_matters() -> None:
    base = critic_loss(tau=0.5)
    assert critic_loss(tau=0.5, td_form="half") == pytest.approx(base / 2)
    assert critic_loss(tau=0.5, future_entropy=False) == pytest.approx(critic_loss(tau=0.0))
    assert critic_loss(tau=0.5, future_entropy=False) != base
    total = critic_loss(tau=0.5, smoothing=1.0, smoothing_form="sum") - base
    mean = critic_loss(tau=0.5, smoothing=1.0, smoothing_form="mean") - base
    assert total == pytest.approx(V * mean, rel=1e-4)
    assert critic_loss(tau=0.5, extra_length=0, bound_value="free") != critic_loss(tau=0.5, extra_length=0)


@pytest.mark.parametrize("kind", ["critic", "actor_critic"])
def test_a_critic_learns_what_eos_is_worth_at_every_prefix(kind: str) -> None:
    """The critic says 3 of eos and 0 of words. Eos adds nothing to BLEU, but all of it if BLEU comes at the end."""
    nets = models(dropout=0.0)
    nets["critic"].readout.weight.data.zero_()
    nets["critic"].readout.bias.data.zero_()[EOS] = 3.0
    made = {"critic": config.Critic, "actor_critic": config.ActorCritic}[kind]
    plain, taught = (made("c", 0.1, tau=0.0, samples=1, extra_length=2, exact_eos=w) for w in (0.0, 0.7))
    losses_of = [run(kind, phase, nets).losses["critic"] for phase in (plain, taught)]
    sums = run(kind, taught, nets).sums
    states = int(sums["eos_error"][1])
    assert states > 4
    torch.testing.assert_close(sums["eos_error"][0], torch.tensor(9.0 * states))
    torch.testing.assert_close(losses_of[1] - losses_of[0], torch.tensor(0.7 * 9.0 * states / 4))

    nets, late = (
        models(dropout=0.0),
        OnlyFinished(Bleu(scaled=True)),
    )  # now a critic that says another thing at each prefix
    found = OBJECTIVES[kind](nets, BATCH, taught, Payoffs(late, late), noise())
    tokens, critic = drawn(nets, 5 + 2), nets["critic"]
    said = critic.readout(critic.features(critic.encode(BATCH.references), tokens))[..., EOS]
    worth = Bleu(scaled=True).prefix_scores(tokens, BATCH.references)[:, :-1]
    expected = (said - worth).square().masked_fill(~token_mask(tokens), 0).sum()
    torch.testing.assert_close(found.sums["eos_error"][0], expected.detach())


def drawn(nets: dict[str, Any], bound: int) -> torch.Tensor:
    """The samples of an objective."""
    several = noise()
    masks = nets["actor"].masks(bound, several)
    return sample(nets["actor"], nets["actor"].encode(BATCH.source), bound, several.uniform(bound), masks)


def test_returns_are_what_really_followed() -> None:
    """Without entropy, the error of a critic that says 0 everywhere is the mean square of rewards to come."""
    nets = models(dropout=0.0)
    nets["critic"].readout.weight.data.zero_()
    nets["critic"].readout.bias.data.zero_()
    outcome = run("critic", config.Critic("c", 0.1, tau=0.0, samples=1, extra_length=2), nets)
    tokens = drawn(nets, 5 + 2)
    scores = Bleu(scaled=True).prefix_scores(tokens, BATCH.references)
    to_come = (scores[:, -1:] - scores[:, :-1]) * token_mask(tokens)
    torch.testing.assert_close(outcome.sums["return_error"][0], to_come.square().sum())


# Proposals from the soft policy of Q.


class Certain(Critic):
    """Wants one word at every place and then eos, whatever the reference is."""

    def __init__(self, *words: int) -> None:
        super().__init__(V, 6, 6, generator=torch.Generator().manual_seed(1))
        self.wanted, self.place = [*words, *[0] * 20], 0

    def start(self, memory: Any) -> Any:
        self.place = 0
        return super().start(memory)

    def step(self, memory: Any, state: Any, token: Tensor | None, mask: Tensor | None = None) -> tuple[Tensor, Any]:
        vector, after = super().step(memory, state, token, mask)
        with torch.no_grad():
            self.readout.weight.zero_()
            self.readout.bias.zero_()
            self.readout.bias[self.wanted[self.place]] = 50
        self.place += 1
        return vector, after


@pytest.mark.parametrize(("kind", "drawn"), [("policy", 4), ("mixed", 2)])
def test_what_is_drawn_is_what_q_wants(kind: str, drawn: int) -> None:
    phase = config.SoftQ("q", 0.1, samples=5, tau=0.5, proposal=kind)  # type: ignore[arg-type]
    tokens, fork = _proposals(BATCH, phase, noise(), Certain(8, 8, 3))
    assert tokens.shape == (4, 5, BATCH.references.shape[-1] + 5)
    assert torch.equal(tokens[:, 0, : BATCH.references.shape[-1]], BATCH.references[:, 0])
    wanted = (tokens == pad([[8, 8, 3]], tokens.shape[-1])).all(-1)
    assert wanted[:, -drawn:].all()
    assert not wanted[:, :-drawn].any()
    assert fork[:, -1].tolist() == [0, 0, 3, 0]  # the third reference begins in that way
    bounded = config.SoftQ("q", 0.1, samples=2, tau=0.5, proposal="policy", bound=3)
    assert _proposals(BATCH, bounded, noise(), Certain(8, 8, 3)).tokens[0, 1].tolist() == [8, 8, 0, 0, 0, 0]


@pytest.mark.parametrize("kind", ["ngram", "mixed"])
def test_likely_words_are_proposed_where_a_phase_wants_them(kind: str) -> None:
    """With thousands of words to choose from, only likely ones repeat those of the reference."""
    critic, share = models(dropout=0.0)["critic"], {}
    critic.actions = 5_000
    for words in ("uniform", "likely"):
        phase = config.SoftQ("q", 0.1, samples=8, proposal=kind, words=words)  # type: ignore[arg-type]
        reference, *replaced = _proposals(BATCH, phase, noise(), critic).tokens[:, :4].unbind(1)
        new = torch.stack([(row != reference) & (reference != 0) for row in replaced])
        known = torch.stack([(row.unsqueeze(-1) == reference.unsqueeze(1)).any(-1) for row in replaced])
        share[words] = float(known[new].float().mean())
    assert share["uniform"] < 0.05 < 0.3 < share["likely"]


def test_draws_follow_the_soft_policy_at_its_temperature() -> None:
    """The first word of many draws, against softmax(Q / tau)."""
    critic, many = models(dropout=0.0)["critic"], 400
    batch = Batch(BATCH.source[:1].expand(many, -1), BATCH.references[:1].expand(many, -1, -1))
    phase = config.SoftQ("q", 0.1, samples=11, tau=0.4, proposal="policy")
    tokens = _proposals(batch, phase, Noise(torch.Generator().manual_seed(2), many), critic).tokens
    memory = critic.encode(BATCH.references[:1])
    q = critic.readout(critic.step(memory, critic.start(memory), None)[0])[0].detach()
    found = torch.bincount(tokens[:, 1:, 0].flatten(), minlength=V) / (many * 10)
    torch.testing.assert_close(found, (q / 0.4).softmax(-1), atol=0.03, rtol=0)
    assert float((found - q.softmax(-1)).abs().max()) > 0.06


def test_draws_of_q_count_the_same() -> None:
    phase = config.Vaml("vaml", 0.1, samples=4, proposal="policy")
    assert float(run("vaml", phase).sums["reference_weight"][0]) == pytest.approx(1)  # a quarter in each of 4


def test_diversity_by_hand() -> None:
    """Neighbours in a ring differ in 1 word of 3, 2 of 4 (one replaced, one more) and 1 of 4; the others in none."""
    found = _diversity(torch.stack([pad([[2, 3, 4], [2, 5, 4], [2, 3, 4, 6]], 6), pad([[2, 2]] * 3, 6)]))
    assert float(found["diversity"][0]) == pytest.approx(1 / 3 + 2 / 4 + 1 / 4)
    assert int(found["distinct"][0]) == 3 + 1
    assert int(found["diversity"][1]) == int(found["distinct"][1]) == 6


def test_repeated_bigrams() -> None:
    assert int(repeated_bigrams(pad([[2, 3, 2, 3, 2], [4, 4, 4], [5, 6, 7]]))) == 2 + 1
    empty: Tensor = repeated_bigrams(pad([[], [2]]))
    assert int(empty) == 0


def test_erac_by_hand() -> None:
    """Both losses from the specification, with the target network in the targets and a mean over two samples."""
    from seqcredit.search import sample

    nets = models(dropout=0.0)
    phase = config.ActorCritic("ac", 0.1, tau=0.3, mle_weight=0.0, samples=2, extra_length=2, smoothing=0.2)
    found = run("actor_critic", phase, nets).losses
    actor, critic, target, bound = nets["actor"], nets["critic"], nets["target"], 5 + 2
    memory, references = repeat(actor.encode(BATCH.source), 2), BATCH.references.repeat_interleave(2, 0)
    tokens = sample(actor, memory, bound, noise().repeated(2).uniform(bound))
    logp = actor.readout(actor.features(memory, tokens)).log_softmax(-1)
    q, later = (net.readout(net.features(net.encode(references), tokens)) for net in (critic, target))
    forced = (torch.arange(tokens.shape[1]) == bound - 1).expand(tokens.shape)
    torch.testing.assert_close(found["actor"], losses.actor(logp, q, tokens, 0.3, forced=forced).sum() / 8)
    rewards = token_rewards(Bleu(scaled=True).prefix_scores(tokens, references))
    targets = losses.td_targets(later, logp, tokens, rewards, 0.3, forced=forced)
    both = losses.critic_td(q, tokens, targets).sum() + 0.2 * losses.smoothing(q, tokens, forced=forced).sum()
    torch.testing.assert_close(found["critic"], both / 8)
