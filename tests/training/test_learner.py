"""One update of one phase, for any networks."""

import copy
from dataclasses import replace
from typing import ClassVar, Literal

import pytest
import torch
from torch import nn

from seqcredit.algorithms import ActorCritic, Critic, Mle, Models, Outcome, Phase, Progress, Raml, SoftQ, Vaml
from seqcredit.draws import Noise
from seqcredit.errors import UserError
from seqcredit.models import critic as judges
from seqcredit.models.lstm import Seq2Seq
from seqcredit.models.policy import Network
from seqcredit.models.transformer import TransformerNetwork
from seqcredit.models.wrapped import Wrapped
from seqcredit.rewards import Bleu
from seqcredit.training.learner import DivergedError, Learner
from seqcredit.types import Batch, Reward, pad, pad_references

V = 7
BATCH = Batch(pad([[2, 3], [4], [5, 6, 2]]), pad_references([[[3, 2]], [[4]], [[2, 6, 5]]]))


def networks() -> dict[str, Network]:
    generator = torch.Generator().manual_seed(0)
    return {"actor": Seq2Seq(V, V, 8, 8, generator=generator), "critic": judges.Critic(V, 8, 8, generator=generator)}


def learner(phase: Phase, models: dict[str, Network] | None = None) -> Learner:
    return Learner(models or networks(), phase, Bleu(scaled=True))


def weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten().clone() for p in model.parameters()])


PHASES = [
    (Mle("mle", 0.1), {"actor"}),
    (Raml("raml", 0.1), {"actor"}),
    (SoftQ("soft_q", 0.1), {"critic"}),
    (Vaml("vaml", 0.1), {"actor"}),
    (Critic("critic", 0.1), {"critic"}),
    (ActorCritic("joint", 0.1), {"actor", "critic"}),
]


@pytest.mark.parametrize(("phase", "trained"), PHASES, ids=lambda value: getattr(value, "name", ""))
def test_a_phase_changes_the_networks_that_it_trains_and_no_other(phase: Phase, trained: set[str]) -> None:
    models = networks()
    before = {name: weights(model) for name, model in models.items()}
    watched = learner(phase, models).update(BATCH)
    assert {name for name, model in models.items() if not torch.equal(weights(model), before[name])} == trained
    assert {f"{name}_gradient" for name in trained} == {key for key in watched if key.endswith("_gradient")}


def test_the_target_network_follows_at_its_rate() -> None:
    made = learner(Critic("critic", 0.1, target_rate=0.25))
    before = weights(made.networks["target"])
    made.update(BATCH)
    now = weights(made.networks["critic"])
    torch.testing.assert_close(weights(made.networks["target"]), 0.25 * now + 0.75 * before)


def test_a_new_phase_makes_its_target_from_the_critic_of_now() -> None:
    first = learner(Critic("critic", 0.1, target_rate=0.01))
    first.update(BATCH)
    second = Learner(first.networks, ActorCritic("joint", 0.1), first.reward)
    assert torch.equal(weights(second.networks["target"]), weights(first.networks["critic"]))


def test_the_target_network_follows_as_fast_as_the_phase_says_by_then() -> None:
    made = learner(Critic("critic", 0.1, target_rate=0.5, target_rate_end=0.125))
    before = weights(made.networks["target"])
    made.update(BATCH, progress=Progress(1, 2))
    now = weights(made.networks["critic"])
    torch.testing.assert_close(weights(made.networks["target"]), 0.25 * now + 0.75 * before)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_cautious_step_is_shorter_and_the_next_one_as_long_as_ever(optimizer: Literal["sgd", "adam"]) -> None:
    moved = []
    for explained in (1.0, 0.25):
        models = networks()
        before = weights(models["actor"])
        made = learner(ActorCritic("joint", 0.1, optimizer, cautious=True), models)
        made.update(BATCH, progress=Progress(explained=explained))
        moved.append(weights(models["actor"]) - before)
        assert made.optimizers["actor"].param_groups[0]["lr"] == 0.1
    torch.testing.assert_close(moved[1], 0.25 * moved[0])


def test_what_a_leash_is_tied_to_stays() -> None:
    made = learner(ActorCritic("joint", 0.1, leash=0.5))
    before = weights(made.networks["actor"])
    for _ in range(2):
        made.update(BATCH)
    assert torch.equal(weights(made.networks["start"]), before)
    assert not torch.equal(weights(made.networks["actor"]), before)
    assert not made.networks["start"].training
    again = Learner(made.networks, ActorCritic("joint", 0.1, leash=0.5), made.reward)
    assert torch.equal(weights(again.networks["start"]), weights(made.networks["actor"]))
    assert "start" not in Learner(made.networks, ActorCritic("joint", 0.1), made.reward).networks


def test_a_step_is_clipped() -> None:
    phase = Mle("mle", 1.0, clip=0.001)
    models = networks()
    before = weights(models["actor"])
    watched = learner(phase, models).update(BATCH)
    assert watched["actor_gradient"][0] > 0.1
    assert float((weights(models["actor"]) - before).norm()) == pytest.approx(0.001, rel=1e-3)


def test_the_critic_may_have_a_rate_of_its_own_and_only_named_networks_slow_down() -> None:
    made = learner(ActorCritic("joint", 0.1, critic_learning_rate=0.3))
    made.slow_down(0.5, ["actor"])
    assert {name: o.param_groups[0]["lr"] for name, o in made.optimizers.items()} == {"actor": 0.05, "critic": 0.3}


def test_the_critic_may_be_clipped_elsewhere() -> None:
    phase = ActorCritic("joint", 1.0, clip=0.001, critic_clip=0.004, smoothing=1.0)
    models = networks()
    before = {name: weights(model) for name, model in models.items()}
    learner(phase, models).update(BATCH)
    moved = {name: float((weights(model) - before[name]).norm()) for name, model in models.items()}
    assert moved == pytest.approx({"actor": 0.001, "critic": 0.004}, rel=1e-3)


def test_a_gradient_that_is_not_finite_changes_nothing() -> None:
    models = networks()
    with torch.no_grad():
        models["critic"].readout.weight[3, 0] = torch.inf  # type: ignore[union-attr, index]
    before = copy.deepcopy(models["actor"].state_dict())
    with pytest.raises(DivergedError, match="gradient of the actor is not finite"):
        learner(ActorCritic("joint", 0.1), models).update(BATCH)
    for key, tensor in models["actor"].state_dict().items():
        assert torch.equal(tensor, before[key])


def test_the_same_generator_gives_the_same_update() -> None:
    ends = [
        weights(made.networks["actor"]) for made in (learner(PHASES[-1][0]) for _ in range(2)) if made.update(BATCH)
    ]
    assert torch.equal(*ends)


def test_dropout_is_on_where_sequences_are_drawn_and_off_in_a_fixed_judge() -> None:
    """The critic is trained on samples of the actor as it samples later; VAML reads its Q in evaluation mode."""
    modes = {
        type(phase): {name: model.training for name, model in learner(phase).networks.items()} for phase, _ in PHASES
    }
    assert modes[Critic] == {"actor": True, "critic": True, "target": False}
    assert modes[Vaml] == {"actor": True, "critic": False}
    assert modes[SoftQ] == {"actor": False, "critic": True}


def test_networks_are_named_once() -> None:
    made = learner(ActorCritic("joint", 0.1))
    assert made.models == Models(**made.networks)
    assert made.models.target is made.networks["target"]
    assert not any(weight.requires_grad for weight in made.networks["target"].parameters())
    assert learner(Mle("mle", 0.1)).models.target is None


class Watching(Mle):
    """Remembers how far it was told to be."""

    seen: ClassVar[list[Progress]] = []

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        self.seen.append(progress)
        return super().loss(models, batch, reward, noise, progress)


def test_a_phase_is_told_how_far_it_is() -> None:
    made = learner(Watching("mle", 0.1))
    made.update(BATCH)
    made.update(BATCH, Progress(3, 7))
    assert Watching.seen[-2:] == [Progress(), Progress(3, 7)]


def test_gradients_are_not_summed_over_updates() -> None:
    models = networks()
    models["actor"].dropout = 0.0  # type: ignore[assignment]
    made = learner(Mle("mle", 1e-9), models)
    once, again = (made.update(BATCH)["actor_gradient"][0] for _ in range(2))
    assert again == pytest.approx(once, rel=1e-3)


# Parts of a batch.

LARGE = Batch(
    pad([[2, 3], [4], [5, 6, 2], [3, 3, 4, 2], [6]]),
    pad_references([[[3, 2]], [[4]], [[2, 6, 5]], [[5, 5, 4, 3, 2]], [[6, 2]]]),
)
FREE = 1e9  # a gradient that is never clipped


@pytest.mark.parametrize("phase", [phase for phase, _ in PHASES], ids=lambda phase: phase.name)
@pytest.mark.parametrize("parts", [2, 3, 5, 9])
def test_parts_of_a_batch_make_the_update_of_the_whole(phase: Phase, parts: int) -> None:
    """Of two updates, so that the generator must stand where it would; dropout and samples are those of the whole."""
    found = []
    for accumulate in (1, parts):
        models = {name: network.double() for name, network in networks().items()}
        made = learner(replace(phase, accumulate=accumulate, clip=FREE, learning_rate=0.3), models)
        watched = [made.update(LARGE) for _ in range(2)]
        found.append((models, watched, made.generator.get_state()))
    (whole, seen, state), (parted, added, at_the_end) = found
    for name, network in whole.items():
        torch.testing.assert_close(weights(network), weights(parted[name]), rtol=0, atol=1e-12)
    for one, other in zip(seen, added, strict=True):
        assert list(one) == list(other)
        assert [value for pair in other.values() for value in pair] == pytest.approx(
            [value for pair in one.values() for value in pair], rel=1e-6
        )
    assert torch.equal(state, at_the_end)


class Selfish(ActorCritic):
    """Its actor's loss depends on the critic's weights."""

    def loss(self, models: Models, batch: Batch, reward: Reward, noise: Noise, progress: Progress) -> Outcome:
        losses, sums = super().loss(models, batch, reward, noise, progress)
        both = sum(weight.sum() for model in (models.actor, models.judge) for weight in model.parameters())
        return Outcome({name: loss + both for name, loss in losses.items()}, sums)


@pytest.mark.parametrize("parts", [1, 2])
def test_a_loss_moves_its_own_network_alone(parts: int) -> None:
    """Of the sum of all weights each network gets the gradient 1 a part, from its own loss."""
    steps = []
    for kind in (ActorCritic, Selfish):
        models = networks()
        made = learner(kind("joint", 0.1, accumulate=parts, clip=FREE), models)
        made.update(LARGE)
        steps.append({name: [weight.grad for weight in models[name].parameters()] for name in made.optimizers})
    for name, plain in steps[0].items():
        for one, other in zip(plain, steps[1][name], strict=True):
            torch.testing.assert_close(other, parts + (0 if one is None else one) + torch.zeros_like(other))


# Optimizers and rates.


def test_matrices_decay_but_for_embeddings() -> None:
    moved = []
    for decay in (0.0, 0.25):
        models = {name: network.double() for name, network in networks().items()}
        before = {key: weight.clone() for key, weight in models["actor"].state_dict().items()}
        learner(Mle("mle", 0.5, "adamw", weight_decay=decay), models).update(BATCH)
        moved.append(dict(models["actor"].state_dict()))
    shrunk = {key for key in before if not torch.equal(moved[0][key], moved[1][key])}
    matrices = {f"encoder.0.weight_{way}_l0{end}" for way in ("ih", "hh") for end in ("", "_reverse")}
    assert shrunk == {*matrices, "decoder.weight_ih_l0", "decoder.weight_hh_l0", "combine.weight", "readout.weight"}
    for key in shrunk:
        torch.testing.assert_close(moved[0][key] - moved[1][key], 0.5 * 0.25 * before[key], rtol=1e-9, atol=1e-12)


def test_adamw_without_decay_is_adam() -> None:
    ends = []
    for optimizer in ("adam", "adamw"):
        made = learner(Mle("mle", 0.1, optimizer, beta1=0.5))  # type: ignore[arg-type]
        for _ in range(3):
            made.update(BATCH)
        ends.append(weights(made.networks["actor"]))
    torch.testing.assert_close(*ends)


class Tied(nn.Module):
    """Features of the word before, by the embedding that the readout shares."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(V, 4)
        self.readout = nn.Linear(4, V)
        self.readout.weight = self.embedding.weight

    def forward(self, source: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        return self.embedding(torch.nn.functional.pad(tokens[:, :-1], (1, 0)))


def test_a_readout_that_is_tied_to_an_embedding_does_not_decay() -> None:
    module = Tied()
    made = learner(Mle("mle", 0.5, "adamw", weight_decay=0.5), {"actor": Wrapped(module, V, module.readout)})
    decaying, others = (group["params"] for group in made.optimizers["actor"].param_groups)
    assert decaying == []
    assert {id(weight) for weight in others} == {id(module.embedding.weight), id(module.readout.bias)}
    made.update(BATCH)


def test_all_steps_are_shorter_while_a_phase_warms_up() -> None:
    moved = []
    for warmup in (0, 4):
        models = networks()
        before = {name: weights(model) for name, model in models.items()}
        made = learner(ActorCritic("joint", 0.1, warmup=warmup), models)
        made.update(BATCH, progress=Progress(2, 20))
        moved.append({name: weights(model) - before[name] for name, model in models.items()})
        assert made.optimizers["actor"].param_groups[0]["lr"] == 0.1
    for name, step in moved[0].items():
        torch.testing.assert_close(moved[1][name], 0.75 * step)


# Gradient checkpointing.


def test_networks_that_learn_are_checkpointed_and_the_next_phase_says_anew() -> None:
    both = {name: TransformerNetwork(V, V, 8, 1, 2) for name in ("actor", "critic")}
    both["critic"].reads = "references"
    for phase, _ in PHASES:
        if phase.name in ("mle", "vaml"):
            learner(replace(phase, gradient_checkpointing=True), dict(both))
            assert [network.recomputes for network in both.values()] == [True, False]
    learner(PHASES[0][0], dict(both))
    assert not both["actor"].recomputes


def test_gradient_checkpointing_without_layers_is_refused_in_a_sentence() -> None:
    with pytest.raises(UserError, match=r"^mle: gradient_checkpointing is for the layers of a Transformer .* leave it"):
        learner(Mle("mle", 0.1, gradient_checkpointing=True))


# Precision.


def gradient(models: dict[str, Network], name: str) -> torch.Tensor:
    grads = (weight.grad for weight in models[name].parameters())
    return torch.cat([torch.zeros(1) if grad is None else grad.flatten() for grad in grads])


@pytest.mark.parametrize(("phase", "trained"), PHASES, ids=lambda value: getattr(value, "name", ""))
def test_bf16_is_for_products_alone(phase: Phase, trained: set[str]) -> None:
    """Gradients within a few percent of those of float32, in float32, for every weight that has any there."""
    found = []
    for precision in ("float32", "bf16"):
        models = networks()
        made = learner(replace(phase, precision=precision, clip=FREE), models)
        watched = made.update(LARGE)
        found.append((models, watched))
        with made._precision(torch.device("cpu")):
            outcome = phase.loss(made.models, LARGE, made.reward, Noise(torch.Generator(), 5), Progress())
        assert {loss.dtype for loss in outcome.losses.values()} == {torch.float32}
        assert not any(total.dtype == torch.bfloat16 for total, _ in outcome.sums.values())
    (exact, seen), (rounded, also) = found
    assert also.get("reward") == seen.get("reward")  # the same samples
    for name in trained:
        for one, other in zip(exact[name].parameters(), rounded[name].parameters(), strict=True):
            assert other.dtype == torch.float32
            assert (one.grad is None) == (other.grad is None)
        wanted, got = gradient(exact, name), gradient(rounded, name)
        assert 1e-6 < float((got - wanted).norm() / wanted.norm()) < 0.05


def test_a_target_network_of_few_digits_would_not_move() -> None:
    """bfloat16 has 8 bits, so a step of 0.001 is lost; kept in float32, it goes where float64 would."""
    models = networks()
    models["critic"].bfloat16()
    made = learner(Critic("critic", 0.1, target_rate=0.001), models)
    critic, target = made.networks["critic"], made.networks["target"]
    assert {weight.dtype for weight in target.parameters()} == {torch.float32}
    assert {weight.dtype for weight in critic.parameters()} == {torch.bfloat16}
    before = weights(target).double()
    with torch.no_grad():
        for weight in critic.parameters():
            weight.add_(1.0)
    for _ in range(2_000):
        judges.update_target(target, critic, 0.001)
    end = weights(critic).double()
    torch.testing.assert_close(weights(target).double(), end + (before - end) * 0.999**2_000, rtol=0, atol=1e-2)
    assert {weight.dtype for weight in critic.parameters()} == {torch.bfloat16}


def test_precise_networks_are_followed_in_their_own_precision() -> None:
    models = {name: network.double() for name, network in networks().items()}
    made = learner(ActorCritic("joint", 0.1, leash=0.1), models)
    assert {weight.dtype for name in ("target", "start") for weight in made.networks[name].parameters()} == {
        torch.float64
    }


def test_networks_of_bf16_learn() -> None:
    models = {name: network.bfloat16() for name, network in networks().items()}
    made = learner(ActorCritic("joint", 0.1, "adamw", weight_decay=0.1, leash=0.1), models)
    before = {name: weights(network) for name, network in made.networks.items()}
    made.update(LARGE)
    changed = {name: not torch.equal(weights(network), before[name]) for name, network in made.networks.items()}
    assert changed == {"actor": True, "critic": True, "target": True, "start": False}
