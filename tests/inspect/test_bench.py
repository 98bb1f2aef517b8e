"""The bench at a small size: its figures are there and add up. What they are is the machine's affair."""

import json
from dataclasses import replace

import pytest
import torch

from seqcredit.cli import main
from seqcredit.inspect import bench
from seqcredit.inspect.paced import make_batch
from seqcredit.types import EOS, Json, lengths

V = 60


@pytest.fixture(scope="module")
def timings() -> dict[str, Json]:
    said: list[str] = []
    wanted = [replace(step, width=32, words=5) for step in bench.steps([V])]
    found = {timing["step"]: timing for timing in bench.time_steps(wanted, 2, said.append)}
    assert said == ["round 0 of 2", "round 1 of 2", "round 2 of 2"]
    return found


@pytest.mark.slow
def test_every_step_is_timed_against_mle(timings: dict[str, Json]) -> None:
    assert set(bench.PHASES) < set(timings)
    assert {
        f"{name}, {how}" for name in ("ERAC", "MLE") for how in ("reference implementation", "input feeding")
    } < set(timings)
    assert timings["MLE"]["ratio"] == 1
    assert timings["MLE, input feeding"]["ratio"] == 1
    assert timings["ERAC"]["ratio"] > 1
    assert timings["MLE"]["gflops"] > 0
    assert 0 < timings["MLE"]["of_peak"] < 1


@pytest.mark.slow
def test_parts_of_a_step_are_shares_of_it(timings: dict[str, Json]) -> None:
    shares = timings["ERAC"]["shares"]
    assert set(shares) == set(bench.PARTS)
    assert 0.4 < sum(shares.values()) < 1.05
    assert set(timings["MLE"]["shares"]) == {"actor", "optimizer"}
    assert set(timings["RAML"]["shares"]) == {"sampling", "reward", "actor", "optimizer"}
    assert set(timings["soft Q"]["shares"]) == {"sampling", "reward", "critic", "optimizer"}
    assert all(0.4 < sum(timings[name]["shares"].values()) < 1.05 for name in bench.PHASES)


@pytest.mark.slow
def test_growth_is_plotted(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setattr(bench, "VOCABULARIES", (V,))
    monkeypatch.setattr(bench, "AXES", {"vocabulary": (V, 4_000), "words": (3, 9), "samples": (2, 3), "width": (8, 16)})
    with pytest.raises(SystemExit, match="0"):
        main(["bench", "--rounds", "1", "--growth", str(tmp_path / "growth.svg")])
    found = json.loads(capsys.readouterr().out)
    assert found["axes"]["words"] == [3, 9]
    assert set(found["milliseconds"]["samples"]) == {"RAML", "soft Q"}
    few, many = (sum(pair[n] for pair in found["milliseconds"]["vocabulary"].values()) for n in (0, 1))
    assert few < many  # of all steps together: one round of one step is at the mercy of the machine
    assert (tmp_path / "growth.svg").read_text().count("ms a step") == 1


@pytest.mark.slow
def test_more_words_need_more_memory() -> None:
    small, large = (bench.step_memory(bench.Step("ERAC", vocabulary, words=9)) for vocabulary in (2_000, 12_000))
    tables = 4 * 2 + 4 * 3 + 3  # of the actor and the critic with gradients and Adam's two; of the target
    expected = tables * 10_000 * bench.WIDTH * 4 / 2**20
    assert 0.8 * expected < large - small < 1.6 * expected


def test_both_beam_searches_find_a_translation_of_the_right_length() -> None:
    model = bench.Paced(bench.SOURCE_WORDS, V, 8, 8).eval()
    batch = make_batch(V, size=1)
    model.prepare(batch)
    with torch.no_grad():
        plain = bench._plain_beam(model, batch.source, 3)
        batched = bench.beam(model, model.encode(batch.source), 101, 3).tokens[0, 0].tolist()
    assert plain == batched[: len(plain)]
    assert plain[-1] == EOS
    assert len(plain) == int(lengths(batch.references[0])) + 1


def test_products_by_hand() -> None:
    batch = make_batch(V, size=2, words=3)  # 4 tokens each, eos included
    encoder, decoder = 8 * 128 * 384, 4 * 256 * 512 + 2 * 256 * 256 + 256 * V
    assert bench._products(batch, V, 256) == 6 * (8 * encoder + 8 * decoder + 2 * 256 * 2 * 16)


def test_the_table_has_a_row_a_step() -> None:
    row = {"step": "MLE", "vocabulary": V, "milliseconds": 3.0, "ratio": 1.0, "tokens_per_second": 9.0}
    found = {
        "threads": 2,
        "matrix_peak_gflops": 100.0,
        "steps": [{**row, "gflops": 50.0, "of_peak": 0.5, "shares": {"actor": 0.9}}],
        "erac_peak_memory_mb": {"60": 10},
        "beam_search_seconds": {"batched": 1.0, "one by one": 2.0},
    }
    table, *lines = bench.tables(found)
    assert list(table.columns[6].cells) == ["50%"]
    assert lines[1].startswith("ERAC, V = 60, batch 50, 50 tokens: 10 MB")


@pytest.mark.slow
def test_a_profile_is_a_trace(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.profile, "__defaults__", (V,))
    with pytest.raises(SystemExit) as end:
        main(["bench", "--profile", str(tmp_path / "trace.json")])
    assert end.value.code == 0
    names = {event.get("name") for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]}
    assert set(bench.PARTS) <= names
