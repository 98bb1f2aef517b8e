"""What an actor says in several ways: on spaces small enough to count, and of runs through the command line."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from sample_runs import Shown
from seqcredit.data.batches import collate
from seqcredit.data.reading import signed
from seqcredit.errors import UserError
from seqcredit.experiments.build import load_actor
from seqcredit.experiments.runs import Run
from seqcredit.models.wrapped import Wrapped
from seqcredit.results import cells, headroom, layouts
from seqcredit.results.headroom import WAYS, Speaker, expected_payoffs
from seqcredit.rewards import Bleu, EditDistance
from seqcredit.rewards.metrics import EDIT, corpus, corpus_bleu
from seqcredit.training.decoding import Search, decode
from seqcredit.types import Batch, lengths, pad, pad_references, token_mask
from starter import Done

A, B, C, D = 2, 3, 4, 5
DOUBT = -2 * (0.34 * math.log(0.34) + 0.66 * math.log(0.66)) + math.log(2)  # along `a a` and `b c`


class Divided(nn.Module):
    """`a a` with 0.34, `b c` and `b d` with 0.33 each: the likeliest sentence is not the best bet."""

    anchor = nn.Parameter(torch.zeros(1))

    def forward(self, source: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        table = {(): {A: 0.34, B: 0.66}, (A,): {A: 1.0}, (B,): {C: 0.5, D: 0.5}}
        probabilities = torch.full((*tokens.shape, 6), 1e-12)
        for row, words in enumerate(tokens.tolist()):
            for t in range(len(words)):
                for word, share in table.get(tuple(words[:t]), {0: 1.0}).items():
                    probabilities[row, t, word] = share
        return probabilities.log()


def speaker(samples: int = 400) -> Speaker:
    actor = Wrapped(Divided(), 6)
    return Speaker(actor, EditDistance(), 3, 4, samples, torch.Generator().manual_seed(0))


def words(tokens: torch.Tensor) -> list[list[int]]:
    return [row[: int(length)] for row, length in zip(tokens.tolist(), lengths(tokens), strict=True)]


def test_each_way_chooses_as_it_says() -> None:
    """An edit costs 1: `a a` loses 1.32 on the average, `b c` and `b d` 1.01."""
    batch = Batch(torch.zeros(40), pad_references([[[B, D]]] * 40))
    one = speaker()
    said = one.at_length(one.actor.encode(batch.source), batch)
    assert set(said) == set(WAYS)
    assert words(said["beam"]) == [[A, A]] * 40
    assert words(said["greedy"]) in ([[B, C]] * 40, [[B, D]] * 40)
    assert sum(bet in ([B, C], [B, D]) for bet in words(said["believed"])) >= 38  # samples may err
    assert words(said["known"]) == [[B, D]] * 40
    drawn = words(said["sample"])
    assert {tuple(sentence) for sentence in drawn} == {(A, A), (B, C), (B, D)}


def test_what_is_short_ends_by_the_eos_of_its_model() -> None:
    """Here it is 1, and 0 is a word."""
    short, long = torch.tensor([[[0, A, 1]]]), torch.tensor([[[A, B, C, 1], [0, 1, 1, 1]]])
    sides = headroom._side_by_side(short, long, 1), headroom._side_by_side(long, short, 1)
    assert [side.tolist() for side in sides] == [
        [[[0, A, 1, 1], [A, B, C, 1], [0, 1, 1, 1]]], [[[A, B, C, 1], [0, 1, 1, 1], [0, A, 1, 1]]]
    ]  # fmt: skip


def test_offhand_and_at_length_share_their_ways() -> None:
    batch = Batch(torch.zeros(8), pad_references([[[B, D]]] * 8))
    one = speaker()
    memory = one.actor.encode(batch.source)
    assert set(one.offhand(memory, batch)) == {"sample", "greedy"}
    nats, tokens = one.surprise(memory, batch)
    assert tokens == 8 * 3
    said = torch.tensor([[A, A, 0], [B, C, 0]])
    doubt, states = one.undecided(one.actor.encode(torch.zeros(2)), said)
    assert states == 6
    assert doubt == pytest.approx(DOUBT, rel=1e-4)
    assert nats == pytest.approx(-8 * torch.tensor(0.33).log().item(), rel=1e-4)


@pytest.mark.parametrize("reward", [Bleu(), EditDistance()], ids=["bleu", "edit"])
def test_expected_payoffs_are_means_over_the_samples(reward: Any) -> None:
    generator = torch.Generator().manual_seed(3)

    def sentences(count: int) -> list[list[int]]:
        return [torch.randint(2, 7, (n % 4 + 1,), generator=generator).tolist() for n in range(count)]

    candidates, samples = [sentences(3), sentences(3)], [sentences(4), sentences(4)]
    width = 6
    found = expected_payoffs(
        reward,
        torch.stack([pad(some, width) for some in candidates]),
        torch.stack([pad(some, width) for some in samples]),
    )
    for b in range(2):
        for k, one in enumerate(candidates[b]):
            each = [float(reward.prefix_scores(pad([one]), pad_references([[s]]))[0, -1]) for s in samples[b]]
            assert float(found[b, k]) == pytest.approx(sum(each) / 4, rel=1e-5)


def test_search_and_likelihood_are_those_of_the_whole_split(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headroom, "BATCH", 8)
    lines: list[str] = []
    found = headroom.measure(shown.mle, shown.prepared, "test", 4, "cpu", lines.append)
    split = shown.prepared.split("test")
    actor = load_actor(shown.mle, shown.prepared)
    for way, width in (("greedy", 1), ("beam", 2)):
        said = decode(actor, shown.prepared, split, Search(width, bound=13))
        assert found["bleu"][way] == pytest.approx(corpus_bleu(said, list(split.reference_texts())).value, abs=1e-4)
        ids = pad([shown.prepared.target_ids(words) for words in said])
        references = collate(split, np.arange(30)).references
        payoff = Bleu(scaled=True).prefix_scores(ids, references)[:, -1].mean()
        assert found["payoff"][way] == pytest.approx(float(payoff), abs=1e-4)
    assert found["payoff"]["known"] >= found["payoff"]["beam"]
    assert (found["split"], found["sentences"]) == ("test", 30)
    assert (found["samples"], found["width"]) == (4, 2)
    assert set(found["train"]["bleu"]) == set(found["train"]["payoff"]) == {"sample", "greedy"}
    batch = collate(split, np.arange(30))
    tokens = batch.references[:, 0]
    logp = actor.score(actor.encode(batch.source), tokens).table().log_softmax(-1)
    chosen = logp.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)[token_mask(tokens)]
    assert found["nll"] == pytest.approx(-chosen.mean().item(), abs=1e-4)
    assert 0 < found["entropy"] < math.log(len(shown.prepared.target_vocabulary))
    assert lines[-1] == "train: 4/4 batches, 0 s left"
    again = headroom.measure(shown.mle, shown.prepared, "test", 4, "cpu", lines.append)
    assert again == found


def test_any_metric_in_all_ways(shown: Shown, tmp_path: Path) -> None:
    """The metric of the table is the one that was asked for; the pay-off is as it was."""
    plain = headroom.measure(shown.mle, shown.prepared, "test", 4, "cpu", lambda _: None)
    found = headroom.measure(shown.mle, shown.prepared, "test", 4, "cpu", lambda _: None, metric="edit")
    assert found["payoff"] == plain["payoff"]
    assert (found["metric"], found["signature"], "bleu" in found) == ("edit", EDIT.signature([]), False)
    assert (plain["metric"], plain["metric_label"]) == ("bleu", "BLEU")
    split = shown.prepared.split("test")
    said = decode(load_actor(shown.mle, shown.prepared), shown.prepared, split, Search(2, bound=13))
    assert found["edit"]["beam"] == pytest.approx(corpus(EDIT, said, list(split.reference_texts())).value, abs=1e-4)
    run = replace(shown.mle, folder=Path(shutil.copytree(shown.mle.folder, tmp_path / "mle")))
    headroom.write(run, found)
    table = layouts.headroom(cells.read([run.folder]))
    assert [row[2] for row in table.rows] == ["token error rate", "pay-off"]
    assert table.rows[0][5] == f"{found['edit']['beam']:.2f}"
    assert table.notes[0].startswith("token error rate, test, 30 sentences")
    headroom.write(run, {key: value for key, value in plain.items() if not key.startswith("metric")})  # an older one
    older = layouts.headroom(cells.read([run.folder]))
    assert (older.rows[0][2], older.rows[0][5]) == ("BLEU", f"{plain['bleu']['beam']:.2f}")
    other = replace(shown.mle, folder=Path(shutil.copytree(run.folder, tmp_path / "other")))
    headroom.write(other, plain)
    assert [row[1] for row in layouts.headroom(_named(run, other)).rows] == ["1"] * 4
    headroom.write(other, found)
    with pytest.raises(UserError, match="was not measured, or not in the same way"):
        layouts.headroom(_named(run, other))


def _named(*runs: Run) -> list[cells.Cell]:
    return [replace(cell, name=cell.path.name) for run in runs for cell in cells.read([run.folder])]


def test_too_few_samples_are_refused(shown: Shown) -> None:
    with pytest.raises(UserError, match="headroom of 1 samples cannot be told: ask for 2 or more"):
        headroom.measure(shown.mle, shown.prepared, "valid", 1, "cpu", print)


@pytest.fixture
def asked(folder: Path, tmp_path: Path, run: Callable[..., Done]) -> Path:
    """Two trained runs, and what the command said of them."""
    for name in ("run1", "run2"):
        shutil.copytree(folder / name, tmp_path / name)
    done = run("headroom", tmp_path / "run1", tmp_path / "run2", "--samples", 4, "--split", "test")
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "said.txt").write_text(done.stdout)
    return tmp_path


@pytest.mark.slow
def test_from_runs_to_a_table_of_cells(asked: Path, run: Callable[..., Done]) -> None:
    kept = json.loads((asked / "run1" / "headroom.json").read_text())
    assert kept["bleu"]["beam"] == json.loads((asked / "run1" / "result.json").read_text())["bleu"]
    first, second, header, _, *said = (asked / "said.txt").read_text().splitlines()
    assert [row.split(" | ")[:3] for row in said[:4]] == [
        [f"| tiny ({name})", "1", of] for name in ("run1", "run2") for of in ("BLEU", "pay-off")
    ]
    assert first.endswith("run1: headroom kept in " + str(asked / "run1" / "headroom.json"))
    assert second.startswith(str(asked / "run2"))
    assert header.startswith(
        "| recipe | n | of | one sample | greedy | beam | by its beliefs | by the reference | nats |"
    )
    for seed in (1, 2):
        done = run("record", asked / f"run{seed}", asked / f"tiny-{seed}.json")
        assert done.returncode == 0, done.stderr
    done = run("table", asked / "tiny-1.json", asked / "tiny-2.json", "--layout", "headroom")
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| tiny |")]
    rooms = [json.loads((asked / f"tiny-{seed}.json").read_text())["headroom"] for seed in (1, 2)]
    assert [row[1:3] for row in rows] == [["2", "BLEU"], ["2", "pay-off"]]
    for row, figure in zip(rows, ("bleu", "payoff"), strict=True):
        assert row[7].startswith(f"{sum(room[figure]['known'] for room in rooms) / 2:.2f} ± ")
        assert row[9].startswith(f"{sum(room['train'][figure]['sample'] for room in rooms) / 2:.2f} ± ")
    assert rows[0][11].startswith(f"{sum(room['train']['nll'] for room in rooms) / 2:.2f} ± ")
    assert "test, 25 sentences" in done.stdout
    assert "among 2 samples and the outputs of a beam of 2" in done.stdout


@pytest.mark.slow
def test_runs_that_do_not_belong_together_are_refused_at_once(asked: Path, run: Callable[..., Done]) -> None:
    result = json.loads((asked / "run2" / "result.json").read_text())
    other = signed({**result, "vocabularies": {"source": "x", "target": "y"}})
    (asked / "run2" / "result.json").write_text(json.dumps(other))
    (asked / "run1" / "headroom.json").unlink()
    done = run("headroom", asked / "run1", asked / "run2")
    assert done.returncode == 2
    assert "their vocabularies differ" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (asked / "run1" / "headroom.json").exists()


@pytest.mark.slow
def test_cells_without_headroom_or_with_another_are_refused(asked: Path, folder: Path) -> None:
    with pytest.raises(UserError, match="was not measured, or not in the same way"):
        layouts.headroom(cells.read([folder / "run1"]))
    with pytest.raises(UserError, match="was not measured, or not in the same way"):
        layouts.headroom(cells.read([asked / "run1", folder / "run2"]))
    headroom.write(Run.open(asked / "run2"), {**json.loads((asked / "run2/headroom.json").read_text()), "samples": 8})
    with pytest.raises(UserError, match="was not measured, or not in the same way"):
        layouts.headroom(cells.read([asked / "run1", asked / "run2"]))
