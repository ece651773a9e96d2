"""The plan of a read: immutable data that prints, compares and pickles. Readers execute it and decide nothing more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property

import msgspec

from morrow.engine.format.binary_row import Value
from morrow.engine.format.data_file_meta import EMPTY_ROW
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.plan.filter import Filter
from morrow.engine.telling import one_line, shown_lines
from morrow.engine.values import replace
from morrow.engine.wording import plural

MOST_SHOWN = 20
"""Columns that the repr of a plan names."""


class DeletionRef(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The location of the deletion vector of a data file; `cardinality` is null in files of old versions."""

    path: str
    offset: int
    length: int
    cardinality: int | None = None


class DataFile(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A data file to read.

    `delete_rows` is null when its writer did not count retractions; `modern_dates` are the DATE columns of an ORC file,
    by their names in it, that statistics say to hold no date of which its calendars think differently.
    """

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
    modern_dates: tuple[str, ...] = ()

    @property
    def may_hold_retractions(self) -> bool:
        return self.delete_rows is None or self.delete_rows > 0


class ManyFiles(Sequence[DataFile], ABC):
    """Files that are made when asked for; equal to a tuple of them."""

    __slots__ = ()

    @property
    @abstractmethod
    def row_count(self) -> int: ...

    @property
    @abstractmethod
    def size(self) -> int: ...


class SectionKind(StrEnum):
    """The ways in which the files of a section become rows."""

    RAW = "raw"
    """Every row that is not masked is a row of the table."""
    MERGE = "merge"
    """Files overlap in keys: versions of a key are merged."""
    STITCH = "stitch"
    """Files hold different columns of the same row ids (data evolution)."""


class KeyCut(msgspec.Struct, frozen=True):
    """The keys whose column `column` is in [`low`, `high`); None is unbounded. All versions of a key are in one cut."""

    column: str
    low: Value | None
    high: Value | None


class Section(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Files of one bucket that are read together, with the values of their partition.

    `partition_row` is the partition as metadata stores it, and identifies it: values that compare equal (0.0 and -0.0)
    may be two partitions, and values that do not (NaN) one. `key_low` and `key_high` bound all keys of a MERGE section
    (both included). Of a section with a `cut`, masks have the rows of these keys alone, which the filter of its plan
    names as well.
    """

    kind: SectionKind
    partition: tuple[Value | None, ...]
    bucket: int
    files: tuple[DataFile, ...] | ManyFiles
    key_low: tuple[Value | None, ...] | None = None
    key_high: tuple[Value | None, ...] | None = None
    partition_row: bytes = EMPTY_ROW
    cut: KeyCut | None = None

    @property
    def _identity(self) -> Hashable:
        return self.kind, self.partition_row, self.bucket, self.files, self.cut

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Section) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def row_count(self) -> int:
        files = self.files
        return sum(file.row_count for file in files) if isinstance(files, tuple) else files.row_count

    @property
    def size(self) -> int:
        files = self.files
        return sum(file.size for file in files) if isinstance(files, tuple) else files.size


class PruneStep(msgspec.Struct, frozen=True):
    """The result of one step of planning, for explain."""

    name: str
    kept: int
    of: int


class ScanPlan(msgspec.Struct, frozen=True, dict=True):
    """A complete plan: a reader needs nothing else to produce the rows.

    `schema` is the schema of the result; `file_fields` are the columns of data files by the schema id they were
    written with. `columns` are output columns in order; `filter` is complete: pruning only saves work, all rows read
    are still tested. `root` and `branch` locate the snapshot (without a root, whether it still exists is not checked);
    `of_changes`: the files are those that the snapshot changed, not those of its rows. `roots` are the folders of the
    store below which every data file has to lie, links followed.
    """

    table: str
    schema: TableSchema
    columns: tuple[str, ...]
    filter: Filter
    sections: tuple[Section, ...]
    snapshot: Snapshot | None = None
    merge: MergeSpec | None = None
    limit: int | None = None
    file_fields: Mapping[int, tuple[DataField, ...]] = msgspec.field(default_factory=dict)
    file_options: Mapping[str, str] = msgspec.field(default_factory=dict)
    steps: tuple[PruneStep, ...] = ()
    fallback: ScanPlan | None = None
    root: str = ""
    branch: str = MAIN_BRANCH
    of_changes: bool = False
    roots: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash((self.table, self.columns, self.filter, self.sections, self.snapshot, self.limit))

    def __repr__(self) -> str:
        """Returns a few lines; `Scan.explain` tells the whole plan."""
        snapshot = "none" if self.snapshot is None else self.snapshot.id
        columns = ", ".join([*self.columns[:MOST_SHOWN], *(["..."] if self.columns[MOST_SHOWN:] else [])])
        lines = [
            f"ScanPlan({one_line(self.table)!r}, snapshot {snapshot}, schema {self.schema.id}",
            f"  columns: {columns}",
            f"  filter: {self.filter.predicate}, limit: {self.limit}",
            f"  {plural(len(self.files), 'file')}, {plural(len(self.sections), 'section')})",
        ]
        return shown_lines("\n".join(map(one_line, lines)))

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(repr(self))}</pre>"

    @property
    def parts(self) -> tuple[ScanPlan, ...]:
        """This plan and that of the fallback branch: their rows together are the result."""
        return (self,) if self.fallback is None else (self, *self.fallback.parts)

    def with_columns(self, columns: tuple[str, ...]) -> ScanPlan:
        """Returns the plan of the same rows with other output columns: sections and pruning stay as they are."""
        fallback = None if self.fallback is None else self.fallback.with_columns(columns)
        return replace(self, columns=columns, fallback=fallback)

    @property
    def drops_retractions(self) -> bool:
        """Whether deleted keys have no row: true for keyed tables, unless deletions are asked for."""
        return bool(self.schema.primary_keys) and not (self.merge is not None and self.merge.keeps_retractions)

    @property
    def fields(self) -> tuple[DataField, ...]:
        """Output columns."""
        return tuple(self.schema.by_name[name] for name in self.columns)

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The output columns, followed by those that only the filter reads, in schema order."""
        extra = (f.name for f in self.schema.fields if f.name in self.filter.columns and f.name not in self.columns)
        return (*self.columns, *extra)

    @cached_property
    def files(self) -> tuple[DataFile, ...]:
        return tuple(file for section in self.sections for file in section.files)

    @cached_property
    def stored_rows(self) -> int:
        """Rows in all files, before masks and filter."""
        return sum(file.row_count for file in self.files)
