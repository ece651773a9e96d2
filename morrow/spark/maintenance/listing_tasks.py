"""The tasks that list a table's folders, as passed to Spark. Like its siblings, this module imports little."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from morrow.spark.job.tasks import use_cores_of_task

if TYPE_CHECKING:
    import pyarrow as pa

    from morrow.spark.maintenance.listing_work import ListingJob

LISTED = "hashes binary, strays binary, empty array<string>, check bigint"
"""The hashes of a task, 8 bytes each; strays as Arrow IPC; and the hash of `listing_work.PROBE`."""
PATHS = "files binary"


@dataclass(frozen=True)
class ListingTasks:
    """Lists folders, or finds the files whose names have the `hashes` (8 bytes each), if given.

    `job` is a pickled `ListingJob`.
    """

    job: bytes = field(repr=False)
    hashes: bytes | None = field(default=None, repr=False)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use_cores_of_task()
        from morrow.spark.maintenance.listing_work import listed, paths

        job: ListingJob = pickle.loads(self.job)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from listed(job, number) if self.hashes is None else paths(job, number, self.hashes)
