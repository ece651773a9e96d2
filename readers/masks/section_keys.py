"""The columns that order the versions of a section's keys, read by key range.

Ranges have two uses. A section larger than memory is merged range by range, several ranges at once. And if row groups
of only one file cover a range, its keys are not read, since no row of the range can be superseded.

Dense keys are not decoded either. Files of tables with keys are sorted and hold a key once. If the greatest key of a
row group less its least is one less than its rows, its keys are all numbers between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import CorruptFile
from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import make_series
from morrow.engine.format.schema import SEQUENCE_NUMBER, SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD
from morrow.engine.io.store import FileStore
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.names import POSITION, col, cols, get_series
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section
from morrow.engine.polars_threads import open_threads
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.files import FileSource, translate_errors
from morrow.readers.files.file_frames import collect_frames, scan_files, translate_file_errors
from morrow.readers.files.registry import find_file_reader
from morrow.readers.masks.packed_keys import KeyPacking, find_cuts, slice_frames

RANGE_ROWS = 1 << 21
"""Approximate number of rows merged at once when a section is cut; row groups are not split."""

MAX_WHOLE_ROWS = 1 << 22
"""Sections up to this many rows are merged in one piece, unless cutting saves reading."""

NUMBER_ROWS_FACTOR = 2
"""Factor on the row limits if only one number of each row is read."""

MAX_FEW_ROWS = 1 << 18
"""Sections up to this many rows are merged whole: reading their row group statistics would cost more than it saves."""

RANGED_TYPES: tuple[type[t.DataType], ...] = (
    *(t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.DateType),
    *(t.CharType, t.VarCharType),
)
"""Key types whose Parquet statistics pyarrow returns as values that compare like the keys."""

MAX_MERGED_SHARE = 0.7
"""A section that could be merged whole is cut only when at most this share of its rows must be merged."""


class KeyRange(msgspec.Struct, frozen=True):
    """A range of keys whose first column is in [`low`, `high`); None is unbounded. `files` hold rows of the range.

    `column` names the key column of the bounds, if not the first.
    """

    low: Any = None
    high: Any = None
    files: tuple[int, ...] = ()
    column: str | None = None

    @property
    def whole(self) -> bool:
        """Whether the range includes all keys."""
        return self.low is None and self.high is None

    def within(self, frame: pl.LazyFrame, column: str) -> pl.LazyFrame:
        """Return the rows of the range; `column` is the first key column."""
        column = self.column or column
        if self.low is not None:
            frame = frame.filter(col(column) >= self.low)
        return frame if self.high is None else frame.filter(col(column) < self.high)


class RowGroup(msgspec.Struct, frozen=True):
    """A row group of a file (by its number) with the least and the greatest value of the first key column."""

    file: int
    rows: int
    low: Any
    high: Any


def find_key_ranges(
    files: Sequence[DataFile],
    first_key: t.DataField,
    stored_names: Sequence[str],
    store: FileStore,
    skip_alone: bool,
    most_rows: int | None = None,
    *,
    numbers: bool = False,
) -> list[KeyRange]:
    """Return the ranges that must be merged; rows outside of them are live.

    Args:
        stored_names: the first key column's name in each file.
        skip_alone: leave out ranges that only one file covers.
        most_rows: the approximate maximum of rows of a range when the section is cut; `RANGE_ROWS` unless given.
        numbers: only one number of each row is read, so larger sections are merged in one piece.
    """
    everything = [KeyRange(files=tuple(range(len(files))))]
    if sum(file.row_count for file in files) <= MAX_FEW_ROWS or not isinstance(first_key.type, RANGED_TYPES):
        return everything
    groups: list[RowGroup] = []
    for number, (file, name) in enumerate(zip(files, stored_names)):
        found = read_row_groups(number, file, name, store)
        if found is None:
            return everything
        groups.extend(found)
    total = sum(group.rows for group in groups)
    ranges = _cut(groups, skip_alone, RANGE_ROWS if most_rows is None else most_rows)
    # One pass over everything is cheaper than ranges that save little.
    if (
        total <= MAX_WHOLE_ROWS * (NUMBER_ROWS_FACTOR if numbers else 1)
        and _count_rows_within(ranges, groups) > total * MAX_MERGED_SHARE
    ):
        return everything
    return ranges


def _count_rows_within(ranges: Sequence[KeyRange], groups: Sequence[RowGroup]) -> int:
    """Count the rows of the row groups that any of the ranges touches."""
    return sum(
        group.rows
        for group in groups
        if any((r.high is None or group.low < r.high) and not group.high < r.low for r in ranges)
    )


def read_row_groups(number: int, file: DataFile, name: str, store: FileStore) -> list[RowGroup] | None:
    """Return the row groups of a file; None if any of them lacks statistics of the column."""
    key_bounds = find_file_reader(file.format, file.path).key_bounds
    if key_bounds is None:
        return None
    with translate_errors(file.path):
        found = key_bounds(FileSource(store, file.path, file.size, file.row_count, file.format), name)
    return None if found is None else [RowGroup(number, each.rows, each.low, each.high) for each in found]


def _cut(groups: Sequence[RowGroup], skip_alone: bool, most_rows: int) -> list[KeyRange]:
    """Return ranges between the least keys of row groups; neighbouring ranges are joined up to `most_rows`."""
    edges = sorted({group.low for group in groups})
    ranges: list[KeyRange] = []
    rows = 0
    for low, high in pairwise([*edges, None]):
        inside = [g for g in groups if (high is None or g.low < high) and not g.high < low]
        covering = tuple(sorted({g.file for g in inside}))
        starting = sum(g.rows for g in inside if not g.low < low)
        if skip_alone and len(covering) < 2:
            rows = 0
            continue
        joins = ranges and ranges[-1].high == low and rows and rows + starting <= most_rows
        if joins:
            ranges[-1] = KeyRange(ranges[-1].low, high, tuple(sorted({*ranges[-1].files, *covering})))
            rows += starting
        else:
            ranges.append(KeyRange(low, high, covering))
            rows = max(starting, 1)
    return ranges


NUMBERS = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)
MIN_DENSE_ROWS = 1 << 17
"""Minimum rows of a file to derive dense keys from its footer; decoding the keys of fewer rows is as fast."""


def read_dense_keys(file: DataFile, key: t.DataField, stored_name: str, store: FileStore) -> pl.Series | None:
    """Return the keys of all rows of a file whose only key column is `key`; None if statistics do not determine them.

    Raises:
        CorruptFile, FileMissing, StorageError: the footer cannot be read, or its row count differs from the metadata.
    """
    if file.row_count < MIN_DENSE_ROWS or not isinstance(key.type, NUMBERS) or store.checks_pages:
        return None
    groups = read_row_groups(0, file, stored_name, store)
    if groups is None or any(group.high - group.low + 1 != group.rows for group in groups):
        return None
    if any(later.low <= earlier.high for earlier, later in pairwise(groups)):
        return None
    dtype = to_polars_dtype(key.type)
    found = [pl.int_range(group.low, group.high + 1, eager=True).cast(dtype) for group in groups]
    return pl.concat(found, rechunk=True).alias(key.name) if found else None


RANGE_WORKERS = 2
"""Number of key ranges merged at once; each holds the keys of about `RANGE_ROWS` rows."""

BOUNDED_TYPES = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.VarCharType, t.DateType)
"""Types of keys that Python compares as Paimon does."""


def order_by_age(section: Section) -> list[int]:
    """Return the numbers of the section's files by age.

    Rows of older files come first, so that row positions decide.
    """
    ages = [(file.min_sequence, file.max_sequence) for file in section.files]
    if len(set(ages)) == len(ages):
        return sorted(range(len(ages)), key=ages.__getitem__)
    return sorted(range(len(ages)), key=lambda i: (ages[i], _count_written(section.files[i])))


def _count_written(file: DataFile) -> int:
    """Return the number in a file's name, by which a writer counts its files."""
    count = file.path.rpartition("-")[2].partition(".")[0]
    return int(count) if count.isascii() and count.isdigit() else 0


class SectionKeys(msgspec.Struct, frozen=True, dict=True):
    """The keys of one section; `files` are its files, oldest first."""

    plan: ScanPlan
    section: Section
    store: FileStore
    files: tuple[DataFile, ...]

    @classmethod
    def of(cls, plan: ScanPlan, section: Section, store: FileStore) -> SectionKeys:
        return cls(plan, section, store, tuple(section.files[i] for i in order_by_age(section)))

    @property
    def spec(self) -> MergeSpec:
        assert self.plan.merge is not None
        return self.plan.merge

    @cached_property
    def by_number(self) -> bool:
        """Whether versions must be ordered by ``_SEQUENCE_NUMBER``: a file is not newer than all files before it."""
        return not all(older.max_sequence < newer.min_sequence for older, newer in pairwise(self.files))

    @cached_property
    def with_kind(self) -> bool:
        return any(file.may_hold_retractions for file in self.files)

    @cached_property
    def with_vectors(self) -> bool:
        """Whether deletion vectors mark rows as dead. Dead rows take no part in a merge."""
        return any(file.deletion is not None for file in self.files)

    @cached_property
    def key_fields(self) -> tuple[t.DataField, ...]:
        return tuple(self.plan.schema.by_name[name] for name in self.spec.key)

    @cached_property
    def other_fields(self) -> tuple[t.DataField, ...]:
        """The other deciding columns: sequence fields, sequence number, row kind."""
        sequence = [self.plan.schema.by_name[name] for name in self.spec.sequence if name not in self.spec.key]
        numbers = [SEQUENCE_NUMBER_FIELD] if self.by_number else []
        return (*sequence, *numbers, *([VALUE_KIND_FIELD] if self.with_kind else []))

    @property
    def deciding_fields(self) -> tuple[t.DataField, ...]:
        """The key and the other deciding columns."""
        return (*self.key_fields, *self.other_fields)

    @property
    def are_numbers(self) -> bool:
        """Whether the deciding columns of a row are a single number."""
        return len(self.deciding_fields) == 1 and isinstance(self.key_fields[0].type, NUMBERS)

    @cached_property
    def age(self) -> tuple[str, ...]:
        """The columns that order versions before the position of the row does."""
        return (*self.spec.sequence, *([SEQUENCE_NUMBER] if self.by_number else []))

    @cached_property
    def descending(self) -> tuple[bool, ...]:
        """The sort order of each column of `age`."""
        return tuple(self.spec.descending and name != SEQUENCE_NUMBER for name in self.age)

    @cached_property
    def packing(self) -> KeyPacking | None:
        if self.spec.sequence and set(self.spec.sequence) & set(self.spec.key):
            return None
        return KeyPacking.of(self.key_fields, self.section.key_low, self.section.key_high)

    @property
    def everything(self) -> KeyRange:
        """One range of all keys."""
        return KeyRange(files=tuple(range(len(self.files))))

    @cached_property
    def ranges(self) -> list[KeyRange]:
        """The key ranges in which several files overlap; rows outside of them have one version, or are cut off."""
        return self.ranges_of(None)

    def ranges_of(self, most_rows: int | None) -> list[KeyRange]:
        """Return `ranges` with about `most_rows` rows each; for a section with a cut, the cut."""
        if (cut := self.section.cut) is not None:
            return [KeyRange(cut.low, cut.high, tuple(range(len(self.files))), cut.column)]
        names, skip = self.stored_names(), not self.with_kind and not self.with_vectors
        numbers = most_rows is None and self.are_numbers
        return find_key_ranges(self.files, self.key_fields[0], names, self.store, skip, most_rows, numbers=numbers)

    def levels(self, files: Sequence[int], heights: Sequence[int]) -> npt.NDArray[np.integer] | None:
        """Return the level of each row of these files; None if levels do not affect which rows count."""
        levels = [self.files[number].level for number in files]
        if not self.spec.looks_up or len({level for level in levels if level > 0}) < 2:
            return None
        return np.repeat(np.array(levels, np.int32), heights)

    def each_range(self, work: Callable[[KeyRange], None]) -> None:
        """Run `work` for all ranges, several at once; ranges share no row."""
        if len(self.ranges) == 1:
            work(self.ranges[0])
            return
        with open_threads(RANGE_WORKERS) as pool:
            list(pool.map(work, self.ranges))

    def stored_names(self) -> list[str]:
        """Return the name of the first key column in each file."""
        identity = self.key_fields[0].id
        stored = {i: next(f.name for f in fields if f.id == identity) for i, fields in self.plan.file_fields.items()}
        return [stored[file.schema_id] for file in self.files]

    def read(self, part: KeyRange, packing: KeyPacking | None) -> list[pl.DataFrame]:
        """Read the deciding columns of each file in the range, with positions unless the range is everything."""
        fields = self.deciding_fields
        if part.whole and packing is None:
            read = self._read_files(fields, self.key_fields)
            self._check_bounds(read)
            return read
        frames = []
        for number in part.files:
            frame = scan_files(
                self.plan, self.section, [self.files[number]], fields, self.store, position=not part.whole
            )
            frame = part.within(frame, self.key_fields[0].name)
            if packing is not None:
                others = cols([*(f.name for f in self.other_fields), *([] if part.whole else [POSITION])])
                frame = frame.select(*packing.expressions, *others)
            frames.append(frame)
        with translate_file_errors(self.plan, [self.section], fields, self.store):
            read = collect_frames(frames)
        if part.whole:
            self.checked_heights(read)
        return read

    def _read_files(self, fields: Sequence[t.DataField], key: Sequence[t.DataField]) -> list[pl.DataFrame]:
        """Read all rows of each file with `fields`; the columns `key` among them may be derived from statistics."""
        names = self.stored_names()
        told = [
            read_dense_keys(file, key[0], name, self.store) if len(key) == len(self.spec.key) == 1 else None
            for file, name in zip(self.files, names)
        ]
        read: list[pl.DataFrame] = [pl.DataFrame() if keys is None else keys.to_frame() for keys in told]
        decoded = [[field for field in fields if keys is None or field.name != keys.name] for keys in told]
        wanted = [number for number, each in enumerate(decoded) if each]
        frames = [scan_files(self.plan, self.section, [self.files[i]], decoded[i], self.store) for i in wanted]
        with translate_file_errors(self.plan, [self.section], fields, self.store):
            found = collect_frames(frames)
        for number, frame in zip(wanted, found):
            keys = told[number]
            self._check_height(self.files[number], frame)
            read[number] = frame if keys is None else frame.insert_column(0, keys)
        self.checked_heights(read)
        return [frame.select(cols(field.name for field in fields)) for frame in read]

    def check(self, frames: Sequence[pl.DataFrame]) -> None:
        """Check all rows of each file, with unpacked keys, against the plan.

        Raises `CorruptFile`: a file has more or fewer rows, or keys outside of the section's.
        """
        self.checked_heights(frames)
        self._check_bounds(frames)

    def read_whole(self, names: Sequence[str]) -> list[pl.DataFrame]:
        """Read all rows of each file with the deciding columns and `names`."""
        values = (self.plan.schema.by_name[name] for name in names)
        fields = tuple(dict.fromkeys((*self.deciding_fields, *values)))
        read = self._read_files(fields, [field for field in self.key_fields if field.name not in names])
        self._check_bounds(read)
        return read

    def _check_bounds(self, frames: Sequence[pl.DataFrame]) -> None:
        """Check the first and last row of each file against the key bounds that the plan used for the section.

        Raises `CorruptFile`: a key lies outside, so another section may have it as well.
        """
        low, high = self.section.key_low, self.section.key_high
        if low is None or high is None or not isinstance(self.key_fields[0].type, BOUNDED_TYPES):
            return
        for file, frame in zip(self.files, frames):
            keys = get_series(frame, self.key_fields[0].name)
            if len(keys) and (keys[0] < low[0] or keys[-1] > high[0]):
                found, said = f"{keys[0]!r} to {keys[-1]!r}", f"{low[0]!r} to {high[0]!r}"
                raise CorruptFile(file.path, f"its keys go from {found}, outside of the manifest's {said}")

    def parts(self, frames: Sequence[pl.DataFrame]) -> list[list[pl.DataFrame]]:
        """Split all rows of the files into parts that share no key, to be processed at once; see `find_cuts`."""
        return slice_frames(frames, find_cuts(frames, self.key_fields[0]))

    def deciding(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the columns that decide which rows live, of rows in memory; keys are packed as in `read`."""
        if self.packing is None:
            return self.unpacked(frame)
        others = frame.select(cols(field.name for field in self.other_fields))
        return pl.DataFrame([*self.packing.words(frame), *others.iter_columns()])

    def unpacked(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the same columns as `deciding`, without packing keys."""
        return frame.select(cols([*self.spec.key, *(field.name for field in self.other_fields)]))

    def keyed(
        self, frames: Sequence[pl.DataFrame], unpacked: Callable[[], Sequence[pl.DataFrame]]
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return all rows of `frames` in sequence, and their keys, packed into one number each if that is exact.

        Args:
            frames: deciding columns, keys as `packing` has them.
            unpacked: returns the frames with unpacked keys, called if packing proves to be inexact.
        """
        versions = pl.concat(frames)
        keys = self.packed(versions)
        if keys is None:
            if self.packing is not None:
                versions = pl.concat(unpacked())
            keys = versions.select(cols(self.spec.key))
        return versions, keys

    def packed(self, versions: pl.DataFrame) -> pl.DataFrame | None:
        if self.packing is None or self.section.key_low is None or self.section.key_high is None:
            return None
        packed = self.packing.pack(versions, self.section.key_low, self.section.key_high)
        return None if packed is None else pl.DataFrame([make_series(packed).alias("key")])

    def checked_heights(self, frames: Sequence[pl.DataFrame]) -> list[int]:
        """Return the row count of each file. Raises `CorruptFile` if it differs from the manifest entry."""
        for file, frame in zip(self.files, frames):
            self._check_height(file, frame)
        return [frame.height for frame in frames]

    @staticmethod
    def _check_height(file: DataFile, frame: pl.DataFrame) -> None:
        if frame.height != file.row_count:
            raise CorruptFile(file.path, f"{frame.height} rows where the manifest says {file.row_count}")
