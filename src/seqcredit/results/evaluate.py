"""The final scores of a run: decodes a split with beam search, scores it, and saves both.

`result.json` and `hypotheses/test.txt` are the run's own: its last phase on the test set, searched as the recipe says.
What is evaluated on another split, of another phase, searched otherwise or by another metric goes to `evaluations/`.
"""

import itertools
import math
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from seqcredit.data.batches import from_sentences
from seqcredit.data.prepared import Prepared, Split
from seqcredit.data.reading import readable, signed
from seqcredit.data.storage import checksum, write_json, write_whole
from seqcredit.data.text import read_parallel
from seqcredit.errors import UserError, in_words
from seqcredit.experiments import kept
from seqcredit.experiments.build import build_metric
from seqcredit.experiments.recipe import Recipe
from seqcredit.experiments.runs import Run
from seqcredit.models.policy import Network
from seqcredit.rewards.figures import figures_of
from seqcredit.rewards.metrics import (
    BLEU,
    CHRF,
    CIDER,
    ROUGE_L,
    WRONG,
    Metric,
    References,
    Score,
    Words,
    corpus,
    corpus_bleu,
    corpus_bleus,
)
from seqcredit.threads import few_threads
from seqcredit.training.decoding import Search, decode, translate
from seqcredit.training.log import log_entries
from seqcredit.types import Json

RELEASE_LONGEST = 50  # the released code drops test pairs with more words on either side
RESULT, TEST, EVALUATIONS = "result.json", "test", "evaluations"
GUIDE_WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # that validation chooses from
CLOSE = 1e-3  # figures that are the same, but for their rounding


def metric_of(run: Run, prepared: Prepared, name: str | None = None) -> Metric:
    """What a run is judged by: its recipe's metric, or another one by its name."""
    return build_metric(run.recipe, prepared, run.folder, name)


def scores(
    hypotheses: Sequence[Words], references: References, sources: Sequence[Words], metric: Metric = BLEU
) -> Json:
    """The metric first; what shows a gamed metric; where there are references, how far outputs are from them."""
    words = sum(map(len, hypotheses))
    pairs = [list(itertools.pairwise(h)) for h in hypotheses]
    return {
        **figures_of(metric, corpus(metric, hypotheses, references)),
        **(_text_scores(hypotheses, references, sources) if all(references) else {}),
        "sentences": len(hypotheses),
        "repeated_bigrams": round(sum(len(p) - len(set(p)) for p in pairs) / max(1, sum(map(len, pairs))), 5),
        "unknown_words": round(sum(h.count("<unk>") for h in hypotheses) / max(1, words), 5),
        "distinct": round(100 * len(set(map(tuple, hypotheses))) / max(1, len(hypotheses)), 4),
    }


def _text_scores(hypotheses: Sequence[Words], references: References, sources: Sequence[Words]) -> Json:
    counts = BLEU.statistics(hypotheses, references).sum(0)
    bleu, chrf = Score(BLEU.score(counts), BLEU.signature(references)), corpus(CHRF, hypotheses, references)
    pairs = zip(sources, references, strict=True)
    short = [max(len(source), *map(len, group)) <= RELEASE_LONGEST for source, group in pairs]
    kept = itertools.compress(hypotheses, short), itertools.compress(references, short)
    filtered = corpus_bleu(list(kept[0]), list(kept[1]))
    released = {"bleu": round(filtered.value, 4), "sentences": sum(short), "longest": RELEASE_LONGEST}
    words, wanted = sum(map(len, hypotheses)), sum(len(group[0]) for group in references)
    return {
        **_signed("bleu", bleu),
        "brevity_penalty": _brevity(*map(float, counts[:2])),
        "bleu_release_filter": released,
        **_signed("chrf", chrf),
        "length_ratio": round(words / max(1, wanted), 4),
        "wrong": round(corpus(WRONG, hypotheses, references).value, 4),
    }


def _brevity(words: float, wanted: float) -> float:
    """BLEU's factor for outputs that are shorter than the nearest references, all of them together."""
    return 1.0 if words >= wanted else round(math.exp(1 - wanted / words), 4) if words else 0.0


def _signed(name: str, score: Score) -> Json:
    return {name: round(score.value, 4), f"{name}_signature": score.signature}


def caption_scores(hypotheses: Sequence[Words], references: References) -> Json:
    """What captions are judged by besides: BLEU-1 to BLEU-4, CIDEr-D and ROUGE-L, with signatures."""
    bleus = {f"bleu_{n}": score for n, score in enumerate(corpus_bleus(hypotheses, references), 1)}
    others = {key: corpus(one, hypotheses, references) for key, one in (("cider", CIDER), ("rouge_l", ROUGE_L))}
    return {key: value for item in (bleus | others).items() for key, value in _signed(*item).items()}


def measured(
    actor: Network, prepared: Prepared, split: Split, search: Search, metric: Metric, device: torch.device | str
) -> tuple[Json, list[list[str]]]:
    """Scores of an actor on a split, and its hypotheses."""
    started = time.monotonic()
    hypotheses = decode(actor, prepared, split, search, device)
    references = list(split.reference_texts())
    figures = scores(hypotheses, references, list(split.source_texts()), metric)
    if split.pictures:
        figures |= caption_scores(hypotheses, references)
    figures |= {"seconds_of_search": round(time.monotonic() - started, 2), "search": search.said()}
    return figures, hypotheses


def best_guided(
    actor: Network, prepared: Prepared, search: Search, metric: Metric, device: torch.device | str
) -> Search:
    """The search whose guide has the weight that validates best, among none and some powers of 2."""
    split = prepared.split("valid")
    references = list(split.reference_texts())

    def merit(tried: Search) -> float:
        value = corpus(metric, decode(actor, prepared, split, tried, device), references).value
        return value if metric.higher else -value

    return max((search._replace(guide_weight=weight) for weight in GUIDE_WEIGHTS), key=merit)


def conclude(
    run: Run, prepared: Prepared, actor: Network, metric: Metric, diverged: Sequence[str], device: torch.device | str
) -> str:
    """Evaluate what was trained on the test set and keep it as the run's result; the figure in a line."""
    figures, hypotheses = measured(actor, prepared, prepared.split(TEST), final_search(run.recipe), metric, device)
    write_result(run, TEST, figures | {"data": prepared.about()}, hypotheses, diverged)
    return f"test {metric.label} {figures['score']:.{metric.digits}f} ({figures['signature']})"


def final_search(recipe: Recipe) -> Search:
    """How the recipe's figures are made."""
    return Search(recipe.beam, recipe.longest_output + 1, recipe.length_penalty, raw=recipe.phase[-1].raw)


def measured_raw(
    actor: Network,
    prepared: Prepared,
    files: Sequence[Path],
    search: Search,
    metric: Metric,
    device: torch.device | str,
) -> Json:
    """Scores of an actor on two text files, cut into words as its training data was."""
    examples = list(read_parallel(*files))
    sources = [prepared.cut(example.source) for example in examples]
    references = [[prepared.reference_words(text) for text in example.references] for example in examples]
    hypotheses = translate_all(actor, prepared, sources, search, device)
    return {**scores(hypotheses, references, sources, metric), "search": search.said()}


@torch.no_grad()
def translate_all(
    actor: Network, prepared: Prepared, sentences: Sequence[Words], search: Search, device: torch.device | str
) -> list[list[str]]:
    """The best translation of each sentence in words, a few at a time."""
    found: list[list[str]] = []
    with few_threads([actor]):
        for start in range(0, len(sentences), search.batch_size):
            batch = from_sentences(sentences[start : start + search.batch_size], prepared)
            found += translate(actor, prepared, batch.source.to(device), search)
    return found


# What a run folder keeps of it


def hypotheses_file(run: Run, name: str) -> Path:
    """Where hypotheses are: those of the run's result, or of an evaluation by its name, such as a split's."""
    path = _place(run, name)
    return path if path.exists() else run.folder / "hypotheses" / path.name


def _place(run: Run, name: str) -> Path:
    return run.folder / ("hypotheses" if name == TEST else EVALUATIONS) / f"{name}.txt"


def write_hypotheses(run: Run, name: str, hypotheses: Sequence[Words]) -> str:
    """One line a sentence, tokenized; the checksum of the file."""
    path = _place(run, name)
    path.parent.mkdir(exist_ok=True)
    write_whole(path, "".join(" ".join(words) + "\n" for words in hypotheses).encode())
    return checksum(path)


def read_hypotheses(run: Run, split: str) -> list[list[str]]:
    """What `write_hypotheses` wrote of a split."""
    path = hypotheses_file(run, split)
    if not path.exists():
        where = f" --split {split}" if split != TEST else ""
        raise UserError(
            f"{run.folder} has no hypotheses of {split}; run `seqcredit evaluate {run.folder}{where}` first."
        )
    with (
        readable(path, f"`seqcredit evaluate {run.folder}` makes it anew"),
        in_words(
            UnicodeDecodeError, f"{path} is damaged, it is not UTF-8: `seqcredit evaluate {run.folder}` makes it anew."
        ),
    ):
        return [line.split(" ") if line else [] for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def evaluation_name(run: Run, split: str, search: Search, phase: str | None, metric: str) -> str:
    """The split, and what differs from the recipe's way: test-mle-beam1. The run's own result is plain `test`."""
    final, done = final_search(run.recipe), run.phases_done()
    trained = phase or (done[-1] if done else "")
    differs = {
        trained: trained != run.recipe.phase[-1].name,
        f"beam{search.width}": search.width != final.width,
        f"longest{search.bound - 1}": search.bound != final.bound,
        f"penalty{search.length_penalty:g}": search.length_penalty != final.length_penalty,
        "replaced": search.replace_unknown != final.replace_unknown,
        f"guided{search.guide_weight:g}": search.guide is not None,
        metric.replace(":", "."): metric != run.recipe.metric,
    }
    return "-".join([split, *(name for name, other in differs.items() if other)])


def keep(
    run: Run, split: str, figures: Json, hypotheses: Sequence[Words], search: Search, phase: str | None = None
) -> Path:
    """Figures and hypotheses of an evaluation together: as the run's result, or beside it under a name of their own."""
    name = evaluation_name(run, split, search, phase, figures["metric"])
    if name == TEST:
        return write_result(run, split, figures, hypotheses)
    written = write_hypotheses(run, name, hypotheses)
    result = {"phase": phase or run.phases_done()[-1], **figures, "hypotheses_checksum": written}
    return write_json(_place(run, name).with_suffix(".json"), signed(_about(run, split) | result))


def write_result(
    run: Run, split: str, figures: Json, hypotheses: Sequence[Words], diverged: Sequence[str] | None = None
) -> Path:
    """`result.json` and the hypotheses; what is not known of the training stays as an earlier result had it."""
    path = run.folder / RESULT
    before = kept.read(path, "remove it, or bring it back") if path.exists() and diverged is None else {}
    written = write_hypotheses(run, split, hypotheses)
    entries = log_entries(run.folder / "log.jsonl")
    if diverged is None and run.recipe.on_divergence == "record":
        diverged = list(dict.fromkeys(entry["phase"] for entry in entries if entry["event"] == "diverged"))
    result = {
        **_about(run, split),
        **figures,
        "hypotheses_checksum": written,
        "diverged": before.get("diverged", list(diverged or [])),
        **skipped(entries),
        "validation": validation(entries),
        "seconds": seconds(entries),
        **cost(entries),
        "peak_memory_mb": before.get("peak_memory_mb", round(peak_memory())),
        "torch": run.about["torch"],
        "vocabularies": run.about["vocabularies"],
    }
    return write_json(path, signed(result))


def skipped(entries: Sequence[Json]) -> Json:
    """The phases that did not begin, and why, if there are any."""
    last = next((entry for entry in reversed(entries) if entry["event"] == "skipped"), None)
    return {} if last is None else {"skipped": {"phases": last.get("skipped", []), "why": last.get("why", "")}}


def _about(run: Run, split: str) -> Json:
    return {"recipe": run.recipe.name, "seed": run.recipe.seed, "commit": run.about["commit"], "split": split}


def read_result(run: Run, references: References) -> tuple[Json, list[list[str]]]:
    """The run's own figures and hypotheses, of which it is made sure that they belong together."""
    path, file = run.folder / RESULT, hypotheses_file(run, TEST)
    if not path.exists():
        raise UserError(f"{run.folder} has no {RESULT}: it has not been trained to its end, `seqcredit resume` it.")
    result = kept.read(path, f"`seqcredit evaluate {run.folder}` makes it anew once it is removed")
    result.pop("checksum", None)
    hypotheses = read_hypotheses(run, TEST)
    if "hypotheses_checksum" in result:
        same = result["hypotheses_checksum"] == checksum(file)
    else:  # an older one
        same = len(hypotheses) == len(references)
        same = same and abs(corpus_bleu(hypotheses, references).value - result.get("bleu", math.inf)) < CLOSE
    if not same:
        raise UserError(
            f"{path} and {file} are not of one evaluation: `seqcredit evaluate {run.folder}` makes both anew."
        )
    return result, hypotheses


def validation(entries: Sequence[Json]) -> dict[str, float | None]:
    """The best validation figure of each finished phase, from the lines of a log."""
    return {entry["phase"]: entry.get("best") for entry in entries if entry["event"] == "phase_end"}


def seconds(entries: Sequence[Json]) -> float:
    """From the first line of a log to the last; pauses between stop and resume count."""
    return round(entries[-1].get("time", 0.0) - entries[0].get("time", 0.0), 1) if entries else 0.0


def cost(entries: Sequence[Json]) -> Json:
    """Samples drawn and seconds of CPU time, of the phases that a run has trained itself."""
    last = next((entry for entry in reversed(entries) if entry["event"] == "phase_end"), {})
    return {key: last[key] for key in ("drawn", "cpu") if key in last}


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
