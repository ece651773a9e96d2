"""The tasks that list a table's folders, as Spark is given them. This module imports little, as those beside it."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from morrow.readers.spark.tasks import use_cores_of_task

if TYPE_CHECKING:
    import pyarrow as pa

    from morrow.writers.spark.listing_work import ListingJob

LISTED = "hashes binary, strays binary, empty array<string>, check bigint"
"""The hashes of a task, 8 bytes each; strays as Arrow IPC; and the hash of `PROBE`."""
PATHS = "files binary"
PROBE = "data-00000000-0000-0000-0000-000000000000-0.parquet"
"""Hashes are compared with those of the driver: what hashes this in another way must not be listened to."""


@dataclass(frozen=True)
class ListingTasks:
    """Lists folders; or, where `hashes` are given (8 bytes each), finds the files whose names have them.

    `job` is a pickled `ListingJob`.
    """

    job: bytes = field(repr=False)
    hashes: bytes | None = field(default=None, repr=False)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use_cores_of_task()
        from morrow.writers.spark.listing_work import listed, paths

        job: ListingJob = pickle.loads(self.job)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from listed(job, number) if self.hashes is None else paths(job, number, self.hashes)
