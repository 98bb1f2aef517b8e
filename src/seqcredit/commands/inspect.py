"""`seqcredit inspect`: the credit page."""

import argparse
from pathlib import Path

from seqcredit.commands import shared
from seqcredit.errors import UserError, require

ABOUT = "show the credit of every token on an HTML page"


def options(parser: argparse.ArgumentParser) -> None:
    """Which runs, which examples, and where to."""
    shared.runs_argument(parser)
    shared.split_option(parser)
    shared.count_option(parser, "--count", 1000, "maximum number of examples")
    parser.add_argument("--source", metavar="TEXT", help="a sentence of your own instead of a split")
    about = "a translation of it; may be given several times"
    parser.add_argument("--reference", action="append", default=[], metavar="TEXT", help=about)
    parser.add_argument("--images", type=shared.given, metavar="FOLDER", help="captioning: where the images are")
    parser.add_argument(
        "--out", type=shared.wanted, default=Path("credit.html"), metavar="FILE", help="default: credit.html"
    )
    parser.add_argument("--open", action="store_true", help="open it in the browser")
    shared.examiner_options(parser)


def run(options: argparse.Namespace) -> int:
    """Judge the examples, and write the page."""
    import webbrowser

    from seqcredit.inspect import page
    from seqcredit.inspect.subjects import inspect_split, inspect_typed

    if options.reference and options.source is None:
        raise UserError("--reference belongs to a sentence of your own: give --source too.")
    judges = shared.open_examiners(options)
    prepared = judges[0].prepared
    if options.source is not None:
        subjects = [inspect_typed(judges, options.source, options.reference)]
    else:
        subjects = inspect_split(judges, prepared.split(options.split), options.count)
    where = options.split if options.source is None else "your own"
    names = ", ".join(judge.name for judge in judges)
    noun = "images" if prepared.pictures else "sentences" if len(subjects) > 1 else "sentence"
    data = page.payload(judges, subjects, f"{names}: {len(subjects):,} {noun} of {where}", prepared.pictures)
    if options.images:
        require(prepared.pictures, f"{prepared.folder} holds no images: leave out --images.")
        page.add_images(data, options.images)
    size = page.write(data, options.out)
    then = "" if options.open else "; open it in a browser"
    print(f"{len(subjects):,} examples, {size / 1e6:.1f} MB, written to {options.out}{then}", flush=True)
    if options.open and not webbrowser.open(options.out.resolve().as_uri()):
        raise UserError(f"There is no browser here: open {options.out} on a computer that has one.")
    return 0
