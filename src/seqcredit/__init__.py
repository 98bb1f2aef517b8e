"""Train sequence models with token-level credit.

    import seqcredit as sc

    trained = sc.train(sc.LSTM(), pairs, reward="bleu", algorithm=sc.ERAC())
    trained.translate("guten morgen")

`train` trains, `load` opens a run folder, `MLE`, `RAML`, `VAML`, `AC` and `ERAC` are the paper's algorithms;
`REINFORCE`, `SCST`, `GRPO`, `MRT`, `MIXER`, `OCD`, `ScheduledSampling`, `A2C`, `SAC`, `PCL`, `BSO` and
`ProfessorForcing` are others, to compare with. The model is `LSTM` (the paper's), `Transformer`, one of transformers
with its tokenizer, or a module of your own. `rewards` scores every prefix, `models` says what any other model must do.
All of it is imported when it is first used.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seqcredit import models, rewards
    from seqcredit.api import train
    from seqcredit.experiments.compared import (
        A2C,
        BSO,
        GRPO,
        MIXER,
        MRT,
        OCD,
        PCL,
        REINFORCE,
        SAC,
        SCST,
        ProfessorForcing,
        ScheduledSampling,
    )
    from seqcredit.experiments.presets import AC, ERAC, MLE, RAML, VAML
    from seqcredit.models.build import LSTM, Transformer
    from seqcredit.trained import Evaluation, Trained, load

    __version__: str

__all__ = [
    "A2C",
    "AC",
    "BSO",
    "ERAC",
    "GRPO",
    "LSTM",
    "MIXER",
    "MLE",
    "MRT",
    "OCD",
    "PCL",
    "RAML",
    "REINFORCE",
    "SAC",
    "SCST",
    "VAML",
    "Evaluation",
    "ProfessorForcing",
    "ScheduledSampling",
    "Trained",
    "Transformer",
    "load",
    "models",
    "rewards",
    "train",
]

_FROM = {
    "train": "seqcredit.api",
    **dict.fromkeys(("Evaluation", "Trained", "load"), "seqcredit.trained"),
    **dict.fromkeys(("AC", "ERAC", "MLE", "RAML", "VAML"), "seqcredit.experiments.presets"),
    **dict.fromkeys(("A2C", "BSO", "GRPO", "MIXER", "MRT", "OCD"), "seqcredit.experiments.compared"),
    **dict.fromkeys(("PCL", "REINFORCE", "SAC", "SCST"), "seqcredit.experiments.compared"),
    **dict.fromkeys(("ProfessorForcing", "ScheduledSampling"), "seqcredit.experiments.compared"),
    **dict.fromkeys(("LSTM", "Transformer"), "seqcredit.models.build"),
}


def __getattr__(name: str) -> object:
    """What a user imports, when it is first used."""
    if name == "__version__":
        from importlib.metadata import version

        return version("seqcredit")
    if name in ("models", "rewards"):
        return importlib.import_module(f"seqcredit.{name}")
    if name in _FROM:
        return getattr(importlib.import_module(_FROM[name]), name)
    raise AttributeError(f"module 'seqcredit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
