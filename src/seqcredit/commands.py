"""What every command of the command line does; `cli` knows their options. Imports wait until a command needs them."""

import argparse
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from seqcredit.errors import UserError

if TYPE_CHECKING:
    from seqcredit.data.prepared import Prepared
    from seqcredit.data.text import Example
    from seqcredit.inspect.numbers import Examiner
    from seqcredit.training.decoding import Search
    from seqcredit.training.processes import Processes
    from seqcredit.training.runs import Run
    from seqcredit.training.trainer import Trainer

Say = Callable[[str], None]


def prepare(options: argparse.Namespace) -> int:
    """`seqcredit prepare`."""
    from seqcredit.data import iwslt
    from seqcredit.data.images import open_features
    from seqcredit.data.prepare import prepare as write
    from seqcredit.data.prepared import PrepareOptions
    from seqcredit.data.text import TextOptions

    source, target = options.languages
    text = TextOptions(options.lowercase, options.moses, source, target, options.bpe)
    lengths = options.max_length, options.only_short
    wanted = PrepareOptions(text, options.tokenized, options.min_count, options.max_vocabulary, *lengths)
    features = open_features(options.features) if options.features else None
    if options.iwslt14:
        manifest = write(iwslt.read(options.iwslt14).splits, options.out, iwslt.OPTIONS, options.overwrite)
    else:
        manifest = write(_splits(options), options.out, wanted, options.overwrite, features)
    for name, counts in manifest.splits.items():
        unseen = f", {counts.dropped_unseen:,} pictures without features" if features else ""
        unknown = "" if features else f"{counts.unknown_source:.1%} and "
        print(
            f"{name}: {counts.examples:,} examples; dropped {counts.dropped_empty:,} empty and {counts.dropped_long:,} "
            f"long ({counts.dropped_long_share:.1%}){unseen}; unknown words {unknown}{counts.unknown_references:.1%}"
        )
    if features:
        used = sum(counts.examples for counts in manifest.splits.values())
        print(f"{len(features.names) - used:,} pictures have features and no captions here")
    read = f"{manifest.picture_width:,} features" if features else f"{manifest.source_vocabulary:,} source words"
    print(f"{read}, {manifest.target_vocabulary:,} target words, eos and unk included; written to {options.out}")
    return 0


def _splits(options: argparse.Namespace) -> "Mapping[str, Iterable[Example]]":
    """The raw examples of each split."""
    from seqcredit.data.captions import read_captions, read_karpathy
    from seqcredit.data.text import read_files

    captioning, files = options.task == "captioning", {}
    if captioning != (options.features is not None):
        raise UserError("--task captioning and --features FOLDER go together. See 'seqcredit prepare --help'.")
    if options.karpathy:
        if not captioning:
            raise UserError("--karpathy is for --task captioning. See 'seqcredit prepare --help'.")
        return read_karpathy(options.karpathy)
    files = {split: getattr(options, split) for split in ("train", "valid", "test") if getattr(options, split)}
    if not {"train", "valid"} <= set(files):
        raise UserError("--train and --valid are needed (or --iwslt14, --karpathy). See 'seqcredit prepare --help'.")
    if not captioning:
        return {split: read_files(paths) for split, paths in files.items()}
    for split, paths in files.items():
        if len(paths) > 1:
            raise UserError(f"--{split}: captions come in one file. See 'seqcredit prepare --help'.")
    return {split: read_captions(paths[0]) for split, paths in files.items()}


def features(options: argparse.Namespace) -> int:
    """`seqcredit features`; killed and given again, it goes on."""
    from seqcredit.data.images import load_backbone, write_features

    backbone = load_backbone(options.backbone, options.device)
    with _display(True) as (say, show):
        report = write_features(options.folder, options.out, backbone, options.batch_size, say, show)
    unreadable = f"{len(report.unreadable):,} unreadable" + "".join(f", {name}" for name in report.unreadable)
    print(f"{report.images:,} images of {report.width:,} numbers; {unreadable}")
    print(f"{report.per_second:.1f} images a second; written to {options.out}")
    return 0


def train(options: argparse.Namespace) -> int:
    """`seqcredit train`."""
    from seqcredit import config
    from seqcredit.training.processes import Processes
    from seqcredit.training.runs import Run
    from seqcredit.training.start import open_data, take_over

    processes = Processes.join()
    changes = [*options.set, *([] if options.seed is None else [f"seed={options.seed}"])]
    recipe = config.load(options.recipe, changes)
    recipe = config.until(recipe, options.until) if options.until else recipe
    prepared = open_data(options.data or Path(recipe.data))
    out = options.out or Path("runs") / f"{options.recipe.stem}-{recipe.seed}"
    if processes.writes:
        run = Run.create(
            out, config.found(options.recipe).read_text(encoding="utf-8"), recipe, prepared.folder, prepared.checksums
        )
        if options.init_from:
            take_over(run, options.init_from, print)
    processes.wait()
    return _go(Run.open(out), prepared, options, processes)


def resume(options: argparse.Namespace) -> int:
    """`seqcredit resume`."""
    from seqcredit.training.processes import Processes
    from seqcredit.training.runs import Run
    from seqcredit.training.start import open_data

    run = Run.open(options.run_folder)
    return _go(run, open_data(run.data, run.about["vocabularies"]), options, Processes.join())


def _go(run: "Run", prepared: "Prepared", options: argparse.Namespace, processes: "Processes") -> int:
    """Train what is left, then evaluate on the test set."""
    from seqcredit.results import evaluate as report
    from seqcredit.training.trainer import StoppedError, Trainer

    _use_threads(options)
    with _display(processes.writes) as (say, show):
        trainer = Trainer(
            run,
            prepared,
            say,
            options.device,
            options.log_every,
            options.checkpoint_minutes,
            processes,
            show,
            options.tensorboard,
        )
        _stop_on_interrupt(trainer)
        try:
            trainer.train()
        except StoppedError:
            raise UserError(f"stopped and saved; continue with `seqcredit resume {run.folder}`.") from None
    if processes.writes and "test" in prepared.manifest.splits and run.trains_an_actor():
        search, metric = report.final_search(run.recipe), report.metric_of(run, prepared)
        figures, hypotheses = report.evaluate(
            run, prepared, prepared.split("test"), search, options.device, metric=metric
        )
        report.write_result(run, "test", figures, hypotheses, trainer.progress.diverged)
        print(f"test {metric.label} {figures['score']:.{metric.digits}f} ({figures['signature']})")
    processes.leave()
    if processes.writes:
        print(f"done: {run.folder}")
    return 0


def sweep(options: argparse.Namespace) -> int:
    """`seqcredit sweep`: 0 if every cell is done, 1 if one has failed."""
    from rich.console import Console
    from rich.live import Live

    from seqcredit.experiments import sweep as report
    from seqcredit.experiments.plan import read

    if options.threads < 1 or (options.jobs is not None and options.jobs < 1):
        raise UserError("--jobs and --threads: at least one is needed.")
    jobs = options.jobs or max(1, (os.cpu_count() or 1) // options.threads)
    plan = read(options.file, options.data_root, options.into, options.only, options.set)
    machine = report.Machine(jobs, options.threads, options.device)
    for note in plan.notes():
        print(note, flush=True)
    if options.dry_run:
        print("\n".join(report.outline(plan, jobs)))
        return 0
    console = Console(highlight=False)
    if not console.is_terminal:
        return report.Sweep(plan, machine, lambda line: print(line, flush=True), metric=options.metric).run()
    with Live(console=console, auto_refresh=False) as live:

        def say(line: str) -> None:
            console.print(line, markup=False, soft_wrap=True)

        return report.Sweep(plan, machine, say, lambda grid: live.update(grid, refresh=True), options.metric).run()


def _use_threads(options: argparse.Namespace) -> None:
    """As many threads as were asked for, or as torch would take."""
    import torch

    if options.threads:
        torch.set_num_threads(options.threads)


@contextlib.contextmanager
def _display(writes: bool) -> Iterator[tuple[Say, Say | None]]:
    """Where lines that stay go, and, on a terminal, where the live one goes."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    if not writes:
        yield (lambda _: None), None
    elif not console.is_terminal:
        yield (lambda line: print(line, flush=True)), None
    else:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            yield (
                lambda line: console.print(line, markup=False, soft_wrap=True),
                lambda line: live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True),
            )


def _stop_on_interrupt(trainer: "Trainer") -> None:
    """Ctrl-C ends a run after its update, so that it can go on exactly; pressed again, at once."""

    def interrupt(*_: object) -> None:
        if trainer.stop:
            raise KeyboardInterrupt
        trainer.stop = True

    signal.signal(signal.SIGINT, interrupt)


def evaluate(options: argparse.Namespace) -> int:
    """`seqcredit evaluate`."""
    from seqcredit.results import evaluate as report
    from seqcredit.training.runs import Run
    from seqcredit.training.start import open_data

    run = Run.open(options.run_folder)
    prepared = open_data(run.data, run.about["vocabularies"])
    search = _search(run.recipe.beam, run.recipe.longest_output, options)
    metric, written = report.metric_of(run, prepared, options.metric), None
    if options.raw:
        source, reference = options.raw
        figures = report.evaluate_raw(run, prepared, source, reference, search, options.device, options.phase, metric)
    else:
        figures, hypotheses = report.evaluate(
            run, prepared, prepared.split(options.split), search, options.device, options.phase, metric
        )
        written = report.keep(run, options.split, figures, hypotheses, search, options.phase)
    if options.json:
        print(json.dumps(figures, indent=1))
    else:
        for key, value in figures.items():
            print(f"{key:22} {value}")
    if written:
        print(f"written to {written}, with its hypotheses", file=sys.stderr if options.json else sys.stdout)
    return 0


def translate(options: argparse.Namespace) -> int:
    """`seqcredit translate`: reads, translates and prints a line at a time."""
    import torch

    from seqcredit.data.text import lines
    from seqcredit.results import evaluate as report
    from seqcredit.training.decoding import n_best
    from seqcredit.training.runs import Run
    from seqcredit.training.start import open_data

    run = Run.open(options.run_folder)
    prepared = open_data(run.data, run.about["vocabularies"])
    actor = report.load_actor(run, prepared, torch.device(options.device), options.phase)
    search = _search(run.recipe.beam, run.recipe.longest_output, options)
    search = search._replace(width=max(search.width, options.n_best))
    if prepared.pictures:
        raise UserError(f"{run.folder} describes pictures: use `seqcredit caption`.")
    for number, line in enumerate(sys.stdin if options.file == "-" else lines(Path(options.file)), 1):
        for words, logp in n_best(actor, prepared, line, search, options.n_best, options.device):
            fields = [str(number)] if options.n_best > 1 else []
            fields += [f"{logp:.4f}"] if options.scores else []
            print("\t".join([*fields, prepared.sentence(words)]), flush=True)
    return 0


def caption(options: argparse.Namespace) -> int:
    """`seqcredit caption`: a line a picture, or n of them."""
    import torch

    from seqcredit.data.images import load_backbone
    from seqcredit.results import evaluate as report
    from seqcredit.training.decoding import best_of
    from seqcredit.training.runs import Run
    from seqcredit.training.start import open_data

    run = Run.open(options.run_folder)
    prepared = open_data(run.data, run.about["vocabularies"])
    if not prepared.pictures:
        raise UserError(f"{run.folder} translates: use `seqcredit translate`.")
    missing = [str(path) for path in options.pictures if not path.is_file()]
    if missing:
        raise UserError(f"There is no file {missing[0]}: give pictures that exist.")
    backbone, width = load_backbone(options.backbone, options.device), prepared.manifest.picture_width
    if backbone.width != width:
        raise UserError(f"{run.folder} was trained on {width} features, and {backbone.name} gives {backbone.width}.")
    actor = report.load_actor(run, prepared, torch.device(options.device), options.phase)
    search = _search(run.recipe.beam, run.recipe.longest_output, options)
    search = search._replace(width=max(search.width, options.n_best))
    for path in options.pictures:
        try:
            picture = backbone([path]).to(options.device)
        except Exception as error:  # damaged files make Pillow raise almost anything
            raise UserError(f"{path} cannot be read as a picture: {error}.") from None
        for words, logp in best_of(actor, prepared, picture, search, options.n_best):
            scores = [f"{logp:.4f}"] if options.scores else []
            print("\t".join([str(path), *scores, prepared.sentence(words)]), flush=True)
    return 0


def sheet(options: argparse.Namespace) -> int:
    """`seqcredit sheet`."""
    from seqcredit.inspect.sheet import sheet as write
    from seqcredit.training.runs import Run
    from seqcredit.training.start import open_data

    runs = [Run.open(folder) for folder in options.run_folders]
    prepared = open_data(runs[0].data)
    count = write(runs, prepared, options.split, options.photographs, options.count, options.out)
    print(f"{count} photographs, written to {options.out}")
    return 0


def compare(options: argparse.Namespace) -> int:
    """`seqcredit compare`."""
    from seqcredit.results.compare import compare as lines
    from seqcredit.training.runs import Run

    runs = Run.open(options.baseline), Run.open(options.system)
    for line in lines(*runs, options.split, options.show, options.metric):
        print(line)
    return 0


def headroom(options: argparse.Namespace) -> int:
    """`seqcredit headroom`: each run keeps its figures as soon as they are there."""
    from seqcredit.experiments.history import labels
    from seqcredit.results import cells, layouts, tables
    from seqcredit.training.runs import Run
    from seqcredit.training.start import open_data

    runs = [Run.open(folder) for folder in dict.fromkeys(options.run_folders)]
    names = labels([run.folder for run in runs])
    rows = [
        replace(cell, name=name) for run, name in zip(runs, names, strict=True) for cell in cells.read([run.folder])
    ]
    cells.check_alike(rows)
    for run in runs:
        data = open_data(run.data, run.about["vocabularies"])
        _measure(run, data, options.split, options.samples, options, options.metric)
    print(tables.markdown(layouts.headroom(rows)), end="")
    return 0


def _measure(
    run: "Run",
    prepared: "Prepared",
    split: str,
    samples: int,
    options: argparse.Namespace,
    metric: str | None = None,
) -> None:
    """The headroom of a run, into its folder."""
    from seqcredit.results import headroom as report

    _use_threads(options)
    with _display(True) as (say, show):
        passing = show or (lambda _: None)
        report.write(run, report.measure(run, prepared, split, samples, options.device, passing, metric))
        say(f"{run.folder}: headroom kept in {run.folder / report.FILE}")


def inspect(options: argparse.Namespace) -> int:
    """`seqcredit inspect`."""
    from seqcredit.inspect import page
    from seqcredit.inspect.numbers import inspect_split, inspect_typed

    if options.reference and options.source is None:
        raise UserError("--reference belongs to a sentence of your own: give --source too.")
    runs, prepared, judges = _judges(options)
    if options.source is not None:
        subjects = [inspect_typed(judges, prepared, options.source, options.reference)]
    else:
        subjects = inspect_split(runs, judges, prepared, prepared.split(options.split), options.count)
    where = options.split if options.source is None else "your own"
    names = ", ".join(judge.name for judge in judges)
    noun = "pictures" if prepared.pictures else "sentences" if len(subjects) > 1 else "sentence"
    data = page.payload(judges, subjects, f"{names}: {len(subjects):,} {noun} of {where}", prepared.pictures)
    if options.photographs:
        if not prepared.pictures:
            raise UserError(f"{prepared.folder} holds no pictures: leave out --photographs.")
        page.add_photographs(data, options.photographs)
    size = page.write(data, options.out)
    print(f"{len(subjects):,} examples, {size / 1e6:.1f} MB, written to {options.out}; open it in a browser")
    return 0


def serve(options: argparse.Namespace) -> int:
    """`seqcredit serve`."""
    from seqcredit.data.images import load_backbone
    from seqcredit.inspect.app import Desk
    from seqcredit.inspect.app import serve as answer

    _, prepared, judges = _judges(options)
    backbone = load_backbone(options.backbone, options.device) if prepared.pictures else None
    answer(Desk(judges, prepared, backbone), options.host, options.port, lambda line: print(line, flush=True))
    return 0


def _judges(options: argparse.Namespace) -> "tuple[list[Run], Prepared, list[Examiner]]":
    """Runs that are looked at together, their data, and their networks."""
    from seqcredit.inspect.numbers import load_examiners
    from seqcredit.training.runs import Run
    from seqcredit.training.start import open_data

    _use_threads(options)
    runs = [Run.open(folder) for folder in options.run_folders]
    lender = Run.open(options.critic) if options.critic else None
    prepared = open_data(runs[0].data, runs[0].about["vocabularies"])
    return runs, prepared, load_examiners(runs, prepared, lender, options.device)


def record(options: argparse.Namespace) -> int:
    """`seqcredit record`."""
    from seqcredit.results.record import record as write
    from seqcredit.training.runs import Run
    from seqcredit.training.start import open_data

    run = Run.open(options.run_folder)
    prepared = open_data(run.data, run.about["vocabularies"])
    if options.headroom is not None:
        _measure(run, prepared, "valid", options.headroom, options)
    write(run, prepared, options.cell, [Run.open(folder) for folder in options.against])
    print(f"written to {options.cell}, with the hypotheses and their counts beside it")
    return 0


def results(options: argparse.Namespace) -> int:
    """`seqcredit results`."""
    from seqcredit.results.record import table

    print(table(options.folder), end="")
    return 0


def table(options: argparse.Namespace) -> int:
    """`seqcredit table`."""
    from seqcredit.results import cells, layouts, tables

    found = cells.read(options.cells, options.metric)
    if options.layout != "plain" and options.baseline:
        raise UserError("--baseline is for --layout plain. See 'seqcredit table --help'.")
    made = (
        tables.plain(found, options.baseline) if options.layout == "plain" else layouts.LAYOUTS[options.layout](found)
    )
    print(tables.FORMATS[options.format](made), end="")
    if options.format == "csv":
        for note in made.notes:
            print(note, file=sys.stderr)
    return 0


def report(options: argparse.Namespace) -> int:
    """`seqcredit report`: with --check 0 if everything is as it would be written, 1 otherwise."""
    from seqcredit.results.report import make

    made = make(options.file, options.out)
    if not options.check:
        made.write()
        print(f"written to {options.out}" + "".join(f", {path}" for path in made.figures))
        return 0
    stale = made.stale()
    if stale:
        listed, verb = ", ".join(map(str, stale)), "is" if len(stale) == 1 else "are"
        print(f"seqcredit: {listed} {verb} not what {options.file} gives: run `seqcredit report`.", file=sys.stderr)
    return 1 if stale else 0


def plot(options: argparse.Namespace) -> int:
    """`seqcredit plot`."""
    from seqcredit.experiments.history import history, labels
    from seqcredit.inspect import numbers as inspection
    from seqcredit.results import cells, plots
    from seqcredit.training.runs import Run
    from seqcredit.training.start import open_data

    plots.check(options.out)
    if options.kind == "tau":
        plots.tau(cells.read(options.cells), options.out)
    elif options.kind == "ablation":
        plots.ablation(cells.read(options.cells), options.out)
    elif options.kind == "curves":
        runs = [Run.open(folder) for folder in options.run_folders]
        names = labels([run.folder for run in runs])
        plots.curves({name: history(run) for name, run in zip(names, runs, strict=True)}, options.out)
    else:
        run = Run.open(options.run_folder)
        prepared = open_data(run.data, run.about["vocabularies"])
        lender = Run.open(options.critic) if options.critic else None
        plots.credit(inspection.inspect_one(run, prepared, options.split, options.sentence, lender), options.out)
    print(f"written to {options.out}")
    return 0


def watch(options: argparse.Namespace) -> int:
    """`seqcredit watch`: until all runs are done, or Ctrl-C."""
    import time

    from rich.console import Console
    from rich.live import Live

    from seqcredit.inspect import watch as watching

    if not options.every > 0:
        raise UserError(f"--every {options.every:g}: give seconds above 0.")

    def look() -> list[watching.Watched]:
        found = watching.states(options.run_folders)
        if options.html:
            watching.write_page(options.html, found, options.every)
        return found

    console, found = Console(highlight=False), look()
    if options.once or all(state.done for state in found):
        console.print(watching.screen(found, console.width))
        return 0
    shown = watching.screen(found, console.width)
    with contextlib.suppress(KeyboardInterrupt), Live(shown, console=console, auto_refresh=False) as live:
        while not all(state.done for state in found):
            time.sleep(options.every)
            found = look()
            live.update(watching.screen(found, console.width), refresh=True)
    return 0


def export(options: argparse.Namespace) -> int:
    """`seqcredit export`."""
    from seqcredit.results.export import export as write
    from seqcredit.training.runs import Run
    from seqcredit.training.start import open_data

    run = Run.open(options.run_folder)
    write(run, open_data(run.data, run.about["vocabularies"]), options.out, options.phase)
    print(f"written to {options.out}; try `seqcredit translate {options.out}`")
    return 0


def demo(options: argparse.Namespace) -> int:
    """`seqcredit demo`."""
    import torch
    from rich.console import Console

    from seqcredit.results import demo as report

    torch.set_num_threads(2)
    out, console = options.out or Path("runs") / report.RECIPES[options.task], Console()
    console.print(report.demo(out, lambda line: print(line, flush=True), options.task, options.only))
    for line in report.credit_lines(out) if options.task == "translation" else ():
        print(line, flush=True)
    print("\nNext:")
    for line in report.next_steps(out, options.task):
        print(f"  {line}")
    return 0


def recipes(options: argparse.Namespace) -> int:
    """`seqcredit recipes`."""
    from seqcredit.experiments import catalogue as report

    if options.name:
        print(report.show(options.name), end="")
    else:
        for name, about in report.listing():
            print(f"{name:42} {about}")
    return 0


def bench(options: argparse.Namespace) -> int:
    """`seqcredit bench`."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # torch's profiler announces itself otherwise
    from rich.console import Console

    from seqcredit.inspect import bench as report

    if options.rounds < 1:
        raise UserError(f"--rounds {options.rounds}: at least one round is needed.")
    _use_threads(options)
    if options.profile:
        report.profile(options.profile)
        print(f"written to {options.profile}; open it in chrome://tracing or ui.perfetto.dev")
        return 0

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    if options.growth:
        from seqcredit.results import plots

        plots.check(options.growth)
        grown = report.growth(options.rounds, say)
        plots.growth(grown, report.AXES, options.growth)
        print(json.dumps({"axes": report.AXES, "milliseconds": grown}, indent=1))
        return 0
    found = report.bench(options.rounds, say)
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
        for shown in report.tables(found):
            console.print(shown)
    return 0


def _search(beam: int, longest: int, options: argparse.Namespace) -> "Search":
    from seqcredit.training.decoding import Search

    return Search(options.beam or beam, longest + 1, options.length_penalty, options.replace_unknown)


def verify(options: argparse.Namespace) -> int:
    """`seqcredit verify`: 0 if every claim holds to 1e-9 in float64, 1 otherwise."""
    import torch
    from rich.console import Console
    from rich.progress import track

    from seqcredit.results import verify as report

    torch.set_num_threads(1)  # thousands of small tensors: threads only wait for each other
    progress = Console(stderr=True)
    cells = track(report.checks(), "checking", report.COUNT, console=progress, transient=True)
    results = list(cells if progress.is_terminal else report.checks())
    if options.json:
        print(json.dumps([cell._asdict() for cell in results], indent=1))
    else:
        console = Console()
        console.print(report.summary(results))
        console.print(report.scope(results), highlight=False)
    return 0 if all(cell.passed for cell in results) else 1
