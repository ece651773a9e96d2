"""Startup time: the import, and the first read of a small table in a new process."""

from __future__ import annotations

import os
import subprocess
import sys

from pytest_benchmark.fixture import BenchmarkFixture

import morrow
from bench.compare import Limit, compare, record
from bench.conftest import Tables

SECTION = "Start"

IMPORT = """
from time import perf_counter
began = perf_counter()
import morrow
print(perf_counter() - began)
"""

FIRST_READ = """
from time import perf_counter
import sys
import morrow
{imported}
began = perf_counter()
morrow.open(sys.argv[1]).scan().to_arrow()
print(perf_counter() - began)
"""


def fresh(program: str, *arguments: str) -> float:
    """Return the seconds that the program prints, run by a new interpreter with bytecode caching."""
    command = [sys.executable, "-c", program, *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)


def test_import(benchmark: BenchmarkFixture) -> None:
    record(benchmark, SECTION, "import morrow", lambda: fresh(IMPORT), bound=Limit(30, "ms"), rounds=7)


def test_small_table_in_a_fresh_process(benchmark: BenchmarkFixture, table: Tables) -> None:
    path = str(table("small").path)
    record(
        benchmark,
        SECTION,
        "open and read a small table, first in its process",
        lambda: fresh(FIRST_READ.format(imported="import polars, pyarrow.parquet"), path),
        bound=Limit(60, "ms"),
        rounds=7,
        note="with polars and pyarrow imported before",
    )


def test_small_table_with_nothing_imported(benchmark: BenchmarkFixture, table: Tables) -> None:
    path = str(table("small").path)
    record(
        benchmark,
        SECTION,
        "the same, importing what the read needs",
        lambda: fresh(FIRST_READ.format(imported=""), path),
        bound=None,
        rounds=7,
    )


def test_small_table_again(benchmark: BenchmarkFixture, table: Tables) -> None:
    path = table("small").path
    compare(
        benchmark,
        SECTION,
        "open and read a small table, caches dropped",
        lambda: morrow.open(path).scan().to_arrow(),
        bound=Limit(30, "ms"),
        before=morrow.clear_caches,
        rounds=21,
    )
