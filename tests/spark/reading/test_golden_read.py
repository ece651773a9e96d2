"""Golden tables read by Spark: the rows equal Morrow's local reads, which equal Java's (`tests/test_golden.py`).

Each table is read up to three times. First by name from a catalog, or by `morrow.spark.read` for other snapshots. If
that uses Spark's own scan, one read in six (all in `make test-long`) is repeated by tasks alone or with joined masks.
Finally, rows that Morrow reads in this process are handed to Spark. Many reads share a job to save time, but each read
is a separate test.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import morrow
from morrow.engine.format.types import CharType
from morrow.scans.table_scan import Scan
from morrow.spark.reading.choice import choose_readers
from morrow.spark.reading.distributed import to_dataframe
from tests.spark.conftest import INTERPRETED, settings
from tests.support.golden import Read, reads, sample_cases
from tests.support.spark_rows import assert_same_lines, handed_over, lines_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.support.spark_rows import Lines

    Sides = tuple[Lines | Exception, Lines | Exception, Lines | Exception | None, DataFrame]

pytestmark = pytest.mark.golden

IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
"""Whether to read everything, as `make test-long` does, or samples."""

SAMPLES = {"latest": 90, "branch": 24, "tag": 36, "snapshot": 1200}
"""Among the reads of each kind besides `LATEST`, every n-th is tested."""

OTHERWISE_IN = 6
"""Every n-th read is repeated in another way."""

TOGETHER = 20
"""Number of reads whose rows are fetched by one or two jobs."""

KNOWN = {str(read): read for read in reads() if read.error is None}
NEWEST = [name for name, read in KNOWN.items() if read.id == "latest" and name.startswith("public/")]
SAMPLE = sample_cases({KNOWN[name].case for name in NEWEST})
LATEST = [name for name in NEWEST if KNOWN[name].case in SAMPLE]
"""The newest rows of tables that together have all options, types, formats and operations of the golden tables."""
OTHERS = {
    kind: [name for name, read in KNOWN.items() if read.id.startswith(kind) and name not in NEWEST] for kind in SAMPLES
}
STEPS = dict.fromkeys(SAMPLES, 1) if IS_LONG else SAMPLES
NAMES = [*LATEST, *(name for kind, names in OTHERS.items() for name in names[:: STEPS[kind]])]
PLANNED_ONCE = {
    # Queries over a few rows are not worth adaptive planning.
    "spark.sql.adaptive.enabled": "false",
}
COMPILED_IN = 4
"""Spark compiles every n-th batch, since compilation takes a third of the time (`make test-long`: all)."""


@pytest.fixture(scope="module")
def planned_once(spark: SparkSession) -> Iterator[SparkSession]:
    with settings(spark, PLANNED_ONCE):
        yield spark


def scan_of(read: Read, root: Path) -> Scan:
    return morrow.open(str(read.table(root))).scan(**read.scan)


@cache
def golden_catalog(spark: SparkSession, root: Path) -> Path:
    """Make a warehouse of links to the golden tables, as the session's catalog ``golden``."""
    warehouse = Path(tempfile.mkdtemp(prefix="golden-links-"))
    (warehouse / "db.db").mkdir()
    atexit.register(shutil.rmtree, warehouse, ignore_errors=True)
    morrow.spark.catalog(spark, "golden", warehouse=warehouse, allowed_roots=[str(root)])
    return warehouse


def frame_of(name: str, scan: Scan, spark: SparkSession, root: Path) -> DataFrame:
    """Open the read in Spark, by name if it reads the newest snapshot."""
    read = KNOWN[name]
    if read.scan:
        return to_dataframe(scan.plan, scan.store, spark)
    link = read.case.replace("/", "__")
    (golden_catalog(spark, root) / "db.db" / link).symlink_to(read.table(root), target_is_directory=True)
    return spark.table(f"golden.db.`{link}`")


def is_native(scan: Scan) -> bool:
    """Return whether Spark's own scan is used."""
    return any(choice.is_native for part in scan.plan.parts for choice in choose_readers(part))


@cache
def read_together(start: int, spark: SparkSession, root: Path) -> dict[str, Sides]:
    """Run `TOGETHER` reads: by Spark, by the hand-off, maybe in another way; return their frames for columns."""
    is_compiled = IS_LONG or start // TOGETHER % COMPILED_IN == 0
    with settings(spark, {} if is_compiled else INTERPRETED):
        return sides_of(NAMES[start : start + TOGETHER], spark, root)


def sides_of(names: list[str], spark: SparkSession, root: Path) -> dict[str, Sides]:
    scans = [scan_of(KNOWN[name], root) for name in names]
    native = [scan for scan in scans[:: 1 if IS_LONG else OTHERWISE_IN] if is_native(scan)]
    frames = [frame_of(name, scan, spark, root) for name, scan in zip(names, scans)]
    others = [
        to_dataframe(scan.plan, scan.store, spark, tasks_only=number % 2 == 0, joins=True)
        for number, scan in enumerate(native)
    ]
    found, given = lines_of([*frames, *others]), lines_of([handed_over(scan, spark) for scan in scans])
    otherwise = dict(zip(map(id, native), found[len(scans) :], strict=True))
    return {
        name: (found[i], given[i], otherwise.get(id(scan)), frames[i])
        for i, (name, scan) in enumerate(zip(names, scans, strict=True))
    }


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_rows_are_those_of_the_local_reader(number: int, planned_once: SparkSession, golden_root: Path) -> None:
    name = NAMES[number]
    found, expected, otherwise, frame = read_together(number - number % TOGETHER, planned_once, golden_root)[name]
    padded = [
        f"c{i}" for i, each in enumerate(scan_of(KNOWN[name], golden_root).fields) if isinstance(each.type, CharType)
    ]
    for side in (found, *([] if otherwise is None else [otherwise])):
        assert_same_lines(
            without_padding(side, padded), without_padding(expected, padded), frame, KNOWN[name].set_columns
        )


def without_padding(lines: Lines | Exception, columns: list[str]) -> Lines | Exception:
    """Remove the blanks of CHAR(n) columns, to which Spark pads the values of ORC files."""
    if isinstance(lines, Exception) or not columns:
        return lines
    trimmed: Lines = Counter()
    for line, count in lines.items():
        row = json.loads(line)
        row |= {name: row[name].rstrip(" ") for name in columns if row.get(name) is not None}
        trimmed[json.dumps(row, ensure_ascii=False)] += count
    return trimmed


def test_both_ways_are_taken(golden_root: Path) -> None:
    """Without this check, the tests above would pass even if tasks read everything."""
    native = [is_native(scan_of(KNOWN[name], golden_root)) for name in LATEST[:40]]
    assert any(native) and not all(native)
