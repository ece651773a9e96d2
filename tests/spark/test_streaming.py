"""Streams of ``format("morrow")``: offsets, limits, and queries that are stopped, restarted and repeated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, ReadMaxRows

import morrow
from morrow.engine.errors import InvalidArgument, SnapshotExpired
from morrow.spark.source import register
from morrow.spark.source.options import Options
from morrow.spark.source.pieces import batches
from morrow.spark.source.stream import Offset, StreamPlanner
from morrow.spark.writing import write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ALL = ReadAllAvailable()


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    """Snapshots 1 to 4: each inserts one row, the third has two, the fourth deletes the first row."""
    made = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT", primary_keys=["id"], options={"bucket": 1})
    for ids in ([1], [2], [3, 4]):
        made.append({"id": ids})
    made.append({"id": [1]}, kinds="-D")
    return made


def planner(table: morrow.Table, **options: object) -> StreamPlanner:
    return StreamPlanner(Options({"path": table.path} | {k.replace("_", "-"): str(v) for k, v in options.items()}))


def rows(planner: StreamPlanner, start: Offset, end: Offset) -> list[tuple[object, ...]]:
    read = [batch for piece in planner.partitions(start, end) for batch in batches(piece)]
    return [tuple(row.values()) for row in pa.Table.from_batches(read).to_pylist()] if read else []


# --- offsets ---


def test_a_stream_begins_with_all_rows(table: morrow.Table) -> None:
    stream = planner(table)
    begin = stream.initial()
    first = stream.latest(begin, ALL)
    assert first == {"snapshot": 4, "since": 4, "full": True}
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


def test_the_first_batch_records_where_the_query_began(table: morrow.Table) -> None:
    """Spark asks again where to begin when that batch is repeated; by then the table has gone on."""
    stream = planner(table, **{"scan.mode": "latest"})
    begin = stream.initial()
    first = stream.latest(begin, ALL)
    assert first != begin and rows(stream, begin, first) == []  # run for the checkpoint's sake
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
        ({"read.stream.maxRowsPerTrigger": 1}, [1, 2, 3, 4]),  # a snapshot is not divided
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


def test_spark_may_ask_for_all(table: morrow.Table) -> None:
    stream = planner(table, **{"starting-snapshot": 1, "max-snapshots-per-trigger": 1})
    assert stream.latest(stream.initial(), ALL)["snapshot"] == 4
    assert stream.latest(stream.initial(), ReadMaxRows(2))["snapshot"] == 1


def test_available_now_stops_at_what_was_there(table: morrow.Table) -> None:
    stream = planner(table, **{"starting-snapshot": 1})
    stream.stop_at_newest()
    table.append({"id": [5]})
    assert stream.latest(stream.initial(), ReadMaxFiles(100))["snapshot"] == 4


def test_a_consumer_keeps_what_was_not_read_and_goes_on_there(table: morrow.Table) -> None:
    options = {"starting-snapshot": 1, "consumer-id": "copy"}
    first = planner(table, **options)
    first.processed(first.latest(first.initial(), ReadMaxRows(2)))
    assert planner(table, **options).initial()["snapshot"] == 2


def test_snapshots_that_expired_before_they_were_read(table: morrow.Table) -> None:
    stream = planner(table, **{"starting-snapshot": 1})
    end = stream.latest(stream.initial(), ALL)
    (Path(table.path) / "snapshot" / "snapshot-1").unlink()
    with pytest.raises(SnapshotExpired, match="begin anew with another checkpoint"):
        planner(table, **{"starting-snapshot": 1}).partitions(stream.initial(), end)


def test_where_to_begin_is_said_once() -> None:
    with pytest.raises(InvalidArgument, match="both say where a stream begins"):
        Options({"path": "t", "scan.mode": "latest", "starting-snapshot": "1"}).stream()


# --- queries ---


def run(spark: SparkSession, source: str, sink: str, checkpoint: Path) -> str:
    """Copy what is there now; the id of the query."""
    changes = spark.readStream.format("morrow").option("read.changelog", "true")
    query = (
        changes.load(source)
        .writeStream.format("morrow")
        .options(**{"checkpointLocation": str(checkpoint), "primary-key": "id", "bucket": "1", "kinds": "rowkind"})
        .trigger(availableNow=True)
        .start(sink)
    )
    assert query.awaitTermination(120)
    return str(query.id)


def test_a_copy_is_exact_through_restarts_and_repeated_batches(
    spark: SparkSession, table: morrow.Table, tmp_path: Path
) -> None:
    register(spark)
    path, checkpoint = str(tmp_path / "copy"), tmp_path / "checkpoint"
    query = run(spark, table.path, path, checkpoint)
    copy = morrow.open(path)
    assert sorted(copy.scan().to_arrow()["id"].to_pylist()) == [2, 3, 4]

    table.append({"id": [5]})
    table.append({"id": [2]}, kinds="-D")
    # The driver died after the commit and before Spark took note of it: the batch is repeated.
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    assert run(spark, table.path, path, checkpoint) == query

    assert sorted(copy.scan().to_arrow()["id"].to_pylist()) == [3, 4, 5]
    commits = [(snapshot.commit_user, snapshot.commit_identifier) for snapshot in copy.snapshots()]
    assert len(set(commits)) == len(commits) and {user for user, _ in commits} == {query}


def test_for_each_batch(spark: SparkSession, table: morrow.Table, tmp_path: Path) -> None:
    """The recipe for large batches: rows are shuffled to the tasks that write their buckets."""
    register(spark)
    path = str(tmp_path / "copy")
    create = {"primary_keys": "id", "options": {"bucket": 2}}

    def upsert(batch: DataFrame, number: int) -> None:
        write(batch, path, commit_user="the copy", commit_identifier=number, create=create)

    rows = spark.readStream.format("morrow").load(table.path)
    query = rows.writeStream.foreachBatch(upsert).option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert query.trigger(availableNow=True).start().awaitTermination(120)
    assert sorted(morrow.open(path).scan().to_arrow()["id"].to_pylist()) == [2, 3, 4]
