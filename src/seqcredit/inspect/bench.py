"""`seqcredit bench`: what a step of each algorithm costs here, in milliseconds and in MLE steps.

Times are noisy, so steps take turns and every figure is a median over rounds.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from rich.table import Table as RichTable
from torch import Tensor

from seqcredit import algorithms
from seqcredit.algorithms import Phase
from seqcredit.inspect.paced import SOURCE_WORDS, Paced, make_batch
from seqcredit.models.critic import Critic
from seqcredit.models.memory import State
from seqcredit.models.policy import Network
from seqcredit.products import product
from seqcredit.results.evaluate import peak_memory, resident_memory
from seqcredit.rewards import Bleu
from seqcredit.search import beam
from seqcredit.training.learner import Learner
from seqcredit.types import EOS, Batch, Json, token_mask

VOCABULARIES = (4_568, 22_822)
LARGE = 131_072
WIDTH = 256
RATE = 1e-9  # weights stay where they are
PROPOSING = ("RAML", "soft Q", "VAML")  # which have M samples
PARTS = ("sampling", "reward", "actor", "critic", "target", "optimizer")  # as named in objectives and learner

PHASES: dict[str, Phase] = {
    "MLE": algorithms.Mle("mle", RATE),
    "RAML": algorithms.Raml("raml", RATE),
    "soft Q": algorithms.SoftQ("soft_q", RATE, "adam"),
    "VAML": algorithms.Vaml("vaml", RATE),
    "critic": algorithms.Critic("critic", RATE, "adam", samples=1, extra_length=10),
    "ERAC": algorithms.ActorCritic("erac", RATE, "adam"),
}


@dataclass(frozen=True)
class Step:
    """One update of one phase, at one size."""

    name: str
    vocabulary: int
    fused: bool = True
    feeding: bool = False
    words: int | None = None  # of every sentence; as in Multi30k if not given
    samples: int = 5  # M
    width: int = WIDTH

    def __str__(self) -> str:
        return ", ".join(
            [self.name, *["reference implementation"] * (not self.fused), *["input feeding"] * self.feeding]
        )

    @property
    def baseline(self) -> "Step":
        return replace(self, name="MLE", fused=True, samples=Step.samples)

    def batch(self, seed: int) -> Batch:
        """Made-up sentences."""
        return make_batch(self.vocabulary, words=self.words, seed=seed)


def steps(vocabularies: Sequence[int]) -> Iterator[Step]:
    """All that is timed: every phase; some by the reference implementation; some with input feeding."""
    for vocabulary in vocabularies:
        yield from (Step(name, vocabulary) for name in PHASES)
        yield from (Step(name, vocabulary, fused=False) for name in ("MLE", "soft Q", "ERAC"))
        yield from (Step(name, vocabulary, feeding=True) for name in ("MLE", "ERAC"))


def make_learner(step: Step) -> Learner:
    """Networks of the paper's size, and one phase."""
    size = step.vocabulary, step.width, step.width
    models: dict[str, Network] = {"actor": Paced(SOURCE_WORDS, *size, input_feeding=step.feeding)}
    if step.name in ("soft Q", "VAML"):
        models["critic"] = Critic(*size, 1, "dot", step.feeding, 0.1)
    elif step.name in ("critic", "ERAC"):
        models["critic"] = Critic(*size, 1, "mlp", step.feeding, 0.0)
    phase = replace(PHASES[step.name], fused=step.fused)
    if step.name in PROPOSING:
        phase = replace(phase, samples=step.samples)  # type: ignore[call-arg]
    return Learner(models, phase, Bleu(scaled=True))


def update(learner: Learner, batch: Batch) -> float:
    """Seconds of one update."""
    actor = learner.models.actor
    assert isinstance(actor, Paced)
    actor.prepare(batch)
    started = time.perf_counter()
    learner.update(batch)
    return time.perf_counter() - started


def time_steps(wanted: Sequence[Step], rounds: int, say: Callable[[str], None]) -> list[Json]:
    """All steps in turn, round by round, a new batch each round; the first round only warms up."""
    learners = {step: make_learner(step) for step in wanted}
    seconds: dict[Step, list[float]] = {step: [] for step in wanted}
    peaks: dict[Step, list[float]] = {step: [] for step in wanted}
    for number in range(rounds + 1):
        say(f"round {number} of {rounds}")
        for step, learner in learners.items():
            peaks[step].append(peak_gflops() if step.name == "MLE" else 1.0)
            seconds[step].append(update(learner, step.batch(number)))
    return [
        _timing(step, seconds[step][1:], seconds[step.baseline][1:], peaks[step][1:], learners[step]) for step in wanted
    ]


def _timing(
    step: Step, took: Sequence[float], baseline: Sequence[float], peaks: Sequence[float], learner: Learner
) -> Json:
    """Medians over rounds: the time, its ratio to that of MLE, tokens of the references, and the share of each part.

    Of an MLE step also how fast its products are, without what is computed again, and what share that is of the speed
    of a matrix product in the same round; else 0.
    """
    batches = [step.batch(number) for number in range(1, len(took) + 1)]
    tokens = [int(token_mask(batch.references[:, 0]).sum()) for batch in batches]
    work = [_products(batch, step.vocabulary, step.width) * (step.name == "MLE") for batch in batches]
    return {
        "step": str(step),
        "milliseconds": 1000 * statistics.median(took),
        "ratio": statistics.median(a / b for a, b in zip(took, baseline, strict=True)),
        "tokens_per_second": statistics.median(n / s for n, s in zip(tokens, took, strict=True)),
        "gflops": statistics.median(n / s for n, s in zip(work, took, strict=True)) / 1e9,
        "of_peak": statistics.median(n / s / p for n, s, p in zip(work, took, peaks, strict=True)) / 1e9,
        "shares": _shares(learner, batches[0]),
        "vocabulary": step.vocabulary,
    }


def _products(batch: Batch, vocabulary: int, D: int) -> int:
    """Floating-point operations of the matrix products of an MLE step, forward and backward."""
    read, written = (int(token_mask(side).sum()) for side in (batch.source, batch.references[:, 0]))
    attention = 2 * D * int((token_mask(batch.source).sum(-1) * token_mask(batch.references[:, 0]).sum(-1)).sum())
    encoder, decoder = 2 * 4 * (D // 2) * (D + D // 2), 4 * D * 2 * D + 2 * D * D + D * vocabulary
    return 6 * (read * encoder + written * decoder + attention)


def _shares(learner: Learner, batch: Batch) -> dict[str, float]:
    """How an update's time is spent, by torch's profiler."""
    with torch.autograd.profiler.profile(use_kineto=False) as profiler:
        whole = update(learner, batch)
    spent = {event.key: event.cpu_time_total / 1e6 for event in profiler.key_averages()}
    return {part: round(spent.get(part, 0.0) / whole, 4) for part in PARTS if part in spent}


def peak_gflops() -> float:
    """The fastest of some matrix products in float32. Measured again and again: a shared machine's speed changes."""
    a, best = torch.randn(2048, 2048), 0.0
    for _ in range(5):
        started = time.perf_counter()
        product(a, a)
        best = max(best, 2 * 2048**3 / (time.perf_counter() - started) / 1e9)
    return best


# Growth.

AXES: dict[str, tuple[int, ...]] = {
    "vocabulary": (1_024, 4_568, 22_822, 65_536),
    "words": (5, 10, 20, 40),
    "samples": (2, 5, 10, 20),
    "width": (64, 128, 256, 512),
}
GROWING = ("MLE", "RAML", "soft Q", "ERAC")


def growth(rounds: int, say: Callable[[str], None]) -> dict[str, dict[str, list[float]]]:
    """Milliseconds of a step along each axis, all else as usual; M is only for those who propose."""
    found: dict[str, dict[str, list[float]]] = {}
    for axis, values in AXES.items():
        say(f"growth with {axis}")
        names = GROWING[1:3] if axis == "samples" else GROWING
        sizes: list[Json] = [{"vocabulary": VOCABULARIES[0], axis: value} for value in values]
        found[axis] = {name: [_median(Step(name, **size), rounds) for size in sizes] for name in names}
    return found


def _median(step: Step, rounds: int) -> float:
    learner = make_learner(step)
    seconds = [update(learner, step.batch(number)) for number in range(rounds + 1)]
    return 1000 * statistics.median(seconds[1:])


# Memory, in a process of its own.


def step_memory(step: Step) -> float:
    """MB that two updates need at their peak, over an idle process that has loaded everything."""
    code = f"from seqcredit.inspect.bench import Step, child; child({step!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def child(step: Step) -> None:
    """The other process: prints its peak."""
    small = Step(step.name, 100)
    update(make_learner(small), small.batch(0))
    idle = resident_memory()
    learner = make_learner(step)
    for seed in range(2):
        update(learner, step.batch(seed))
    print(peak_memory() - idle)


# Search.


@torch.no_grad()
def time_search(vocabulary: int, sentences: int, width: int = 5) -> tuple[float, float]:
    """Seconds of a batched beam search over made-up sentences, and of one that takes them one by one."""
    model = Paced(SOURCE_WORDS, vocabulary, WIDTH, WIDTH).eval()
    batches = [make_batch(vocabulary, 100, seed=number) for number in range(max(1, sentences // 100))]
    started = time.perf_counter()
    for batch in batches:
        model.prepare(batch)
        beam(model, model.encode(batch.source), 101, width)
    batched, started = time.perf_counter() - started, time.perf_counter()
    for single in map(Batch, batches[0].source[:20].split(1), batches[0].references[:20].split(1)):
        model.prepare(single)
        _plain_beam(model, single.source, width)
    return batched, (time.perf_counter() - started) * len(batches) * 100 / 20


def _plain_beam(model: Paced, source: Tensor, width: int) -> list[int]:
    """Beam search as one would write it first: one sentence, all hypotheses that have not ended."""
    alive: list[tuple[float, list[int], State | None]] = [(0.0, [], None)]
    memory, done = model.encode(source), []
    for _ in range(100):
        grown = []
        for logp, words, state in alive:
            last = torch.tensor(words[-1:]) if words else None
            scores, after = model.step(memory, state or model.start(memory), last)
            best = scores.table().log_softmax(-1)[0].topk(width)
            grown += [
                (logp + p, [*words, w], after) for p, w in zip(best.values.tolist(), best.indices.tolist(), strict=True)
            ]
        grown = sorted(grown, key=lambda g: -g[0])[:width]
        done += [g for g in grown if g[1][-1] == EOS]
        alive = [g for g in grown if g[1][-1] != EOS]
        if not alive or (done and max(d[0] for d in done) >= alive[0][0]):
            break
    return max(done, key=lambda d: d[0])[1] if done else alive[0][1]


# What is shown.


def bench(rounds: int, say: Callable[[str], None], vocabularies: Sequence[int] = VOCABULARIES) -> Json:
    """All figures, as one record."""
    torch.manual_seed(0)
    peak = peak_gflops()
    timings = time_steps(list(steps(vocabularies)), rounds, say)
    say("memory, each step in a process of its own")
    memory = {v: step_memory(Step("ERAC", v, words=49)) for v in (*vocabularies, LARGE)}
    say("beam search")
    batched, one_by_one = time_search(vocabularies[0], 1_000)
    return {
        "threads": torch.get_num_threads(),
        "torch": str(torch.__version__),
        "rounds": rounds,
        "matrix_peak_gflops": peak,
        "steps": timings,
        "erac_peak_memory_mb": {str(v): round(mb) for v, mb in memory.items()},
        "beam_search_seconds": {"batched": batched, "one by one": one_by_one},
    }


def tables(found: Json) -> Iterator[RichTable | str]:
    """The record for people."""
    table = RichTable("V", "step", "ms", "to MLE", "tokens/s", "GFLOPS", "of peak", *PARTS)
    for row in found["steps"]:
        gflops = row["gflops"]
        table.add_row(
            f"{row['vocabulary']:,}",
            row["step"],
            f"{row['milliseconds']:,.0f}",
            f"{row['ratio']:.2f}",
            f"{row['tokens_per_second']:,.0f}",
            f"{gflops:.0f}" if gflops else "",
            f"{row['of_peak']:.0%}" if gflops else "",
            *(f"{row['shares'][part]:.1%}" if part in row["shares"] else "" for part in PARTS),
        )
    yield table
    yield f"matrix products reach {found['matrix_peak_gflops']:.0f} GFLOPS here with {found['threads']} threads"
    for vocabulary, mb in found["erac_peak_memory_mb"].items():
        yield f"ERAC, V = {int(vocabulary):,}, batch 50, 50 tokens: {mb:,} MB at its peak over an idle process"
    search = found["beam_search_seconds"]
    yield (
        f"beam search, 1,000 sentences, width 5: {search['batched']:.1f} s, one by one {search['one by one']:.0f} s "
        "(from 20 of them)"
    )


def profile(path: Path, vocabulary: int = VOCABULARIES[-1]) -> None:
    """A trace of one ERAC step for chrome://tracing or Perfetto."""
    learner, batch = make_learner(Step("ERAC", vocabulary)), make_batch(vocabulary)
    update(learner, batch)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        update(learner, batch)
    profiler.export_chrome_trace(str(path))
