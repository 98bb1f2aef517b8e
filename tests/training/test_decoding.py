from dataclasses import replace

import pytest
import torch

import stored
from seqcredit.algorithms import Mle
from seqcredit.data.prepared import Prepared
from seqcredit.experiments.build import build_actor, build_critic
from seqcredit.experiments.recipe import Recipe
from seqcredit.models.build import LSTM
from seqcredit.search import Guide, beam
from seqcredit.training.decoding import Search, decode, n_best, translate

RECIPE = Recipe("r", (Mle("mle", 0.1),), actor=LSTM(8, 8), critic=LSTM(8, 8))


@pytest.fixture(scope="module")
def actor(prepared: Prepared) -> torch.nn.Module:
    built = build_actor(RECIPE, prepared)
    for weight in built.parameters():
        weight.data *= 6
    return built


def test_translations_come_in_the_order_of_the_split(actor, prepared: Prepared) -> None:
    split = prepared.split("test")
    for search in (Search(1, 12), Search(3, 12, batch_size=7)):
        words = decode(actor, prepared, split, search)
        assert len(words) == len(split)
        for i in (0, 5, 29):
            source = torch.tensor([[*stored.source(split, i), 0]])
            assert translate(actor.eval(), prepared, source, search) == [words[i]]


def test_training_mode_comes_back(actor, prepared: Prepared) -> None:
    actor.train()
    decode(actor, prepared, prepared.split("test"), Search(1, 5))
    assert actor.training


def test_a_critic_reads_the_references(prepared: Prepared) -> None:
    split, search, critic = prepared.split("valid"), Search(1, 12), build_critic(RECIPE, prepared).eval()
    for weight in critic.parameters():
        weight.data *= 6
    words = decode(critic, prepared, split, search)
    assert len(words) == len(split)
    for i in (0, 7, 29):
        references = torch.tensor([[[*stored.references(split, i)[0], 0]]])
        assert translate(critic, prepared, references, search) == [words[i]]


def test_a_guide_reads_the_source_and_changes_nothing_without_weight(actor, prepared: Prepared) -> None:
    split, plain = prepared.split("valid"), Search(3, 12)
    guide = build_critic(replace(RECIPE, critic=LSTM(8, 8, reads="source")), prepared).eval()
    for weight in guide.parameters():
        weight.data *= 6
    expected = decode(actor, prepared, split, plain)
    assert decode(actor, prepared, split, plain._replace(guide=guide)) == expected
    asked = plain._replace(guide=guide, guide_weight=3.0)
    found = decode(actor, prepared, split, asked)
    assert found != expected
    actor.eval()
    sources = torch.tensor([[*stored.source(split, 4), 0]])
    by_hand = beam(actor, actor.encode(sources), 12, 3, guide=Guide(guide, guide.encode(sources), 3.0))
    assert found[4] == prepared.words(by_hand.tokens[0, 0].tolist())
    assert decode(actor, prepared, split, Search(1, 12, guide=guide, guide_weight=3.0)) != decode(
        actor, prepared, split, Search(1, 12)
    )
    sentence = " ".join(prepared.source_vocabulary.decode(stored.source(split, 4)))
    assert n_best(actor, prepared, sentence, asked, 1)[0][0] == found[4]
    assert (asked.said()["guide_weight"], "guide" in asked.said(), "guide_weight" in plain.said()) == (
        3.0,
        False,
        False,
    )


def test_n_best_of_a_typed_sentence(actor, prepared: Prepared) -> None:
    actor.eval()
    found = n_best(actor, prepared, "der hund sieht den ball .", Search(4, 8), 3)
    assert len(found) == 3
    assert found[0][1] >= found[1][1] >= found[2][1]
    ids = torch.tensor([[*prepared.source_vocabulary.encode(["der", "hund", "sieht", "den", "ball", "."]), 0]])
    best = beam(actor, actor.encode(ids), 8, 4, 3)
    assert found[0][0] == prepared.words(best.tokens[0, 0].tolist())
    assert found[0][1] == pytest.approx(float(best.logp[0, 0]))


def test_an_unknown_word_can_be_copied(actor, prepared: Prepared) -> None:
    actor.eval()
    with torch.no_grad():
        kept = actor.readout.bias.clone()
        actor.readout.bias[1] = 50.0  # unk everywhere
        (plain, _), *_ = n_best(actor, prepared, "gnorf .", Search(2, 4), 1)
        (copied, _), *_ = n_best(actor, prepared, "gnorf .", Search(2, 4, replace_unknown=True), 1)
        actor.readout.bias.copy_(kept)
    assert plain == ["<unk>"] * 3
    assert set(copied) <= {"gnorf", ".", "<unk>"}
    assert copied != plain
