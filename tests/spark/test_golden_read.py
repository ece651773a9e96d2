"""Tables written by Java Paimon, read by Spark: the rows are those that Morrow reads itself.

Those are Java's rows (`tests/test_golden.py`), so Spark's are too. Every table is read as `morrow.spark.read` does, and
once more by tasks alone where Spark's own scan took part in that.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import morrow
from morrow.readers.spark.choice import choices
from morrow.readers.spark.distributed import to_dataframe
from morrow.scan import Scan
from tests.support.golden import Read, reads
from tests.support.spark_rows import assert_reads_alike

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.golden

OLD_VERSIONS, SNAPSHOTS, TAGS = 24, 150, 6
"""Of tables of old versions, of snapshots and of tags one in so many is read."""

READS = {str(read): read for read in reads() if read.error is None}
LATEST = [name for name, read in READS.items() if read.id == "latest" and name.startswith("public/")]
OLD = [name for name, read in READS.items() if read.id == "latest" and name.startswith("versions/")][::OLD_VERSIONS]
TRAVELS = [
    *[name for name, read in READS.items() if read.id.startswith("snapshot-")][::SNAPSHOTS],
    *[name for name, read in READS.items() if read.id.startswith("tag-")][::TAGS],
    *[name for name, read in READS.items() if read.id.startswith("branch-")],
]


@pytest.fixture(scope="module")
def planned_once(spark: SparkSession) -> Iterator[SparkSession]:
    """Queries of some rows are not worth planning anew at each of their stages."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    yield spark
    spark.conf.unset("spark.sql.adaptive.enabled")


def scan_of(read: Read, root: Path) -> Scan:
    return morrow.open(str(read.table(root))).scan(**read.scan)


@pytest.mark.parametrize("name", [*LATEST, *OLD, *TRAVELS])
def test_rows_are_those_of_the_local_reader(name: str, planned_once: SparkSession, golden_root: Path) -> None:
    read = READS[name]
    scan = scan_of(read, golden_root)
    assert_reads_alike(to_dataframe(scan.plan, scan.store, planned_once), scan, read.set_columns)


@pytest.mark.parametrize("name", LATEST)
def test_tasks_alone_give_the_same_rows(name: str, planned_once: SparkSession, golden_root: Path) -> None:
    read = READS[name]
    scan = scan_of(read, golden_root)
    if any(choice.is_native for part in scan.plan.parts for choice in choices(part, scan.store)):
        assert_reads_alike(to_dataframe(scan.plan, scan.store, planned_once, tasks_only=True), scan, read.set_columns)


def test_both_ways_are_taken(golden_root: Path) -> None:
    """A rule that left everything to tasks would pass all tests above."""
    plans = [(scan.plan, scan.store) for scan in (scan_of(READS[name], golden_root) for name in LATEST[:40])]
    native = [choice.is_native for plan, store in plans for choice in choices(plan, store)]
    assert any(native) and not all(native)
