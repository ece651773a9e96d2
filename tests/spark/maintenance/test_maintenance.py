"""Compaction and cleanup of orphan files by Spark tasks: the result equals that of the local functions."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import shutil
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pytest
from pyspark.errors import PythonException

import morrow
from morrow.engine.errors import ColumnNotFound, FileMissing, InvalidArgument, Unsupported
from morrow.spark.job import execution
from morrow.spark.job.tasks import Tasks, Work
from morrow.spark.job.wire import TableAccess, encode_value, make_unit_batch
from morrow.spark.maintenance import compaction, compaction_tasks, orphan_files
from morrow.spark.maintenance.commands import compact, remove_orphan_files
from morrow.spark.maintenance.compaction_tasks import Compaction, CompactionJob, Held
from morrow.spark.procedures import call
from morrow.writers.append.sort_compaction import Sorter
from morrow.writers.buckets.routers import restore_partitions
from morrow.writers.commit.attempt_log import AttemptLog
from morrow.writers.target import WriteTarget
from tests.support.s3_server import client_of, s3_server
from tests.support.written import data_files, new_table
from tests.support.written import rows as rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG_AGO = 1_500_000_000
"""Seconds since 1970, in July 2017."""

WRITE_ONLY = {"write-only": True}
TABLES: dict[str, dict[str, Any]] = {
    "deduplicate": {"keys": ["id"], "options": {"bucket": 3, **WRITE_ONLY}},
    "partitions": {"keys": ["id", "dt"], "by": ["dt"], "options": {"bucket": 2, **WRITE_ONLY}},
    "partial-update": {"keys": ["id"], "options": {"bucket": 2, "merge-engine": "partial-update", **WRITE_ONLY}},
    "vectors": {"keys": ["id"], "options": {"bucket": 2, "deletion-vectors.enabled": True}},
    "lookup": {"keys": ["id"], "options": {"bucket": 2, "changelog-producer": "lookup"}},
    "dynamic": {"keys": ["id"], "options": {"dynamic-bucket.target-row-num": 30, **WRITE_ONLY}},
    "postpone": {"keys": ["id", "dt"], "by": ["dt"], "options": {"bucket": -2}},
    "append": {},
    "append, partitions": {"by": ["dt"]},
    "append, vectors": {"by": ["dt"], "options": {"deletion-vectors.enabled": True}},
    "append, buckets": {"options": {"bucket": 2, "bucket-key": "id", **WRITE_ONLY}},
}


def filled(folder: Path, name: str, **table: Any) -> morrow.Table:
    """Make a table with six batches of rows that share some keys, and with deleted rows."""
    random = Random(name)
    made = new_table(folder, "id BIGINT, dt STRING, v INT", **table)
    for batch in range(6):
        ids = random.sample(range(100), 40)
        made.append({"id": ids, "dt": ["abc"[i % 3] for i in ids], "v": [batch * 100 + i for i in ids]})
    if name.endswith("vectors"):
        made.delete("id % 7 = 1")
    return made


def copied(table: morrow.Table) -> morrow.Table:
    """Copy the table to another path."""
    other = f"{table.path}_copy"
    shutil.copytree(table.path, other)
    return morrow.open(other)


def kept(table: morrow.Table) -> dict[str, list[tuple[Any, ...]]]:
    """List the results of a compaction: files with their buckets and row counts, vectors, and snapshots."""
    files = table.system("files").to_polars()
    files = files.select("partition", "bucket", "level", "record_count", "min_key", "max_key")
    vectors = table.system("table_indexes").to_polars().select("partition", "bucket", "index_type", "row_count")
    snapshots = [(one.commit_kind, one.total_record_count, one.delta_record_count) for one in table.snapshots()]
    return {"files": sorted(files.rows(), key=str), "vectors": sorted(vectors.rows(), key=str), "snapshots": snapshots}


def jobs(spark: SparkSession) -> int:
    """Count the jobs that the session has run so far."""
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


@pytest.mark.parametrize("name", TABLES)
def test_a_full_compaction_is_that_of_the_local_function(spark: SparkSession, tmp_path: Path, name: str) -> None:
    table = filled(tmp_path, name, **TABLES[name])
    local = copied(table)
    before = jobs(spark)
    snapshot = compact(spark, table.path, full=True, distributed=True)
    assert jobs(spark) > before
    assert (snapshot is None) == (local.compact(full=True) is None)
    assert rows_of(table) == rows_of(local)
    assert kept(table) == kept(local)
    assert not [path for path in Path(table.path).iterdir() if path.name.startswith(".")]
    assert table.remove_orphan_files(dt.timedelta(0)).count == 0


def test_deletion_vectors_become_rows_that_are_not_there(spark: SparkSession, tmp_path: Path) -> None:
    table = filled(tmp_path, "vectors", **TABLES["append, vectors"])
    alive = rows_of(table)
    assert len(alive) < table.snapshots()[-1].total_record_count
    before = jobs(spark)
    call(spark, "compact", table=table.path, distributed=True)
    assert jobs(spark) > before
    assert table.snapshots()[-1].total_record_count == len(alive)
    assert rows_of(table) == alive


def test_chosen_partitions(spark: SparkSession, tmp_path: Path) -> None:
    table = filled(tmp_path, "chosen", **TABLES["append, partitions"])

    def files() -> dict[str, int]:
        found = table.system("files").to_polars()["partition"].value_counts()
        return {partition[-2]: count for partition, count in found.sort("partition").rows()}

    nothing = {"distributed": True, "full": True}
    assert compact(spark, table.path, partition={"dt": "none"}, **nothing) is None
    assert compact(spark, table.path, idle=dt.timedelta(hours=1), **nothing) is None
    before = rows_of(table)
    compact(spark, table.path, partition={"dt": "a"}, **nothing)
    assert files() == {"a": 1, "b": 6, "c": 6}
    compact(spark, table.path, partition=[{"dt": "a"}, {"dt": "b"}], where="dt <> 'a'", **nothing)
    assert files() == {"a": 1, "b": 1, "c": 6}
    compact(spark, table.path, idle=dt.timedelta(0), options={"file.format": "orc"}, **nothing)
    assert files() == {"a": 1, "b": 1, "c": 1}
    assert len(list(Path(table.path).glob("dt=c/bucket-0/*.orc"))) == 1
    assert rows_of(table) == before


SORTED = "id BIGINT, dt STRING, v INT, at TIMESTAMP(9), amount DECIMAL(38, 9), parts ARRAY<BINARY>"
SMALL = {"write-buffer-size": "128 kb", "target-file-size": "16 kb"}


@pytest.mark.parametrize(
    ("order_by", "strategy", "options"),
    [
        (["v"], "order", {}),  # one task per partition
        (["v"], "order", SMALL),  # several tasks per partition
        (["v", "amount"], "zorder", SMALL),
        (["id", "v"], "hilbert", SMALL),
    ],
)
def test_sorting(
    spark: SparkSession, tmp_path: Path, order_by: list[str], strategy: str, options: dict[str, str]
) -> None:
    """Rows have the order of the local function, with equal rows in their old order, and types unknown to Spark."""
    table = new_table(tmp_path, SORTED, by=["dt"], options={"deletion-vectors.enabled": True})
    random = Random(5)
    for batch in range(3):
        ids = [random.randrange(10**6) for _ in range(3000)]
        table.append(
            {
                "id": ids,
                "dt": ["a" if i % 8 else "b" for i in ids],
                "v": [i % 50 for i in ids],
                "at": pa.array([i * 1000 + batch for i in ids], pa.timestamp("ns")),
                "amount": pa.array(ids, pa.int64()).cast(pa.decimal128(38, 9)),
                "parts": pa.array([[str(i).encode()] for i in ids], pa.list_(pa.binary())),
            }
        )
    table.delete("v = 7")
    local = copied(table)
    local.alter.set_options(options) if options else None
    local.compact(order_by=order_by, strategy=strategy)
    snapshot = compact(spark, table.path, order_by=order_by, strategy=strategy, options=options, distributed=True)
    assert snapshot is not None
    assert snapshot.commit_kind == "OVERWRITE"
    for partition in ("a", "b"):
        mine, other = (one.scan(filter=f"dt = '{partition}'").to_polars() for one in (table, local))
        assert mine.equals(other)
    files = table.system("files").to_polars()
    assert (files.height > 2) == bool(options)
    assert table.remove_orphan_files(dt.timedelta(0)).count == 0


def test_files_of_a_divided_sort_follow_one_another(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT, v STRING", options=SMALL)
    ids = Random(1).sample(range(10**6), 20_000)
    table.append({"id": ids, "v": [str(i) for i in ids]})
    compact(spark, table.path, order_by="id", distributed=True)
    ids_of = [pl.read_parquet(path)["id"] for path in table.system("files").to_polars()["file_path"]]
    ranges = sorted((one.to_list()[0], one.to_list()[-1]) for one in ids_of)
    assert all(one.is_sorted() for one in ids_of)
    assert len(ranges) > 3
    assert all(before[1] < after[0] for before, after in pairwise(ranges))
    assert rows_of(table) == sorted((i, str(i)) for i in ids)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"order_by": ["no"]}, ColumnNotFound),
        ({"order_by": ["dt"]}, InvalidArgument),
        ({"order_by": []}, InvalidArgument),
        ({"strategy": "zorder"}, InvalidArgument),
        ({"order_by": ["id"], "idle": dt.timedelta(1)}, InvalidArgument),
        ({"order_by": ["id"], "strategy": "curl"}, InvalidArgument),
        ({"where": "id = 1"}, InvalidArgument),
        ({"partition": {"id": 1}}, InvalidArgument),
        ({"options": {"bucket": 5}}, InvalidArgument),
    ],
)
def test_wrong_calls_run_no_job(
    spark: SparkSession, tmp_path: Path, arguments: dict[str, Any], error: type[Exception]
) -> None:
    table = new_table(tmp_path, "id BIGINT, dt STRING", by=["dt"])
    table.append({"id": [1], "dt": ["a"]})
    before = jobs(spark)
    with pytest.raises(error):
        compact(spark, table.path, full=True, distributed=True, **arguments)
    assert jobs(spark) == before


def test_what_is_small_is_compacted_by_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(tmp_path, "small", **TABLES["append, partitions"])
    before = jobs(spark)
    assert compact(spark, table.path, full=True, partition={"dt": "a"}) is not None
    assert jobs(spark) == before
    monkeypatch.setattr(compaction, "MIN_DISTRIBUTED_BYTES", 1)
    assert compact(spark, table.path, full=True, partition={"dt": "b"}) is not None  # a single unit
    assert jobs(spark) == before
    table.append({"id": [1, 2, 3], "dt": ["a", "b", "c"], "v": [1, 1, 1]})
    assert compact(spark, table.path, full=True) is not None
    assert jobs(spark) == before + 1


def test_somebody_else_compacts_the_same_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(tmp_path, "conflict", **TABLES["deduplicate"])
    before = rows_of(table)
    seen: list[set[Path]] = []
    commit_once = compaction.commit_once

    def overtaken(*arguments: Any) -> Any:
        mine = data_files(Path(table.path))
        table.compact(full=True)
        seen.append(data_files(Path(table.path)) - mine)
        return commit_once(*arguments)

    monkeypatch.setattr(compaction, "commit_once", overtaken)
    compact(spark, table.path, full=True, distributed=True)  # the retry finds nothing to do
    assert rows_of(table) == before
    assert table.remove_orphan_files(dt.timedelta(0)).count == 0  # its own files are gone
    assert all(path.exists() for path in seen[0])  # the other writer's files remain


def test_rows_that_are_written_meanwhile_stay(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(tmp_path, "meanwhile", **TABLES["deduplicate"])
    before = dict.fromkeys(row[0] for row in rows_of(table))
    commit_once = compaction.commit_once

    def later(*arguments: Any) -> Any:
        table.append({"id": [1, 1000], "dt": ["x", "x"], "v": [-1, -1]})
        return commit_once(*arguments)

    monkeypatch.setattr(compaction, "commit_once", later)
    compact(spark, table.path, full=True, distributed=True)
    assert {row[0] for row in rows_of(table) if row[2] == -1} == {1, 1000}
    assert {row[0] for row in rows_of(table)} == {*before, 1, 1000}


def test_a_file_that_cannot_be_read_is_an_error_by_name(spark: SparkSession, tmp_path: Path) -> None:
    table = filled(tmp_path, "missing", **TABLES["deduplicate"])
    next(Path(table.path).glob("bucket-1/*.parquet")).unlink()
    there = data_files(Path(table.path))
    with pytest.raises(FileMissing, match="bucket-1"):
        compact(spark, table.path, full=True, distributed=True)
    assert data_files(Path(table.path)) == there
    assert len(table.snapshots()) == 6


def test_a_task_that_fails_leaves_nothing(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failing task and all others have written their files by then."""
    table = filled(tmp_path, "failing", **TABLES["deduplicate"])
    there = data_files(Path(table.path))

    def failing(kind: Work, shared: object) -> Any:
        work = Tasks.of(kind, shared)

        def run_and_fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            results = list(work(batches))
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            if context.partitionId() == 2:
                raise OSError("no space left")
            yield from results

        return run_and_fail

    monkeypatch.setattr(execution, "Tasks", SimpleNamespace(of=failing))
    with pytest.raises(PythonException, match="no space left"):
        compact(spark, table.path, full=True, distributed=True)
    assert data_files(Path(table.path)) == there
    assert len(table.snapshots()) == 6


def test_a_divided_sort_tells_of_a_file_that_is_gone(tmp_path: Path) -> None:
    """The splitting task passes the error to a sorting task, which passes it to the driver (without Spark here)."""
    table = new_table(tmp_path, "id BIGINT", options=SMALL)
    table.append({"id": Random(1).sample(range(10**9), 30_000)})
    target = WriteTarget.of(table._metadata)
    how = Compaction(order_by=("id",), strategy="order")
    ((place, state),) = restore_partitions(target, target.metadata.latest_snapshot(), None).items()
    part = compaction.divide_partition(target, Held.of(place, state), Sorter.of(target, ["id"], "order"))
    assert part is not None
    attempt_log = AttemptLog(target.store, target.metadata.root)
    attempt_log.begin()
    job = compaction.SortJob(
        CompactionJob(TableAccess.of(target, attempt_log.folder), how),
        (compaction.SortedPart(place, part.bounds, (0,) * part.ranges),),
    )
    units = [make_unit_batch([encode_value(file) for file in compaction.list_files(0, part.held)])]
    (kept,) = compaction_tasks.sort(job, compaction_tasks.split(job, units))
    assert kept.to_pylist()[0]["error"] is None

    shutil.rmtree(Path(table.path) / "bucket-0")
    (told,) = compaction_tasks.sort(job, compaction_tasks.split(job, units))
    error = pickle.loads(told.to_pylist()[0]["error"])
    assert isinstance(error, FileMissing)
    assert error.path.endswith(".parquet")


# --- orphans ---

ORPHANS = (
    *("manifest/manifest-x", "index/index-x", "dt=a/bucket-0/data-x.parquet", "dt=a/bucket-7/x.orc"),
    *("dt=gone/bucket-0/x.orc", "snapshot/.old", "branch/branch-b/snapshot/.x"),
    "schema/.schema-1.0123456789abcdef0123456789abcdef.tmp",
)
OTHERS = ("dt=a/x", "notes/bucket-0/x", "x", "dt=a/bucket-0/deep/x", "dt=a/bucket-0/x-0.managed.blob")
EMPTY = ("dt=e/bucket-0", "dt=f", "dt=a/bucket-9")


@pytest.fixture
def littered(tmp_path: Path) -> morrow.Table:
    """Make a table with old orphans, files of others, empty folders, and a link that leads out of it."""
    table = new_table(tmp_path, "dt STRING, v INT", by=["dt"])
    table.append({"dt": ["a", "b"], "v": [1, 2]})
    table.branches.create("b", snapshot=1)
    folder = Path(table.path)
    for name in (*ORPHANS, *OTHERS):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"123")
    for name in EMPTY:
        (folder / name).mkdir(parents=True)
    outside = tmp_path / "outside" / "bucket-0"
    outside.mkdir(parents=True)
    (outside / "data-y.parquet").write_bytes(b"123")
    (folder / "dt=link").symlink_to(outside.parent)
    for path in (*folder.rglob("*"), *outside.rglob("*")):
        os.utime(path, (LONG_AGO, LONG_AGO), follow_symlinks=False)
    return table


def test_orphans_are_those_of_the_local_function(spark: SparkSession, littered: morrow.Table) -> None:
    local = littered.remove_orphan_files()
    found = remove_orphan_files(spark, littered.path, distributed=True)
    assert found == local
    assert {os.path.relpath(path, littered.path) for path in found.paths} == set(ORPHANS)

    removed = remove_orphan_files(spark, littered.path, dry_run=False, distributed=True, parallelism=1)
    assert (removed.paths, removed.bytes, removed.removed) == (found.paths, found.bytes, True)
    folder = Path(littered.path)
    assert not any((folder / name).exists() for name in (*ORPHANS, *EMPTY, "dt=gone"))
    assert all((folder / name).exists() for name in (*OTHERS, "dt=link/bucket-0/data-y.parquet"))
    assert rows_of(littered) == [("a", 1), ("b", 2)]
    assert remove_orphan_files(spark, littered.path, distributed=True).count == 0


def test_few_folders_are_listed_by_the_driver(
    spark: SparkSession, littered: morrow.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = jobs(spark)
    assert remove_orphan_files(spark, littered.path).count == len(ORPHANS)
    assert jobs(spark) == before
    monkeypatch.setattr(orphan_files, "MIN_FOLDERS", 1)
    assert remove_orphan_files(spark, littered.path, dt.timedelta(days=1)).count == len(ORPHANS)
    assert jobs(spark) > before


def test_executors_that_hash_in_another_way_are_not_listened_to(
    spark: SparkSession, littered: morrow.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphan_files, "probe", lambda: 1)
    with pytest.raises(Unsupported, match="hash names in another way"):
        remove_orphan_files(spark, littered.path, dry_run=False, distributed=True)
    assert all((Path(littered.path) / name).exists() for name in ORPHANS)


def test_an_object_store_is_kept_alike(spark: SparkSession) -> None:
    """Tasks get the credentials; a store without folders has none to remove."""
    with s3_server() as options:
        catalog = morrow.Catalog("s3://lake/house", storage_options=options)
        table = catalog.create_table("db.t", schema="dt STRING, v INT", partition_keys=["dt"])
        for number in range(2):
            table.append({"dt": ["a", "b"], "v": [number, number]})
        there = {"distributed": True, "storage_options": options}
        assert compact(spark, table.path, full=True, **there) is not None
        assert table.system("files").to_polars().height == 2
        assert rows_of(table) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]

        orphans = ("dt=a/bucket-0/left.parquet", "manifest/manifest-left")
        for name in (*orphans, "notes"):
            client_of(options).put_object(Bucket="lake", Key=f"house/db.db/t/{name}", Body=b"123")
        time.sleep(1.1)  # S3 rounds times to whole seconds
        found = remove_orphan_files(spark, table.path, dt.timedelta(0), dry_run=False, **there)
        assert found.paths == tuple(f"{table.path}/{left}" for left in orphans)
        assert rows_of(table) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
