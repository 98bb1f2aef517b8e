"""`seqcredit features`: images become rows of numbers; if it was interrupted, it goes on."""

import argparse

from seqcredit.commands import shared

ABOUT = "turn a folder of images into features that training reads"


def options(parser: argparse.ArgumentParser) -> None:
    """Which images, where to, by which network."""
    parser.add_argument("folder", metavar="FOLDER", type=shared.given, help="a folder of .jpg, .jpeg and .png files")
    parser.add_argument(
        "out", metavar="OUT", type=shared.wanted, help="the folder to write features.npy and features.txt into"
    )
    shared.backbone_option(parser, "efficientnet-lite2 (default), or resnet101, which needs torchvision")
    shared.count_option(parser, "--batch-size", 16, "images at a time")
    shared.device_option(parser)


def run(options: argparse.Namespace) -> int:
    """Write what is not there yet, and say how many."""
    from seqcredit.data.images import load_backbone, write_features

    shared.use_device(options)
    backbone = load_backbone(options.backbone, options.device)
    with shared.display() as (say, show):
        report = write_features(options.folder, options.out, backbone, options.batch_size, say, show)
    unreadable = f"{len(report.unreadable):,} unreadable" + "".join(f", {name}" for name in report.unreadable)
    print(f"{report.images:,} images of {report.width:,} numbers; {unreadable}")
    print(f"{report.per_second:.1f} images a second; written to {options.out}")
    return 0
