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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import msgspec

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.data_file_meta import DataFileMeta, IndexFileMeta
from morrow.engine.io.store import FileStore
from morrow.engine.options import parse_write_options
from morrow.engine.options.registry import OPTIONS, present_key
from morrow.engine.schema.option_changes import check_set_option
from morrow.spark.job.payload import WriteJob
from morrow.writers.files import Placement
from morrow.writers.restored import BucketState
from morrow.writers.target import WriteTarget


class Work(StrEnum):
    """The kind of work of a unit."""

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

    @property
    def place(self) -> Placement:
        return Placement(self.partition, self.bucket)

    @property
    def state(self) -> BucketState:
        return BucketState(self.files, self.total_buckets, self.index_files, self.snapshot_id)


class Unit(msgspec.Struct, frozen=True, array_like=True):
    """Work that one task does from beginning to end."""

    work: Work
    held: tuple[Held, ...]

    @property
    def states(self) -> Mapping[Placement, BucketState]:
        return {one.place: one.state for one in self.held}

    @property
    def bytes(self) -> int:
        """The total size of its files."""
        return sum(file.file_size for one in self.held for file in one.files)


_DECODER = msgspec.msgpack.Decoder(Unit)


def encoded(unit: Unit) -> bytes:
    """Returns a unit as MessagePack."""
    return msgspec.msgpack.encode(unit)


def decoded(data: bytes) -> Unit:
    """Returns the unit from the bytes of `encoded`."""
    return _DECODER.decode(data)


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
    """The common part of all tasks of a compaction: the table, and the settings."""

    table: WriteJob
    how: Compaction

    @classmethod
    def of(cls, target: WriteTarget, how: Compaction, attempt_log: str) -> CompactionJob:
        return cls(WriteJob.of(target, (), kinds=None, overwrite=False, compact=how.full, attempt_log=attempt_log), how)

    def target(self, store: FileStore) -> WriteTarget:
        """Returns the table at the schema that the driver saw, with the options of this compaction."""
        return with_options(self.table.target(store), self.how.options)


def with_options(target: WriteTarget, options: Mapping[str, str]) -> WriteTarget:
    """Returns the table with other options, for this compaction.

    Raises:
        InvalidArgument: an unknown option, a value that does not parse, or an option that cannot change.
        Unsupported: as if the table had these options.
    """
    if not options:
        return target
    changed: dict[str, str] = {}
    for key, value in options.items():
        name = present_key(key)
        if name not in OPTIONS:
            raise InvalidArgument(f"{target.where}: there is no option {key!r} of tables")
        check_set_option(target.schema.options, name, value, target.where)
        changed[name] = value
    schema = replace(target.schema, options={**target.schema.options, **changed})
    write = parse_write_options(schema.options, keyed=target.keyed, where=target.where)
    return replace(target, schema=schema, options=target.metadata.options(schema), write=write)


def dealt(units: Sequence[Unit], hands: int) -> list[list[Unit]]:
    """Distributes units over `hands` groups (fewer if there are fewer units) of similar size, the largest first."""
    groups: list[list[Unit]] = [[] for _ in range(min(hands, len(units)))]
    sizes = [0] * len(groups)
    for unit in sorted(units, key=lambda unit: unit.bytes, reverse=True):
        least = sizes.index(min(sizes))
        groups[least].append(unit)
        sizes[least] += unit.bytes + 1
    return groups
