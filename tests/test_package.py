"""The package as users get it: built, installed away from the repository, and run from an empty folder."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = PROJECT["version"]
EXTRAS = PROJECT["optional-dependencies"]


def run(*words: object, cwd: Path) -> str:
    """What a command says; it must succeed, and it knows nothing of the repository."""
    outside = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run([*map(str, words)], cwd=cwd, env=outside, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution, made from a copy: nothing of an older build is in them."""
    place = tmp_path_factory.mktemp("package")
    copy = place / "copy"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", place / "dist", cwd=copy)
    return place / "dist"


@pytest.fixture(scope="module")
def scripts(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment that has the wheel, and the dependencies of this environment behind it."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=False, symlinks=True)
    python, (wheel,) = place / "bin" / "python", built.glob("*.whl")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=place)
    (packages,) = place.glob("lib/python*/site-packages")
    there = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    (packages / "dependencies.pth").write_text("\n".join(sorted(there)) + "\n")
    return python.parent


def test_the_lock_fits_what_the_project_asks_for() -> None:
    """All that CI needs is locked, within every bound that is stated for it, with hashes, and torch for processors."""
    lock = (ROOT / "lock.txt").read_text()
    locked = dict(re.findall(r"^([\w.-]+)==(\S+) \\\n    --hash=sha256:[0-9a-f]{64}", lock, re.MULTILINE))
    assert len(locked) == len(re.findall(r"^\w", lock, re.MULTILINE))
    needed = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"] + EXTRAS["dev"]}
    assert needed <= set(locked)
    constraints = re.findall(r"^\w.*", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    stated = [
        Requirement(line)
        for line in [*PROJECT["dependencies"], *(one for extra in EXTRAS.values() for one in extra), *constraints]
    ]
    found = [(one, locked.get(canonicalize_name(one.name))) for one in stated]
    assert [f"{one}, locked {version}" for one, version in found if version and version not in one.specifier] == []
    assert locked["torch"].endswith("+cpu")
    assert "://" not in lock


@pytest.mark.slow
def test_what_is_built_is_whole(built: Path) -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *built.iterdir(), cwd=built)
    (wheel,), (source,) = built.glob("*.whl"), built.glob("*.tar.gz")
    assert source.name == f"seqcredit-{VERSION}.tar.gz"
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("seqcredit/")}
    files = {path for path in (ROOT / "src" / "seqcredit").rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert inside == {path.relative_to(ROOT / "src").as_posix() for path in files}


@pytest.mark.slow
def test_it_runs_from_an_empty_folder(scripts: Path, tmp_path: Path) -> None:
    where = run(scripts / "python", "-c", "import seqcredit; print(seqcredit.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(scripts.parent)
    assert run(scripts / "seqcredit", "--version", cwd=tmp_path) == f"seqcredit {VERSION}\n"
    listed = run(scripts / "seqcredit", "recipes", cwd=tmp_path)
    assert {"demo/erac", "iwslt14/vaml"} <= set(re.findall(r"[\w-]+/[\w-]+", listed))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_quick_demo_runs_from_an_empty_folder(scripts: Path, tmp_path: Path) -> None:
    """MLE, continued MLE and ERAC with a small budget: ERAC is above both."""
    said = run(scripts / "seqcredit", "demo", "--quick", cwd=tmp_path)
    rows = [line.split("│")[1:-1] for line in said.splitlines() if line.startswith("│")]
    bleu = {row[0].strip(): float(row[1]) for row in rows}
    assert list(bleu) == ["MLE", "continued MLE", "ERAC"]
    assert bleu["MLE"] > 60
    assert bleu["ERAC"] > max(bleu["MLE"], bleu["continued MLE"]) + 2
    assert [line.split()[0] for line in said.splitlines() if "(untrained" in line] == ["ERAC's"]


@pytest.mark.slow
def test_the_readme_begins_with_code_that_does_what_it_says(scripts: Path, tmp_path: Path) -> None:
    """Twelve lines and a few blank ones; the formal answer, then a casual one that is right more often."""
    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    assert code.startswith("import random\nimport seqcredit as sc\n")
    assert len([line for line in code.splitlines() if line]) <= 12
    first, formal, second, casual = run(scripts / "python", "-c", code, cwd=tmp_path).splitlines()[-4:]
    before, after = (float(line.split()[1]) for line in (first, second))
    assert after > before + 5
    assert re.fullmatch(r"it is ten o'clock|\w+ , that would be ten", formal)
    assert re.fullmatch(r"(well|so|look|oh) , that would be ten", casual)
