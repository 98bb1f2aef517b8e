"""One folder that can translate on another machine: weights, vocabularies, settings and a model card."""

import copy
import dataclasses
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from seqcredit.algorithms import objective_of
from seqcredit.data.prepared import Prepared
from seqcredit.data.reading import signed
from seqcredit.data.storage import MANIFEST, checksum, new_folder, write_json
from seqcredit.errors import UserError
from seqcredit.experiments import kept
from seqcredit.experiments.runs import Run
from seqcredit.models.build import HuggingFace
from seqcredit.models.hub import merged, save_adapters
from seqcredit.models.huggingface import DecoderOnly, EncoderDecoder
from seqcredit.models.policy import Network
from seqcredit.rewards.figures import KEPT, figure
from seqcredit.training import weights

if TYPE_CHECKING:
    from transformers import GenerationConfig


def export(run: Run, prepared: Prepared, out: Path, phase: str | None = None) -> None:
    """Write the actor of a finished phase, the last one by default, with all that it needs and nothing else."""
    actor = {key: tensor for key, tensor in run.weights(phase).items() if key.startswith("actor.")}
    name = phase or run.phases_done()[-1]
    with new_folder(out) as folder:
        weights.save(folder, name, actor)
        for file in ("recipe.toml", "resolved.toml"):
            shutil.copyfile(run.folder / file, folder / file)
        about = {key: value for key, value in run.about.items() if key != "command"} | {"data": "data"}  # no paths
        (folder / "run.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        _vocabularies(prepared, folder / "data")
        (folder / "README.md").write_text(_card(run, name), encoding="utf-8")
        sums = {file.name: checksum(file) for file in sorted(folder.iterdir()) if file.suffix in (".toml", ".json")}
        write_json(folder / MANIFEST, signed({"files": sums}))  # the last; weights and data have their own


def save_pretrained(
    run: Run, prepared: Prepared, actor: Network, out: Path, phase: str | None = None, merge: bool = False
) -> Path:
    """A model of transformers as a folder that `from_pretrained` loads, with a model card.

    Adapters are saved as peft saves them, without the model that they belong to; or they are merged into its weights.
    """
    if not isinstance(actor, EncoderDecoder | DecoderOnly) or prepared.tokenizer is None:
        raise UserError(
            f"The model of {run.folder} is not one of transformers: use `seqcredit export {run.folder} FOLDER`."
        )
    with new_folder(out) as folder:
        options = run.recipe.actor
        lora = options.lora if isinstance(options, HuggingFace) and not merge else ""
        if lora:
            save_adapters(actor.model, lora, folder)
        else:
            merged(actor.model).save_pretrained(folder)
            _ending(actor).save_pretrained(folder)
        prepared.tokenizer.tokenizer.save_pretrained(folder)
        (folder / "README.md").write_text(_card(run, phase or run.phases_done()[-1], bool(lora)), encoding="utf-8")
    return out


def _ending(actor: EncoderDecoder | DecoderOnly) -> "GenerationConfig":
    """Settings of `generate`, by which it stops where the model has learned to, as an answer in a chat."""
    found, eos = copy.deepcopy(actor.model.generation_config), actor.alphabet.eos
    ends = found.eos_token_id if isinstance(found.eos_token_id, list) else [found.eos_token_id]
    if eos not in ends:
        found.eos_token_id = [eos, *(number for number in ends if number is not None)]
    return found


def _vocabularies(prepared: Prepared, folder: Path) -> None:
    """The prepared folder without its sentences."""
    folder.mkdir()
    kept = {name: checksum for name, checksum in prepared.manifest.files.items() if name.endswith((".vocab", ".bpe"))}
    for name in kept:
        shutil.copyfile(prepared.folder / name, folder / name)
    manifest = dataclasses.replace(prepared.manifest, splits={}, files=kept)
    (folder / MANIFEST).write_text(manifest.text(), encoding="utf-8")


def _card(run: Run, phase: str, adapters: bool = False) -> str:
    """What the model is and how good, as far as it was measured."""
    path = run.folder / "result.json"
    result = kept.read(path) if path.exists() else {}
    mine, *others = (figure(result, name) for name in dict.fromkeys([None, *KEPT]))
    measured = "Not evaluated."
    if mine:
        rest = [one for one in others if one and one.metric.name != mine.metric.name]
        said = ", ".join(f"{one.metric.label} {one.value:g} (`{one.signature}`)" for one in (mine, *rest))
        measured = f"On {result['sentences']:,} sentences of its {result['split']} set: {said}."
    return (
        f"# {run.recipe.name}\n\nPhase `{phase}`, seed {run.recipe.seed}, seqcredit {run.about['seqcredit']} at commit "
        f"{run.about['commit'] or 'unknown'}, torch {run.about['torch']}.\n\n"
        f"{run.recipe.actor.said()}.\n\n{measured}\n\n{_use(run, adapters)}\n"
    )


def _use(run: Run, adapters: bool) -> str:
    """How to use what was exported."""
    if isinstance(run.recipe.actor, HuggingFace):
        phases = ", ".join(f"{objective_of(phase)} ({phase.name})" for phase in run.recipe.phase)
        payoff = run.recipe.payoff.metric
        how = "`from_pretrained` of transformers loads it."
        if adapters:
            how = "These are adapters: `PeftModel.from_pretrained(BASE, THIS_FOLDER)` of peft adds them to their model."
        return f"{how} It was trained by {phases}; the pay-off is {payoff}."
    return "`seqcredit translate THIS_FOLDER < text` translates; `resolved.toml` tells how it was trained."
