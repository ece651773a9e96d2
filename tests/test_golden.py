"""Every batch read of every table by Java Paimon gives Java's rows in Arrow, Polars or DuckDB."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import MorrowError
from tests.support.canonical import assert_same_lines, counted, normal_rows, rows_of
from tests.support.golden import Read, reads, sample_cases
from tests.support.one_duckdb import one_duckdb

pytestmark = pytest.mark.golden


OUTPUTS: dict[str, Callable[[Any], pa.Table]] = {
    "arrow": lambda scan: scan.to_arrow(),
    "polars": lambda scan: scan.to_polars().to_arrow(),
    "duckdb": lambda scan: scan.to_duckdb(one_duckdb()).to_arrow_table(),
}


@functools.lru_cache(maxsize=8)
def opened(path: str) -> Any:
    return morrow.open(path)


READS: dict[str, Read] = {str(read): read for read in reads()}
KNOWN_READS = [name for name, read in READS.items() if read.error is None]
"""All reads except for tables that Java itself damaged or cannot read, and reads that Morrow refuses on purpose."""

PROFILE = os.environ.get("HYPOTHESIS_PROFILE")
OLD_SNAPSHOTS = [
    name
    for name in KNOWN_READS
    if re.match(r"versions/[^/]+/[^/]+/snapshot-", name) and re.sub(r"^versions/[^/]+", "public", name) in KNOWN_READS
]
"""Histories that four older versions wrote like the newest one. One snapshot in 36 of them is read, in addition to
the latest snapshots, tags and branches of a sample of each version's tables. `make test-long` reads all.
"""
ON_THE_WAY = [
    name
    for name, after in pairwise(KNOWN_READS)
    if name.startswith("public/") and "/snapshot-" in name and after.startswith(name.rpartition("-")[0])
]
"""Snapshots of the newest version that have a successor with most of their files. One in 15 is read, so that both
commits and compactions are read, which alternate in many histories. `make test-long` reads all.
"""


def version_of(name: str) -> str:
    """Return the version that wrote the table of a read: the folder ``public``, or ``versions/1.0.1``."""
    return READS[name].case.rpartition("/")[0]


SAMPLE = frozenset().union(
    *(
        sample_cases({READS[name].case for name in KNOWN_READS if version_of(name) == version})
        for version in {version_of(name) for name in KNOWN_READS} - {"public"}
    )
)
"""Tables of the older versions that together have each trait of their version's tables."""
LAST = {READS[name].case: name for name in KNOWN_READS}.values()
"""One read of each table; for tables whose latest snapshot Java could not read, it is an earlier snapshot."""
SOME_SNAPSHOTS = frozenset((*OLD_SNAPSHOTS[::36], *ON_THE_WAY[::15], *LAST))
SNAPSHOTS = frozenset((*OLD_SNAPSHOTS, *ON_THE_WAY))


def is_tried(name: str) -> bool:
    """Check whether `make test` reads this. Every table of the newest version is read."""
    is_in_sample = version_of(name) == "public" or READS[name].case in SAMPLE
    return is_in_sample and (name not in SNAPSHOTS or name in SOME_SNAPSHOTS)


TRIED = [name for name in KNOWN_READS if PROFILE == "long" or is_tried(name)]


NUMBERS = {name: number for number, name in enumerate(TRIED)}


def test_every_table_is_read() -> None:
    known = {read.case for read in READS.values() if read.error is None}
    public = {case for case in known if case.startswith("public/")}
    assert {READS[name].case for name in TRIED} == (known if PROFILE == "long" else public | SAMPLE)


def result(name: str, root: Path, output: str) -> pa.Table:
    read = READS[name]
    return OUTPUTS[output](opened(str(read.table(root))).scan(**read.scan))


def is_newest(name: str) -> bool:
    """Check whether this reads the latest snapshot of a table by the newest version of Java."""
    return READS[name].id == "latest" and name.startswith("public/")


IN_ALL_OUTPUTS = sample_cases({READS[name].case for name in TRIED if is_newest(name)})
"""Cases whose newest rows are read in all outputs."""


def outputs_of(name: str) -> list[str]:
    """Return all outputs for the newest rows of a sample of the tables, and one in turn for other reads.

    All outputs share plan and masks. `make test-long` compares all outputs of all reads, and `make check` one of each.
    """
    number = NUMBERS[name] % len(OUTPUTS)
    is_sampled = is_newest(name) and READS[name].case in IN_ALL_OUTPUTS
    takes_all = PROFILE == "long" or (PROFILE != "check" and is_sampled)
    return list(OUTPUTS) if takes_all else [list(OUTPUTS)[number]]


NEWEST = [name for name in TRIED if is_newest(name)]
OTHERS: dict[str, list[str]] = {}
"""Reads of tags, branches, snapshots and of tables of older versions, by case."""
for other in TRIED:
    if not is_newest(other):
        OTHERS.setdefault(READS[other].case, []).append(other)


@pytest.mark.parametrize("name", NEWEST)
def test_newest_rows_are_those_of_java(name: str, golden_root: Path) -> None:
    assert_rows_are_those_of_java(name, golden_root)


@pytest.mark.slow  # they have other plans, of the same kinds of files
@pytest.mark.parametrize("case", OTHERS)
def test_other_rows_are_those_of_java(case: str, golden_root: Path) -> None:
    """Read all other states of a table in one test: a test costs as much as a read."""
    for name in OTHERS[case]:
        assert_rows_are_those_of_java(name, golden_root)


def assert_rows_are_those_of_java(name: str, golden_root: Path) -> None:
    read = READS[name]
    fields = read.fields(golden_root)
    expected = counted(normal_rows(read.rows(golden_root), fields), fields, read.set_columns)
    for output in outputs_of(name):
        try:
            assert_same_lines(rows_of(result(name, golden_root, output), fields), expected, fields, read.set_columns)
        except Exception as error:
            error.add_note(f"{name} read as {output}")
            raise


@pytest.mark.parametrize("name", [name for name, read in READS.items() if read.error is not None])
def test_what_java_cannot_read_or_morrow_refuses_is_an_error_and_never_other_rows(name: str, golden_root: Path) -> None:
    with pytest.raises(MorrowError):
        result(name, golden_root, "arrow")


def test_the_index_lists_every_read_of_the_archive(golden_root: Path) -> None:
    """Packed cases without a read would never be tested."""
    packed = {str(p.parent.relative_to(golden_root)) for p in golden_root.glob("**/case.json")}
    assert packed == {read.case for read in READS.values()}
    batch = ("latest", "snapshot-", "tag-", "branch-")
    named = {f"{r.case}/{file}" for r in READS.values() for file in (r.rows_file, f"expected/{r.id}.jsonl")}
    found = {
        str(p.relative_to(golden_root)) for p in golden_root.glob("**/expected/*.jsonl") if p.name.startswith(batch)
    }
    assert found <= named
