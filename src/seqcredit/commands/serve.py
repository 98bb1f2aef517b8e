"""`seqcredit serve`: the credit page live."""

import argparse

from seqcredit.commands import shared

ABOUT = "serve the credit page live: translate, score, edit"


def options(parser: argparse.ArgumentParser) -> None:
    """Which runs, and where the page is."""
    shared.runs_argument(parser)
    parser.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1, only this computer")
    parser.add_argument("--port", type=shared.port, default=8765, help="default: 8765; 0 picks a free one")
    shared.backbone_option(parser)
    shared.examiner_options(parser)


def run(options: argparse.Namespace) -> int:
    """Answer until Ctrl-C."""
    from seqcredit.data.images import load_backbone
    from seqcredit.inspect.app import serve
    from seqcredit.inspect.desk import Desk

    judges = shared.open_examiners(options)
    backbone = load_backbone(options.backbone, options.device) if judges[0].prepared.pictures else None
    serve(Desk(judges, backbone), options.host, options.port, lambda line: print(line, flush=True))
    return 0
