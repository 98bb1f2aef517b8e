"""Credit of one sentence against what the networks say step by step."""

import itertools
import math
from pathlib import Path

import pytest
import torch

from seqcredit import config
from seqcredit.errors import UserError
from seqcredit.reporting.credit import load_critic
from seqcredit.reporting.evaluate import load_actor
from seqcredit.reporting.sentence import credit_of
from seqcredit.rewards import Bleu
from seqcredit.training.build import build_actor, build_critic
from seqcredit.training.runs import Run
from seqcredit.types import pad, pad_references


def test_every_quantity_once_more_token_by_token(tiny) -> None:
    found = credit_of(tiny.done, tiny.prepared, "test", 3)
    vocabulary, split = tiny.prepared.target_vocabulary, tiny.prepared.split("test")
    assert found.reference == " ".join(split.reference_text(2)[0])
    assert found.source == " ".join([*split.source_texts()][2])
    assert found.tokens[-1] == "</s>"
    ids = [vocabulary.words.index(word) for word in found.tokens]
    actor, critic = load_actor(tiny.done, tiny.prepared), load_critic(tiny.done, tiny.prepared)
    source = torch.from_numpy(split.source(2).astype("int64"))
    reference = pad_references([[split.references(2)[0].tolist()]])
    read, judged = actor.encode(torch.cat([source, torch.zeros(1).long()])[None]), critic.encode(reference)
    state, opinion = actor.start(read), critic.start(judged)
    before = None
    with torch.no_grad():
        for t, token in enumerate(ids):
            features, state = actor.step(read, state, before)
            worth, opinion = critic.step(judged, opinion, before)
            p = torch.softmax(actor.readout(features)[0], -1)
            q = critic.readout(worth)[0]
            entropy = -sum(float(x) * math.log(float(x)) for x in p)
            value = sum(float(x) * float(y) for x, y in zip(p, q, strict=True)) + 0.05 * entropy
            wanted = {
                "Q": float(q[token]),
                "value": value,
                "advantage": float(q[token]) - value,
                "entropy": entropy,
                "probability": float(p[token]),
            }
            assert {key: found.quantities[key][t] for key in wanted} == pytest.approx(wanted, abs=1e-4)
            before = torch.tensor([token])
    scores = Bleu(scaled=True).prefix_scores(pad([ids[:-1]]), reference)[0].tolist()
    assert found.quantities["reward"] == pytest.approx([b - a for a, b in itertools.pairwise(scores)])


def make(folder: Path, tiny, *phases: config.Phase) -> Run:
    small = config.Model(8, 8)
    recipe = config.Recipe("r", phases, actor=small, critic=small, longest_output=9)
    run = Run.create(folder, "", recipe, tiny.prepared.folder, tiny.prepared.checksums)
    nets = {"actor": build_actor(recipe, tiny.prepared), "critic": build_critic(recipe, tiny.prepared)}
    run.save_weights(phases[-1].name, {f"{n}.{k}": t for n, net in nets.items() for k, t in net.state_dict().items()})
    return run


def test_the_critic_of_soft_q_has_soft_values(tiny, tmp_path: Path) -> None:
    run = make(tmp_path / "q", tiny, config.SoftQ("soft_q", 0.1, tau=0.5))
    found = credit_of(run, tiny.prepared, "test", 1)
    assert all(a < 0 for a in found.quantities["advantage"])  # a soft value is above every Q
    weights = run.weights()
    weights["critic.readout.weight"].zero_()
    weights["critic.readout.bias"].fill_(2.0)
    run.save_weights("soft_q", weights)
    values = credit_of(run, tiny.prepared, "test", 1).quantities["value"]
    assert values == pytest.approx([2 + 0.5 * math.log(len(tiny.prepared.target_vocabulary))] * len(values), abs=1e-4)


def test_another_runs_critic_judges(tiny, tmp_path: Path) -> None:
    plain = make(tmp_path / "mle", tiny, config.Mle("mle", 0.1))
    with pytest.raises(UserError, match="has no trained critic: give --critic RUN"):
        credit_of(plain, tiny.prepared, "test", 1)
    own, lent = (credit_of(plain, tiny.prepared, "test", 1, judge) for judge in (tiny.done, tiny.stopped))
    assert own.tokens == lent.tokens
    assert own.quantities["probability"] == lent.quantities["probability"]
    assert own.quantities["Q"] != lent.quantities["Q"]
    stranger = Run(tiny.done.folder, tiny.done.recipe, {**tiny.done.about, "vocabularies": {"target": "x"}})
    with pytest.raises(UserError, match="other vocabularies"):
        credit_of(plain, tiny.prepared, "test", 1, stranger)


@pytest.mark.parametrize("number", [0, 41, -1])
def test_sentences_are_counted_from_1(tiny, number: int) -> None:
    with pytest.raises(UserError, match="it has 1 to 40"):
        credit_of(tiny.done, tiny.prepared, "test", number)
