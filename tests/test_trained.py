"""What training gives back: it translates, it is evaluated, it is opened again."""

from pathlib import Path

import pytest
import torch

import seqcredit as sc
from seqcredit.cli import main
from seqcredit.data.storage import checksum
from seqcredit.errors import UserError
from seqcredit.experiments.runs import Run
from seqcredit.results.evaluate import read_result
from test_api import FAST, SMALL, pairs


def test_a_run_folder_like_every_other(tmp_path: Path) -> None:
    trained = sc.train(
        SMALL, pairs(), valid=pairs(20, 1), test=pairs(20, 2), algorithm=FAST, out=tmp_path / "run", say=None
    )
    run = Run.open(tmp_path / "run")
    assert run.phases_done() == ["mle"]
    assert run.data == tmp_path / "run" / "data"
    again = sc.load(tmp_path / "run")
    sources = [source for source, _ in pairs(10, 3)]
    assert again.translate(sources) == trained.translate(sources)
    assert isinstance(again.translate("1 2"), str)
    assert again.evaluate("test") == trained.evaluate(pairs(20, 2))
    assert again.evaluate("test").outputs == again.translate([source for source, _ in pairs(20, 2)])
    assert again.evaluate(pairs(9, 4), metric="edit").value >= 0
    result, _ = read_result(run, list(again.prepared.split("test").reference_texts()))
    assert result["score"] == round(again.evaluate("test").value, 4)
    assert result["hypotheses_checksum"] == checksum(run.folder / "hypotheses" / "test.txt")


class Net(torch.nn.Module):
    """A module of the user's own."""

    def __init__(self, source: int, target: int) -> None:
        super().__init__()
        self.source, self.words = torch.nn.Embedding(source, 16), torch.nn.Embedding(target + 1, 16)
        self.cell, self.out = torch.nn.GRU(16, 16, batch_first=True), torch.nn.Linear(16, target)
        self.bos = target

    def forward(self, source: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        before = torch.nn.functional.pad(tokens[:, :-1], (1, 0), value=self.bos)
        start = self.source(source).mean(1).tanh()
        return self.out(self.cell(self.words(before), start[None])[0])


def test_any_module(tmp_path: Path) -> None:
    trained = sc.train(Net, pairs(), algorithm=FAST, out=tmp_path / "run", say=None)
    further = sc.train(trained, pairs(), algorithm=sc.AC(epochs=1, critic_epochs=1), longest_output=6, say=None)
    assert isinstance(further.translate("1 2"), str)
    again = sc.load(tmp_path / "run", model=Net)
    assert again.translate(["1", "2 3"]) == trained.translate(["1", "2 3"])


@pytest.mark.parametrize("words", [["resume"], ["evaluate", "--split", "valid"], ["inspect"]])
def test_the_command_line_says_that_only_python_has_the_model(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sc.train(
        sc.train(Net, pairs(40), algorithm=FAST, say=None), pairs(40), algorithm=FAST, out=tmp_path / "r", say=None
    )
    with pytest.raises(SystemExit, match="2"):
        main([words[0], str(tmp_path / "r"), *words[1:]])
    said = f"seqcredit: The model of {tmp_path / 'r'} was given in Python: open it there, by seqcredit.load(run, model"
    assert capsys.readouterr().err.startswith(said)
    with pytest.raises(UserError, match="was given in Python"):
        sc.load(tmp_path / "r")
