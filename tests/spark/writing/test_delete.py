"""`morrow.spark.delete`: deletes rows by keys or by a condition, like `Table.delete`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import morrow
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.spark.writing.delete import delete
from morrow.spark.writing.write import upsert
from tests.spark.writing.test_write import FIRST, SCHEMA, TABLES, arrow, frame
from tests.support.written import new_table
from tests.support.written import rows as rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("kind", ["deletion vectors", "fixed, partitions", "sequence field", "cross-partition"])
def test_deletes_by_keys_and_by_condition(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    ours = new_table(tmp_path, SCHEMA, name="ours", **TABLES[kind])
    theirs = new_table(tmp_path, SCHEMA, name="theirs", **TABLES[kind])
    for table in (ours, theirs):
        table.append(arrow(FIRST))
    keys = [(i, "abc"[i % 3]) for i in (1, 2, 3, 99)]
    delete(spark.createDataFrame(keys, "id BIGINT, dt STRING"), ours.path)
    theirs.delete([{"id": i, "dt": at} for i, at in keys])
    assert rows_of(ours) == rows_of(theirs)
    before = len(rows_of(ours))
    delete("v >= 50", ours.path, spark=spark)
    theirs.delete("v >= 50")
    assert rows_of(ours) == rows_of(theirs)
    told = [row for row in ours.history().to_dicts() if row["operation"] == "DELETE"]
    looked_up = kind in ("sequence field", "cross-partition")  # deletions by keys alone are not counted elsewhere
    assert [row["rows_deleted"] for row in told] == [before - 47, 3 if looked_up else None]
    assert len(rows_of(ours)) == 47


def test_deletes_are_of_the_newest_rows_of_this_branch(spark: SparkSession, tmp_path: Path) -> None:
    """The table's read options do not matter."""
    options = {"bucket": 1, "merge-engine": "partial-update", "partial-update.remove-record-on-delete": True}
    keyed = new_table(tmp_path, "id BIGINT, v INT NOT NULL", keys=["id"], options=options)
    keyed.append({"id": [1, 2], "v": [1, 2]})
    keyed.append({"id": [3, 4], "v": [3, 4]})
    keyed.alter.set_options({"scan.snapshot-id": "1"})
    delete("id = 3", keyed.path, spark=spark)
    delete(spark.createDataFrame([(4,)], "id BIGINT"), keyed.path)
    assert rows_of(morrow.open(keyed.path), snapshot=keyed.snapshots()[-1].id) == [(1, 1), (2, 2)]

    main = new_table(tmp_path, "id BIGINT, p INT", keys=["id", "p"], by=["p"], options={"bucket": 1}, name="main")
    main.branches.create("b")
    main.on_branch("b").append({"id": [5, 6], "p": [1, 1]})
    main.alter.set_options({"scan.fallback-branch": "b"})
    for which in ("id = 5", spark.createDataFrame([(5, 1)], "id BIGINT, p INT")):
        with pytest.raises(Unsupported, match="read from the branch 'b'"):
            delete(which, main.path, spark=spark)
    assert rows_of(main) == [(5, 1), (6, 1)]


def test_a_row_that_no_sequence_group_could_remove_is_not_deleted_in_words_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    options = {
        "bucket": 1,
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "a",
        "partial-update.remove-record-on-sequence-group": "g",
    }
    table = new_table(tmp_path, "id BIGINT, g INT, a INT", keys=["id"], options=options)
    table.upsert({"id": [1, 2], "g": [1, None], "a": [1, 1]})
    with pytest.raises(Exception, match="it would stay"):
        delete("id = 2", table.path, spark=spark)
    delete("id = 1", table.path, spark=spark)
    assert rows_of(table) == [(2, None, 1)]


def test_deletes_that_a_table_does_not_take(spark: SparkSession, tmp_path: Path) -> None:
    append = new_table(tmp_path, SCHEMA)
    first = new_table(tmp_path, SCHEMA, name="first", **TABLES["first-row"])
    with pytest.raises(InvalidArgument, match="no primary key"):
        delete(frame(spark, FIRST), append.path)
    with pytest.raises(InvalidArgument, match="no primary key to upsert"):
        upsert(frame(spark, FIRST), append.path)
    with pytest.raises(Unsupported, match="first-row"):
        delete(frame(spark, FIRST), first.path)


def test_deletes_are_not_older_than_their_rows_for_want_of_nanoseconds(spark: SparkSession, tmp_path: Path) -> None:
    options = {"bucket": 1, "sequence.field": "at"}
    table = new_table(tmp_path, "id BIGINT, at TIMESTAMP(9)", keys=["id"], options=options)
    with pytest.raises(Unsupported, match="the column 'at' is TIMESTAMP"):
        delete("id = 1", table.path, spark=spark)
