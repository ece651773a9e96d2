"""The units of work sent to the tasks of a compaction: plain data, each unit independent of the others.

=============  =================================================================================================
bucket         one bucket of a table with a primary key
postponed      buckets of one partition with postponed rows (``bucket`` = -2), or with rows that were postponed
append bucket  one fixed bucket of an append table
pack           files of a table without buckets that become one, with the index files of their deletion vectors
sorted         all files of a partition, whose rows are sorted
=============  =================================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from morrow.engine.format.data_file_meta import DataFileMeta, IndexFileMeta
from morrow.engine.format.deletion_index import INDEX_TYPE
from morrow.spark.job.table import TableAccess
from morrow.writers.buckets.restored import BucketState
from morrow.writers.files import Placement
from morrow.writers.operations.overriding import with_options
from morrow.writers.target import WriteTarget


class Step(StrEnum):
    """The step of the local compaction that a unit is."""

    BUCKET = "bucket"
    POSTPONED = "postponed"
    APPEND_BUCKET = "append bucket"
    PACK = "pack"
    SORTED = "sorted"


class Held(msgspec.Struct, frozen=True, array_like=True):
    """The files of a bucket: a `BucketState` and its place."""

    partition: bytes
    bucket: int
    files: tuple[DataFileMeta, ...]
    total_buckets: int | None
    index_files: tuple[IndexFileMeta, ...]
    snapshot_id: int | None

    @classmethod
    def of(cls, place: Placement, state: BucketState) -> Held:
        return cls(
            place.partition, place.bucket, state.files, state.total_buckets, state.index_files, state.snapshot_id
        )

    def only(self, files: tuple[DataFileMeta, ...]) -> Held:
        """Returns some of the files, with the index files of their deletion vectors."""
        names = {file.file_name for file in files}
        return msgspec.structs.replace(
            self, files=files, index_files=tuple(index for index in self.index_files if _has_one(index, names))
        )

    @property
    def place(self) -> Placement:
        return Placement(self.partition, self.bucket)

    @property
    def state(self) -> BucketState:
        return BucketState(self.files, self.total_buckets, self.index_files, self.snapshot_id)


def _has_one(index: IndexFileMeta, names: set[str]) -> bool:
    """Returns whether an index file has the deletion vector of one of these data files."""
    return index.index_type == INDEX_TYPE and any(entry.data_file in names for entry in index.deletion_ranges or ())


class Unit(msgspec.Struct, frozen=True, array_like=True):
    """Work that one task does from beginning to end."""

    step: Step
    held: tuple[Held, ...]

    @property
    def states(self) -> Mapping[Placement, BucketState]:
        return {one.place: one.state for one in self.held}

    def weight(self) -> int:
        """Returns the total size of its files in bytes."""
        return sum(file.file_size for one in self.held for file in one.files)


@dataclass(frozen=True)
class Compaction:
    """The settings of a compaction.

    Args:
        full: as for `Table.compact`.
        order_by, strategy: the order of rows; no columns: they are not sorted.
        options: options of the table that are overridden this time.
    """

    full: bool = False
    order_by: tuple[str, ...] = ()
    strategy: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CompactionJob:
    """What all tasks of a compaction share: the table, and the settings."""

    table: TableAccess
    how: Compaction

    def target(self) -> WriteTarget:
        """Returns the table at the schema that the driver saw, with the options of this compaction."""
        return with_options(self.table.target(), self.how.options)

    def attempt(self, name: str) -> WriteTarget:
        """Returns as `target`, for what an attempt of a task writes."""
        return with_options(self.table.attempt(name), self.how.options)
