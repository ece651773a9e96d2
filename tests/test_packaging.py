"""Distributions contain the linked top-level folders as real packages under `morrow`, typed, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_docs import README, SHELLS, blocks

ROOT = Path(__file__).parent.parent
LINKED = ("engine", "readers", "writers")
SHIPPED = ("morrow", *LINKED, "pyproject.toml", "README.md", "LICENSE")

BUILD = "from setuptools import build_meta; import sys; build_meta.build_{kind}(sys.argv[1])"


def build(kind: str, source: Path, into: Path) -> Path:
    """Build `source` with the installed backend, without a network or a temporary environment."""
    into.mkdir()
    command = [sys.executable, "-c", BUILD.format(kind=kind), str(into)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = into.iterdir()
    return built


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build an sdist from a copy of the tree, so that build folders are neither created in the tree nor packaged."""
    scratch = tmp_path_factory.mktemp("sdist")
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    for name in SHIPPED:
        source, target = ROOT / name, scratch / "tree" / name
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, ignore=ignore)
        else:
            shutil.copy(source, target)
    return build("sdist", scratch / "tree", scratch / "out")


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from the sdist, as pip does, which also checks that the sdist is complete."""
    scratch = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch, filter="data")
    (unpacked,) = scratch.iterdir()
    return build("wheel", unpacked, scratch / "out")


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def sources() -> Iterator[str]:
    """Yield every module, Java source and logging configuration by its path in the wheel."""
    for folder in LINKED:
        for path in (ROOT / folder).rglob("*.py"):
            yield f"morrow/{path.relative_to(ROOT).as_posix()}"
    for path in (ROOT / "morrow").rglob("*.py"):
        if path.relative_to(ROOT / "morrow").parts[0] not in LINKED:
            yield path.relative_to(ROOT).as_posix()
    for path in (ROOT / "morrow" / "spark").rglob("*.[jp]*"):
        if path.suffix in (".java", ".properties"):
            yield path.relative_to(ROOT).as_posix()


def test_the_wheel_holds_every_module_and_the_typing_marker(wheel: Path) -> None:
    assert names(wheel) == {*sources(), "morrow/py.typed"}


@pytest.mark.parametrize("folder", LINKED)
def test_a_linked_folder_is_a_package_of_real_files(wheel: Path, folder: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        shipped = archive.read(f"morrow/{folder}/__init__.py")

    assert shipped == (ROOT / folder / "__init__.py").read_bytes()


def test_the_wheel_names_its_licence_and_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        texts = {Path(name).name: archive.read(name).decode() for name in archive.namelist() if ".dist-info/" in name}

    assert "License-Expression: Apache-2.0" in texts["METADATA"]
    assert "morrow = morrow.cli:main" in texts["entry_points.txt"]
    assert "Apache License" in texts["LICENSE"]


@pytest.fixture(scope="module")
def fresh_environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment with the wheel, which finds dependencies in the environment of the tests."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    # A folder in a .pth file is searched, but its own .pth files, such as the one of an editable Morrow, are not read.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", "--no-compile", str(wheel)], check=True)
    return folder


def test_the_readme_runs_line_by_line_from_an_empty_folder(fresh_environment: Path, tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["PATH"] = f"{fresh_environment / 'bin'}{os.pathsep}{environment['PATH']}"
    runnable = [block for block in blocks(README) if not block.exempt]
    script = "\n".join(block.text for block in runnable if block.language == "python")
    script += f"\nassert morrow.__file__.startswith({str(fresh_environment)!r})"
    commands = [line for block in runnable if block.language in SHELLS for line in block.commands()]

    for line in [*commands, "python -c 'import sys; exec(sys.stdin.read())'", "morrow ls lake"]:
        started = time.perf_counter()
        done = subprocess.run(
            line, shell=True, cwd=tmp_path, env=environment, input=script, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        print(f"{time.perf_counter() - started:.1f} s  {line}")  # visible with pytest -s

    assert "stock" in done.stdout
    assert commands[0].startswith("morrow demo")
