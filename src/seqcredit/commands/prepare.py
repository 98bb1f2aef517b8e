"""`seqcredit prepare`: parallel text or captions become a folder of arrays and vocabularies."""

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from seqcredit.commands import shared
from seqcredit.errors import UserError, require

if TYPE_CHECKING:
    from seqcredit.data.images import Features
    from seqcredit.data.manifest import Manifest
    from seqcredit.data.text import Example

ABOUT = "turn parallel text or captions into a folder that training reads"
SEE = "See 'seqcredit prepare --help'."


def options(parser: argparse.ArgumentParser) -> None:
    """Where the text is, how it is cut, and which words are kept."""
    parser.add_argument("out", metavar="OUT", type=shared.wanted, help="the folder to make")
    for split in ("train", "valid", "test"):
        about = "two parallel text files, or one .tsv, or one .jsonl; captions as .tsv or as MSCOCO's .json"
        parser.add_argument(f"--{split}", nargs="+", type=shared.given, metavar="FILE", help=about)
    parser.add_argument(
        "--task", choices=("translation", "captioning"), default="translation", help="default: translation"
    )
    parser.add_argument(
        "--features", type=shared.given, metavar="FOLDER", help="captioning: the folder that `seqcredit features` wrote"
    )
    parser.add_argument(
        "--karpathy",
        type=shared.given,
        metavar="FILE",
        help="captioning: a dataset_*.json with all splits, instead of --train, --valid and --test",
    )
    parser.add_argument(
        "--iwslt14",
        type=shared.given,
        metavar="FOLDER",
        help="the unpacked IWSLT14 de-en archive, instead of --train, --valid and --test",
    )
    parser.add_argument("--tokenized", action="store_true", help="the text is already tokenized: split it at spaces")
    parser.add_argument("--lowercase", action="store_true", help="lowercase the text")
    parser.add_argument("--moses", action="store_true", help="tokenize with Moses")
    languages = ("SOURCE", "TARGET")
    parser.add_argument(
        "--languages", nargs=2, metavar=languages, default=(None, None), help="for --moses, such as de en"
    )
    parser.add_argument(
        "--bpe",
        type=shared.positive,
        metavar="SIZE",
        help="split words into SIZE byte-pair pieces (needs sentencepiece)",
    )
    about = "replace words that occur fewer than N times by <unk> (default: 1)"
    parser.add_argument("--min-count", type=shared.natural, default=1, metavar="N", help=about)
    parser.add_argument(
        "--max-vocabulary", type=shared.positive, metavar="N", help="keep only the N most frequent words"
    )
    parser.add_argument("--max-length", type=shared.positive, metavar="N", help="drop training pairs with more tokens")
    parser.add_argument(
        "--only-short", type=shared.positive, metavar="N", help="drop pairs with more tokens from every split"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a folder that an earlier `prepare` made")


def run(options: argparse.Namespace) -> int:
    """Read, count, write, and say what became of every split."""
    from seqcredit.data import iwslt
    from seqcredit.data.images import open_features
    from seqcredit.data.manifest import PrepareOptions
    from seqcredit.data.prepare import prepare
    from seqcredit.data.text import TextOptions

    source, target = options.languages
    text = TextOptions(options.lowercase, options.moses, source, target, options.bpe)
    lengths = options.max_length, options.only_short
    wanted = PrepareOptions(text, options.tokenized, options.min_count, options.max_vocabulary, *lengths)
    features = open_features(options.features) if options.features else None
    if options.iwslt14:
        manifest = prepare(iwslt.read(options.iwslt14), options.out, iwslt.OPTIONS, options.overwrite)
    else:
        manifest = prepare(_splits(options), options.out, wanted, options.overwrite, features)
    _say(manifest, features, options.out)
    return 0


def _splits(options: argparse.Namespace) -> "Mapping[str, Iterable[Example]]":
    """The raw examples of each split."""
    from seqcredit.data.captions import read_captions, read_karpathy
    from seqcredit.data.text import read_files

    captioning, files = options.task == "captioning", {}
    if captioning != (options.features is not None):
        raise UserError(f"--task captioning and --features FOLDER go together. {SEE}")
    if options.karpathy:
        require(captioning, f"--karpathy is for --task captioning. {SEE}")
        return read_karpathy(options.karpathy)
    files = {split: getattr(options, split) for split in ("train", "valid", "test") if getattr(options, split)}
    require({"train", "valid"} <= set(files), f"--train and --valid are needed (or --iwslt14, --karpathy). {SEE}")
    if not captioning:
        return {split: read_files(paths) for split, paths in files.items()}
    for split, paths in files.items():
        require(len(paths) == 1, f"--{split}: captions come in one file. {SEE}")
    return {split: read_captions(paths[0]) for split, paths in files.items()}


def _say(manifest: "Manifest", features: "Features | None", out: Path) -> None:
    """What was kept and dropped, a line a split."""
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
    print(f"{read}, {manifest.target_vocabulary:,} target words, eos and unk included; written to {out}")
