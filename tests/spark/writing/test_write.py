"""`morrow.spark.write`: tasks write the same rows as the local writer, in one commit."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException

import morrow
from morrow.engine.errors import (
    AlreadyExists,
    ColumnNotFound,
    InvalidArgument,
    MorrowError,
    TableNotFound,
    Unsupported,
)
from morrow.spark.job import execution
from morrow.spark.job.tasks import Tasks, Work
from morrow.spark.reading.read import read
from morrow.spark.writing import job
from morrow.spark.writing.delete import delete
from morrow.spark.writing.write import upsert, write
from morrow.writers.target import WriteTarget
from tests.support.written import data_files, new_table, renamed_by_others
from tests.support.written import rows as rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[tuple[Any, ...]]

SCHEMA = "id BIGINT, dt STRING, v INT, s BIGINT"
DDL = "id BIGINT, dt STRING, v INT, s BIGINT"
FIRST = [(i, "abc"[i % 3], i, 1) for i in range(60)]
SECOND = [(i, "abc"[i % 3], None if i % 2 else -i, 2) for i in range(40, 80)]

TABLES: dict[str, dict[str, Any]] = {
    "fixed": {"keys": ["id"], "options": {"bucket": 3}},
    "fixed, partitions": {"keys": ["id", "dt"], "by": ["dt"], "options": {"bucket": 2}},
    "one bucket": {"keys": ["id"], "options": {"bucket": 1}},
    "dynamic": {"keys": ["id"], "options": {"dynamic-bucket.target-row-num": 20}},
    "dynamic, partitions": {"keys": ["id", "dt"], "by": ["dt"], "options": {"dynamic-bucket.target-row-num": 7}},
    "cross-partition": {"keys": ["id"], "by": ["dt"]},
    "deletion vectors": {"keys": ["id"], "options": {"bucket": 2, "deletion-vectors.enabled": True}},
    "lookup": {"keys": ["id"], "options": {"bucket": 2, "changelog-producer": "lookup"}},
    "full-compaction": {
        "keys": ["id"],
        "options": {"bucket": 2, "changelog-producer": "full-compaction", "full-compaction.delta-commits": 1},
    },
    "input": {"keys": ["id"], "options": {"bucket": 2, "changelog-producer": "input"}},
    "first-row": {"keys": ["id"], "options": {"bucket": 2, "merge-engine": "first-row"}},
    "partial-update": {"keys": ["id"], "options": {"bucket": 2, "merge-engine": "partial-update"}},
    "aggregation": {
        "keys": ["id"],
        "options": {"bucket": 2, "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    },
    "sequence field": {"keys": ["id"], "options": {"bucket": 2, "sequence.field": "s"}},
    "several partitions and buckets a task": {"keys": ["id", "dt"], "by": ["dt"], "options": {"bucket": 5}},
    "more tasks than buckets": {"keys": ["id"], "options": {"bucket": 2, "sink.parallelism": 7}},
    "buckets of text": {"keys": ["id", "dt"], "options": {"bucket": 3, "bucket-key": "dt"}},
    "append": {},
    "append, partitions": {"by": ["dt"]},
    "append, buckets": {"options": {"bucket": 2, "bucket-key": "id"}},
}


def frame(spark: SparkSession, rows: Rows, schema: str = DDL) -> DataFrame:
    return spark.createDataFrame(rows, schema).repartition(3)


def arrow(rows: Rows) -> pa.Table:
    kinds = [("id", pa.int64()), ("dt", pa.string()), ("v", pa.int32()), ("s", pa.int64())]
    return pa.table({name: pa.array(column, kind) for (name, kind), column in zip(kinds, zip(*rows))})


def leftovers(table: morrow.Table) -> list[str]:
    return [path.name for path in Path(table.path).iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("kind", TABLES)
def test_tables_hold_what_the_local_writer_puts_there(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    ours = new_table(tmp_path, SCHEMA, name="ours", **TABLES[kind])
    theirs = new_table(tmp_path, SCHEMA, name="theirs", **TABLES[kind])
    for rows in (FIRST, SECOND):
        made = write(frame(spark, rows), ours.path)
        expected = theirs.append(arrow(rows))
        assert made is not None
        assert expected is not None
        assert (made.commit_kind, made.total_record_count) == (expected.commit_kind, expected.total_record_count)
        assert rows_of(ours) == rows_of(theirs)
    assert leftovers(ours) == []


def test_each_key_is_in_the_bucket_that_java_looks_for_it(spark: SparkSession, tmp_path: Path) -> None:
    ours = new_table(tmp_path, SCHEMA, name="ours", keys=["id", "dt"], by=["dt"], options={"bucket": 4})
    theirs = new_table(tmp_path, SCHEMA, name="theirs", keys=["id", "dt"], by=["dt"], options={"bucket": 4})
    write(frame(spark, FIRST), ours.path)
    theirs.append(arrow(FIRST))
    assert buckets(ours) == buckets(theirs)


def buckets(table: morrow.Table) -> dict[str, list[int]]:
    """List the keys in each bucket folder."""
    files = Path(table.path).rglob("data-*.parquet")
    found = [(str(path.parent.relative_to(table.path)), pq.read_table(path, partitioning=None)["id"]) for path in files]
    return {folder: sorted(ids.to_pylist(), key=lambda i: (i is None, i)) for folder, ids in found}


def test_row_kinds_upserts_and_deletes_are_a_fold_over_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, keys=["id"], options={"bucket": 2})
    random, expected = Random(7), dict[int, tuple[Any, ...]]()
    for version in range(4):
        kinds = {i: random.choice(["+I", "+U", "-D"]) for i in random.sample(range(30), 20)}
        rows = [(i, "x", random.randrange(100), version, kind) for i, kind in kinds.items()]
        upsert(frame(spark, rows, f"{DDL}, op STRING"), table.path, kinds="op")
        for *row, kind in rows:
            expected.pop(row[0], None)
            if kind != "-D":
                expected[row[0]] = tuple(row)
    assert rows_of(table) == sorted(expected.values())


def test_a_table_that_is_made_has_no_column_of_row_kinds(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "made")
    rows = spark.sql("SELECT 1L AS id, '+I' AS kind, 5 AS v UNION ALL SELECT 2L, '-D', 6")
    upsert(rows, path, kinds="kind", create={"primary_keys": "id", "options": {"bucket": 1}})
    assert morrow.open(path).scan().to_arrow().to_pylist() == [{"id": 1, "v": 5}]


def test_an_upsert_that_is_refused_makes_no_table(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no primary key to upsert"):
        upsert(frame(spark, FIRST), tmp_path / "made", create={})
    assert not (tmp_path / "made").exists()


def test_tasks_are_counted_by_numbers(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"'sink\.parallelism' has the value 'many'"):
        new_table(tmp_path, SCHEMA, keys=["id"], options={"sink.parallelism": "many"})
    table = new_table(tmp_path, SCHEMA, keys=["id"], options={"bucket": 2, "sink.parallelism": "0"})
    with pytest.raises(InvalidArgument, match=r"'sink\.parallelism' has the value '0'; it is a number of tasks"):
        write(frame(spark, FIRST), table.path)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"dynamic": False},
        {"partition": {"dt": "a"}},
        {"partition": {"dt": "a"}, "dynamic": False},
    ],
)
@pytest.mark.parametrize("kind", ["fixed, partitions", "append, partitions"])
def test_overwrites(spark: SparkSession, tmp_path: Path, kind: str, arguments: dict[str, Any]) -> None:
    rows = [row for row in SECOND if row[1] == "a"]
    ours = new_table(tmp_path, SCHEMA, name="ours", **TABLES[kind])
    theirs = new_table(tmp_path, SCHEMA, name="theirs", **TABLES[kind])
    for table in (ours, theirs):
        table.append(arrow(FIRST))
    new = frame(spark, rows)
    write(new.drop("dt") if "partition" in arguments else new, ours.path, "overwrite", **arguments)
    theirs.overwrite(arrow(rows), **arguments)
    assert rows_of(ours) == rows_of(theirs)


@pytest.mark.parametrize("kind", ["fixed", "deletion vectors", "dynamic", "append"])
def test_a_table_may_be_rewritten_from_itself(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table = new_table(tmp_path, SCHEMA, **TABLES[kind])
    table.append(arrow(FIRST))
    write(read(spark, table.path).where("id < 3").selectExpr("id", "dt", "v + 1 AS v", "s"), table.path, "overwrite")
    assert rows_of(table) == [(0, "a", 1, 1), (1, "b", 2, 1), (2, "c", 3, 1)]


def test_rows_outside_of_the_overwritten_partition_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, by=["dt"])
    for dynamic in (True, False):
        with pytest.raises(InvalidArgument, match="partition"):
            write(frame(spark, FIRST), table.path, "overwrite", partition={"dt": "a"}, dynamic=dynamic)
    assert data_files(Path(table.path)) == set()


def test_a_table_is_made_of_the_columns_of_a_data_frame(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "db.db" / "made"
    made = {"primary_keys": ["id", "dt"], "partition_keys": ["dt"], "options": {"bucket": 2}, "comment": "of Spark"}
    with pytest.raises(TableNotFound, match="create"):
        write(frame(spark, FIRST), path)
    write(frame(spark, FIRST), path, create=made)
    table = morrow.open(path)
    assert (table.primary_keys, table.partition_keys, table.comment) == (("id", "dt"), ("dt",), "of Spark")
    assert table.options["bucket"] == "2"
    assert rows_of(table) == FIRST
    write(frame(spark, SECOND), path, create=made)
    assert len(rows_of(table)) == 80
    assert write(frame(spark, FIRST), path, "ignore", create=made) is None
    with pytest.raises(AlreadyExists):
        write(frame(spark, FIRST), path, "error", create=made)
    assert write(frame(spark, FIRST), tmp_path / "new", "ignore", create=made) is not None
    with pytest.raises(InvalidArgument, match="'primary_key'"):
        write(frame(spark, FIRST), tmp_path / "other", create={"primary_key": ["id"]})  # type: ignore[typeddict-unknown-key]  # the mistake


INSTANT = dt.datetime(2024, 5, 14, 3, 4, 5, 123456, tzinfo=dt.UTC)
WALL = dt.datetime(2024, 3, 10, 2, 30, 0, 1)  # the session's time zone skips this hour


def test_types_from_spark_to_paimon(spark: SparkSession, tmp_path: Path) -> None:
    ddl = (
        "b BOOLEAN, i1 TINYINT, i2 SMALLINT, f FLOAT, d DOUBLE, m DECIMAL(38,18), s STRING, x BINARY, day DATE, "
        "at TIMESTAMP, wall TIMESTAMP_NTZ, a ARRAY<INT>, o MAP<STRING, DECIMAL(10,2)>, "
        "r STRUCT<p: TIMESTAMP, q: ARRAY<STRUCT<z: BINARY>>>"
    )
    many = Decimal("12345678901234567890.123456789012345678")
    row = (
        True, -128, 32767, 0.5, 1e300, many, "ü", b"\x00\xff", dt.date(1969, 12, 31),
        INSTANT, WALL, [1, None], {"k": Decimal("1.50")}, (INSTANT, [(b"z",), None]),
    )  # fmt: skip
    data = spark.createDataFrame([row, (None,) * 14], ddl).coalesce(1)
    write(data, tmp_path / "t", create={})
    table = morrow.open(tmp_path / "t")
    types = [str(f.type) for f in table.scan().plan.fields]
    assert types == [
        "BOOLEAN", "TINYINT", "SMALLINT", "FLOAT", "DOUBLE", "DECIMAL(38, 18)", "STRING", "BYTES", "DATE",
        "TIMESTAMP(6) WITH LOCAL TIME ZONE", "TIMESTAMP(6)", "ARRAY<INT>", "MAP<STRING, DECIMAL(10, 2)>",
        "ROW<`p` TIMESTAMP(6) WITH LOCAL TIME ZONE, `q` ARRAY<ROW<`z` BYTES>>>",
    ]  # fmt: skip
    full = next(found for found in table.scan().to_arrow().to_pylist() if found["b"])
    assert full.pop("o") == [("k", Decimal("1.50"))]
    assert full.pop("r") == {"p": INSTANT, "q": [{"z": b"z"}, None]}
    assert tuple(full.values()) == row[:12]


def test_types_that_spark_has_not_had_from_the_beginning(spark: SparkSession, tmp_path: Path) -> None:
    columns = ["parse_json('{\"a\": 1}') AS v", "TIME'01:02:03.004' AS t"]
    write(spark.range(1).selectExpr("id", *columns), tmp_path / "t", create={"options": {"bucket": -1}})
    table = morrow.open(tmp_path / "t")
    assert [str(f.type) for f in table.scan().plan.fields][1:] == ["VARIANT", "TIME(3)"]
    assert read(spark, table.path).selectExpr("to_json(v)", "CAST(t AS STRING)").collect() == [
        ('{"a":1}', "01:02:03.004")
    ]
    with pytest.raises(InvalidArgument, match="'t'"):
        write(spark.range(1).selectExpr("id", columns[0], "TIME'01:02:03.004567' AS t"), table.path)


@pytest.mark.parametrize(
    ("column", "error", "message"),
    [
        ("make_dt_interval(1) AS v", Unsupported, "INTERVAL DAY TO SECOND of column 'v'"),
        ("make_ym_interval(1) AS v", Unsupported, "INTERVAL YEAR TO MONTH of column 'v'"),
        ("'text' AS v", InvalidArgument, "'v'"),
        ("1 AS v, 2 AS w", ColumnNotFound, "'w'"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_job(
    spark: SparkSession, tmp_path: Path, column: str, error: type[MorrowError], message: str
) -> None:
    table = new_table(tmp_path, "id BIGINT, v INT", keys=["id"], options={"bucket": 1})
    broken = spark.range(1).selectExpr("assert_true(id < 0) IS NULL AS x", "id").selectExpr("id", *column.split(", "))
    with pytest.raises(error, match=message):
        write(broken, table.path)
    assert data_files(Path(table.path)) == set()


@pytest.mark.parametrize(
    ("column", "message"),
    [("id + 3000000000 AS v", "'v'"), ("IF(id = 3, NULL, 1) AS v", "'v' is INT NOT NULL .* 1 null")],
)
def test_values_that_do_not_fit_are_named_and_leave_nothing(
    spark: SparkSession, tmp_path: Path, column: str, message: str
) -> None:
    table = new_table(tmp_path, "id BIGINT, v INT NOT NULL", keys=["id"], options={"bucket": 2})
    with pytest.raises(InvalidArgument, match=message):
        write(spark.range(10).selectExpr("id", column), table.path)
    assert data_files(Path(table.path)) == set()
    assert leftovers(table) == []


def test_what_was_committed_is_not_written_again(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA)
    first = write(frame(spark, FIRST), table.path, commit_user="loader", commit_identifier=1, watermark=5)
    assert first is not None
    assert (first.commit_user, first.commit_identifier, first.watermark) == ("loader", 1, 5)
    for mode in ("append", "overwrite"):
        assert write(frame(spark, FIRST), table.path, mode, commit_user="loader", commit_identifier=1) is None
    assert len(rows_of(table)) == len(FIRST)
    write(frame(spark, SECOND), table.path, "overwrite", commit_user="loader", commit_identifier=2)
    assert len(rows_of(table)) == len(SECOND)
    with pytest.raises(InvalidArgument, match="commit_user"):
        write(frame(spark, FIRST), table.path, commit_identifier=3)
    with pytest.raises(InvalidArgument, match="commit_user"):
        delete("v >= 0", table.path, spark=spark, commit_identifier=3)
    for mode in ("append", "overwrite"):
        with pytest.raises(InvalidArgument, match="not -1"):
            write(frame(spark, FIRST), table.path, mode, commit_user="loader", commit_identifier=-1)


def test_of_what_another_driver_commits_meanwhile_no_file_stays(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA)
    target = WriteTarget.of(table._metadata, "loader")
    messages = job.write_files(frame(spark, FIRST), target, None)
    left = data_files(Path(table.path))
    assert left
    write(frame(spark, FIRST), table.path, commit_user="loader", commit_identifier=1)
    assert job.commit_messages(target, messages, job.Commit(1)) is None
    assert not left & data_files(Path(table.path))
    assert len(rows_of(table)) == len(FIRST)


def test_nothing_is_committed_for_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, keys=["id"], options={"bucket": 2})
    assert write(frame(spark, FIRST).limit(0), table.path) is None
    assert leftovers(table) == []


def test_columns_in_any_order_with_default_values(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(
        tmp_path, "id BIGINT, dt STRING DEFAULT 'x', `a.b` INT", keys=["dt", "id"], by=["dt"], options={"bucket": 2}
    )
    write(spark.range(3).selectExpr("CAST(id AS INT) AS `a.b`", "id"), table.path)
    assert rows_of(table) == [(0, "x", 0), (1, "x", 1), (2, "x", 2)]


def test_columns_that_differ_in_case(spark: SparkSession, tmp_path: Path) -> None:
    """As usual in Spark, case does not matter unless ``spark.sql.caseSensitive`` is set."""
    made = new_table(tmp_path, "id BIGINT, v INT, other INT", keys=["id"], options={"bucket": 1})
    table = renamed_by_others(made, {"other": "V"})
    data = spark.range(1).selectExpr("5 AS V", "id AS ID", "4 AS v")
    write(data, table.path)
    assert rows_of(table) == [(0, 4, 5)]
    spark.conf.set("spark.sql.caseSensitive", True)
    try:
        with pytest.raises(ColumnNotFound, match="'ID'"):
            write(data, table.path)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_kinds_come_from_the_field_that_the_table_names(spark: SparkSession, tmp_path: Path) -> None:
    schema, options = f"{SCHEMA}, op STRING", {"bucket": 2, "rowkind.field": "op"}
    table = new_table(tmp_path, schema, keys=["id"], options=options)
    upsert(frame(spark, [(*row, "+I") for row in FIRST], f"{DDL}, op STRING"), table.path)
    upsert(frame(spark, [(*row, "-D") for row in FIRST[1:]], f"{DDL}, op STRING"), table.path)
    assert rows_of(table) == [(*FIRST[0], "+I")]
    delete(spark.createDataFrame([(0,)], "id BIGINT"), table.path)
    assert rows_of(table) == []


def test_null_is_a_partition_and_a_bucket(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(None if i % 4 == 0 else i % 7, None if i % 3 == 0 else "ab"[i % 2], i, 1) for i in range(40)]
    options = {"bucket": 3, "bucket-key": "id"}
    ours, theirs = (new_table(tmp_path, SCHEMA, name=name, by=["dt"], options=options) for name in ("ours", "theirs"))
    write(frame(spark, rows), ours.path)
    theirs.append(arrow(rows))
    assert rows_of(ours) == rows_of(theirs)
    assert buckets(ours) == buckets(theirs)
    assert len(list(Path(ours.path).rglob("data-*"))) == len(buckets(theirs))


def test_branches_are_written_apart(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, **TABLES["fixed"])
    table.append(arrow(FIRST))
    table.branches.create("dev")
    write(frame(spark, SECOND), table.path, branch="dev")
    assert rows_of(table) == FIRST
    assert rows_of(morrow.open(table.path, branch="dev")) == sorted(SECOND)
    assert read(spark, table.path, branch="dev").count() == len(SECOND)


def test_commits_tag_and_expire_as_the_table_says(spark: SparkSession, tmp_path: Path) -> None:
    options = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 2, "tag.automatic-creation": "batch"}
    table = new_table(tmp_path, SCHEMA, options=options)
    for _ in range(4):
        write(frame(spark, FIRST[:3]).coalesce(1), table.path)
    assert [snapshot.id for snapshot in table.snapshots()] == [3, 4]
    assert [tag.snapshot.id for tag in table.tags.list()] == [4]


def test_postponed_rows_wait_for_compaction(spark: SparkSession, tmp_path: Path) -> None:
    options = {"bucket": -2, "postpone.batch-write-fixed-bucket": False}
    table = new_table(tmp_path, SCHEMA, keys=["id"], options=options)
    write(frame(spark, FIRST), table.path)
    assert rows_of(table) == []
    table.compact()
    assert rows_of(table) == FIRST


def test_a_batch_goes_to_the_buckets_of_its_partition_and_a_stream_waits(spark: SparkSession, tmp_path: Path) -> None:
    options = {"bucket": -2, "postpone.default-bucket-num": 3}
    table = new_table(tmp_path, SCHEMA, keys=["id"], options=options)
    write(frame(spark, FIRST), table.path)
    assert rows_of(table) == FIRST
    assert set(table.system("files").to_polars()["bucket"]) <= {0, 1, 2}
    write(frame(spark, SECOND), table.path, commit_user="stream", commit_identifier=1)
    assert rows_of(table) == FIRST


def test_a_job_that_fails_leaves_no_file(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path, SCHEMA, keys=["id"], options={"bucket": 2})
    write(frame(spark, FIRST), table.path)
    before = data_files(Path(table.path))
    monkeypatch.setattr(execution, "Tasks", FailsAfterwards)
    with pytest.raises(PythonException, match="disk on fire"):
        write(frame(spark, SECOND), table.path)
    assert data_files(Path(table.path)) == before
    assert leftovers(table) == []


@dataclass(frozen=True)
class FailsAfterwards:
    """A task that writes its files, and fails before Spark gets its result."""

    tasks: Tasks

    @classmethod
    def of(cls, work: Work, shared: object) -> FailsAfterwards:
        return cls(Tasks.of(work, shared))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        assert list(self.tasks(batches))
        raise RuntimeError("disk on fire")
        yield


def test_keys_that_spark_cannot_hash_go_to_their_buckets(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, "id DECIMAL(20,2), v BIGINT", keys=["id"], options={"bucket": 3})
    write(spark.range(60).selectExpr("CAST(id AS DECIMAL(20,2)) AS id", "id AS v").repartition(3), table.path)
    assert rows_of(table) == [(Decimal(i), i) for i in range(60)]
    assert len(list(Path(table.path).rglob("data-*"))) == 3
