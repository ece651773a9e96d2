"""Distribution of work units to tasks; the caller's session stays unchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import morrow
from morrow.spark.job import execution
from morrow.spark.job.execution import INLINE_SETTING, find_tokens, make_units_frame, shuffle_by_task
from morrow.spark.job.sections import ScanJob
from morrow.spark.job.tasks import Tasks, Work
from tests.support.table_factory import TableFactory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("connect", [False, True])
def test_each_group_of_units_is_one_tasks(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, connect: bool) -> None:
    """Spark Connect servers partition rows themselves, so the units are shuffled there."""
    monkeypatch.setattr(execution, "is_connect", lambda _: connect)

    def seen(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        units = [unit.decode() for batch in batches for unit in batch.column("unit").to_pylist()]
        yield pa.RecordBatch.from_pydict({"task": [context.partitionId()], "units": [" ".join(units)]})

    groups = [[b"a", b"b"], [b"c"], [b"d", b"e", b"f"]]
    rows = make_units_frame(spark, groups).mapInArrow(seen, "task bigint, units string").collect()
    assert sorted((row.task, row.units) for row in rows) == [(0, "a b"), (1, "c"), (2, "d e f")]


def test_sessions_stay_as_they_are(spark: SparkSession) -> None:
    from pyspark.sql import SparkSession

    other = spark.newSession()
    other.conf.set(INLINE_SETTING, "7b")
    before = SparkSession.getActiveSession()
    assert make_units_frame(other, [[b"a"]]).count() == make_units_frame(spark, [[b"a"]]).count() == 1
    assert (spark.conf.get(INLINE_SETTING, None), other.conf.get(INLINE_SETTING)) == (None, "7b")
    after = SparkSession.getActiveSession()
    assert before is after or (
        before is not None and after is not None and before._jsparkSession == after._jsparkSession
    )


def test_what_tasks_share_does_not_grow_with_the_files(tmp_path: Path) -> None:
    def shared(files: int) -> Tasks:
        table = TableFactory(tmp_path / f"t{files}", [("id", "INT")])
        for number in range(files):
            table.write_file(pa.table({"id": [number]}))
        table.commit()
        scan = morrow.open(table.path).scan()
        job = ScanJob.of(scan.plan, scan.store)
        assert len(b"".join(job.units(scan.plan.sections))) > 100 * files
        return Tasks.of(Work.SCAN, job)

    assert len(shared(9).shared) == len(shared(1).shared)


@pytest.mark.parametrize("tasks", [1, 2, 7, 200])
def test_rows_go_to_the_task_of_their_number(spark: SparkSession, tasks: int) -> None:
    numbered = spark.range(3 * tasks)
    places = shuffle_by_task(numbered, "id", tasks).selectExpr("id", "spark_partition_id() AS place").collect()
    assert Counter(place == number % tasks for number, place in places) == {True: 3 * tasks}


def test_tokens_of_no_task_are_missing() -> None:
    assert all(len(set(find_tokens(tasks))) == tasks for tasks in (1, 2, 3, 64, 1000))
