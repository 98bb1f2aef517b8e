"""The final figures of a run: decode a split with beam search, score it, write it down."""

import itertools
import json
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from seqcredit import config
from seqcredit.data.batches import from_sentences
from seqcredit.data.prepared import Prepared, Split
from seqcredit.data.storage import write_whole
from seqcredit.data.text import read_parallel
from seqcredit.errors import UserError
from seqcredit.experiments.build import load_actor
from seqcredit.experiments.runs import Run
from seqcredit.rewards.corpus import corpus_bleu, corpus_bleus, corpus_chrf, corpus_cider, corpus_rouge_l
from seqcredit.training.decoding import Search, decode, translate
from seqcredit.training.log import log_entries

RELEASE_LONGEST = 50  # the released code drops test pairs with more words on either side

Words = Sequence[str]


def scores(
    hypotheses: Sequence[Words], references: Sequence[Sequence[Words]], sources: Sequence[Words]
) -> dict[str, Any]:
    """BLEU and chrF with signatures, BLEU under the released code's filter, and what shows a gamed metric."""
    bleu, chrf = corpus_bleu(hypotheses, references), corpus_chrf(hypotheses, references)
    kept = [
        i
        for i, (source, group) in enumerate(zip(sources, references, strict=True))
        if max(len(source), *map(len, group)) <= RELEASE_LONGEST
    ]
    filtered = corpus_bleu([hypotheses[i] for i in kept], [references[i] for i in kept])
    words = sum(map(len, hypotheses))
    pairs = [list(itertools.pairwise(h)) for h in hypotheses]
    return {
        "bleu": round(bleu.value, 4),
        "bleu_signature": bleu.signature,
        "bleu_release_filter": {"bleu": round(filtered.value, 4), "sentences": len(kept), "longest": RELEASE_LONGEST},
        "chrf": round(chrf.value, 4),
        "chrf_signature": chrf.signature,
        "sentences": len(hypotheses),
        "length_ratio": round(words / max(1, sum(len(group[0]) for group in references)), 4),
        "repeated_bigrams": round(sum(len(p) - len(set(p)) for p in pairs) / max(1, sum(map(len, pairs))), 5),
        "unknown_words": round(sum(h.count("<unk>") for h in hypotheses) / max(1, words), 5),
    }


def caption_scores(hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]) -> dict[str, Any]:
    """What captions are judged by besides: BLEU-1 to BLEU-4, CIDEr-D and ROUGE-L, with signatures."""
    bleus = {f"bleu_{n}": score for n, score in enumerate(corpus_bleus(hypotheses, references), 1)}
    others = {"cider": corpus_cider(hypotheses, references), "rouge_l": corpus_rouge_l(hypotheses, references)}
    return {
        key: value
        for name, score in (bleus | others).items()
        for key, value in ((name, round(score.value, 4)), (f"{name}_signature", score.signature))
    }


def evaluate(
    run: Run,
    prepared: Prepared,
    split: Split,
    search: Search,
    device: torch.device | str = "cpu",
    phase: str | None = None,
) -> tuple[dict[str, Any], list[list[str]]]:
    """Scores of a run on a split, and its hypotheses."""
    actor = load_actor(run, prepared, device, phase)
    started = time.monotonic()
    hypotheses = decode(actor, prepared, split, search, device)
    references = list(split.reference_texts())
    figures = scores(hypotheses, references, list(split.source_texts()))
    if split.pictures:
        figures |= caption_scores(hypotheses, references)
    return {
        **figures,
        "seconds_of_search": round(time.monotonic() - started, 2),
        "search": search._asdict(),
    }, hypotheses


def final_search(recipe: config.Recipe) -> Search:
    """How the recipe's figures are made."""
    return Search(recipe.beam, recipe.longest_output + 1)


def evaluate_raw(
    run: Run,
    prepared: Prepared,
    source: Path,
    reference: Path,
    search: Search,
    device: torch.device | str = "cpu",
    phase: str | None = None,
) -> dict[str, Any]:
    """Scores of a run on two text files, cut into words as its training data was."""
    if prepared.pictures:
        raise UserError(f"{run.folder} describes pictures: evaluate it on a split of its data.")
    actor = load_actor(run, prepared, device, phase)
    examples = list(read_parallel(source, reference))
    sources = [prepared.cut(example.source) for example in examples]
    hypotheses: list[list[str]] = []
    with torch.no_grad():
        for start in range(0, len(sources), search.batch_size):
            batch = from_sentences(sources[start : start + search.batch_size], prepared.source_vocabulary)
            hypotheses += translate(actor, prepared, batch.source.to(device), search)
    references = [[prepared.reference_words(text) for text in example.references] for example in examples]
    return {**scores(hypotheses, references, sources), "search": search._asdict()}


def hypotheses_file(run: Run, split: str) -> Path:
    """Where the hypotheses of a split are kept."""
    return run.folder / "hypotheses" / f"{split}.txt"


def write_hypotheses(run: Run, split: str, hypotheses: Sequence[Words]) -> None:
    """One line a sentence, tokenized."""
    path = hypotheses_file(run, split)
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(" ".join(words) + "\n" for words in hypotheses), encoding="utf-8")


def read_hypotheses(run: Run, split: str) -> list[list[str]]:
    """What `write_hypotheses` wrote."""
    path = hypotheses_file(run, split)
    if not path.exists():
        raise UserError(f"{run.folder} has no hypotheses of {split}; run `seqcredit evaluate {run.folder}` first.")
    return [line.split(" ") if line else [] for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def write_result(
    run: Run, split: str, figures: dict[str, Any], hypotheses: Sequence[Words], diverged: Sequence[str]
) -> Path:
    """`result.json` and the hypotheses, in the run folder."""
    write_hypotheses(run, split, hypotheses)
    entries = log_entries(run.folder / "log.jsonl")
    result = {
        "recipe": run.recipe.name,
        "seed": run.recipe.seed,
        "commit": run.about["commit"],
        "split": split,
        **figures,
        "diverged": list(diverged),
        "validation": validation(entries),
        "seconds": seconds(entries),
        "peak_memory_mb": round(peak_memory()),
        "torch": run.about["torch"],
        "vocabularies": run.about["vocabularies"],
    }
    path = run.folder / "result.json"
    write_whole(path, (json.dumps(result, indent=1) + "\n").encode())
    return path


def validation(entries: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The best validation figure of each finished phase, from the lines of a log."""
    return {entry["phase"]: entry["best"] for entry in entries if entry["event"] == "phase_end"}


def seconds(entries: Sequence[Mapping[str, Any]]) -> float:
    """From the first line of a log to the last; pauses between stop and resume count."""
    return round(entries[-1]["time"] - entries[0]["time"], 1) if entries else 0.0


def peak_memory() -> float:
    """Largest resident size of this process so far, in MB."""
    try:  # what getrusage tells on Linux may be that of the process which started this one
        return _status("VmHWM")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (1024 if sys.platform != "darwin" else 1024 * 1024)


def resident_memory() -> float:
    """Resident size of this process, in MB; the largest so far where the system does not tell."""
    try:
        return _status("VmRSS")
    except OSError:
        return peak_memory()


def _status(key: str) -> float:
    """An entry of what Linux tells of this process, in MB."""
    entries = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(entries[key].split()[0]) / 1024
