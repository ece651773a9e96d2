"""Streams of ``format("morrow")``: offsets, limits, and queries that are stopped, restarted and repeated."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException, UnsupportedOperationException
from pyspark.sql.functions import expr

import morrow
from morrow.engine.errors import InvalidArgument, SnapshotExpired, SnapshotNotFound, Unsupported
from morrow.engine.plan.consumers import ReadCommit
from morrow.spark import register
from morrow.spark.source.options import Limit, Options
from morrow.spark.source.planning import Offset, StreamPlanner
from morrow.spark.source.sinks import sink
from morrow.spark.writing.write import Create
from tests.spark.conftest import IS_LONG
from tests.spark.stream_driver import copying, dying
from tests.support.by_source import register_by_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

ALL = None
"""No limit."""


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    """Make the snapshots 1 to 4: each inserts one row, but the third two, and the fourth deletes the first row."""
    made = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT", primary_keys=["id"], options={"bucket": 1})
    for ids in ([1], [2], [3, 4]):
        made.append({"id": ids})
    made.append({"id": [1]}, kinds="-D")
    return made


def planner(table: morrow.Table, **options: object) -> StreamPlanner:
    return StreamPlanner(Options({"path": table.path} | {k.replace("_", "-"): str(v) for k, v in options.items()}))


def rows(planner: StreamPlanner, start: Offset, end: Offset) -> list[tuple[object, ...]]:
    read = [batch for piece in planner.partitions(start, end) for batch in piece.batches()]
    return [tuple(row.values()) for row in pa.Table.from_batches(read).to_pylist()] if read else []


# --- offsets ---


def test_a_stream_begins_with_all_rows(table: morrow.Table) -> None:
    stream = planner(table)
    begin = stream.initial()
    first = stream.latest(begin, ALL)
    committed = table.snapshots()[-1].time.timestamp() * 1000
    assert first == {"snapshot": 4, "since": 4, "full": True, "at": pytest.approx(committed)}
    assert sorted(rows(stream, begin, first)) == [(2,), (3,), (4,)]
    assert stream.latest(first, ALL) == first  # nothing new
    table.append({"id": [5]})
    assert rows(stream, first, stream.latest(first, ALL)) == [(5,)]


def test_changes_from_a_snapshot_with_their_kinds(table: morrow.Table) -> None:
    stream = planner(table, **{"starting-snapshot": 3, "read.changelog": "true"})
    end = stream.latest(stream.initial(), ALL)
    assert rows(stream, stream.initial(), end) == [("+I", 3), ("+I", 4), ("-D", 1)]


def test_retractions_are_left_out_where_kinds_are(table: morrow.Table) -> None:
    stream = planner(table, starting_snapshot=4)
    assert rows(stream, stream.initial(), stream.latest(stream.initial(), ALL)) == []


@pytest.mark.parametrize(
    ("stored", "begin"),
    [
        ({"scan.mode": "latest"}, {"snapshot": 3, "begin": "changes"}),
        ({"scan.snapshot-id": "2"}, {"snapshot": 1, "begin": "changes"}),
        ({"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"}, {"snapshot": 2, "begin": "full"}),
        ({"scan.timestamp-millis": "0"}, {"snapshot": 0, "begin": "changes"}),
        ({"consumer-id": "me"}, {"snapshot": 2, "begin": "changes"}),
        ({"consumer-id": "me", "consumer.ignore-progress": "true"}, {"snapshot": 4, "begin": "full"}),
    ],
)
def test_options_that_are_stored_with_the_table(table: morrow.Table, stored: dict[str, str], begin: Offset) -> None:
    """They work as in `Table.stream`, and options of the query take precedence."""
    table.consumers.record("me", 3)
    table.alter.set_options(stored)
    stream = planner(table)
    assert stream.initial() == begin
    stream.processed(stream.latest(begin, ALL))
    assert table.consumers.all() == {"me": 5 if "consumer-id" in stored else 3}
    assert planner(table, **{"scan.mode": "latest", "consumer-id": "you"}).initial() == {
        "snapshot": 3,
        "begin": "changes",
    }


@pytest.mark.parametrize("stored", [{"scan.bounded.watermark": "7"}, {"streaming.read.snapshot.delay": "1 d"}])
def test_stored_options_that_queries_of_spark_do_not_have(table: morrow.Table, stored: dict[str, str]) -> None:
    table.alter.set_options(stored)
    with pytest.raises(Unsupported, match="a stream of Spark over a table with the option"):
        planner(table)


def test_the_first_batch_records_where_the_query_began(table: morrow.Table) -> None:
    """When a first batch is repeated, Spark asks again for the beginning, but the table may have changed."""
    stream = planner(table, **{"scan.mode": "latest"})
    begin = stream.initial()
    first = stream.latest(begin, ALL)
    assert first != begin and rows(stream, begin, first) == []  # an empty batch, only for the checkpoint
    table.append({"id": [5]})
    second = stream.latest(first, ALL)
    table.append({"id": [6]})
    again = planner(table, **{"scan.mode": "latest"})
    assert rows(again, again.initial(), second) == [(5,)]


@pytest.mark.parametrize(
    ("options", "ends"),
    [
        ({"max-snapshots-per-trigger": 1}, [1, 2, 3, 4]),
        ({"max-snapshots-per-trigger": 3}, [3, 4]),
        ({"read.stream.maxFilesPerTrigger": 2}, [2, 4]),
        ({"read.stream.maxRowsPerTrigger": 1}, [1, 2, 3, 4]),  # snapshots are not divided
        ({"read.stream.maxRowsPerTrigger": 4}, [3, 4]),
        ({}, [4]),
    ],
    ids=str,
)
def test_limits(options: dict[str, int], ends: list[int], table: morrow.Table) -> None:
    stream = planner(table, **{"starting-snapshot": 1, **options})
    reached, offset = [], stream.initial()
    while (end := stream.latest(offset, stream.read_limit())) != offset:
        reached.append(end["snapshot"])
        offset = end
    assert reached == ends


def test_a_batch_waits_for_rows_but_not_for_ever(table: morrow.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("morrow.spark.source.planning.time.monotonic", lambda: now)
    stream = planner(table, **{"read.stream.minRowsPerTrigger": 3, "read.stream.maxTriggerDelayMs": 5000})
    first = stream.latest(stream.initial(), stream.read_limit())  # rows that exist at the beginning do not wait
    table.append({"id": [5, 6]})
    assert stream.latest(first, stream.read_limit()) == first
    now = 5.0
    second = stream.latest(first, stream.read_limit())
    assert sorted(rows(stream, first, second)) == [(5,), (6,)]
    table.append({"id": [7, 8]})
    assert stream.latest(second, stream.read_limit()) == second
    table.append({"id": [9]})
    assert len(rows(stream, second, stream.latest(second, stream.read_limit()))) == 3


def test_the_first_rows_of_an_empty_table_do_not_wait(tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id BIGINT")
    stream = planner(table, **{"read.stream.minRowsPerTrigger": 4, "read.stream.maxTriggerDelayMs": 5000})
    empty = stream.latest(stream.initial(), stream.read_limit())
    table.append({"id": [1, 2, 3]})
    first = stream.latest(empty, stream.read_limit())
    assert sorted(rows(stream, empty, first)) == [(1,), (2,), (3,)]
    table.append({"id": [4]})
    assert stream.latest(first, stream.read_limit()) == first


MODES = [
    ({"scan.mode": "latest-full"}, {"snapshot": 4, "begin": "full"}),
    ({"scan.mode": "latest"}, {"snapshot": 3, "begin": "changes"}),
    ({"scan.mode": "from-snapshot", "scan.snapshot-id": 2}, {"snapshot": 1, "begin": "changes"}),
    ({"scan.mode": "from-snapshot-full", "scan.snapshot-id": 2}, {"snapshot": 2, "begin": "full"}),
    ({"scan.snapshot-id": 2}, {"snapshot": 1, "begin": "changes"}),
    ({"scan.mode": "default", "scan.timestamp-millis": 1}, {"snapshot": 0, "begin": "changes"}),
]


@pytest.mark.parametrize(("options", "begin"), MODES, ids=str)
def test_beginnings_by_paimons_names(options: dict[str, object], begin: dict[str, object], table: morrow.Table) -> None:
    assert planner(table, **options).initial() == begin


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scan.mode": "compacted-full"}, "it is default or full or"),
        ({"scan.mode": "from-snapshot"}, "needs the option 'starting-snapshot'"),
        ({"scan.mode": "latest", "scan.snapshot-id": 1}, "both say where a stream begins"),
        ({"starting-snapshot": 1, "starting-timestamp": 1}, "both say where a stream begins"),
        ({"read.stream.maxFilesPerTrigger": 1, "read.stream.maxRowsPerTrigger": 1}, "both say what a batch takes"),
        ({"read.stream.minRowsPerTrigger": 1}, "are given together or not at all"),
        ({"incremental-between": "3,5"}, "choose where a stream begins by 'scan.snapshot-id'"),
        ({"read.stream.maxFilesPerTrigger": 0}, "it is 1 at least"),
        ({"tag": "a"}, "the option 'tag' of a stream, .* is not supported; say where it begins"),
    ],
    ids=str,
)
def test_options_that_a_stream_does_not_take(options: dict[str, object], message: str, table: morrow.Table) -> None:
    with pytest.raises((InvalidArgument, Unsupported), match=message):
        planner(table, **options)


def test_a_query_keeps_the_columns_it_began_with(tmp_path: Path) -> None:
    log = morrow.Catalog(tmp_path).create_table("db.log", schema="id INT")
    stream = planner(log, starting_snapshot=1)
    log.alter.add_column("item", "STRING").rename_column("id", "number")
    morrow.open(log.path).append({"number": [5], "item": ["five"]})
    end = stream.latest(stream.initial(), ALL)
    assert [field.name for field in stream.fields] == ["id"] and rows(stream, stream.initial(), end) == [(5,)]
    again = planner(log, starting_snapshot=1)  # the query after a restart
    assert rows(again, again.initial(), end) == [(5, "five")]


def test_a_type_that_changes_ends_a_query_and_not_the_next_one(tmp_path: Path) -> None:
    log = morrow.Catalog(tmp_path).create_table("db.log", schema="id INT")
    stream = planner(log, starting_snapshot=1)
    log.append({"id": [5]})
    log.alter.set_type("id", "BIGINT")
    morrow.open(log.path).append({"id": [1 << 40]})
    end = stream.latest(stream.initial(), ALL)
    with pytest.raises(Unsupported, match="'id', which was INT when the stream began, as BIGINT"):
        rows(stream, stream.initial(), end)
    again = planner(log, starting_snapshot=1)
    assert rows(again, again.initial(), end) == [(5,), (1 << 40,)]


def test_spark_may_ask_for_all(table: morrow.Table) -> None:
    stream = planner(table, **{"starting-snapshot": 1, "max-snapshots-per-trigger": 1})
    assert stream.latest(stream.initial(), ALL)["snapshot"] == 4
    assert stream.latest(stream.initial(), Limit("rows", 2))["snapshot"] == 1


def test_available_now_stops_at_what_was_there(table: morrow.Table) -> None:
    stream = planner(table, **{"starting-snapshot": 1})
    stream.stop_at_newest()
    table.append({"id": [5]})
    assert stream.latest(stream.initial(), Limit("files", 100))["snapshot"] == 4


def test_a_consumer_keeps_what_was_not_read_and_goes_on_there(table: morrow.Table) -> None:
    options = {"starting-snapshot": 1, "consumer-id": "copy"}
    first = planner(table, **options)
    end = first.latest(first.initial(), Limit("rows", 2))
    first.processed(end)
    assert planner(table, **options).initial()["snapshot"] == 2
    last = first.latest(end, ALL)
    assert first.latest(last, ALL) == last  # Spark asks again, and does not report that the last batch is done
    assert table.consumers.all() == {"copy": table.snapshots()[-1].id + 1}


def test_a_table_that_was_rolled_back_ends_the_stream(table: morrow.Table) -> None:
    """New snapshots have taken the ids of the removed ones."""
    stream = planner(table, **{"starting-snapshot": 1})
    end = stream.latest(stream.initial(), None)
    table.rollback(1)
    with pytest.raises(SnapshotNotFound, match="rolled back"):
        planner(table, **{"starting-snapshot": 1}).latest(end, None)
    for number in range(5, 10):
        table.append({"id": [number]})
    with pytest.raises(SnapshotNotFound, match="snapshot 4 is another than the one that the stream has read"):
        planner(table, **{"starting-snapshot": 1}).latest(end, None)
    table.consumers.record("c", 5, ReadCommit("me", 1, 1))
    with pytest.raises(SnapshotNotFound, match="snapshot 4 is another"):
        resumed = planner(table, **{"consumer-id": "c"})
        resumed.latest(resumed.initial(), None)
    written_before = {name: value for name, value in end.items() if name != "at"}
    assert stream.latest(written_before, None)["snapshot"] == table.snapshots()[-1].id


def test_a_stream_waits_for_the_snapshot_that_it_begins_with(table: morrow.Table) -> None:
    last = table.snapshots()[-1].id
    stream = planner(table, **{"starting-snapshot": last + 2})
    first = stream.latest(stream.initial(), None)
    assert stream.latest(first, None) == first
    for number in (8, 9):
        table.append({"id": [number]})
    assert rows(stream, first, stream.latest(first, None)) == [(9,)]


def test_snapshots_that_expired_before_they_were_read(table: morrow.Table) -> None:
    stream = planner(table, **{"starting-snapshot": 1})
    end = stream.latest(stream.initial(), ALL)
    (Path(table.path) / "snapshot" / "snapshot-1").unlink()
    with pytest.raises(SnapshotExpired, match="begin again with another checkpoint"):
        planner(table, **{"starting-snapshot": 1}).partitions(stream.initial(), end)


# --- queries ---


def copied(spark: SparkSession, source: str, sink: str, checkpoint: Path, **options: str) -> str:
    """Copy the current content, and return the id of the query."""
    changes = spark.readStream.format("morrow").option("read.changelog", "true").load(source)
    writer = changes.writeStream.format("morrow").option("checkpointLocation", str(checkpoint)).options(**options)
    return finished(writer.option("path", sink))


def finished(writer: DataStreamWriter) -> str:
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(200)
    return str(query.id)


def forget_last_commit(checkpoint: Path) -> None:
    """Rewind the checkpoint, as if the driver died before Spark recorded the commit; the batch is then repeated."""
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


def ids(path: str) -> list[int]:
    found: list[int] = morrow.open(path).scan().to_arrow()["id"].to_pylist()
    return sorted(found)


def commits(path: str) -> list[tuple[str, int, str]]:
    snapshots = morrow.open(path).snapshots()
    return [(one.commit_user, one.commit_identifier, one.commit_kind) for one in snapshots]


def test_a_copy_with_deletion_vectors_is_exact_through_restarts_and_repeated_batches(
    spark: SparkSession, table: morrow.Table, tmp_path: Path
) -> None:
    register(spark)
    path, checkpoint = str(tmp_path / "copy"), tmp_path / "checkpoint"
    options = {"primary-key": "id", "bucket": "1", "deletion-vectors.enabled": "true", "kinds": "rowkind"}
    query = copied(spark, table.path, path, checkpoint, **options)
    assert ids(path) == [2, 3, 4]

    table.append({"id": [5]})
    table.append({"id": [2]}, kinds="-D")
    forget_last_commit(checkpoint)
    assert copied(spark, table.path, path, checkpoint, **options) == query
    assert ids(path) == [3, 4, 5]
    made = commits(path)
    assert len(set(made)) == len(made) and {user for user, _, _ in made} == {query}


def test_for_each_batch(spark: SparkSession, table: morrow.Table, tmp_path: Path) -> None:
    """Rows are shuffled to the tasks that write their buckets, also if keys get their buckets one by one."""
    register(spark)
    path, checkpoint = str(tmp_path / "copy"), tmp_path / "checkpoint"
    create: Create = {"primary_keys": "id", "options": {"bucket": -1}}
    for _ in range(2):
        changes = spark.readStream.format("morrow").load(table.path)
        written = changes.writeStream.foreachBatch(sink(path, create=create))
        query = finished(written.option("checkpointLocation", str(checkpoint)))
        table.append({"id": [5]})
        forget_last_commit(checkpoint)
    assert ids(path) == [2, 3, 4, 5]
    assert commits(path) == [(query, 0, "APPEND"), (query, 1, "APPEND")]


def test_batches_of_a_sink_are_known_by_the_name_that_the_caller_gives(spark: SparkSession, tmp_path: Path) -> None:
    batch = spark.range(2)
    with pytest.raises(InvalidArgument, match="does not say which query this batch is of"):
        sink(str(tmp_path / "t"))(batch, 0)
    whole = sink(str(tmp_path / "t"), "overwrite", commit_user="etl", create={"options": {"bucket": -1}})
    for number in (0, 0, 1, 0):
        whole(batch, number)
    assert [(user, number) for user, number, _ in commits(str(tmp_path / "t"))] == [("etl", 0), ("etl", 1)]
    assert ids(str(tmp_path / "t")) == [0, 1]


def test_output_modes(spark: SparkSession, table: morrow.Table, tmp_path: Path) -> None:
    """``complete`` replaces all rows by each batch, ``update`` updates the rows of its keys."""
    register(spark)
    keys = {"primary-key": "id", "bucket": "1"}
    upsert = sink(str(tmp_path / "update"), create={"primary_keys": "id", "options": {"bucket": 1}})
    for _ in range(2):
        counts = spark.readStream.format("morrow").load(table.path).groupBy(expr("id % 2 AS id")).count()
        complete = counts.writeStream.outputMode("complete").format("morrow").option("path", str(tmp_path / "complete"))
        finished(complete.option("checkpointLocation", str(tmp_path / "1")))
        update = counts.writeStream.outputMode("update").foreachBatch(upsert)
        finished(update.option("checkpointLocation", str(tmp_path / "2")))
        keyed = counts.writeStream.outputMode("update").format("morrow").options(**keys, path=str(tmp_path / "keyed"))
        finished(keyed.option("checkpointLocation", str(tmp_path / "3")))
        table.append({"id": [6]})
    with pytest.raises(UnsupportedOperationException, match=r"'update'\) into a table without primary key"):
        counts.writeStream.outputMode("update").format("morrow").start(
            str(tmp_path / "complete"), checkpointLocation=str(tmp_path / "4")
        )
    for mode in ("complete", "update", "keyed"):
        copy = morrow.open(str(tmp_path / mode)).scan().to_arrow().sort_by("id")
        assert copy.to_pydict() == {"id": [0, 1], "count": [3, 1]}


def dies_in_its_process(arguments: tuple[str, str, str]) -> None:
    """Run the stream in a separate driver, until driver and JVM are killed in the middle of a batch."""
    command = [sys.executable, "-m", "tests.spark.stream_driver", *arguments]
    root = Path(__file__).parents[3]
    killed = subprocess.run(command, cwd=root, timeout=400, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr


def fails(spark: SparkSession, arguments: tuple[str, str, str]) -> None:
    """Run the stream in this session, until the committing process is killed in the middle of a batch."""
    register(spark)
    spark.dataSource.register(dying([]))
    with pytest.raises(StreamingQueryException):
        finished(copying(spark, *arguments))


def test_a_driver_that_is_killed_in_the_middle_of_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    """The table lacks a key, so lost or duplicated rows would show."""
    source = morrow.Catalog(tmp_path).create_table("db.log", schema="id INT")
    for number in range(4):
        source.append({"id": [number, number]})
    arguments = (source.path, str(tmp_path / "copy"), str(tmp_path / "checkpoint"))
    dies_in_its_process(arguments) if IS_LONG else fails(spark, arguments)
    assert ids(arguments[1]) == [0, 0]
    left = {file.name for file in (tmp_path / "copy").glob("bucket-*/data-*")}
    assert len(left) > 1  # includes uncommitted files

    register_by_source(spark)
    query = finished(copying(spark, *arguments))
    assert ids(arguments[1]) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [(user, number) for user, number, _ in commits(arguments[1])] == [(query, number) for number in range(4)]
