"""The tests of pypaimon: fetched from Paimon's repository, with imports of `morrow.compat.pypaimon`."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

REPOSITORY = "https://github.com/apache/paimon"
SUITE = "paimon-python"
TESTS = "pypaimon/tests"
PACKAGE = "pypaimon_tests"
"""The name of the package of the changed tests."""
DEFAULT_VERSION = "2.1.0"
"""The version whose tests run if pypaimon is not installed."""

NAME = re.compile(r"\bpypaimon\b(?=\.[a-zA-Z_]| import\b)")


def find_version() -> str:
    """Return the version of pypaimon that is installed, or the one whose interface `morrow.compat.pypaimon` has."""
    try:
        return version("pypaimon")
    except PackageNotFoundError:
        return DEFAULT_VERSION


def fetch(tag: str, folder: Path) -> Path:
    """Fetch the Python sources of a tag of Paimon, and return their folder. Raises `CalledProcessError`."""
    clone = folder / "paimon"
    git = ["git", "-C", str(clone)]
    options = ["--depth", "1", "--filter=blob:none", "--sparse", "--branch", tag]
    subprocess.run(["git", "clone", "-q", *options, REPOSITORY, str(clone)], check=True)
    subprocess.run([*git, "sparse-checkout", "set", SUITE], check=True)
    return clone / SUITE


def rename_package(text: str) -> str:
    """Return the text of a test that imports other tests from their copies."""
    return text.replace("pypaimon.tests", PACKAGE)


def change_imports(text: str) -> str:
    """Return the text of a test that imports Morrow's module."""
    return NAME.sub("morrow.compat.pypaimon", rename_package(text))


def copy_tests(suite: Path, folder: Path, change: Callable[[str], str] = change_imports) -> Path:
    """Copy the tests of the folder `paimon-python`, with changed texts; return the folder of their package."""
    made = folder / PACKAGE
    shutil.copytree(suite / TESTS, made)
    for file in made.rglob("*.py"):
        file.write_text(change(file.read_text()))
    return made
