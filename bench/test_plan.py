"""Planning a table of 100,000 files in 1,000 partitions, and one of a million: metadata only, no data files exist."""

from __future__ import annotations

import shutil

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
from bench import planning
from bench.compare import Limit, Measured, compare, put
from bench.conftest import Tables
from bench.tables import HOME, PARTITION

PASSES = {"first": morrow.clear_caches, "again": None}


@pytest.mark.parametrize("when", PASSES)
@pytest.mark.parametrize(
    ("what", "filtered", "milliseconds"),
    [
        ("all files", None, 1000),
        ("one partition of 1,000", f"dt = '{PARTITION}'", 100),
    ],
)
def test_plan(
    benchmark: BenchmarkFixture, table: Tables, what: str, filtered: str | None, milliseconds: int, when: str
) -> None:
    path = table("many_files").path
    compare(
        benchmark,
        "Planning 100,000 files",
        f"{what}, {when}",
        lambda: morrow.open(path).scan(filter=filtered).plan,
        bound=Limit(milliseconds, "ms"),
        before=PASSES[when],
    )


@pytest.mark.long
@pytest.mark.parametrize("who", ["Table.scan().plan", "Spark's physical plan"])
def test_a_million_files(benchmark: BenchmarkFixture, who: str) -> None:
    spark = who.startswith("Spark")
    folder = HOME / "planning"
    path = planning.made(folder, planning.FILES, planning.PARTITIONS, planning.FORMATS[spark])
    found = [benchmark.pedantic(planning.taken, (path,), {"spark": spark}, rounds=1)]
    found += [planning.taken(path, spark=spark) for _ in range(2)]
    shutil.rmtree(folder)

    section = f"Planning {planning.FILES:,} files in {planning.PARTITIONS:,} partitions"
    whose = "the driver, Python and JVM" if spark else "the process"
    put(
        benchmark,
        [
            Measured(section, who, subject=[each.wall for each in found], bound=Limit(30_000, "ms")),
            Measured(
                section,
                f"{who}: memory of {whose}",
                subject=[each.memory + each.jvm for each in found],
                bound=Limit(1536, "MiB"),
                note=f"{found[0].before:,.0f} MiB before" + (f", {found[0].jvm:,.0f} MiB of the JVM" if spark else ""),
            ),
        ],
    )
