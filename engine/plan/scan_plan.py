"""The request of a scan and the plan of a read: immutable data that prints, compares and pickles.

Readers execute a plan and make no decisions of their own.

The files of a large plan are packed: one column for each member, from which `DataFile` values are made on demand. A
million files with paths of 80 characters take 110 MiB packed, and 320 MiB as objects. A reader that iterates over a
plan section by section holds the files of one section at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import repeat
from typing import Any, TypeAlias, overload

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format.binary_row import Value
from morrow.engine.format.file_formats import BLOB
from morrow.engine.format.manifest_entries import EMPTY_ROW
from morrow.engine.format.paths import MAIN_BRANCH, POSTPONE_BUCKET
from morrow.engine.format.schema import TRACKED, TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.options import TableOptions
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.predicate import ALWAYS, split_conjuncts
from morrow.engine.plan.time_travel import Travel
from morrow.engine.redaction import clean_lines, escape_to_line
from morrow.engine.structs import replace
from morrow.engine.units import format_count, format_moment, format_size

MAX_SHOWN_COLUMNS = 20
"""The limit of columns that the repr of a plan names."""


class DeletionRef(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The location of the deletion vector of a data file; `cardinality` is null in files of old versions.

    `rows`: rows of the file outside of this range are dead, too; `cardinality` includes them. The path is empty if
    there is no deletion vector.
    """

    path: str
    offset: int
    length: int
    cardinality: int | None = None
    rows: tuple[int, int] | None = None


class DataFile(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A data file to read.

    `delete_rows` is null if its writer did not count retractions. `modern_dates` are DATE columns of an ORC file, by
    their names in the file. According to statistics, they hold no date on which the calendars of ORC differ.
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
    def snapshot_id(self) -> int | None:
        """The snapshot of all rows of a file in a table with ``sequence.snapshot-ordering``; None if they differ.

        Commits replace the sequence numbers in the metadata of appended files by their snapshot. The numbers in such
        files do not count. Files of compactions hold the snapshot of each row.
        """
        return self.min_sequence if self.min_sequence == self.max_sequence else None

    @property
    def may_hold_retractions(self) -> bool:
        return self.delete_rows is None or self.delete_rows > 0


class ManyFiles(Sequence[DataFile], ABC):
    """Files that are made on demand; equal to a tuple of the same files."""

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
    POSTPONED = "postponed"
    """Rows without a bucket are merged with all rows of their partition (``postpone.merge-on-read``)."""


class KeyCut(msgspec.Struct, frozen=True):
    """The keys whose column `column` is in [`low`, `high`); None is unbounded. All versions of a key are in one cut."""

    column: str
    low: Value | None
    high: Value | None


class Section(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Files of one bucket that are read together, with the values of their partition.

    `partition_row` is the partition as metadata stores it, and identifies it: values that compare equal (0.0 and -0.0)
    may be two partitions, and values that do not (NaN) one. `key_low` and `key_high` bound all keys of a MERGE section
    (both included). In a section with a `cut`, masks cover only the rows of these keys; the filter of its plan contains
    the cut, too. `beneath` are the sections whose rows the last files of a POSTPONED section are merged with; `files`
    has their files, too.
    """

    kind: SectionKind
    partition: tuple[Value | None, ...]
    bucket: int
    files: tuple[DataFile, ...] | ManyFiles
    key_low: tuple[Value | None, ...] | None = None
    key_high: tuple[Value | None, ...] | None = None
    partition_row: bytes = EMPTY_ROW
    cut: KeyCut | None = None
    beneath: tuple[Section, ...] = ()

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

    @property
    def read_rows(self) -> tuple[int, int]:
        """The first position that is read of one file or of stitched files, and the position after the last one."""
        file = self.files[self.marked_file]
        return (file.deletion and file.deletion.rows) or (0, file.row_count)

    @property
    def postponed_files(self) -> tuple[DataFile, ...]:
        """The files in the postponed bucket of a POSTPONED section, in the order of their writing."""
        return tuple(self.files[sum(len(section.files) for section in self.beneath) :])

    def with_rows(self, first: int, last: int) -> Section:
        """Return the section of one file or of stitched files, with all other rows marked as dead."""
        if self.read_rows == (first, last):
            return self
        files, number = list(self.files), self.marked_file
        file = files[number]
        ref = DeletionRef("", 0, 0) if file.deletion is None else file.deletion
        dead = None if ref.path else file.row_count - (last - first)
        files[number] = replace(file, deletion=replace(ref, cardinality=dead, rows=(first, last)))
        return msgspec.structs.replace(self, files=tuple(files))

    @property
    def marked_file(self) -> int:
        """The number of the file whose deletion vector applies to all rows of the section."""
        return max(range(len(self.files)), key=lambda n: (self.files[n].row_count, self.files[n].deletion is not None))

    @property
    def newest_file(self) -> str:
        """The name of the file with the newest rows, which compactions remove first."""
        return max(self.files, key=lambda file: file.max_sequence).path.rpartition("/")[2]


class PruneStep(msgspec.Struct, frozen=True):
    """The result of one step of planning, for explain."""

    name: str
    kept: int
    of: int


class ScanPlan(msgspec.Struct, frozen=True, dict=True):
    """A complete plan: a reader needs nothing else to produce the rows.

    `schema` is the schema of the result; `file_fields` are the columns of data files by the schema id they were written
    with. `columns` are output columns in order. `filter` is complete: pruning only saves work, all rows read are still
    tested. `root` and `branch` locate the snapshot; without a root, its existence is not checked. `of_changes`: the
    snapshot changed these files, they do not hold its rows. `roots` are the folders of the store that must contain
    every data file, after links are resolved. `allowed_roots` are further URLs, in any store, that descriptors of blobs
    may name.
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
    allowed_roots: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash((self.table, self.columns, self.filter, self.sections, self.snapshot, self.limit))

    def __repr__(self) -> str:
        """Return a summary in a few lines; `Scan.explain` formats the whole plan."""
        snapshot = "none" if self.snapshot is None else self.snapshot.id
        columns = ", ".join([*self.columns[:MAX_SHOWN_COLUMNS], *(["..."] if self.columns[MAX_SHOWN_COLUMNS:] else [])])
        lines = [
            f"ScanPlan({escape_to_line(self.table)!r}, snapshot {snapshot}, schema {self.schema.id}",
            f"  columns: {columns}",
            f"  filter: {self.filter.predicate}, limit: {self.limit}",
            f"  {format_count(len(self.files), 'file')}, {format_count(len(self.sections), 'section')})",
        ]
        return clean_lines("\n".join(map(escape_to_line, lines)))

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(repr(self))}</pre>"

    @property
    def parts(self) -> tuple[ScanPlan, ...]:
        """This plan and the plan of the fallback branch: their rows together are the result."""
        return (self,) if self.fallback is None else (self, *self.fallback.parts)

    def with_columns(self, columns: tuple[str, ...]) -> ScanPlan:
        """Return the plan of the same rows with other output columns: sections and pruning stay as they are."""
        fallback = None if self.fallback is None else self.fallback.with_columns(columns)
        return replace(self, columns=columns, fallback=fallback)

    @property
    def drops_retractions(self) -> bool:
        """Whether deleted keys produce no row: true for keyed tables, unless deletions are requested."""
        return bool(self.schema.primary_keys) and not (self.merge is not None and self.merge.keeps_retractions)

    def folds(self, section: Section) -> bool:
        """Return whether versions of a key are combined in this section."""
        return section.kind is SectionKind.MERGE and self.merge is not None and self.merge.folds

    @property
    def fields(self) -> tuple[DataField, ...]:
        """Output columns."""
        return tuple(self.schema.by_name[name] for name in self.columns)

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The output columns, followed by columns that only the filter reads, in schema order."""
        extra = (f.name for f in self.schema.fields if f.name in self.filter.columns and f.name not in self.columns)
        return (*self.columns, *extra)

    @cached_property
    def files(self) -> tuple[DataFile, ...]:
        return tuple(file for section in self.sections for file in section.files)

    @cached_property
    def blob_files(self) -> tuple[str, ...]:
        """The paths of all blob files, sorted: frames of sections refer to them by number."""
        return tuple(sorted({file.path for file in self.files if file.format == BLOB}))

    @cached_property
    def stored_rows(self) -> int:
        """Rows in all files, before masks and filter."""
        return sum(file.row_count for file in self.files)


def list_tracked_fields(schema: TableSchema, options: TableOptions) -> tuple[DataField, ...]:
    """Return the columns of row tracking that a scan may name; none without row tracking or with such a column."""
    if not options.row_tracking or schema.primary_keys:
        return ()
    return tuple(field for field in TRACKED if field.name not in schema.by_name)


class ScanRequest(msgspec.Struct, frozen=True, dict=True):
    """A caller's request: output columns in order, a parsed filter, a limit; snapshot and schema are resolved.

    `travel` is how the caller selected this snapshot, if that matters later. `merge` overrides the table's own merge.
    Partitions `left_out` (in stored form) are not read, nor are files of keyed tables below `least_level`. `extra` are
    columns in addition to the schema, which readers compute (`morrow.readers.files.file_frames`). `keeps_retractions`
    returns deleted keys as rows, too. With `searches_indexes`, sections may have only some rows of their files, those
    that match according to global indexes.
    """

    schema: TableSchema
    options: TableOptions
    snapshot: Snapshot | None
    columns: tuple[str, ...]
    filter: Filter
    limit: int | None = None
    travel: Travel = msgspec.field(default_factory=Travel)
    left_out: frozenset[bytes] = frozenset()
    least_level: int = 0
    extra: tuple[DataField, ...] = ()
    keeps_retractions: bool = False
    merge: MergeSpec | None = None
    searches_indexes: bool = False

    @property
    def merges_postponed(self) -> bool:
        """Whether rows without a bucket are read. Compacted rows alone have none."""
        options = self.options
        return options.merges_postponed and options.bucket == POSTPONE_BUCKET and not self.least_level

    @cached_property
    def read_schema(self) -> TableSchema:
        """`schema` with the extra columns: the columns that `columns` and `filter` may name."""
        return replace(self.schema, fields=(*self.schema.fields, *self.extra)) if self.extra else self.schema


MAX_UNPACKED_FILES = 1 << 12
"""The number of packed files that are made at once during an iteration over all of them."""

Column: TypeAlias = npt.NDArray[np.integer] | pl.Series | tuple[Any]
"""Integers, other values, or a single value shared by all files."""


class PackedFiles(ManyFiles):
    """Consecutive files of `columns`, which are the columns of `DataFile` without the deletion vectors."""

    __slots__ = ("_columns", "_deletions", "_first", "_last")

    def __init__(self, columns: Sequence[Column], deletions: Mapping[int, DeletionRef], first: int, last: int) -> None:
        self._columns, self._deletions = columns, deletions
        self._first, self._last = first, last

    @classmethod
    def of(cls, described: pl.DataFrame, deletions: Mapping[int, DeletionRef]) -> PackedFiles:
        """Pack files: columns in the order of `DataFile`, lists for its tuples; `deletions` by row number."""
        return cls([_pack_column(each) for each in described.get_columns()], deletions, 0, described.height)

    def __len__(self) -> int:
        return self._last - self._first

    def __iter__(self) -> Iterator[DataFile]:
        for first in range(self._first, self._last, MAX_UNPACKED_FILES):
            yield from self._make(first, min(first + MAX_UNPACKED_FILES, self._last))

    @overload
    def __getitem__(self, at: int) -> DataFile: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[DataFile, ...] | PackedFiles: ...
    def __getitem__(self, at: int | slice) -> DataFile | tuple[DataFile, ...] | PackedFiles:
        if isinstance(at, slice):
            first, last, step = at.indices(len(self))
            if step != 1:
                return tuple(self)[at]
            return PackedFiles(self._columns, self._deletions, self._first + first, self._first + max(first, last))
        number = range(self._first, self._last)[at]
        return next(self._make(number, number + 1))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (tuple, PackedFiles)):
            return NotImplemented
        return len(self) == len(other) and all(one == another for one, another in zip(self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"PackedFiles({len(self)} files)"

    @property
    def row_count(self) -> int:
        return self._total("row_count")

    @property
    def size(self) -> int:
        return self._total("size")

    def _total(self, member: str) -> int:
        column = self._columns[DataFile.__struct_fields__.index(member)]
        if isinstance(column, tuple):
            return int(column[0]) * len(self)
        return int(column[self._first : self._last].sum())

    def _make(self, first: int, last: int) -> Iterator[DataFile]:
        *members, written, dates = (_unpack_values(column, first, last) for column in self._columns)
        deletions: Iterable[DeletionRef | None] = (
            map(self._deletions.get, range(first, last)) if self._deletions else repeat(None, last - first)
        )
        return map(DataFile, *members, map(_to_tuple, written), deletions, map(_to_names, dates))


def _pack_column(column: pl.Series) -> Column:
    if column.null_count() == len(column):
        return (None,)
    if not column.null_count() and not column.dtype.is_nested() and column.n_unique() == 1:
        return (column[0],)
    return column.to_numpy() if column.dtype.is_integer() and not column.null_count() else column.rechunk()


def _unpack_values(column: Column, first: int, last: int) -> Iterable[Any]:
    if isinstance(column, tuple):
        return repeat(column[0], last - first)
    if isinstance(column, np.ndarray):
        return column[first:last].tolist()  # type: ignore[no-any-return]  # integers
    return column.slice(first, last - first).to_list()


def _to_tuple(names: list[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _to_names(names: list[str] | None) -> tuple[str, ...]:
    return tuple(names or ())


MAX_EXPLAINED_SECTIONS = 10
MAX_EXPLAINED_COLUMNS = 40


def explain_plan(plan: ScanPlan) -> str:
    """Format the plan, one fact per line."""
    return "\n".join(line for part in plan.parts for line in _format_lines(part))


def _format_lines(plan: ScanPlan) -> Iterator[str]:
    yield f"Scan of {plan.table}"
    if plan.snapshot is None:
        yield "  snapshot   none: the table has no committed data"
        return
    read = plan.snapshot
    yield f"  snapshot   {read.id} ({read.commit_kind}, {format_moment(read.time)}), schema {plan.schema.id}"
    more = (
        f", ... and {len(plan.columns) - MAX_EXPLAINED_COLUMNS:,} more"
        if len(plan.columns) > MAX_EXPLAINED_COLUMNS
        else ""
    )
    yield f"  columns    {', '.join(plan.columns[:MAX_EXPLAINED_COLUMNS]) or '(none)'}{more}"
    yield from _format_filter(plan)
    if plan.limit is not None:
        yield f"  limit      {plan.limit}"
    merge = str(plan.merge or "none: an append table")
    yield f"  merge      {merge}".replace("\n", "\n" + " " * 11)
    for step in plan.steps:
        yield f"  pruned     {step.name}: kept {step.kept:,} of {step.of:,}"
    files = list({file.path: file for file in plan.files}.values())  # sections may have ranges of one file
    size, rows = sum(f.size for f in files), sum(f.row_count for f in files)
    yield f"  files      {format_count(len(files), 'file')}, {format_size(size)}, {format_count(rows, 'row')} stored"
    yield f"  masks      {_describe_masks(plan)}"
    yield f"  sections   {_count_kinds(plan)}"
    for section in plan.sections[:MAX_EXPLAINED_SECTIONS]:
        yield f"    {_describe_section(plan, section)}"
    if len(plan.sections) > MAX_EXPLAINED_SECTIONS:
        yield f"    ... and {len(plan.sections) - MAX_EXPLAINED_SECTIONS:,} more"


def _format_filter(plan: ScanPlan) -> Iterator[str]:
    if plan.filter.predicate == ALWAYS and not plan.filter.residuals:
        yield "  filter     none"
        return
    if plan.filter.predicate != ALWAYS:
        for part in split_conjuncts(plan.filter.predicate):
            yield f"  pushed     {part}"
    for residual in plan.filter.residuals:
        how = "" if residual.parts is None else "; columns of shredded files answer it"
        yield f"  after      {residual.text} ({residual.kind} expression on the rows read{how})"


def _describe_masks(plan: ScanPlan) -> str:
    vectors = sum(file.deletion is not None for file in plan.files)
    merged = sum(len(s.files) for s in plan.sections if s.kind is SectionKind.MERGE)
    dead = [f.deletion.cardinality for f in plan.files if f.deletion is not None]
    known = "" if None in dead else f" ({format_count(sum(d for d in dead if d is not None), 'dead row')})"
    return (
        f"{format_count(vectors, 'deletion vector')}{known if vectors else ''}, {format_count(merged, 'file')} masked "
        "by their keys"
    )


def _count_kinds(plan: ScanPlan) -> str:
    counts = Counter(section.kind for section in plan.sections)
    return ", ".join(f"{counts[kind]:,} {kind.value}" for kind in SectionKind if counts[kind]) or "none"


def _describe_section(plan: ScanPlan, section: Section) -> str:
    values = ", ".join(f"{k}={v!s}" for k, v in zip(plan.schema.partition_keys, section.partition, strict=True))
    where = f"{values}, bucket {section.bucket}" if values else f"bucket {section.bucket}"
    levels = ",".join(map(str, sorted({file.level for file in section.files})))
    formats = ",".join(sorted({file.format for file in section.files}))
    files, rows = format_count(len(section.files), f"{formats} file"), format_count(section.row_count, "row")
    if any(file.deletion is not None and file.deletion.rows is not None for file in section.files):
        first, last = section.read_rows
        rows += f" ({first:,} to {last - 1:,} are read)"
    return f"{section.kind.value:6} {where}: {files} at level {levels}, {rows}, {format_size(section.size)}"
