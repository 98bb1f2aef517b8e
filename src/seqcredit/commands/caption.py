"""`seqcredit caption`: a line for each image, or n of them."""

import argparse

from seqcredit.commands import shared
from seqcredit.errors import UserError, require

ABOUT = "write captions for images"


def options(parser: argparse.ArgumentParser) -> None:
    """By which run, which images, and how."""
    shared.run_argument(parser)
    parser.add_argument("pictures", nargs="+", type=shared.given, metavar="IMAGE", help="JPEG or PNG files")
    parser.add_argument("--n-best", type=shared.width, default=1, metavar="N", help="print the N best")
    parser.add_argument("--scores", action="store_true", help="print the log-probability before each")
    shared.backbone_option(parser)
    shared.search_options(parser)


def run(options: argparse.Namespace) -> int:
    """Look at each image, and say what is on it."""
    from seqcredit.data.images import load_backbone
    from seqcredit.experiments.build import load_actor
    from seqcredit.training.decoding import best_of

    device = shared.use_device(options)
    found, prepared = shared.open_run(options.run_folder)
    require(prepared.pictures, f"{found.folder} translates: use `seqcredit translate`.")
    missing = [str(path) for path in options.pictures if not path.is_file()]
    if missing:
        raise UserError(f"There is no file {missing[0]}: give images that exist.")
    backbone, width = load_backbone(options.backbone, options.device), prepared.manifest.picture_width
    if backbone.width != width:
        raise UserError(f"{found.folder} was trained on {width} features, and {backbone.name} gives {backbone.width}.")
    actor = load_actor(found, prepared, device, options.phase)
    search = shared.weighed(shared.guided(shared.search_of(found, options, options.n_best), options, prepared), options)
    for path in options.pictures:
        try:
            picture = backbone([path]).to(device)
        except Exception as error:  # damaged files make Pillow raise almost anything
            raise UserError(f"{path} cannot be read as an image: {error}.") from None
        for words, logp in best_of(actor, prepared, picture, search, options.n_best):
            scores = [f"{logp:.4f}"] if options.scores else []
            print("\t".join([str(path), *scores, prepared.sentence(words)]), flush=True)
    return 0
