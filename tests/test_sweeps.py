"""One small cell of every table, from real text to the table: the sweeps as they are, on little data, for a moment."""

import contextlib
import json
from pathlib import Path

import pytest

import needs
import starter
from cellar import make_data
from seqcredit.cli import main
from seqcredit.experiments import sweep

ROOT = Path(__file__).parents[1]
QUICK = ("batch_size=10", "optimizer=adam", "learning_rate=0.02")
SMALL = tuple(f"{network}.{width}=16" for network in ("actor", "critic") for width in ("hidden", "embedding"))
CHANGES = (*(f"phase.*.{key}" for key in QUICK), *SMALL, "beam=1", "validation_beam=1", "longest_output=10")


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as left:
        main([*map(str, words)])
    return int(left.value.code or 0)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of a sweep need not import torch again."""
    monkeypatch.setattr(sweep, "begin", starter.begin)


def swept(file: str, place: Path, results: str, *cells: str, epochs: int = 8) -> dict[str, dict]:
    """The records of some cells of a sweep, and of what they start from; the first phase lasts longest."""
    lasting = ("phase.*.epochs=2", f"phase.1.epochs={epochs}")
    changes = [word for change in (*CHANGES, *lasting) for word in ("--set", change)]
    with contextlib.chdir(ROOT):
        assert (
            run("sweep", f"sweeps/{file}.toml", "--data-root", place, "--into", place, *changes, "--only", *cells) == 0
        )
    return {path.stem: json.loads(path.read_text()) for path in sorted((place / "results" / results).glob("*.json"))}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    real = needs.real_data()
    place = tmp_path_factory.mktemp("sweeps")
    for corpus, folder in (
        ("tatoeba", "tatoeba-short"),
        ("multi30k", "multi30k"),
        ("multi30k", "multi30k-small"),
        ("europarl", "europarl"),
    ):
        files = []
        for split, count in (("train", 100), ("valid", 20), ("test", 30)):  # all from one, for figures above 0
            for side in ("de", "en"):
                lines = (real / corpus / f"train.{side}").read_text().splitlines()[:count]
                (place / f"{split}.{side}").write_text("\n".join(lines) + "\n")
            files += [f"--{split}", place / f"{split}.de", place / f"{split}.en"]
        assert run("prepare", place / "data" / folder, *files, "--tokenized") == 0
    shown = ("--task", "captioning", "--features", real / "flickr8k" / "features.npy")
    for corpus, more in (("flickr8k", shown), ("cmudict", ())):
        files = []
        for split, count in (("train", 200), ("valid", 20), ("test", 30)):
            lines = (real / corpus / f"{split}.tsv").read_text().splitlines()[:count]
            (place / f"{corpus}-{split}.tsv").write_text("\n".join(lines) + "\n")
            files += [f"--{split}", place / f"{corpus}-{split}.tsv"]
        assert run("prepare", place / "data" / corpus, *files, "--tokenized", *more) == 0
    return place


@pytest.mark.slow
def test_the_table_of_all_algorithms(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = swept("tatoeba", place, "tatoeba-seeds", "erac-without-future-entropy-1")
    assert {*found} == {"mle-1", "erac-without-future-entropy-1"}
    assert {*found["erac-without-future-entropy-1"]["against"]} == {"mle-1"}  # of those that are there
    assert found["mle-1"]["bleu"] > 0
    capsys.readouterr()
    results = place / "results/tatoeba-seeds"
    assert run("table", results, "--layout", "table1") == 0
    shown = capsys.readouterr().out
    row = next(line for line in shown.splitlines() if line.startswith("| MT, no input feeding | MLE |"))
    assert row.replace("*", "").split(" | ")[2:4] == ["1", f"{found['mle-1']['bleu']:.2f}"]
    assert run("table", results, "--layout", "entropy") == 0
    shown = capsys.readouterr().out
    assert f"{found['erac-without-future-entropy-1']['bleu']:.2f}" in shown


@pytest.mark.slow
def test_the_table_with_input_feeding(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = swept("tatoeba-feeding", place, "tatoeba-feeding", "erac-1", epochs=2)
    assert {*found} == {"mle-1", "erac-1"}
    assert all(found["erac-1"]["settings"][network]["input_feeding"] for network in ("actor", "critic"))
    capsys.readouterr()
    assert run("table", place / "results/tatoeba-feeding", "--layout", "table1") == 0
    shown = capsys.readouterr().out
    row = next(line for line in shown.splitlines() if line.startswith("| MT, input feeding | ERAC |"))
    assert row.replace("*", "").split(" | ")[2:4] == ["1", f"{found['erac-1']['bleu']:.2f}"]


@pytest.mark.slow
def test_the_ablation_and_the_temperature(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = ("table3-smoothing-0.001-target_rate-0.1-1", "temperature-tau-0.02-1")
    found = swept("tatoeba-ablation", place, "tatoeba-ablation", *wanted)
    assert {*found} == {*wanted, "mle-1"}
    results = place / "results/tatoeba-ablation"
    capsys.readouterr()
    assert run("table", results / f"{wanted[0]}.json", "--layout", "ablation") == 0
    assert f"{found[wanted[0]]['validation']['actor_critic']:.2f}" in capsys.readouterr().out
    assert run("plot", "tau", results / f"{wanted[1]}.json", "--out", place / "tau.svg") == 0
    assert "0.02" in (place / "tau.svg").read_text()


@pytest.mark.slow
def test_vaml_along_what_q_says(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = swept("tatoeba-ablation", place, "tatoeba-ablation", "vaml-policy-1")
    capsys.readouterr()
    assert run("table", *(place / f"results/tatoeba-ablation/{name}-1.json" for name in ("mle", "vaml-policy"))) == 0
    assert f"| {found['vaml-policy-1']['bleu']:.2f} |" in capsys.readouterr().out


@pytest.mark.slow
def test_the_search(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = swept("tatoeba-search", place, "tatoeba-search", "raml-learning_rate-0.0003-1")
    assert {*found} == {"mle-1", "raml-learning_rate-0.0003-1"}
    capsys.readouterr()
    assert run("table", place / "results/tatoeba-search", "--layout", "search") == 0
    best = found["raml-learning_rate-0.0003-1"]["validation"]["raml"]
    assert f"| RAML, from MLE | raml-learning\\_rate-0.0003 | 1 | {best:.2f} |" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(("sweep", "cell"), [("credit", "copy-eos-mixed"), ("credit-critic", "exact-eos")])
def test_credit_errors(sweep: str, cell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_data(tmp_path / "runs/demo/data")
    found = swept(sweep, tmp_path, sweep, f"{cell}-1", epochs=2)
    assert_credit_table(tmp_path / "results" / sweep, cell, found, capsys)


@pytest.mark.slow
def test_credit_errors_of_real_text(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = swept("credit-tatoeba", place, "credit-tatoeba", "edit-copy-eos-likely-1")
    assert {*found} == {"mle-1", "edit-copy-eos-likely-1"}
    (place / "results/credit-tatoeba/mle-1.json").unlink()  # it has no credit
    assert_credit_table(place / "results/credit-tatoeba", "edit-copy-eos-likely", found, capsys)


def assert_credit_table(folder: Path, cell: str, found: dict[str, dict], capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run("table", folder, "--layout", "credit") == 0
    least = min(error for _, error in found[f"{cell}-1"]["credit"]["credit_error"])
    assert f"| {cell} | 1 | {least:.2f} |" in capsys.readouterr().out
    assert least > 0


@pytest.mark.slow
@pytest.mark.parametrize(("sweep", "after"), [("headroom", ""), ("memorised", "-600")])
def test_headroom(sweep: str, after: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_data(tmp_path / "runs/demo/data")
    found = swept(sweep, tmp_path, sweep, f"ac{after}-1", epochs=2)
    capsys.readouterr()
    assert run("table", tmp_path / "results" / sweep, "--layout", "headroom") == 0
    shown = capsys.readouterr().out
    for name, recipe in ((f"ac{after}-1", "AC"), (f"mle{after}-1", "MLE")):
        room = found[name]["headroom"]
        ways = " | ".join(f"{room['bleu'][way]:.2f}" for way in ("sample", "greedy", "beam", "believed", "known"))
        assert f"| {recipe} | 1 | BLEU | {ways} |" in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sweep", "results", "cell"),
    [
        ("multi30k", "multi30k-five", "ac"),
        ("multi30k-small", "multi30k-small", "vaml-corrupt"),
        ("europarl", "europarl", "mle-continued"),
    ],
)
def test_the_tables_of_longer_sentences(
    sweep: str, results: str, cell: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = swept(sweep, place, results, "mle-1", f"{cell}-1")
    assert {*found} == {"mle-1", f"{cell}-1"}
    assert all(record["bleu"] > 0 for record in found.values())
    assert {*found[f"{cell}-1"]["against"]} == {"mle-1"}
    capsys.readouterr()
    assert run("table", place / "results" / results) == 0
    shown = capsys.readouterr().out
    for record in found.values():
        assert f"| {record['bleu']:.2f} |" in shown


@pytest.mark.slow
def test_every_system(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = swept("every-system-captions", place, "every-system-captions", "scst-1", epochs=2)
    assert {*found} == {"mle-1", "scst-1"}
    scst = found["scst-1"]
    samples = len(scst["course"]) and scst["course"][-1][0]
    assert scst["drawn"] == samples == 2 * 200  # one for each caption, in two epochs
    assert 0 < scst["course"][-1][1] <= scst["cpu"]
    capsys.readouterr()
    assert run("table", place / "results/every-system-captions", "--layout", "costs") == 0
    shown = capsys.readouterr().out
    row = next(line for line in shown.splitlines() if line.startswith("| scst | 1 |"))
    assert row.split(" | ")[2] == f"{samples / 1000:.2f}"
    assert row.split(" | ")[-1] == f"{scst['bleu']:.2f} |"


@pytest.mark.slow
def test_captions(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = swept("flickr8k", place, "flickr8k-seeds", "erac-1")
    capsys.readouterr()
    assert run("table", place / "results/flickr8k-seeds") == 0
    shown = capsys.readouterr().out
    for name in ("mle-1", "erac-1"):
        assert f"{found[name]['bleu']:.2f}" in shown
        assert "nrefs:5" in found[name]["bleu_4_signature"]


@pytest.mark.slow
def test_captions_by_cider(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = swept("flickr8k-cider", place, "flickr8k-cider", "scst-1", "erac-1")
    assert {*found} == {"mle-1", "scst-1", "erac-1"}
    capsys.readouterr()
    assert run("table", place / "results/flickr8k-cider", "--layout", "aspects") == 0
    shown = capsys.readouterr().out
    for name, cell in found.items():
        assert cell["score"] == cell["cider"]
        figures = f"{cell['rouge_l']:.2f} | {cell['wrong']:.2f} | {cell['distinct']:.2f} | {cell['cider']:.2f} |"
        assert f"| {name.removesuffix('-1')} | 1 |" in shown
        assert figures in shown


@pytest.mark.slow
def test_phonemes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = swept("cmudict", place, "cmudict", "ocd-1")
    assert {*found} == {"mle-1", "ocd-1"}
    capsys.readouterr()
    assert run("table", place / "results/cmudict") == 0
    shown = capsys.readouterr().out
    for cell in found.values():
        assert cell["metric"] == "edit"
        assert f"| {cell['score']:.2f} |" in shown
