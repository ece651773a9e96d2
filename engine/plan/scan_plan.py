"""The plan of a read: immutable data that prints, compares and pickles. Readers execute it and decide nothing more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

import msgspec

from morrow.engine.format.binary_row import Value
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.plan.filter import Filter


class DeletionRef(msgspec.Struct, frozen=True):
    """Where the deletion vector of a data file lies; `cardinality` is null in files of old versions."""

    path: str
    offset: int
    length: int
    cardinality: int | None = None


class DataFile(msgspec.Struct, frozen=True):
    """One data file to read. `delete_rows` is null when its writer did not count retractions."""

    path: str
    format: str
    size: int
    row_count: int
    level: int
    schema_id: int
    min_sequence: int
    max_sequence: int
    delete_rows: int | None = None
    first_row_id: int | None = None
    write_columns: tuple[str, ...] | None = None
    deletion: DeletionRef | None = None

    @property
    def may_hold_retractions(self) -> bool:
        return self.delete_rows is None or self.delete_rows > 0


class SectionKind(StrEnum):
    """How the files of a section become rows."""

    RAW = "raw"
    """Every row that is not masked is a row of the table."""
    MERGE = "merge"
    """Files overlap in keys: versions of a key are merged."""
    STITCH = "stitch"
    """Files hold different columns of the same row ids (data evolution)."""


class Section(msgspec.Struct, frozen=True):
    """Files of one bucket that are read together, with the values of their partition.

    Of a MERGE section `key_low` and `key_high` bound all its keys (both included).
    """

    kind: SectionKind
    partition: tuple[Value | None, ...]
    bucket: int
    files: tuple[DataFile, ...]
    key_low: tuple[Value | None, ...] | None = None
    key_high: tuple[Value | None, ...] | None = None

    @property
    def row_count(self) -> int:
        return sum(file.row_count for file in self.files)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class PruneStep:
    """What one step of planning kept, for explain."""

    name: str
    kept: int
    of: int


@dataclass(frozen=True)
class ScanPlan:
    """Everything a reader needs to produce the rows, and nothing that has to be looked up again.

    `schema` is the schema of the result; `file_fields` are the columns of data files by the schema id they were
    written with. `columns` are the output columns in order; `filter` is complete: pruning only saved work, every
    row read is still tested. `root` and `branch` tell where the snapshot lies (without a root nobody looks whether it
    is still there); `of_changes`: the files are those that the snapshot brought, not those of its rows.
    """

    table: str
    schema: TableSchema
    columns: tuple[str, ...]
    filter: Filter
    sections: tuple[Section, ...]
    snapshot: Snapshot | None = None
    merge: MergeSpec | None = None
    limit: int | None = None
    file_fields: Mapping[int, tuple[DataField, ...]] = field(default_factory=dict, hash=False)
    file_options: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    steps: tuple[PruneStep, ...] = ()
    fallback: ScanPlan | None = None
    root: str = field(default="", repr=False)
    branch: str = field(default=MAIN_BRANCH, repr=False)
    of_changes: bool = False

    @property
    def parts(self) -> tuple[ScanPlan, ...]:
        """This plan, and the one of the fallback branch: their rows together are the result."""
        return (self,) if self.fallback is None else (self, *self.fallback.parts)

    def with_columns(self, columns: tuple[str, ...]) -> ScanPlan:
        """The same rows with other output columns: sections and pruning stay as they are."""
        fallback = None if self.fallback is None else self.fallback.with_columns(columns)
        return replace(self, columns=columns, fallback=fallback)

    @property
    def drops_retractions(self) -> bool:
        """Whether keys that were deleted have no row: so it is in keyed tables, unless deletions are asked for."""
        return bool(self.schema.primary_keys) and not (self.merge is not None and self.merge.keeps_retractions)

    @property
    def fields(self) -> tuple[DataField, ...]:
        """Output columns."""
        return tuple(self.schema.by_name[name] for name in self.columns)

    @property
    def read_columns(self) -> tuple[str, ...]:
        """Output columns and those that only the filter reads, in schema order after the output columns."""
        extra = (f.name for f in self.schema.fields if f.name in self.filter.columns and f.name not in self.columns)
        return (*self.columns, *extra)

    @cached_property
    def files(self) -> tuple[DataFile, ...]:
        return tuple(file for section in self.sections for file in section.files)

    @cached_property
    def stored_rows(self) -> int:
        """Rows in all files, before masks and filter."""
        return sum(file.row_count for file in self.files)
