"""The work of tasks, called directly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import FileMissing, SnapshotExpired
from morrow.spark.job.sections import ScanJob
from morrow.spark.job.wire import make_unit_batch
from morrow.spark.reading.tasks import compute_masks, merge, read_places, scan
from tests.support.table_factory import TableFactory

Work = Callable[[ScanJob, Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def merging(path: Path) -> TableFactory:
    table = TableFactory(path / "t", [("id", "INT"), ("v", "INT")], ["id"], options={"merge-engine": "partial-update"})
    for value in (1, 2):
        table.write_file(pa.table({"id": pa.array([1, 2], pa.int32()), "v": pa.array([value, value], pa.int32())}))
    table.commit()
    return table


@pytest.mark.parametrize("work", [scan, merge, compute_masks, read_places])
def test_tasks_of_a_snapshot_that_has_expired_say_so(tmp_path: Path, work: Work) -> None:
    table = merging(tmp_path)
    found = morrow.open(table.path).scan()
    job = ScanJob.of(found.plan, found.store)
    units = make_unit_batch(job.units(found.plan.sections))
    assert sum(batch.num_rows for batch in work(job, [units])) == 2
    morrow.clear_caches()
    for file in found.plan.files:
        Path(file.path).unlink()
    with pytest.raises(FileMissing):
        list(work(job, [units]))
    (table.path / "snapshot" / "snapshot-1").unlink()
    with pytest.raises(SnapshotExpired):
        list(work(job, [units]))
